use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn rule_of<T: FromStr<Err = NameError> + fmt::Debug>(value: &str) -> NameRule {
    value.parse::<T>().unwrap_err().rule
}

#[test]
fn identifiers_keep_to_their_alphabet_and_length() {
    for good in ["a", "0", "default", "0190b3f1-7c1e-7d2a-9a3b-0123456789ab", "a._-", &"z".repeat(64)] {
        assert_eq!(good.parse::<TenantId>().unwrap().as_str(), good);
        assert_eq!(good.parse::<RunId>().unwrap().to_string(), good);
    }
    for bad in ["A", "a/b", "a b", "a\n", "é", "a\0", "a+b", "..\u{202e}", "a%2f"] {
        assert_eq!(rule_of::<TenantId>(bad), NameRule::LowerAlphabet, "{bad:?}");
        assert_eq!(rule_of::<RunId>(bad), NameRule::LowerAlphabet, "{bad:?}");
    }
    for bad in ["_directory", ".", "..", "-a"] {
        assert_eq!(rule_of::<TenantId>(bad), NameRule::StartsLowerOrDigit, "{bad:?}");
    }
    assert_eq!(rule_of::<RunId>(""), NameRule::Length { min: 1, max: 64 });
    assert_eq!(rule_of::<RunId>(&"z".repeat(65)), NameRule::Length { min: 1, max: 64 });
}

#[test]
fn kinds_start_with_a_letter() {
    for good in ["RunAdmitted", "x", "Message.v2", "a_b-c"] {
        assert!(good.parse::<Kind>().is_ok(), "{good:?}");
    }
    assert_eq!(rule_of::<Kind>("1st"), NameRule::StartsLetter);
    assert_eq!(rule_of::<Kind>("Run Admitted"), NameRule::Alphabet);
    assert_eq!(rule_of::<Kind>("Ünder"), NameRule::Alphabet);
    assert_eq!(rule_of::<Kind>(&"k".repeat(65)), NameRule::Length { min: 1, max: 64 });
}

#[test]
fn outcomes_and_cases_refuse_control_characters_and_count_bytes() {
    for good in ["succeeded", "exit_cost (submitted)", "ü", " ", &"é".repeat(64)] {
        assert!(good.parse::<Outcome>().is_ok(), "{good:?}");
        assert!(good.parse::<CaseId>().is_ok(), "{good:?}");
    }
    for bad in ["a\nb", "\u{7f}", "\u{85}", "\0"] {
        assert_eq!(rule_of::<Outcome>(bad), NameRule::Control, "{bad:?}");
        assert_eq!(rule_of::<CaseId>(bad), NameRule::Control, "{bad:?}");
    }
    assert_eq!(rule_of::<Outcome>(&"é".repeat(65)), NameRule::Length { min: 1, max: 128 });
    assert_eq!(rule_of::<CaseId>(""), NameRule::Length { min: 1, max: 128 });
}

#[test]
fn effects_are_64_lower_case_hex_digits() {
    assert!("0123456789abcdef".repeat(4).parse::<EffectKey>().is_ok());
    for bad in ["", "ab", &"A".repeat(64), &"g".repeat(64), &"a".repeat(63), &"a".repeat(65)] {
        assert_eq!(rule_of::<EffectKey>(bad), NameRule::Hex64, "{bad:?}");
    }
}

#[test]
fn bases_refuse_what_an_origin_cannot_hold() {
    for good in ["example.com/plane", "log", "plane/log", "log/x", "a//b", "ü.example", &"b".repeat(200)] {
        assert!(good.parse::<Base>().is_ok(), "{good:?}");
    }
    for (bad, rule) in [
        ("", NameRule::Length { min: 1, max: 200 }),
        (&*"b".repeat(201), NameRule::Length { min: 1, max: 200 }),
        ("a b", NameRule::SpaceOrPlus),
        ("a\u{a0}b", NameRule::SpaceOrPlus),
        ("a\u{2028}b", NameRule::SpaceOrPlus),
        ("a\u{3000}b", NameRule::SpaceOrPlus),
        ("a+b", NameRule::SpaceOrPlus),
        ("a\nb", NameRule::Control),
        ("a\u{85}b", NameRule::Control),
        ("/a", NameRule::OuterSlash),
        ("a/", NameRule::OuterSlash),
        ("/", NameRule::OuterSlash),
        ("a/log/b", NameRule::LogSeparator),
        ("a/log/log/b", NameRule::LogSeparator),
    ] {
        assert_eq!(rule_of::<Base>(bad), rule, "{bad:?}");
    }
}

#[test]
fn the_default_tenant_has_the_bare_base_as_origin() {
    let base = Base::new("example.com/plane").unwrap();
    assert_eq!(base.origin(&TenantId::default()), "example.com/plane");
    assert_eq!(base.origin(&TenantId::new("acme").unwrap()), "example.com/plane/log/acme");
    assert_eq!(base.record_key_name(), "example.com/plane/records");
}

#[test]
fn an_origin_and_its_tenant_give_the_base_back() {
    let (default, acme) = (TenantId::default(), TenantId::new("acme").unwrap());
    for base in ["example.com/plane", "log", "plane/log"].map(|base| Base::new(base).unwrap()) {
        for tenant in [&default, &acme] {
            assert_eq!(Base::of_origin(&base.origin(tenant), tenant).unwrap(), base);
            assert_eq!(Base::tenant_of(&base.origin(tenant)).as_ref(), Some(tenant));
        }
        assert!(Base::of_origin(&base.origin(&acme), &default).is_err());
        assert!(Base::of_origin(&base.origin(&default), &acme).is_err());
    }
    for origin in ["/log/acme", "x/log/acm", "x/acme", "a/log/b/log/acme", "x y/log/acme", ""] {
        assert!(Base::of_origin(origin, &acme).is_err(), "{origin}");
    }
    for origin in ["/log/acme", "x/log/Acme", "a/log/b/log/acme", "x y/log/acme", ""] {
        assert_eq!(Base::tenant_of(origin), None, "{origin}");
    }
}

#[test]
fn no_two_pairs_of_short_bases_and_tenants_spell_one_origin() {
    // Every base of up to five path parts out of "a" and "log", with every tenant out of the same words.
    let mut bases = vec![String::new()];
    let mut frontier = bases.clone();
    for _ in 0..5 {
        frontier =
            frontier.iter().flat_map(|head| ["a", "log", ""].map(|part| format!("{head}/{part}"))).collect();
        bases.extend(frontier.iter().map(|path| path.trim_start_matches('/').to_owned()));
    }
    bases.sort();
    bases.dedup();
    let mut seen = HashMap::new();
    for base in bases.iter().filter_map(|base| Base::new(base.as_str()).ok()) {
        for tenant in ["default", "a", "log", "log-log"].map(|tenant| TenantId::new(tenant).unwrap()) {
            let origin = base.origin(&tenant);
            if let Some(earlier) = seen.insert(origin.clone(), (base.clone(), tenant.clone())) {
                panic!("{origin} is both {earlier:?} and {:?}", (base, tenant));
            }
        }
    }
    assert!(seen.len() > 100);
}

#[test]
fn deserialising_goes_through_the_same_door() {
    assert_eq!(serde_json::from_str::<TenantId>("\"acme\"").unwrap().as_str(), "acme");
    assert_eq!(serde_json::to_string(&TenantId::default()).unwrap(), "\"default\"");
    let refused = serde_json::from_str::<TenantId>("\"a/b\"").unwrap_err().to_string();
    assert!(refused.starts_with("\"a/b\" is not a valid tenant"), "{refused}");
    assert!(serde_json::from_str::<Base>("\"a/log/b\"").is_err());
}

#[test]
fn an_error_repeats_only_the_start_of_a_long_value() {
    let error = RunId::new("X".repeat(1 << 20)).unwrap_err();
    assert_eq!(error.value.chars().count(), 81);
    assert!(error.to_string().contains("run"));
}

proptest! {
    #[test]
    fn names_order_as_their_bytes(a in "[a-z0-9][a-z0-9._-]{0,9}", b in "[a-z0-9][a-z0-9._-]{0,9}") {
        let (left, right) = (RunId::new(a.as_str()).unwrap(), RunId::new(b.as_str()).unwrap());
        prop_assert_eq!(left.cmp(&right), a.as_bytes().cmp(b.as_bytes()));
    }

    #[test]
    fn origins_hold_nothing_a_note_key_name_refuses(base in "\\PC{1,40}", tenant in "[a-z0-9][a-z0-9._-]{0,9}") {
        if let Ok(base) = Base::new(base) {
            let origin = base.origin(&TenantId::new(tenant).unwrap());
            prop_assert!(!origin.contains(|c: char| c.is_whitespace() || c == '+' || c.is_control()));
        }
    }
}

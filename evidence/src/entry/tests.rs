use proptest::prelude::*;

use super::*;

const CHAIN: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const SEAL: &str = r#"{"chain":"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff","kind":"seal","outcome":"succeeded","records":17,"run":"run-1","tenant":"acme","v":1}"#;
const HEAD: &str = r#"{"chain":"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff","kind":"head","records":12,"run":"run-1","tenant":"acme","v":1}"#;
const TENANT: &str = r#"{"kind":"tenant","origin":"example.com/plane/log/acme","tenant":"acme","v":1,"vkey":"example.com/plane/log/acme+0123abcd+AQID"}"#;

fn seal(outcome: &str, records: u64) -> Entry {
    Entry::Seal(Seal {
        chain: CHAIN.parse().unwrap(),
        outcome: Outcome::new(outcome).unwrap(),
        records: RecordCount::new(records).unwrap(),
        run: RunId::new("run-1").unwrap(),
        tenant: TenantId::new("acme").unwrap(),
    })
}

fn head(records: u64) -> Entry {
    Entry::Head(Head {
        chain: CHAIN.parse().unwrap(),
        records: RecordCount::new(records).unwrap(),
        run: RunId::new("run-1").unwrap(),
        tenant: TenantId::new("acme").unwrap(),
    })
}

fn tenant_log() -> Entry {
    let (base, tenant) = (Base::new("example.com/plane").unwrap(), TenantId::new("acme").unwrap());
    Entry::Tenant(TenantLog::new(base, tenant, "example.com/plane/log/acme+0123abcd+AQID").unwrap())
}

fn text(entry: &Entry) -> String {
    String::from_utf8(entry.encode()).unwrap()
}

#[test]
fn entries_are_spelled_byte_for_byte() {
    for (entry, expected) in [(seal("succeeded", 17), SEAL), (head(12), HEAD), (tenant_log(), TENANT)] {
        assert_eq!(text(&entry), expected);
        assert_eq!(Entry::parse(expected.as_bytes()).unwrap(), entry);
        assert_eq!(Entry::recognise(expected.as_bytes()), Recognised::Ours(entry));
    }
    assert!(text(&seal("a\"b\\c/é\u{2028}", 1)).contains("\"outcome\":\"a\\\"b\\\\c/é\u{2028}\""));
}

#[test]
fn an_entry_has_one_spelling() {
    for (bad, fault) in [
        (
            SEAL.replace("\"records\":17,\"run\":\"run-1\"", "\"run\":\"run-1\",\"records\":17"),
            EntryFault::Spelling,
        ),
        (SEAL.replace("\"v\":1", "\"v\":1,\"w\":1"), EntryFault::Spelling),
        (HEAD.replace("\"records\"", "\"outcome\":\"x\",\"records\""), EntryFault::Spelling),
        (SEAL.replace("17", "1e1"), EntryFault::Records),
        (SEAL.replace("17", "0"), EntryFault::Records),
        (SEAL.replace("17", "9007199254740992"), EntryFault::Records),
        (SEAL.replace("17", "-1"), EntryFault::Records),
        (SEAL.replace("\"records\":17,", ""), EntryFault::Records),
        (SEAL.replace("\"succeeded\"", "null"), EntryFault::NotAString("outcome")),
        (SEAL.replace("aabb", "AABB"), EntryFault::Chain(ChainHashError)),
        (SEAL.replace("\"v\":1", "\"v\":\"1\""), EntryFault::Version),
        (SEAL.replace(",\"v\":1", ""), EntryFault::Version),
        (
            TENANT.replace("acme+0123abcd", "other+0123abcd"),
            EntryFault::VerifierKey { origin: "example.com/plane/log/acme".to_owned() },
        ),
    ] {
        assert_eq!(Entry::parse(bad.as_bytes()), Err(EntryError::Malformed(fault)), "{bad}");
    }
    for bad in
        [format!("{SEAL}\n"), SEAL.replace(":17", ": 17"), SEAL.replace("acme", "\\u0061cme"), String::new()]
    {
        assert!(
            matches!(Entry::parse(bad.as_bytes()), Err(EntryError::Malformed(EntryFault::Json(_)))),
            "{bad}"
        );
    }
    assert!(matches!(
        Entry::parse(TENANT.replace("plane/log/acme\"", "plane/log/other\"").as_bytes()),
        Err(EntryError::Malformed(EntryFault::Origin(_)))
    ));
    assert!(Entry::parse(SEAL.replace("17", "9007199254740991").as_bytes()).is_ok());
}

#[test]
fn skew_is_not_damage() {
    let error = Entry::parse(SEAL.replace("\"v\":1", "\"v\":2").as_bytes()).unwrap_err();
    assert_eq!(error, EntryError::UnknownVersion { found: 2 });
    assert!(error.is_skew());
    let error = Entry::parse(SEAL.replace("seal", "erasure").as_bytes()).unwrap_err();
    assert_eq!(error, EntryError::UnknownKind { kind: "erasure".to_owned() });
}

#[test]
fn other_logs_entries_are_told_from_damaged_ones_of_ours() {
    for foreign in [
        &b"hello"[..],
        b"",
        b"\xff\x00",
        b"{}",
        b"[1]",
        br#"{"kind":"seal"}"#,
        br#"{"apiVersion":"0.0.1","kind":"rekord","spec":{}}"#,
        br#"{"of":{"kind":"seal","tenant":"acme","v":1}}"#,
        br#"{"kind":"seal","tenant":"acme","v":1} {}"#,
    ] {
        assert_eq!(Entry::recognise(foreign), Recognised::Foreign, "{foreign:?}");
    }
    for damaged in [
        SEAL.replace("17", "0"),
        SEAL.replace(":17", ": 17"),
        SEAL.replace("acme", "ACME"),
        SEAL.replace("\"v\":1", "\"v\":2"),
        SEAL.replace("seal", "unseal"),
        format!(" {SEAL}"),
        // What other readers of JSON may take for ours.
        SEAL.replace("\"v\":1", "\"v\":1,\"v\":1"),
        SEAL.replace("\"kind\"", "\"kind\":\"none\",\"kind\""),
        SEAL.replace("\"v\"", "\"\\u0076\""),
        SEAL.replace("succeeded", "\\ud800"),
        SEAL.replace("17", &format!("{}{}", "[".repeat(2000), "]".repeat(2000))),
    ] {
        assert!(matches!(Entry::recognise(damaged.as_bytes()), Recognised::Unreadable(_)), "{damaged}");
    }
    let no_text = SEAL.replace("succeeded", "?").into_bytes().into_iter();
    let no_text: Vec<u8> = no_text.map(|byte| if byte == b'?' { 0xff } else { byte }).collect();
    assert!(matches!(Entry::recognise(&no_text), Recognised::Unreadable(_)));
}

#[test]
fn the_largest_entries_fit() {
    let origin = Base::new("b".repeat(200)).unwrap();
    let tenant = TenantId::new("t".repeat(64)).unwrap();
    let vkey = format!("{}+0123abcd+{}", origin.origin(&tenant), "A".repeat(44));
    let directory = Entry::Tenant(TenantLog::new(origin, tenant, vkey).unwrap());
    for entry in [directory, seal(&"\"".repeat(128), (1 << 53) - 1)] {
        assert!(entry.encode().len() < ENTRY_BYTES_MAX);
        assert_eq!(Entry::parse(&entry.encode()).unwrap(), entry);
    }
    let at_the_limit = Entry::parse(&vec![b' '; ENTRY_BYTES_MAX]);
    assert!(matches!(at_the_limit, Err(EntryError::Malformed(EntryFault::Json(_)))), "{at_the_limit:?}");
    let oversize = vec![b' '; ENTRY_BYTES_MAX + 1];
    assert!(matches!(Entry::parse(&oversize), Err(EntryError::Malformed(EntryFault::TooLarge { .. }))));
}

#[test]
fn the_plain_reading_takes_seals_and_heads_and_nothing_that_the_other_refuses() {
    for plain in [SEAL, HEAD] {
        let view = EntryView::plain(plain.as_bytes()).unwrap();
        assert_eq!(Ok(view.to_entry()), Entry::parse_by_member(plain.as_bytes()));
        assert_eq!((view.is_seal(), view.run(), view.tenant()), (plain == SEAL, "run-1", "acme"));
        // Every change of one byte, and every cut.
        for at in 0..plain.len() {
            for byte in [
                b'0', b'9', b'A', b'a', b'z', b' ', b'"', b'\\', b'{', b'}', b',', b':', 0, 0x1f, 0x7f, 0xc3,
                0xff,
            ] {
                let mut changed = plain.as_bytes().to_vec();
                changed[at] = byte;
                if let Some(view) = EntryView::plain(&changed) {
                    assert_eq!(Entry::parse_by_member(&changed), Ok(view.to_entry()), "{at} {byte}");
                }
            }
            assert_eq!(EntryView::plain(&plain.as_bytes()[..at]), None);
        }
    }
}

proptest! {
    #[test]
    fn encoding_and_parsing_are_inverse(
        chain in any::<[u8; 32]>(),
        outcome in prop::option::of("\\PC{1,32}"),
        records in 1_u64..1 << 53,
        (run, tenant) in ("[a-z0-9][a-z0-9._-]{0,63}", "[a-z0-9][a-z0-9._-]{0,63}"),
    ) {
        let chain = ChainHash::from_bytes(chain);
        let records = RecordCount::new(records).unwrap();
        let (run, tenant) = (RunId::new(run).unwrap(), TenantId::new(tenant).unwrap());
        let entry = match outcome {
            Some(outcome) => Entry::Seal(Seal { chain, outcome: Outcome::new(outcome).unwrap(), records, run, tenant }),
            None => Entry::Head(Head { chain, records, run, tenant }),
        };
        prop_assert_eq!(Entry::parse(&entry.encode()).unwrap(), entry.clone());
        // RFC 8785: members sorted, nothing between tokens. serde_json's default map sorts.
        let value: serde_json::Value = serde_json::from_slice(&entry.encode()).unwrap();
        prop_assert_eq!(value.to_string(), text(&entry));
    }

    #[test]
    fn a_damaged_entry_never_panics_and_never_reads_as_other_bytes(at in 0..SEAL.len(), byte in any::<u8>()) {
        let mut bytes = SEAL.as_bytes().to_vec();
        bytes[at] = byte;
        if let Recognised::Ours(entry) = Entry::recognise(&bytes) {
            prop_assert_eq!(entry.encode(), bytes);
        }
    }
}

#[test]
fn a_tenants_log_says_whose_it_is_and_only_another_version_is_skew() {
    let Ok(Entry::Tenant(log)) = Entry::parse(TENANT.as_bytes()) else { panic!("{TENANT}") };
    assert_eq!(log.origin(), "example.com/plane/log/acme");
    assert_eq!(log.tenant().as_str(), "acme");
    assert_eq!(log.vkey(), "example.com/plane/log/acme+0123abcd+AQID");
    assert!(EntryError::UnknownVersion { found: 2 }.is_skew());
    assert!(!EntryError::UnknownKind { kind: "x".to_owned() }.is_skew());
    assert!(!EntryError::Malformed(EntryFault::Version).is_skew());
}

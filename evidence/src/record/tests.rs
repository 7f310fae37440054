use proptest::prelude::*;

use super::*;

const EFFECT: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn record() -> Record {
    let draft = RecordDraft {
        kind: Kind::new("EffectStarted").unwrap(),
        payload: Json::parse("{\"b\": 12345678901234567890, \"a\": [1.0, \"\\u00e9\\/\"]}".as_bytes())
            .unwrap(),
        effect: Some(EffectKey::new(EFFECT).unwrap()),
        case: Some(CaseId::new("case \"7\"").unwrap()),
    };
    draft.stamp(Stamp {
        at: Timestamp::from_posix_ms(1_796_053_879_123).unwrap(),
        epoch: 3,
        run: RunId::new("run-1").unwrap(),
        seq: 2,
        tenant: TenantId::new("acme").unwrap(),
    })
}

const WIRE: &str = concat!(
    r#"{"at":"2026-11-30T15:51:19.123Z","case":"case \"7\"","#,
    r#""effect":"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff","epoch":3,"#,
    r#""kind":"EffectStarted","payload":{"b":12345678901234567890,"a":[1.0,"é/"]},"#,
    r#""run":"run-1","seq":2,"tenant":"acme","v":1}"#
);

const SMALL: &str = r#"{"at":"1970-01-01T00:00:00.000Z","epoch":1,"kind":"Note","payload":null,"run":"r","seq":1,"tenant":"t","v":1}"#;

fn fault(raw: &str) -> RecordFault {
    match Record::parse(raw.as_bytes()).unwrap_err() {
        RecordError::Malformed(fault) => fault,
        other => panic!("{raw}: {other}"),
    }
}

#[test]
fn a_record_is_spelled_byte_for_byte() {
    assert_eq!(String::from_utf8(record().to_wire().unwrap()).unwrap(), WIRE);
    assert_eq!(Record::parse(WIRE.as_bytes()).unwrap(), record());
}

#[test]
fn case_and_effect_cost_nothing_where_absent() {
    let parsed = Record::parse(SMALL.as_bytes()).unwrap();
    assert_eq!((&parsed.draft.case, &parsed.draft.effect), (&None, &None));
    assert_eq!(parsed.to_wire().unwrap(), SMALL.as_bytes());
}

#[test]
fn members_come_in_one_order_each_once() {
    for (bad, expected, found) in [
        (SMALL.replace(",\"v\":1", ""), "v", "the end"),
        (SMALL.replace("\"v\":1", "\"v\":1,\"w\":2"), "the end", "\"w\""),
        (
            SMALL.replace("\"epoch\":1,\"kind\":\"Note\"", "\"kind\":\"Note\",\"epoch\":1"),
            "epoch",
            "\"kind\"",
        ),
        (SMALL.replace("\"epoch\":1,", "\"epoch\":1,\"effect\":null,"), "kind", "\"effect\""),
        (SMALL.replace("\"at\"", "\"AT\""), "at", "\"AT\""),
        (SMALL.replace("\"payload\":null,", ""), "payload", "\"run\""),
        ("{}".to_owned(), "at", "the end"),
    ] {
        assert_eq!(fault(&bad), RecordFault::Member { expected, found: found.to_owned() }, "{bad}");
    }
    assert!(matches!(fault(&SMALL.replace("\"seq\":1", "\"seq\":1,\"seq\":1")), RecordFault::Json(_)));
}

#[test]
fn only_the_compact_spelling_is_a_record() {
    for bad in [
        SMALL.replace(":null", ": null"),
        format!("{SMALL}\n"),
        format!(" {SMALL}"),
        SMALL.replace("Note", "\\u004eote"),
        SMALL.replace("null", "{\"a\":1,\"a\":1}"),
        SMALL.replace("null", "\"\\ud800\""),
        SMALL.replace("null", "\"\\/\""),
        SMALL.replace("null", &format!("{}{}", "[".repeat(129), "]".repeat(129))),
        "[]".to_owned(),
        String::new(),
    ] {
        assert!(matches!(fault(&bad), RecordFault::Json(_)), "{bad}");
    }
    assert!(
        Record::parse(SMALL.replace("null", &format!("{}{}", "[".repeat(128), "]".repeat(128))).as_bytes())
            .is_ok()
    );
}

#[test]
fn members_are_of_their_type() {
    for number in ["01", "-1", "1.0", "1e0", "18446744073709551616", "\"1\"", "null", "true"] {
        for member in ["epoch", "seq"] {
            let bad = SMALL.replace(&format!("\"{member}\":1"), &format!("\"{member}\":{number}"));
            assert!(
                matches!(fault(&bad), RecordFault::NotAnInteger { member: m } if m == member)
                    || number == "01",
                "{bad}"
            );
        }
    }
    assert!(Record::parse(SMALL.replace("\"seq\":1", "\"seq\":18446744073709551615").as_bytes()).is_ok());
    assert_eq!(fault(&SMALL.replace("\"seq\":1", "\"seq\":0")), RecordFault::SeqZero);
    assert_eq!(fault(&SMALL.replace("\"Note\"", "7")), RecordFault::NotAString { member: "kind" });
    assert!(matches!(fault(&SMALL.replace("\"r\"", "\"R\"")), RecordFault::Name(_)));
    assert!(matches!(fault(&SMALL.replace("1970", "1970-")), RecordFault::Timestamp(_)));
    assert_eq!(fault(&SMALL.replace("\"v\":1", "\"v\":1.0")), RecordFault::NotAnInteger { member: "v" });
}

#[test]
fn another_version_is_skew_and_not_damage() {
    for (raw, found) in [
        (SMALL.replace("\"v\":1", "\"v\":2"), 2),
        (SMALL.replace("\"v\":1", "\"v\":0"), 0),
        (SMALL.replace("\"v\":1", "\"v\":7,\"zone\":{}"), 7),
        ("{\"body\":[],\"v\":2}".to_owned(), 2),
    ] {
        let error = Record::parse(raw.as_bytes()).unwrap_err();
        assert_eq!(error, RecordError::UnknownVersion { found });
        assert!(error.is_skew());
    }
    assert!(!Record::parse(b"{\"v\":\"2\"}").unwrap_err().is_skew());
    assert!(!Record::parse(b"{\"v\":2").unwrap_err().is_skew());
}

#[test]
fn a_record_of_one_mebibyte_fits_and_one_byte_more_does_not() {
    let mut record = record();
    record.draft.payload = Json::string("");
    let overhead = record.to_wire().unwrap().len();
    record.draft.payload = Json::string(&"x".repeat((1 << 20) - overhead));
    let wire = record.to_wire().unwrap();
    assert_eq!(wire.len(), 1 << 20);
    assert_eq!(Record::parse(&wire).unwrap(), record);
    record.draft.payload = Json::string(&"x".repeat((1 << 20) - overhead + 1));
    let error = record.to_wire().unwrap_err();
    assert_eq!(error, RecordError::TooLarge { bytes: (1 << 20) + 1, limit: 1 << 20 });
    assert_eq!(error.to_string(), "the record has 1048577 bytes, more than the 1048576 allowed");
    assert_eq!(Record::parse(&vec![b'x'; (1 << 20) + 1]).unwrap_err(), error);
}

#[test]
fn seq_zero_is_not_written() {
    let mut record = record();
    record.stamp.seq = 0;
    assert_eq!(record.to_wire().unwrap_err(), RecordError::Malformed(RecordFault::SeqZero));
}

proptest! {
    #[test]
    fn rendering_and_parsing_are_inverse(
        ms in -62_135_596_800_000_i64..=253_402_300_799_999,
        (epoch, seq) in (any::<u64>(), 1..=u64::MAX),
        kind in "[A-Za-z][A-Za-z0-9._-]{0,63}",
        (run, tenant) in ("[a-z0-9][a-z0-9._-]{0,63}", "[a-z0-9][a-z0-9._-]{0,63}"),
        payload in any::<Vec<(String, Option<f64>)>>(),
        effect in prop::option::of("[0-9a-f]{64}"),
        case in prop::option::of("\\PC{1,32}"),
    ) {
        let draft = RecordDraft {
            kind: Kind::new(kind).unwrap(),
            payload: Json::parse(serde_json::to_string(&payload).unwrap().as_bytes()).unwrap(),
            effect: effect.map(|key| EffectKey::new(key).unwrap()),
            case: case.map(|case| CaseId::new(case).unwrap()),
        };
        let record = draft.stamp(Stamp {
            at: Timestamp::from_posix_ms(ms).unwrap(),
            epoch,
            run: RunId::new(run).unwrap(),
            seq,
            tenant: TenantId::new(tenant).unwrap(),
        });
        let wire = record.to_wire().unwrap();
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&wire).is_ok());
        let parsed = Record::parse(&wire).unwrap();
        prop_assert_eq!(&parsed, &record);
        prop_assert_eq!(parsed.to_wire().unwrap(), wire);
    }

    #[test]
    fn a_damaged_record_never_panics_and_never_reads_as_other_bytes(at in 0..WIRE.len(), byte in any::<u8>()) {
        let mut raw = WIRE.as_bytes().to_vec();
        raw[at] = byte;
        if let Ok(parsed) = Record::parse(&raw) {
            prop_assert_eq!(parsed.to_wire().unwrap(), raw);
        }
    }
}

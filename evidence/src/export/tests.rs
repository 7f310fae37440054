use proptest::prelude::*;

use super::*;
use crate::signature::RecordKeyId;

const A: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const B: &str = "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

const HEADER: &str = r#"{"kind":"runseal.export","version":1,"tenant":"acme","origin":"example.com/plane/log/acme","complete":true,"checkpoint":"a\nb\n"}"#;
const ENTRY: &str = r#"{"kind":"runseal.export.entry","index":7,"entry":"{\"v\":1}"}"#;
const PROVED: &str = r#"{"kind":"runseal.export.entry","index":7,"entry":"x","proof":["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]}"#;
const OPEN: &str = r#"{"kind":"runseal.export.run","run":"run-1","state":"open","index":null}"#;
const SEALED: &str = r#"{"kind":"runseal.export.run","run":"run-2","state":"sealed","index":3}"#;
const END: &str = r#"{"kind":"runseal.export.end","entries":1,"runs":2,"records":3,"unreadable":[{"run":"Ä/b","reason":"torn"}]}"#;

fn unsigned() -> String {
    format!(
        r#"{{"kind":"runseal.export.record","seq":1,"raw":"{{\"at\":\"é\"}}","prev":"{A}","hash":"{B}","signature":null}}"#
    )
}

fn signed() -> String {
    let signature = format!(r#"{{"key_id":"0123abcd","signature":"{}=="}}"#, "A".repeat(86));
    unsigned().replace("null", &signature)
}

fn record(signature: Option<RecordSignature>) -> ExportLine {
    let (prev, hash) = (A.parse().unwrap(), B.parse().unwrap());
    let raw = "{\"at\":\"é\"}".as_bytes().to_vec();
    ExportLine::Record(ExportRecord::new(1, raw, prev, hash, signature).unwrap())
}

fn lines() -> Vec<(String, ExportLine)> {
    let header =
        ExportHeader::new(TenantId::new("acme").unwrap(), "example.com/plane/log/acme", true, "a\nb\n");
    let entry = ExportEntry::new(7, br#"{"v":1}"#.to_vec(), None).unwrap();
    let proved = ExportEntry::new(7, b"x".to_vec(), Some(vec![[0; 32]])).unwrap();
    let run = |name: &str, state, index| ExportRun { run: RunId::new(name).unwrap(), state, index };
    let unreadable = vec![Unreadable { run: "Ä/b".to_owned(), reason: "torn".to_owned() }];
    let signature =
        RecordSignature { key_id: RecordKeyId::from_bytes([0x01, 0x23, 0xab, 0xcd]), signature: [0; 64] };
    vec![
        (HEADER.to_owned(), ExportLine::Header(header)),
        (ENTRY.to_owned(), ExportLine::Entry(entry)),
        (PROVED.to_owned(), ExportLine::Entry(proved)),
        (OPEN.to_owned(), ExportLine::Run(run("run-1", RunState::Open, None))),
        (SEALED.to_owned(), ExportLine::Run(run("run-2", RunState::Sealed, Some(3)))),
        (unsigned(), record(None)),
        (signed(), record(Some(signature))),
        (END.to_owned(), ExportLine::End(ExportEnd { entries: 1, runs: 2, records: 3, unreadable })),
    ]
}

#[test]
fn lines_are_spelled_as_documented_and_read_back() {
    let mut all = Vec::new();
    for (text, line) in lines() {
        let mut out = Vec::new();
        line.write_to(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("{text}\n"));
        assert_eq!(ExportLine::parse(text.as_bytes()).unwrap(), line, "{text}");
        line.write_to(&mut all).unwrap();
    }
    for plain in [ENTRY, OPEN, SEALED, &unsigned(), &signed()] {
        assert!(read_plain(plain.as_bytes(), &mut Vec::new()).is_some(), "{plain}");
    }
    let spaced = unsigned().replace("\"seq\":1", "\"seq\": 1").replace("é", "\\u00e9");
    assert_eq!(ExportLine::parse(spaced.as_bytes()).unwrap(), record(None));
    assert_eq!(all.split(|&byte| byte == b'\n').count(), lines().len() + 1);
}

#[test]
fn members_are_all_there_once_and_known() {
    for (text, _) in lines() {
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        for name in value.as_object().unwrap().keys().filter(|name| *name != "proof") {
            let mut without = value.clone();
            without.as_object_mut().unwrap().remove(name);
            assert!(ExportLine::parse(without.to_string().as_bytes()).is_err(), "{name} of {text}");
            let twice = format!("{},\"{name}\":{}}}", &text[..text.len() - 1], value[name]);
            assert!(ExportLine::parse(twice.as_bytes()).is_err(), "{twice}");
        }
        let extra = format!("{},\"extra\":null}}", &text[..text.len() - 1]);
        assert!(matches!(ExportLine::parse(extra.as_bytes()), Err(ExportError::Malformed(_))), "{extra}");
    }
}

#[test]
fn values_are_of_their_type() {
    for bad in [
        HEADER.replace("true", "\"true\""),
        HEADER.replace("\"acme\"", "\"Acme\""),
        HEADER.replace("\"version\":1", "\"version\":\"1\""),
        ENTRY.replace('7', "-7"),
        ENTRY.replace('7', "7.0"),
        PROVED.replace("[\"", "\"").replace("\"]", "\""),
        PROVED.replace("AA=", "AB="),
        PROVED.replace("AAA=", "="),
        PROVED.replace("[\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"]", "null"),
        OPEN.replace("open", "Open"),
        OPEN.replace("run-1", "run 1"),
        unsigned().replace(A, &A.to_uppercase()),
        unsigned().replace("\"seq\":1", "\"seq\":18446744073709551616"),
        signed().replace("0123abcd", "0123ABCD"),
        END.replace("\"reason\"", "\"why\""),
    ] {
        assert!(lines().iter().all(|(text, _)| *text != bad), "{bad}");
        assert!(matches!(ExportLine::parse(bad.as_bytes()), Err(ExportError::Malformed(_))), "{bad}");
    }
}

#[test]
fn another_version_is_skew_whatever_else_it_holds() {
    for text in [
        HEADER.replace("\"version\":1", "\"version\":2"),
        HEADER.replace("\"version\":1", "\"version\":0"),
        HEADER.replace("\"version\":1", "\"version\":99,\"zone\":[]"),
        r#"{"kind":"runseal.export","version":2}"#.to_owned(),
    ] {
        let error = ExportLine::parse(text.as_bytes()).unwrap_err();
        assert!(matches!(error, ExportError::UnsupportedVersion { .. }) && error.is_skew(), "{text}");
    }
    let unversioned = HEADER.replace("\"version\":1,", "");
    assert!(matches!(ExportLine::parse(unversioned.as_bytes()), Err(ExportError::Malformed(_))));
}

#[test]
fn unknown_kinds_are_named() {
    for kind in ["runseal.export.case", "journal-export", "", "Runseal.export"] {
        let text = format!(r#"{{"kind":"{kind}","version":1}}"#);
        match ExportLine::parse(text.as_bytes()) {
            Err(ExportError::UnknownKind { kind: found }) => assert_eq!(found, kind),
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(matches!(ExportLine::parse(br#"{"seq":1}"#), Err(ExportError::Malformed(_))));
}

#[test]
fn nothing_stands_around_the_object() {
    for bad in [
        String::new(),
        format!(" {OPEN}"),
        format!("{OPEN} "),
        format!("{OPEN}\r"),
        format!("{OPEN}\n"),
        format!("\u{feff}{OPEN}"),
        format!("[{OPEN}]"),
        format!("{OPEN}\0"),
    ] {
        assert!(matches!(ExportLine::parse(bad.as_bytes()), Err(ExportError::NotAnObject)), "{bad:?}");
    }
    for bad in [format!("{OPEN}{OPEN}"), OPEN.replace("run-1", "run\n1"), "{}".to_owned(), "{{}}".to_owned()]
    {
        assert!(matches!(ExportLine::parse(bad.as_bytes()), Err(ExportError::Malformed(_))), "{bad:?}");
    }
    assert!(ExportLine::parse(b"{\"kind\":\"\xff\"}").is_err());
}

#[test]
fn bytes_that_are_no_text_are_not_written() {
    let hash = ChainHash::from_bytes([0; 32]);
    let refused = ExportRecord::new(4, b"{\"at\xff\"}".to_vec(), hash, hash, None);
    assert!(matches!(refused, Err(ExportError::RecordNotText { seq: 4, offset: 4 })));
    let refused = ExportEntry::new(9, b"\xc3".to_vec(), None);
    assert!(matches!(refused, Err(ExportError::EntryNotText { index: 9, offset: 0 })));
}

#[test]
fn a_line_has_a_limit() {
    let hash = ChainHash::from_bytes([0; 32]);
    let line =
        |raw: String| ExportLine::Record(ExportRecord { seq: 1, raw, prev: hash, hash, signature: None });
    // The worst a record of the largest size can do: every byte takes six.
    let mut out = b"before".to_vec();
    line("\u{1}".repeat(1 << 20)).write_to(&mut out).unwrap();
    assert!(out.len() < LINE_BYTES_MAX);
    out.truncate(6);
    let refused = line("x".repeat(LINE_BYTES_MAX)).write_to(&mut out);
    assert!(matches!(refused, Err(ExportError::TooLong { bytes }) if bytes > LINE_BYTES_MAX));
    assert_eq!(out, b"before");
    assert!(matches!(ExportLine::parse(&vec![b'{'; LINE_BYTES_MAX + 1]), Err(ExportError::TooLong { .. })));
}

proptest! {
    #[test]
    fn stored_text_survives_whatever_it_holds(raw in any::<String>(), seq in any::<u64>()) {
        let hash = ChainHash::from_bytes([7; 32]);
        let line = ExportLine::Record(ExportRecord::new(seq, raw.into_bytes(), hash, hash, None).unwrap());
        let mut out = Vec::new();
        line.write_to(&mut out).unwrap();
        prop_assert_eq!(out.pop(), Some(b'\n'));
        prop_assert!(!out.contains(&b'\n'));
        prop_assert_eq!(ExportLine::parse(&out).unwrap(), line);
    }

    #[test]
    fn a_line_reads_the_same_however_it_is_spelled(which in 1..7_usize, at in any::<prop::sample::Index>(), bytes in any::<[u8; 2]>()) {
        // Two bytes put anywhere, so that escapes, numbers and other members come about.
        let mut text = lines()[which].0.clone().into_bytes();
        let at = at.index(text.len() - 1);
        text[at..at + 2].copy_from_slice(&bytes);
        let mut raws = b"before".to_vec();
        let read = ReadLine::parse(&text, &mut raws);
        let any = check_frame(&text).and_then(|()| read_any(&text));
        prop_assert_eq!(any.is_ok(), read.is_ok());
        prop_assert_eq!(ExportLine::parse(&text).ok(), any.as_ref().ok().cloned());
        match (read, any) {
            (Ok(ReadLine::Record(RecordAccount { seq, prev, hash, signature })), Ok(any)) => {
                let raw = String::from_utf8(raws.split_off(6)).unwrap();
                let signature = signature.map(|signature| *signature);
                prop_assert_eq!(ExportLine::Record(ExportRecord { seq, raw, prev, hash, signature }), any);
            }
            (Ok(ReadLine::Entry(EntryAccount { index, proof })), Ok(any)) => {
                let entry = String::from_utf8(raws.split_off(6)).unwrap();
                prop_assert_eq!(ExportLine::Entry(ExportEntry { index, entry, proof }), any);
            }
            (Ok(ReadLine::Run(run)), Ok(any)) => prop_assert_eq!(ExportLine::Run(run), any),
            (Ok(ReadLine::Other(line)), Ok(any)) => prop_assert_eq!(*line, any),
            _ => {}
        }
        prop_assert_eq!(raws, b"before");
    }

    #[test]
    fn a_damaged_line_never_panics(which in 0..8_usize, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = lines()[which].0.clone().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        let _ = ExportLine::parse(&text);
        let _ = ExportLine::parse(&text[..at]);
    }
}

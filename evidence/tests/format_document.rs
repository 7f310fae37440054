//! Holds the worked examples of `docs/format.md` against this crate, so that the document stays true.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use runseal_evidence::{
    chain::{Chain, ChainHash},
    entry::Entry,
    export::ExportLine,
    finding::FindingKind,
    name::{Base, RunId, TenantId},
    payload::Meaning,
    record::Record,
    signature::{RecordSigner, RecordVerifier},
};

const DOCUMENT: &str = include_str!("../../docs/format.md");

/// The text from one heading to the next of its level.
fn section(title: &str) -> &'static str {
    let heading = format!("\n## {title}\n");
    let start = DOCUMENT.find(&heading).unwrap_or_else(|| panic!("no section {title}")) + heading.len();
    let end = DOCUMENT[start..].find("\n## ").map_or(DOCUMENT.len(), |length| start + length);
    &DOCUMENT[start..end]
}

fn json_lines(title: &str) -> Vec<&'static str> {
    let is_example =
        |line: &&str| line.starts_with("{\"") && !["<hex>", "<origin>"].iter().any(|gap| line.contains(gap));
    let lines: Vec<&str> = section(title).lines().filter(is_example).collect();
    assert!(!lines.is_empty(), "section {title} has no examples");
    lines
}

/// The backquoted value in the table row that starts with `label`.
fn cell(title: &str, label: &str) -> &'static str {
    let row = section(title).lines().find(|line| line.starts_with(&format!("| {label} |")));
    row.and_then(|row| row.split('`').nth(1)).unwrap_or_else(|| panic!("no row {label} in {title}"))
}

fn tenant() -> TenantId {
    TenantId::new("acme").unwrap()
}

fn run() -> RunId {
    RunId::new("refund-4471").unwrap()
}

/// The heads of the example's chain after each of its records.
fn heads() -> Vec<ChainHash> {
    let mut chain = Chain::new(tenant(), run());
    json_lines("Record")
        .iter()
        .map(|line| {
            chain.push(line.as_bytes()).unwrap();
            chain.head()
        })
        .collect()
}

#[test]
fn the_records_are_records() {
    let lines = json_lines("Record");
    assert_eq!(lines.iter().map(|line| line.len()).collect::<Vec<_>>(), [196, 236, 251, 169]);
    for line in lines {
        let record = Record::parse(line.as_bytes()).unwrap();
        assert_eq!(record.to_wire().unwrap(), line.as_bytes());
        assert!(Meaning::of(&record.draft.kind, &record.draft.payload).is_ok());
    }
}

#[test]
fn the_chain_has_the_hashes_of_the_table() {
    assert_eq!(ChainHash::genesis(&tenant(), &run()).to_string(), cell("Chain", "genesis"));
    let heads = heads();
    assert_eq!(heads.len(), 4);
    for (head, number) in heads.iter().zip(1..) {
        assert_eq!(head.to_string(), cell("Chain", &format!("record {number}")));
    }
}

#[test]
fn the_signature_is_that_of_the_last_record() {
    let name = Base::new("log.example.com/plane").unwrap().record_key_name();
    let seed: Vec<u8> = (0x20..0x40).collect();
    let signer = RecordSigner::new(&name, &seed.try_into().unwrap());
    assert_eq!(signer.key_id().to_string(), "ad71085e");
    let signature = signer.sign(&heads()[3]);
    let json = serde_json::to_value(signature).unwrap();
    let documented = section("Record signature").lines().find(|line| line.ends_with("==")).unwrap();
    assert_eq!(json["signature"], documented);
    assert_eq!(json["key_id"], "ad71085e");
    let verifier = RecordVerifier::new(&name, &signer.public_key()).unwrap();
    assert_eq!(verifier.verify(&heads()[3], &signature), Ok(()));
}

#[test]
fn the_entries_pin_the_chain() {
    let lines = json_lines("Log entry");
    assert_eq!(lines.iter().map(|line| line.len()).collect::<Vec<_>>(), [144, 166]);
    let entries: Vec<Entry> = lines.iter().map(|line| Entry::parse(line.as_bytes()).unwrap()).collect();
    let [Entry::Head(head), Entry::Seal(seal)] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((head.chain, head.records.get()), (heads()[1], 2));
    assert_eq!((seal.chain, seal.records.get(), seal.outcome.as_str()), (heads()[3], 4, "succeeded"));
}

#[test]
fn the_origins_are_those_of_the_table() {
    let base = Base::new("log.example.com/plane").unwrap();
    let row = section("Origin and log key").lines().find(|line| line.starts_with("| origin |")).unwrap();
    assert_eq!(
        row,
        format!("| origin | `{}` | `{}` |", base.origin(&TenantId::default()), base.origin(&tenant()))
    );
}

#[test]
fn the_export_lines_are_written_as_they_are_read() {
    for line in json_lines("Export") {
        let parsed = ExportLine::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
        let mut written = Vec::new();
        parsed.write_to(&mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), format!("{line}\n"));
    }
}

#[test]
fn the_table_of_findings_has_every_kind_with_its_class_and_no_other() {
    let rows = section("Findings").lines().filter(|line| line.starts_with("| `"));
    let documented: Vec<String> = rows
        .map(|row| row.split(" | ").take(2).collect::<Vec<_>>().join(" ").replace(['|', '`'], ""))
        .collect();
    let kinds = FindingKind::ALL.map(|kind| format!(" {kind} {}", kind.class()));
    assert_eq!(documented, kinds);
}

//! Export files, honest, damaged and cut.

use std::fs;

use runseal_evidence::finding::FindingKind::{self, *};
use runseal_evidence::report::{Scope, Verdict};

use crate::command::{Run, run, text};
use crate::plane::{Plane, chain, end_line, record};

fn check(plane: &Plane, export: impl AsRef<[u8]>, more: &[&str]) -> Run {
    let (file, policy) = (plane.path("export.jsonl"), plane.policy());
    fs::write(&file, export).unwrap();
    let mut args = vec!["export", text(&file), "--policy", text(&policy)];
    args.extend(more);
    run(plane, &args)
}

#[test]
fn an_honest_export_is_verified_whole_or_in_part() {
    let plane = Plane::sample();
    let whole = check(&plane, plane.export(), &[]);
    assert_eq!((whole.code, whole.report().scope), (0, Scope::Export), "{}", whole.show());
    let counts = whole.report().counts;
    let records: usize = plane.runs.values().map(Vec::len).sum();
    assert_eq!((counts.entries, counts.runs, counts.records), (9, 9, records as u64));
    let part = check(&plane, plane.export_of(&["r2", "open"]), &[]);
    assert_eq!((part.code, part.report().scope), (0, Scope::ExportPartial), "{}", part.show());
    assert!(part.stdout.contains("runs that were not exported"), "{}", part.stdout);
    let empty = Plane::new();
    assert_eq!(check(&empty, empty.export(), &[]).code, 0);
}

#[test]
fn an_export_cut_at_any_byte_is_never_sound_and_never_called_tampered() {
    let mut plane = Plane::new();
    plane.sealed("r0", 2);
    plane.open("open", 1);
    plane.head("open");
    let export = plane.export();
    assert_eq!(check(&plane, &export, &[]).code, 0);
    let header = export.find('\n').unwrap() + 1;
    let export = export.as_bytes();
    for cut in 0..export.len() {
        // Cuts inside the long lines are all alike: take every one near their ends and some between.
        if cut > header && cut % 7 != 0 && !matches!(export[cut - 1], b'\n' | b'}') && export[cut] != b'\n' {
            continue;
        }
        let result = check(&plane, &export[..cut], &[]);
        assert_eq!(result.code, if cut < header { 2 } else { 3 }, "cut at {cut}: {}", result.show());
        if cut >= header {
            assert_eq!(result.report().verdict(), Verdict::Incomplete, "cut at {cut}");
        }
    }
}

type Attack = (&'static str, fn(&Plane, String) -> String, &'static [FindingKind], i32);

fn line(export: &str, containing: &str) -> String {
    export.split_inclusive('\n').find(|line| line.contains(containing)).unwrap().to_owned()
}

fn without(export: &str, lines: &[&str]) -> String {
    export.split_inclusive('\n').filter(|line| !lines.iter().any(|gone| line.contains(gone))).collect()
}

fn block(export: &str, run: &str) -> String {
    let start = export.find(&format!("\"kind\":\"runseal.export.run\",\"run\":\"{run}\"")).unwrap() - 1;
    let rest = &export[start..];
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if end > 0 && !line.contains("runseal.export.record") {
            break;
        }
        end += line.len();
    }
    rest[..end].to_owned()
}

const ATTACKS: &[Attack] = &[
    ("nothing", |_, export| export, &[], 0),
    ("a record is edited", |_, export| export.replacen("step 2", "step X", 1), &[RunEdited], 1),
    (
        "a run is left out, the end line made to fit",
        |plane, export| {
            let gone = export.replacen(&block(&export, "r3"), "", 1);
            let records: usize = plane.runs.values().map(Vec::len).sum();
            let end = end_line(9, 9, records, "");
            gone.replacen(&end, &end_line(9, 8, records - plane.runs["r3"].len(), ""), 1)
        },
        &[ExportIncomplete],
        1,
    ),
    (
        "a run and its entry are left out, entries renumbered, the end line made to fit",
        |plane, export| {
            let records: usize = plane.runs.values().map(Vec::len).sum();
            let mut gone = export.replacen(&block(&export, "r7"), "", 1);
            let entry = line(&gone, "\"index\":7,\"entry\"");
            gone = gone.replacen(&entry, "", 1).replacen("\"index\":8,\"entry\"", "\"index\":7,\"entry\"", 1);
            gone.replacen(
                &end_line(9, 9, records, ""),
                &end_line(8, 8, records - plane.runs["r7"].len(), ""),
                1,
            )
        },
        &[ExportIncomplete],
        1,
    ),
    (
        "an entry is edited",
        |_, export| export.replacen("\\\"outcome\\\":\\\"succeeded\\\"", "\\\"outcome\\\":\\\"failed\\\"", 1),
        &[ExportIncomplete, RunEdited],
        1,
    ),
    (
        "the journal declares a run unreadable",
        |plane, export| {
            let gone = export.replacen(&block(&export, "r3"), "", 1);
            let records: usize = plane.runs.values().map(Vec::len).sum();
            let unreadable = r#"{"run":"r3","reason":"row 2 is damaged"}"#;
            gone.replacen(
                &end_line(9, 9, records, ""),
                &end_line(9, 8, records - plane.runs["r3"].len(), unreadable),
                1,
            )
        },
        &[],
        3,
    ),
    (
        "a run block holds no record",
        |plane, export| {
            let whole = block(&export, "r3");
            let first = whole.split_inclusive('\n').next().unwrap().to_owned();
            let records: usize = plane.runs.values().map(Vec::len).sum();
            export.replacen(&whole, &first, 1).replacen(
                &end_line(9, 9, records, ""),
                &end_line(9, 9, records - plane.runs["r3"].len(), ""),
                1,
            )
        },
        &[RunDeleted],
        1,
    ),
    (
        "the entry count is off by one",
        |_, e| {
            e.replacen("\"end\",\"entries\":9", "\"end\",\"entries\":8", 1).replacen(
                ".end\",\"entries\":9",
                ".end\",\"entries\":8",
                1,
            )
        },
        &[ExportIncomplete],
        1,
    ),
    (
        "the run count is off by one",
        |_, e| e.replacen("\"runs\":9", "\"runs\":10", 1),
        &[ExportIncomplete],
        1,
    ),
    (
        "the record count is off by one",
        |_, e| {
            let at = e.rfind("\"records\":").unwrap();
            format!("{}{}", &e[..at], e[at..].replacen("\"records\":3", "\"records\":4", 1))
        },
        &[ExportIncomplete],
        1,
    ),
    (
        "a run has two blocks",
        |plane, export| {
            let twice = block(&export, "r3");
            let records: usize = plane.runs.values().map(Vec::len).sum();
            export.replacen(
                &end_line(9, 9, records, ""),
                &(twice + &end_line(9, 10, records + plane.runs["r3"].len(), "")),
                1,
            )
        },
        &[Malformed],
        1,
    ),
    (
        "a run is called sealed at another index",
        |_, e| {
            e.replacen(
                "\"run\":\"r3\",\"state\":\"sealed\",\"index\":3",
                "\"run\":\"r3\",\"state\":\"sealed\",\"index\":4",
                1,
            )
        },
        &[Malformed],
        1,
    ),
    ("an empty line", |_, e| e.replacen('\n', "\n\n", 1), &[Malformed], 1),
    (
        "two lines become one",
        |_, e| {
            let at = e.find('\n').unwrap() + 1;
            let next = at + e[at..].find('\n').unwrap();
            format!("{}{}", &e[..next], &e[next + 1..])
        },
        &[Malformed, ExportIncomplete],
        1,
    ),
    (
        "lines end in CRLF",
        |_, e| {
            e.split_inclusive('\n')
                .enumerate()
                .map(|(n, l)| if n == 3 { l.replace('\n', "\r\n") } else { l.to_owned() })
                .collect()
        },
        &[Malformed, ExportIncomplete],
        1,
    ),
    (
        "a line of an unknown kind",
        |_, e| e.replacen('\n', "\n{\"kind\":\"runseal.export.case\"}\n", 1),
        &[],
        3,
    ),
    ("something follows the end", |_, e| format!("{e}{{}}\n"), &[Malformed], 1),
    (
        "entries are out of order",
        |_, e| {
            let (a, b) = (line(&e, "\"index\":2,\"entry\""), line(&e, "\"index\":3,\"entry\""));
            e.replacen(&format!("{a}{b}"), &format!("{b}{a}"), 1)
        },
        &[ExportIncomplete],
        1,
    ),
    (
        "a record is left out in the middle",
        |plane, export| {
            let whole = block(&export, "r3");
            let records: usize = plane.runs.values().map(Vec::len).sum();
            export.replacen(&whole, &without(&whole, &["\"seq\":2,"]), 1).replacen(
                &end_line(9, 9, records, ""),
                &end_line(9, 9, records - 1, ""),
                1,
            )
        },
        &[RunEdited, ChainBroken],
        1,
    ),
    (
        "the tail of the open run is cut",
        |plane, export| {
            let whole = block(&export, "open");
            let records: usize = plane.runs.values().map(Vec::len).sum();
            export.replacen(&whole, &without(&whole, &["\"seq\":4,"]), 1).replacen(
                &end_line(9, 9, records, ""),
                &end_line(9, 9, records - 1, ""),
                1,
            )
        },
        &[RunTruncated],
        1,
    ),
    (
        "the header names another tenant",
        |_, e| e.replacen("\"tenant\":\"acme\",\"origin\"", "\"tenant\":\"evil\",\"origin\"", 1),
        &[TenantMismatch, ExportIncomplete, Malformed, RunDeleted, RunEdited, ChainBroken],
        1,
    ),
];

#[test]
fn each_attack_on_an_export_is_found() {
    println!("{:<80} {:<10} findings", "attack on an export", "verdict");
    for (name, attack, expected, code) in ATTACKS {
        let plane = Plane::sample();
        let honest = plane.export();
        let attacked = attack(&plane, honest.clone());
        assert_eq!(attacked == honest, *name == "nothing", "{name} changes nothing");
        let result = check(&plane, &attacked, &[]);
        let kinds: Vec<String> = result.kinds().iter().map(ToString::to_string).collect();
        println!("{name:<80} {:<10} {}", result.report().verdict(), kinds.join(" "));
        assert_eq!(result.code, *code, "{name}: {}", result.show());
        if let Some(first) = expected.first() {
            assert!(result.kinds().contains(first), "{name}: {}", result.show());
        }
        for kind in result.kinds() {
            assert!(expected.contains(&kind), "{name}: {}", result.show());
        }
    }
}

#[test]
fn the_tenant_is_in_the_hash_of_every_record() {
    let plane = Plane::sample();
    let export = plane.export().replacen(
        "\\\"tenant\\\":\\\"acme\\\",\\\"v\\\":1}\",\"prev\"",
        "\\\"tenant\\\":\\\"evil\\\",\\\"v\\\":1}\",\"prev\"",
        1,
    );
    let result = check(&plane, &export, &[]);
    assert!(
        result.kinds().contains(&TenantMismatch) && result.kinds().contains(&RunEdited),
        "{}",
        result.show()
    );
}

#[test]
fn a_record_rehashed_forward_is_found_by_the_log() {
    for run in ["r5", "open"] {
        let mut plane = Plane::sample();
        let mut raws: Vec<String> = plane.runs[run].iter().map(|stored| stored.raw.clone()).collect();
        raws[1] = record(run, 2, "Message", r#"{"text":"never happened"}"#);
        plane.runs.insert(run.to_owned(), chain(run, &raws));
        let result = check(&plane, plane.export(), &[]);
        assert_eq!(
            (result.code, result.kinds(), result.runs(RunEdited)),
            (1, vec![RunEdited], vec![run.to_owned()])
        );
        assert!(result.stdout.contains("made to fit"), "{}", result.stdout);
    }
}

#[test]
fn a_checkpoint_from_elsewhere_is_held_against_the_entries() {
    let plane = Plane::sample();
    let note = plane.path("note");
    let with = |plane: &Plane, outside: String| {
        fs::write(&note, outside).unwrap();
        check(plane, plane.export(), &["--checkpoint", text(&note)])
    };
    for size in [0, 1, 5, 8, 9] {
        let same = with(&plane, plane.note(size).to_string());
        assert_eq!(same.code, 0, "{size}: {}", same.show());
    }
    let mut other = Plane::sample();
    other.entries.swap(0, 1);
    for size in [1, 5, 9] {
        let expected = i32::from(size != 0);
        let fork = with(&plane, other.note(size).to_string());
        assert_eq!(fork.code, expected, "{size}: {}", fork.show());
        if size != 5 || fork.code == 1 {
            assert_eq!(fork.kinds(), [Fork], "{size}: {}", fork.show());
        }
    }
    let mut grown = Plane::sample();
    grown.sealed("later", 2);
    let newer = with(&plane, grown.note(10).to_string());
    assert_eq!((newer.code, newer.kinds()), (3, vec![]), "{}", newer.show());
    let forged = plane.note(9).to_string().replacen("\n9\n", "\n8\n", 1);
    assert_eq!(with(&plane, forged).code, 3);
}

#[test]
fn a_file_that_is_no_export_is_wrong_input() {
    let plane = Plane::sample();
    for (content, expected) in
        [("", "empty"), ("{}\n", "not a runseal export"), ("hello\n", "not a runseal export")]
    {
        let result = check(&plane, content, &[]);
        assert_eq!(result.code, 2, "{content:?}: {}", result.show());
        assert!(result.stderr.contains(expected), "{content:?}: {}", result.show());
    }
    let later = plane.export().replacen("\"version\":1", "\"version\":99", 1);
    let skewed = check(&plane, &later, &[]);
    assert_eq!((skewed.code, skewed.kinds()), (3, vec![]), "{}", skewed.show());
    assert!(skewed.stdout.contains("version 99"), "{}", skewed.stdout);
    let foreign = plane.export().replace("plane.example/log/acme", "elsewhere.example/log/acme");
    assert_eq!(check(&plane, &foreign, &[]).code, 2);
}

#[test]
fn every_entry_of_a_partial_export_proves_itself() {
    let plane = Plane::sample();
    let export = plane.export_of(&["r2", "r5"]);
    let start = export.find("\"proof\":[\"").unwrap() + 10;
    let mut damaged = export.clone().into_bytes();
    damaged[start] = if damaged[start] == b'A' { b'B' } else { b'A' };
    let result = check(&plane, String::from_utf8(damaged).unwrap(), &[]);
    assert_eq!((result.code, result.kinds()), (1, vec![EntryMismatch]), "{}", result.show());
    let moved = export.replacen("\"index\":2,\"entry\"", "\"index\":3,\"entry\"", 1);
    assert!(check(&plane, &moved, &[]).kinds().contains(&EntryMismatch));
}

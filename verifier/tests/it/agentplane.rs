//! Exports of another agent plane, written out as its format says.

use std::fs;

use runseal_evidence::finding::FindingKind::{self, *};
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::tree::root_of;
use sha2::{Digest as _, Sha256};

use crate::command::{Run, run, text};
use crate::plane::{ORIGIN, Plane, log_key};

struct Export {
    lines: Vec<String>,
    leaves: Vec<LeafHash>,
}

fn root_hex(leaves: &[LeafHash]) -> String {
    hex::encode(root_of(leaves).as_bytes())
}

/// Three sealed runs and an open one, one case.
fn sample() -> Export {
    let mut export = Export { lines: vec![String::new()], leaves: Vec::new() };
    let mut records = 0;
    for (run, count, sealed) in
        [("run_01A", 3, true), ("run_01B", 2, true), ("run_01C", 4, true), ("run_01D", 2, false)]
    {
        let mut head = [0u8; 32];
        let mut block = Vec::new();
        for seq in 1..=count {
            let before = hex::encode(head);
            let case = if run == "run_01B" { r#""case":"case_9","# } else { "" };
            let raw = if sealed && seq == count {
                format!(
                    r#"{{{case}"chain_head":"{before}","epoch":1,"kind":"RunConcluded","outcome":"succeeded","run":"{run}","seq":{seq},"v":1}}"#
                )
            } else {
                format!(
                    r#"{{{case}"epoch":1,"kind":"Note","run":"{run}","seq":{seq},"text":"étape {seq}","v":1}}"#
                )
            };
            let hash: [u8; 32] = Sha256::new().chain_update(head).chain_update(&raw).finalize().into();
            block.push(format!(
                r#"{{"seq":{seq},"body":{raw},"prev_hash":"{before}","hash":"{}","signature":null,"raw":{}}}"#,
                hex::encode(hash),
                serde_json::to_string(&raw).unwrap()
            ));
            head = hash;
            records += 1;
        }
        if sealed {
            let index = export.leaves.len();
            export.leaves.push(LeafHash::of(&head));
            export.lines.push(format!(
                r#"{{"kind":"agentplane.export.run","run":"{run}","index":{index},"seal":"{}"}}"#,
                hex::encode(head)
            ));
        } else {
            export.lines.push(format!(r#"{{"kind":"agentplane.export.run","run":"{run}"}}"#));
        }
        export.lines.append(&mut block);
    }
    export.lines.push(
        r#"{"kind":"agentplane.export.case","case":{"id":"case_9"},"deadlines":[],"blobs":[]}"#.to_owned(),
    );
    export.lines.push(format!(
        r#"{{"kind":"agentplane.export.end","runs_requested":4,"runs_exported":4,"records":{records},"cases":1,"unreadable":[]}}"#
    ));
    export.lines[0] = format!(
        r#"{{"kind":"agentplane.export","version":1,"checkpoint":{{"origin":"{ORIGIN}","size":3,"root":"{}"}},"canon":1}}"#,
        root_hex(&export.leaves)
    );
    export
}

fn check(plane: &Plane, lines: &[String], more: &[&str]) -> Run {
    let (file, policy) = (plane.path("agentplane.jsonl"), plane.policy_with("any", &[]));
    fs::write(&file, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let mut args = vec!["export", text(&file), "--policy", text(&policy)];
    args.extend(more);
    run(plane, &args)
}

fn signed(size: u64, root: NodeHash) -> String {
    Checkpoint::new(ORIGIN, size, root).unwrap().sign(&log_key()).unwrap().to_string()
}

#[test]
fn an_honest_export_is_sound_only_against_a_checkpoint_from_elsewhere() {
    let plane = Plane::new();
    let export = sample();
    let alone = check(&plane, &export.lines, &[]);
    assert_eq!((alone.code, alone.kinds()), (3, vec![]), "{}", alone.show());
    assert!(alone.stdout.contains("whether runs were deleted"), "{}", alone.stdout);
    let note = plane.path("note");
    for size in 0..=3usize {
        fs::write(&note, signed(size as u64, root_of(&export.leaves[..size]))).unwrap();
        let anchored = check(&plane, &export.lines, &["--checkpoint", text(&note)]);
        assert_eq!(anchored.code, 0, "{size}: {}", anchored.show());
        assert!(anchored.stdout.contains("the ends of 1 open run:"), "{}", anchored.stdout);
    }
    fs::write(&note, signed(2, root_of(&export.leaves[1..]))).unwrap();
    let fork = check(&plane, &export.lines, &["--checkpoint", text(&note)]);
    assert_eq!((fork.code, fork.kinds()), (1, vec![Fork]), "{}", fork.show());
    fs::write(&note, signed(4, root_of(&export.leaves))).unwrap();
    assert_eq!(check(&plane, &export.lines, &["--checkpoint", text(&note)]).code, 3);
}

#[test]
fn an_export_cut_anywhere_is_never_sound() {
    let plane = Plane::new();
    let export = sample();
    let note = plane.path("note");
    fs::write(&note, signed(3, root_of(&export.leaves))).unwrap();
    let whole: String = export.lines.iter().map(|line| format!("{line}\n")).collect();
    let (file, policy) = (plane.path("agentplane.jsonl"), plane.policy_with("any", &[]));
    let header = export.lines[0].len() + 1;
    for cut in (header..whole.len()).step_by(13).chain([whole.len() - 1]) {
        fs::write(&file, &whole.as_bytes()[..cut]).unwrap();
        let result =
            run(&plane, &["export", text(&file), "--policy", text(&policy), "--checkpoint", text(&note)]);
        assert_eq!(result.code, 3, "cut at {cut}: {}", result.show());
    }
}

type Attack = (&'static str, fn(&mut Export), &'static [FindingKind], i32);

fn at(export: &Export, containing: &str) -> usize {
    export.lines.iter().position(|line| line.contains(containing)).unwrap()
}

const ATTACKS: &[Attack] = &[
    ("nothing", |_| {}, &[], 0),
    (
        "the bytes of a record",
        |e| e.lines[2] = e.lines[2].replace("étape 1\\\"", "step X\\\""),
        &[RunEdited],
        1,
    ),
    (
        "the copy shown beside them",
        |e| e.lines[2] = e.lines[2].replacen("étape 1", "step X", 1),
        &[RunEdited],
        1,
    ),
    ("a record taken out", |e| drop(e.lines.remove(3)), &[ChainBroken, ExportIncomplete, RunEdited], 1),
    ("the conclusion cut off", |e| drop(e.lines.remove(4)), &[RunEdited, ExportIncomplete], 1),
    ("a record under another run", |e| e.lines.swap(4, 5), &[ChainBroken, RunEdited], 1),
    (
        "a run left out, header and end made to fit",
        |e| {
            let from = at(e, "\"run\":\"run_01C\",\"index\":2");
            e.lines.drain(from..from + 5);
            e.lines[0] = e.lines[0]
                .replace("\"size\":3", "\"size\":2")
                .replace(&root_hex(&e.leaves), &root_hex(&e.leaves[..2]));
            let last = e.lines.len() - 1;
            e.lines[last] = e.lines[last].replace(
                "\"runs_requested\":4,\"runs_exported\":4,\"records\":11",
                "\"runs_requested\":3,\"runs_exported\":3,\"records\":7",
            );
        },
        // Only the signed checkpoint from elsewhere tells, and it is newer than what is left.
        &[],
        3,
    ),
    (
        "a run left out",
        |e| {
            let from = at(e, "\"run\":\"run_01C\",\"index\":2");
            e.lines.drain(from..from + 5);
        },
        &[ExportIncomplete],
        1,
    ),
    (
        "two runs at one position",
        |e| {
            let l = at(e, "\"index\":1");
            e.lines[l] = e.lines[l].replace("\"index\":1", "\"index\":0");
        },
        &[Malformed, ExportIncomplete],
        1,
    ),
    (
        "positions swapped",
        |e| {
            let (a, b) = (at(e, "\"index\":0"), at(e, "\"index\":1"));
            e.lines[a] = e.lines[a].replace("\"index\":0", "\"index\":1");
            e.lines[b] = e.lines[b].replace("\"index\":1", "\"index\":0");
        },
        &[ExportIncomplete],
        1,
    ),
    (
        "an index without a seal",
        |e| {
            let l = at(e, "\"index\":1");
            let end = e.lines[l].find(",\"seal\"").unwrap();
            e.lines[l] = format!("{}}}", &e.lines[l][..end]);
        },
        &[Malformed, ExportIncomplete],
        1,
    ),
    ("an empty block", |e| drop(e.lines.drain(6..8)), &[RunDeleted, ExportIncomplete], 1),
    (
        "an empty block that is declared unreadable",
        |e| {
            e.lines.drain(6..8);
            let last = e.lines.len() - 1;
            e.lines[last] = e.lines[last]
                .replace("\"runs_exported\":4,\"records\":11", "\"runs_exported\":3,\"records\":9")
                .replace("[]", "[{\"run\":\"run_01B\",\"reason\":\"row damaged\"}]");
        },
        &[],
        3,
    ),
    (
        "a case that is named and missing among others",
        |e| {
            let l = at(e, "export.case");
            e.lines[l] = e.lines[l].replace("case_9", "case_8");
        },
        &[ExportIncomplete],
        1,
    ),
    (
        "the case count",
        |e| {
            let last = e.lines.len() - 1;
            e.lines[last] = e.lines[last].replace("\"cases\":1", "\"cases\":2");
        },
        &[ExportIncomplete],
        1,
    ),
    (
        "the record count",
        |e| {
            let last = e.lines.len() - 1;
            e.lines[last] = e.lines[last].replace("\"records\":11", "\"records\":10");
        },
        &[ExportIncomplete],
        1,
    ),
    ("a line that is no JSON", |e| "nonsense".clone_into(&mut e.lines[3]), &[Malformed], 1),
    ("an unknown canonical form", |e| e.lines[0] = e.lines[0].replace("\"canon\":1", "\"canon\":2"), &[], 3),
    ("an unknown version", |e| e.lines[0] = e.lines[0].replace("\"version\":1", "\"version\":2"), &[], 3),
    (
        "a member nobody knows",
        |e| e.lines[1] = e.lines[1].replace("\"index\"", "\"colour\":7,\"index\""),
        &[],
        0,
    ),
    ("something after the end", |e| e.lines.push("{}".to_owned()), &[Malformed], 1),
];

#[test]
fn each_attack_is_found() {
    for (name, attack, expected, code) in ATTACKS {
        let plane = Plane::new();
        let mut export = sample();
        let note = plane.path("note");
        fs::write(&note, signed(3, root_of(&export.leaves))).unwrap();
        attack(&mut export);
        let result = check(&plane, &export.lines, &["--checkpoint", text(&note)]);
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
fn a_package_of_that_program_is_not_taken_for_an_export() {
    let plane = Plane::new();
    let result = check(&plane, &[r#"{"kind":"agentplane.package","version":1}"#.to_owned()], &[]);
    assert_eq!(result.code, 2, "{}", result.show());
}

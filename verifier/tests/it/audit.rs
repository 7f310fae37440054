//! Audits of a log alone: first contact, growth, forks, rollbacks, damaged tiles.

use std::fs;

use runseal_evidence::finding::FindingKind::{self, *};
use runseal_evidence::report::Verdict;
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::hash::LeafHash;

use crate::command::{auditor, run, text};
use crate::plane::{Plane, log_key, seal_entry, witness_key};

#[test]
fn an_honest_log_is_verified_at_first_contact_and_ever_after() {
    let mut plane = Plane::sample();
    let first = auditor(&plane).audit(&[]);
    assert_eq!(first.code, 0, "{}", first.show());
    assert_eq!(first.report().verdict(), Verdict::Verified);
    assert_eq!(first.report().counts.entries, 9);
    assert!(first.stdout.contains("first observation: history not checked"), "{}", first.stdout);
    let again = auditor(&plane).audit(&[]);
    assert_eq!((again.code, again.report().counts.entries), (0, 0), "{}", again.show());
    for grown in [10, 255, 256, 257, 511, 513, 700] {
        let before = plane.entries.len();
        while plane.entries.len() < grown {
            plane.sealed(&format!("g{}", plane.entries.len()), 2);
        }
        let audit = auditor(&plane).audit(&[]);
        assert_eq!(audit.code, 0, "{grown}: {}", audit.show());
        assert_eq!(audit.report().counts.entries, (grown - before) as u64);
        assert_eq!(audit.report().previous.as_ref().unwrap().size, before as u64);
        let unchanged = auditor(&plane).audit(&[]);
        assert_eq!((unchanged.code, unchanged.report().counts.entries), (0, 0), "{}", unchanged.show());
    }
}

#[test]
fn an_empty_log_is_verified_and_may_grow() {
    let mut plane = Plane::new();
    assert_eq!(auditor(&plane).audit(&[]).code, 0);
    plane.sealed("r0", 2);
    let grown = auditor(&plane).audit(&[]);
    assert_eq!((grown.code, grown.report().counts.entries), (0, 1), "{}", grown.show());
}

#[test]
fn without_a_history_the_report_says_that_it_was_not_checked() {
    let plane = Plane::sample();
    let audit = auditor(&plane).audit(&["--no-history"]);
    assert_eq!(audit.code, 0);
    assert!(audit.stdout.contains("no --history was given"), "{}", audit.stdout);
    assert!(audit.stdout.contains("no --records was given"), "{}", audit.stdout);
}

/// What is done to the log between two audits, and what the second must find.
type Attack = (&'static str, fn(&mut Plane), &'static [(FindingKind, &'static [&'static str])], i32);

const ATTACKS: &[Attack] = &[
    ("nothing", |_| {}, &[], 0),
    ("a run grows the log", |plane| plane.sealed("later", 2), &[], 0),
    (
        "a run is deleted, the tree rebuilt, the log as long as before",
        |plane| {
            plane.entries.remove(3);
            plane.sealed("filler", 2);
        },
        &[(Fork, &[]), (RunDeleted, &["r3"])],
        1,
    ),
    (
        "a run is deleted, and the log grows beyond its old size",
        |plane| {
            plane.entries.remove(3);
            plane.sealed("filler-1", 2);
            plane.sealed("filler-2", 2);
        },
        &[(Fork, &[]), (RunDeleted, &["r3"])],
        1,
    ),
    (
        "a run is deleted and the tree shrinks",
        |plane| {
            plane.entries.remove(3);
        },
        &[(Fork, &[]), (RunDeleted, &["r3"])],
        1,
    ),
    (
        "a sealed run is edited and sealed anew",
        |plane| {
            let other = plane.runs["r2"].last().unwrap().prev;
            plane.entries[2] = seal_entry("r2", 5, &other).into_bytes();
        },
        &[(Fork, &[]), (RunEdited, &["r2"])],
        1,
    ),
    (
        "two entries are swapped",
        |plane| plane.entries.swap(1, 6),
        &[(Fork, &[]), (RunReordered, &["r1", "r6"])],
        1,
    ),
    (
        "the database is rolled back to a backup",
        |plane| plane.entries.truncate(6),
        &[(Rollback, &[]), (RunDeleted, &["r6", "r7", "open"])],
        1,
    ),
    ("a run is sealed twice", |plane| plane.seal("r4"), &[(SealDuplicate, &["r4"])], 1),
    ("a head follows the seal", |plane| plane.head("r4"), &[(HeadAfterSeal, &["r4"])], 1),
    (
        "a head speaks for fewer records than one before",
        |plane| {
            let records = plane.runs.get_mut("open").unwrap();
            records.truncate(2);
            plane.head("open");
        },
        &[(HeadRegressed, &["open"])],
        1,
    ),
    (
        "another tenant's run enters the log",
        |plane| {
            let entry = String::from_utf8(plane.entries[0].clone()).unwrap();
            plane
                .entries
                .push(entry.replace("\"acme\"", "\"evil\"").replace("\"r0\"", "\"r9\"").into_bytes());
        },
        &[(TenantMismatch, &["r9"])],
        1,
    ),
    (
        "an entry of ours does not read",
        |plane| {
            let entry = String::from_utf8(plane.entries[0].clone()).unwrap();
            plane.entries.push(entry.replace("\"records\":3", "\"records\":0").into_bytes());
        },
        &[(Malformed, &[])],
        1,
    ),
    (
        "an entry of a later version",
        |plane| {
            let entry = String::from_utf8(plane.entries[0].clone()).unwrap();
            plane.entries.push(entry.replace("\"v\":1", "\"v\":2").into_bytes());
        },
        &[],
        3,
    ),
    ("an entry of another program", |plane| plane.entries.push(b"not ours".to_vec()), &[], 0),
];

#[test]
fn each_attack_on_the_log_is_found_and_the_runs_are_named() {
    println!("{:<62} {:<10} findings", "attack on the log", "verdict");
    for (name, attack, expected, code) in ATTACKS {
        let mut plane = Plane::sample();
        let before = auditor(&plane).audit(&[]);
        assert_eq!(before.code, 0, "{name}: {}", before.show());
        attack(&mut plane);
        let fraud = plane.path("fraud.txt");
        let audit = auditor(&plane).audit(&["--fraud-proof", text(&fraud)]);
        let kinds: Vec<String> = audit.kinds().iter().map(ToString::to_string).collect();
        println!("{name:<62} {:<10} {}", audit.report().verdict(), kinds.join(" "));
        assert_eq!(audit.code, *code, "{name}: {}", audit.show());
        assert_eq!(audit.report().findings.is_empty(), expected.is_empty(), "{name}: {}", audit.show());
        for (kind, runs) in *expected {
            assert!(audit.kinds().contains(kind), "{name}: {}", audit.show());
            let mut named = audit.runs(*kind);
            named.sort();
            let mut runs = runs.to_vec();
            runs.sort_unstable();
            assert_eq!(named, runs, "{name}: {}", audit.show());
        }
        for kind in audit.kinds() {
            assert!(expected.iter().any(|(expected, _)| *expected == kind), "{name}: {}", audit.show());
        }
        // Two contradicting signatures convict the log to anybody.
        let forked = audit.kinds().contains(&Fork);
        assert_eq!(fraud.exists(), forked, "{name}");
        if forked {
            let policy = plane.policy();
            let proven = run(&plane, &["fraud", text(&fraud), "--policy", text(&policy)]);
            assert_eq!(proven.code, 1, "{name}: {}", proven.show());
            // Nothing of the fork was taken over: the next audit says the same.
            assert_eq!(auditor(&plane).audit(&[]).kinds(), audit.kinds(), "{name}");
        }
    }
}

#[test]
fn what_lies_in_the_log_is_found_again_by_every_later_audit() {
    let mut plane = Plane::sample();
    plane.seal("r4");
    let first = auditor(&plane).audit(&[]);
    assert_eq!(first.runs(SealDuplicate), ["r4"], "{}", first.show());
    plane.sealed("later", 2);
    let second = auditor(&plane).audit(&[]);
    assert_eq!((second.code, second.runs(SealDuplicate)), (1, vec!["r4".to_owned()]), "{}", second.show());
    let light = auditor(&plane).audit(&["--no-history"]);
    assert_eq!(light.runs(SealDuplicate), ["r4"], "{}", light.show());
}

#[test]
fn a_fork_names_when_the_lost_run_was_witnessed() {
    let mut plane = Plane::sample();
    auditor(&plane).audit(&[]);
    plane.entries.remove(0);
    let audit = auditor(&plane).audit(&[]);
    let finding = audit.report().findings.iter().find(|finding| finding.kind == RunDeleted).unwrap();
    assert!(finding.detail.contains("witnessed since 2026-09-21T"), "{}", finding.detail);
}

#[test]
fn signatures_count_only_under_the_policy() {
    let plane = Plane::sample();
    let log = plane.publish();
    let policy = plane.policy();
    let note = plane.note(plane.entries.len());
    let audit = |note: String, policy: &std::path::Path, more: &[&str]| {
        fs::write(log.join("checkpoint"), note).unwrap();
        let mut args = vec!["audit", "--policy", text(policy), "--url", text(&log)];
        args.extend(more);
        run(&plane, &args)
    };
    // A witness that the quorum needs is missing.
    let short = audit(plane.note_by(9, &[1]).to_string(), &policy, &[]);
    assert_eq!((short.code, short.kinds()), (1, vec![QuorumNotMet]), "{}", short.show());
    // Another key of the log's name.
    let checkpoint = Checkpoint::parse(note.unverified_text()).unwrap();
    let forged = runseal_tlog::key::SignerKey::from_seed(
        log_key().verifier().name().clone(),
        runseal_tlog::key::Algorithm::Ed25519,
        &[99; 32],
    );
    let other = audit(checkpoint.sign(&forged).unwrap().to_string(), &policy, &[]);
    assert_eq!((other.code, other.kinds()), (1, vec![CheckpointSignature]), "{}", other.show());
    // The log's own line, damaged.
    let text_of = note.to_string();
    let at = text_of.rfind("w2 ").unwrap() + 30;
    let mut damaged = text_of.clone().into_bytes();
    damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
    let invalid = audit(String::from_utf8(damaged).unwrap(), &policy, &[]);
    assert!(invalid.kinds().contains(&CheckpointSignature), "{}", invalid.show());
    // Another log's checkpoint, properly signed by its own key.
    let elsewhere = text_of.replacen("plane.example/log/acme", "plane.example/log/evil", 1);
    let foreign = audit(elsewhere, &policy, &[]);
    assert_eq!((foreign.code, foreign.kinds()), (1, vec![CheckpointSignature]), "{}", foreign.show());
    // No checkpoint at all.
    let html = audit("<html>not here</html>\n".to_owned(), &policy, &[]);
    assert_eq!((html.code, html.kinds()), (1, vec![Malformed]), "{}", html.show());
    // Cosignatures of witnesses that nobody asked about do no harm.
    let one = plane.policy_with("all", &[1]);
    let more = audit(text_of, &one, &[]);
    assert_eq!(more.code, 0, "{}", more.show());
    let unknown = more.report().cosignatures.iter().filter(|line| line.time.is_none()).count();
    assert_eq!(unknown, 1);
}

#[test]
fn age_is_judged_by_the_newest_valid_cosignature() {
    let mut plane = Plane::sample();
    let old = auditor(&plane).audit(&["--max-age", "1h"]);
    assert_eq!((old.code, old.kinds()), (1, vec![Stale]), "{}", old.show());
    plane.time = jiff::Timestamp::now().as_second().try_into().unwrap();
    let fresh = auditor(&plane).audit(&["--max-age", "1h"]);
    assert_eq!(fresh.code, 0, "{}", fresh.show());
    plane.time += 86_400;
    let future = auditor(&plane).audit(&["--max-age", "1h"]);
    assert_eq!((future.code, future.kinds()), (3, vec![]), "{}", future.show());
    assert!(future.stdout.contains("ahead of this machine's clock"), "{}", future.stdout);
    assert_eq!(auditor(&plane).audit(&[]).code, 0);
}

#[test]
fn a_flipped_bit_is_found_in_every_file_of_the_log() {
    let mut plane = Plane::new();
    for run in 0..600 {
        plane.sealed(&format!("r{run}"), 2);
    }
    let log = plane.publish();
    let policy = plane.policy();
    let mut files = Vec::new();
    walk(&log, &mut files);
    assert_eq!(files.len(), 1 + 3 + 1 + 3);
    for file in files {
        let honest = fs::read(&file).unwrap();
        let name = file.strip_prefix(&log).unwrap().display().to_string();
        for at in [0, honest.len() / 2, honest.len() - 1] {
            let mut bytes = honest.clone();
            bytes[at] ^= 1;
            fs::write(&file, &bytes).unwrap();
            let audit = run(&plane, &["audit", "--policy", text(&policy), "--url", text(&log)]);
            assert_eq!(audit.code, 1, "{name} byte {at}: {}", audit.show());
            let expected: &[FindingKind] = if name.starts_with("tile/entries") {
                &[EntryMismatch]
            } else if name.starts_with("tile") {
                &[TileMismatch]
            } else {
                &[CheckpointSignature, Malformed, QuorumNotMet]
            };
            for kind in audit.kinds() {
                assert!(expected.contains(&kind), "{name} byte {at}: {}", audit.show());
            }
        }
        fs::remove_file(&file).unwrap();
        let audit = run(&plane, &["audit", "--policy", text(&policy), "--url", text(&log)]);
        assert_eq!((audit.code, audit.kinds()), (3, vec![]), "{name} gone: {}", audit.show());
        fs::write(&file, &honest).unwrap();
    }
}

#[test]
fn a_wrong_entry_is_named_with_its_run_and_index() {
    let plane = Plane::sample();
    let audit = {
        let auditor = auditor(&plane);
        let mut entries = plane.entries.clone();
        entries[5] =
            String::from_utf8(entries[5].clone()).unwrap().replace("succeeded", "failed").into_bytes();
        let path = auditor.log.join("tile/entries/000.p/9");
        fs::write(path, crate::plane::bundle(&entries)).unwrap();
        auditor.audit(&[])
    };
    let finding = &audit.report().findings[0];
    assert_eq!((finding.kind, finding.index), (EntryMismatch, Some(5)), "{}", audit.show());
    assert_eq!(finding.run.as_ref().unwrap().as_str(), "r5");
    let leaf = LeafHash::of(&plane.entries[5]);
    assert!(finding.detail.contains(&runseal_tlog::hash::NodeHash::from(leaf).to_string()));
}

#[test]
fn what_is_no_file_in_a_static_tree_is_not_waited_for() {
    let plane = Plane::sample();
    let log = plane.publish();
    let mut files = Vec::new();
    walk(&log, &mut files);
    assert_eq!(files.len(), 3);
    for file in files {
        let honest = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        let audit = run(&plane, &["audit", "--policy", text(&plane.policy()), "--url", text(&log)]);
        assert_eq!((audit.code, audit.kinds()), (3, vec![]), "{}", audit.show());
        assert!(audit.stdout.contains("no regular file"), "{}", audit.show());
        fs::remove_file(&file).unwrap();
        fs::write(&file, &honest).unwrap();
    }
}

fn walk(dir: &std::path::Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, files) } else { files.push(path) }
    }
}

#[test]
fn wrong_usage_says_what_to_do() {
    let plane = Plane::sample();
    let log = plane.publish();
    let policy = plane.policy();
    let two = plane.path("two.txt");
    let other = runseal_tlog::key::SignerKey::from_seed(
        runseal_tlog::key::KeyName::new("other.example").unwrap(),
        runseal_tlog::key::Algorithm::Ed25519,
        &[3; 32],
    );
    fs::write(&two, format!("log {}\nlog {}\nquorum none\n", log_key().verifier(), other.verifier()))
        .unwrap();
    let broken = plane.path("broken.txt");
    fs::write(&broken, format!("witness w {}\nquorum w", witness_key(1).verifier())).unwrap();
    for (args, expected) in [
        (vec!["audit", "--policy", text(&two), "--url", text(&log)], "--log"),
        (vec!["audit", "--policy", text(&broken), "--url", text(&log)], "line 2"),
        (vec!["audit", "--policy", "/nowhere", "--url", text(&log)], "/nowhere"),
        (vec!["audit", "--policy", text(&policy)], "--url"),
        (vec!["audit", "--policy", text(&policy), "--url", "/nowhere"], "/nowhere"),
        (
            vec!["audit", "--policy", text(&policy), "--url", text(&log), "--log", "typo"],
            "plane.example/log/acme",
        ),
        (vec!["audit", "--policy", text(&policy), "--url", text(&log), "--records", "/nowhere"], "/nowhere"),
        (vec!["audit", "--policy", text(&policy), "--url", text(&log), "--max-age", "soon"], "soon"),
        (vec!["audit"], "--policy"),
        (vec!["nonsense"], "nonsense"),
    ] {
        let result = run(&plane, &args);
        assert_eq!(result.code, 2, "{args:?}: {}", result.show());
        assert!(result.stderr.contains(expected), "{args:?}: {}", result.show());
    }
    let chosen =
        run(&plane, &["audit", "--policy", text(&two), "--url", text(&log), "--log", crate::plane::ORIGIN]);
    assert_eq!(chosen.code, 0, "{}", chosen.show());
}

#[test]
fn a_log_that_signs_an_absurd_size_does_not_stop_the_auditor() {
    let plane = Plane::sample();
    let (log, policy) = (plane.publish(), plane.policy_with("any", &[]));
    for size in [1u64 << 34, 1 << 40, 1 << 62, (1 << 63) - 1] {
        let root = runseal_tlog::hash::NodeHash::from(LeafHash::of(b"whatever"));
        let note = Checkpoint::new(crate::plane::ORIGIN, size, root).unwrap().sign(&log_key()).unwrap();
        fs::write(log.join("checkpoint"), note.to_string()).unwrap();
        let started = std::time::Instant::now();
        let audit = run(&plane, &["audit", "--policy", text(&policy), "--url", text(&log)]);
        assert_eq!((audit.code, audit.kinds()), (3, vec![]), "{size}: {}", audit.show());
        assert!(started.elapsed().as_secs() < 20, "{size} took {:?}", started.elapsed());
    }
}

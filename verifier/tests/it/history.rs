//! The history file.

use std::fs;

use runseal_evidence::finding::FindingKind::*;

use crate::command::{auditor, run, text, verifier};
use crate::plane::{ORIGIN, Plane};

#[test]
fn foreign_files_are_refused_untouched() {
    let plane = Plane::sample();
    let history = plane.path("history.redb");
    for content in [&b""[..], b"hello", &[0; 8192]] {
        fs::write(&history, content).unwrap();
        let audit = auditor(&plane).audit(&[]);
        assert_eq!(audit.code, 2, "{}", audit.show());
        assert!(audit.stderr.contains("history.redb"), "{}", audit.show());
        assert_eq!(fs::read(&history).unwrap(), content);
    }
    fs::remove_file(&history).unwrap();
    let table: redb::TableDefinition<&str, &str> = redb::TableDefinition::new("meta");
    for format in [None, Some("runseal-verifier history 99")] {
        let db = redb::Database::create(&history).unwrap();
        let write = db.begin_write().unwrap();
        if let Some(format) = format {
            write.open_table(table).unwrap().insert("format", format).unwrap();
        }
        write.commit().unwrap();
        drop(db);
        let audit = auditor(&plane).audit(&[]);
        assert_eq!(audit.code, 2, "{}", audit.show());
    }
}

#[test]
fn a_history_in_use_is_waited_for_by_nobody() {
    let plane = Plane::sample();
    assert_eq!(auditor(&plane).audit(&[]).code, 0);
    let db = redb::Database::open(plane.path("history.redb")).unwrap();
    let audit = auditor(&plane).audit(&[]);
    assert_eq!(audit.code, 3, "{}", audit.show());
    assert!(audit.stderr.contains("in use"), "{}", audit.show());
    drop(db);
    assert_eq!(auditor(&plane).audit(&[]).code, 0);
}

#[test]
fn the_history_lists_its_checkpoints() {
    let mut plane = Plane::sample();
    auditor(&plane).audit(&[]);
    plane.sealed("later", 2);
    auditor(&plane).audit(&[]);
    let history = plane.path("history.redb");
    let text_form = run(&plane, &["history", "--history", text(&history)]);
    assert_eq!(text_form.code, 0);
    assert!(
        text_form.stdout.contains(ORIGIN) && text_form.stdout.contains("10 entries verified"),
        "{}",
        text_form.stdout
    );
    let json = run(&plane, &["history", "--history", text(&history), "--json"]);
    let line: serde_json::Value = serde_json::from_str(json.stdout.trim()).unwrap();
    let sizes: Vec<u64> =
        line["checkpoints"].as_array().unwrap().iter().map(|c| c["size"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [9, 10]);
    let bytes = fs::metadata(&history).unwrap().len();
    assert_eq!(line["store_bytes"].as_u64(), Some(bytes));
    assert!(text_form.stdout.ends_with(&format!("the store has {bytes} bytes, with all its logs\n")));
    let unknown = run(&plane, &["history", "--history", text(&history), "--log", "typo"]);
    assert_eq!(unknown.code, 2);
    let absent = run(&plane, &["history", "--history", "/nowhere/at/all"]);
    assert_eq!(absent.code, 2);
    assert!(absent.stderr.contains("no history file"), "{}", absent.stderr);
}

#[test]
fn an_interrupted_audit_goes_on_where_it_stopped_and_skips_nothing() {
    let mut plane = Plane::new();
    for run in 0..1_500 {
        plane.sealed(&format!("r{run}"), 2);
    }
    let log = plane.publish();
    let missing = log.join("tile/entries/003");
    let honest = fs::read(&missing).unwrap();
    fs::remove_file(&missing).unwrap();
    let (policy, history) = (plane.policy(), plane.path("history.redb"));
    let audit = || {
        run(&plane, &["audit", "--policy", text(&policy), "--url", text(&log), "--history", text(&history)])
    };
    let cut = audit();
    assert_eq!((cut.code, cut.kinds()), (3, vec![]), "{}", cut.show());
    assert!(cut.stdout.contains("tile/entries/003"), "{}", cut.stdout);
    fs::write(&missing, &honest).unwrap();
    let rest = audit();
    assert_eq!(rest.code, 0, "{}", rest.show());
    assert_eq!(rest.report().counts.entries, 1_500 - 3 * 256);
    assert_eq!(audit().report().counts.entries, 0);
    // What lay behind the gap was not taken for checked: a fault there is found.
    let other = plane.path("other.redb");
    fs::remove_file(&missing).unwrap();
    let audit =
        || run(&plane, &["audit", "--policy", text(&policy), "--url", text(&log), "--history", text(&other)]);
    audit();
    fs::write(&missing, &honest).unwrap();
    let behind = log.join("tile/entries/005.p/220");
    let mut bytes = fs::read(&behind).unwrap();
    bytes[10] ^= 1;
    fs::write(&behind, &bytes).unwrap();
    let result = audit();
    assert_eq!((result.code, result.kinds()), (1, vec![EntryMismatch]), "{}", result.show());
}

#[test]
fn a_light_history_keeps_no_entries_and_still_convicts() {
    let mut plane = Plane::sample();
    let light = auditor(&plane).audit(&["--history-light"]);
    assert_eq!(light.code, 0, "{}", light.show());
    plane.seal("r4");
    let twice = auditor(&plane).audit(&["--history-light"]);
    assert_eq!(twice.runs(SealDuplicate), ["r4"], "{}", twice.show());
    plane.entries.remove(2);
    let fork = auditor(&plane).audit(&["--history-light"]);
    assert!(fork.kinds().contains(&Fork), "{}", fork.show());
    assert!(fork.stdout.contains("--history-light"), "{}", fork.stdout);
}

#[test]
fn a_read_only_history_is_refused() {
    let plane = Plane::sample();
    auditor(&plane).audit(&[]);
    let history = plane.path("history.redb");
    let mut permissions = fs::metadata(&history).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&history, permissions).unwrap();
    if fs::OpenOptions::new().write(true).open(&history).is_ok() {
        eprintln!("this user writes read-only files; nothing to see");
        return;
    }
    assert_eq!(auditor(&plane).audit(&[]).code, 2);
}

#[test]
fn flags_come_from_the_environment_too() {
    let plane = Plane::sample();
    let (log, policy) = (plane.publish(), plane.policy());
    let output = verifier()
        .arg("audit")
        .env("RUNSEAL_POLICY", &policy)
        .env("RUNSEAL_URL", &log)
        .env("RUNSEAL_MAX_AGE", "1s")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Turns a history into what format 1 kept: bundles whole, and the leaf tiles beside them.
fn as_format_1(history: &std::path::Path) {
    use redb::ReadableTable as _;
    let db = redb::Database::open(history).unwrap();
    let write = db.begin_write().unwrap();
    {
        let meta = redb::TableDefinition::<&str, &str>::new("meta");
        let pieces = redb::TableDefinition::<(u32, u64, u32), &[u8]>::new("pieces");
        let bundles = redb::TableDefinition::<(u32, u64), &[u8]>::new("bundles");
        let tiles = redb::TableDefinition::<(u32, u8, u64), &[u8]>::new("tiles");
        write.open_table(meta).unwrap().insert("format", "runseal-verifier history 1").unwrap();
        let mut whole = std::collections::BTreeMap::<u64, Vec<u8>>::new();
        for row in write.open_table(pieces).unwrap().iter().unwrap() {
            let (key, piece) = row.unwrap();
            whole.entry(key.value().1).or_default().extend_from_slice(piece.value());
        }
        assert!(!whole.is_empty());
        for (index, bundle) in whole {
            let (mut rest, mut hashes) = (bundle.as_slice(), Vec::new());
            while let Some((length, after)) = rest.split_first_chunk::<2>() {
                let (entry, after) = after.split_at(usize::from(u16::from_be_bytes(*length)));
                hashes.extend_from_slice(runseal_tlog::hash::LeafHash::of(entry).as_bytes());
                rest = after;
            }
            write.open_table(bundles).unwrap().insert((0, index), bundle.as_slice()).unwrap();
            write.open_table(tiles).unwrap().insert((0, 0, index), hashes.as_slice()).unwrap();
        }
        write.delete_table(pieces).unwrap();
    }
    write.commit().unwrap();
}

#[test]
fn a_history_of_format_1_goes_on_and_still_names_what_vanishes() {
    let mut plane = Plane::new();
    for run in 0..300 {
        plane.sealed(&format!("r{run}"), 2);
    }
    assert_eq!(auditor(&plane).audit(&[]).code, 0);
    as_format_1(&plane.path("history.redb"));
    for run in 300..700 {
        plane.sealed(&format!("r{run}"), 2);
    }
    let grown = auditor(&plane).audit(&[]);
    assert_eq!((grown.code, grown.report().counts.entries), (0, 400), "{}", grown.show());
    for gone in [10, 290, 500] {
        let honest = plane.entries.remove(gone);
        let forked = auditor(&plane).audit(&[]);
        assert_eq!(forked.runs(RunDeleted), [format!("r{gone}")], "{}", forked.show());
        plane.entries.insert(gone, honest);
    }
    assert_eq!(auditor(&plane).audit(&[]).code, 0);
}

#[test]
fn a_history_kept_with_entries_and_without_by_turns_still_proves_a_fork() {
    let mut plane = Plane::new();
    for turn in 0..4 {
        for run in 0..90 {
            plane.sealed(&format!("r{turn}-{run}"), 2);
        }
        let more: &[&str] = if turn % 2 == 0 { &[] } else { &["--history-light"] };
        let grown = auditor(&plane).audit(more);
        assert_eq!((grown.code, grown.report().counts.entries), (0, 90), "{}", grown.show());
    }
    // Leaves up to these sizes were kept last without entries, and with them.
    let all = plane.entries.clone();
    for size in [200, 300] {
        plane.entries.truncate(size);
        let back = auditor(&plane).audit(&[]);
        assert_eq!(back.code, 1, "{size}: {}", back.show());
        assert!(back.kinds().contains(&Rollback) && !back.stdout.contains("too few"), "{}", back.show());
        plane.entries.clone_from(&all);
    }
    plane.entries.remove(100);
    let forked = auditor(&plane).audit(&[]);
    assert_eq!(forked.code, 1, "{}", forked.show());
    assert!(forked.kinds().contains(&Fork), "{}", forked.show());
}

#[test]
fn a_bundle_that_grew_replaces_all_pieces_of_what_it_was() {
    // 49 entries of 165 bytes lie in three pieces, 50 in two.
    let mut plane = Plane::new();
    for run in 0..49 {
        plane.sealed(&format!("run-00{run:02}"), 2);
    }
    assert_eq!(plane.entries[0].len() + 2, 165);
    assert_eq!(auditor(&plane).audit(&[]).code, 0);
    plane.sealed("run-0049", 2);
    assert_eq!(auditor(&plane).audit(&[]).code, 0);
    plane.entries.truncate(45);
    let back = auditor(&plane).audit(&[]);
    assert_eq!(back.code, 1, "{}", back.show());
    assert!(back.kinds().contains(&Rollback), "{}", back.show());
    assert_eq!(
        back.runs(RunDeleted),
        ["run-0045", "run-0046", "run-0047", "run-0048", "run-0049"],
        "{}",
        back.show()
    );
}

#[test]
fn a_damaged_history_accuses_nobody_and_ends_no_audit_by_a_panic() {
    let mut plane = Plane::sample();
    for run in 0..40 {
        plane.sealed(&format!("d{run}"), 2);
    }
    assert_eq!(auditor(&plane).audit(&[]).code, 0);
    let history = plane.path("history.redb");
    let whole = fs::read(&history).unwrap();
    plane.sealed("later", 2);
    // Blocks of zeros are what a disk that lost a write gives; a bit is what a memory that failed does.
    let damages = (0..whole.len() / 512).step_by(7).map(|block| (block * 512, 512, 0));
    let bits = (0..whole.len() / 512).step_by(5).map(|block| (block * 512 + 100 + block % 300, 1, 0x10));
    let mut refused = 0;
    for (at, length, flip) in damages.chain(bits) {
        let mut bytes = whole.clone();
        for byte in &mut bytes[at..at + length] {
            *byte = if flip == 0 { 0 } else { *byte ^ flip };
        }
        fs::write(&history, &bytes).unwrap();
        let audit = auditor(&plane).audit(&[]);
        assert!([0, 2, 3].contains(&audit.code), "{length} bytes at {at}: {}", audit.show());
        refused += usize::from(audit.code != 0 && audit.stderr.contains("history"));
        let listed = run(&plane, &["history", "--history", text(&history)]);
        assert!([0, 2, 3].contains(&listed.code), "{length} bytes at {at}: {}", listed.show());
    }
    assert!(refused > 0, "nothing that was used was damaged");
}

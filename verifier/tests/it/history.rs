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

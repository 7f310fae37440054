//! A state moves to another machine by `db export` and `db import`, whole or not at all, never back.

use std::sync::Arc;

use runseal_tlog::key::Algorithm;
use runseal_witness::database::RedbStore;
use runseal_witness::failure::Exit;
use runseal_witness::state::Store as _;
use runseal_witness::transfer::{self, TransferError};

use crate::harness::{NOW, TestClock, log_set, new_store, witness, witness_keys};
use crate::place::{Place, log_of};
use crate::testlog::TestLog;

#[test]
fn a_state_moves_to_another_machine_with_its_alarms() {
    let log = log_of(9);
    let place = Place::following(&log);
    let running = place.serve();
    let mut other = log_of(0);
    other.grow(5, "other");
    assert_eq!(running.add_checkpoint(&log.request(0, 5)).status, 200);
    assert_eq!(running.add_checkpoint(&other.request(5, 5)).status, 422);
    assert_eq!(running.stop(), 0);
    place.ok(&["db", "check", "--db", "w.redb"]);
    place.ok(&["db", "export", "--db", "w.redb", "-o", "early"]);
    let early = place.read("early");
    assert_eq!(early, place.ok(&["db", "export", "--db", "w.redb"]));
    place.ok(&["init", "--db", "new.redb"]);
    place.ok(&["db", "import", "--db", "new.redb", "early"]);
    let logs = |db: &str| place.ok(&["logs", "--db", db, "--json"]);
    assert_eq!(logs("new.redb"), logs("w.redb"));
    assert_eq!(place.logs()[0].alarms, 1);
    assert_eq!(early, place.ok(&["db", "export", "--db", "new.redb"]));
    // Again changes nothing.
    place.ok(&["db", "import", "--db", "new.redb", "early"]);
    assert_eq!(early, place.ok(&["db", "export", "--db", "new.redb"]));

    let running = place.serve();
    assert_eq!(running.add_checkpoint(&log.request(5, 9)).status, 200);
    assert_eq!(running.stop(), 0);
    let (code, said) = place.fails(&["db", "import", "--db", "w.redb", "early"]);
    assert!(code == 2 && said.contains("never goes back"), "{said}");
    assert_eq!(place.logs()[0].size, 9);
    place.ok(&["db", "export", "--db", "w.redb", "-o", "late"]);
    place.ok(&["db", "import", "--db", "new.redb", "late"]);
    assert_eq!(logs("new.redb"), logs("w.redb"));
    // The witness goes on where the other one stood.
    let running = place.serving().logs("logs").db("new.redb").start();
    assert_eq!(running.add_checkpoint(&log.request(0, 9)).text(), "9\n");
}

#[test]
fn an_export_cut_short_or_touched_is_refused_whole() {
    let log = log_of(9);
    let place = Place::following(&log);
    let running = place.serve();
    assert_eq!(running.add_checkpoint(&log.request(0, 9)).status, 200);
    assert_eq!(running.stop(), 0);
    let export = place.ok(&["db", "export", "--db", "w.redb"]);
    place.ok(&["init", "--db", "third.redb"]);
    let refused = |text: &str, why: &str| {
        place.write("touched", text);
        assert_eq!(place.fails(&["db", "import", "--db", "third.redb", "touched"]).0, 2, "{why}");
    };
    let lines: Vec<&str> = export.lines().collect();
    for cut in 0..lines.len() {
        let first: String = lines[..cut].iter().flat_map(|line| [line, "\n"]).collect();
        refused(&first, &format!("{cut} lines"));
    }
    for (from, to) in [
        ("\\n9\\n", "\\n8\\n"),
        ("\"version\":1", "\"version\":2"),
        ("\"logs\":1", "\"logs\":2"),
        ("log.example/process\",\"keys", "log.example/x\",\"keys"),
    ] {
        assert!(export.contains(from), "{from}: {export}");
        refused(&export.replacen(from, to, 1), from);
    }
    assert_eq!(place.ok(&["logs", "--db", "third.redb"]), "");
}

#[test]
fn two_roots_of_one_size_under_one_key_are_a_finding() {
    let place = Place::following(&log_of(0));
    let histories: [TestLog; 2] = ["one", "other"].map(|salt| {
        let mut log = log_of(0);
        log.grow(9, salt);
        log
    });
    place.ok(&["init", "--db", "other.redb"]);
    for (db, log) in ["w.redb", "other.redb"].iter().zip(&histories) {
        let running = place.serving().logs("logs").db(db).start();
        assert_eq!(running.add_checkpoint(&log.request(0, 9)).status, 200);
        assert_eq!(running.stop(), 0);
    }
    place.ok(&["db", "export", "--db", "w.redb", "-o", "export"]);
    let (code, said) = place.fails(&["db", "import", "--db", "other.redb", "export"]);
    assert!(code == 1 && said.contains("two roots"), "{said}");
}

/// A store of one witness that has cosigned each log at such a size and time.
fn held(folder: &tempfile::TempDir, name: &str, logs: &[(&TestLog, usize, u64)]) -> Arc<RedbStore> {
    let keys = witness_keys(&[Algorithm::CosignatureEd25519]);
    let store = new_store(&folder.path().join(name), &keys);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (log, size, time) in logs {
        let keys = witness_keys(&[Algorithm::CosignatureEd25519]);
        let followed = log_set(&log.list(), &keys);
        let witness = witness(keys, followed, Arc::clone(&store) as _, TestClock::at(*time));
        runtime.block_on(witness.add_checkpoint(log.request(0, *size).as_bytes())).unwrap();
    }
    store
}

fn exported(store: &RedbStore) -> Vec<u8> {
    let mut lines = Vec::new();
    transfer::export(store, &mut lines).unwrap();
    lines
}

#[test]
fn what_is_older_in_size_or_time_than_what_is_held_is_refused_and_takes_the_rest_along() {
    let mut log = TestLog::new("log.example/b", 1);
    log.grow(9, "");
    // Logs before and after it in the export, which are new to whoever imports it.
    let (mut first, mut last) = (TestLog::new("log.example/a", 2), TestLog::new("log.example/c", 3));
    first.grow(1, "");
    last.grow(1, "");
    for (name, held_size, held_time, size, time) in [
        ("a smaller size", 9, NOW, 5, NOW),
        ("a smaller size cosigned later", 9, NOW, 5, NOW + 60),
        ("an earlier time of the same size", 9, NOW + 1, 9, NOW),
        ("a larger size cosigned earlier", 5, NOW + 1, 9, NOW),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let holding = held(&folder, "holding", &[(&log, held_size, held_time)]);
        let offering = held(&folder, "offering", &[(&first, 1, NOW), (&log, size, time), (&last, 1, NOW)]);
        let before = exported(&holding);
        let error = transfer::import(&holding, &mut exported(&offering).as_slice()).unwrap_err();
        assert!(
            matches!(&error, TransferError::Older { origin, .. } if *origin == log.origin),
            "{name}: {error}"
        );
        assert_eq!(exported(&holding), before, "{name}");
        assert_eq!(holding.head(&log.origin).unwrap().size, held_size as u64, "{name}");
        assert_eq!(holding.head(&first.origin).unwrap().time, 0, "{name}");
    }
}

#[test]
fn what_is_newer_in_size_and_time_is_taken_up_and_stood_on_at_once() {
    let mut log = TestLog::new("log.example/b", 1);
    log.grow(9, "");
    for (held_size, held_time, size, time) in
        [(5, NOW, 9, NOW), (5, NOW, 9, NOW + 1), (9, NOW, 9, NOW + 1), (9, NOW, 9, NOW)]
    {
        let folder = tempfile::tempdir().unwrap();
        let holding = held(&folder, "holding", &[(&log, held_size, held_time)]);
        let offering = held(&folder, "offering", &[(&log, size, time)]);
        transfer::import(&holding, &mut exported(&offering).as_slice()).unwrap();
        let head = holding.head(&log.origin).unwrap();
        assert_eq!((head.size, head.time), (size as u64, time));
        assert_eq!(exported(&holding), exported(&offering));
    }
}

#[test]
fn a_damaged_database_is_refused_without_a_panic_or_is_what_it_was() {
    let mut logs: Vec<_> =
        (0..12).map(|number| TestLog::new(&format!("log.example/{number}"), 20 + number)).collect();
    let mut list = "logs/v0\n".to_owned();
    for log in &mut logs {
        log.grow(9, "");
        list.extend(["vkey ", &log.vkey(), "\n"]);
    }
    let place = Place::ready();
    place.write("logs", &list);
    let running = place.serve();
    for log in &logs {
        assert_eq!(running.add_checkpoint(&log.request(0, 9)).status, 200);
    }
    assert_eq!(running.stop(), 0);
    let file = place.path("w.redb");
    let whole = std::fs::read(&file).unwrap();
    let (mut refused, mut opened) = (0, 0);
    // A page in three loses a block, as by a write that the disk lost, and a block in three a bit.
    let blocks = (0..whole.len()).step_by(3 * 512).map(|at| (at, 512, 0));
    let bits = (0..whole.len()).step_by(3 * 512).map(|at| (at + 512 + at / 512 % 512, 1, 0x10));
    for (at, length, flip) in blocks.chain(bits).filter(|(at, length, _)| at + length <= whole.len()) {
        let mut bytes = whole.clone();
        for byte in &mut bytes[at..at + length] {
            *byte = if flip == 0 { 0 } else { *byte ^ flip };
        }
        if bytes == whole {
            continue;
        }
        std::fs::write(&file, &bytes).unwrap();
        match RedbStore::open(&file) {
            Ok(store) => {
                opened += 1;
                for log in &logs {
                    let head = store.head(&log.origin).unwrap();
                    assert_eq!(head.size, 9, "{length} bytes at {at}: {}", log.origin);
                }
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
        std::fs::write(&file, &bytes).unwrap();
        if let Err(error) = RedbStore::check(&file) {
            assert_ne!(error.exit(), Exit::Fault, "{length} bytes at {at}: {error}");
        }
    }
    assert!(refused > 10 && opened > 10, "{refused} refused, {opened} opened");
}

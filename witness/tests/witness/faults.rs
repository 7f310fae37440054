//! A store that fails: what it could not keep is never signed, and what it kept is never forgotten.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use runseal_tlog::key::Algorithm;
use runseal_witness::database::RedbStore;
use runseal_witness::state::{Applied, Change, Cosigned, Head, StateError, Store, origin_hash};
use runseal_witness::witness::Witness;

use crate::harness::{NOW, Served, TestClock, log_set, new_store, open_store, witness, witness_keys};
use crate::testlog::TestLog;
use crate::wire::{get, post};

/// How a commit fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Nothing reaches the disk.
    Lost,
    /// Everything reaches the disk, but the answer says otherwise.
    Landed,
}

/// A store in memory that fails at the `fails_at`th commit, and until it is recovered.
struct FaultyStore {
    rows: Mutex<BTreeMap<String, (Head, String)>>,
    commits: AtomicUsize,
    fails_at: usize,
    fault: Fault,
    broken: Mutex<bool>,
    recoverable: Mutex<bool>,
}

impl FaultyStore {
    fn new(fails_at: usize, fault: Fault) -> Arc<Self> {
        Arc::new(Self {
            rows: Mutex::default(),
            commits: AtomicUsize::new(0),
            fails_at,
            fault,
            broken: Mutex::new(false),
            recoverable: Mutex::new(true),
        })
    }
}

impl Store for FaultyStore {
    fn head(&self, origin: &str) -> Result<Head, StateError> {
        Ok(self.rows.lock().unwrap().get(origin).map_or(Head::EMPTY, |row| row.0))
    }

    fn commit(&self, changes: &[Change]) -> Result<Vec<Applied>, StateError> {
        let mut broken = self.broken.lock().unwrap();
        assert!(!*broken, "nothing is written to a broken store before it is recovered");
        *broken = self.commits.fetch_add(1, Ordering::SeqCst) == self.fails_at;
        if *broken && self.fault == Fault::Lost {
            return Err(StateError::Closed);
        }
        let mut rows = self.rows.lock().unwrap();
        let applied = changes
            .iter()
            .map(|change| match change {
                Change::Advance(step) => {
                    let known = rows.get(step.log.origin()).map_or(Head::EMPTY, |row| row.0);
                    if known != step.from {
                        return Applied::Stale;
                    }
                    rows.insert(step.log.origin().to_owned(), (step.to, step.note.clone()));
                    Applied::Written
                }
                Change::Alarm(_) | Change::Published { .. } => Applied::Written,
            })
            .collect();
        if *broken { Err(StateError::Closed) } else { Ok(applied) }
    }

    fn note(&self, wanted: &[u8; 32]) -> Result<Option<String>, StateError> {
        let rows = self.rows.lock().unwrap();
        Ok(rows.iter().find(|(origin, _)| origin_hash(origin) == *wanted).map(|(_, row)| row.1.clone()))
    }

    fn cosigned(&self, _: Option<&str>, _: usize) -> Result<Vec<Cosigned>, StateError> {
        Ok(Vec::new())
    }

    fn published(&self, _: &str) -> Result<u64, StateError> {
        Ok(0)
    }

    fn recover(&self) -> Result<(), StateError> {
        if !*self.recoverable.lock().unwrap() {
            return Err(StateError::Closed);
        }
        *self.broken.lock().unwrap() = false;
        Ok(())
    }
}

fn over(store: Arc<dyn Store>, log: &TestLog) -> Arc<Witness> {
    let keys = witness_keys(&[Algorithm::CosignatureEd25519]);
    let logs = log_set(&log.list(), &keys);
    witness(keys, logs, store, TestClock::at(NOW))
}

#[test]
fn nothing_leaves_the_witness_that_the_store_could_not_keep() {
    let mut log = TestLog::new("log.example/faults", 1);
    log.grow(12, "");
    for fault in [Fault::Lost, Fault::Landed] {
        for fails_at in 0..4 {
            let store = FaultyStore::new(fails_at, fault);
            let served = Served::start(over(Arc::clone(&store) as _, &log));
            let mut acknowledged = 0;
            for size in [3, 6, 9, 12] {
                let answer =
                    post(served.address, "/add-checkpoint", log.request(acknowledged, size).as_bytes());
                match answer.status {
                    200 => acknowledged = size,
                    503 => {
                        assert_eq!(answer.header("retry-after"), Some("1"));
                        assert!(!answer.text().contains('\u{2014}'), "{answer:?}");
                        assert_eq!(get(served.address, "/healthz").status, 503);
                        // Whatever became of it, the witness tells where it stands when asked again.
                        let again = post(
                            served.address,
                            "/add-checkpoint",
                            log.request(acknowledged, size).as_bytes(),
                        );
                        let expected = if fault == Fault::Lost { 200 } else { 409 };
                        assert_eq!(again.status, expected, "{fault:?} at {fails_at}: {again:?}");
                        acknowledged = size;
                    }
                    other => panic!("{other}: {answer:?}"),
                }
                assert_eq!(store.head(&log.origin).unwrap().size, acknowledged as u64);
            }
        }
    }
}

#[test]
fn a_store_that_cannot_be_recovered_signs_nothing_and_says_so() {
    let mut log = TestLog::new("log.example/faults", 1);
    log.grow(6, "");
    let store = FaultyStore::new(0, Fault::Lost);
    *store.recoverable.lock().unwrap() = false;
    let served = Served::start(over(Arc::clone(&store) as _, &log));
    for _ in 0..3 {
        assert_eq!(post(served.address, "/add-checkpoint", log.request(0, 6).as_bytes()).status, 503);
        assert_eq!(get(served.address, "/healthz").status, 503);
        assert!(get(served.address, "/metrics").text().contains("runseal_witness_state_writable 0\n"));
    }
    *store.recoverable.lock().unwrap() = true;
    assert_eq!(post(served.address, "/add-checkpoint", log.request(0, 6).as_bytes()).status, 200);
    assert_eq!(get(served.address, "/healthz").status, 200);
}

fn cosigned_state(path: &Path, log: &mut TestLog) {
    log.grow(7, "");
    let keys = witness_keys(&[Algorithm::CosignatureEd25519]);
    let store = new_store(path, &keys);
    let witness = over(store, log);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(witness.add_checkpoint(log.request(0, 7).as_bytes())).unwrap();
    drop(witness);
    // The writing thread ends with the last way to it, and lets go of the file.
    while matches!(RedbStore::open(path), Err(StateError::Busy(_))) {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn a_byte_changed_anywhere_in_a_stored_checkpoint_is_found_on_opening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let mut log = TestLog::new("log.example/damage", 1);
    cosigned_state(&path, &mut log);
    let sound = std::fs::read(&path).unwrap();
    // The text in the stored note, which the cosignature covers, wherever the database put it; superseded copies of the page do no harm.
    let needle = log.checkpoint(7);
    let needle = &needle[..=needle.rfind("\n\n").unwrap()];
    let places: Vec<usize> = sound
        .windows(needle.len())
        .enumerate()
        .filter(|(_, window)| *window == needle.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty());
    for offset in (0..needle.len()).step_by(3) {
        let mut damaged = sound.clone();
        for place in &places {
            damaged[place + offset] ^= 0x01;
        }
        std::fs::write(&path, &damaged).unwrap();
        let error = RedbStore::open(&path).err().unwrap_or_else(|| panic!("byte {offset} was not missed"));
        assert_eq!(error.exit() as u8, 3, "{error}");
        if let StateError::Damaged { origin, .. } = &error {
            assert!(origin.is_empty() || *origin == log.origin, "{error}");
        }
    }
    std::fs::write(&path, &sound).unwrap();
    assert_eq!(RedbStore::open(&path).unwrap().head(&log.origin).unwrap().size, 7);
}

#[test]
fn a_page_damaged_anywhere_is_an_error_or_harmless_but_never_a_crash_or_another_head() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let mut log = TestLog::new("log.example/pages", 1);
    cosigned_state(&path, &mut log);
    let sound = std::fs::read(&path).unwrap();
    for page in 0..sound.len() / 4096 {
        for kind in 0..3 {
            let mut damaged = sound.clone();
            let bytes = &mut damaged[page * 4096..][..4096];
            match kind {
                0 => bytes.fill(0),
                1 => bytes.iter_mut().for_each(|byte| *byte ^= 0xff),
                _ => bytes[2048] ^= 0x10,
            }
            std::fs::write(&path, &damaged).unwrap();
            let opened = std::panic::catch_unwind(|| {
                RedbStore::open(&path).map(|store| store.head(&log.origin).map(|head| head.size))
            });
            match opened {
                Ok(Ok(Ok(size))) => assert_eq!(size, 7, "page {page}, damage {kind}"),
                // The database panics on purpose where debug assertions are on, and only there.
                Err(panic) if !cfg!(debug_assertions) => std::panic::resume_unwind(panic),
                Ok(Ok(Err(_)) | Err(_)) | Err(_) => {}
            }
        }
    }
}

#[test]
fn opening_twice_foreign_and_missing_files_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let missing = RedbStore::open(&path).err().unwrap();
    assert!(matches!(missing, StateError::Missing(_)) && missing.exit() as u8 == 2);
    assert!(missing.to_string().contains("runseal-witness init"));
    assert!(!path.exists(), "opening makes nothing");
    for foreign in [&b""[..], b"SQLite format 3\0", b"redb"] {
        std::fs::write(&path, foreign).unwrap();
        let error = RedbStore::open(&path).err().unwrap();
        assert!(matches!(error, StateError::Foreign { .. }) && error.exit() as u8 == 2, "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), foreign, "a refused file stays as it was");
        assert!(matches!(RedbStore::create(&path), Err(StateError::Exists(_))));
    }
    std::fs::remove_file(&path).unwrap();
    redb::Database::create(&path).unwrap();
    assert!(matches!(RedbStore::open(&path), Err(StateError::Foreign { .. })));
    std::fs::remove_file(&path).unwrap();
    let keys = witness_keys(&[Algorithm::CosignatureEd25519]);
    let store = new_store(&path, &keys);
    let busy = RedbStore::open(&path).err().unwrap();
    assert!(matches!(busy, StateError::Busy(_)) && busy.exit() as u8 == 3);
    drop(store);
    drop(open_store(&path, &keys));
}

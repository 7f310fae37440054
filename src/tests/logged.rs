//! The write-ahead log: what readers see through it, what a crash leaves of it, and what damage does to it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::world::MapEngine;
use crate::disk::Disk;
use crate::store::{
    AheadFault, AheadOptions, AheadPlace, Direction, Engine, KeyRange, LoggedEngine, Read, RecoverError,
    Scanned, Writes, recover,
};

/// A log that is full every few commits.
pub(crate) const SMALL: AheadOptions =
    AheadOptions { half_bytes: 16 << 10, frame_bytes: 6 << 10, direct_commits: 0 };

/// The place of a file in memory.
#[derive(Clone, Default)]
pub(crate) struct Place(Arc<Mutex<Option<Vec<u8>>>>);

impl Place {
    fn with<T>(&self, change: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        change(self.0.lock().unwrap().as_mut().expect("there is a file"))
    }

    fn holds_a_file(&self) -> bool {
        self.0.lock().unwrap().is_some()
    }
}

impl AheadPlace for Place {
    fn open(&self) -> io::Result<Option<Box<dyn Disk>>> {
        Ok(self.holds_a_file().then(|| Box::new(self.clone()) as Box<dyn Disk>))
    }

    fn create(&self, start: &[u8], size: u64) -> io::Result<Box<dyn Disk>> {
        let mut bytes = start.to_vec();
        bytes.resize(usize::try_from(size).unwrap(), 0);
        *self.0.lock().unwrap() = Some(bytes);
        Ok(Box::new(self.clone()))
    }

    fn remove(&self) -> io::Result<()> {
        *self.0.lock().unwrap() = None;
        Ok(())
    }

    fn path(&self) -> &Path {
        Path::new("memory")
    }
}

impl Disk for Place {
    fn size(&self) -> io::Result<u64> {
        Ok(self.with(|bytes| bytes.len() as u64))
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.with(|bytes| {
            let rest = bytes.get(usize::try_from(at).unwrap()..).unwrap_or_default();
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        })
    }

    fn write_at(&self, written: &[u8], at: u64) -> io::Result<()> {
        let at = usize::try_from(at).unwrap();
        self.with(|bytes| bytes[at..at + written.len()].copy_from_slice(written));
        Ok(())
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.with(|bytes| bytes.resize(usize::try_from(size).unwrap(), 0));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Tables and the log before them, as they outlive a process.
#[derive(Clone, Default)]
pub(crate) struct Logged {
    tables: MapEngine,
    place: Place,
}

impl Logged {
    /// An engine over them.
    pub(crate) fn start(&self, options: AheadOptions) -> LoggedEngine {
        self.recover().unwrap();
        LoggedEngine::start(Arc::new(self.tables.clone()), Box::new(self.place.clone()), options).unwrap()
    }

    fn recover(&self) -> Result<(), RecoverError> {
        recover(&self.tables, &self.place)
    }

    fn fault(&self) -> AheadFault {
        match self.recover().unwrap_err() {
            RecoverError::Fault(fault) => fault,
            RecoverError::Store(error) => panic!("{error}"),
        }
    }

    /// What a process leaves that dies now, while it commits nothing.
    pub(crate) fn crashed(&self) -> Self {
        // The log first: what reaches the tables meanwhile is in both.
        let place = Place(Arc::new(Mutex::new(self.place.0.lock().unwrap().clone())));
        Self { tables: self.tables.copied(), place }
    }

    fn rows(&self) -> Rows {
        rows(&*self.tables.snapshot().unwrap())
    }
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// All rows of the test, which leaves out the log's own.
fn everything() -> KeyRange {
    KeyRange { lower: vec![b'k'], upper: vec![b'l'] }
}

fn rows(read: &dyn Read) -> Rows {
    let mut rows = Rows::new();
    read.scan(&everything(), Direction::Ascending, &mut |key, value| {
        rows.insert(key.to_vec(), value.to_vec());
        Scanned::Continue(())
    })
    .unwrap();
    rows
}

fn writes(rows: &[(u8, Option<u16>)]) -> Writes {
    let row = |(key, length): &(u8, Option<u16>)| {
        let value = length.map(|length| vec![(length % 251) as u8; usize::from(length)]);
        (vec![b'k', *key], value)
    };
    rows.iter().map(row).collect()
}

fn apply(model: &mut Rows, writes: Writes) {
    for (key, value) in writes {
        match value {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
}

/// Both directions, whole and in part, and row by row.
fn assert_shows(read: &dyn Read, model: &Rows) {
    assert_eq!(rows(read), *model);
    for key in [0, 7, 31] {
        let key = vec![b'k', key];
        assert_eq!(read.get(&key).unwrap().as_ref(), model.get(&key));
    }
    let range = KeyRange { lower: vec![b'k', 5], upper: vec![b'k', 28] };
    for limit in [1, 3, 100] {
        let mut seen = Vec::new();
        read.scan(&range, Direction::Descending, &mut |key, value| {
            seen.push((key.to_vec(), value.to_vec()));
            if seen.len() == limit { Scanned::Break(()) } else { Scanned::Continue(()) }
        })
        .unwrap();
        let expected = model.range(range.lower.clone()..range.upper.clone()).rev().take(limit);
        assert_eq!(seen, expected.map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>());
    }
}

#[derive(Debug, Clone)]
enum Move {
    Commit(Vec<(u8, Option<u16>)>),
    Hold,
    Settle,
    Close,
    Crash,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let row = (0..32u8, proptest::option::weighted(0.8, prop_oneof![9 => 0..600u16, 1 => 600..9000u16]));
    let one = prop_oneof![
        30 => proptest::collection::vec(row, 1..6).prop_map(Move::Commit),
        4 => Just(Move::Hold),
        1 => Just(Move::Settle),
        1 => Just(Move::Close),
        2 => Just(Move::Crash),
    ];
    proptest::collection::vec(one, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn readers_see_each_commit_at_its_moment_whatever_layer_it_is_in(moves in moves()) {
        let mut logged = Logged::default();
        let mut engine = logged.start(SMALL);
        let mut model = Rows::new();
        let mut held = Vec::new();
        for one in moves {
            match one {
                Move::Commit(rows) => {
                    let writes = writes(&rows);
                    apply(&mut model, writes.clone());
                    engine.commit(writes).unwrap();
                }
                Move::Hold => held.push((engine.snapshot().unwrap(), model.clone())),
                Move::Settle => {
                    engine.settle().unwrap();
                    assert!(!logged.place.holds_a_file());
                    assert_eq!(logged.rows(), model);
                }
                Move::Close => {
                    drop(engine);
                    assert!(!logged.place.holds_a_file());
                    engine = logged.start(SMALL);
                }
                Move::Crash => {
                    logged = logged.crashed();
                    engine = logged.start(SMALL);
                }
            }
            assert_shows(&*engine.snapshot().unwrap(), &model);
            let working = engine.working_snapshot().unwrap();
            // Twice: what was read once is remembered.
            for key in (0..33).chain(0..33) {
                let key = vec![b'k', key];
                prop_assert_eq!(working.get(&key).unwrap(), model.get(&key).cloned());
            }
        }
        for (snapshot, model) in held {
            assert_shows(&*snapshot, &model);
        }
    }
}

/// A log with frames in both halves, the tables behind it, and the rows after each of the last two commits.
fn crashed_at_work() -> (Logged, Rows, Rows) {
    let logged = Logged::default();
    let engine = logged.start(SMALL);
    let mut model = Rows::new();
    let mut before = Rows::new();
    for number in 0..70u16 {
        let writes = writes(&[((number % 32) as u8, Some(300 + number)), (31, Some(number)), (30, None)]);
        before.clone_from(&model);
        apply(&mut model, writes.clone());
        engine.commit(writes).unwrap();
    }
    let left = logged.crashed();
    drop(engine);
    (left, before, model)
}

#[test]
fn a_damaged_log_is_refused_unless_nothing_is_lost_but_what_its_last_frame_held() {
    let (left, before, model) = crashed_at_work();
    let whole = left.place.with(|bytes| bytes.clone());
    let (mut refused, mut harmless, mut last_lost) = (0, 0, Vec::new());
    let mut examine = |at: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let damaged = left.crashed();
        damaged.place.with(change);
        match damaged.recover() {
            Err(RecoverError::Fault(_)) => {
                refused += 1;
                assert_eq!(damaged.rows(), left.rows(), "byte {at}: refused, and the tables were changed");
                assert!(damaged.place.holds_a_file());
            }
            Err(RecoverError::Store(error)) => panic!("byte {at}: {error}"),
            Ok(()) if damaged.rows() == model => harmless += 1,
            Ok(()) => {
                assert_eq!(damaged.rows(), before, "byte {at}: something else is shown in silence");
                last_lost.push(at);
            }
        }
    };
    for at in (0..whole.len()).step_by(7) {
        examine(at, &|bytes| bytes[at] ^= 0x10);
    }
    for at in (0..whole.len()).step_by(512) {
        examine(at, &|bytes| bytes[at..(at + 512).min(whole.len())].fill(0));
    }
    // Everything from here on.
    for at in (0..whole.len()).step_by(512) {
        examine(at, &|bytes| bytes[at..].fill(0));
        examine(at, &|bytes| bytes.truncate(at));
    }
    println!("{refused} refused, {harmless} harmless, {} lost the last commit alone", last_lost.len());
    assert!(refused > 100 && harmless > 100 && !last_lost.is_empty());
    let spread = last_lost.iter().max().unwrap() - last_lost.iter().min().unwrap();
    assert!(
        spread < 1500,
        "only damage to the last frame, of some 400 bytes, can pass for a torn write: {last_lost:?}"
    );
}

#[test]
fn a_log_goes_with_one_state_of_the_tables() {
    let (left, _, model) = crashed_at_work();
    // Of other tables, whose own log is gone.
    let (other, ..) = crashed_at_work();
    let mixed = Logged { tables: left.tables.copied(), place: other.place.clone() };
    assert!(matches!(mixed.fault(), AheadFault::OtherState));
    // Of tables from before it was made.
    let older = Logged { tables: MapEngine::default(), place: left.place.clone() };
    assert!(matches!(older.fault(), AheadFault::OtherState));
    // Gone.
    let without = Logged { tables: left.tables.copied(), place: Place::default() };
    assert!(matches!(without.fault(), AheadFault::Missing));
    left.recover().unwrap();
    assert_eq!(left.rows(), model);
}

#[test]
fn a_log_that_nothing_depends_on_is_removed() {
    // Made, and not taken into use: the process died before the tables said so.
    let made = Logged::default();
    {
        let engine = made.start(SMALL);
        engine.commit(writes(&[(1, Some(1))])).unwrap();
        let unused = Logged { tables: MapEngine::default(), place: made.crashed().place };
        unused.recover().unwrap();
        assert!(!unused.place.holds_a_file());
    }
    // Taken out of use, and not removed.
    let (left, _, model) = crashed_at_work();
    let file = left.crashed().place;
    left.recover().unwrap();
    let settled = Logged { tables: left.tables.copied(), place: file };
    settled.recover().unwrap();
    assert!(!settled.place.holds_a_file());
    assert_eq!(settled.rows(), model);
}

#[test]
fn few_commits_after_a_rest_need_no_log() {
    let logged = Logged::default();
    let engine = logged.start(AheadOptions { direct_commits: 3, ..SMALL });
    for round in 0..2 {
        for number in 0..4 {
            assert!(!logged.place.holds_a_file(), "round {round}, commit {number}");
            engine.commit(writes(&[(number, Some(1))])).unwrap();
        }
        assert!(logged.place.holds_a_file());
        engine.settle().unwrap();
    }
}

/// Tables that fail when told to.
struct Failing(MapEngine, Arc<std::sync::atomic::AtomicBool>);

#[derive(Debug, thiserror::Error)]
#[error("the tables are full")]
struct Full;

impl Engine for Failing {
    fn snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, crate::EngineError> {
        self.0.snapshot()
    }

    fn commit(&self, writes: Writes) -> Result<(), crate::EngineError> {
        if self.1.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(crate::EngineError::new(Full));
        }
        self.0.commit(writes)
    }
}

#[test]
fn tables_that_cannot_be_filled_end_the_work_and_nothing_acknowledged_is_lost() {
    let logged = Logged::default();
    let fails = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let tables = Failing(logged.tables.clone(), Arc::clone(&fails));
    let engine = LoggedEngine::start(Arc::new(tables), Box::new(logged.place.clone()), SMALL).unwrap();
    engine.commit(writes(&[(0, Some(1))])).unwrap();
    fails.store(true, std::sync::atomic::Ordering::SeqCst);
    let mut model = Rows::new();
    apply(&mut model, writes(&[(0, Some(1))]));
    let failed = (0..1000u16).find_map(|number| {
        let writes = writes(&[((number % 32) as u8, Some(500 + number % 100))]);
        match engine.commit(writes.clone()) {
            Ok(()) => {
                apply(&mut model, writes);
                None
            }
            Err(error) => Some(error.to_string()),
        }
    });
    assert_eq!(failed.as_deref(), Some("the tables are full"));
    assert!(engine.commit(writes(&[(1, None)])).is_err(), "nor does it go on");
    assert_shows(&*engine.snapshot().unwrap(), &model);
    drop(engine);
    logged.recover().unwrap();
    assert_eq!(logged.rows(), model);
}

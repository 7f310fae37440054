//! The queue under schedules chosen at random: `RUSTFLAGS="--cfg shuttle" cargo test --lib store::schedules`.
//!
//! Each schedule runs threads, locks and wake-ups in another order, as no machine does by itself. A caller
//! that nobody wakes is a deadlock, which fails the test and prints the schedule.

use std::collections::BTreeMap;
use std::sync::Mutex as StdMutex;

use super::committer::{Committer, Limits};
use super::engine::{Direction, Engine, Read, Scanned};
use super::sync::{Arc, thread};
use super::{EngineError, KeyRange, Overlay, StoreError};
use crate::store::overlay::Writes;

const SCHEDULES: usize = 20_000;
const CALLERS: u8 = 3;
const COMMANDS: u8 = 3;

/// An ordered map that fails one commit, if told to.
#[derive(Default)]
struct Map {
    rows: StdMutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    fails_at: Option<usize>,
    commits: StdMutex<usize>,
}

struct Snapshot(BTreeMap<Vec<u8>, Vec<u8>>);

#[derive(Debug, thiserror::Error)]
#[error("the disk is gone")]
struct DiskGone;

impl Engine for Map {
    fn snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, EngineError> {
        Ok(Box::new(Snapshot(self.rows.lock().unwrap().clone())))
    }

    fn commit(&self, writes: Writes) -> Result<(), EngineError> {
        // Where a real disk would keep the thread waiting, others run.
        thread::yield_now();
        let mut commits = self.commits.lock().unwrap();
        *commits += 1;
        if self.fails_at == Some(*commits) {
            return Err(EngineError::new(DiskGone));
        }
        let put = writes.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
        self.rows.lock().unwrap().extend(put);
        Ok(())
    }
}

impl Read for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(
        &self,
        _: &KeyRange,
        _: Direction,
        _: &mut dyn FnMut(&[u8], &[u8]) -> Scanned,
    ) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Counts the caller's row up, or refuses where the count is not what the caller expects.
fn count(caller: u8, expected: u8) -> impl FnMut(&mut Overlay<'_>) -> Result<u8, StoreError> + Send {
    move |tx| {
        let key = vec![caller];
        let before = tx.get(&key)?.map_or(0, |value| value[0]);
        tx.put(key, vec![before + 1]);
        if before == expected {
            Ok(before + 1)
        } else {
            Err(StoreError::Busy { waiting: usize::from(before) })
        }
    }
}

fn limits() -> Limits {
    Limits { waiting: 2, waiting_bytes: 1 << 20, batch: 2, settle_after: None }
}

#[test]
fn every_caller_is_answered_and_every_acknowledged_command_is_durable_in_every_schedule() {
    shuttle::check_random(
        || {
            let engine = Arc::new(Map::default());
            let committer = Arc::new(Committer::start(engine.clone(), limits()).unwrap());
            let callers: Vec<_> = (0..CALLERS)
                .map(|caller| {
                    let (engine, committer) = (engine.clone(), committer.clone());
                    thread::spawn(move || {
                        for number in 0..COMMANDS {
                            // The queue holds two, so some callers wait for room.
                            let done = committer.submit(1, count(caller, number)).wait().unwrap();
                            assert_eq!(engine.rows.lock().unwrap()[&vec![caller]], [done]);
                        }
                        // A refused command leaves no trace.
                        assert!(committer.submit(1, count(caller, 77)).wait().is_err());
                        assert_eq!(engine.rows.lock().unwrap()[&vec![caller]], [COMMANDS]);
                    })
                })
                .collect();
            callers.into_iter().for_each(|caller| caller.join().unwrap());
        },
        SCHEDULES,
    );
}

#[test]
fn closing_carries_out_what_was_accepted_in_every_schedule() {
    shuttle::check_random(
        || {
            let engine = Arc::new(Map::default());
            let committer = Committer::start(engine.clone(), limits()).unwrap();
            let acks: Vec<_> = (0..4).map(|number| committer.try_submit(1, count(0, number))).collect();
            drop(committer);
            let mut accepted = 0;
            for ack in acks {
                match ack.wait() {
                    Ok(done) => accepted = done,
                    Err(StoreError::Busy { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            assert!(accepted > 0);
            assert_eq!(engine.rows.lock().unwrap()[&vec![0]], [accepted]);
        },
        SCHEDULES,
    );
}

#[test]
fn a_failed_commit_leaves_nobody_waiting_in_any_schedule() {
    shuttle::check_random(
        || {
            let engine = Arc::new(Map { fails_at: Some(2), ..Map::default() });
            let committer = Arc::new(Committer::start(engine.clone(), limits()).unwrap());
            let callers: Vec<_> = (0..CALLERS)
                .map(|caller| {
                    let (engine, committer) = (engine.clone(), committer.clone());
                    thread::spawn(move || {
                        let mut failed = false;
                        for number in 0..COMMANDS {
                            match committer.submit(1, count(caller, number)).wait() {
                                Ok(done) => {
                                    assert!(!failed, "nothing is accepted after a failed commit");
                                    assert_eq!(engine.rows.lock().unwrap()[&vec![caller]], [done]);
                                }
                                Err(StoreError::CommitUnknown(_) | StoreError::Poisoned) => failed = true,
                                Err(other) => panic!("{other}"),
                            }
                        }
                    })
                })
                .collect();
            callers.into_iter().for_each(|caller| caller.join().unwrap());
        },
        SCHEDULES,
    );
}

//! Many at once: no rollback, no two roots, every answer its own request's.

use std::collections::HashMap;
use std::sync::{Arc, Barrier, Mutex};

use runseal_tlog::key::Algorithm;
use runseal_witness::witness::{Refusal, Witness};

use crate::harness::{NOW, TestClock, log_set, new_store, witness, witness_keys};
use crate::testlog::{TestLog, cosignature_time};

fn scene(list: &str) -> (tempfile::TempDir, Arc<Witness>) {
    let folder = tempfile::tempdir().unwrap();
    let keys = witness_keys(&[Algorithm::CosignatureEd25519]);
    let logs = log_set(list, &keys);
    let store = new_store(&folder.path().join("state.redb"), &keys);
    (folder, witness(keys, logs, store, TestClock::at(NOW)))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn of_two_requests_from_one_size_one_wins_and_the_other_learns_the_new_size() {
    let mut log = TestLog::new("log.example/race", 1);
    log.grow(130, "");
    for round in 0..200 {
        let (_folder, witness) = scene(&log.list());
        block_on(witness.add_checkpoint(log.request(0, 8).as_bytes())).unwrap();
        let barrier = Barrier::new(2);
        let sizes = if round % 2 == 0 { [20, 130] } else { [130, 20] };
        let outcomes: Vec<Result<usize, u64>> = std::thread::scope(|scope| {
            let racers: Vec<_> = sizes
                .iter()
                .map(|size| {
                    let (witness, barrier, body) = (&witness, &barrier, log.request(8, *size));
                    scope.spawn(move || {
                        barrier.wait();
                        match block_on(witness.add_checkpoint(body.as_bytes())) {
                            Ok(_) => Ok(*size),
                            Err(Refusal::Conflict { cosigned, .. }) => Err(cosigned),
                            Err(other) => panic!("{other}"),
                        }
                    })
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).collect()
        });
        let won: Vec<usize> = outcomes.iter().filter_map(|outcome| outcome.ok()).collect();
        let told: Vec<u64> = outcomes.iter().filter_map(|outcome| outcome.err()).collect();
        assert_eq!((won.len(), told.len()), (1, 1), "round {round}: {outcomes:?}");
        assert_eq!(told[0], won[0] as u64);
        assert_eq!(witness.store().head(&log.origin).unwrap().size, won[0] as u64);
    }
}

/// Threads submit whatever they like to a few logs; every signature and every refusal must fit one
/// order of events.
#[test]
fn answers_of_many_threads_fit_a_single_history() {
    const LOGS: usize = 4;
    const SIZE: usize = 64;
    let logs: Vec<TestLog> = (0..LOGS)
        .map(|number| {
            let mut log = TestLog::new(&format!("log.example/{number}"), u8::try_from(number + 1).unwrap());
            log.grow(SIZE, &format!("{number}-"));
            log
        })
        .collect();
    let mut list = "logs/v0\n".to_owned();
    list.extend(logs.iter().map(|log| format!("vkey {}\n", log.vkey())));
    let (_folder, witness) = scene(&list);
    let vkey = witness.keys().verifiers()[0].to_string();
    // (log, size it went from) -> the size it went to: each step of a log is taken once.
    let steps: Mutex<HashMap<(usize, usize), usize>> = Mutex::default();
    std::thread::scope(|scope| {
        for thread in 0..16u64 {
            let (witness, logs, steps, vkey) = (&witness, &logs, &steps, &vkey);
            scope.spawn(move || {
                let mut random = thread.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                let mut known = [0usize; LOGS];
                for _ in 0..120 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let which = usize::try_from(random % LOGS as u64).unwrap();
                    let old = known[which];
                    let new = (old + usize::try_from(random >> 40).unwrap() % 4).min(SIZE);
                    let log = &logs[which];
                    match block_on(witness.add_checkpoint(log.request(old, new).as_bytes())) {
                        Ok(lines) => {
                            let line = format!("{}\n", lines[0]);
                            let text = log.checkpoint(new);
                            let text = &text[..=text.rfind("\n\n").unwrap()];
                            assert_eq!(cosignature_time(text, &line, vkey), Some(NOW));
                            known[which] = new;
                            if new > old {
                                let taken = steps.lock().unwrap().insert((which, old), new);
                                assert_eq!(taken, None, "log {which} left size {old} twice");
                            }
                        }
                        Err(Refusal::Conflict { cosigned, .. }) => {
                            let cosigned = usize::try_from(cosigned).unwrap();
                            assert!(cosigned > old, "log {which} went back from {old} to {cosigned}");
                            known[which] = cosigned;
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    // The steps of each log form one chain from zero to where it stands now.
    let steps = steps.into_inner().unwrap();
    for (which, log) in logs.iter().enumerate() {
        let mut at = 0;
        while let Some(next) = steps.get(&(which, at)) {
            at = *next;
        }
        let head = witness.store().head(&log.origin).unwrap();
        assert_eq!((head.size, head.root.as_bytes()), (at as u64, &log.root(at)));
        assert_eq!(steps.keys().filter(|(log, _)| *log == which).count(), steps_to(&steps, which, at));
    }
}

fn steps_to(steps: &HashMap<(usize, usize), usize>, which: usize, end: usize) -> usize {
    let (mut at, mut count) = (0, 0);
    while at != end {
        at = steps[&(which, at)];
        count += 1;
    }
    count
}

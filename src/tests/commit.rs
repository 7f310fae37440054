//! The storage thread: one commit for many commands, and nobody is answered before it.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::world::{MASTER, MapEngine, NOW, TTL, base, concluded, note, run, started, tenant};
use crate::store::{Committer, Engine, EngineError, Limits, Overlay, Read, Writes};
use crate::{AppendError, Journal, ManualClock, StoreError, Tenant};

/// How long a gate stays closed at most, so that a test that fails behind it ends.
const PATIENCE: Duration = Duration::from_secs(20);

/// An ordered map whose commits wait for a signal, and fail when told to.
#[derive(Clone, Default)]
struct Gate(Arc<Inside>);

#[derive(Default)]
struct Inside {
    rows: MapEngine,
    state: Mutex<State>,
    changed: Condvar,
    commits: AtomicUsize,
}

#[derive(Default)]
struct State {
    closed: bool,
    waiting: bool,
    failing: Option<Failure>,
}

#[derive(Clone, Copy)]
enum Failure {
    /// The commit is lost.
    Lost,
    /// The commit lasts, but its answer is lost.
    Landed,
    /// The engine panics.
    Panics,
}

#[derive(Debug, thiserror::Error)]
#[error("the disk is gone")]
struct DiskGone;

impl Gate {
    fn close(&self) {
        self.0.state.lock().unwrap().closed = true;
    }

    fn open(&self) {
        self.0.state.lock().unwrap().closed = false;
        self.0.changed.notify_all();
    }

    fn fail(&self, failure: Failure) {
        self.0.state.lock().unwrap().failing = Some(failure);
    }

    /// Waits until a commit stands before the closed gate.
    fn await_commit(&self) {
        let state = self.0.state.lock().unwrap();
        let (state, _) = self.0.changed.wait_timeout_while(state, PATIENCE, |state| !state.waiting).unwrap();
        assert!(state.waiting, "no commit came");
    }

    fn commits(&self) -> usize {
        self.0.commits.load(Ordering::SeqCst)
    }

    fn journal(&self) -> (Journal, Tenant) {
        let clock = Arc::new(ManualClock::at(NOW));
        let journal = Journal::on_engine(self.clone(), &base(), MASTER, clock).unwrap();
        let acme = journal.tenant(&tenant("acme"));
        (journal, acme)
    }
}

impl Engine for Gate {
    fn snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, EngineError> {
        self.0.rows.snapshot()
    }

    fn commit(&self, writes: Writes) -> Result<(), EngineError> {
        self.0.commits.fetch_add(1, Ordering::SeqCst);
        let mut state = self.0.state.lock().unwrap();
        state.waiting = true;
        self.0.changed.notify_all();
        state = self.0.changed.wait_timeout_while(state, PATIENCE, |state| state.closed).unwrap().0;
        state.waiting = false;
        match state.failing.take() {
            None => self.0.rows.commit(writes),
            Some(Failure::Lost) => Err(EngineError::new(DiskGone)),
            Some(Failure::Panics) => {
                drop(state);
                panic!("a fault of the engine")
            }
            Some(Failure::Landed) => {
                self.0.rows.commit(writes)?;
                Err(EngineError::new(DiskGone))
            }
        }
    }
}

/// Whether a future has its answer, without waiting for it.
fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

#[test]
fn commands_that_wait_go_into_one_commit() {
    let gate = Gate::default();
    let (_journal, acme) = gate.journal();
    let epochs: Vec<u64> =
        (0..40).map(|n| acme.acquire(&run(&format!("r{n}")), "w", TTL).unwrap().epoch).collect();
    gate.close();
    let first = acme.append_queued(&run("r0"), epochs[0], vec![note("first")]);
    gate.await_commit();
    let before = gate.commits();
    let rest: Vec<_> = (1..40)
        .map(|n| acme.append_queued(&run(&format!("r{n}")), epochs[n], vec![note("x"), started(1)]))
        .collect();
    gate.open();
    first.wait().unwrap();
    for ack in rest {
        ack.wait().unwrap();
    }
    assert_eq!(gate.commits(), before + 1);
    assert!(acme.check(&mut |_| {}).unwrap().is_sound());
}

#[test]
fn nobody_is_answered_before_the_commit_is_durable() {
    let gate = Gate::default();
    let (_journal, acme) = gate.journal();
    let epoch = acme.acquire(&run("r"), "w", TTL).unwrap().epoch;
    gate.close();
    let mut accepted = pin!(acme.append_queued(&run("r"), epoch, vec![started(1)]));
    // Refused because of its neighbour, whose commit is not there yet: neither is the refusal.
    let mut refused = pin!(acme.append_queued(&run("r"), epoch, vec![started(1)]));
    gate.await_commit();
    assert!(poll(accepted.as_mut()).is_none());
    assert!(poll(refused.as_mut()).is_none());
    assert_eq!(acme.run(&run("r")).unwrap(), None, "nor does anybody see it");
    gate.open();
    let accepted = futures_block_on(accepted);
    assert_eq!(accepted.unwrap().len(), 1);
    // It came in while the first was at the gate, so it has the next commit to itself and writes nothing.
    assert!(matches!(futures_block_on(refused), Err(AppendError::DuplicateEffect { .. })));
}

/// Drives a future on this thread.
fn futures_block_on<F: Future>(mut future: std::pin::Pin<&mut F>) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_refused_command_leaves_no_trace_while_its_neighbours_commit() {
    let gate = Gate::default();
    let (_journal, acme) = gate.journal();
    let epoch = acme.acquire(&run("r"), "w", TTL).unwrap().epoch;
    let other = acme.acquire(&run("s"), "w", TTL).unwrap().epoch;
    gate.close();
    let head = acme.append_queued(&run("s"), other, vec![note("holds the gate")]);
    gate.await_commit();
    let one = acme.append_queued(&run("r"), epoch, vec![note("1"), started(1)]);
    let two = acme.append_queued(&run("r"), epoch, vec![note("2"), started(1)]);
    let three = acme.append_queued(&run("r"), epoch, vec![note("3"), concluded("succeeded")]);
    let sealed = acme.seal_queued(&run("r"), epoch);
    let late = acme.append_queued(&run("r"), epoch, vec![note("4")]);
    gate.open();
    head.wait().unwrap();
    assert_eq!(one.wait().unwrap().last().unwrap().seq, 2);
    assert!(matches!(two.wait(), Err(AppendError::DuplicateEffect { seq: 2, .. })));
    assert_eq!(three.wait().unwrap().last().unwrap().seq, 4);
    assert_eq!(sealed.wait().unwrap().records, 4);
    assert!(matches!(late.wait(), Err(AppendError::RunSealed { .. })));
    let report = acme.check(&mut |_| {}).unwrap();
    assert_eq!((report.contradiction, report.records), (None, 5));
}

#[test]
fn a_failed_commit_refuses_all_of_it_and_everything_after() {
    for (failure, records) in [(Failure::Lost, 0), (Failure::Landed, 1)] {
        let gate = Gate::default();
        let (journal, acme) = gate.journal();
        let epoch = acme.acquire(&run("r"), "w", TTL).unwrap().epoch;
        gate.close();
        let head = acme.acquire_blocked(&gate);
        gate.fail(failure);
        let one = acme.append_queued(&run("r"), epoch, vec![note("1")]);
        let two = acme.append_queued(&run("never-leased"), 1, vec![note("2")]);
        gate.open();
        // The gate fails the commit that stands before it; those behind it are refused for certain.
        assert!(matches!(head.wait(), Err(AppendError::Store(StoreError::CommitUnknown(_)))));
        for ack in [one, two] {
            assert!(matches!(ack.wait(), Err(AppendError::Store(StoreError::Poisoned))));
        }
        assert!(matches!(
            acme.append(&run("r"), epoch, vec![note("3")]),
            Err(AppendError::Store(StoreError::Poisoned))
        ));
        drop((journal, acme));
        // Opened again, what is there is whole, and goes on.
        let (_journal, acme) = gate.journal();
        let stored = acme.run(&run("gate")).unwrap().map_or(0, |summary| summary.records);
        assert_eq!(stored, records);
        acme.append(&run("r"), epoch, vec![note("3")]).unwrap();
        assert!(acme.check(&mut |_| {}).unwrap().is_sound());
    }
}

impl Tenant {
    /// A command that stands before the closed gate. Its run was leased beforehand.
    fn acquire_blocked(&self, gate: &Gate) -> crate::Ack<Vec<crate::Appended>, AppendError> {
        gate.open();
        let epoch = self.acquire(&run("gate"), "w", TTL).unwrap().epoch;
        gate.close();
        let ack = self.append_queued(&run("gate"), epoch, vec![note("at the gate")]);
        gate.await_commit();
        ack
    }
}

#[test]
fn a_panic_in_the_storage_thread_leaves_nobody_waiting() {
    let gate = Gate::default();
    let (_journal, acme) = gate.journal();
    let head = acme.acquire_blocked(&gate);
    gate.fail(Failure::Panics);
    let behind = acme.append_queued(&run("r"), 1, vec![note("x")]);
    gate.open();
    assert!(matches!(head.wait(), Err(AppendError::Store(StoreError::Unanswered))));
    assert!(matches!(behind.wait(), Err(AppendError::Store(StoreError::Poisoned))));
    assert!(matches!(
        acme.append(&run("r"), 1, vec![note("x")]),
        Err(AppendError::Store(StoreError::Poisoned))
    ));
}

#[test]
fn a_caller_who_stops_waiting_loses_nothing() {
    let gate = Gate::default();
    let (_journal, acme) = gate.journal();
    let epoch = acme.acquire(&run("r"), "w", TTL).unwrap().epoch;
    gate.close();
    drop(acme.append_queued(&run("r"), epoch, vec![note("1")]));
    {
        let mut dropped = pin!(acme.append_queued(&run("r"), epoch, vec![note("2")]));
        assert!(poll(dropped.as_mut()).is_none());
    }
    gate.open();
    assert_eq!(acme.append(&run("r"), epoch, vec![note("3")]).unwrap()[0].seq, 3);
}

#[test]
fn closing_carries_out_what_was_accepted() {
    let gate = Gate::default();
    let (journal, acme) = gate.journal();
    let epoch = acme.acquire(&run("r"), "w", TTL).unwrap().epoch;
    gate.close();
    let acks: Vec<_> =
        (0..100).map(|n| acme.append_queued(&run("r"), epoch, vec![note(&n.to_string())])).collect();
    let opener = gate.clone();
    let closer = std::thread::spawn(move || drop((journal, acme)));
    opener.open();
    closer.join().unwrap();
    for ack in acks {
        ack.wait().unwrap();
    }
    let (_journal, acme) = gate.journal();
    assert_eq!(acme.run(&run("r")).unwrap().unwrap().records, 100);
}

#[test]
fn a_full_queue_says_so_and_holds_no_more() {
    let gate = Gate::default();
    let (_journal, acme) = gate.journal();
    let epoch = acme.acquire(&run("r"), "w", TTL).unwrap().epoch;
    gate.close();
    let head = acme.append_queued(&run("r"), epoch, vec![note("at the gate")]);
    gate.await_commit();
    // By bytes: each holds about 1 MiB, and 64 MiB may wait.
    let large = "x".repeat(1 << 20 >> 1);
    let mut waiting = Vec::new();
    let refused = loop {
        let mut ack = Box::pin(acme.append_queued(&run("r"), epoch, vec![note(&large), note(&large)]));
        match poll(ack.as_mut()) {
            None => waiting.push(ack),
            Some(answer) => break answer,
        }
        assert!(waiting.len() <= 64);
    };
    assert!(matches!(refused, Err(AppendError::Store(StoreError::Busy { waiting: 40..=64 }))), "{refused:?}");
    // A blocking caller waits for room instead.
    let blocked = std::thread::spawn({
        let acme = acme.clone();
        move || acme.append(&run("r"), epoch, vec![note(&large)])
    });
    gate.open();
    head.wait().unwrap();
    blocked.join().unwrap().unwrap();
    for mut ack in waiting {
        futures_block_on(ack.as_mut()).unwrap();
    }
    assert!(acme.check(&mut |_| {}).unwrap().is_sound());
}

#[test]
fn a_command_that_writes_nothing_costs_no_commit() {
    let gate = Gate::default();
    let (_journal, acme) = gate.journal();
    let before = gate.commits();
    acme.release(&run("r"), 1).unwrap();
    assert!(acme.append(&run("r"), 1, vec![note("x")]).is_err());
    assert_eq!(gate.commits(), before);
}

/// An ordered map that counts how often it was let settle.
#[derive(Clone, Default)]
struct Settling(Arc<(MapEngine, AtomicUsize)>);

impl Engine for Settling {
    fn snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, EngineError> {
        self.0.0.snapshot()
    }

    fn commit(&self, writes: Writes) -> Result<(), EngineError> {
        self.0.0.commit(writes)
    }

    fn settle(&self) -> Result<(), EngineError> {
        self.0.1.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn the_engine_settles_once_nothing_has_come_for_a_while_and_only_once() {
    let engine = Settling::default();
    let settled = || engine.0.1.load(Ordering::SeqCst);
    let patience = Duration::from_millis(20);
    let limits = Limits { settle_after: Some(patience), ..Limits::default() };
    let committer = Committer::start(Arc::new(engine.clone()), limits).unwrap();
    let put = |value: u8| -> Result<(), StoreError> {
        let put = move |tx: &mut Overlay<'_>| {
            tx.put(vec![0], vec![value]);
            Ok(())
        };
        committer.submit(0, put).wait()
    };
    std::thread::sleep(patience * 3);
    assert_eq!(settled(), 0, "nothing was written yet");
    for rounds in 1..3 {
        put(1).unwrap();
        put(2).unwrap();
        while settled() < rounds {
            std::thread::sleep(patience);
        }
        std::thread::sleep(patience * 5);
        assert_eq!(settled(), rounds);
    }
}

#[test]
fn what_comes_while_a_batch_is_run_goes_into_the_same_commit() {
    let gate = Gate::default();
    let committer = Arc::new(Committer::start(Arc::new(gate.clone()), Limits::default()).unwrap());
    let put = |key: u8| {
        move |tx: &mut Overlay<'_>| {
            tx.put(vec![key], vec![1]);
            Ok::<(), StoreError>(())
        }
    };
    let second = Arc::new(Mutex::new(None));
    let first = {
        let (committer, second, put_first) = (Arc::downgrade(&committer), Arc::clone(&second), put(1));
        move |tx: &mut Overlay<'_>| {
            let committer = committer.upgrade().unwrap();
            *second.lock().unwrap() = Some(committer.submit(0, put(2)));
            put_first(tx)
        }
    };
    committer.submit(0, first).wait().unwrap();
    second.lock().unwrap().take().unwrap().wait().unwrap();
    assert_eq!(gate.commits(), 1);
}

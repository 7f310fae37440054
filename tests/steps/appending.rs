//! What an append comes to.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use runseal::steps::{Recorded, StepError, StepStore};

use crate::step_file::{Fields, run_head};
use crate::{Device, key, open, run, step, tenant, value_of};

#[test]
fn the_same_step_again_is_already_recorded_and_another_value_conflicts() {
    let device = Device::default();
    let store = open(&device);
    assert_eq!(store.append(step("run-1", "charge", "paid")).wait().unwrap(), Recorded::Now);
    let before = device.bytes();
    assert_eq!(store.append(step("run-1", "charge", "paid")).wait().unwrap(), Recorded::Already);
    let conflicting = store.append(step("run-1", "charge", "paid twice")).wait();
    let Err(StepError::Conflicting { run: of, key: under, path }) = conflicting else {
        panic!("{conflicting:?}")
    };
    assert_eq!((of, under, path.as_str()), (run("run-1"), key("charge"), "charge"));
    let mut moved = step("run-1", "elsewhere", "paid");
    moved.key = key("charge");
    assert!(matches!(store.append(moved).wait(), Err(StepError::Conflicting { .. })));
    assert_eq!(device.bytes(), before);
    assert_eq!(value_of(&store, "run-1", "charge").as_deref(), Some(&b"paid"[..]));
    // Another run has a step of this key for itself; and all this holds after opening, too.
    assert_eq!(store.append(step("run-2", "charge", "paid twice")).wait().unwrap(), Recorded::Now);
    drop(store);
    let store = open(&device);
    assert_eq!(store.append(step("run-1", "charge", "paid")).wait().unwrap(), Recorded::Already);
    assert!(matches!(store.append(step("run-1", "charge", "")).wait(), Err(StepError::Conflicting { .. })));
}

/// A caller that blocks writes its steps itself; one that does not has them written all the same.
#[test]
fn a_step_is_recorded_whatever_its_caller_does_with_the_acknowledgement() {
    let store = open(&Device::default());
    let recorded = |number: u64| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while store.step_count(&tenant("acme"), &run("run-1")).unwrap_or(0) < number {
            assert!(Instant::now() < deadline, "step {number} is never recorded");
            thread::sleep(Duration::from_micros(100));
        }
    };
    let mut kept = Vec::new();
    for round in 0..50 {
        let append = |what: &str| store.append(step("run-1", &format!("{what}-{round}"), ""));
        append("waited").wait().unwrap();
        // The writing thread dozes now. Nobody waits for these:
        kept.push(append("held"));
        recorded(round * 4 + 2);
        drop(append("dropped"));
        recorded(round * 4 + 3);
        let mut polled = append("polled");
        let _ = Pin::new(&mut polled).poll(&mut Context::from_waker(Waker::noop()));
        recorded(round * 4 + 4);
        if round % 10 == 0 {
            // Or it sleeps.
            thread::sleep(Duration::from_millis(20));
        }
    }
    assert!(kept.into_iter().all(|ack| matches!(ack.wait(), Ok(Recorded::Now))));
}

#[test]
fn decisions_inside_a_batch_see_the_batch() {
    let device = Device::default();
    let store = open(&device);
    device.stall();
    let under_way = store.append(step("run-0", "under way", ""));
    device.wait_until_stalled();
    // All of these wait together, for a run that nobody knows yet.
    let first = store.append(step("run-1", "charge", "one"));
    let same = store.append(step("run-1", "charge", "one"));
    let other = store.append(step("run-1", "charge", "two"));
    let mut foreign = step("run-1", "mail", "");
    foreign.tenant = tenant("evil");
    let foreign = store.append(foreign);
    let mut drifted = step("run-1", "mail", "");
    drifted.definition.revision = 99;
    let drifted = store.append(drifted);
    let next = store.append(step("run-1", "mail", ""));
    device.release();
    under_way.wait().unwrap();
    assert_eq!(first.wait().unwrap(), Recorded::Now);
    assert_eq!(same.wait().unwrap(), Recorded::Already);
    assert!(matches!(other.wait(), Err(StepError::Conflicting { .. })));
    assert!(matches!(foreign.wait(), Err(StepError::ForeignTenant { .. })));
    assert!(matches!(drifted.wait(), Err(StepError::Drift { .. })));
    assert_eq!(next.wait().unwrap(), Recorded::Now);
    assert_eq!(store.flush_counts().syncs, 2, "it was one batch");
    assert_eq!(value_of(&store, "run-1", "charge").as_deref(), Some(&b"one"[..]));
    drop(store);
    assert_eq!(open(&device).opening().steps, 3);
}

#[test]
fn a_run_that_a_batch_refused_to_start_is_not_started() {
    let device = Device::default();
    let store = open(&device);
    device.stall();
    let under_way = store.append(step("run-0", "under way", ""));
    device.wait_until_stalled();
    let too_large = store.append(step("run-1", "charge", vec![0; 300 << 10]));
    let mut other_tenant = step("run-1", "charge", "");
    other_tenant.tenant = tenant("other");
    let other_tenant = store.append(other_tenant);
    device.release();
    under_way.wait().unwrap();
    assert!(matches!(too_large.wait(), Err(StepError::Limit { .. })));
    assert_eq!(other_tenant.wait().unwrap(), Recorded::Now, "the run is theirs");
}

#[test]
fn steps_stand_in_the_order_they_were_appended() {
    let device = Device::default();
    let store = open(&device);
    let paths: Vec<_> = (0..500).map(|n| format!("step-{n}")).collect();
    let acks: Vec<_> = paths.iter().map(|path| store.append(step("run-1", path, path))).collect();
    for ack in acks {
        assert_eq!(ack.wait().unwrap(), Recorded::Now);
    }
    let payloads: Vec<_> = paths
        .iter()
        .map(|path| Fields { path, value: path.as_bytes(), ..Fields::default() }.payload())
        .collect();
    let expected = run_head("acme", "run-1", &payloads);
    for store in [store, open(&device)] {
        let commitment = store.commitment(&tenant("acme"), &run("run-1")).unwrap();
        assert_eq!((commitment.count, commitment.head.as_bytes()), (500, &expected));
        assert_eq!(commitment.marks.unwrap().len(), 500);
    }
}

#[test]
fn replay_gives_what_was_acknowledged_to_many_callers() {
    let device = Device::default();
    let store = open(&device);
    thread::scope(|scope| {
        for caller in 0..16 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..50 {
                    let value = format!("{caller}/{n}");
                    store.append(step(&format!("run-{}", n % 5), &value, &value)).wait().unwrap();
                    // Seen by its caller as soon as it is acknowledged.
                    assert!(value_of(store, &format!("run-{}", n % 5), &value).is_some());
                }
            });
        }
    });
    assert!(store.flush_counts().syncs <= 800);
    drop(store);
    let store = open(&device);
    assert_eq!(store.opening().steps, 800);
    for value in (0..16).flat_map(|caller| (0..50).map(move |n| (n, format!("{caller}/{n}")))) {
        let (n, value) = value;
        assert_eq!(value_of(&store, &format!("run-{}", n % 5), &value), Some(value.into_bytes()));
    }
}

#[test]
fn a_caller_that_goes_away_loses_nothing_and_harms_nobody() {
    let device = Device::default();
    let store = open(&device);
    device.stall();
    let mut dropped = Box::pin(store.append(step("run-1", "dropped", "kept")));
    let _ = dropped.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    device.wait_until_stalled();
    drop(dropped);
    drop(store.append(step("run-1", "also dropped", "kept")));
    device.release();
    assert_eq!(store.append(step("run-1", "next", "")).wait().unwrap(), Recorded::Now);
    for path in ["dropped", "also dropped"] {
        assert_eq!(value_of(&store, "run-1", path).as_deref(), Some(&b"kept"[..]));
    }
    drop(store);
    assert_eq!(open(&device).opening().steps, 3);
}

#[test]
fn an_acknowledgement_wakes_the_task_that_awaits_it() {
    struct Woken {
        times: AtomicUsize,
        sleeper: thread::Thread,
    }
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.times.fetch_add(1, Ordering::SeqCst);
            self.sleeper.unpark();
        }
    }
    let device = Device::default();
    let store = open(&device);
    device.stall();
    let mut ack = Box::pin(store.append(step("run-1", "charge", "")));
    let woken = Arc::new(Woken { times: AtomicUsize::new(0), sleeper: thread::current() });
    let waker = Waker::from(Arc::clone(&woken));
    device.wait_until_stalled();
    assert!(ack.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    device.release();
    while woken.times.load(Ordering::SeqCst) == 0 {
        thread::park();
    }
    let Poll::Ready(answer) = ack.as_mut().poll(&mut Context::from_waker(&waker)) else {
        panic!("woken without an answer")
    };
    assert_eq!(answer.unwrap(), Recorded::Now);
}

#[test]
fn the_last_handle_may_go_where_the_answer_arrives() {
    /// Holds a store until it is woken.
    struct Holder {
        store: Mutex<Option<StepStore>>,
        sleeper: thread::Thread,
    }
    impl Wake for Holder {
        fn wake(self: Arc<Self>) {
            drop(self.store.lock().unwrap().take());
            self.sleeper.unpark();
        }
    }
    let device = Device::default();
    let store = open(&device);
    device.stall();
    let mut ack = Box::pin(store.append(step("run-1", "charge", "")));
    device.wait_until_stalled();
    let holder = Arc::new(Holder { store: Mutex::new(Some(store)), sleeper: thread::current() });
    let waker = Waker::from(Arc::clone(&holder));
    assert!(ack.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    device.release();
    while holder.store.lock().unwrap().is_some() {
        thread::park();
    }
    let Poll::Ready(answer) = ack.as_mut().poll(&mut Context::from_waker(&waker)) else {
        panic!("woken without an answer")
    };
    assert_eq!(answer.unwrap(), Recorded::Now);
}

#[test]
fn a_task_that_polls_with_another_waker_lets_go_of_the_first() {
    /// Holds a store as long as anybody may wake it.
    struct Holder(#[expect(dead_code, reason = "held, not used")] StepStore);
    impl Wake for Holder {
        fn wake(self: Arc<Self>) {}
    }
    let device = Device::default();
    let store = open(&device);
    device.stall();
    let mut ack = Box::pin(store.append(step("run-1", "charge", "")));
    device.wait_until_stalled();
    let waker = Waker::from(Arc::new(Holder(store)));
    assert!(ack.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    // The first waker goes now, and with it the last handle, which waits for the answer.
    thread::scope(|scope| {
        let polling = scope.spawn(|| ack.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        thread::sleep(Duration::from_millis(20));
        device.release();
        assert!(polling.join().unwrap());
    });
    let Poll::Ready(answer) = ack.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the answer came before the handle was gone")
    };
    assert_eq!(answer.unwrap(), Recorded::Now);
}

//! Ceilings and the queue.

use runseal::steps::{LimitKind, Recorded, StepError, StepLimits, StepStore};

use crate::{Device, open, run, step, tenant};

fn open_within(device: &Device, limits: StepLimits) -> StepStore {
    StepStore::open_on(device.clone(), limits).unwrap()
}

fn refused(store: &StepStore, device: &Device, step: runseal::steps::Step) -> (LimitKind, u64, u64) {
    let before = device.bytes();
    let answer = store.append(step).wait();
    assert_eq!(device.bytes(), before, "a refusal leaves the store as it was");
    match answer {
        Err(StepError::Limit { kind, requested, limit }) => (kind, requested, limit),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_step_over_its_ceiling_is_refused_whole_and_nobody_else_is() {
    let device = Device::default();
    let store = open(&device);
    let names = step("run-1", "charge", "").payload_bytes();
    let limit = 256 << 10;
    let fits = usize::try_from(limit - names).unwrap();
    assert_eq!(
        refused(&store, &device, step("run-1", "charge", vec![7; fits + 1])),
        (LimitKind::RecordBytes, limit + 1, limit)
    );
    assert_eq!(store.append(step("run-1", "charge", vec![7; fits])).wait().unwrap(), Recorded::Now);
    // However high the ceiling is set, the format has one.
    let store =
        open_within(&Device::default(), StepLimits { record_bytes_max: u64::MAX, ..StepLimits::default() });
    let huge = store.append(step("run-1", "charge", vec![0; 17 << 20])).wait();
    let Err(StepError::Limit { kind: LimitKind::RecordBytes, limit, .. }) = huge else { panic!("{huge:?}") };
    assert_eq!(limit, 16 << 20);
}

#[test]
fn a_run_over_its_ceiling_is_refused_and_other_runs_are_not() {
    let device = Device::default();
    let store = open_within(&device, StepLimits { run_steps_max: 3, ..StepLimits::default() });
    for path in ["one", "two", "three"] {
        store.append(step("run-1", path, "")).wait().unwrap();
    }
    assert_eq!(refused(&store, &device, step("run-1", "four", "")), (LimitKind::RunSteps, 4, 3));
    assert_eq!(store.append(step("run-1", "three", "")).wait().unwrap(), Recorded::Already);
    store.append(step("run-2", "four", "")).wait().unwrap();
    // Inside one batch, too.
    device.stall();
    let under_way = store.append(step("run-3", "one", ""));
    device.wait_until_stalled();
    let more: Vec<_> = ["two", "three", "four"].map(|path| store.append(step("run-3", path, ""))).into();
    device.release();
    under_way.wait().unwrap();
    let answers: Vec<_> = more.into_iter().map(|ack| ack.wait().is_ok()).collect();
    assert_eq!(answers, [true, true, false]);
}

#[test]
fn a_file_over_its_ceiling_is_refused_and_can_still_be_read_and_asked() {
    let device = Device::default();
    let frame = step("run-1", "one", "").payload_bytes() + 36;
    let limit = 32 + 2 * frame;
    let store = open_within(&device, StepLimits { file_bytes_max: limit, ..StepLimits::default() });
    store.append(step("run-1", "one", "")).wait().unwrap();
    store.append(step("run-1", "two", "")).wait().unwrap();
    assert_eq!(store.committed_bytes(), limit);
    let requested = limit + frame + 2;
    assert_eq!(
        refused(&store, &device, step("run-1", "three", "")),
        (LimitKind::FileBytes, requested, limit)
    );
    assert_eq!(store.append(step("run-1", "one", "")).wait().unwrap(), Recorded::Already);
    assert!(matches!(store.append(step("run-1", "one", "x")).wait(), Err(StepError::Conflicting { .. })));
}

#[test]
fn a_file_opens_whatever_the_ceilings_are_by_then() {
    let device = Device::default();
    let store = open(&device);
    for path in ["one", "two", "three"] {
        store.append(step("run-1", path, vec![1; 1000])).wait().unwrap();
    }
    drop(store);
    let limits =
        StepLimits { record_bytes_max: 10, run_steps_max: 1, file_bytes_max: 100, ..StepLimits::default() };
    let store = open_within(&device, limits);
    assert_eq!(store.opening().steps, 3);
    assert_eq!(
        store.append(step("run-1", "x", "")).wait().map_err(|e| e.to_string()).unwrap_err(),
        format!(
            "refused: bytes of the step would be {}, the limit is 10",
            step("run-1", "x", "").payload_bytes()
        )
    );
}

#[test]
fn the_ceiling_of_steps_is_each_runs_own_also_after_opening() {
    let device = Device::default();
    let store = open(&device);
    let limit = 65_536_u64;
    // One more over two runs than one may have.
    let mut acks = Vec::new();
    for (name, steps) in [("run-1", limit), ("run-2", 1)] {
        for n in 0..steps {
            acks.push(store.append(step(name, &format!("s-{n}"), "")));
            if acks.len() == 1000 {
                acks.drain(..).for_each(|ack| assert_eq!(ack.wait().unwrap(), Recorded::Now));
            }
        }
    }
    acks.drain(..).for_each(|ack| assert_eq!(ack.wait().unwrap(), Recorded::Now));
    assert_eq!(refused(&store, &device, step("run-1", "one more", "")).0, LimitKind::RunSteps);
    drop(store);
    let store = open(&device);
    assert_eq!(store.opening().steps, limit + 1);
    assert_eq!(store.step_count(&tenant("acme"), &run("run-1")).unwrap(), limit);
    assert_eq!(refused(&store, &device, step("run-1", "one more", "")).0, LimitKind::RunSteps);
    store.append(step("run-2", "one more", "")).wait().unwrap();
    let marks = store.commitment(&tenant("acme"), &run("run-1")).unwrap().marks;
    assert_eq!(marks.unwrap().len() as u64, limit);
}

#[test]
fn the_queue_is_bounded_and_says_so() {
    let device = Device::default();
    let limits = StepLimits { waiting_max: 8, ..StepLimits::default() };
    let store = open_within(&device, limits);
    device.stall();
    let under_way = store.append(step("run-1", "under way", ""));
    device.wait_until_stalled();
    let mut waiting: Vec<_> = (0..8).map(|n| store.append(step("run-1", &format!("s-{n}"), ""))).collect();
    // Refused at once, while the device stalls.
    for n in 0..1000 {
        let refused = store.append(step("run-1", &format!("more-{n}"), "")).wait();
        assert!(matches!(refused, Err(StepError::QueueFull { waiting: 8 })), "{refused:?}");
    }
    device.release();
    waiting.push(under_way);
    for ack in waiting {
        assert_eq!(ack.wait().unwrap(), Recorded::Now);
    }
    assert_eq!(store.append(step("run-1", "more-0", "")).wait().unwrap(), Recorded::Now);
    assert_eq!(store.step_count(&tenant("acme"), &run("run-1")).unwrap(), 10);
}

#[test]
fn the_queue_is_bounded_in_bytes_as_well() {
    let device = Device::default();
    let store = open_within(&device, StepLimits { waiting_bytes_max: 100_000, ..StepLimits::default() });
    device.stall();
    let under_way = store.append(step("run-1", "under way", ""));
    device.wait_until_stalled();
    let waiting: Vec<_> =
        (0..3).map(|n| store.append(step("run-1", &format!("s-{n}"), vec![0; 30_000]))).collect();
    let refused = store.append(step("run-1", "more", vec![0; 30_000])).wait();
    assert!(matches!(refused, Err(StepError::QueueFull { waiting: 3 })), "{refused:?}");
    device.release();
    under_way.wait().unwrap();
    for ack in waiting {
        ack.wait().unwrap();
    }
    // One alone may be larger than all that may wait.
    store.append(step("run-1", "large", vec![0; 200_000])).wait().unwrap();
}

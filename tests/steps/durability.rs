//! What is acknowledged is synced, what is not synced is not seen, and what the device refuses nobody gets.

use std::future::Future;

use runseal::steps::{DeviceCall, FlushCounts, Recorded, StepAck, StepError};

use crate::{Device, open, run, step, tenant, value_of};

/// Whether an acknowledgement has come, without waiting for it.
fn has_come(ack: &mut StepAck) -> bool {
    use std::pin::Pin;
    use std::task::{Context, Waker};
    Pin::new(ack).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_step_is_neither_acknowledged_nor_seen_before_its_sync() {
    let device = Device::default();
    let store = open(&device);
    store.append(step("run-1", "before", "")).wait().unwrap();
    device.stall();
    let mut ack = store.append(step("run-1", "charge", "paid"));
    device.wait_until_stalled();
    assert!(device.bytes().len() > device.durable().len(), "it is written");
    assert!(!has_come(&mut ack));
    assert_eq!(value_of(&store, "run-1", "charge"), None);
    assert_eq!(store.step_count(&tenant("acme"), &run("run-1")).unwrap(), 1);
    assert_eq!(store.committed_bytes(), device.durable().len() as u64);
    device.release();
    assert_eq!(ack.wait().unwrap(), Recorded::Now);
    assert_eq!(value_of(&store, "run-1", "charge").as_deref(), Some(&b"paid"[..]));
}

#[test]
fn what_a_dead_process_wrote_is_synced_before_it_is_shown() {
    let device = Device::default();
    let store = open(&device);
    store.append(step("run-1", "charge", "paid")).wait().unwrap();
    let whole = device.bytes();
    drop(store);
    // The bytes are in the system's memory, but no sync has covered them.
    let device = Device::holding(&whole[..32]);
    device.tamper(|bytes| *bytes = whole.clone());
    let store = open(&device);
    assert!(value_of(&store, "run-1", "charge").is_some());
    assert_eq!(device.durable(), whole);
}

#[test]
fn appends_that_wait_share_one_sync_and_a_lone_one_pays_one() {
    let device = Device::default();
    let store = open(&device);
    let before = device.syncs();
    store.append(step("run-1", "alone", "")).wait().unwrap();
    assert_eq!(store.flush_counts(), FlushCounts { syncs: 1, steps: 1 });
    device.stall();
    let first = store.append(step("run-1", "first", ""));
    device.wait_until_stalled();
    let rest: Vec<_> = (0..300).map(|n| store.append(step("run-1", &format!("rest-{n}"), ""))).collect();
    device.release();
    first.wait().unwrap();
    for ack in rest {
        ack.wait().unwrap();
    }
    assert_eq!(store.flush_counts(), FlushCounts { syncs: 3, steps: 302 });
    assert_eq!(device.syncs() - before, 3);
    // What writes nothing pays nothing.
    assert_eq!(store.append(step("run-1", "alone", "")).wait().unwrap(), Recorded::Already);
    assert_eq!(device.syncs() - before, 3);
}

/// Lets a batch of several appends meet a failing device, after one that did not.
fn every_member_is_refused(call: DeviceCall, break_device: impl Fn(&Device)) {
    let device = Device::default();
    let store = open(&device);
    store.append(step("run-1", "before", "kept")).wait().unwrap();
    device.stall();
    let lucky = store.append(step("run-2", "lucky", ""));
    device.wait_until_stalled();
    let mut members: Vec<_> =
        (0..20).map(|n| store.append(step("run-1", &format!("m-{n}"), "lost"))).collect();
    // Also those that would have been answered without a write: the answer could rest on what is lost.
    members.push(store.append(step("run-1", "m-0", "lost")));
    members.push(store.append(step("run-1", "before", "kept")));
    break_device(&device);
    device.release();
    assert_eq!(lucky.wait().unwrap(), Recorded::Now);
    for member in members {
        match member.wait() {
            Err(StepError::Device { call: failed, .. }) => assert_eq!(failed, call),
            other => panic!("{other:?}"),
        }
    }
    // Nothing of them is seen, nor left on the device to be taken for durable.
    assert_eq!(store.step_count(&tenant("acme"), &run("run-1")).unwrap(), 1);
    assert_eq!(store.committed_bytes(), device.durable().len() as u64);
    assert_eq!(device.bytes(), device.durable());
    // Poisoned until opened again, also once the device works.
    device.heal();
    let refused = store.append(step("run-9", "later", "")).wait();
    assert!(matches!(refused, Err(StepError::Poisoned)), "{refused:?}");
    // What was acknowledged can still be read.
    assert_eq!(value_of(&store, "run-1", "before").as_deref(), Some(&b"kept"[..]));
    drop(store);
    let store = open(&device);
    assert_eq!((store.opening().steps, store.opening().torn_bytes), (2, 0));
    assert_eq!(store.append(step("run-1", "m-0", "now")).wait().unwrap(), Recorded::Now);
}

#[test]
fn a_failed_sync_refuses_every_member_and_poisons_the_handle() {
    every_member_is_refused(DeviceCall::Sync, |device| device.fail_after_next(DeviceCall::Sync));
}

#[test]
fn a_failed_write_refuses_every_member_and_poisons_the_handle() {
    every_member_is_refused(DeviceCall::Write, |device| device.fail(DeviceCall::Write));
    for bytes in [1, 4, 100, 500] {
        every_member_is_refused(DeviceCall::Write, |device| device.fail_writes_after(bytes));
    }
}

#[test]
fn a_size_that_cannot_be_told_refuses_every_member() {
    every_member_is_refused(DeviceCall::Size, |device| device.fail(DeviceCall::Size));
}

#[test]
fn what_is_queued_behind_a_failure_is_refused_as_well() {
    let device = Device::default();
    let store = open(&device);
    device.fail(DeviceCall::Sync);
    let acks: Vec<_> = (0..100).map(|n| store.append(step("run-1", &format!("s-{n}"), ""))).collect();
    for ack in acks {
        let refused = ack.wait();
        assert!(matches!(refused, Err(StepError::Device { .. } | StepError::Poisoned)), "{refused:?}");
    }
}

#[test]
fn a_file_that_somebody_else_changed_is_not_written_to() {
    for change in [|bytes: &mut Vec<u8>| bytes.push(0), |bytes: &mut Vec<u8>| bytes.truncate(40)] {
        let device = Device::default();
        let store = open(&device);
        store.append(step("run-1", "before", "")).wait().unwrap();
        let expected = store.committed_bytes();
        device.tamper(change);
        let changed = device.bytes();
        let refused = store.append(step("run-1", "after", "")).wait();
        let Err(StepError::FileChanged { expected: left, found }) = refused else { panic!("{refused:?}") };
        assert_eq!((left, found), (expected, changed.len() as u64));
        assert_eq!(device.bytes(), changed);
        let refused = store.append(step("run-1", "after", "")).wait();
        assert!(matches!(refused, Err(StepError::Poisoned)), "{refused:?}");
    }
}

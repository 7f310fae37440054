//! Values stay in the file, and are checked whenever they are read.

use runseal::steps::{FrameFault, StepError};

use crate::step_file::{Fields, File};
use crate::{Device, key, open, run, step, tenant};

fn damage(store: &runseal::steps::StepStore, path: &str) -> (u64, FrameFault) {
    match store.lookup(&tenant("acme"), &run("run-1"), &key(path)) {
        Err(StepError::Damaged { at, fault }) => (at, *fault),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_value_damaged_after_opening_is_refused_and_not_shown() {
    let device = Device::default();
    let store = open(&device);
    for path in ["one", "two", "three"] {
        store.append(step("run-1", path, path)).wait().unwrap();
    }
    let whole = device.bytes();
    let frame = usize::try_from(step("run-1", "one", "one").payload_bytes()).unwrap() + 36;
    for at in 32 + frame..32 + 2 * frame {
        device.tamper(|bytes| bytes[at] ^= 1);
        let (place, _) = damage(&store, "two");
        assert_eq!(place, 32 + frame as u64, "byte {at}");
        device.tamper(|bytes| *bytes = whole.clone());
    }
    assert!(store.lookup(&tenant("acme"), &run("run-1"), &key("two")).unwrap().is_some());
}

#[test]
fn a_value_written_anew_with_a_fitting_head_is_refused_too() {
    let device = Device::default();
    let store = open(&device);
    store.append(step("run-1", "charge", "paid 10")).wait().unwrap();
    let forged = Fields { value: b"paid 99", ..Fields::default() };
    let forged = File::new(store.id().as_bytes()).with(&forged.payload()).bytes;
    assert_eq!(forged.len(), device.bytes().len());
    device.tamper(|bytes| *bytes = forged);
    assert_eq!(damage(&store, "charge"), (32, FrameFault::Replaced));
}

#[test]
fn a_file_cut_after_opening_is_a_failure_to_read() {
    let device = Device::default();
    let store = open(&device);
    store.append(step("run-1", "charge", "paid")).wait().unwrap();
    device.tamper(|bytes| bytes.truncate(60));
    let read = store.lookup(&tenant("acme"), &run("run-1"), &key("charge"));
    assert!(matches!(read, Err(StepError::Read { at: 32, .. })), "{read:?}");
}

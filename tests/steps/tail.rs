//! How a file ends: torn, or damaged.

use std::time::{Duration, Instant};

use runseal::steps::{FrameFault, OpenError, Recorded, StepLimits, StepStore, StepsFault};

use crate::step_file::{Fields, File, ID};
use crate::{Device, open, step, value_of};

const PATHS: [&str; 4] = ["one", "two", "three", "four"];

/// A file of some steps, each written with a sync of its own.
fn file(steps: usize) -> File {
    PATHS[..steps].iter().fold(File::new(ID), |file, path| {
        file.with(&Fields { path, value: path.as_bytes(), ..Fields::default() }.payload())
    })
}

fn refused_untouched(bytes: &[u8]) -> (u64, FrameFault) {
    let device = Device::holding(bytes);
    let error = StepStore::open_on(device.clone(), StepLimits::default()).unwrap_err();
    assert_eq!(device.bytes(), bytes, "a refusal changes no byte");
    match error {
        OpenError::Fault(StepsFault::Frame { number, fault, .. }) => (number, fault),
        error => panic!("{error}"),
    }
}

#[test]
fn a_file_cut_anywhere_keeps_its_whole_steps_and_goes_on_for_good() {
    let file = file(3);
    for cut in 32..=file.bytes.len() {
        let whole = file.starts.iter().rposition(|start| *start <= cut).unwrap();
        let device = Device::holding(&file.bytes[..cut]);
        let store = open(&device);
        assert_eq!(store.opening().steps, whole as u64, "cut at {cut}");
        assert_eq!(store.opening().torn_bytes, (cut - file.starts[whole]) as u64);
        assert_eq!(device.durable(), file.bytes[..file.starts[whole]]);
        // Two appends after the cut, each with its own sync: the second would meet what the first left behind.
        for path in ["after", "and after"] {
            assert_eq!(store.append(step("run-1", path, path)).wait().unwrap(), Recorded::Now);
        }
        drop(store);
        let store = open(&device);
        assert_eq!((store.opening().steps, store.opening().torn_bytes), (whole as u64 + 2, 0));
        for path in PATHS[..whole].iter().chain(&["after", "and after"]) {
            assert_eq!(value_of(&store, "run-1", path).as_deref(), Some(path.as_bytes()), "cut at {cut}");
        }
        assert!(PATHS[whole..].iter().all(|path| value_of(&store, "run-1", path).is_none()));
    }
}

#[test]
fn a_longer_length_over_the_last_step_is_refused() {
    for by in (1..=40).chain([41, 255, 4096, 1 << 20]) {
        let (number, fault) = refused_untouched(&file(3).lengthened(3, by));
        assert_eq!(number, 3);
        assert!(matches!(fault, FrameFault::LengthLies { .. }), "+{by}: {fault}");
    }
}

#[test]
fn another_length_in_the_middle_is_refused() {
    for by in [-5, -1, 1, 3, 36, 200, 400, 4096, 1 << 20] {
        assert_eq!(refused_untouched(&file(4).lengthened(2, by)).0, 2, "{by:+}");
    }
}

#[test]
fn damage_with_an_intact_step_behind_it_is_refused_at_its_frame() {
    let file = file(4);
    for at in 32..file.starts[3] {
        let mut bytes = file.bytes.clone();
        bytes[at] ^= 0x10;
        let number = file.starts.iter().filter(|start| **start <= at).count() as u64;
        assert_eq!(refused_untouched(&bytes).0, number, "byte {at}");
    }
    // A length past the end over a payload that is damaged too.
    let mut bytes = file.bytes.clone();
    bytes[file.starts[1]..file.starts[1] + 4].copy_from_slice(&0x0010_0000_u32.to_be_bytes());
    bytes[file.starts[1] + 20] ^= 1;
    let intact = FrameFault::IntactBehind { intact_at: file.starts[2] as u64 };
    assert_eq!(refused_untouched(&bytes), (2, intact));
}

#[test]
fn a_last_step_that_is_whole_but_damaged_is_refused() {
    let file = file(3);
    for at in file.starts[2] + 4..file.bytes.len() {
        let mut bytes = file.bytes.clone();
        bytes[at] ^= 1;
        assert_eq!(refused_untouched(&bytes).0, 3, "byte {at}");
    }
}

#[test]
fn noise_at_the_end_is_decided_in_bounded_time() {
    let mut noise = (15_u32 << 20).to_be_bytes().to_vec();
    let mut state = 1_u64;
    while noise.len() < 4 << 20 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        noise.extend(state.to_be_bytes());
    }
    let file = file(2);
    let device = Device::holding(&[&file.bytes[..], &noise].concat());
    let started = Instant::now();
    let store = open(&device);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?} for 4 MiB", started.elapsed());
    assert_eq!(store.opening().torn_bytes, noise.len() as u64);
    assert_eq!(device.durable(), file.bytes);
}

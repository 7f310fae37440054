//! Power fails at every sync, and any part of what was under way reaches the device.

use crate::{Device, open, run, step, tenant, value_of};

/// What is on the device when power fails, and what was acknowledged by then.
struct Failure {
    durable: Vec<u8>,
    written: Vec<u8>,
    acknowledged: Vec<String>,
}

/// Appends in groups of three, each sent at once, until a sync of group `failing` is under way.
fn fail_power_in(failing: usize, paths: &[String]) -> Failure {
    let device = Device::default();
    let store = open(&device);
    let mut acknowledged = Vec::new();
    for (number, group) in paths.chunks(3).enumerate() {
        if number == failing {
            device.stall();
        }
        let acks: Vec<_> = group.iter().map(|path| store.append(step("run-1", path, path))).collect();
        if number == failing {
            device.wait_until_stalled();
            let failure = Failure { durable: device.durable(), written: device.bytes(), acknowledged };
            device.release();
            for ack in acks {
                ack.wait().unwrap();
            }
            return failure;
        }
        for (ack, path) in acks.into_iter().zip(group) {
            ack.wait().unwrap();
            acknowledged.push(path.clone());
        }
    }
    unreachable!("the failing group is one of them")
}

#[test]
fn nothing_acknowledged_is_lost_at_any_sync_and_any_cut() {
    let paths: Vec<_> = (0..18).map(|n| format!("step-{n}")).collect();
    for failing in 0..6 {
        let Failure { durable, written, acknowledged } = fail_power_in(failing, &paths);
        assert!(durable.len() < written.len(), "something was under way");
        assert_eq!(acknowledged.len(), 3 * failing);
        for cut in durable.len()..=written.len() {
            let store = open(&Device::holding(&written[..cut]));
            for path in &acknowledged {
                assert_eq!(value_of(&store, "run-1", path).as_deref(), Some(path.as_bytes()), "cut at {cut}");
            }
            // What survives is a prefix of what was sent, and the store goes on.
            let steps = usize::try_from(store.opening().steps).unwrap();
            assert!(paths[..steps].iter().all(|path| value_of(&store, "run-1", path).is_some()));
            store.append(step("run-1", "after", "")).wait().unwrap();
            assert_eq!(store.step_count(&tenant("acme"), &run("run-1")).unwrap(), steps as u64 + 1);
        }
    }
}

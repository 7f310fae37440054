//! An idle step store sleeps: its thread is not woken once.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::thread;
use std::time::Duration;

use runseal::steps::{StepLimits, StepStore};

/// How often each thread that writes steps has gone to sleep. This is the only test of its process.
fn sleeps() -> Vec<(String, u64)> {
    let mut sleeps = Vec::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim_start_matches(':').trim().to_owned()
        };
        if value("Name") == "runseal-steps" {
            sleeps.push((value("Pid"), value("voluntary_ctxt_switches").parse().unwrap()));
        }
    }
    sleeps.sort();
    sleeps
}

#[test]
fn fifty_idle_stores_are_not_woken_once() {
    let dir = tempfile::tempdir().unwrap();
    let open = |n| StepStore::open(dir.path().join(format!("{n}.steps")), StepLimits::default()).unwrap();
    let stores: Vec<_> = (0..50).map(open).collect();
    thread::sleep(Duration::from_millis(300));
    let before = sleeps();
    assert_eq!(before.len(), stores.len());
    thread::sleep(Duration::from_millis(700));
    assert_eq!(sleeps(), before);
}

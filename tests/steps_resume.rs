//! The resume example as a test: a process killed a hundred times, with real kills.

#[path = "../examples/resume/story.rs"]
mod story;
#[path = "../examples/resume/worker.rs"]
mod worker;

use std::hash::{BuildHasher, RandomState};
use std::process::Command;

/// Set for the process that carries the run out: the directory of its store.
const WORKER_DIR: &str = "RUNSEAL_TEST_RESUME_DIR";

#[test]
fn a_run_killed_a_hundred_times_performs_every_effect_once() {
    let dir = tempfile::tempdir().unwrap();
    let seed = RandomState::new().hash_one(0);
    let told = story::tell(dir.path(), 100, seed, || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "carries_the_run_out", "--nocapture"]).env(WORKER_DIR, dir.path());
        command
    });
    let told = told.unwrap();
    assert_eq!((told.kills, told.seed), (100, seed));
    assert_eq!(told.charges, u64::from(worker::STEPS));
    // Some kills came between a charge and its record: there the provider's knowing the key is what helps.
    assert!(told.asked_again > 0, "{told}");
    eprintln!("{told}");
}

/// Not a test by itself: the process that the other one starts and kills.
#[test]
fn carries_the_run_out() {
    if let Some(dir) = std::env::var_os(WORKER_DIR) {
        // Ends the line that names the test, where it comes before what the test says.
        println!();
        worker::work(dir.as_ref()).unwrap();
    }
}

//! A run that is killed a hundred times, at random, and performs every effect once.
//!
//! `worker.rs` is the run, to be taken as a pattern; `story.rs` kills it and keeps the books of the outside world.
//!
//! `cargo run --release --example resume [-- KILLS [SEED]]`

mod story;
mod worker;

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [worker, dir] = args.as_slice()
        && worker == "worker"
    {
        return worker::work(dir.as_ref());
    }
    let number = |at: usize, otherwise: u64| args.get(at).map_or(Ok(otherwise), |arg| arg.parse());
    let (kills, seed) = (number(0, 100)?, number(1, RandomState::new().hash_one(0))?);
    let dir = tempfile::tempdir()?;
    let this = std::env::current_exe()?;
    let told = story::tell(dir.path(), kills, seed, || {
        let mut command = Command::new(&this);
        command.arg("worker").arg(dir.path());
        command
    })?;
    println!("{told}");
    Ok(())
}

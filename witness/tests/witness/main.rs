//! The witness from the outside: decided, over HTTP, as a process, under races, faults and crashes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod connections;
mod decisions;
mod faults;
mod harness;
mod process;
mod pull;
mod races;
mod testlog;
mod vectors;
mod wire;

//! The witness from the outside: decided, over HTTP, as a process, under races, faults and crashes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod authority;
mod bastion;
mod commands;
mod connections;
mod decisions;
mod faults;
mod fetching;
mod harness;
mod lifetime;
mod lists;
mod moving;
mod place;
mod pull;
mod races;
mod said;
mod secrets;
mod testlog;
mod vectors;
mod wire;

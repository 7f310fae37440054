//! What a run leaves behind, and how it is held against what was promised.
//!
//! | module | holds |
//! |---|---|
//! | [`name`] | tenants, runs, kinds, outcomes, effects, cases, bases of origins |
//! | [`json`] | lossless JSON in one compact spelling |
//! | [`timestamp`] | instants as records spell them |
//! | [`record`] | the record and its wire bytes |
//! | [`payload`] | what the payloads of some kinds mean |
//! | [`chain`] | the hash chain of a run |
//! | [`signature`] | signatures of records |
//! | [`entry`] | entries of a tenant's log |
//! | [`export`] | export lines |
//! | [`finding`] | what an audit holds against a log |
//! | [`report`] | what an audit comes to |
//!
//! Everything here works on bytes and values handed in: no I/O, no clock, no randomness, no task. Every reader
//! is total, bounded by its input and strict: it accepts one spelling, and says in a typed error what is wrong
//! with another. Merkle trees, checkpoints and their signatures are not here but in `runseal-tlog`.

pub mod chain;
mod decimal;
pub mod entry;
pub mod export;
pub mod finding;
pub mod json;
pub mod name;
pub mod payload;
pub mod record;
pub mod report;
pub mod signature;
pub mod timestamp;

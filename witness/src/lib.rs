//! A witness for transparency logs (c2sp.org/tlog-witness): it sees every checkpoint of the logs it
//! follows and cosigns only what provably extends the last one.
//!
//! One `add-checkpoint` request passes through the modules in this order:
//!
//! | module | does |
//! |---|---|
//! | [`server`], [`http`] | bounds connections, bodies and time; turns refusals into statuses |
//! | [`witness`] | decides: every MUST of the specification, in its order, without HTTP |
//! | [`logs`], [`list`] | which logs are known, by which keys |
//! | [`keys`] | the witness's own keys, and what they sign |
//! | [`commit`] | many requests, one transaction, one sync to disk |
//! | [`state`] | the last cosigned checkpoint of every log, advanced in one step |
//! | [`clock`] | the only reading of the wall clock |
//!
//! The promise: no cosignature leaves before the state that forbids a contradicting one is on disk.

pub mod about;
pub mod cli;
pub mod clock;
pub mod commit;
pub mod failure;
pub mod http;
pub mod keys;
pub mod list;
pub mod logs;
pub mod server;
pub mod state;
pub mod witness;

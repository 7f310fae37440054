//! A witness for transparency logs (c2sp.org/tlog-witness): it sees every checkpoint of the logs it
//! follows and cosigns only what provably extends the last one.
//!
//! One `add-checkpoint` request passes through the modules in this order:
//!
//! | module | does |
//! |---|---|
//! | [`server`], [`http`] | bounds connections, bodies and time; turns refusals into statuses |
//! | [`witness`], [`submission`], [`refusal`] | decides: every MUST of the specification, in its order, without HTTP |
//! | [`logs`], [`list`], [`sources`] | which logs are known, by which keys, and where that is read |
//! | [`admission`] | fairness between logs |
//! | [`keys`], [`agent`] | the witness's own keys, and what they sign |
//! | [`commit`] | many requests, one transaction, one sync to disk |
//! | [`state`], [`database`] | the last cosigned checkpoint of every log, advanced in one step |
//! | [`evidence`] | what is kept of a log that contradicts itself |
//! | [`clock`] | the only reading of the wall clock |
//!
//! Beside them, [`feed`] and [`pull`] look at logs that do not push, through [`fetch`]; [`bastion`]
//! serves through a reverse proxy; [`transfer`] moves the state to another machine.
//!
//! The promise: no cosignature leaves before the state that forbids a contradicting one is on disk.

pub mod about;
pub mod admission;
pub mod agent;
pub mod bastion;
mod budget;
pub mod cli;
pub mod clock;
pub mod commit;
pub mod database;
mod diff;
pub mod evidence;
pub mod failure;
pub mod feed;
pub mod fetch;
pub mod http;
pub mod keys;
pub mod list;
pub mod logs;
pub mod metrics;
mod patience;
pub mod pull;
pub mod refusal;
pub mod run;
pub mod server;
pub mod sources;
pub mod state;
pub mod submission;
pub mod transfer;
pub mod witness;

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
//! | [`amount`] | counts with their nouns |
//! | [`steps`] | the results of a run's steps, as a file keeps them |
//!
//! Everything here works on bytes and values handed in: no I/O, no clock, no randomness, no task. Readers never
//! panic, their work is bounded by their input, and what they refuse they refuse with a typed error that says
//! what is wrong and where. Bytes that are hashed or signed (records, entries) have one spelling. A version that
//! this build does not read is told from damage.
//!
//! Merkle trees, checkpoints and their signatures are in `runseal-tlog`; which runs a log vouches for, and
//! whether their records bear that out, is the verifier's business.
//!
//! ```
//! use runseal_evidence::{chain::Chain, json::Json, name::*, record::*, timestamp::Timestamp};
//!
//! let (tenant, run) = (TenantId::new("acme")?, RunId::new("refund-4471")?);
//! let draft = RecordDraft {
//!     kind: Kind::new("RunConcluded")?,
//!     payload: Json::parse(br#"{ "outcome": "succeeded", "cost": 1.50 }"#)?,
//!     effect: None,
//!     case: None,
//! };
//! let at = Timestamp::from_posix_ms(1_773_220_444_001)?;
//! let raw = draft.stamp(Stamp { at, epoch: 1, run: run.clone(), seq: 1, tenant: tenant.clone() }).to_wire()?;
//! assert_eq!(
//!     std::str::from_utf8(&raw)?,
//!     r#"{"at":"2026-03-11T09:14:04.001Z","epoch":1,"kind":"RunConcluded","payload":{"outcome":"succeeded","cost":1.50},"run":"refund-4471","seq":1,"tenant":"acme","v":1}"#
//! );
//!
//! let mut chain = Chain::new(tenant, run);
//! chain.push(&raw)?;
//! assert_eq!(chain.conclusion().map(Outcome::as_str), Some("succeeded"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod amount;
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
pub mod steps;
pub mod timestamp;

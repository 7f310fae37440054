//! An auditor's tool for transparency logs, and for the agent runs in them.
//!
//! Trust comes from one tlog-policy file: log keys, witnesses, quorum. Everything else is evidence, and is
//! held against a signature before it is used or kept.
//!
//! | module | holds |
//! |---|---|
//! | [`checkpoint`], [`dates`] | a checkpoint under the policy: signature, quorum, age, dated keys |
//! | [`history`], [`ledger`], [`mark`], [`siphash`] | what is remembered, and which entries a run has |
//! | [`judge`], [`runs`] | entries of a run against each other, and against its records |
//! | [`steps`] | the file of a tenant's steps, against what its runs concluded with |
//! | [`export`], [`proof`], [`fraud`] | files checked offline |
//! | [`agentplane`] | exports of another agent plane |
//! | [`online`] | audits of logs: on servers, on disk, for ever; only with the feature `cli` |
//! | [`trust`], [`cli`], [`report_text`], [`report_html`], [`timeline`] | what goes in and what comes out |

pub mod agentplane;
pub mod checkpoint;
#[cfg(feature = "cli")]
pub mod cli;
pub mod clock;
pub mod dates;
pub mod error;
pub mod export;
pub mod file;
pub mod fraud;
pub mod history;
pub mod judge;
pub mod ledger;
pub mod lines;
pub mod mark;
#[cfg(feature = "cli")]
pub mod online;
pub mod proof;
pub mod report_html;
pub mod report_text;
pub mod runs;
pub mod siphash;
pub mod steps;
pub mod timeline;
pub mod trust;

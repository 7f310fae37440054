//! An auditor's tool for transparency logs, and for the agent runs in them.
//!
//! Trust comes from one tlog-policy file: log keys, witnesses, quorum. Everything else is evidence, and is
//! held against a signature before it is used or kept.
//!
//! | module | holds |
//! |---|---|
//! | [`audit`] | the audit of one log, step by step |
//! | [`checkpoint`], [`dates`] | a checkpoint under the policy: signature, quorum, age, dated keys |
//! | [`witnesses`] | what the witnesses say, against each other, the log and the history |
//! | [`tree`], [`entries`] | tiles and entries, authenticated against the signed root |
//! | [`history`], [`scratch`], [`recorder`], [`ledger`], [`mark`], [`siphash`] | what is remembered, how it is written, which entries a run has |
//! | [`judge`], [`runs`], [`walk`] | entries of a run against each other, and against its records |
//! | [`steps`] | the file of a tenant's steps, against what its runs concluded with |
//! | [`diagnose`] | what a rewritten log did to which runs |
//! | [`directory`] | the log that lists a plane's tenants, against the policy and the history |
//! | [`export`], [`export_lines`], [`export_entries`], [`export_runs`], [`proof`], [`fraud`] | files checked offline |
//! | [`agentplane`], [`canon`] | exports of another agent plane |
//! | [`source`], [`records`], [`finder`], [`http`] | where evidence comes from, bounded |
//! | [`watch`], [`alert`], [`metrics`] | audits for ever, and who is told |
//! | [`trust`], [`cli`], [`report_text`], [`report_html`], [`timeline`], [`listing`] | what goes in and what comes out |

pub mod agentplane;
#[cfg(feature = "cli")]
pub mod alert;
#[cfg(feature = "cli")]
pub mod audit;
#[cfg(feature = "cli")]
pub mod blocking;
pub mod canon;
pub mod checkpoint;
#[cfg(feature = "cli")]
pub mod cli;
pub mod clock;
pub mod dates;
#[cfg(feature = "cli")]
pub mod diagnose;
#[cfg(feature = "cli")]
pub mod directory;
#[cfg(feature = "cli")]
pub mod entries;
pub mod error;
pub mod export;
pub mod export_entries;
pub mod export_lines;
pub mod export_runs;
pub mod file;
#[cfg(feature = "cli")]
pub mod finder;
pub mod fraud;
pub mod history;
#[cfg(feature = "cli")]
pub mod http;
pub mod judge;
pub mod ledger;
pub mod lines;
#[cfg(feature = "cli")]
pub mod listing;
pub mod mark;
#[cfg(feature = "cli")]
pub mod metrics;
#[cfg(feature = "cli")]
pub mod progress;
pub mod proof;
#[cfg(feature = "cli")]
pub mod recorder;
#[cfg(feature = "cli")]
pub mod records;
pub mod report_html;
pub mod report_text;
pub mod runs;
#[cfg(feature = "cli")]
pub mod scratch;
pub mod siphash;
#[cfg(feature = "cli")]
pub mod source;
pub mod steps;
pub mod timeline;
#[cfg(feature = "cli")]
pub mod tree;
pub mod trust;
#[cfg(feature = "cli")]
pub mod walk;
#[cfg(feature = "cli")]
pub mod watch;
#[cfg(feature = "cli")]
pub mod witnesses;

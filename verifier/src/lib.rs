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
//! | [`history`], [`recorder`], [`ledger`], [`siphash`] | what is remembered, how it is written, which entries a run has |
//! | [`judge`], [`runs`], [`walk`] | entries of a run against each other, and against its records |
//! | [`steps`] | the file of a tenant's steps, against what its runs concluded with |
//! | [`diagnose`] | what a rewritten log did to which runs |
//! | [`export`], [`export_lines`], [`export_runs`], [`proof`], [`fraud`] | files checked offline |
//! | [`agentplane`], [`canon`] | exports of another agent plane |
//! | [`source`], [`records`], [`finder`], [`http`] | where evidence comes from, bounded |
//! | [`watch`], [`alert`], [`metrics`] | audits for ever, and who is told |
//! | [`trust`], [`cli`], [`report_text`], [`report_html`], [`timeline`], [`listing`] | what goes in and what comes out |

pub mod agentplane;
pub mod alert;
pub mod audit;
pub mod blocking;
pub mod canon;
pub mod checkpoint;
pub mod cli;
pub mod clock;
pub mod dates;
pub mod diagnose;
pub mod entries;
pub mod error;
pub mod export;
pub mod export_lines;
pub mod export_runs;
pub mod file;
pub mod finder;
pub mod fraud;
pub mod history;
pub mod http;
pub mod judge;
pub mod ledger;
pub mod lines;
pub mod listing;
pub mod metrics;
pub mod progress;
pub mod proof;
pub mod recorder;
pub mod records;
pub mod report_html;
pub mod report_text;
pub mod runs;
pub mod siphash;
pub mod source;
pub mod steps;
pub mod timeline;
pub mod tree;
pub mod trust;
pub mod walk;
pub mod watch;
pub mod witnesses;

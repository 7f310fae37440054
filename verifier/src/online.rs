//! Audits of logs that are online, or static on disk: what asks servers, writes files and runs on threads.
//!
//! | module | holds |
//! |---|---|
//! | [`audit`] | the audit of one log, step by step |
//! | [`tree`], [`entries`] | tiles and entries, authenticated against the signed root |
//! | [`recorder`], [`scratch`] | how what was verified is written |
//! | [`walk`] | the runs of a verified log, one after the other |
//! | [`diagnose`] | what a rewritten log did to which runs |
//! | [`directory`] | the log that lists a plane's tenants, against the policy and the history |
//! | [`witnesses`] | what the witnesses say, against each other, the log and the history |
//! | [`source`], [`records`], [`finder`], [`http`] | where evidence comes from, bounded |
//! | [`watch`], [`alert`], [`metrics`] | audits for ever, and who is told |
//! | [`listing`], [`progress`], [`blocking`] | what is shown, and what waits for the disk |

pub mod alert;
pub mod audit;
pub mod blocking;
pub mod diagnose;
pub mod directory;
pub mod entries;
pub mod finder;
pub mod http;
pub mod listing;
pub mod metrics;
pub mod progress;
pub mod recorder;
pub mod records;
pub mod scratch;
pub mod source;
pub mod tree;
pub mod walk;
pub mod watch;
pub mod witnesses;

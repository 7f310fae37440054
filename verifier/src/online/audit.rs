//! The audit of one log: fetch, authenticate, hold against what is remembered, look at every entry, and
//! where records can be had, at every run.

mod contradiction;
mod entries;
mod records;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use runseal_evidence::amount::amount;
use runseal_evidence::name::Base;
use runseal_evidence::report::{Command, NotChecked, Report, Scope, TreeState};
use runseal_tlog::fraud::FraudProof;

use crate::checkpoint::{self, Age, Memory};
use crate::clock::Clock;
use crate::error::Failure;
use crate::history::{History, LogHistory};
use crate::online::blocking::blocking;
use crate::online::progress::Progress;
use crate::online::records::RecordSource;
use crate::online::source::LogSource;
use crate::steps::Against;
use crate::trust::Trust;

/// Findings and gaps listed; beyond that they are counted.
const LISTED_MAX: usize = 1_000;

/// Where records come from.
#[derive(Debug)]
pub enum Records {
    /// A journal's audit routes.
    Http(RecordSource),
    /// An export file.
    Export(PathBuf),
}

/// What to audit, and by what.
#[derive(Debug)]
pub struct Audit {
    /// The trust configuration.
    pub trust: Trust,
    /// The log's origin.
    pub origin: String,
    /// The log.
    pub source: LogSource,
    /// What is remembered, if anything is to be.
    pub history: Option<Arc<History>>,
    /// The records, if they are in scope.
    pub records: Option<Records>,
    /// The base of the plane whose directory this is, if what it lists is in scope.
    pub directory: Option<Base>,
    /// What records are held against besides the log.
    pub against: Against,
    /// How old the newest cosignature may be.
    pub max_age: Option<Duration>,
    /// Pieces of the log fetched at a time.
    pub jobs: usize,
    /// Longest time for the whole.
    pub timeout: Duration,
}

/// What an audit came to.
#[derive(Debug)]
pub struct Audited {
    /// The report.
    pub report: Report,
    /// A fraud proof, where two signed checkpoints contradict each other. It was checked.
    pub fraud: Option<FraudProof>,
}

impl Audit {
    /// Runs the audit.
    ///
    /// # Errors
    /// [`Failure`] of the history or of this process. Whatever the log or the records source does is in
    /// the report.
    pub async fn run(&self, clock: &dyn Clock, progress: Progress) -> Result<Audited, Failure> {
        let scope = if self.records.is_some() { Scope::LogAndRecords } else { Scope::Log };
        let history = if let Some(history) = &self.history {
            Arc::clone(history)
        } else {
            let keeps_entries = self.records.is_some() || self.directory.is_some();
            Arc::new(blocking(move || History::scratch(keeps_entries)).await??)
        };
        let origin = self.origin.clone();
        let history = blocking(move || history.log(&origin)).await??;
        let mut run =
            Run { audit: self, history, report: Report::new(Command::Audit, scope), fraud: None, progress };
        let before = self.bytes_read();
        let in_time = tokio::time::timeout(self.timeout, run.all(clock)).await;
        if let Ok(done) = in_time {
            done?;
        } else {
            let why = format!("the audit did not end within {}", humantime::format_duration(self.timeout));
            run.report.skipped("time", why.clone());
            run.unchecked_after("what was not reached in time", &why);
        }
        let Run { mut report, fraud, .. } = run;
        // What a local export file took is counted already.
        report.counts.bytes += self.bytes_read() - before;
        bound(&mut report);
        Ok(Audited { report, fraud })
    }

    fn bytes_read(&self) -> u64 {
        let records = match &self.records {
            Some(Records::Http(source)) => source.bytes_read(),
            _ => 0,
        };
        self.source.bytes_read() + records
    }
}

/// Keeps a report readable whatever the log did.
fn bound(report: &mut Report) {
    let more = report.findings.len().saturating_sub(LISTED_MAX);
    report.findings.truncate(LISTED_MAX);
    if more > 0 {
        let why = format!("only the first {LISTED_MAX} are listed");
        report.not_checked.push(NotChecked::out_of_scope(amount(more, "more finding"), why));
    }
    let gaps = report.not_checked.len().saturating_sub(LISTED_MAX);
    if gaps > 0 {
        report.not_checked.truncate(LISTED_MAX);
        let why = format!("only the first {LISTED_MAX} are listed");
        report.not_checked.push(NotChecked::gap(format!("{gaps} more"), why));
    }
}

struct Run<'a> {
    audit: &'a Audit,
    history: LogHistory,
    report: Report,
    fraud: Option<FraudProof>,
    progress: Progress,
}

impl Run<'_> {
    async fn all(&mut self, clock: &dyn Clock) -> Result<(), Failure> {
        let now = clock.now();
        let bytes = match self.audit.source.checkpoint().await {
            Ok(bytes) => bytes,
            Err(error) => {
                self.report.skipped("checkpoint", error.to_string());
                self.report.not_checked.push(NotChecked::gap("the log", format!("no checkpoint: {error}")));
                return Ok(());
            }
        };
        let (trust, origin) = (&self.audit.trust, &self.audit.origin);
        let Some(signed) = checkpoint::examine(&mut self.report, trust, origin, &bytes) else {
            self.unchecked_after("the log", "nothing of it can be trusted without its signature");
            return Ok(());
        };
        let history = self.history.clone();
        let latest = blocking(move || history.latest()).await??;
        self.report.previous =
            latest.as_ref().map(|latest| TreeState { size: latest.size, root: latest.root.to_base64() });
        let size = signed.checkpoint.size();
        let grown = match &latest {
            Some(latest) if size <= latest.size => Some(latest.seen),
            _ => Some(now),
        };
        let limits = Age { now, max: self.audit.max_age };
        checkpoint::age(&mut self.report, &signed, limits, grown.filter(|_| latest.is_some()));
        let holds = match &latest {
            None => {
                let detail = if self.audit.history.is_some() {
                    "first observation: history not checked"
                } else {
                    "no --history was given: history not checked"
                };
                self.report.skipped("history", detail);
                true
            }
            Some(latest) => self.against(latest, &signed).await?,
        };
        let history = self.history.clone();
        let first = blocking(move || history.earliest()).await??;
        let memory = match (first, self.audit.history.is_some()) {
            (Some(first), _) => Memory::Since { size: first.size, seen: first.seen },
            (None, true) => Memory::Starts,
            (None, false) => Memory::None,
        };
        if holds {
            checkpoint::unwitnessed(&mut self.report, memory);
        }
        if !holds {
            self.unchecked_after("entries and records", "the log contradicts what is remembered of it");
            return Ok(());
        }
        if !self.log(&signed, latest.as_ref(), now).await? {
            return Ok(());
        }
        match &self.audit.directory {
            Some(base) => self.directory(base, size, now).await,
            None => self.records().await,
        }
    }

    fn unchecked_after(&mut self, what: &str, why: &str) {
        self.report.not_checked.push(NotChecked::gap(what, why));
    }
}

//! One run block of an export, held against the entries that a verified log has of the run.

use std::sync::{Arc, OnceLock};

use runseal_evidence::chain::Ahead;
use runseal_evidence::export::{ExportRun, RecordAccount, RunState};
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::TenantId;
use runseal_evidence::report::NotChecked;

use crate::history::HistoryError;
use crate::ledger::RunEntries;
use crate::mark::Mark;
use crate::runs::{Pinned, RunCheck};
use crate::steps::{Against, Held};

/// What run blocks are held against, by whoever has one: the checker, or a parser that has all of it in reach.
pub(super) struct RunJudge<'k> {
    pub(super) tenant: TenantId,
    /// Entries from here on are newer than the export.
    pub(super) end: u64,
    run_key: [u8; 16],
    against: &'k Against,
    entries: OnceLock<Arc<dyn RunEntries + Send + Sync>>,
}

/// A run block whose records are being taken.
#[derive(Debug)]
pub(super) struct OpenRun<'k> {
    pub(super) hash: u64,
    pub(super) check: RunCheck<'k>,
    pub(super) records: u64,
    pub(super) findings: Vec<Finding>,
    pub(super) gaps: Vec<NotChecked>,
}

/// What a run block came to.
#[derive(Debug)]
pub(super) struct JudgedRun {
    pub(super) hash: u64,
    pub(super) records: u64,
    pub(super) unpinned: bool,
    pub(super) signed: u64,
    pub(super) steps: Held,
    pub(super) findings: Vec<Finding>,
    pub(super) gaps: Vec<NotChecked>,
}

impl<'k> RunJudge<'k> {
    /// Runs of `tenant` against the first `end` entries of its log, once those are known. `run_key` is what they are
    /// found by.
    pub(super) fn new(tenant: TenantId, end: u64, run_key: [u8; 16], against: &'k Against) -> Self {
        Self { tenant, end, run_key, against, entries: OnceLock::new() }
    }

    /// The key that runs are hashed with.
    pub(super) fn run_key(&self) -> &[u8; 16] {
        &self.run_key
    }

    /// Makes the entries known, all of them.
    pub(super) fn settle(&self, entries: Arc<dyn RunEntries + Send + Sync>) {
        // Whoever comes second says the same.
        let _ = self.entries.set(entries);
    }

    /// Whether the entries are known.
    pub(super) fn is_settled(&self) -> bool {
        self.entries.get().is_some()
    }

    /// Judges a whole run block: its line, and its records as [`RunCheck::push`] takes them. `None` where that cannot be
    /// done yet, or not without a failure of the store, which the checker then meets.
    pub(super) fn judge<'r>(
        &self,
        line: &ExportRun,
        records: impl Iterator<Item = (&'r [u8], &'r RecordAccount, Ahead)>,
    ) -> Option<JudgedRun> {
        let mut open = self.open(line, self.entries.get()?.as_ref()).ok()?;
        for (raw, account, ahead) in records {
            open.push(raw, account, ahead);
        }
        Some(open.close())
    }

    pub(super) fn open(
        &self,
        line: &ExportRun,
        entries: &dyn RunEntries,
    ) -> Result<OpenRun<'k>, HistoryError> {
        let hash = Mark::run_hash(&self.run_key, &self.tenant, &line.run);
        let (mut findings, mut gaps) = (Vec::new(), Vec::new());
        let found = entries.pinned(&self.tenant, &line.run, hash, line.index, self.end)?;
        let Some((pinned, later)) = found else {
            let why = "the history keeps no entries (--history-light) to hold its records against";
            gaps.push(NotChecked::gap(format!("records of run {}", line.run), why));
            let pinned = Pinned::new(self.tenant.clone(), line.run.clone());
            let check = RunCheck::new(pinned, self.against);
            return Ok(OpenRun { hash, check, records: 0, findings, gaps });
        };
        if later {
            let why = "the log holds entries of it that are newer than the export";
            gaps.push(NotChecked::gap(format!("the newest records of run {}", line.run), why));
        }
        let seal = pinned.seal.as_ref().map(|(pin, _)| pin.index);
        let claimed = match line.state {
            RunState::Sealed => line.index,
            RunState::Open => None,
        };
        if (line.state == RunState::Sealed) != line.index.is_some() || claimed != seal {
            let claim = match (line.state, line.index) {
                (RunState::Sealed, Some(index)) => format!("sealed at index {index}"),
                (RunState::Sealed, None) => "sealed, without an index".to_owned(),
                (RunState::Open, Some(index)) => format!("open, with the index {index} of a seal"),
                (RunState::Open, None) => "open".to_owned(),
            };
            let says =
                seal.map_or("holds no seal of it".to_owned(), |index| format!("seals it at index {index}"));
            let detail = format!("the export calls the run {claim}; the log {says}");
            findings.push(Finding::new(FindingKind::Malformed, detail).in_run(&line.run));
        }
        let check = RunCheck::new(pinned, self.against);
        Ok(OpenRun { hash, check, records: 0, findings, gaps })
    }
}

impl OpenRun<'_> {
    pub(super) fn push(&mut self, raw: &[u8], line: &RecordAccount, ahead: Ahead) {
        self.records += 1;
        self.check.push(raw, line, ahead);
    }

    /// Its last record was taken.
    pub(super) fn close(&mut self) -> JudgedRun {
        let Self { hash, check, records, .. } = self;
        let (hash, records) = (*hash, *records);
        let (mut findings, mut gaps) = (std::mem::take(&mut self.findings), std::mem::take(&mut self.gaps));
        if check.count() == 0 {
            let pinned = check.pinned();
            findings.push(if pinned.is_empty() {
                let detail = "a run without any record, which the log does not know either";
                Finding::new(FindingKind::Malformed, detail).in_run(&pinned.run)
            } else {
                pinned.deleted("the export holds no record of it")
            });
            return JudgedRun {
                hash,
                records,
                unpinned: false,
                signed: 0,
                steps: Held::default(),
                findings,
                gaps,
            };
        }
        let result = check.finish();
        findings.extend(result.findings);
        gaps.extend(result.gaps);
        // Of a run that is not what the log holds there is worse to say than that it goes on.
        let unpinned = result.unpinned > 0 && findings.is_empty();
        let (signed, steps) = (result.signed, result.steps);
        JudgedRun { hash, records, unpinned, signed, steps, findings, gaps }
    }
}

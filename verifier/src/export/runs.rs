//! The run blocks of an export, held against the entries that a verified log has of each run.

use std::collections::HashSet;

use runseal_evidence::chain::Ahead;
use runseal_evidence::export::{ExportRun, RecordAccount, RunState};
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::{RunId, TenantId};
use runseal_evidence::report::NotChecked;

use crate::history::HistoryError;
use crate::judge;
use crate::ledger::RunEntries;
use crate::mark::Mark;
use crate::runs::{Pinned, RunCheck};
use crate::steps::{Against, Held};

/// Runs named that are missing; beyond that they are counted.
const MISSING_MAX: usize = 1_000;

/// Checks run blocks as they come by.
#[derive(Debug)]
pub(super) struct RunBlocks<'k> {
    tenant: TenantId,
    /// Entries from here on are newer than the export.
    end: u64,
    against: &'k Against,
    current: Option<(ExportRun, RunCheck<'k>)>,
    seen: Vec<u64>,
    /// Run lines.
    pub(super) runs: u64,
    /// Record lines.
    pub(super) records: u64,
    /// Open runs with records past their last entry.
    pub(super) unpinned: u64,
    /// Records signed by keys that were not given.
    pub(super) signed: u64,
    /// What conclusions and steps came to.
    pub(super) steps: Held,
    /// What was found.
    pub(super) findings: Vec<Finding>,
    /// What could not be checked.
    pub(super) gaps: Vec<NotChecked>,
}

impl<'k> RunBlocks<'k> {
    /// Runs of `tenant` against the first `end` entries of its log.
    pub(super) fn new(tenant: TenantId, end: u64, against: &'k Against) -> Self {
        Self {
            tenant,
            end,
            against,
            current: None,
            seen: Vec::new(),
            runs: 0,
            records: 0,
            unpinned: 0,
            signed: 0,
            steps: Held::default(),
            findings: Vec::new(),
            gaps: Vec::new(),
        }
    }

    /// Takes the line of a run, of which `entries` holds what the log says.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub(super) fn start(&mut self, line: ExportRun, entries: &dyn RunEntries) -> Result<(), HistoryError> {
        self.close();
        self.runs += 1;
        self.seen.push(Mark::run_hash(entries.run_key(), &self.tenant, &line.run));
        let found = entries.pinned(&self.tenant, &line.run, self.end)?;
        let Some((pinned, later)) = found else {
            let why = "the history keeps no entries (--history-light) to hold its records against";
            self.gaps.push(NotChecked::gap(format!("records of run {}", line.run), why));
            let pinned = Pinned::new(self.tenant.clone(), line.run.clone());
            self.current = Some((line, RunCheck::new(pinned, self.against)));
            return Ok(());
        };
        if later {
            let why = "the log holds entries of it that are newer than the export";
            self.gaps.push(NotChecked::gap(format!("the newest records of run {}", line.run), why));
        }
        let seal = pinned.seal.as_ref().map(|(index, _)| *index);
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
            self.findings.push(Finding::new(FindingKind::Malformed, detail).in_run(&line.run));
        }
        self.current = Some((line, RunCheck::new(pinned, self.against)));
        Ok(())
    }

    /// Takes a record with what its line says of it. `false` where it belongs to no run.
    pub(super) fn record(&mut self, raw: &[u8], line: &RecordAccount, ahead: Ahead) -> bool {
        self.records += 1;
        match &mut self.current {
            Some((.., check)) => {
                check.push(raw, line, ahead);
                true
            }
            None => false,
        }
    }

    /// Ends the run at hand: its last record was taken.
    pub(super) fn close(&mut self) {
        let Some((line, check)) = self.current.take() else { return };
        if check.count() == 0 {
            let pinned = check.pinned();
            self.findings.push(if pinned.is_empty() {
                let detail = "a run without any record, which the log does not know either";
                Finding::new(FindingKind::Malformed, detail).in_run(&line.run)
            } else {
                pinned.deleted("the export holds no record of it")
            });
            return;
        }
        let result = check.finish();
        self.unpinned += u64::from(result.unpinned > 0);
        self.signed += result.signed;
        self.steps.add(result.steps);
        self.findings.extend(result.findings);
        self.gaps.extend(result.gaps);
    }

    /// Gives up the run at hand: the file was cut inside it, which says nothing about the run.
    pub(super) fn abandon(&mut self) {
        if let Some((line, ..)) = self.current.take() {
            self.gaps.push(NotChecked::gap(format!("run {}", line.run), "the export is cut short inside it"));
        }
    }

    /// Names the runs of the log that no block was about. `unreadable` ones are not checked, all others
    /// are findings of `kind`.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub(super) fn missing(
        &mut self,
        entries: &dyn RunEntries,
        unreadable: &HashSet<&str>,
        finding: impl Fn(&Pinned) -> Finding,
    ) -> Result<(), HistoryError> {
        self.seen.sort_unstable();
        if let Some(pair) = self.seen.windows(2).find(|pair| pair[0] == pair[1]) {
            let marks = entries.marks(pair[0])?;
            let entry = marks.first().map(|mark| entries.entry(mark.index())).transpose()?.flatten();
            let found = Finding::new(FindingKind::Malformed, "a run has more than one block");
            self.findings.push(match entry.and_then(|entry| judge::name_of(&entry)) {
                Some((_, run)) => found.in_run(&run),
                None => found,
            });
        }
        let mut named = 0;
        entries.for_each_run(&mut |hash, marks| {
            if self.seen.binary_search(&hash).is_ok() || named > MISSING_MAX {
                return Ok(());
            }
            let mut names: Vec<(TenantId, RunId)> = Vec::new();
            for mark in marks {
                let entry = entries.entry(mark.index())?;
                match entry.and_then(|entry| judge::name_of(&entry)) {
                    Some(name) if !names.contains(&name) => names.push(name),
                    _ => {}
                }
            }
            for (tenant, run) in names.iter().filter(|(tenant, _)| *tenant == self.tenant) {
                if unreadable.contains(run.as_str()) {
                    continue;
                }
                named += 1;
                let Some((pinned, _)) = entries.pinned(tenant, run, self.end)? else { continue };
                if pinned.is_empty() {
                    let why = "it entered the log after the export was taken";
                    self.gaps.push(NotChecked::gap(format!("run {run}"), why));
                } else {
                    self.findings.push(finding(&pinned));
                }
            }
            Ok(())
        })
    }
}

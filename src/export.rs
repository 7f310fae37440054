//! Exports: evidence on its way out, streamed from one snapshot, neither verified nor repaired.

use std::io::{self, Write};

use runseal_evidence::export::{
    self as lines, ExportEnd, ExportEntry, ExportHeader, ExportLine, ExportRecord, ExportRun, RunState,
    Unreadable,
};
use runseal_evidence::name::{RunId, TenantId};
use runseal_tlog::checkpoint::SignedCheckpoint;
use thiserror::Error;

use crate::chain::{self, StoredRecord};
use crate::log::{self, ProofError};
use crate::store::{Corruption, Direction, Fault, KeyRange, Read, Scanned, Scope, Space, StoreError, Table};

/// What an export came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExportSummary {
    /// Entry lines.
    pub entries: u64,
    /// Run lines.
    pub runs: u64,
    /// Record lines.
    pub records: u64,
    /// Runs that could not be read, with the reason. The export names them too.
    pub unreadable: Vec<(String, String)>,
}

/// Why an export ended early. It has no trailer then, and says so to whoever reads it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// There is nothing to hold the export against.
    #[error("the log has no checkpoint yet; take one first (`runseal checkpoint`)")]
    NoCheckpoint,
    /// A chosen run has no records.
    #[error("there is no run {run}")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// A line cannot be written.
    #[error(transparent)]
    Line(#[from] lines::ExportError),
    /// The receiver failed.
    #[error("the export cannot be written: {0}")]
    Io(#[from] io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Lines written at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Entries, runs or records read at once; records no more than a page of bytes.
const PAGE: usize = 1024;

pub(crate) fn write(
    rows: &dyn Read,
    tenant: &TenantId,
    scope: &Scope,
    checkpoint: &SignedCheckpoint,
    chosen: Option<&[RunId]>,
    out: &mut dyn Write,
) -> Result<ExportSummary, ExportError> {
    let said = checkpoint.checkpoint();
    let header =
        ExportHeader::new(tenant.clone(), said.origin(), chosen.is_none(), checkpoint.note().to_string());
    let mut export =
        Export { rows, scope, size: said.size(), out, buffer: Vec::new(), summary: ExportSummary::default() };
    match chosen {
        None => {
            export.line(&ExportLine::Header(header))?;
            export.all_entries()?;
            export.all_runs()?;
        }
        Some(runs) => {
            let mut runs = runs.to_vec();
            runs.sort_unstable();
            runs.dedup();
            let known = |run: &&RunId| export.holds(run).map(|holds| (!holds).then(|| (*run).clone()));
            let unknown = runs.iter().map(|run| known(&run)).find_map(Result::transpose).transpose()?;
            if let Some(run) = unknown {
                return Err(ExportError::UnknownRun { run });
            }
            export.line(&ExportLine::Header(header))?;
            export.chosen_entries(&runs)?;
            runs.iter().try_for_each(|run| export.run(run))?;
        }
    }
    export.end()
}

struct Export<'e> {
    rows: &'e dyn Read,
    scope: &'e Scope,
    /// Entries that the checkpoint covers.
    size: u64,
    out: &'e mut dyn Write,
    buffer: Vec<u8>,
    summary: ExportSummary,
}

impl Export<'_> {
    fn line(&mut self, line: &ExportLine) -> Result<(), ExportError> {
        line.write_to(&mut self.buffer)?;
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn all_entries(&mut self) -> Result<(), ExportError> {
        let mut from = 0;
        while from < self.size {
            let to = self.size.min(from + PAGE as u64);
            for (index, entry) in (from..).zip(log::entry_range(self.rows, self.scope, from, to)?) {
                self.entry(index, entry, None)?;
            }
            from = to;
        }
        Ok(())
    }

    /// The entries of the chosen runs in index order, each with its inclusion proof.
    fn chosen_entries(&mut self, runs: &[RunId]) -> Result<(), ExportError> {
        let mut indexes = Vec::new();
        for run in runs {
            indexes.extend(chain::heads(self.rows, self.scope, run, self.size)?);
            indexes.extend(self.seal_of(run)?);
        }
        indexes.sort_unstable();
        for index in indexes {
            let missing = || Corruption::in_scope(self.scope, "entry", Fault::Missing).at(index);
            let entry =
                log::entry(self.rows, self.scope, index)?.ok_or_else(missing).map_err(StoreError::from)?;
            let proof =
                log::inclusion(self.rows, self.scope, index, self.size).map_err(|error| match error {
                    ProofError::Store(error) => error,
                    other => {
                        let fault = Fault::contradiction(
                            "an entry of the run",
                            other.to_string(),
                            "within the checkpoint",
                        );
                        Corruption::in_scope(self.scope, "entry", fault).at(index).into()
                    }
                })?;
            self.entry(index, entry, Some(proof.iter().map(|hash| *hash.as_bytes()).collect()))?;
        }
        Ok(())
    }

    fn entry(&mut self, index: u64, entry: Vec<u8>, proof: Option<Vec<[u8; 32]>>) -> Result<(), ExportError> {
        self.summary.entries += 1;
        self.line(&ExportLine::Entry(ExportEntry::new(index, entry, proof)?))
    }

    /// Every run that has a row or a record, by name as stored.
    fn all_runs(&mut self) -> Result<(), ExportError> {
        let mut last: Option<Vec<u8>> = None;
        loop {
            let in_rows = self.next_name(Table::Runs, last.as_deref())?;
            let in_records = self.next_name(Table::Records, last.as_deref())?;
            let Some(name) = [in_rows, in_records].into_iter().flatten().min() else { return Ok(()) };
            let text = String::from_utf8_lossy(&name).into_owned();
            match RunId::new(text.as_str()) {
                Ok(run) => self.run(&run)?,
                Err(error) => self.summary.unreadable.push((text, error.to_string())),
            }
            last = Some(name);
        }
    }

    /// The run whose name comes next in a table whose keys start with it.
    fn next_name(&self, table: Table, last: Option<&[u8]>) -> Result<Option<Vec<u8>>, StoreError> {
        let space = Space::of(self.scope, table);
        // Names hold no byte below `-`, so every row of a run sorts below its name and a one.
        let range: KeyRange = match last {
            None => space.all(),
            Some(last) => space.all().from(space.key(&[last, &[1]])),
        };
        let mut next = None;
        self.rows.scan(&range, Direction::Ascending, &mut |key, _| {
            let own = space.own(key);
            next = Some(own.split(|byte| *byte == 0).next().unwrap_or_default().to_vec());
            Scanned::Break(())
        })?;
        Ok(next)
    }

    fn holds(&self, run: &RunId) -> Result<bool, StoreError> {
        if self.rows.get(&Space::of(self.scope, Table::Runs).key(&[run.as_str().as_bytes()]))?.is_some() {
            return Ok(true);
        }
        let records = chain::records(self.scope).starting_with(&[run.as_str().as_bytes(), &[0]]);
        let mut found = false;
        self.rows.scan(&records, Direction::Ascending, &mut |_, _| {
            found = true;
            Scanned::Break(())
        })?;
        Ok(found)
    }

    /// The log index of a run's seal, if the checkpoint covers it. A run row that cannot be read has none;
    /// [`Export::run`] reports it.
    fn seal_of(&self, run: &RunId) -> Result<Option<u64>, StoreError> {
        match chain::run_row(self.rows, self.scope, run) {
            Ok(row) => Ok(row.and_then(|row| row.seal).filter(|index| *index < self.size)),
            Err(StoreError::Corrupt(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One run and its records. Damage to its rows ends the run, not the export.
    fn run(&mut self, run: &RunId) -> Result<(), ExportError> {
        if let Err(error) = chain::run_row(self.rows, self.scope, run) {
            return self.unreadable(run, error.into());
        }
        let index = self.seal_of(run)?;
        let state = if index.is_some() { RunState::Sealed } else { RunState::Open };
        self.summary.runs += 1;
        self.line(&ExportLine::Run(ExportRun { run: run.clone(), state, index }))?;
        match self.records(run) {
            Ok(()) => Ok(()),
            Err(error) => self.unreadable(run, error),
        }
    }

    fn records(&mut self, run: &RunId) -> Result<(), ExportError> {
        let mut from = 0;
        loop {
            let page = chain::read_rows(self.rows, self.scope, run, from, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            from = last.saturating_add(1);
            for (seq, row) in page {
                let StoredRecord { seq, raw, prev, hash, signature } = row.into_stored(seq);
                let line = ExportLine::Record(ExportRecord::new(seq, raw, prev, hash, signature)?);
                self.line(&line)?;
                self.summary.records += 1;
            }
        }
    }

    /// Names a run that cannot be read, unless it is the store or the receiver that fails.
    fn unreadable(&mut self, run: &RunId, error: ExportError) -> Result<(), ExportError> {
        match &error {
            ExportError::Line(_) | ExportError::Store(StoreError::Corrupt(_)) => {
                self.summary.unreadable.push((run.to_string(), error.to_string()));
                Ok(())
            }
            _ => Err(error),
        }
    }

    fn end(mut self) -> Result<ExportSummary, ExportError> {
        let ExportSummary { entries, runs, records, .. } = self.summary;
        let name = |(run, reason): &(String, String)| Unreadable { run: run.clone(), reason: reason.clone() };
        let unreadable = self.summary.unreadable.iter().map(name).collect();
        self.line(&ExportLine::End(ExportEnd { entries, runs, records, unreadable }))?;
        self.flush()?;
        self.out.flush()?;
        Ok(self.summary)
    }
}

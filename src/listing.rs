//! Runs and records as commands and the server list them.

use runseal_evidence::{
    export::{ExportError, ExportLine, ExportRecord, RunState},
    name::{Outcome, RunId},
    timestamp::Timestamp,
};
use serde::Serialize;
use thiserror::Error;

use crate::{ReadError, RunSummary, StoreError, StoredRecord, Tenant};

/// A line of `runseal runs --json` and an element of `/audit/<tenant>/runs`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RunLine {
    /// The run.
    pub run: RunId,
    /// Whether it is sealed.
    pub state: RunState,
    /// How many records it has.
    pub records: u64,
    /// The outcome of its last conclusion.
    pub outcome: Option<Outcome>,
    /// The log index of its seal.
    pub index: Option<u64>,
    /// When its last record was appended: RFC 3339 in UTC.
    pub updated: String,
}

impl From<&RunSummary> for RunLine {
    fn from(summary: &RunSummary) -> Self {
        let RunSummary { run, state, records, outcome, index, updated_ms, .. } = summary.clone();
        // Every instant a record can bear has a spelling; one beyond is shown as it is stored.
        let updated = Timestamp::from_posix_ms(updated_ms);
        let updated = updated.map_or_else(|_| format!("{updated_ms} ms"), |instant| instant.to_string());
        Self { run, state, records, outcome, index, updated }
    }
}

/// Why records cannot be shown.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// They cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A stored record cannot stand in a line.
    #[error(transparent)]
    Line(#[from] ExportError),
}

impl From<StoreError> for RecordsError {
    fn from(error: StoreError) -> Self {
        Self::Read(error.into())
    }
}

/// Most records in a page; a page of bytes ends it before.
const PAGE_RECORDS: usize = 256;

/// A run's records as export lines, page by page, as they are stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordPages {
    run: RunId,
    /// The next record; `None` once there are no more.
    next: Option<u64>,
}

impl RecordPages {
    /// The records of `run` from the first on.
    pub const fn of(run: RunId) -> Self {
        Self { run, next: Some(1) }
    }

    /// The next lines; `None` after the last.
    ///
    /// # Errors
    /// [`RecordsError`]; [`ReadError::UnknownRun`] where the tenant has no such run.
    pub fn next_page(&mut self, tenant: &Tenant) -> Result<Option<Vec<u8>>, RecordsError> {
        let Some(from) = self.next else { return Ok(None) };
        let page = tenant.read_unverified(&self.run, from, PAGE_RECORDS)?;
        self.next = page.last().and_then(|record| record.seq.checked_add(1));
        let mut lines = Vec::new();
        for StoredRecord { seq, raw, prev, hash, signature } in page {
            ExportLine::Record(ExportRecord::new(seq, raw, prev, hash, signature)?).write_to(&mut lines)?;
        }
        Ok(self.next.map(|_| lines))
    }
}

//! Reading records: verified before they are parsed, or exactly as stored.

use runseal_evidence::chain::{ChainFault, ChainHash};
use runseal_evidence::name::{RunId, TenantId};
use runseal_evidence::record::{RECORD_BYTES_MAX, RecordView};
use runseal_evidence::signature::RecordSignature;
use thiserror::Error;

use super::record_row::{RecordRow, RecordRowView, record_key, records};
use super::run::run_row;
use crate::store::{Corruption, Direction, Fault, Read, Scanned, Scope, StoreError};

/// Most bytes of rows that one page holds, whatever its limit of rows. The first row of a page always fits.
pub const PAGE_BYTES_MAX: usize = 16 << 20;
const _: () = assert!(PAGE_BYTES_MAX > RECORD_BYTES_MAX);

/// A record with its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its number, from 1.
    pub seq: u64,
    /// Its wire bytes, as written.
    pub raw: Vec<u8>,
    /// The chain hash before it, or the genesis.
    pub prev: ChainHash,
    /// Its chain hash.
    pub hash: ChainHash,
    /// Its signature, where it has one.
    pub signature: Option<RecordSignature>,
}

/// Why records are not read.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The run has no records.
    #[error("there is no run {run}")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// A verified record does not have the shape that the caller's upcaster knows. Skew between builds; the
    /// record is sound.
    #[error("record {seq} of run {run} is sound, but not of a shape that this build knows: {reason}")]
    Shape {
        /// The run.
        run: RunId,
        /// The record's number.
        seq: u64,
        /// What the upcaster says.
        reason: String,
    },
    /// The store failed, or a row is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<'a> RecordRowView<'a> {
    /// Checks the row as record `seq` of `run`: hash first, then the bytes, then the place. `before` is the
    /// hash of the record before it, where that is known.
    pub(crate) fn verify(
        &self,
        scope: &Scope,
        run: &RunId,
        seq: u64,
        before: Option<ChainHash>,
    ) -> Result<RecordView<'a>, StoreError> {
        let corrupt =
            |fault: Fault| StoreError::from(Corruption::in_scope(scope, "record", fault).of_run(run).at(seq));
        let computed = self.prev.link(self.raw);
        if computed != self.hash {
            return Err(corrupt(Fault::Hash { computed, stored: self.hash }));
        }
        if let Some(expected) = before.filter(|before| *before != self.prev) {
            return Err(corrupt(Fault::Link { expected, found: self.prev }));
        }
        let record = RecordView::parse(self.raw).map_err(|error| corrupt(error.into()))?;
        let fault = if Some(record.tenant()) != scope.tenant().map(TenantId::as_str) {
            let expected = scope.tenant().cloned().unwrap_or_default();
            let found = record.to_record().stamp.tenant;
            Some(ChainFault::WrongTenant { seq, expected, found })
        } else if record.run() != run.as_str() {
            let found = record.to_record().stamp.run;
            Some(ChainFault::WrongRun { seq, expected: run.clone(), found })
        } else if record.seq() != seq {
            Some(ChainFault::Gap { expected: seq, found: record.seq() })
        } else {
            None
        };
        fault.map_or(Ok(record), |fault| Err(corrupt(fault.into())))
    }
}

impl RecordRow {
    /// Checks the row as [`RecordRowView::verify`] does.
    pub(crate) fn verify(
        &self,
        scope: &Scope,
        run: &RunId,
        seq: u64,
        before: Option<ChainHash>,
    ) -> Result<RecordView<'_>, StoreError> {
        let Self { prev, hash, signature, raw } = self;
        let view = RecordRowView { prev: *prev, hash: *hash, signature: *signature, raw };
        view.verify(scope, run, seq, before)
    }

    /// The record as callers see it.
    pub(crate) fn into_stored(self, seq: u64) -> StoredRecord {
        let Self { prev, hash, signature, raw } = self;
        StoredRecord { seq, raw, prev, hash, signature }
    }
}

/// The row of one record.
pub(crate) fn read_row(
    rows: &dyn Read,
    scope: &Scope,
    run: &RunId,
    seq: u64,
) -> Result<RecordRow, StoreError> {
    let corrupt = |fault: Fault| Corruption::in_scope(scope, "record", fault).of_run(run).at(seq);
    let bytes = rows.get(&record_key(scope, run, seq))?.ok_or_else(|| corrupt(Fault::Missing))?;
    Ok(RecordRow::decode(&bytes).map_err(|fault| corrupt(fault.into()))?)
}

/// Up to `limit` rows from record `from` on, as stored, a page of at most [`PAGE_BYTES_MAX`].
///
/// Nothing but the shape of each row is checked. Rows come in the order of their numbers, which may have
/// gaps where rows were deleted.
pub(crate) fn read_rows(
    rows: &dyn Read,
    scope: &Scope,
    run: &RunId,
    from: u64,
    limit: usize,
) -> Result<Vec<(u64, RecordRow)>, StoreError> {
    let all = records(scope).starting_with(&[run.as_str().as_bytes(), &[0]]);
    let mut page = Vec::new();
    let mut bytes = 0;
    let mut failed = None;
    if limit == 0 {
        return Ok(page);
    }
    rows.scan(&all.from(record_key(scope, run, from)), Direction::Ascending, &mut |key, value| {
        let seq = key.last_chunk::<8>().map_or(0, |seq| u64::from_be_bytes(*seq));
        bytes += value.len();
        if !page.is_empty() && bytes > PAGE_BYTES_MAX {
            return Scanned::Break(());
        }
        match RecordRow::decode(value) {
            Ok(row) => page.push((seq, row)),
            Err(fault) => failed = Some(Corruption::in_scope(scope, "record", fault).of_run(run).at(seq)),
        }
        if failed.is_some() || page.len() == limit { Scanned::Break(()) } else { Scanned::Continue(()) }
    })?;
    failed.map_or(Ok(page), |corruption| Err(corruption.into()))
}

/// Up to `limit` records from `from` (at least 1) on, each verified and held against the one before it, and
/// the last of the run against the run's row.
pub(crate) fn read(
    rows: &dyn Read,
    scope: &Scope,
    run: &RunId,
    from: u64,
    limit: usize,
) -> Result<Vec<StoredRecord>, ReadError> {
    let known = run_row(rows, scope, run)?.ok_or_else(|| ReadError::UnknownRun { run: run.clone() })?;
    let from = from.max(1);
    let page = read_rows(rows, scope, run, from, limit)?;
    let corrupt = |seq, fault| Corruption::in_scope(scope, "record", fault).of_run(run).at(seq);
    let mut before = match (from, scope.tenant()) {
        (1, Some(tenant)) => Some(ChainHash::genesis(tenant, run)),
        _ if page.is_empty() => None,
        _ => Some(read_row(rows, scope, run, from - 1)?.hash),
    };
    let mut found = Vec::with_capacity(page.len());
    let mut expected = from;
    for (seq, row) in page {
        if seq != expected {
            return Err(StoreError::from(corrupt(expected, Fault::Missing)).into());
        }
        if seq > known.records {
            return Err(StoreError::from(corrupt(seq, Fault::Unaccounted)).into());
        }
        row.verify(scope, run, seq, before)?;
        if seq == known.records && row.hash != known.chain {
            let fault = Fault::contradiction("the run's chain", known.chain, row.hash);
            return Err(StoreError::from(corrupt(seq, fault)).into());
        }
        before = Some(row.hash);
        expected = expected.saturating_add(1);
        found.push(row.into_stored(seq));
    }
    if found.is_empty() && limit > 0 && from <= known.records {
        return Err(StoreError::from(corrupt(from, Fault::Missing)).into());
    }
    Ok(found)
}

//! Sealing: a concluded run is frozen and enters its tenant's log, in one transaction.

use runseal_evidence::chain::ChainHash;
use runseal_evidence::entry::{Entry, RecordCount, Seal};
use runseal_evidence::name::{Outcome, RunId};
use thiserror::Error;

use super::append::Writer;
use super::lease::{Fence, LeaseError, fence, free};
use super::run::{RunRow, run_row};
use super::verified::Verified;
use crate::index;
use crate::log;
use crate::store::{Corruption, Fault, Overlay, Scope, StoreError};

/// A frozen run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The run.
    pub run: RunId,
    /// How it ended, by its last record.
    pub outcome: Outcome,
    /// The hash of that record.
    pub chain: ChainHash,
    /// How many records it has.
    pub records: u64,
    /// Where its seal stands in the tenant's log.
    pub index: u64,
}

/// Why a run is not sealed. Nothing was changed.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum SealError {
    /// The run has no records.
    #[error("there is no run {run}")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// Another epoch is current.
    #[error("run {run} is at epoch {current}; the caller seals with epoch {held}")]
    Fenced {
        /// The run.
        run: RunId,
        /// The epoch the caller named.
        held: u64,
        /// The epoch that may write.
        current: u64,
    },
    /// The run is not leased.
    #[error("run {run} is not leased with epoch {epoch}; acquire it first")]
    LeaseNotHeld {
        /// The run.
        run: RunId,
        /// The epoch the caller named.
        epoch: u64,
    },
    /// The last record is no conclusion: a seal takes its outcome from there.
    #[error("run {run} has not concluded: its last record, {seq}, is not RunConcluded")]
    NotConcluded {
        /// The run.
        run: RunId,
        /// The number of its last record.
        seq: u64,
    },
    /// The run has more records than an entry can count.
    #[error("run {run} has {records} records, more than a log entry can count")]
    TooManyRecords {
        /// The run.
        run: RunId,
        /// How many it has.
        records: u64,
    },
    /// The lease that this call takes by itself was not given.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Seals `run` under `epoch`, or answers the seal that it has. `verified` is how much of its chain the caller
/// has walked already.
pub(crate) fn seal(
    tx: &mut Overlay<'_>,
    writer: Writer<'_>,
    run: &RunId,
    epoch: u64,
    verified: Verified,
) -> Result<Sealed, SealError> {
    let Writer { tenant, scope, .. } = writer;
    let before = run_row(tx, scope, run)?.ok_or_else(|| SealError::UnknownRun { run: run.clone() })?;
    match fence(tx, scope, run, Some(&before), epoch)? {
        Ok(()) => {}
        Err(Fence::Fenced { held, current }) => {
            return Err(SealError::Fenced { run: run.clone(), held, current });
        }
        Err(Fence::NotHeld) => return Err(SealError::LeaseNotHeld { run: run.clone(), epoch }),
    }
    if let Some(sealed) = sealed(run, &before) {
        return Ok(sealed);
    }
    let outcome = conclusion(tx, scope, run, &before, verified)?;
    let records = RecordCount::new(before.records)
        .ok_or_else(|| SealError::TooManyRecords { run: run.clone(), records: before.records })?;
    let entry = Entry::Seal(Seal {
        chain: before.chain,
        outcome: outcome.clone(),
        records,
        run: run.clone(),
        tenant: tenant.clone(),
    });
    let index = log::append_entry(tx, scope, &entry.encode())?;
    let after = RunRow { seal: Some(index), pinned: before.records, ..before };
    free(tx, scope, run)?;
    index::unpin(tx, scope, run);
    index::put_run(tx, scope, run, &after);
    Ok(Sealed { run: run.clone(), outcome, chain: after.chain, records: after.records, index })
}

/// The seal that a run has.
pub(crate) fn sealed(run: &RunId, row: &RunRow) -> Option<Sealed> {
    let (index, outcome) = (row.seal?, row.sealed_as()?.clone());
    Some(Sealed { run: run.clone(), outcome, chain: row.chain, records: row.records, index })
}

/// The outcome that the last record concludes the run with.
///
/// The records beyond what the caller has walked are walked here, so that no seal attests to a chain that
/// nobody has looked at since it was written, and none rests on an index.
fn conclusion(
    tx: &Overlay<'_>,
    scope: &Scope,
    run: &RunId,
    row: &RunRow,
    mut verified: Verified,
) -> Result<Outcome, SealError> {
    verified.walk(tx, scope, run, row.records)?;
    if (verified.records, verified.chain) != (row.records, row.chain) {
        let (stored, walked) = ((row.records, row.chain), (verified.records, verified.chain));
        let fault = Fault::contradiction("the run's chain", stored, walked);
        return Err(StoreError::from(Corruption::in_scope(scope, "run row", fault).of_run(run)).into());
    }
    verified.outcome.ok_or_else(|| SealError::NotConcluded { run: run.clone(), seq: row.records })
}

//! Requests to stop a run: beside the chain, open to anybody, the first asker stays.

use runseal_evidence::name::{Outcome, RunId};
use thiserror::Error;

use crate::chain::run_row;
use crate::store::row::{RowReader, RowWriter};
use crate::store::{Corruption, Overlay, Read, RowFault, Scope, Space, StoreError, Table};

/// Most bytes of each of actor, basis and reason.
pub const CANCELLATION_TEXT_BYTES_MAX: usize = 1024;

/// Who asked for a run to stop, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancellation {
    /// Who asked.
    pub actor: String,
    /// What established who they are: a token, the local file, …
    pub basis: String,
    /// Why.
    pub reason: String,
    /// When, in milliseconds since 1970. Set by the store.
    pub requested_ms: i64,
}

/// Why a request is not taken.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum CancelError {
    /// The run has no records.
    #[error("there is no run {run}")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// The run is frozen: there is nothing left to stop.
    #[error("run {run} is sealed ({outcome})")]
    RunSealed {
        /// The run.
        run: RunId,
        /// How it ended.
        outcome: Outcome,
    },
    /// Nobody asked.
    #[error("the actor is blank; name who asks")]
    BlankActor,
    /// A text is too long.
    #[error("{field} has {bytes} bytes, more than the {CANCELLATION_TEXT_BYTES_MAX} allowed")]
    TooLong {
        /// Which.
        field: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Notes a request, unless there is one. Answers whether this is the one noted.
pub(crate) fn request(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    run: &RunId,
    request: &Cancellation,
) -> Result<bool, CancelError> {
    let Cancellation { actor, basis, reason, requested_ms } = request;
    if actor.trim().is_empty() {
        return Err(CancelError::BlankActor);
    }
    for (field, text) in [("actor", actor), ("basis", basis), ("reason", reason)] {
        if text.len() > CANCELLATION_TEXT_BYTES_MAX {
            return Err(CancelError::TooLong { field, bytes: text.len() });
        }
    }
    let row = run_row(tx, scope, run)?.ok_or_else(|| CancelError::UnknownRun { run: run.clone() })?;
    if let Some(outcome) = row.sealed_as() {
        return Err(CancelError::RunSealed { run: run.clone(), outcome: outcome.clone() });
    }
    if requested(tx, scope, run)?.is_some() {
        return Ok(false);
    }
    let mut value = RowWriter::default();
    value.i64(*requested_ms).counted(actor.as_bytes()).counted(basis.as_bytes()).counted(reason.as_bytes());
    tx.put(Space::of(scope, Table::Cancellations).key(&[run.as_str().as_bytes()]), value.finish());
    Ok(true)
}

/// The request noted for a run.
pub(crate) fn requested(
    rows: &dyn Read,
    scope: &Scope,
    run: &RunId,
) -> Result<Option<Cancellation>, StoreError> {
    let Some(bytes) = rows.get(&Space::of(scope, Table::Cancellations).key(&[run.as_str().as_bytes()]))?
    else {
        return Ok(None);
    };
    let read = || {
        let mut row = RowReader::new(&bytes);
        let requested_ms = row.i64("time")?;
        let mut text = |field| row.text(field).map(str::to_owned);
        let (actor, basis, reason) = (text("actor")?, text("basis")?, text("reason")?);
        row.end()?;
        Ok::<_, RowFault>(Cancellation { actor, basis, reason, requested_ms })
    };
    Ok(Some(read().map_err(|fault| Corruption::in_scope(scope, "cancellation", fault).of_run(run))?))
}

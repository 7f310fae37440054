//! Offline proof of one sealed run.

use runseal_evidence::name::RunId;
use runseal_tlog::checkpoint::SignedCheckpoint;
use runseal_tlog::proof::TlogProof;
use thiserror::Error;

use super::tree::{ProofError, entry, inclusion};
use crate::chain::run_row;
use crate::store::{Corruption, Fault, Read, Scope, StoreError};

/// Why there is no proof of a run.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ProveError {
    /// The run has no records.
    #[error("there is no run {run}")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// The run is open.
    #[error("run {run} is not sealed; only a sealed run can be proven")]
    NotSealed {
        /// The run.
        run: RunId,
    },
    /// No checkpoint covers the seal yet.
    #[error(
        "run {run} is entry {index} of the log, and the last checkpoint covers {size}; take a checkpoint first"
    )]
    NotCovered {
        /// The run.
        run: RunId,
        /// The index of its seal.
        index: u64,
        /// The size of the last checkpoint, 0 where there is none.
        size: u64,
    },
    /// The store failed, or a row is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The proof of the seal of `run` against `checkpoint`; its extra data is the entry.
pub(crate) fn proof_of(
    rows: &dyn Read,
    scope: &Scope,
    run: &RunId,
    checkpoint: Option<SignedCheckpoint>,
) -> Result<TlogProof, ProveError> {
    let row = run_row(rows, scope, run)?.ok_or_else(|| ProveError::UnknownRun { run: run.clone() })?;
    let index = row.seal.ok_or_else(|| ProveError::NotSealed { run: run.clone() })?;
    let size = checkpoint.as_ref().map_or(0, |signed| signed.checkpoint().size());
    let Some(signed) = checkpoint.filter(|_| index < size) else {
        return Err(ProveError::NotCovered { run: run.clone(), index, size });
    };
    let missing =
        || StoreError::from(Corruption::in_scope(scope, "entry", Fault::Missing).of_run(run).at(index));
    let extra = entry(rows, scope, index)?.ok_or_else(missing)?;
    let hashes = inclusion(rows, scope, index, size).map_err(|error| match error {
        ProofError::Store(error) => error,
        other => {
            let fault = Fault::contradiction("the checkpoint's size", size, other.to_string());
            Corruption::in_scope(scope, "checkpoint", fault).into()
        }
    })?;
    Ok(TlogProof { extra: Some(extra), index, hashes, note: signed.note().clone() })
}

//! Appending: whole batches, in order, once.

use runseal_evidence::chain::ChainHash;
use runseal_evidence::name::{EffectKey, Outcome, RunId, TenantId};
use runseal_evidence::payload::PayloadError;
use runseal_evidence::record::{RecordDraft, RecordError, Stamp};
use runseal_evidence::signature::RecordSigner;
use runseal_evidence::timestamp::{Timestamp, TimestampError};
use thiserror::Error;

use super::extension::Extension;
use super::lease::{Fence, LeaseError, fence};
use super::run::{RunRow, run_row};
use super::seal::SealError;
use crate::store::{Overlay, Scope, StoreError};

/// Where a record went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Its number in the run, from 1.
    pub seq: u64,
    /// Its chain hash.
    pub hash: ChainHash,
}

/// Why a batch is not appended. Nothing of it was; every claim it would have made is free.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Another epoch is current: the caller's lease was taken over, or never given.
    #[error("run {run} is at epoch {current}; the caller writes with epoch {held}")]
    Fenced {
        /// The run.
        run: RunId,
        /// The epoch the caller named.
        held: u64,
        /// The epoch that may write.
        current: u64,
    },
    /// The run is not leased: nobody claimed it, or the lease was returned.
    #[error("run {run} is not leased with epoch {epoch}; acquire it first")]
    LeaseNotHeld {
        /// The run.
        run: RunId,
        /// The epoch the caller named.
        epoch: u64,
    },
    /// The run is frozen.
    #[error("run {run} is sealed ({outcome})")]
    RunSealed {
        /// The run.
        run: RunId,
        /// How it ended.
        outcome: Outcome,
    },
    /// The effect was started before in this run. A retry is a new effect.
    #[error("effect {effect} was started before, as record {seq} of run {run}")]
    DuplicateEffect {
        /// The run.
        run: RunId,
        /// The effect.
        effect: EffectKey,
        /// The record that started it.
        seq: u64,
    },
    /// The admission key has admitted a run before.
    #[error("admission key {key:?} has admitted run {holder} before")]
    DuplicateAdmission {
        /// The key.
        key: String,
        /// The run it admitted.
        holder: RunId,
    },
    /// The run was admitted under another key before; a run has one.
    #[error("run {run} was admitted before; a run has one admission key")]
    AdmittedBefore {
        /// The run.
        run: RunId,
    },
    /// The record is too long. Refused, never cut.
    #[error("record {seq} has {bytes} bytes, more than the {limit} allowed")]
    RecordTooLarge {
        /// The number it would have had.
        seq: u64,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The payload does not fit its kind.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// The run exists, where one was to be made.
    #[error("run {run} exists; a run is imported once and never merged")]
    RunExists {
        /// The run.
        run: RunId,
    },
    /// The clock shows a time that no record can bear.
    #[error("the clock is wrong: {0}")]
    Clock(#[from] TimestampError),
    /// The lease that this call takes by itself was not given.
    #[error(transparent)]
    Lease(LeaseError),
    /// The seal that this call makes by itself was not.
    #[error(transparent)]
    Seal(Box<SealError>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<LeaseError> for AppendError {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::RunSealed { run, outcome } => Self::RunSealed { run, outcome },
            LeaseError::Store(error) => Self::Store(error),
            other => Self::Lease(other),
        }
    }
}

impl From<SealError> for AppendError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Store(error) => Self::Store(error),
            other => Self::Seal(Box::new(other)),
        }
    }
}

/// Who appends: the tenant, and the key that signs its records.
#[derive(Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) scope: &'a Scope,
    pub(crate) signer: Option<&'a RecordSigner>,
    pub(crate) now_ms: i64,
}

/// Appends `drafts` to `run` under `epoch`. An empty batch changes and asks nothing.
pub(crate) fn append(
    tx: &mut Overlay<'_>,
    writer: Writer<'_>,
    run: &RunId,
    epoch: u64,
    drafts: &[RecordDraft],
) -> Result<Vec<Appended>, AppendError> {
    let Writer { tenant, scope, signer, now_ms } = writer;
    if drafts.is_empty() {
        return Ok(Vec::new());
    }
    let before = run_row(tx, scope, run)?;
    match fence(tx, scope, run, before.as_ref(), epoch)? {
        Ok(()) => {}
        Err(Fence::Fenced { held, current }) => {
            return Err(AppendError::Fenced { run: run.clone(), held, current });
        }
        Err(Fence::NotHeld) => return Err(AppendError::LeaseNotHeld { run: run.clone(), epoch }),
    }
    if let Some(outcome) = before.as_ref().and_then(RunRow::sealed_as) {
        return Err(AppendError::RunSealed { run: run.clone(), outcome: outcome.clone() });
    }
    let mut extension = Extension::of(tx, writer, run, before)?;
    let at = Timestamp::from_posix_ms(now_ms)?;
    let mut appended = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let seq = extension.next_seq();
        let stamp = Stamp { at, epoch, run: run.clone(), seq, tenant: tenant.clone() };
        let raw = draft.clone().stamp(stamp).to_wire().map_err(|error| too_large(seq, error))?;
        let sign = |hash: &ChainHash| signer.map(|signer| signer.sign(hash));
        appended.push(extension.put(tx, draft, raw, epoch, now_ms, sign)?);
    }
    extension.finish(tx)?;
    Ok(appended)
}

fn too_large(seq: u64, error: RecordError) -> AppendError {
    match error {
        RecordError::TooLarge { bytes, limit } => AppendError::RecordTooLarge { seq, bytes, limit },
        other => unreachable!("a stamped draft with a number from 1 on can only be too long: {other}"),
    }
}

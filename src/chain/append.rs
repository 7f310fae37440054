//! Appending: whole batches, in order, once.

use runseal_evidence::chain::ChainHash;
use runseal_evidence::name::{EffectKey, Outcome, RunId, TenantId};
use runseal_evidence::payload::{Meaning, PayloadError};
use runseal_evidence::record::{RecordDraft, RecordError, Stamp};
use runseal_evidence::signature::RecordSigner;
use runseal_evidence::timestamp::{Timestamp, TimestampError};
use thiserror::Error;

use super::lease::{Fence, LeaseError, fence};
use super::record_row::{RecordRow, record_key, records};
use super::run::{RunRow, run_row};
use super::seal::SealError;
use crate::index;
use crate::store::{
    Corruption, Direction, Fault, Overlay, Read, Scanned, Scope, Space, StoreError, Table, row,
};

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
    refuse_unaccounted_records(tx, scope, run, before.as_ref())?;
    let at = Timestamp::from_posix_ms(now_ms)?;
    let mut after = before.clone().unwrap_or_else(|| RunRow::new(ChainHash::genesis(tenant, run)));
    let mut appended = Vec::with_capacity(drafts.len());
    let mut change = index::Change::default();
    for draft in drafts {
        let seq = after.records + 1;
        let meaning = Meaning::of(&draft.kind, &draft.payload)?;
        if let (Meaning::EffectStarted, Some(effect)) = (&meaning, &draft.effect) {
            start_effect(tx, scope, run, effect, seq)?;
        }
        if let Meaning::RunAdmitted(admitted) = &meaning {
            index::admit(tx, scope, run, &mut after, admitted, now_ms)?;
        }
        if let Some(case) = &draft.case {
            index::add_to_case(tx, scope, case, run, seq);
        }
        let stamp = Stamp { at, epoch, run: run.clone(), seq, tenant: tenant.clone() };
        let raw = draft.clone().stamp(stamp).to_wire().map_err(|error| too_large(seq, error))?;
        let prev = after.chain;
        let hash = prev.link(&raw);
        let signature = signer.map(|signer| signer.sign(&hash));
        let row = RecordRow { prev, hash, signature, raw };
        tx.put(record_key(scope, run, seq), row.encode());
        after.records = seq;
        after.chain = hash;
        after.epoch = epoch;
        change.see(meaning);
        appended.push(Appended { seq, hash });
    }
    index::follow(tx, scope, run, before.as_ref(), &mut after, change, now_ms)?;
    Ok(appended)
}

/// Claims the one start that an effect has in a run.
fn start_effect(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    run: &RunId,
    effect: &EffectKey,
    seq: u64,
) -> Result<(), AppendError> {
    let effects = Space::of(scope, Table::Effects);
    let key = effects.key(&[run.as_str().as_bytes(), &[0], effect.as_str().as_bytes()]);
    if let Some(seq) = started(tx, scope, run, &key)? {
        return Err(AppendError::DuplicateEffect { run: run.clone(), effect: effect.clone(), seq });
    }
    tx.put(key, seq.to_be_bytes().to_vec());
    Ok(())
}

/// The record that started the effect filed at `key`.
fn started(rows: &dyn Read, scope: &Scope, run: &RunId, key: &[u8]) -> Result<Option<u64>, StoreError> {
    let Some(bytes) = rows.get(key)? else { return Ok(None) };
    let corrupt = |fault| Corruption::in_scope(scope, "started effect", fault).of_run(run);
    Ok(Some(row::read_u64(&bytes, "seq").map_err(corrupt)?))
}

/// Makes sure that nothing lies where the next record goes: a row of a run that lost its records count must
/// not be written over.
fn refuse_unaccounted_records(
    tx: &Overlay<'_>,
    scope: &Scope,
    run: &RunId,
    known: Option<&RunRow>,
) -> Result<(), StoreError> {
    let next = known.map_or(1, |row| row.records + 1);
    let all = records(scope).starting_with(&[run.as_str().as_bytes(), &[0]]);
    let mut found = None;
    tx.scan(&all.from(record_key(scope, run, next)), Direction::Ascending, &mut |key, _| {
        found = Some(key.last_chunk::<8>().map_or(0, |seq| u64::from_be_bytes(*seq)));
        Scanned::Break(())
    })?;
    match found {
        None => Ok(()),
        Some(seq) => {
            Err(Corruption::in_scope(scope, "record", Fault::Unaccounted).of_run(run).at(seq).into())
        }
    }
}

fn too_large(seq: u64, error: RecordError) -> AppendError {
    match error {
        RecordError::TooLarge { bytes, limit } => AppendError::RecordTooLarge { seq, bytes, limit },
        other => unreachable!("a stamped draft with a number from 1 on can only be too long: {other}"),
    }
}

//! A run being extended: records put one after the other, and in the end everything that follows from them.

use runseal_evidence::chain::ChainHash;
use runseal_evidence::name::{EffectKey, RunId};
use runseal_evidence::payload::Meaning;
use runseal_evidence::record::RecordDraft;
use runseal_evidence::signature::RecordSignature;

use super::append::{AppendError, Appended, Writer};
use super::record_row::{RecordRow, record_key, records};
use super::run::RunRow;
use crate::index::{self, Admitting};
use crate::store::{
    Corruption, Direction, Fault, Overlay, Read, Scanned, Scope, Space, StoreError, Table, row,
};

/// A run and the records that come to it in one transaction.
pub(crate) struct Extension<'a> {
    scope: &'a Scope,
    run: &'a RunId,
    before: Option<RunRow>,
    after: RunRow,
    change: index::Change,
    admitting: Admitting,
}

impl<'a> Extension<'a> {
    /// Takes up a run. One that lost its row is not taken for a new one.
    pub(crate) fn of(
        tx: &Overlay<'_>,
        writer: Writer<'a>,
        run: &'a RunId,
        before: Option<RunRow>,
    ) -> Result<Self, StoreError> {
        let Writer { tenant, scope, .. } = writer;
        if before.is_none() {
            refuse_unaccounted_records(tx, scope, run)?;
        }
        let after = before.clone().unwrap_or_else(|| RunRow::new(ChainHash::genesis(tenant, run)));
        Ok(Self { scope, run, before, after, change: index::Change::default(), admitting: Admitting::Now })
    }

    /// What is put was written before: its admission may have been followed by another with its key.
    pub(crate) fn restoring(self) -> Self {
        Self { admitting: Admitting::Restored, ..self }
    }

    /// The number of the next record.
    pub(crate) fn next_seq(&self) -> u64 {
        self.after.records + 1
    }

    /// The epoch of the last record.
    pub(crate) fn epoch(&self) -> u64 {
        self.after.epoch
    }

    /// Puts the next record, which `draft` has become as `raw`, and claims what only one record may claim.
    pub(crate) fn put(
        &mut self,
        tx: &mut Overlay<'_>,
        draft: &RecordDraft,
        raw: Vec<u8>,
        epoch: u64,
        at_ms: i64,
        sign: impl FnOnce(&ChainHash) -> Option<RecordSignature>,
    ) -> Result<Appended, AppendError> {
        let (scope, run, seq) = (self.scope, self.run, self.next_seq());
        let meaning = Meaning::of(&draft.kind, &draft.payload)?;
        if let (Meaning::EffectStarted, Some(effect)) = (&meaning, &draft.effect) {
            start_effect(tx, scope, run, effect, seq)?;
        }
        if let Meaning::RunAdmitted(admitted) = &meaning {
            index::admit(tx, scope, run, &mut self.after, admitted, at_ms, self.admitting)?;
        }
        if let Some(case) = &draft.case {
            index::add_to_case(tx, scope, case, run, seq);
        }
        let prev = self.after.chain;
        let hash = prev.link(&raw);
        let row = RecordRow { prev, hash, signature: sign(&hash), raw };
        put_record(tx, scope, run, seq, &row)?;
        self.after.records = seq;
        self.after.chain = hash;
        self.after.epoch = epoch;
        self.after.updated_ms = at_ms;
        self.change.see(meaning);
        Ok(Appended { seq, hash })
    }

    /// Brings the indexes and the run's row in step with the records that were put.
    pub(crate) fn finish(self, tx: &mut Overlay<'_>) -> Result<(), StoreError> {
        let Self { scope, run, before, mut after, change, .. } = self;
        index::follow(tx, scope, run, before.as_ref(), &mut after, change)
    }
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

/// Of a run that is not known there must be no record at all.
fn refuse_unaccounted_records(tx: &Overlay<'_>, scope: &Scope, run: &RunId) -> Result<(), StoreError> {
    let all = records(scope).starting_with(&[run.as_str().as_bytes(), &[0]]);
    let mut found = None;
    tx.scan(&all, Direction::Ascending, &mut |key, _| {
        found = Some(key.last_chunk::<8>().map_or(0, |seq| u64::from_be_bytes(*seq)));
        Scanned::Break(())
    })?;
    match found {
        None => Ok(()),
        Some(seq) => Err(unaccounted(scope, run, seq)),
    }
}

/// A record that lies where another is to go.
fn unaccounted(scope: &Scope, run: &RunId, seq: u64) -> StoreError {
    Corruption::in_scope(scope, "record", Fault::Unaccounted).of_run(run).at(seq).into()
}

/// Writes a record where there is none.
fn put_record(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    run: &RunId,
    seq: u64,
    row: &RecordRow,
) -> Result<(), StoreError> {
    let key = record_key(scope, run, seq);
    if tx.get(&key)?.is_some() {
        return Err(unaccounted(scope, run, seq));
    }
    tx.put(key, row.encode());
    Ok(())
}

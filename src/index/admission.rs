//! Admission keys: claimed by the record that admits the run, held until forgotten on purpose.

use runseal_evidence::name::RunId;
use runseal_evidence::payload::RunAdmitted;

use super::page::page;
use crate::chain::{AppendError, RunRow, stored_run};
use crate::store::key::{time_key, time_of_key};
use crate::store::row::{RowReader, RowWriter};
use crate::store::{Corruption, Direction, Fault, Overlay, Read, RowFault, Scope, Space, StoreError, Table};

/// Which run a key admitted, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The run.
    pub run: RunId,
    /// When, in milliseconds since 1970.
    pub admitted_ms: i64,
}

impl Admission {
    /// The value of the claim.
    pub(crate) fn encode(&self) -> Vec<u8> {
        RowWriter::default().i64(self.admitted_ms).counted(self.run.as_str().as_bytes()).finish()
    }

    /// Of the admissions by one key, the last holds it: the latest, and of those at one time the one whose run is
    /// called last.
    pub(crate) fn order(&self) -> (i64, &RunId) {
        (self.admitted_ms, &self.run)
    }
}

/// Whether an admission is one that happens now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admitting {
    /// It does, and whoever holds its key keeps it.
    Now,
    /// It happened before and is restored. Its key may have been forgotten and have admitted another run since: of
    /// all that are restored the last one holds it, in whatever order they come.
    Restored,
}

/// Claims the key of an admission, and takes note of its source; the first source stays.
pub(crate) fn admit(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    run: &RunId,
    row: &mut RunRow,
    admitted: &RunAdmitted,
    at_ms: i64,
    when: Admitting,
) -> Result<(), AppendError> {
    if row.source.is_none() {
        row.source.clone_from(&admitted.source);
    }
    let Some(key) = &admitted.admission_key else { return Ok(()) };
    let held = admitted_as(tx, scope, key)?;
    if when == Admitting::Now
        && let Some(Admission { run: holder, .. }) = held
    {
        return Err(AppendError::DuplicateAdmission { key: key.clone(), holder });
    }
    if row.admitted {
        return Err(AppendError::AdmittedBefore { run: run.clone() });
    }
    row.admitted = true;
    let this = Admission { run: run.clone(), admitted_ms: at_ms };
    if let Some(held) = held {
        if held.order() > this.order() {
            return Ok(());
        }
        tx.delete(age_key(scope, held.admitted_ms, key.as_bytes()));
    }
    tx.put(claim_key(scope, key.as_bytes()), this.encode());
    tx.put(age_key(scope, at_ms, key.as_bytes()), Vec::new());
    Ok(())
}

/// Where the claim of `key` is.
pub(crate) fn claim_key(scope: &Scope, key: &[u8]) -> Vec<u8> {
    Space::of(scope, Table::Admissions).key(&[key])
}

/// Where `key` is filed by its age.
pub(crate) fn age_key(scope: &Scope, admitted_ms: i64, key: &[u8]) -> Vec<u8> {
    Space::of(scope, Table::AdmissionsByAge).key(&[&time_key(admitted_ms), key])
}

/// Which run `key` admitted. The append that claims a key decides; this only says who did.
pub(crate) fn admitted_as(
    rows: &dyn Read,
    scope: &Scope,
    key: &str,
) -> Result<Option<Admission>, StoreError> {
    holder(rows, scope, key.as_bytes())
}

fn holder(rows: &dyn Read, scope: &Scope, key: &[u8]) -> Result<Option<Admission>, StoreError> {
    let Some(bytes) = rows.get(&claim_key(scope, key))? else { return Ok(None) };
    decode(scope, &bytes).map(Some)
}

pub(crate) fn decode(scope: &Scope, bytes: &[u8]) -> Result<Admission, StoreError> {
    let read = || {
        let mut row = RowReader::new(bytes);
        let admitted_ms = row.i64("time")?;
        let run = row.counted("run")?;
        row.end()?;
        Ok::<_, RowFault>((admitted_ms, run))
    };
    let (admitted_ms, run) = read().map_err(|fault| Corruption::in_scope(scope, "admission", fault))?;
    Ok(Admission { run: stored_run(scope, "admission", run)?, admitted_ms })
}

/// Forgets up to `limit` keys claimed before `cutoff_ms`, the oldest first, so that they may admit again.
/// The records stay. Answers how many.
pub(crate) fn forget(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    cutoff_ms: i64,
    limit: usize,
) -> Result<usize, StoreError> {
    let by_age = Space::of(scope, Table::AdmissionsByAge);
    let old = by_age.all().before(by_age.key(&[&time_key(cutoff_ms)]));
    let keys = page(tx, &old, Direction::Ascending, limit, |stored, _| {
        let fault = RowFault::Short("time");
        let corrupt = || Corruption::in_scope(scope, "admission by age", fault);
        let (time, key) = by_age.own(stored).split_first_chunk::<8>().ok_or_else(corrupt)?;
        Ok((time_of_key(*time), key.to_vec()))
    })?;
    for (time, key) in &keys {
        let held = holder(tx, scope, key)?;
        if held.is_none_or(|held| held.admitted_ms != *time) {
            // Whatever else the key is held by, it is not as old as this says.
            return Err(Corruption::in_scope(scope, "admission by age", Fault::Unaccounted).into());
        }
        tx.delete(age_key(scope, *time, key));
        tx.delete(claim_key(scope, key));
    }
    Ok(keys.len())
}

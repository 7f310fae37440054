//! Admission keys: claimed by the record that admits the run, held until forgotten on purpose.

use runseal_evidence::name::RunId;
use runseal_evidence::payload::RunAdmitted;

use super::page::page;
use crate::chain::{AppendError, RunRow, stored_run};
use crate::store::key::{time_key, time_of_key};
use crate::store::row::{RowReader, RowWriter};
use crate::store::{Corruption, Direction, Overlay, Read, RowFault, Scope, Space, StoreError, Table};

/// Which run a key admitted, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The run.
    pub run: RunId,
    /// When, in milliseconds since 1970.
    pub admitted_ms: i64,
}

/// Claims the key of an admission, and takes note of its source; the first source stays.
pub(crate) fn admit(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    run: &RunId,
    row: &mut RunRow,
    admitted: &RunAdmitted,
    now_ms: i64,
) -> Result<(), AppendError> {
    if row.source.is_none() {
        row.source.clone_from(&admitted.source);
    }
    let Some(key) = &admitted.admission_key else { return Ok(()) };
    if let Some(Admission { run: holder, .. }) = admitted_as(tx, scope, key)? {
        return Err(AppendError::DuplicateAdmission { key: key.clone(), holder });
    }
    if row.admitted {
        return Err(AppendError::AdmittedBefore { run: run.clone() });
    }
    row.admitted = true;
    let (claimed, value) = claim(scope, key, run, now_ms);
    tx.put(claimed, value);
    tx.put(Space::of(scope, Table::AdmissionsByAge).key(&[&time_key(now_ms), key.as_bytes()]), Vec::new());
    Ok(())
}

/// The row by which `run` holds `key`.
pub(crate) fn claim(scope: &Scope, key: &str, run: &RunId, admitted_ms: i64) -> (Vec<u8>, Vec<u8>) {
    let value = RowWriter::default().i64(admitted_ms).counted(run.as_str().as_bytes()).finish();
    (Space::of(scope, Table::Admissions).key(&[key.as_bytes()]), value)
}

/// Which run `key` admitted. The append that claims a key decides; this only says who did.
pub(crate) fn admitted_as(
    rows: &dyn Read,
    scope: &Scope,
    key: &str,
) -> Result<Option<Admission>, StoreError> {
    let Some(bytes) = rows.get(&Space::of(scope, Table::Admissions).key(&[key.as_bytes()]))? else {
        return Ok(None);
    };
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
        tx.delete(by_age.key(&[&time_key(*time), key]));
        tx.delete(Space::of(scope, Table::Admissions).key(&[key]));
    }
    Ok(keys.len())
}

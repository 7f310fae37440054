//! Claims of admission keys. Each follows from the record that admitted its holder, by that key and at that time;
//! but not every admission has a claim, since keys are forgotten.

use runseal_evidence::name::RunId;
use runseal_evidence::payload::Meaning;

use super::ledger::{Derived, Ledger, Mode};
use super::records::sound;
use super::rows::each;
use super::{Counts, Subject};
use crate::chain;
use crate::index::{Admission, admission};
use crate::store::key::time_key;
use crate::store::{Corruption, Direction, Fault, Read, Scanned, Scope, Space, StoreError, Table};

/// Takes account of a record that admitted the run of `this` by `key`. Whether it holds the key is for the claim to
/// say.
pub(super) fn admitted(ledger: &mut Ledger<'_>, key: &str, this: &Admission) -> Result<(), StoreError> {
    if matches!(ledger.mode, Mode::Write) {
        return make(ledger, key, this);
    }
    let (rows, scope) = (ledger.rows, ledger.scope);
    let corrupt = |fault| Err(Corruption::in_scope(scope, "admission", fault).of_run(&this.run).into());
    let held = admission::admitted_as(rows, scope, key)?;
    if let Some(held) = held.as_ref().filter(|held| held.run == this.run) {
        if held.admitted_ms != this.admitted_ms {
            return corrupt(Fault::contradiction("the time", held.admitted_ms, this.admitted_ms));
        }
        return ledger.expect(Derived::Admissions, &[key.as_bytes()], &this.encode(), &this.run);
    }
    // The sums say that the claim is lost, where its age is still known. This says whose it is.
    if matches!(ledger.mode, Mode::LookUp) && is_filed(rows, scope, key, this)? {
        let by_another = match &held {
            Some(held) => is_borne_out(rows, scope, key.as_bytes(), held)?,
            None => false,
        };
        if !by_another {
            return corrupt(Fault::Missing);
        }
    }
    Ok(())
}

/// Holds every claim against the admissions, and expects it to be filed by age.
pub(super) fn claims(
    of: Subject<'_>,
    ledger: &mut Ledger<'_>,
    counts: &mut Counts,
) -> Result<(), StoreError> {
    let space = Space::of(of.scope, Table::Admissions);
    each(of.rows, &space, &space.all(), |key, value| {
        counts.held += (key.len() + value.len()) as u64;
        let held = admission::decode(of.scope, value)?;
        ledger.found(Derived::Admissions, &[key], value);
        if matches!(ledger.mode, Mode::LookUp) && !is_borne_out(of.rows, of.scope, key, &held)? {
            let corruption = Corruption::in_scope(of.scope, "admission", Fault::Unaccounted);
            return Err(corruption.of_run(held.run).into());
        }
        ledger.expect(Derived::AdmissionsByAge, &[&time_key(held.admitted_ms), key], &[], &held.run)
    })
}

/// Gives a key that is held to the run of `this`, unless another admission has more of a right to it.
///
/// A claim shows that its key is held, whatever has become of what it says; so does the key's row by age. Of several
/// admissions, the one that is filed by age holds the key, and otherwise the last: so it does not matter in which
/// order they are met.
fn make(ledger: &mut Ledger<'_>, key: &str, this: &Admission) -> Result<(), StoreError> {
    let (rows, scope) = (ledger.rows, ledger.scope);
    let claim = admission::claim_key(scope, key.as_bytes());
    let found = match ledger.writes.get(&claim) {
        Some(written) => written.clone(),
        None => rows.get(&claim)?,
    };
    let filed = is_filed(rows, scope, key, this)?;
    if found.is_none() && !filed {
        return Ok(());
    }
    if let Some(held) = found.and_then(|found| admission::decode(scope, &found).ok())
        && is_borne_out(rows, scope, key.as_bytes(), &held)?
        && (is_filed(rows, scope, key, &held)?, held.order()) > (filed, this.order())
    {
        return Ok(());
    }
    ledger.writes.insert(claim, Some(this.encode()));
    Ok(())
}

/// Whether `key` is filed by the age of `admission`.
fn is_filed(rows: &dyn Read, scope: &Scope, key: &str, admission: &Admission) -> Result<bool, StoreError> {
    let by_age = admission::age_key(scope, admission.admitted_ms, key.as_bytes());
    Ok(rows.get(&by_age)?.is_some())
}

/// Whether the holder of `key` has a record that admitted it by that key, at that time.
pub(super) fn is_borne_out(
    rows: &dyn Read,
    scope: &Scope,
    key: &[u8],
    held: &Admission,
) -> Result<bool, StoreError> {
    let admitted = admission_of(rows, scope, &held.run)?;
    Ok(admitted.is_some_and(|(by, at_ms)| by.as_bytes() == key && at_ms == held.admitted_ms))
}

/// The key that admitted `run`, and when, by its records. A run has one at most.
fn admission_of(rows: &dyn Read, scope: &Scope, run: &RunId) -> Result<Option<(String, i64)>, StoreError> {
    let read = |key: &[u8], value: &[u8]| -> Result<_, StoreError> {
        let seq = key.last_chunk().map_or(0, |seq| u64::from_be_bytes(*seq));
        let (_, record, meaning) = sound(scope, run, seq, value, None)?;
        let Meaning::RunAdmitted(admitted) = meaning else { return Ok(None) };
        Ok(admitted.admission_key.map(|key| (key, record.at().posix_ms())))
    };
    let mut result = Ok(None);
    let records = chain::records(scope).starting_with(&[run.as_str().as_bytes(), &[0]]);
    rows.scan(&records, Direction::Ascending, &mut |key, value| {
        result = read(key, value);
        if matches!(result, Ok(None)) { Scanned::Continue(()) } else { Scanned::Break(()) }
    })?;
    result
}

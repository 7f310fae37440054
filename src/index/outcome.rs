//! Runs by outcome: one row a run, that of its last conclusion.

use runseal_evidence::name::{Outcome, RunId};

use super::page::page;
use crate::chain::{Conclusion, stored_run};
use crate::store::{
    Corruption, Direction, Fault, Overlay, Read, Scope, Space, StoreError, Table, counter, row,
};

/// The counter of conclusions: an outcome's newest has the highest ordinal.
pub(crate) const CONCLUSIONS: &str = "conclusions";

/// Moves a run to `outcome`, as the newest there.
pub(crate) fn conclude(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    run: &RunId,
    last: Option<&Conclusion>,
    outcome: Outcome,
) -> Result<Conclusion, StoreError> {
    if let Some(last) = last {
        tx.delete(key(scope, last));
        count(tx, scope, &last.outcome, |runs| runs.checked_sub(1))?;
    }
    let ordinal = counter::take(tx, scope, CONCLUSIONS)?;
    count(tx, scope, &outcome, |runs| runs.checked_add(1))?;
    let conclusion = Conclusion { outcome, ordinal };
    tx.put(key(scope, &conclusion), run.as_str().as_bytes().to_vec());
    Ok(conclusion)
}

/// The runs whose last conclusion is `outcome`, the newest first.
pub(crate) fn newest(
    rows: &dyn Read,
    scope: &Scope,
    outcome: &Outcome,
    limit: usize,
) -> Result<Vec<RunId>, StoreError> {
    let range = Space::of(scope, Table::Outcomes).starting_with(&[outcome.as_str().as_bytes(), &[0]]);
    page(rows, &range, Direction::Descending, limit, |_, run| stored_run(scope, "outcome", run))
}

/// How many runs have `outcome` as their last conclusion, however many that are.
pub(crate) fn counted(rows: &dyn Read, scope: &Scope, outcome: &Outcome) -> Result<u64, StoreError> {
    let key = Space::of(scope, Table::OutcomeCounts).key(&[outcome.as_str().as_bytes()]);
    match rows.get(&key)? {
        None => Ok(0),
        Some(bytes) => row::read_u64(&bytes, "count")
            .map_err(|fault| Corruption::in_scope(scope, "outcome count", fault).into()),
    }
}

pub(crate) fn key(scope: &Scope, conclusion: &Conclusion) -> Vec<u8> {
    with_key(conclusion, |parts| Space::of(scope, Table::Outcomes).key(parts))
}

/// The parts of a row's own key, for `with`.
pub(crate) fn with_key<T>(conclusion: &Conclusion, with: impl FnOnce(&[&[u8]]) -> T) -> T {
    let Conclusion { outcome, ordinal } = conclusion;
    with(&[outcome.as_str().as_bytes(), &[0], &ordinal.to_be_bytes()])
}

fn count(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    outcome: &Outcome,
    change: impl Fn(u64) -> Option<u64>,
) -> Result<(), StoreError> {
    let key = Space::of(scope, Table::OutcomeCounts).key(&[outcome.as_str().as_bytes()]);
    let before = counted(tx, scope, outcome)?;
    let fault = || Fault::contradiction("the count", before, "one more or less");
    let after = change(before).ok_or_else(|| Corruption::in_scope(scope, "outcome count", fault()))?;
    if after == 0 {
        tx.delete(key);
    } else {
        tx.put(key, after.to_be_bytes().to_vec());
    }
    Ok(())
}

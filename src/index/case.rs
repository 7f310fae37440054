//! Records by case: a long-lived matter that many runs touch.

use runseal_evidence::name::{CaseId, RunId};

use super::page::page;
use crate::chain::stored_run;
use crate::store::{Corruption, Direction, Overlay, Read, RowFault, Scope, Space, StoreError, Table};

/// Where a record of a case is: by run, then by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseRecord {
    /// The run.
    pub run: RunId,
    /// The record's number.
    pub seq: u64,
}

/// Files record `seq` of `run` under `case`.
pub(crate) fn add_to_case(tx: &mut Overlay<'_>, scope: &Scope, case: &CaseId, run: &RunId, seq: u64) {
    tx.put(key(scope, case, run, seq), Vec::new());
}

/// The records of `case` after `after`, whichever run they are of.
pub(crate) fn records(
    rows: &dyn Read,
    scope: &Scope,
    case: &CaseId,
    after: Option<&CaseRecord>,
    limit: usize,
) -> Result<Vec<CaseRecord>, StoreError> {
    let all = Space::of(scope, Table::Cases).starting_with(&[case.as_str().as_bytes(), &[0]]);
    let start = all.lower.len();
    let range = match after {
        None => all,
        Some(CaseRecord { run, seq }) => all.after(key(scope, case, run, *seq)),
    };
    page(rows, &range, Direction::Ascending, limit, |key, _| {
        let corrupt = |fault: RowFault| Corruption::in_scope(scope, "case record", fault);
        let own = key.get(start..).unwrap_or_default();
        let (run, seq) = own.split_last_chunk::<8>().ok_or_else(|| corrupt(RowFault::Short("seq")))?;
        let run = run.strip_suffix(&[0]).ok_or_else(|| corrupt(RowFault::Value("run")))?;
        Ok(CaseRecord { run: stored_run(scope, "case record", run)?, seq: u64::from_be_bytes(*seq) })
    })
}

fn key(scope: &Scope, case: &CaseId, run: &RunId, seq: u64) -> Vec<u8> {
    with_key(case.as_str(), run, seq, |parts| Space::of(scope, Table::Cases).key(parts))
}

/// The parts of a row's own key, for `with`.
pub(crate) fn with_key<T>(case: &str, run: &RunId, seq: u64, with: impl FnOnce(&[&[u8]]) -> T) -> T {
    with(&[case.as_bytes(), &[0], run.as_str().as_bytes(), &[0], &seq.to_be_bytes()])
}

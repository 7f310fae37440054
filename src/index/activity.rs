//! Runs by their last append, over all and by source.

use runseal_evidence::name::RunId;

use super::page::page;
use crate::chain::{RunRow, stored_run};
use crate::store::key::{time_key, time_of_key};
use crate::store::{Corruption, Direction, Overlay, Read, RowFault, Scope, Space, StoreError, Table};

/// Where a listing by activity goes on: after this run, whose last append was then. Exclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityCursor {
    /// When the run was last appended to, in milliseconds since 1970.
    pub updated_ms: i64,
    /// The run.
    pub run: RunId,
}

/// Moves a run to the time of its last append.
pub(crate) fn touch(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    run: &RunId,
    before: Option<&RunRow>,
    after: &RunRow,
) {
    if let Some(before) = before {
        tx.delete(key(scope, None, before.updated_ms, run));
        if let Some(source) = &before.source {
            tx.delete(key(scope, Some(source), before.updated_ms, run));
        }
    }
    tx.put(key(scope, None, after.updated_ms, run), Vec::new());
    if let Some(source) = &after.source {
        tx.put(key(scope, Some(source), after.updated_ms, run), Vec::new());
    }
}

/// Runs by their last append, the newest first, equal times by run descending; those of `source` alone
/// where one is given, at the cost of its own runs only.
pub(crate) fn newest(
    rows: &dyn Read,
    scope: &Scope,
    source: Option<&str>,
    after: Option<&ActivityCursor>,
    limit: usize,
) -> Result<Vec<ActivityCursor>, StoreError> {
    let all = match source {
        None => Space::of(scope, Table::Activity).all(),
        Some(source) => Space::of(scope, Table::Sources).starting_with(&[source.as_bytes(), &[0]]),
    };
    let start = all.lower.len();
    let range = match after {
        None => all,
        Some(cursor) => all.before(key(scope, source, cursor.updated_ms, &cursor.run)),
    };
    page(rows, &range, Direction::Descending, limit, |key, _| {
        let corrupt = |fault: RowFault| Corruption::in_scope(scope, "activity", fault);
        let own = key.get(start..).unwrap_or_default();
        let (time, run) = own.split_first_chunk().ok_or_else(|| corrupt(RowFault::Short("updated")))?;
        Ok(ActivityCursor { updated_ms: time_of_key(*time), run: stored_run(scope, "activity", run)? })
    })
}

pub(crate) fn key(scope: &Scope, source: Option<&str>, updated_ms: i64, run: &RunId) -> Vec<u8> {
    let table = if source.is_some() { Table::Sources } else { Table::Activity };
    with_key(source, updated_ms, run, |parts| Space::of(scope, table).key(parts))
}

/// The parts of a row's own key, for `with`.
pub(crate) fn with_key<T>(
    source: Option<&str>,
    updated_ms: i64,
    run: &RunId,
    with: impl FnOnce(&[&[u8]]) -> T,
) -> T {
    let (time, run) = (time_key(updated_ms), run.as_str().as_bytes());
    match source {
        None => with(&[&time, run]),
        Some(source) => with(&[source.as_bytes(), &[0], &time, run]),
    }
}

//! Runs that wait, by when they should move on.

use runseal_evidence::json::Json;
use runseal_evidence::name::RunId;
use runseal_evidence::payload::RunSuspended;

use super::page::page;
use crate::chain::{Wait, stored_run};
use crate::store::key::{time_key, time_of_key};
use crate::store::{Corruption, Direction, Overlay, Read, RowFault, Scope, Space, StoreError, Table};

/// A run whose last record suspends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingRun {
    /// The run.
    pub run: RunId,
    /// When it should move on, in milliseconds since 1970; `None` where it waits for no time.
    pub until_ms: Option<i64>,
    /// What it waits for, as its last record says.
    pub reason: Option<Json>,
}

/// Moves a run to where its last record says that it waits, if it does.
pub(crate) fn follow(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    run: &RunId,
    last: Option<Wait>,
    suspended: Option<&RunSuspended>,
) -> Option<Wait> {
    if let Some(last) = last {
        tx.delete(key(scope, last, run));
    }
    let suspended = suspended?;
    let wait = suspended.until.map_or(Wait::Indefinite, |until| Wait::Until(until.posix_ms()));
    let reason = suspended.reason.as_ref().map_or("", Json::as_str);
    tx.put(key(scope, wait, run), reason.as_bytes().to_vec());
    Some(wait)
}

/// The waiting runs, those first that should have moved on first; those that wait for no time last.
pub(crate) fn due_first(rows: &dyn Read, scope: &Scope, limit: usize) -> Result<Vec<WaitingRun>, StoreError> {
    let space = Space::of(scope, Table::Waiting);
    page(rows, &space.all(), Direction::Ascending, limit, |key, reason| {
        let corrupt = |fault: RowFault| Corruption::in_scope(scope, "waiting run", fault);
        let key = space.own(key);
        let (until_ms, run) = match key.split_first() {
            Some((0, rest)) => {
                let (until, run) =
                    rest.split_first_chunk().ok_or_else(|| corrupt(RowFault::Short("until")))?;
                (Some(time_of_key(*until)), run)
            }
            Some((1, run)) => (None, run),
            _ => return Err(corrupt(RowFault::Value("until")).into()),
        };
        let run = stored_run(scope, "waiting run", run)?;
        let reason = match reason {
            [] => None,
            text => Some(Json::parse(text).map_err(|_| corrupt(RowFault::Value("reason")).of_run(&run))?),
        };
        Ok(WaitingRun { run, until_ms, reason })
    })
}

fn key(scope: &Scope, wait: Wait, run: &RunId) -> Vec<u8> {
    with_key(wait, run, |parts| Space::of(scope, Table::Waiting).key(parts))
}

/// The parts of a row's own key, for `with`.
pub(crate) fn with_key<T>(wait: Wait, run: &RunId, with: impl FnOnce(&[&[u8]]) -> T) -> T {
    let run = run.as_str().as_bytes();
    match wait {
        Wait::Until(ms) => with(&[&[0], &time_key(ms), run]),
        Wait::Indefinite => with(&[&[1], run]),
    }
}

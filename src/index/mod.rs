//! The indexes: every row follows from the records, and is written in the transaction of the record that it
//! follows from.
//!
//! An index is a module with one verb for each change and one reader for each question. `append` calls
//! [`follow`]; nobody else touches their tables.

pub(crate) mod activity;
pub(crate) mod admission;
pub(crate) mod cancellation;
pub(crate) mod case;
pub(crate) mod lapsed;
pub(crate) mod outcome;
mod page;
pub(crate) mod waiting;

use runseal_evidence::name::RunId;
use runseal_evidence::payload::{Meaning, RunConcluded, RunSuspended};

pub use self::activity::ActivityCursor;
pub use self::admission::Admission;
pub(crate) use self::admission::{Admitting, admit};
pub use self::cancellation::{CANCELLATION_TEXT_BYTES_MAX, CancelError, Cancellation};
pub use self::case::CaseRecord;
pub(crate) use self::case::add_to_case;
pub use self::lapsed::AbandonedRun;
pub use self::waiting::WaitingRun;
use crate::chain::RunRow;
use crate::store::{Overlay, Scope, Space, StoreError, Table};

/// What a batch means to the indexes.
#[derive(Debug, Default)]
pub(crate) struct Change {
    concluded: Option<RunConcluded>,
    suspended: Option<RunSuspended>,
    last_concludes: bool,
}

impl Change {
    /// Takes up the next record.
    pub(crate) fn see(&mut self, meaning: Meaning) {
        self.suspended = None;
        self.last_concludes = false;
        match meaning {
            // Of several conclusions the last one counts.
            Meaning::RunConcluded(concluded) => {
                self.concluded = Some(concluded);
                self.last_concludes = true;
            }
            // A run waits while its last record says so.
            Meaning::RunSuspended(suspended) => self.suspended = Some(suspended),
            _ => {}
        }
    }
}

/// Brings every index in step with a batch, and writes the run's row.
pub(crate) fn follow(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    run: &RunId,
    before: Option<&RunRow>,
    after: &mut RunRow,
    change: Change,
) -> Result<(), StoreError> {
    let Change { concluded, suspended, last_concludes } = change;
    after.concluded = last_concludes;
    if let Some(concluded) = concluded {
        after.conclusion =
            Some(outcome::conclude(tx, scope, run, after.conclusion.as_ref(), concluded.outcome)?);
    }
    after.waiting = waiting::follow(tx, scope, run, after.waiting, suspended.as_ref());
    activity::touch(tx, scope, run, before, after);
    if before.is_none_or(|row| !row.is_unpinned()) {
        tx.put(Space::of(scope, Table::Unpinned).key(&[run.as_str().as_bytes()]), Vec::new());
    }
    put_run(tx, scope, run, after);
    Ok(())
}

/// Writes the row of a run.
pub(crate) fn put_run(tx: &mut Overlay<'_>, scope: &Scope, run: &RunId, row: &RunRow) {
    tx.put(Space::of(scope, Table::Runs).key(&[run.as_str().as_bytes()]), row.encode());
}

/// Takes a run off the list of those with records that no log entry covers.
pub(crate) fn unpin(tx: &mut Overlay<'_>, scope: &Scope, run: &RunId) {
    tx.delete(Space::of(scope, Table::Unpinned).key(&[run.as_str().as_bytes()]));
}

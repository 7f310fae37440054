//! The tables that are not ordered by run: each read from end to end.

use runseal_evidence::name::Outcome;

use super::ledger::{Derived, Ledger};
use super::rows::each;
use super::{Counts, Subject, admissions, entries};
use crate::chain::{self, stored_run};
use crate::index::{cancellation, outcome};
use crate::store::{Corruption, Fault, Space, StoreError, Table, counter, row};

/// A part of the check that reads tables of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The rows of one index, for what is expected to be held against.
    Rows(Derived),
    /// The same of the outcomes, and their counts.
    Outcomes,
    /// Admission keys, and the runs that hold them.
    Admissions,
    /// Requests to stop, and the runs they are about.
    Cancellations,
    /// Checkpoints, and what witnesses are remembered to have cosigned.
    Checkpoints,
}

impl Part {
    /// All of them, the ones first that may have most to do.
    pub(super) const ALL: [Self; 12] = [
        Self::Rows(Derived::Effects),
        Self::Admissions,
        Self::Outcomes,
        Self::Rows(Derived::Activity),
        Self::Rows(Derived::Cases),
        Self::Rows(Derived::Sources),
        Self::Checkpoints,
        Self::Rows(Derived::AdmissionsByAge),
        Self::Rows(Derived::Waiting),
        Self::Rows(Derived::Unpinned),
        Self::Rows(Derived::Expiries),
        Self::Cancellations,
    ];

    pub(super) fn check(
        self,
        of: Subject<'_>,
        ledger: &mut Ledger<'_>,
        counts: &mut Counts,
    ) -> Result<(), StoreError> {
        match self {
            Self::Rows(derived) => rows_of(of, derived, ledger, counts),
            Self::Outcomes => outcomes(of, ledger, counts),
            Self::Admissions => admissions::claims(of, ledger, counts),
            Self::Cancellations => cancellations(of, counts),
            Self::Checkpoints => witnesses(of, entries::checkpoints(of.rows, of.scope, of.key)?, counts),
        }
    }
}

fn rows_of(
    of: Subject<'_>,
    derived: Derived,
    ledger: &mut Ledger<'_>,
    counts: &mut Counts,
) -> Result<(), StoreError> {
    let Some(table) = derived.table() else { return Ok(()) };
    let space = Space::of(of.scope, table);
    each(of.rows, &space, &space.all(), |key, value| {
        ledger.found(derived, &[key], value);
        counts.held += (key.len() + value.len()) as u64;
        Ok(())
    })
}

/// The count of each outcome is that of its rows, and the counter of conclusions is past all of them.
fn outcomes(of: Subject<'_>, ledger: &mut Ledger<'_>, counts: &mut Counts) -> Result<(), StoreError> {
    let corrupt = |fault: Fault| StoreError::from(Corruption::in_scope(of.scope, "outcome count", fault));
    let next = counter::peek(of.rows, of.scope, outcome::CONCLUSIONS)?;
    let counted = |name: &[u8], found: u64| {
        let name = Outcome::new(String::from_utf8_lossy(name)).map_err(|error| corrupt(error.into()))?;
        match outcome::counted(of.rows, of.scope, &name)? {
            counted if counted == found => Ok(()),
            counted => Err(corrupt(Fault::contradiction("the count", counted, found))),
        }
    };
    let space = Space::of(of.scope, Table::Outcomes);
    let (mut name, mut found, mut outcomes) = (Vec::new(), 0u64, 0u64);
    each(of.rows, &space, &space.all(), |key, value| {
        ledger.found(Derived::Outcomes, &[key], value);
        counts.held += (key.len() + value.len()) as u64;
        let (this, ordinal) = key.split_last_chunk::<8>().unwrap_or((key, &[0xff; 8]));
        let this = this.strip_suffix(&[0]).unwrap_or(this);
        if found == 0 || name != this {
            if found > 0 {
                counted(&name, found)?;
            }
            (found, outcomes) = (0, outcomes + 1);
            this.clone_into(&mut name);
        }
        found += 1;
        if u64::from_be_bytes(*ordinal) >= next {
            let fault = Fault::contradiction("the counter of conclusions", next, "one past every row");
            return Err(corrupt(fault));
        }
        Ok(())
    })?;
    if found > 0 {
        counted(&name, found)?;
    }
    let space = Space::of(of.scope, Table::OutcomeCounts);
    let mut rows = 0u64;
    each(of.rows, &space, &space.all(), |key, value| {
        counts.held += (key.len() + value.len()) as u64;
        rows += 1;
        Ok(())
    })?;
    if rows == outcomes {
        return Ok(());
    }
    Err(corrupt(Fault::contradiction("the number of outcomes", rows, outcomes)))
}

/// Every request to stop is of a run that exists.
fn cancellations(of: Subject<'_>, counts: &mut Counts) -> Result<(), StoreError> {
    let space = Space::of(of.scope, Table::Cancellations);
    each(of.rows, &space, &space.all(), |key, value| {
        counts.held += (key.len() + value.len()) as u64;
        let run = stored_run(of.scope, "cancellation", key)?;
        cancellation::requested(of.rows, of.scope, &run)?;
        if chain::run_row(of.rows, of.scope, &run)?.is_some() {
            return Ok(());
        }
        Err(Corruption::in_scope(of.scope, "cancellation", Fault::Unaccounted).of_run(run).into())
    })
}

/// No witness has cosigned more than the log has signed: what it is remembered to have cosigned is a checkpoint of
/// this log, and each of those is of its tree, which has at least the size of the largest, `signed`.
fn witnesses(of: Subject<'_>, signed: u64, counts: &mut Counts) -> Result<(), StoreError> {
    let space = Space::of(of.scope, Table::Witnesses);
    each(of.rows, &space, &space.all(), |key, value| {
        counts.held += (key.len() + value.len()) as u64;
        let name = String::from_utf8_lossy(key);
        let corrupt = |fault: Fault| Err(Corruption::in_scope(of.scope, "witness size", fault).into());
        match row::read_u64(value, "size") {
            Ok(size) if size <= signed => Ok(()),
            Ok(size) => {
                let expected = format!("at most {signed}, the largest size signed");
                corrupt(Fault::contradiction("a size cosigned", format!("{size} by {name}"), expected))
            }
            Err(fault) => corrupt(fault.into()),
        }
    })
}

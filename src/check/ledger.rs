//! The rows that follow from the evidence, and what becomes of them: they are held against those that are there,
//! or written.

use runseal_evidence::name::RunId;

use super::digest::{RowHash, Tally};
use crate::store::{Corruption, Fault, Read, Scope, Space, StoreError, Table, Writes};

/// Rows of one kind that follow from the records and entries: no more and no fewer may be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Derived {
    Effects,
    Cases,
    Activity,
    Sources,
    Outcomes,
    Waiting,
    Unpinned,
    Heads,
    Expiries,
    Admissions,
    AdmissionsByAge,
    /// No table: what a seal says, by its entry and by the row of its run.
    Seals,
}

impl Derived {
    pub(super) const ALL: [Self; 12] = [
        Self::Effects,
        Self::Cases,
        Self::Activity,
        Self::Sources,
        Self::Outcomes,
        Self::Waiting,
        Self::Unpinned,
        Self::Heads,
        Self::Expiries,
        Self::Admissions,
        Self::AdmissionsByAge,
        Self::Seals,
    ];

    /// What one of the rows is, as a noun.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Effects => "started effect",
            Self::Cases => "case record",
            Self::Activity => "activity",
            Self::Sources => "source",
            Self::Outcomes => "outcome",
            Self::Waiting => "waiting run",
            Self::Unpinned => "unpinned run",
            Self::Heads => "filed head",
            Self::Expiries => "lease expiry",
            Self::Admissions => "admission",
            Self::AdmissionsByAge => "admission by age",
            Self::Seals => "sealed run",
        }
    }

    pub(super) fn table(self) -> Option<Table> {
        match self {
            Self::Effects => Some(Table::Effects),
            Self::Cases => Some(Table::Cases),
            Self::Activity => Some(Table::Activity),
            Self::Sources => Some(Table::Sources),
            Self::Outcomes => Some(Table::Outcomes),
            Self::Waiting => Some(Table::Waiting),
            Self::Unpinned => Some(Table::Unpinned),
            Self::Heads => Some(Table::Heads),
            Self::Expiries => Some(Table::Expiries),
            Self::Admissions => Some(Table::Admissions),
            Self::AdmissionsByAge => Some(Table::AdmissionsByAge),
            Self::Seals => None,
        }
    }
}

/// What becomes of a row that follows from the rest.
#[derive(Clone, Copy)]
pub(super) enum Mode<'c> {
    /// It enters a sum, as does each row that is there: says whether all is well, and costs a scan of each table.
    Sum(&'c RowHash),
    /// It is looked up: says which row is not, and costs a search for each.
    LookUp,
    /// It is written.
    Write,
}

/// Sets of rows by kind.
pub(super) type Tallies = [Tally; Derived::ALL.len()];

/// Takes account of the rows that follow, and of those that are there.
pub(super) struct Ledger<'c> {
    pub(super) rows: &'c dyn Read,
    pub(super) scope: &'c Scope,
    pub(super) mode: Mode<'c>,
    pub(super) expected: Tallies,
    pub(super) found: Tallies,
    /// What [`Mode::Write`] is to write.
    pub(super) writes: Writes,
    buffer: Vec<u8>,
}

impl<'c> Ledger<'c> {
    pub(super) fn new(rows: &'c dyn Read, scope: &'c Scope, mode: Mode<'c>) -> Self {
        let (expected, found) = Default::default();
        Self { rows, scope, mode, expected, found, writes: Writes::new(), buffer: Vec::new() }
    }

    /// A row follows from `run`: its own key in parts, and its value.
    pub(super) fn expect(
        &mut self,
        of: Derived,
        key: &[&[u8]],
        value: &[u8],
        run: &RunId,
    ) -> Result<(), StoreError> {
        match (self.mode, of.table()) {
            (Mode::Sum(hash), _) => self.expected[of as usize].add(hash, &mut self.buffer, key, value),
            (Mode::LookUp, table) => {
                if let Some(table) = table {
                    let key = Space::of(self.scope, table).key(key);
                    expect_row(self.rows, self.scope, &key, value, of.noun(), run)?;
                }
                self.expected[of as usize].count();
            }
            (Mode::Write, Some(table)) => {
                self.writes.insert(Space::of(self.scope, table).key(key), Some(value.to_vec()));
            }
            (Mode::Write, None) => {}
        }
        Ok(())
    }

    /// A row is there.
    pub(super) fn found(&mut self, of: Derived, key: &[&[u8]], value: &[u8]) {
        match self.mode {
            Mode::Sum(hash) => self.found[of as usize].add(hash, &mut self.buffer, key, value),
            Mode::LookUp => self.found[of as usize].count(),
            Mode::Write => {}
        }
    }
}

/// Takes up other sets, each with its own kind.
pub(super) fn join(tallies: &mut Tallies, others: &Tallies) {
    for (tally, other) in tallies.iter_mut().zip(others) {
        tally.join(*other);
    }
}

/// The rows that follow are those that are there. Which is not, only looking them up can tell.
pub(super) fn compare(scope: &Scope, expected: &Tallies, found: &Tallies) -> Result<(), StoreError> {
    for of in Derived::ALL {
        let (expected, found) = (expected[of as usize], found[of as usize]);
        if expected != found {
            let fault = Fault::contradiction("the number of rows", found.rows, expected.rows);
            return Err(Corruption::in_scope(scope, of.noun(), fault).into());
        }
    }
    Ok(())
}

/// A row that must be there, with exactly this value.
fn expect_row(
    rows: &dyn Read,
    scope: &Scope,
    key: &[u8],
    value: &[u8],
    noun: &'static str,
    run: &RunId,
) -> Result<(), StoreError> {
    let corrupt = |fault| Err(Corruption::in_scope(scope, noun, fault).of_run(run).into());
    match rows.get(key)? {
        Some(found) if found == value => Ok(()),
        Some(found) => {
            let text = String::from_utf8_lossy;
            corrupt(Fault::contradiction("the row", text(&found), text(value)))
        }
        None => corrupt(Fault::Missing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_row_is_compared() {
        let mut numbers: Vec<usize> = Derived::ALL.iter().map(|of| *of as usize).collect();
        numbers.dedup();
        assert_eq!(numbers, (0..Derived::ALL.len()).collect::<Vec<_>>());
        for of in Derived::ALL {
            let (expected, mut found) = <(Tallies, Tallies)>::default();
            found[of as usize].count();
            let differs = compare(&Scope::Plane, &expected, &found).unwrap_err();
            assert_eq!(differs.corruption().unwrap().noun, of.noun());
            assert!(compare(&Scope::Plane, &found, &found).is_ok());
        }
    }
}

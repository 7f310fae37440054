//! The indexes: the rows that follow from the records are there, and no others.

use runseal_evidence::name::Outcome;

use super::places::expect_row;
use super::{Check, CheckPart};
use crate::chain::{self, LeaseRow, stored_run};
use crate::index::{admission, cancellation, outcome};
use crate::store::key::{time_key, time_of_key};
use crate::store::{
    Corruption, Direction, Fault, KeyRange, RowFault, Scanned, Space, StoreError, Table, counter,
};

impl Check<'_> {
    /// Everything that is not looked up run by run: counts, counters, leases, admissions, and that no table
    /// holds more than was accounted for.
    pub(super) fn indexes(&mut self) -> Result<(), StoreError> {
        self.outcome_counts()?;
        self.leases()?;
        self.admissions()?;
        self.cancellations()?;
        let expected = &self.expected;
        for (table, noun, count) in [
            (Table::Effects, "started effect", expected.effects),
            (Table::Cases, "case record", expected.cases),
            (Table::Activity, "activity", expected.activity),
            (Table::Sources, "source", expected.sources),
            (Table::Outcomes, "outcome", expected.outcomes),
            (Table::Waiting, "waiting run", expected.waiting),
            (Table::Unpinned, "unpinned run", expected.unpinned),
            (Table::Heads, "filed head", expected.heads),
            (Table::Expiries, "lease expiry", expected.expiries),
            (Table::AdmissionsByAge, "admission by age", expected.admissions),
        ] {
            let found = self.count(&Space::of(self.scope, table).all())?;
            if found != count {
                let fault = Fault::contradiction("the number of rows", found, count);
                return Err(Corruption::in_scope(self.scope, noun, fault).into());
            }
        }
        if expected.seals != self.seals {
            let fault = Fault::contradiction("the number of sealed runs", expected.seals, self.seals);
            return Err(Corruption::in_scope(self.scope, "run row", fault).into());
        }
        self.advance(CheckPart::Indexes, 1, Some(1));
        Ok(())
    }

    /// The count of each outcome is that of its rows, and the counter is past all of them.
    fn outcome_counts(&self) -> Result<(), StoreError> {
        let space = Space::of(self.scope, Table::Outcomes);
        let next = counter::peek(self.rows, self.scope, outcome::CONCLUSIONS)?;
        let corrupt =
            |fault: Fault| StoreError::from(Corruption::in_scope(self.scope, "outcome count", fault));
        let mut outcomes = 0;
        let mut from = space.all();
        // One seek for each outcome, then a count of its rows.
        while let Some(key) = self.first_key(&from)? {
            let own = space.own(&key);
            let name = own.split(|byte| *byte == 0).next().unwrap_or_default();
            let outcome =
                Outcome::new(String::from_utf8_lossy(name)).map_err(|error| corrupt(error.into()))?;
            let rows = space.starting_with(&[name, &[0]]);
            let (found, counted) = (self.count(&rows)?, outcome::counted(self.rows, self.scope, &outcome)?);
            if found != counted {
                return Err(corrupt(Fault::contradiction("the count", counted, found)));
            }
            if let Some(last) = self.last_key(&rows)?
                && last.last_chunk().is_none_or(|ordinal| u64::from_be_bytes(*ordinal) >= next)
            {
                return Err(corrupt(Fault::contradiction(
                    "the counter of conclusions",
                    next,
                    "one past every row",
                )));
            }
            outcomes += 1;
            from = space.all().from(rows.upper);
        }
        let counts = self.count(&Space::of(self.scope, Table::OutcomeCounts).all())?;
        if counts == outcomes {
            return Ok(());
        }
        Err(corrupt(Fault::contradiction("the number of outcomes", counts, outcomes)))
    }

    /// Every lease can be read, and those with an owner are filed by expiry.
    fn leases(&mut self) -> Result<(), StoreError> {
        let (space, expiries) =
            (Space::of(self.scope, Table::Leases), Space::of(self.scope, Table::Expiries));
        self.each(&space.all(), |check, key, value| {
            let run = stored_run(check.scope, "lease", space.own(key))?;
            let lease = LeaseRow::decode(value)
                .map_err(|fault| Corruption::in_scope(check.scope, "lease", fault).of_run(&run))?;
            if lease.is_owned() {
                let filed = expiries.key(&[&time_key(lease.expires_at_ms), run.as_str().as_bytes()]);
                expect_row(check.rows, check.scope, &filed, &[], "lease expiry", &run)?;
                check.expected.expiries += 1;
            }
            Ok(())
        })
    }

    /// Every admission key is held by a run that exists, and is filed by age.
    fn admissions(&mut self) -> Result<(), StoreError> {
        let space = Space::of(self.scope, Table::Admissions);
        let by_age = Space::of(self.scope, Table::AdmissionsByAge);
        self.each(&space.all(), |check, key, value| {
            let held = admission::decode(check.scope, value)?;
            let filed = by_age.key(&[&time_key(held.admitted_ms), space.own(key)]);
            expect_row(check.rows, check.scope, &filed, &[], "admission by age", &held.run)?;
            check.expected.admissions += 1;
            match chain::run_row(check.rows, check.scope, &held.run)? {
                Some(row) if row.admitted => Ok(()),
                _ => Err(Corruption::in_scope(check.scope, "admission", Fault::Unaccounted)
                    .of_run(held.run)
                    .into()),
            }
        })?;
        // And each filed time can be read, which the counts alone would not show.
        self.each(&by_age.all(), |check, key, _| match by_age.own(key).first_chunk() {
            Some(time) if time_of_key(*time) < i64::MAX => Ok(()),
            _ => {
                let fault = RowFault::Value("time");
                Err(Corruption::in_scope(check.scope, "admission by age", fault).into())
            }
        })
    }

    /// Every request to stop is of a run that exists.
    fn cancellations(&mut self) -> Result<(), StoreError> {
        let space = Space::of(self.scope, Table::Cancellations);
        self.each(&space.all(), |check, key, _| {
            let run = stored_run(check.scope, "cancellation", space.own(key))?;
            cancellation::requested(check.rows, check.scope, &run)?;
            match chain::run_row(check.rows, check.scope, &run)? {
                Some(_) => Ok(()),
                None => Err(Corruption::in_scope(check.scope, "cancellation", Fault::Unaccounted)
                    .of_run(run)
                    .into()),
            }
        })
    }

    fn count(&self, range: &KeyRange) -> Result<u64, StoreError> {
        let mut count = 0;
        self.rows.scan(range, Direction::Ascending, &mut |_, _| {
            count += 1;
            Scanned::Continue(())
        })?;
        Ok(count)
    }

    fn first_key(&self, range: &KeyRange) -> Result<Option<Vec<u8>>, StoreError> {
        self.edge_key(range, Direction::Ascending)
    }

    fn last_key(&self, range: &KeyRange) -> Result<Option<Vec<u8>>, StoreError> {
        self.edge_key(range, Direction::Descending)
    }

    fn edge_key(&self, range: &KeyRange, direction: Direction) -> Result<Option<Vec<u8>>, StoreError> {
        let mut edge = None;
        self.rows.scan(range, direction, &mut |key, _| {
            edge = Some(key.to_vec());
            Scanned::Break(())
        })?;
        Ok(edge)
    }

    fn each(
        &mut self,
        range: &KeyRange,
        mut row: impl FnMut(&mut Self, &[u8], &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (rows, mut failed) = (self.rows, None);
        rows.scan(range, Direction::Ascending, &mut |key, value| match row(self, key, value) {
            Ok(()) => Scanned::Continue(()),
            Err(error) => {
                failed = Some(error);
                Scanned::Break(())
            }
        })?;
        failed.map_or(Ok(()), Err)
    }
}

//! The indexes: the rows that follow from the records are there, and no others.

use runseal_evidence::entry::{Entry, Recognised};
use runseal_evidence::json::Json;
use runseal_evidence::name::{Outcome, RunId};
use runseal_evidence::payload::Meaning;
use runseal_evidence::record::Record;

use super::{Check, CheckPart};
use crate::chain::{self, LeaseRow, RunRow, stored_run};
use crate::index::{activity, admission, cancellation, case, outcome, waiting};
use crate::log;
use crate::store::key::{time_key, time_of_key};
use crate::store::{
    Corruption, Direction, Fault, KeyRange, RowFault, Scanned, Space, StoreError, Table, counter,
};

/// Rows that must be in each table, counted while each of them is looked up.
#[derive(Debug, Default)]
pub(super) struct Expected {
    effects: u64,
    cases: u64,
    activity: u64,
    sources: u64,
    outcomes: u64,
    waiting: u64,
    unpinned: u64,
    heads: u64,
    expiries: u64,
    admissions: u64,
}

impl Check<'_> {
    /// The rows that one record alone gives rise to.
    pub(super) fn derived_from(&mut self, run: &RunId, record: &Record) -> Result<(), StoreError> {
        let seq = record.stamp.seq;
        if let Some(effect) =
            record.draft.effect.as_ref().filter(|_| record.draft.kind.as_str() == "EffectStarted")
        {
            let name = run.as_str().as_bytes();
            let key = Space::of(self.scope, Table::Effects).key(&[name, &[0], effect.as_str().as_bytes()]);
            self.expect_row(&key, &seq.to_be_bytes(), "started effect", run)?;
            self.expected.effects += 1;
        }
        if let Some(case) = &record.draft.case {
            self.expect_row(&case::key(self.scope, case, run, seq), &[], "case record", run)?;
            self.expected.cases += 1;
        }
        if let Ok(Meaning::RunAdmitted(admitted)) = Meaning::of(&record.draft.kind, &record.draft.payload)
            && let Some(key) = &admitted.admission_key
            && let Some(holder) = admission::admitted_as(self.rows, self.scope, key)?
            && holder.run == *run
            && holder.admitted_ms != record.stamp.at.posix_ms()
        {
            let fault = Fault::contradiction("the time", holder.admitted_ms, record.stamp.at.posix_ms());
            return Err(Corruption::in_scope(self.scope, "admission", fault).of_run(run).into());
        }
        Ok(())
    }

    /// The rows that a run as a whole gives rise to. `row` agrees with the records already.
    pub(super) fn places(
        &mut self,
        run: &RunId,
        row: &RunRow,
        reason: Option<&Json>,
    ) -> Result<(), StoreError> {
        let (scope, name) = (self.scope, run.as_str().as_bytes());
        self.expect_row(&activity::key(scope, None, row.updated_ms, run), &[], "activity", run)?;
        self.expected.activity += 1;
        if let Some(source) = &row.source {
            self.expect_row(&activity::key(scope, Some(source), row.updated_ms, run), &[], "source", run)?;
            self.expected.sources += 1;
        }
        if let Some(conclusion) = &row.conclusion {
            self.expect_row(&outcome::key(scope, conclusion), name, "outcome", run)?;
            self.expected.outcomes += 1;
        }
        if let Some(wait) = row.waiting {
            let reason = reason.map_or("", Json::as_str);
            self.expect_row(&waiting::key(scope, wait, run), reason.as_bytes(), "waiting run", run)?;
            self.expected.waiting += 1;
        }
        if row.is_unpinned() {
            self.expect_row(&Space::of(scope, Table::Unpinned).key(&[name]), &[], "unpinned run", run)?;
            self.expected.unpinned += 1;
        }
        self.pins(run, row)?;
        self.lease(run, row)
    }

    /// A run is pinned as far as its last entry says.
    fn pins(&mut self, run: &RunId, row: &RunRow) -> Result<(), StoreError> {
        let heads = chain::heads(self.rows, self.scope, run, u64::MAX)?;
        self.expected.heads += heads.len() as u64;
        let last = row.seal.or(heads.last().copied());
        let pinned = match last {
            None => 0,
            Some(index) => match log::entry(self.rows, self.scope, index)?.as_deref().map(Entry::recognise) {
                Some(Recognised::Ours(Entry::Seal(seal))) if seal.run == *run => seal.records.get(),
                Some(Recognised::Ours(Entry::Head(head))) if head.run == *run => head.records.get(),
                _ => {
                    let fault = Fault::Unaccounted;
                    return Err(Corruption::in_scope(self.scope, "filed head", fault)
                        .of_run(run)
                        .at(index)
                        .into());
                }
            },
        };
        if row.pinned == pinned {
            Ok(())
        } else {
            Err(self.differs(run, "what is pinned", row.pinned, pinned))
        }
    }

    /// A lease is of an epoch that the records have not passed; nobody holds a sealed run.
    fn lease(&mut self, run: &RunId, row: &RunRow) -> Result<(), StoreError> {
        let Some(lease) = chain::lease_row(self.rows, self.scope, run)? else { return Ok(()) };
        if lease.epoch < row.epoch {
            return Err(self.differs(run, "the lease's epoch", lease.epoch, row.epoch));
        }
        if row.seal.is_some() && lease.is_owned() {
            return Err(self.differs(run, "the owner of a sealed run", lease.owner, String::new()));
        }
        Ok(())
    }

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
                check.expect_row(&filed, &[], "lease expiry", &run)?;
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
            check.expect_row(&filed, &[], "admission by age", &held.run)?;
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

    fn expect_row(
        &self,
        key: &[u8],
        value: &[u8],
        noun: &'static str,
        run: &RunId,
    ) -> Result<(), StoreError> {
        let corrupt = |fault| Err(Corruption::in_scope(self.scope, noun, fault).of_run(run).into());
        match self.rows.get(key)? {
            Some(found) if found == value => Ok(()),
            Some(found) => {
                let text = String::from_utf8_lossy;
                corrupt(Fault::contradiction("the row", text(&found), text(value)))
            }
            None => corrupt(Fault::Missing),
        }
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

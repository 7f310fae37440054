//! Where a run must be found: the rows that its records account for, each looked up and counted.

use runseal_evidence::entry::{Entry, Recognised};
use runseal_evidence::json::Json;
use runseal_evidence::name::RunId;
use runseal_evidence::payload::Meaning;
use runseal_evidence::record::Record;

use super::records::Walk;
use crate::chain::{self, RunRow};
use crate::index::{activity, admission, case, outcome, waiting};
use crate::log;
use crate::store::{Corruption, Fault, Read, Scope, Space, StoreError, Table};

/// Rows that must be in each table, counted while each of them is looked up.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub(super) effects: u64,
    pub(super) cases: u64,
    pub(super) activity: u64,
    pub(super) sources: u64,
    pub(super) outcomes: u64,
    pub(super) waiting: u64,
    pub(super) unpinned: u64,
    pub(super) heads: u64,
    pub(super) expiries: u64,
    pub(super) admissions: u64,
    /// Sealed runs: as many as there are seals in the log.
    pub(super) seals: u64,
}

impl Walk<'_> {
    /// The rows that one record alone gives rise to.
    pub(super) fn derived_from(&mut self, run: &RunId, record: &Record) -> Result<(), StoreError> {
        let seq = record.stamp.seq;
        if let Some(effect) =
            record.draft.effect.as_ref().filter(|_| record.draft.kind.as_str() == "EffectStarted")
        {
            let name = run.as_str().as_bytes();
            let key = Space::of(self.scope, Table::Effects).key(&[name, &[0], effect.as_str().as_bytes()]);
            expect_row(self.rows, self.scope, &key, &seq.to_be_bytes(), "started effect", run)?;
            self.walked.expected.effects += 1;
        }
        if let Some(case) = &record.draft.case {
            expect_row(
                self.rows,
                self.scope,
                &case::key(self.scope, case, run, seq),
                &[],
                "case record",
                run,
            )?;
            self.walked.expected.cases += 1;
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
        expect_row(
            self.rows,
            self.scope,
            &activity::key(scope, None, row.updated_ms, run),
            &[],
            "activity",
            run,
        )?;
        self.walked.expected.activity += 1;
        if let Some(source) = &row.source {
            expect_row(
                self.rows,
                self.scope,
                &activity::key(scope, Some(source), row.updated_ms, run),
                &[],
                "source",
                run,
            )?;
            self.walked.expected.sources += 1;
        }
        if let Some(conclusion) = &row.conclusion {
            expect_row(self.rows, self.scope, &outcome::key(scope, conclusion), name, "outcome", run)?;
            self.walked.expected.outcomes += 1;
        }
        if let Some(wait) = row.waiting {
            let reason = reason.map_or("", Json::as_str);
            expect_row(
                self.rows,
                self.scope,
                &waiting::key(scope, wait, run),
                reason.as_bytes(),
                "waiting run",
                run,
            )?;
            self.walked.expected.waiting += 1;
        }
        if row.is_unpinned() {
            expect_row(
                self.rows,
                self.scope,
                &Space::of(scope, Table::Unpinned).key(&[name]),
                &[],
                "unpinned run",
                run,
            )?;
            self.walked.expected.unpinned += 1;
        }
        self.pins(run, row)?;
        self.lease(run, row)
    }

    /// A run is pinned as far as its last entry says. Seals have been held against their runs already, entry
    /// by entry; that there are no more sealed runs than seals is a matter of counting.
    fn pins(&mut self, run: &RunId, row: &RunRow) -> Result<(), StoreError> {
        let agrees = |pinned: u64| {
            if row.pinned == pinned {
                Ok(())
            } else {
                Err(differs(self.scope, run, "what is pinned", row.pinned, pinned))
            }
        };
        if row.seal.is_some() {
            self.walked.expected.seals += 1;
            return agrees(row.records);
        }
        if row.pinned == 0 {
            return Ok(());
        }
        let corrupt = |fault: Fault| Corruption::in_scope(self.scope, "filed head", fault).of_run(run);
        let last = chain::heads(self.rows, self.scope, run, u64::MAX)?.last().copied();
        let index = last.ok_or_else(|| corrupt(Fault::Missing))?;
        match log::entry(self.rows, self.scope, index)?.as_deref().map(Entry::recognise) {
            Some(Recognised::Ours(Entry::Head(head))) if head.run == *run => agrees(head.records.get()),
            _ => Err(corrupt(Fault::Unaccounted).at(index).into()),
        }
    }

    /// A lease is of an epoch that the records have not passed; nobody holds a sealed run.
    fn lease(&mut self, run: &RunId, row: &RunRow) -> Result<(), StoreError> {
        let Some(lease) = chain::lease_row(self.rows, self.scope, run)? else { return Ok(()) };
        if lease.epoch < row.epoch {
            return Err(differs(self.scope, run, "the lease's epoch", lease.epoch, row.epoch));
        }
        if row.seal.is_some() && lease.is_owned() {
            return Err(differs(self.scope, run, "the owner of a sealed run", lease.owner, String::new()));
        }
        Ok(())
    }
}

impl Expected {
    /// Takes up what another range accounts for.
    pub(super) fn add(&mut self, other: &Self) {
        let Self { effects, cases, activity, sources, outcomes, waiting, unpinned, .. } = other;
        let Self { heads, expiries, admissions, seals, .. } = other;
        self.effects += effects;
        self.cases += cases;
        self.activity += activity;
        self.sources += sources;
        self.outcomes += outcomes;
        self.waiting += waiting;
        self.unpinned += unpinned;
        self.heads += heads;
        self.expiries += expiries;
        self.admissions += admissions;
        self.seals += seals;
    }
}

/// A row that must be there, with exactly this value.
pub(super) fn expect_row(
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

/// A run's row that says another thing than the rest.
pub(super) fn differs<T: std::fmt::Debug>(
    scope: &Scope,
    run: &RunId,
    what: &'static str,
    found: T,
    expected: T,
) -> StoreError {
    let fault = Fault::contradiction(what, found, expected);
    Corruption::in_scope(scope, "run row", fault).of_run(run).into()
}

//! Reading runs, and listing them in every order that somebody needs.

use runseal_evidence::name::{CaseId, Outcome, RunId};

use super::Tenant;
use crate::chain::{self, ReadError, ReadRecord, RunRow, RunSummary, StoredRecord, Upcaster, Wait};
use crate::index::{
    AbandonedRun, ActivityCursor, Admission, Cancellation, CaseRecord, WaitingRun, activity, admission,
    cancellation, case, lapsed, outcome, waiting,
};
use crate::store::{Corruption, Fault, Read, Space, StoreError, Table};

impl Tenant {
    /// Up to `limit` records from number `from` on, each verified: its hash first, then its bytes, its place,
    /// and that it follows the one before it. A page ends early after 16 MiB.
    ///
    /// # Errors
    /// [`ReadError`]; a damaged or missing row is [`StoreError::Corrupt`].
    pub fn read(&self, run: &RunId, from: u64, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        chain::read(&*self.snapshot()?, &self.scope, run, from, limit)
    }

    /// Up to `limit` records from number `from` on, verified as by [`Tenant::read`] and then parsed, each
    /// lifted by `upcaster` to what the caller's code expects today. The stored bytes come along as they are.
    ///
    /// # Errors
    /// [`ReadError`]; [`ReadError::Shape`] where a verified record does not have the shape that the upcaster
    /// knows: skew between builds, and no damage.
    pub fn read_lifted(
        &self,
        run: &RunId,
        from: u64,
        limit: usize,
        upcaster: &dyn Upcaster,
    ) -> Result<Vec<ReadRecord>, ReadError> {
        chain::lift(self.read(run, from, limit)?, &self.scope, run, upcaster)
    }

    /// Up to `limit` records from number `from` on, as stored: what an auditor gets to see, damage and all.
    /// Only a row that cannot be taken apart at all is an error. A page ends early after 16 MiB.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_unverified(
        &self,
        run: &RunId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let rows = self.snapshot()?;
        let page = chain::read_rows(&*rows, &self.scope, run, from, limit)?;
        if page.is_empty() && chain::run_row(&*rows, &self.scope, run)?.is_none() {
            return Err(ReadError::UnknownRun { run: run.clone() });
        }
        Ok(page.into_iter().map(|(seq, row)| row.into_stored(seq)).collect())
    }

    /// A run, if it has records.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn run(&self, run: &RunId) -> Result<Option<RunSummary>, StoreError> {
        Ok(chain::run_row(&*self.snapshot()?, &self.scope, run)?.map(|row| row.summary(run.clone())))
    }

    /// Up to `limit` runs after `after`, by id. Each is seen once, whatever is written meanwhile.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn runs(&self, after: Option<&RunId>, limit: usize) -> Result<Vec<RunSummary>, StoreError> {
        let space = Space::of(&self.scope, Table::Runs);
        let range = match after {
            None => space.all(),
            Some(run) => space.all().after(space.key(&[run.as_str().as_bytes()])),
        };
        let runs = chain::runs(&*self.snapshot()?, &self.scope, &range, limit)?;
        Ok(runs.into_iter().map(|(run, row)| row.summary(run)).collect())
    }

    /// Up to `limit` runs whose last conclusion is `outcome`, the newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn runs_by_outcome(&self, outcome: &Outcome, limit: usize) -> Result<Vec<RunSummary>, StoreError> {
        let rows = self.snapshot()?;
        let runs = outcome::newest(&*rows, &self.scope, outcome, limit)?;
        let listed = runs.into_iter().map(|run| {
            let row = self.borne_out(&*rows, "outcome", &run, |row| {
                row.conclusion.as_ref().is_some_and(|last| last.outcome == *outcome)
            })?;
            Ok(row.summary(run))
        });
        listed.collect()
    }

    /// How many runs have `outcome` as their last conclusion: all of them, not a page.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn count_by_outcome(&self, outcome: &Outcome) -> Result<u64, StoreError> {
        outcome::counted(&*self.snapshot()?, &self.scope, outcome)
    }

    /// Up to `limit` runs by their last append, the newest first, ties by id descending; after `after`,
    /// exclusive.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn recent_runs(
        &self,
        after: Option<&ActivityCursor>,
        limit: usize,
    ) -> Result<Vec<ActivityCursor>, StoreError> {
        self.recent(None, after, limit)
    }

    /// The same, of the runs that `source` asked for.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn recent_runs_from(
        &self,
        source: &str,
        after: Option<&ActivityCursor>,
        limit: usize,
    ) -> Result<Vec<ActivityCursor>, StoreError> {
        self.recent(Some(source), after, limit)
    }

    fn recent(
        &self,
        source: Option<&str>,
        after: Option<&ActivityCursor>,
        limit: usize,
    ) -> Result<Vec<ActivityCursor>, StoreError> {
        let rows = self.snapshot()?;
        let listed = activity::newest(&*rows, &self.scope, source, after, limit)?;
        for ActivityCursor { run, updated_ms } in &listed {
            self.borne_out(&*rows, "activity", run, |row| {
                row.updated_ms == *updated_ms && (source.is_none() || row.source.as_deref() == source)
            })?;
        }
        Ok(listed)
    }

    /// Up to `limit` runs whose last record suspends them, those first that should have moved on first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn waiting_runs(&self, limit: usize) -> Result<Vec<WaitingRun>, StoreError> {
        let rows = self.snapshot()?;
        let listed = waiting::due_first(&*rows, &self.scope, limit)?;
        for listed in &listed {
            let waits = listed.until_ms.map_or(Wait::Indefinite, Wait::Until);
            self.borne_out(&*rows, "waiting run", &listed.run, |row| row.waiting == Some(waits))?;
        }
        Ok(listed)
    }

    /// Up to `limit` runs whose lease lapsed without being returned, the longest ago first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn abandoned_runs(&self, limit: usize) -> Result<Vec<AbandonedRun>, StoreError> {
        lapsed::oldest(&*self.snapshot()?, &self.scope, self.shared.plane.clock.now_ms(), limit)
    }

    /// Up to `limit` records of a case after `after`, by run and number, whichever run they are of.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn case_records(
        &self,
        case: &CaseId,
        after: Option<&CaseRecord>,
        limit: usize,
    ) -> Result<Vec<CaseRecord>, StoreError> {
        case::records(&*self.snapshot()?, &self.scope, case, after, limit)
    }

    /// Which run an admission key admitted. The append that claims a key decides; this only says who did.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn admitted_as(&self, admission_key: &str) -> Result<Option<Admission>, StoreError> {
        admission::admitted_as(&*self.snapshot()?, &self.scope, admission_key)
    }

    /// The request to stop that was noted for a run.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn cancellation(&self, run: &RunId) -> Result<Option<Cancellation>, StoreError> {
        cancellation::requested(&*self.snapshot()?, &self.scope, run)
    }

    /// The row of a run that a listing names, which every index follows: `holds` says whether it bears the listing
    /// out. A listed `noun` that nothing accounts for is corruption.
    fn borne_out(
        &self,
        rows: &dyn Read,
        noun: &'static str,
        run: &RunId,
        holds: impl Fn(&RunRow) -> bool,
    ) -> Result<RunRow, StoreError> {
        let row = chain::run_row(rows, &self.scope, run)?.filter(holds);
        row.ok_or_else(|| Corruption::in_scope(&self.scope, noun, Fault::Unaccounted).of_run(run).into())
    }
}

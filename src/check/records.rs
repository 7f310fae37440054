//! The records: each chain walked in one scan, and everything that follows from a run's records compared.

use runseal_evidence::name::RunId;

use super::facts::Facts;
use super::{Check, CheckPart, PROGRESS_ROWS};
use crate::chain::{self, RecordRow, stored_run};
use crate::store::{Corruption, Direction, Fault, Scanned, Space, StoreError, Table};

impl Check<'_> {
    pub(super) fn records(&mut self) -> Result<(), StoreError> {
        let space = chain::records(self.scope);
        let (rows, mut failed, mut facts) = (self.rows, None, None);
        rows.scan(&space.all(), Direction::Ascending, &mut |key, value| match self.record(
            &mut facts,
            space.own(key),
            value,
        ) {
            Ok(()) => Scanned::Continue(()),
            Err(error) => {
                failed = Some(error);
                Scanned::Break(())
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        if let Some(last) = facts {
            self.finish(&last)?;
        }
        self.advance(CheckPart::Records, self.report.records, None);
        self.runs_without_records()
    }

    /// The next row of the records table, which is of the run at hand or the first of the next.
    fn record(&mut self, facts: &mut Option<Facts>, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let corrupt = |fault: Fault| Corruption::in_scope(self.scope, "record", fault);
        let (name, seq) = key.split_last_chunk::<8>().unwrap_or((key, &[0; 8]));
        let (name, seq) = (name.strip_suffix(&[0]).unwrap_or(name), u64::from_be_bytes(*seq));
        if facts.as_ref().is_none_or(|facts| facts.run.as_str().as_bytes() != name) {
            let run = stored_run(self.scope, "record", name)?;
            if let Some(last) = facts.replace(Facts::of(self.tenant, run)) {
                self.finish(&last)?;
            }
        }
        let facts = facts.as_mut().expect("set just above");
        if seq != facts.records + 1 {
            return Err(corrupt(Fault::Missing).of_run(&facts.run).at(facts.records + 1).into());
        }
        let row =
            RecordRow::decode(value).map_err(|fault| corrupt(fault.into()).of_run(&facts.run).at(seq))?;
        let record = row.verify(self.scope, &facts.run, seq, Some(facts.chain))?;
        self.signature(&facts.run, seq, &row)?;
        self.derived_from(&facts.run, &record)?;
        facts.take(self.scope, &row, &record)?;
        self.report.records += 1;
        self.report.bytes += row.raw.len() as u64;
        if self.report.records.is_multiple_of(PROGRESS_ROWS) {
            self.advance(CheckPart::Records, self.report.records, None);
        }
        Ok(())
    }

    /// A plane that signs records signs them all.
    fn signature(&self, run: &RunId, seq: u64, record: &RecordRow) -> Result<(), StoreError> {
        let Some(verifier) = &self.signer else { return Ok(()) };
        let corrupt = |fault: Fault| Corruption::in_scope(self.scope, "record", fault).of_run(run).at(seq);
        let signature = record.signature.as_ref();
        let signature =
            signature.ok_or_else(|| corrupt(Fault::contradiction("its signature", "none", "one")))?;
        verifier.verify(&record.hash, signature).map_err(|error| corrupt(error.into()).into())
    }

    /// All records of a run have been seen: now its row and its places in the indexes.
    fn finish(&mut self, facts: &Facts) -> Result<(), StoreError> {
        let run = &facts.run;
        let row = chain::run_row(self.rows, self.scope, run)?;
        let row =
            row.ok_or_else(|| Corruption::in_scope(self.scope, "run row", Fault::Missing).of_run(run))?;
        facts.compare(self.scope, &row)?;
        self.places(run, &row, facts.reason.as_ref())?;
        self.report.runs += 1;
        Ok(())
    }

    /// Every run row has records: as many rows as runs were seen.
    fn runs_without_records(&self) -> Result<(), StoreError> {
        let space = Space::of(self.scope, Table::Runs);
        let mut bare = None;
        let mut rows = 0;
        self.rows.scan(&space.all(), Direction::Ascending, &mut |_, _| {
            rows += 1;
            Scanned::Continue(())
        })?;
        if rows == self.report.runs {
            return Ok(());
        }
        let mut failed = None;
        self.rows.scan(&space.all(), Direction::Ascending, &mut |key, _| {
            let found = stored_run(self.scope, "run row", space.own(key)).and_then(|run| {
                let first = self.rows.get(&chain::record_key(self.scope, &run, 1))?;
                Ok(first.is_none().then_some(run))
            });
            match found {
                Ok(None) => return Scanned::Continue(()),
                Ok(Some(run)) => bare = Some(run),
                Err(error) => failed = Some(error),
            }
            Scanned::Break(())
        })?;
        failed.map_or(Ok(()), Err)?;
        let corruption = Corruption::in_scope(self.scope, "record", Fault::Missing).at(1);
        Err(bare.map_or(corruption.clone(), |run| corruption.of_run(run)).into())
    }
}

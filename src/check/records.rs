//! The records of a range of runs: each chain walked in one scan, and everything that follows from a run's
//! records compared.

use runseal_evidence::name::{RunId, TenantId};
use runseal_evidence::signature::RecordVerifier;

use super::PROGRESS_ROWS;
use super::facts::Facts;
use super::places::Expected;
use crate::chain::{self, RecordRow, RunRow, stored_run};
use crate::store::{Corruption, Direction, Fault, KeyRange, Read, Scanned, Scope, Space, StoreError, Table};

/// Run rows read at once.
const PAGE: usize = 256;

/// What walking a range came to.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) runs: u64,
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// Index rows that the runs account for, each of them looked up.
    pub(super) expected: Expected,
}

/// Walks the runs whose names are from `from` to below `to`, both tables side by side.
pub(super) struct Walk<'c> {
    pub(super) rows: &'c (dyn Read + Sync),
    pub(super) tenant: &'c TenantId,
    pub(super) scope: &'c Scope,
    pub(super) signer: Option<&'c RecordVerifier>,
    pub(super) walked: Walked,
    /// Run rows read ahead, and where the next page of them starts.
    ahead: std::collections::VecDeque<(RunId, RunRow)>,
    rest: Option<KeyRange>,
    range: KeyRange,
    tick: &'c dyn Fn(u64, u64),
    ticked: (u64, u64),
}

impl<'c> Walk<'c> {
    /// A walk that tells `tick` of more records and bytes now and then.
    pub(super) fn new(
        rows: &'c (dyn Read + Sync),
        tenant: &'c TenantId,
        scope: &'c Scope,
        signer: Option<&'c RecordVerifier>,
        (from, to): (&[u8], Option<&[u8]>),
        tick: &'c dyn Fn(u64, u64),
    ) -> Self {
        let range = |table| {
            let space = Space::of(scope, table);
            let range = space.all().from(space.key(&[from]));
            match to {
                Some(to) => range.before(space.key(&[to])),
                None => range,
            }
        };
        Self {
            rows,
            tenant,
            scope,
            signer,
            walked: Walked::default(),
            ahead: std::collections::VecDeque::new(),
            rest: Some(range(Table::Runs)),
            range: range(Table::Records),
            tick,
            ticked: (0, 0),
        }
    }

    pub(super) fn walk(&mut self) -> Result<(), StoreError> {
        let (rows, range, space) = (self.rows, self.range.clone(), chain::records(self.scope));
        let (mut failed, mut facts) = (None, None);
        rows.scan(&range, Direction::Ascending, &mut |key, value| match self.record(
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
        self.tell();
        match self.next_row()? {
            None => Ok(()),
            Some((run, _)) => Err(self.without_records(&run)),
        }
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
        self.walked.records += 1;
        self.walked.bytes += row.raw.len() as u64;
        if self.walked.records.is_multiple_of(PROGRESS_ROWS) {
            self.tell();
        }
        Ok(())
    }

    /// A plane that signs records signs them all.
    fn signature(&self, run: &RunId, seq: u64, record: &RecordRow) -> Result<(), StoreError> {
        let Some(verifier) = self.signer else { return Ok(()) };
        let corrupt = |fault: Fault| Corruption::in_scope(self.scope, "record", fault).of_run(run).at(seq);
        let signature = record.signature.as_ref();
        let signature =
            signature.ok_or_else(|| corrupt(Fault::contradiction("its signature", "none", "one")))?;
        verifier.verify(&record.hash, signature).map_err(|error| corrupt(error.into()).into())
    }

    /// All records of a run have been seen: now its row and its places in the indexes.
    fn finish(&mut self, facts: &Facts) -> Result<(), StoreError> {
        match self.next_row()? {
            Some((run, row)) if run == facts.run => {
                facts.compare(self.scope, &row)?;
                self.places(&run, &row, facts.reason.as_ref())?;
                self.walked.runs += 1;
                Ok(())
            }
            Some((run, _)) if run < facts.run => Err(self.without_records(&run)),
            _ => Err(Corruption::in_scope(self.scope, "run row", Fault::Missing).of_run(&facts.run).into()),
        }
    }

    /// The next run row of the range.
    fn next_row(&mut self) -> Result<Option<(RunId, RunRow)>, StoreError> {
        if self.ahead.is_empty()
            && let Some(range) = self.rest.take()
        {
            self.ahead = chain::runs(self.rows, self.scope, &range, PAGE)?.into();
            if let Some((last, _)) = self.ahead.back() {
                let space = Space::of(self.scope, Table::Runs);
                self.rest = Some(range.after(space.key(&[last.as_str().as_bytes()])));
            }
        }
        Ok(self.ahead.pop_front())
    }

    fn without_records(&self, run: &RunId) -> StoreError {
        Corruption::in_scope(self.scope, "record", Fault::Missing).of_run(run).at(1).into()
    }

    fn tell(&mut self) {
        let (records, bytes) = self.ticked;
        (self.tick)(self.walked.records - records, self.walked.bytes - bytes);
        self.ticked = (self.walked.records, self.walked.bytes);
    }
}

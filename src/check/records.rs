//! The records: each chain walked, and each run's row held against what its records say.

use runseal_evidence::chain::ChainHash;
use runseal_evidence::name::RunId;
use runseal_evidence::payload::Meaning;

use super::{Check, CheckPart, PROGRESS_ROWS};
use crate::chain::{self, RecordRow, RunRow};
use crate::store::{Corruption, Fault, Space, StoreError, Table};

/// Runs read at once.
const RUNS: usize = 256;
/// Records read at once, a page of bytes at most.
const RECORDS: usize = 1024;

impl Check<'_> {
    pub(super) fn records(&mut self) -> Result<(), StoreError> {
        let space = Space::of(self.scope, Table::Runs);
        let mut range = space.all();
        loop {
            let runs = chain::runs(self.rows, self.scope, &range, RUNS)?;
            let Some((last, _)) = runs.last() else { break };
            range = space.all().after(space.key(&[last.as_str().as_bytes()]));
            for (run, row) in runs {
                self.run(&run, &row)?;
                self.report.runs += 1;
            }
        }
        self.advance(CheckPart::Records, self.report.records, None);
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

    fn run(&mut self, run: &RunId, row: &RunRow) -> Result<(), StoreError> {
        let mut chain = ChainHash::genesis(self.tenant, run);
        let mut seq = 0;
        let mut epoch = 0;
        let mut concluded = None;
        loop {
            let page = chain::read_rows(self.rows, self.scope, run, seq + 1, RECORDS)?;
            if page.is_empty() {
                break;
            }
            for (found, record) in page {
                seq += 1;
                if found != seq {
                    return Err(Corruption::in_scope(self.scope, "record", Fault::Missing)
                        .of_run(run)
                        .at(seq)
                        .into());
                }
                let parsed = record.verify(self.scope, run, seq, Some(chain))?;
                if parsed.stamp.epoch < epoch {
                    return Err(self.differs(run, "the epoch", parsed.stamp.epoch, epoch));
                }
                epoch = parsed.stamp.epoch;
                self.signature(run, seq, &record)?;
                concluded = match Meaning::of(&parsed.draft.kind, &parsed.draft.payload) {
                    Ok(Meaning::RunConcluded(concluded)) => Some(concluded.outcome),
                    _ => None,
                };
                chain = record.hash;
                self.report.records += 1;
                self.report.bytes += record.raw.len() as u64;
                if self.report.records.is_multiple_of(PROGRESS_ROWS) {
                    self.advance(CheckPart::Records, self.report.records, None);
                }
            }
        }
        let stored = (row.records, row.chain, row.epoch, row.concluded);
        let computed = (seq, chain, epoch, concluded.is_some());
        if stored == computed { Ok(()) } else { Err(self.differs(run, "the run's row", stored, computed)) }
    }
}

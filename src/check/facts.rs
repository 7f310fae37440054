//! What the records of one run say about it.

use runseal_evidence::chain::ChainHash;
use runseal_evidence::json::Json;
use runseal_evidence::name::{Outcome, RunId, TenantId};
use runseal_evidence::payload::Meaning;
use runseal_evidence::record::RecordView;

use crate::chain::{Conclusion, RunRow, Wait};
use crate::store::{Corruption, Fault, Scope, StoreError};

/// A run's row as its records have it.
pub(super) struct Facts {
    pub(super) run: RunId,
    pub(super) records: u64,
    pub(super) chain: ChainHash,
    epoch: u64,
    updated_ms: i64,
    pub(super) concluded: bool,
    pub(super) outcome: Option<Outcome>,
    /// When the last conclusion was appended.
    pub(super) concluded_ms: Option<i64>,
    waiting: Option<Wait>,
    pub(super) reason: Option<Json>,
    source: Option<String>,
    admitted: bool,
}

impl Facts {
    /// A run before its first record.
    pub(super) fn of(tenant: &TenantId, run: RunId) -> Self {
        let chain = ChainHash::genesis(tenant, &run);
        Self {
            run,
            records: 0,
            chain,
            epoch: 0,
            updated_ms: 0,
            concluded: false,
            outcome: None,
            concluded_ms: None,
            waiting: None,
            reason: None,
            source: None,
            admitted: false,
        }
    }

    /// Takes up the next record, whose chain hash and meaning these are.
    pub(super) fn take(
        &mut self,
        scope: &Scope,
        hash: ChainHash,
        record: &RecordView<'_>,
        meaning: Meaning,
    ) -> Result<(), StoreError> {
        let (seq, epoch) = (record.seq(), record.epoch());
        if epoch < self.epoch || epoch == 0 {
            let fault = Fault::contradiction("the epoch", epoch, self.epoch.max(1));
            return Err(Corruption::in_scope(scope, "record", fault).of_run(&self.run).at(seq).into());
        }
        (self.records, self.chain, self.epoch) = (seq, hash, epoch);
        self.updated_ms = record.at().posix_ms();
        (self.concluded, self.waiting, self.reason) = (false, None, None);
        match meaning {
            Meaning::RunConcluded(concluded) => {
                self.concluded = true;
                self.outcome = Some(concluded.outcome);
                self.concluded_ms = Some(self.updated_ms);
            }
            Meaning::RunSuspended(suspended) => {
                let until = suspended.until.map(|until| Wait::Until(until.posix_ms()));
                self.waiting = Some(until.unwrap_or(Wait::Indefinite));
                self.reason = suspended.reason;
            }
            Meaning::RunAdmitted(admitted) => {
                self.admitted |= admitted.admission_key.is_some();
                if self.source.is_none() {
                    self.source = admitted.source;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Holds the row of the run against the records.
    pub(super) fn compare(&self, scope: &Scope, row: &RunRow) -> Result<(), StoreError> {
        let differs = |what, found: String, expected: String| {
            let fault = Fault::Contradiction { what, found, expected };
            Err(Corruption::in_scope(scope, "run row", fault).of_run(&self.run).into())
        };
        macro_rules! agree {
            ($what:literal, $found:expr, $expected:expr) => {
                if $found != $expected {
                    return differs($what, format!("{:?}", $found), format!("{:?}", $expected));
                }
            };
        }
        agree!("the number of records", row.records, self.records);
        agree!("the chain", row.chain, self.chain);
        agree!("the epoch", row.epoch, self.epoch);
        agree!("the time", row.updated_ms, self.updated_ms);
        agree!("whether it has concluded", row.concluded, self.concluded);
        agree!("the outcome", row.conclusion.as_ref().map(|c| &c.outcome), self.outcome.as_ref());
        agree!("the wait", row.waiting, self.waiting);
        agree!("the source", row.source, self.source);
        agree!("whether it was admitted by key", row.admitted, self.admitted);
        Ok(())
    }

    /// The row of the run, made from the records and from what the log says of it.
    pub(super) fn row(&self, pinned: u64, seal: Option<u64>, ordinal: impl FnOnce() -> u64) -> RunRow {
        let conclude = |outcome: &Outcome| Conclusion { outcome: outcome.clone(), ordinal: ordinal() };
        RunRow {
            records: self.records,
            chain: self.chain,
            epoch: self.epoch,
            updated_ms: self.updated_ms,
            concluded: self.concluded,
            conclusion: self.outcome.as_ref().map(conclude),
            waiting: self.waiting,
            source: self.source.clone(),
            admitted: self.admitted,
            pinned,
            seal,
        }
    }
}

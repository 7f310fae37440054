//! What the records of one run say about it.

use runseal_evidence::chain::ChainHash;
use runseal_evidence::json::Json;
use runseal_evidence::name::{Outcome, RunId, TenantId};
use runseal_evidence::payload::Meaning;
use runseal_evidence::record::Record;

use crate::chain::{RecordRow, RunRow, Wait};
use crate::store::{Corruption, Fault, Scope, StoreError};

/// A run's row as its records have it.
pub(super) struct Facts {
    pub(super) run: RunId,
    pub(super) records: u64,
    pub(super) chain: ChainHash,
    epoch: u64,
    updated_ms: i64,
    concluded: bool,
    outcome: Option<Outcome>,
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
            waiting: None,
            reason: None,
            source: None,
            admitted: false,
        }
    }

    /// Takes up the next record.
    pub(super) fn take(&mut self, scope: &Scope, row: &RecordRow, record: &Record) -> Result<(), StoreError> {
        let stamp = &record.stamp;
        let corrupt =
            |fault: Fault| Corruption::in_scope(scope, "record", fault).of_run(&self.run).at(stamp.seq);
        if stamp.epoch < self.epoch || stamp.epoch == 0 {
            return Err(corrupt(Fault::contradiction("the epoch", stamp.epoch, self.epoch.max(1))).into());
        }
        let meaning = Meaning::of(&record.draft.kind, &record.draft.payload).map_err(|error| {
            corrupt(Fault::contradiction("the payload", error.to_string(), "one of its kind"))
        })?;
        (self.records, self.chain, self.epoch) = (stamp.seq, row.hash, stamp.epoch);
        self.updated_ms = stamp.at.posix_ms();
        (self.concluded, self.waiting, self.reason) = (false, None, None);
        match meaning {
            Meaning::RunConcluded(concluded) => {
                self.concluded = true;
                self.outcome = Some(concluded.outcome);
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
}

//! How much of a chain has been walked and found whole.

use runseal_evidence::chain::ChainHash;
use runseal_evidence::name::{Outcome, RunId, TenantId};
use runseal_evidence::payload::{Meaning, PayloadError};
use runseal_evidence::record::RecordDraft;

use super::append::Appended;
use super::read::read_rows;
use crate::store::{Corruption, Fault, Read, Scope, StoreError};

/// The first records of a run, each seen to hash to what the next one follows.
#[derive(Debug, Clone)]
pub(crate) struct Verified {
    /// How many.
    pub(crate) records: u64,
    /// The hash of the last of them, or the genesis.
    pub(crate) chain: ChainHash,
    /// The outcome that the last of them concludes the run with.
    pub(crate) outcome: Option<Outcome>,
}

/// Records walked at once; a page of bytes at most.
const PAGE: usize = 1024;

impl Verified {
    /// None yet.
    pub(crate) fn nothing(tenant: &TenantId, run: &RunId) -> Self {
        Self { records: 0, chain: ChainHash::genesis(tenant, run), outcome: None }
    }

    /// Takes up the records that `drafts` became, right after what is verified, in this transaction.
    pub(crate) fn follow(&mut self, appended: &[Appended], drafts: &[RecordDraft]) {
        if let (Some(last), Some(draft)) = (appended.last(), drafts.last()) {
            *self = Self { records: last.seq, chain: last.hash, outcome: conclusion(draft) };
        }
    }

    /// Walks on to record `to`, which must exist.
    pub(crate) fn walk(
        &mut self,
        rows: &dyn Read,
        scope: &Scope,
        run: &RunId,
        to: u64,
    ) -> Result<(), StoreError> {
        let missing = |seq| Corruption::in_scope(scope, "record", Fault::Missing).of_run(run).at(seq);
        while self.records < to {
            let wanted = usize::try_from(to - self.records).unwrap_or(PAGE).min(PAGE);
            let page = read_rows(rows, scope, run, self.records + 1, wanted)?;
            if page.is_empty() {
                return Err(missing(self.records + 1).into());
            }
            for (found, row) in page {
                let seq = self.records + 1;
                if found != seq {
                    return Err(missing(seq).into());
                }
                let record = row.verify(scope, run, seq, Some(self.chain))?;
                *self =
                    Self { records: seq, chain: row.hash, outcome: concludes(Meaning::of_record(&record)) };
            }
        }
        Ok(())
    }
}

/// The outcome that a record concludes its run with.
pub(super) fn conclusion(draft: &RecordDraft) -> Option<Outcome> {
    concludes(Meaning::of(&draft.kind, &draft.payload))
}

fn concludes(meaning: Result<Meaning, PayloadError>) -> Option<Outcome> {
    match meaning {
        Ok(Meaning::RunConcluded(concluded)) => Some(concluded.outcome),
        _ => None,
    }
}

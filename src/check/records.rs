//! The records of a range of runs: each chain walked in one scan.

use runseal_evidence::chain::ChainHash;
use runseal_evidence::name::{RunId, TenantId};
use runseal_evidence::payload::Meaning;
use runseal_evidence::record::RecordView;
use runseal_evidence::signature::RecordVerifier;

use super::facts::Facts;
use super::rows::each;
use crate::chain::{self, RecordRowView, stored_run};
use crate::store::{Corruption, Fault, KeyRange, Read, Scope, StoreError};

/// Whose records are walked.
#[derive(Clone, Copy)]
pub(super) struct Chains<'c> {
    pub(super) rows: &'c dyn Read,
    pub(super) tenant: &'c TenantId,
    pub(super) scope: &'c Scope,
    /// Of a plane that signs records: it signs them all.
    pub(super) signer: Option<&'c RecordVerifier>,
}

/// A record that was found to be whole, and to follow the one before it.
pub(super) struct Sound<'r> {
    pub(super) seq: u64,
    pub(super) hash: ChainHash,
    pub(super) record: RecordView<'r>,
    pub(super) meaning: Meaning,
    /// Wire bytes.
    pub(super) bytes: usize,
    /// Bytes of the row, its key included.
    pub(super) held: usize,
}

/// Is told of runs by name, and of the records of each by number.
pub(super) trait Visitor {
    /// A run's records follow.
    fn begin(&mut self, run: &RunId) -> Result<(), StoreError>;

    /// The next record of the run.
    fn record(&mut self, run: &RunId, record: &Sound<'_>) -> Result<(), StoreError>;

    /// Every record of the run has been seen.
    fn end(&mut self, facts: &Facts) -> Result<(), StoreError>;
}

impl Chains<'_> {
    /// Walks the records of `range`, which cuts no run.
    pub(super) fn walk(&self, range: &KeyRange, visitor: &mut impl Visitor) -> Result<(), StoreError> {
        let mut facts: Option<Facts> = None;
        each(self.rows, &chain::records(self.scope), range, |key, value| {
            let (name, seq) = key.split_last_chunk::<8>().unwrap_or((key, &[0; 8]));
            let (name, seq) = (name.strip_suffix(&[0]).unwrap_or(name), u64::from_be_bytes(*seq));
            if facts.as_ref().is_none_or(|facts| facts.run.as_str().as_bytes() != name) {
                let run = stored_run(self.scope, "record", name)?;
                if let Some(last) = facts.take() {
                    visitor.end(&last)?;
                }
                visitor.begin(&run)?;
                facts = Some(Facts::of(self.tenant, run));
            }
            let facts = facts.as_mut().expect("set just above");
            self.record(facts, seq, key.len(), value, visitor)
        })?;
        facts.map_or(Ok(()), |last| visitor.end(&last))
    }

    /// The next row of the run at hand.
    fn record(
        &self,
        facts: &mut Facts,
        seq: u64,
        key_bytes: usize,
        value: &[u8],
        visitor: &mut impl Visitor,
    ) -> Result<(), StoreError> {
        let due = facts.records + 1;
        if seq != due {
            return Err(Corruption::in_scope(self.scope, "record", Fault::Missing)
                .of_run(&facts.run)
                .at(due)
                .into());
        }
        let (row, record, meaning) = sound(self.scope, &facts.run, seq, value, Some(facts.chain))?;
        self.signature(&facts.run, seq, &row)?;
        let (bytes, held) = (row.raw.len(), key_bytes + value.len());
        let sound = Sound { seq, hash: row.hash, record, meaning, bytes, held };
        visitor.record(&facts.run, &sound)?;
        facts.take(self.scope, sound.hash, &sound.record, sound.meaning)
    }

    fn signature(&self, run: &RunId, seq: u64, row: &RecordRowView<'_>) -> Result<(), StoreError> {
        let Some(verifier) = self.signer else { return Ok(()) };
        let corrupt = |fault: Fault| Corruption::in_scope(self.scope, "record", fault).of_run(run).at(seq);
        let signature = row.signature.as_ref();
        let signature =
            signature.ok_or_else(|| corrupt(Fault::contradiction("its signature", "none", "one")))?;
        verifier.verify(&row.hash, signature).map_err(|error| corrupt(error.into()).into())
    }
}

/// Verifies a row as record `seq` of `run`, which follows the record whose hash is `before`, where that is known; and
/// reads what it says.
pub(super) fn sound<'r>(
    scope: &Scope,
    run: &RunId,
    seq: u64,
    value: &'r [u8],
    before: Option<ChainHash>,
) -> Result<(RecordRowView<'r>, RecordView<'r>, Meaning), StoreError> {
    let corrupt =
        |fault: Fault| StoreError::from(Corruption::in_scope(scope, "record", fault).of_run(run).at(seq));
    let row = RecordRowView::decode(value).map_err(|fault| corrupt(fault.into()))?;
    let record = row.verify(scope, run, seq, before)?;
    let meaning = Meaning::of_record(&record).map_err(|error| {
        corrupt(Fault::contradiction("the payload", error.to_string(), "one of its kind"))
    })?;
    Ok((row, record, meaning))
}

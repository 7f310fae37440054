//! Reading old records with today's eyes: a view, under which bytes and hashes stay what they are.

use runseal_evidence::name::RunId;
use runseal_evidence::record::{Record, RecordDraft};

use super::read::{ReadError, StoredRecord};
use crate::store::{Corruption, Scope, StoreError};

/// Lifts what was written by older code to what today's code expects, after the record was verified.
///
/// Kinds and payloads change as agents do; what was sealed does not. An upcaster sees each record's draft and
/// answers the one to work with.
pub trait Upcaster {
    /// The draft as today's code expects it.
    ///
    /// # Errors
    /// Why the draft has a shape that this code does not know.
    fn upcast(&self, draft: RecordDraft) -> Result<RecordDraft, String>;
}

/// Takes every record as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct AsWritten;

impl Upcaster for AsWritten {
    fn upcast(&self, draft: RecordDraft) -> Result<RecordDraft, String> {
        Ok(draft)
    }
}

/// A verified record, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRecord {
    /// The record as stored. An upcaster has no part in it.
    pub stored: StoredRecord,
    /// What it says, as the upcaster has it.
    pub record: Record,
}

/// Parses verified records and lifts them.
pub(crate) fn lift(
    page: Vec<StoredRecord>,
    scope: &Scope,
    run: &RunId,
    upcaster: &dyn Upcaster,
) -> Result<Vec<ReadRecord>, ReadError> {
    let one = |stored: StoredRecord| {
        let seq = stored.seq;
        let Record { draft, stamp } = Record::parse(&stored.raw).map_err(|error| {
            StoreError::from(Corruption::in_scope(scope, "record", error).of_run(run).at(seq))
        })?;
        match upcaster.upcast(draft) {
            Ok(draft) => Ok(ReadRecord { record: Record { draft, stamp }, stored }),
            Err(reason) => Err(ReadError::Shape { run: run.clone(), seq, reason }),
        }
    };
    page.into_iter().map(one).collect()
}

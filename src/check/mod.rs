//! The operator's own full check: everything is recomputed from the records and the entries, and held against
//! what is stored.
//!
//! One snapshot is read from end to end in a handful of passes, each in key order and with flat memory. The
//! first contradiction ends the check and is located.

mod directory;
mod entries;
mod facts;
mod indexes;
mod parallel;
mod places;
mod records;
mod tiles;

pub(crate) use self::directory::directory;

use runseal_evidence::name::{Base, TenantId};
use runseal_evidence::signature::{RecordSigner, RecordVerifier};
use runseal_tlog::key::VerifierKey;

use crate::store::{Corruption, Read, Scope, StoreError};

/// How far a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckProgress {
    /// What is being checked.
    pub part: CheckPart,
    /// Rows of it done.
    pub done: u64,
    /// Rows of it in all, where that is known beforehand.
    pub total: Option<u64>,
    /// Bytes hashed so far, over all parts.
    pub bytes: u64,
}

/// What is being checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CheckPart {
    /// The log's entries and the tree over them.
    Entries,
    /// The records, the chains and all that follows from each run's.
    Records,
    /// Counts, counters and leases, and that no index holds more than the records account for.
    Indexes,
}

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Entries checked.
    pub entries: u64,
    /// Runs checked.
    pub runs: u64,
    /// Records checked.
    pub records: u64,
    /// Bytes of entries and records hashed.
    pub bytes: u64,
    /// The first contradiction. The counts then say how far the check got.
    pub contradiction: Option<Corruption>,
}

impl CheckReport {
    /// Whether everything that there is was checked and holds together.
    pub fn is_sound(&self) -> bool {
        self.contradiction.is_none()
    }
}

pub(crate) fn tenant(
    rows: &(dyn Read + Sync),
    tenant: &TenantId,
    scope: &Scope,
    key: &VerifierKey,
    signer: Option<&RecordSigner>,
    progress: &mut dyn FnMut(CheckProgress),
) -> Result<CheckReport, StoreError> {
    let signer = signer.map(|signer| {
        let name = key.name().as_str();
        let base = Base::of_origin(name, tenant).expect("a log's key is called as the tenant's origin");
        RecordVerifier::new(&base.record_key_name(), &signer.public_key())
            .expect("a public key derived from a seed is canonical and of large order")
    });
    let mut check = Check {
        rows,
        tenant,
        scope,
        key,
        signer,
        report: CheckReport::default(),
        expected: places::Expected::default(),
        seals: 0,
        progress,
    };
    match check.all() {
        Ok(()) => {}
        Err(StoreError::Corrupt(corruption)) => check.report.contradiction = Some(*corruption),
        Err(error) => return Err(error),
    }
    Ok(check.report)
}

struct Check<'c> {
    rows: &'c (dyn Read + Sync),
    tenant: &'c TenantId,
    scope: &'c Scope,
    key: &'c VerifierKey,
    signer: Option<RecordVerifier>,
    report: CheckReport,
    /// Index rows that are accounted for.
    expected: places::Expected,
    /// Seals in the log.
    seals: u64,
    progress: &'c mut dyn FnMut(CheckProgress),
}

impl Check<'_> {
    fn all(&mut self) -> Result<(), StoreError> {
        self.entries()?;
        self.records()?;
        self.indexes()
    }

    fn advance(&mut self, part: CheckPart, done: u64, total: Option<u64>) {
        (self.progress)(CheckProgress { part, done, total, bytes: self.report.bytes });
    }
}

/// Rows between two calls of the caller's progress.
const PROGRESS_ROWS: u64 = 1024;

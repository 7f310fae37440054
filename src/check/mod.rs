//! The operator's own full check: everything is recomputed from the records and the entries, and held against
//! what is stored.
//!
//! One snapshot is read from end to end, each table once and in key order, by every core and with flat memory. What
//! must be there is not looked up: it enters a keyed sum, as does what is there, and equal sums are equal rows
//! ([`digest`]). Only where something differs is everything gone through again, row by row, to find and locate the
//! first contradiction.

mod account;
mod admissions;
mod digest;
mod directory;
mod entries;
mod facts;
mod indexes;
mod ledger;
mod rebuild;
mod records;
mod rows;
mod tasks;
mod tiles;

pub(crate) use self::directory::directory;
pub use self::rebuild::RebuildReport;
pub(crate) use self::rebuild::{rebuild_directory, rebuild_tenant};

use runseal_evidence::name::{Base, TenantId};
use runseal_evidence::signature::{RecordSigner, RecordVerifier};
use runseal_tlog::key::VerifierKey;

use self::digest::RowHash;
use self::ledger::Mode;
use self::tasks::{Tick, pass};
use crate::store::{Corruption, Read, Scope, StoreError};

/// How far a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckProgress {
    /// What is being checked.
    pub part: CheckPart,
    /// Entries, records or tables of it done.
    pub done: u64,
    /// How many there are in all, where that is known beforehand.
    pub total: Option<u64>,
    /// Bytes hashed so far, over all parts.
    pub bytes: u64,
}

/// What is being checked. Parts are checked side by side, and gone through again where something is wrong.
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
    /// Bytes of entries and wire bytes of records hashed.
    pub bytes: u64,
    /// Bytes of the keys and values gone through, each row once; the handful of rows of the log itself left out.
    pub held_bytes: u64,
    /// The first contradiction. The counts then say how far the check got.
    pub contradiction: Option<Corruption>,
}

impl CheckReport {
    /// Whether everything that there is was checked and holds together.
    pub fn is_sound(&self) -> bool {
        self.contradiction.is_none()
    }
}

/// What is checked: one tenant, at one moment.
#[derive(Clone, Copy)]
struct Subject<'c> {
    rows: &'c (dyn Read + Sync),
    tenant: &'c TenantId,
    scope: &'c Scope,
    key: &'c VerifierKey,
    signer: Option<&'c RecordVerifier>,
}

pub(crate) fn tenant(
    rows: &(dyn Read + Sync),
    tenant: &TenantId,
    scope: &Scope,
    key: &VerifierKey,
    signer: Option<&RecordSigner>,
    progress: &mut dyn FnMut(CheckProgress),
) -> Result<CheckReport, StoreError> {
    let signer = signer.map(|signer| verifier(signer, tenant, key));
    let of = Subject { rows, tenant, scope, key, signer: signer.as_ref() };
    let mut advanced = Progress { done: [0; 3], bytes: 0, listener: progress };
    let mut advance = |tick: Tick| advanced.advance(&tick);
    let (mut counts, mut result) = pass(of, Mode::Sum(&RowHash::new()), &mut advance);
    if let Err(StoreError::Corrupt(differs)) = result {
        (counts, result) = pass(of, Mode::LookUp, &mut advance);
        // Each row found where it must be, and none too many, is all that a sum can say: this is for the case that
        // it says something else.
        result = result.and(Err(StoreError::Corrupt(differs)));
    }
    let Counts { entries, runs, records, bytes, held } = counts;
    let report = CheckReport { entries, runs, records, bytes, held_bytes: held, contradiction: None };
    match result {
        Ok(()) => Ok(report),
        Err(StoreError::Corrupt(corruption)) => {
            Ok(CheckReport { contradiction: Some(*corruption), ..report })
        }
        Err(error) => Err(error),
    }
}

/// The key that the records of a plane are signed with.
fn verifier(signer: &RecordSigner, tenant: &TenantId, key: &VerifierKey) -> RecordVerifier {
    let name = key.name().as_str();
    let base = Base::of_origin(name, tenant).expect("a log's key is called as the tenant's origin");
    RecordVerifier::new(&base.record_key_name(), &signer.public_key())
        .expect("a public key derived from a seed is canonical and of large order")
}

/// What was seen.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    entries: u64,
    runs: u64,
    records: u64,
    /// Bytes of entries and records hashed.
    bytes: u64,
    /// Bytes of keys and values read.
    held: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        let Self { entries, runs, records, bytes, held } = other;
        self.entries += entries;
        self.runs += runs;
        self.records += records;
        self.bytes += bytes;
        self.held += held;
    }

    /// What was seen after `before`.
    fn since(&self, before: &Self) -> Self {
        Self {
            entries: self.entries - before.entries,
            runs: self.runs - before.runs,
            records: self.records - before.records,
            bytes: self.bytes - before.bytes,
            held: self.held - before.held,
        }
    }
}

/// Adds up what threads tell of each part.
struct Progress<'c> {
    done: [u64; 3],
    bytes: u64,
    listener: &'c mut dyn FnMut(CheckProgress),
}

impl Progress<'_> {
    fn advance(&mut self, tick: &Tick) {
        let Tick { part, seen, total } = tick;
        self.bytes += seen.bytes;
        let done = &mut self.done[*part as usize];
        *done += match part {
            CheckPart::Entries => seen.entries,
            CheckPart::Records => seen.records,
            CheckPart::Indexes => 1,
        };
        (self.listener)(CheckProgress { part: *part, done: *done, total: *total, bytes: self.bytes });
    }
}

/// Rows between two calls of the caller's progress. Each wakes the caller's thread, which takes a processor from the
/// threads that check.
const PROGRESS_ROWS: u64 = 1 << 16;

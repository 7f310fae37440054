//! A durable journal of agent runs whose history can be checked by people who do not trust its operator.
//!
//! Runs are written as hash-chained records, sealed into one Merkle log a tenant, and shown as signed
//! checkpoints that witnesses cosign. The rules are synchronous code over one ordered key-value transaction;
//! a storage thread runs many commands in one durable commit.
//!
//! | module | holds |
//! |---|---|
//! | `journal`, `tenant` | the handles: [`Journal`], [`Tenant`] |
//! | `chain` | runs: leases, appending, reading, sealing, pinning heads |
//! | `index` | what follows from the records: outcomes, waiting, activity, cases, admissions |
//! | `log` | entries, the tree over them, checkpoints, proofs: [`Log`] |
//! | `export`, `check` | evidence on its way out; the operator's own full check |
//! | `plane` | the directory, its keys and files; the directory of tenants |
//! | [`steps`] | the results of a run's steps, in a file of their own beside the journal |
//! | `store` | the transaction, the thread that commits, the write-ahead log and the tables behind it |
//! | `disk` | what files that are written in place ask of storage: [`Disk`] |
//!
//! Names, records and entries are those of `runseal-evidence`, trees, notes and keys those of
//! `runseal-tlog`.
//!
//! ```
//! use std::time::Duration;
//!
//! use runseal::evidence::{json::Json, name::*, record::RecordDraft};
//! use runseal::{AppendError, CreateOptions, Journal};
//!
//! let dir = tempfile::tempdir()?;
//! let plane = dir.path().join("plane");
//! // Made once, and opened with `Journal::open` from then on.
//! let journal = Journal::create(&plane, &Base::new("log.example.com/plane")?, &CreateOptions::default())?;
//! let acme = journal.tenant(&TenantId::new("acme")?);
//!
//! // Whoever writes to a run claims it; the epoch fences out everybody who claimed it before.
//! let run = RunId::new("refund-4471")?;
//! let epoch = acme.acquire(&run, "worker-1", Duration::from_secs(30))?.epoch;
//!
//! // An effect starts once in a run, whatever crashed in between.
//! let pay = EffectKey::new("d740f1079e06559bc6839ee3bf0588f83c821977aca7eb50cc8d91fc97b11bde")?;
//! let record = |kind: &str, payload: &[u8], effect| -> Result<RecordDraft, Box<dyn std::error::Error>> {
//!     Ok(RecordDraft { kind: Kind::new(kind)?, payload: Json::parse(payload)?, effect, case: None })
//! };
//! acme.append(&run, epoch, vec![record("EffectStarted", br#"{"amount":129.90}"#, Some(pay.clone()))?])?;
//! let again = acme.append(&run, epoch, vec![record("EffectStarted", b"{}", Some(pay.clone()))?]);
//! assert!(matches!(again, Err(AppendError::DuplicateEffect { seq: 1, .. })));
//! acme.append(&run, epoch, vec![record("EffectDone", b"{}", Some(pay))?])?;
//!
//! // Concluded, sealed, and shown: from here on nobody can change the run and not be seen.
//! acme.append(&run, epoch, vec![record("RunConcluded", br#"{"outcome":"succeeded"}"#, None)?])?;
//! assert_eq!(acme.seal(&run, epoch)?.index, 0);
//! let checkpoint = acme.sign_checkpoint()?;
//! acme.publish(&checkpoint)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "cli")]
mod atomic_file;
mod chain;
mod check;
#[cfg(feature = "cli")]
pub mod cli;
mod clock;
mod disk;
mod export;
#[cfg(feature = "cli")]
pub mod importer;
mod index;
mod journal;
#[cfg(feature = "cli")]
pub mod listing;
mod log;
mod plane;
#[cfg(feature = "cli")]
pub mod serve;
mod shared;
pub mod steps;
mod store;
#[cfg(feature = "testkit")]
pub mod tamper;
mod tenant;
#[cfg(test)]
mod tests;
#[cfg(feature = "cli")]
pub mod witnessing;

pub use runseal_evidence as evidence;
pub use runseal_tlog as tlog;

pub use self::chain::{
    AppendError, Appended, AsWritten, Lease, LeaseError, OWNER_BYTES_MAX, PAGE_BYTES_MAX, ReadError,
    ReadRecord, RestoreError, RunSummary, SealError, Sealed, StoredRecord, TTL_MIN, Upcaster,
};
pub use self::check::{CheckPart, CheckProgress, CheckReport, RebuildReport};
pub use self::clock::{Clock, ManualClock, SystemClock};
pub use self::disk::{Disk, FileDisk};
pub use self::export::{ExportError, ExportSummary};
pub use self::index::{
    AbandonedRun, ActivityCursor, Admission, CANCELLATION_TEXT_BYTES_MAX, CancelError, Cancellation,
    CaseRecord, WaitingRun,
};
pub use self::journal::{CreateOptions, Journal, OpenError, OpenOptions, RebuildError};
pub use self::log::{CheckpointError, Log, ProofError, ProveError, PublishError, Remembered};
pub use self::plane::KeyFileError;
pub use self::store::{Ack, AheadFault, Corruption, EngineError, Fault, RowFault, StoreError};
pub use self::tenant::{ImportError, Imported, RestoredRecord, Tenant};

pub(crate) use self::plane::FORMAT;

//! Why a store is not opened, and why a step is not recorded or read.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use runseal_evidence::name::{RunId, StepPath, TenantId};
use runseal_evidence::steps::{Drift, FrameFault, JoinFault, StepKey, StepsFault};
use thiserror::Error;

/// Why a store is not opened. No refusal changes a byte.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another handle has the file open.
    #[error("{} is in use by another process or handle", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened, made or locked.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        error: io::Error,
    },
    /// The bytes are not those of a step store, or damaged.
    #[error(transparent)]
    Fault(#[from] StepsFault),
    /// The device failed. Nothing is taken for torn on that account.
    #[error("{call} failed: {error}")]
    Device {
        /// What it was to do.
        call: DeviceCall,
        /// What went wrong.
        #[source]
        error: io::Error,
    },
    /// No id could be drawn for a new store.
    #[error("no randomness for the id of a new store: {0}")]
    Randomness(#[from] getrandom::Error),
    /// A thread of the store, one that reads ahead or the one that writes, could not be started.
    #[error("a thread of the step store could not be started: {0}")]
    Thread(#[source] io::Error),
}

/// What a device was to do when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceCall {
    /// Tell the size.
    Size,
    /// Read.
    Read,
    /// Write.
    Write,
    /// Cut the torn end off.
    Truncate,
    /// Sync.
    Sync,
}

impl fmt::Display for DeviceCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size => "reading the size of the step file",
            Self::Read => "reading the step file",
            Self::Write => "writing the step file",
            Self::Truncate => "cutting the torn end of the step file",
            Self::Sync => "syncing the step file",
        })
    }
}

impl DeviceCall {
    pub(super) fn failed_to_open(self) -> impl FnOnce(io::Error) -> OpenError {
        move |error| OpenError::Device { call: self, error }
    }

    pub(super) fn failed_for_good(self) -> impl FnOnce(io::Error) -> StepError {
        move |error| StepError::Device { call: self, error: Arc::new(error) }
    }
}

/// A ceiling of [`StepLimits`](super::StepLimits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitKind {
    /// Bytes of a step.
    RecordBytes,
    /// Steps of a run.
    RunSteps,
    /// Bytes of the file.
    FileBytes,
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RecordBytes => "bytes of the step",
            Self::RunSteps => "steps of the run",
            Self::FileBytes => "bytes of the file",
        })
    }
}

/// Why a step is not recorded or not read. Absence is none of these.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum StepError {
    /// The run, or the whole store, belongs to another tenant.
    #[error("refused: run {run} does not belong to tenant {tenant}")]
    ForeignTenant {
        /// The run.
        run: RunId,
        /// The tenant that claims it.
        tenant: TenantId,
    },
    /// The store holds no step of the run.
    #[error("no step of run {run} is recorded")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// The run's steps were made under another definition.
    #[error("refused: run {run} was recorded under another definition: {drift}")]
    Drift {
        /// The run.
        run: RunId,
        /// Where the definitions part.
        drift: Box<Drift>,
    },
    /// The run has a step of this key with another value or path.
    #[error("refused: step {path} of run {run} conflicts with the one recorded under key {key}")]
    Conflicting {
        /// The run.
        run: RunId,
        /// The key.
        key: StepKey,
        /// The path of the step that was refused.
        path: Box<StepPath>,
    },
    /// The step would go over a ceiling.
    #[error("refused: {kind} would be {requested}, the limit is {limit}")]
    Limit {
        /// Which ceiling.
        kind: LimitKind,
        /// What it would come to.
        requested: u64,
        /// The ceiling.
        limit: u64,
    },
    /// Too many appends wait. Nothing was changed; try again.
    #[error("refused: {waiting} appends are waiting, the most that may; try again")]
    QueueFull {
        /// Appends that wait.
        waiting: usize,
    },
    /// A value could not be read. Whether the step is there is not known.
    #[error("the step at byte {at} could not be read: {error}")]
    Read {
        /// Where it is.
        at: u64,
        /// What went wrong.
        #[source]
        error: Arc<io::Error>,
    },
    /// A step is not as it was when the file was opened.
    #[error("the step at byte {at} is damaged: {fault}")]
    Damaged {
        /// Where it is.
        at: u64,
        /// What is wrong with it.
        fault: Box<FrameFault>,
    },
    /// Somebody else changed the file. Nothing was written; the store has to be opened again.
    #[error("the step file has {found} bytes where this store left {expected}; open it again")]
    FileChanged {
        /// The bytes this store left.
        expected: u64,
        /// The bytes there are.
        found: u64,
    },
    /// The device failed. Whether the step is there is not known until the store is opened again.
    #[error("{call} failed; whether the step lasts is unknown until the store is opened again: {error}")]
    Device {
        /// What it was to do.
        call: DeviceCall,
        /// What went wrong.
        #[source]
        error: Arc<io::Error>,
    },
    /// The device failed before. Nothing was changed; the store has to be opened again.
    #[error("refused: the step file failed before; open the store again")]
    Poisoned,
    /// The store stopped before it answered. What it did shows when it is opened again.
    #[error("the step store stopped before it answered; open it again to see what was recorded")]
    Unanswered,
    /// The store is being closed. Nothing was changed.
    #[error("refused: the step store is closed")]
    Closed,
}

impl From<JoinFault> for StepError {
    fn from(fault: JoinFault) -> Self {
        match fault {
            JoinFault::ForeignTenant { run, tenant } => Self::ForeignTenant { run, tenant },
            JoinFault::Drift { run, drift } => Self::Drift { run, drift },
        }
    }
}

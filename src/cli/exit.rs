//! How a command ends: one code for each kind of end, one place that says which error is which.

use std::{io, net::SocketAddr, path::PathBuf, process::ExitCode};

use runseal_evidence::name::{RunId, TenantId};
use runseal_tlog::{policy::PolicyError, tile::TilePath};
use thiserror::Error;

use crate::{
    AheadFault, AppendError, CheckpointError, ExportError, KeyFileError, LeaseError, OpenError, ProofError,
    ProveError, PublishError, ReadError, SealError, StoreError,
    atomic_file::FileError,
    importer,
    listing::RecordsError,
    serve::{AccessError, SetupError, TokensError},
    witnessing::{ClientError, PublicationError},
};

/// The exit codes, the same for every binary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// Done, or verified.
    Done = 0,
    /// An integrity finding.
    Finding = 1,
    /// Wrong usage or input.
    Usage = 2,
    /// Could not finish, or could not check.
    Unfinished = 3,
    /// An internal fault.
    Fault = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what it was asked. The text says what happened and what to try.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CliError {
    /// The journal cannot be made or opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Records are refused.
    #[error(transparent)]
    Append(Box<AppendError>),
    /// A run is not sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// No checkpoint is signed.
    #[error(transparent)]
    Checkpoint(Box<CheckpointError>),
    /// A checkpoint is not published.
    #[error(transparent)]
    Publication(Box<PublicationError>),
    /// There is no proof.
    #[error(transparent)]
    Prove(#[from] ProveError),
    /// An export ended early.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// Records cannot be shown.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// A published note is no checkpoint.
    #[error(transparent)]
    PublishedNote(#[from] runseal_tlog::checkpoint::CheckpointError),
    /// A file of runs is refused.
    #[error(transparent)]
    Import(#[from] importer::ImportError),
    /// What a file holds conflicts with what is stored.
    #[error("{}: {place}: {error}", file.display())]
    ImportRefused {
        /// The file.
        file: PathBuf,
        /// Where in it.
        place: importer::Place,
        /// Why.
        error: Box<AppendError>,
    },
    /// No such run.
    #[error("there is no run {run}; \"runseal runs\" lists those there are")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// A file named on the command line cannot be read.
    #[error("{}: {error}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The policy is refused.
    #[error("{}: {error}", path.display())]
    Policy {
        /// The file.
        path: PathBuf,
        /// Why.
        error: PolicyError,
    },
    /// The policy has another key for this log.
    #[error(
        "the policy lists this log as {listed}, but its key is {own}; nobody who trusts that policy would accept its checkpoints"
    )]
    PolicyKey {
        /// As listed.
        listed: String,
        /// The log's own.
        own: String,
    },
    /// The tokens file is refused.
    #[error("{}: {error}", path.display())]
    Tokens {
        /// The file.
        path: PathBuf,
        /// Why.
        error: TokensError,
    },
    /// The address is none.
    #[error("--listen {listen}: {reason}")]
    Listen {
        /// As given.
        listen: String,
        /// Why.
        reason: String,
    },
    /// The address may not be listened on like this.
    #[error("--listen {listen}: {error}")]
    Access {
        /// The address.
        listen: SocketAddr,
        /// Why.
        error: AccessError,
    },
    /// The address cannot be bound.
    #[error("cannot listen on {listen}: {error}")]
    Bind {
        /// The address.
        listen: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Witnesses cannot be asked.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// There is no publisher.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Too few cosignatures.
    #[error(
        "the quorum is not met by {cosigned} cosignature(s); nothing is published. Try again when more \
         witnesses answer, or use --on-shortfall publish"
    )]
    QuorumMissed {
        /// How many there are.
        cosigned: usize,
    },
    /// A witness contradicts the log.
    #[error(
        "nothing is published for {origin}: a witness holds a history that this journal does not continue. \
         Do not publish until it is known why"
    )]
    Alarmed {
        /// The log.
        origin: String,
    },
    /// No log has a checkpoint.
    #[error("no checkpoint is published; \"runseal checkpoint\" takes one")]
    NothingPublished,
    /// A tile that the published checkpoint implies is not there.
    #[error("{tile} is missing, which the published checkpoint implies; \"runseal check\" says more")]
    TileMissing {
        /// The tile.
        tile: TilePath,
    },
    /// No such tenant.
    #[error("there is no tenant {tenant}")]
    UnknownTenant {
        /// The tenant.
        tenant: TenantId,
    },
    /// The self-check found something.
    #[error("{unsound} of {checked} log(s) and their runs contradict themselves")]
    CheckFailed {
        /// Tenants with a contradiction, the directory counted as one.
        unsound: usize,
        /// Those checked.
        checked: usize,
    },
    /// The self-check met what a newer build wrote.
    #[error("{unread} of {checked} log(s) hold what this version cannot read: use a newer runseal")]
    CheckUnfinished {
        /// Tenants that were not checked to the end, the directory counted as one.
        unread: usize,
        /// All of them.
        checked: usize,
    },
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Stdout cannot be written.
    #[error("stdout: {0}")]
    Stdout(#[source] io::Error),
    /// No randomness for a token.
    #[error("the system gives no randomness: {0}")]
    Randomness(#[from] getrandom::Error),
    /// Threads or signals cannot be set up.
    #[error("the server cannot be set up: {0}")]
    Runtime(#[source] io::Error),
    /// Damage could not be done.
    #[cfg(feature = "testkit")]
    #[error(transparent)]
    Tamper(#[from] crate::tamper::TamperError),
}

/// Errors that say much are kept behind a pointer, so that a result is small where nothing went wrong.
macro_rules! boxed {
    ($($variant:ident($error:ty),)*) => {
        $(impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                Self::$variant(Box::new(error))
            }
        })*
    };
}

boxed! {
    Append(AppendError),
    Checkpoint(CheckpointError),
    Publication(PublicationError),
}

impl CliError {
    /// Whether there is nobody left to tell: who read the output has gone.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self, Self::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The one place where errors become exit codes.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Open(error) => of_open(error),
            Self::Store(error) => of_store(error),
            Self::Append(error) | Self::ImportRefused { error, .. } => of_append(error),
            Self::Seal(error) => of_seal(error),
            Self::Records(error) => of_records(error),
            Self::Checkpoint(error) => of_checkpoint(error),
            Self::Publication(error) => of_publication(error),
            Self::Prove(error) => of_prove(error),
            Self::Export(error) => of_export(error),
            Self::Alarmed { .. }
            | Self::TileMissing { .. }
            | Self::CheckFailed { .. }
            | Self::PublishedNote(_) => Exit::Finding,
            Self::Import(_)
            | Self::UnknownRun { .. }
            | Self::UnknownTenant { .. }
            | Self::Input { .. }
            | Self::Policy { .. }
            | Self::PolicyKey { .. }
            | Self::Tokens { .. }
            | Self::Listen { .. }
            | Self::Access { .. } => Exit::Usage,
            Self::Bind { .. }
            | Self::Client(_)
            | Self::Setup(_)
            | Self::QuorumMissed { .. }
            | Self::CheckUnfinished { .. }
            | Self::NothingPublished
            | Self::File(_)
            | Self::Stdout(_) => Exit::Unfinished,
            Self::Randomness(_) | Self::Runtime(_) => Exit::Fault,
            #[cfg(feature = "testkit")]
            Self::Tamper(error) => of_tamper(error),
        }
    }
}

fn of_open(error: &OpenError) -> Exit {
    match error {
        OpenError::Missing { .. }
        | OpenError::Exists { .. }
        | OpenError::Foreign { .. }
        | OpenError::OtherVersion { .. }
        | OpenError::Key(
            KeyFileError::Exposed { .. } | KeyFileError::Malformed { .. } | KeyFileError::Io { .. },
        )
        | OpenError::OtherKey { .. } => Exit::Usage,
        // The database is older than what was acknowledged after it.
        OpenError::WriteAheadLog { fault: AheadFault::OtherState, .. } => Exit::Finding,
        OpenError::WriteAheadLog { .. }
        | OpenError::InUse { .. }
        | OpenError::Damaged { .. }
        | OpenError::Io { .. }
        | OpenError::Engine(_) => Exit::Unfinished,
        OpenError::Randomness(_) | OpenError::Thread(_) => Exit::Fault,
    }
}

fn of_store(error: &StoreError) -> Exit {
    match error {
        // What a newer build wrote is nothing that this one can judge.
        StoreError::Corrupt(corruption) if corruption.fault.is_skew() => Exit::Unfinished,
        StoreError::Corrupt(_) => Exit::Finding,
        StoreError::Engine(_)
        | StoreError::CommitUnknown(_)
        | StoreError::Poisoned
        | StoreError::Busy { .. }
        | StoreError::Closed
        | StoreError::Unanswered
        | StoreError::File { .. } => Exit::Unfinished,
    }
}

fn of_lease(error: &LeaseError) -> Exit {
    match error {
        LeaseError::LeaseHeld { .. } | LeaseError::LeaseNotHeld { .. } => Exit::Unfinished,
        LeaseError::RunSealed { .. } | LeaseError::EpochsExhausted { .. } => Exit::Usage,
        // Owner and time are the command's own.
        LeaseError::BlankOwner | LeaseError::OwnerTooLong { .. } | LeaseError::Ttl { .. } => Exit::Fault,
        LeaseError::Store(error) => of_store(error),
    }
}

fn of_append(error: &AppendError) -> Exit {
    match error {
        AppendError::Fenced { .. } | AppendError::LeaseNotHeld { .. } | AppendError::Clock(_) => {
            Exit::Unfinished
        }
        AppendError::RunSealed { .. }
        | AppendError::DuplicateEffect { .. }
        | AppendError::DuplicateAdmission { .. }
        | AppendError::AdmittedBefore { .. }
        | AppendError::RecordTooLarge { .. }
        | AppendError::Payload(_)
        | AppendError::RunExists { .. } => Exit::Usage,
        AppendError::Lease(error) => of_lease(error),
        AppendError::Seal(error) => of_seal(error),
        AppendError::Store(error) => of_store(error),
    }
}

fn of_seal(error: &SealError) -> Exit {
    match error {
        SealError::Fenced { .. } | SealError::LeaseNotHeld { .. } => Exit::Unfinished,
        SealError::UnknownRun { .. } | SealError::NotConcluded { .. } | SealError::TooManyRecords { .. } => {
            Exit::Usage
        }
        SealError::Lease(error) => of_lease(error),
        SealError::Store(error) => of_store(error),
    }
}

fn of_checkpoint(error: &CheckpointError) -> Exit {
    match error {
        CheckpointError::NotAnExtension { .. } => Exit::Finding,
        CheckpointError::Store(error) => of_store(error),
    }
}

fn of_publish(error: &PublishError) -> Exit {
    match error {
        PublishError::NotOurs(_)
        | PublishError::OtherOrigin { .. }
        | PublishError::OtherTree { .. }
        | PublishError::Smaller { .. } => Exit::Finding,
        PublishError::Store(error) => of_store(error),
    }
}

fn of_proof(error: &ProofError) -> Exit {
    match error {
        // Sizes come from the tree itself or from a witness that was just compared with it.
        ProofError::BeyondTree { .. } | ProofError::NoSuchLeaf { .. } | ProofError::SizesReversed { .. } => {
            Exit::Finding
        }
        ProofError::Store(error) => of_store(error),
    }
}

fn of_publication(error: &PublicationError) -> Exit {
    match error {
        PublicationError::Log(error) => of_proof(error),
        PublicationError::Publish(error) => of_publish(error),
        PublicationError::Checkpoint(_) | PublicationError::Note(_) => Exit::Fault,
    }
}

fn of_prove(error: &ProveError) -> Exit {
    match error {
        ProveError::UnknownRun { .. } | ProveError::NotSealed { .. } => Exit::Usage,
        ProveError::NotCovered { .. } => Exit::Unfinished,
        ProveError::Store(error) => of_store(error),
    }
}

fn of_records(error: &RecordsError) -> Exit {
    match error {
        RecordsError::Read(ReadError::UnknownRun { .. }) => Exit::Usage,
        // Not damage: another build can read it.
        RecordsError::Read(ReadError::Shape { .. }) => Exit::Unfinished,
        RecordsError::Read(ReadError::Store(error)) => of_store(error),
        RecordsError::Line(_) => Exit::Finding,
    }
}

fn of_export(error: &ExportError) -> Exit {
    match error {
        ExportError::UnknownRun { .. } => Exit::Usage,
        ExportError::NoCheckpoint | ExportError::Io(_) => Exit::Unfinished,
        ExportError::Line(_) => Exit::Finding,
        ExportError::Store(error) => of_store(error),
    }
}

#[cfg(feature = "testkit")]
fn of_tamper(error: &crate::tamper::TamperError) -> Exit {
    use crate::tamper::TamperError;
    match error {
        TamperError::Open(error) => of_open(error),
        TamperError::Store(error) => of_store(error),
        TamperError::Index(error) => of_append(error),
        TamperError::UnknownTenant(_)
        | TamperError::UnknownRun(_)
        | TamperError::NoRecord { .. }
        | TamperError::Sealed(_)
        | TamperError::NoEntry { .. }
        | TamperError::NoTile { .. } => Exit::Usage,
        TamperError::Record { .. } | TamperError::Entry { .. } | TamperError::File { .. } => Exit::Unfinished,
    }
}

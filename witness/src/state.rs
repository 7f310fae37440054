//! What the witness must never forget, and what a store of it promises. The store on disk is
//! [`database`](crate::database).

use std::path::PathBuf;
use std::sync::Arc;

use runseal_tlog::hash::NodeHash;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::database::FORMAT;
use crate::failure::Exit;
use crate::logs::Log;

/// Most distinct contradictions kept for one log; a log that forks without end must not fill the disk.
pub const ALARMS_MAX: usize = 1024;

/// Where a log stands: what the witness last cosigned for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Leaves.
    pub size: u64,
    /// Root.
    pub root: NodeHash,
    /// POSIX seconds of the cosignature; 0 before the first.
    pub time: u64,
}

impl Head {
    /// Where a log stands that was never cosigned: at the empty tree.
    pub const EMPTY: Self = Self { size: 0, root: NodeHash::EMPTY_ROOT, time: 0 };
}

/// A log's head, the note that shows it, and the alarms raised about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cosigned {
    /// The log.
    pub origin: String,
    /// Where it stands.
    pub head: Head,
    /// The checkpoint with the log's verified lines and the witness's own.
    pub note: String,
    /// Distinct checkpoints that contradicted it.
    pub alarms: u64,
}

/// One step of a log, from the head it was decided on.
#[derive(Debug, Clone)]
pub struct Advance {
    /// The log. Its keys are remembered as accepted when it is cosigned for the first time.
    pub log: Arc<Log>,
    /// The head that the decision was made on.
    pub from: Head,
    /// The head after it.
    pub to: Head,
    /// The note to serve from then on.
    pub note: String,
    /// SHA-256 of the checkpoint's text: an alarm about it, raised on a proof that did not verify,
    /// is withdrawn now that one does.
    pub digest: [u8; 32],
}

/// A checkpoint that a log signed and that contradicts what it signed before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// The log.
    pub origin: Arc<str>,
    /// SHA-256 of the contradicting checkpoint's text.
    pub digest: [u8; 32],
    /// POSIX seconds when it was seen.
    pub time: u64,
    /// What kind of contradiction.
    pub kind: &'static str,
}

/// What a store is asked to write.
#[derive(Debug, Clone)]
pub enum Change {
    /// Move a log on.
    Advance(Advance),
    /// Remember a contradiction.
    Alarm(Alarm),
    /// Remember the largest size that a log itself was seen to publish.
    Published {
        /// The log.
        origin: Arc<str>,
        /// The size.
        size: u64,
    },
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It is durable, and it is new.
    Written,
    /// Nothing to write: the alarm is known, or the log has too many.
    Known,
    /// The log moved since the decision was made; decide again.
    Stale,
}

/// Where the witness keeps what it must never forget.
///
/// Calls may come from several threads. A change is visible to readers only once it is durable.
pub trait Store: Send + Sync + 'static {
    /// Where a log stands; [`Head::EMPTY`] if it was never cosigned.
    ///
    /// # Errors
    /// [`StateError`]; an unreadable head is never an empty one.
    fn head(&self, origin: &str) -> Result<Head, StateError>;

    /// Applies changes in order, all in one transaction, and answers what became of each. When it
    /// returns, what was written is on disk.
    ///
    /// # Errors
    /// [`StateError`]: then nothing may be taken as written, nor as not written.
    fn commit(&self, changes: &[Change]) -> Result<Vec<Applied>, StateError>;

    /// The note of the log whose origin has this SHA-256.
    ///
    /// # Errors
    /// [`StateError`].
    fn note(&self, origin_hash: &[u8; 32]) -> Result<Option<String>, StateError>;

    /// Up to `limit` cosigned logs in order of origin, from the first one after `after`.
    ///
    /// # Errors
    /// [`StateError`].
    fn cosigned(&self, after: Option<&str>, limit: usize) -> Result<Vec<Cosigned>, StateError>;

    /// The largest size that the log itself was seen to publish; 0 if none.
    ///
    /// # Errors
    /// [`StateError`].
    fn published(&self, origin: &str) -> Result<u64, StateError>;

    /// Makes a store usable again after a failed commit.
    ///
    /// # Errors
    /// [`StateError`]: it still is not.
    fn recover(&self) -> Result<(), StateError>;
}

/// Why the state cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StateError {
    /// There is no such file. It is never made by accident.
    #[error("there is no witness database {path}; make one with `runseal-witness init --db {path}` if this is a new witness, or restore it if it is not: a witness that starts afresh could sign a split view", path = .0.display())]
    Missing(PathBuf),
    /// There is something already.
    #[error("{path} exists and is never overwritten", path = .0.display())]
    Exists(PathBuf),
    /// Not a witness database.
    #[error("{path} is not a witness database: {found}", path = .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        found: String,
    },
    /// A witness database of another version.
    #[error("{path} is a witness database of format {found:?}; this program reads {FORMAT:?}", path = .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: String,
    },
    /// Open elsewhere.
    #[error("{path} is in use by another process; stop it first", path = .0.display())]
    Busy(PathBuf),
    /// A stored checkpoint that does not hold.
    #[error(
        "the stored state of the log {origin:?} is damaged: {fault}; nothing is signed from a damaged database. Restore it from `runseal-witness db export`, or from the copy that this witness serves to monitors"
    )]
    Damaged {
        /// The log.
        origin: String,
        /// What is wrong.
        fault: String,
    },
    /// The file does not hold together.
    #[error(
        "the witness database is damaged: {0}; nothing is signed from a damaged database. Restore it from `runseal-witness db export`"
    )]
    DamagedFile(String),
    /// The file system refuses.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The database failed.
    #[error("the witness database failed: {0}")]
    Database(#[source] redb::Error),
    /// A commit failed before, and nothing has been repaired since.
    #[error("the witness database failed before and could not be reopened yet")]
    Closed,
}

/// Every redb error widens to `redb::Error`, so that plain `?` works on all of them.
impl<E: Into<redb::Error>> From<E> for StateError {
    fn from(error: E) -> Self {
        Self::Database(error.into())
    }
}

impl StateError {
    /// The exit code for this error.
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Missing(_) | Self::Exists(_) | Self::Foreign { .. } | Self::Version { .. } => Exit::Usage,
            Self::Busy(_)
            | Self::Damaged { .. }
            | Self::DamagedFile(_)
            | Self::Io { .. }
            | Self::Database(_)
            | Self::Closed => Exit::Unfinished,
        }
    }
}

/// SHA-256 of an origin, as the monitoring path spells it in hex.
pub fn origin_hash(origin: &str) -> [u8; 32] {
    Sha256::digest(origin).into()
}

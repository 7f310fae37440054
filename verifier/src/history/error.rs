//! Why a history cannot be used.

use std::io;
use std::path::PathBuf;

use redb::StorageError;
use runseal_tlog::bundle::BundleError;
use runseal_tlog::tile::TileError;
use thiserror::Error;

use crate::error::{EXIT_UNFINISHED, EXIT_USAGE};

/// Why the history cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// There is no such file.
    #[error("{path}: there is no history file; an audit with --history makes one")]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened for reading and writing.
    #[error("{path} cannot be opened for reading and writing: {source}")]
    Access {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another file, or one of another version.
    #[error("{path} is not a history of this version: {reason}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        reason: String,
    },
    /// Another process has it open.
    #[error("{path} is in use by another process")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The history knows no such log.
    #[error("the history holds no log with origin {0:?}")]
    UnknownLog(String),
    /// The store failed.
    #[error("the history failed: {0}")]
    Store(Box<redb::Error>),
    /// What is stored is not what was written.
    #[error("the history is damaged: {0}")]
    Damaged(#[from] Damage),
}

impl HistoryError {
    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Absent { .. } | Self::Access { .. } | Self::Foreign { .. } | Self::UnknownLog(_) => {
                EXIT_USAGE
            }
            Self::InUse { .. } | Self::Store(_) | Self::Damaged(_) => EXIT_UNFINISHED,
        }
    }
}

/// What is wrong with a stored value.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Damage {
    /// Pages of the file.
    #[error(
        "{path} has pages that are not as they were written; nothing is concluded from it. Put back a copy, or start \
         a new one and compare it with what other auditors remember"
    )]
    Pages {
        /// The file.
        path: PathBuf,
    },
    /// A checkpoint.
    #[error("the checkpoint of size {size} does not read: {reason}")]
    Checkpoint {
        /// Its size by its key.
        size: u64,
        /// Why.
        reason: String,
    },
    /// A tile.
    #[error("tile {level}/{index}: {error}")]
    Tile {
        /// Its level.
        level: u8,
        /// Its index.
        index: u64,
        /// What is wrong.
        error: TileError,
    },
    /// A tile or bundle that should be there.
    #[error("{what} {index} is missing")]
    Missing {
        /// `leaf tile`, `bundle`, …
        what: &'static str,
        /// Its index.
        index: u64,
    },
    /// A bundle.
    #[error("bundle {index}: {error}")]
    Bundle {
        /// Its index.
        index: u64,
        /// What is wrong.
        error: BundleError,
    },
    /// Marks that are not whole.
    #[error("segment {0} is not a whole number of marks")]
    Segment(u32),
    /// A stored finding.
    #[error("finding {0} does not read")]
    Finding(u64),
    /// The key that runs are hashed with.
    #[error("the run key does not read")]
    RunKey,
}

macro_rules! store_errors {
    ($($error:ty),*) => {
        $(impl From<$error> for HistoryError {
            fn from(error: $error) -> Self {
                Self::Store(Box::new(error.into()))
            }
        })*
    };
}
store_errors!(
    StorageError,
    redb::TableError,
    redb::TransactionError,
    redb::CommitError,
    redb::SetDurabilityError,
    redb::DatabaseError
);

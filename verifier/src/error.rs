//! Why a command cannot do its work at all, and the exit code of each reason.
//!
//! What goes wrong with the evidence itself is no failure but part of the report.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::history::HistoryError;
#[cfg(feature = "cli")]
use crate::online::alert::HookError;
#[cfg(feature = "cli")]
use crate::online::http::FetchError;
#[cfg(feature = "cli")]
use crate::online::source::SourceError;
use crate::trust::TrustError;

/// Wrong usage or input.
pub const EXIT_USAGE: u8 = 2;
/// Could not finish or could not check.
pub const EXIT_UNFINISHED: u8 = 3;
/// An internal fault.
pub const EXIT_INTERNAL: u8 = 4;

/// Why there is no report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// A file named on the command line cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file longer than anything of its kind.
    #[error("{path} is longer than the {limit} bytes that a {what} can have")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A result cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what the command reads.
    #[error("{path} is not a {what}: {reason}")]
    NotA {
        /// The file.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
        /// What is wrong with it, completed from a typed error of its parser.
        reason: String,
    },
    /// The trust configuration.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The history file.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// Where a log or its records are to come from.
    #[cfg(feature = "cli")]
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A URL or token that no request can be made with.
    #[cfg(feature = "cli")]
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A test alert that nobody took.
    #[cfg(feature = "cli")]
    #[error(transparent)]
    Hook(#[from] HookError),
    /// An address the metrics cannot be served on.
    #[cfg(feature = "cli")]
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Options that do not go together.
    #[error("{0}")]
    Usage(&'static str),
    /// The async runtime, or a task of ours that panicked.
    #[error("internal fault: {0}")]
    Internal(String),
}

impl Failure {
    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Read { .. }
            | Self::TooLong { .. }
            | Self::NotA { .. }
            | Self::Trust(_)
            | Self::Usage(_) => EXIT_USAGE,
            #[cfg(feature = "cli")]
            Self::Source(SourceError::Url { .. } | SourceError::NotADirectory { .. }) => EXIT_USAGE,
            Self::History(error) => error.exit_code(),
            Self::Write { .. } => EXIT_UNFINISHED,
            #[cfg(feature = "cli")]
            Self::Source(_) | Self::Fetch(_) | Self::Hook(_) | Self::Bind { .. } => EXIT_UNFINISHED,
            Self::Internal(_) => EXIT_INTERNAL,
        }
    }
}

#[cfg(feature = "cli")]
impl From<tokio::task::JoinError> for Failure {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Internal(error.to_string())
    }
}

//! How a command ends: its exit code, and the error that a person reads.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use thiserror::Error;

use crate::keys::{KeyFileError, KeysError};
use crate::logs::LogsError;
use crate::state::StateError;

/// Exit codes, the same for every command of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
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

/// Why a command did not do what it was asked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// A key file.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// The keys together.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The lists of logs.
    #[error(transparent)]
    Logs(#[from] LogsError),
    /// The state file.
    #[error(transparent)]
    State(#[from] StateError),
    /// The listening address.
    #[error("cannot listen on {address}: {source}; choose another address with --listen")]
    Listen {
        /// The address asked for.
        address: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Standard output is closed or full.
    #[error("cannot write the result: {0}")]
    Output(std::io::Error),
    /// Threads, timers or signal handlers.
    #[error("cannot start: {0}")]
    Start(std::io::Error),
    /// A running witness cannot be asked.
    #[error("cannot ask the witness at {url}: {reason}")]
    Status {
        /// The address asked.
        url: String,
        /// What went wrong.
        reason: String,
    },
    /// A file that cannot be written.
    #[error("cannot write {path}: {source}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The server ended by itself.
    #[error("the server on {address} stopped: {source}")]
    Serve {
        /// The address served.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
}

impl Failure {
    /// The exit code that says what kind of failure this is.
    pub const fn exit(&self) -> Exit {
        match self {
            Self::KeyFile(error) => error.exit(),
            Self::Keys(_) => Exit::Usage,
            Self::Logs(error) => error.exit(),
            Self::State(error) => error.exit(),
            Self::Listen { .. } | Self::Output(_) | Self::Status { .. } | Self::Write { .. } => {
                Exit::Unfinished
            }
            Self::Start(_) | Self::Serve { .. } => Exit::Fault,
        }
    }
}

//! How a command ends: its exit code, and the error that a person reads.

use std::path::PathBuf;
use std::process::ExitCode;

use thiserror::Error;

use crate::agent::AgentError;
use crate::bastion::BastionError;
use crate::fetch::FetchError;
use crate::keys::{KeyFileError, KeysError};
use crate::logs::LogsError;
use crate::state::StateError;
use crate::transfer::TransferError;

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
    /// A file that cannot be read.
    #[error("cannot read {path}: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// An ssh-agent.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A bastion.
    #[error(transparent)]
    Bastion(#[from] BastionError),
    /// Moving a state.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// There is no way to fetch anything.
    #[error("cannot set up fetching over the network: {0}")]
    Fetch(#[from] FetchError),
    /// No list of logs is named.
    #[error("no list of logs is given; use --logs FILE, or RUNSEAL_LOGS")]
    NoLists,
    /// No database is named.
    #[error("no database is given; use --db FILE, or RUNSEAL_DB")]
    NoDatabase,
    /// A log that no list names.
    #[error("--accept-key-change {0}: no list names a log with this origin")]
    UnknownLog(String),
}

impl Failure {
    /// The exit code that says what kind of failure this is.
    pub const fn exit(&self) -> Exit {
        match self {
            Self::KeyFile(error) => error.exit(),
            Self::Logs(error) => error.exit(),
            Self::State(error) => error.exit(),
            Self::Transfer(error) => error.exit(),
            Self::Agent(_)
            | Self::Listen { .. }
            | Self::Output(_)
            | Self::Status { .. }
            | Self::Read { .. }
            | Self::Write { .. } => Exit::Unfinished,
            Self::Keys(_) | Self::Bastion(_) | Self::NoLists | Self::NoDatabase | Self::UnknownLog(_) => {
                Exit::Usage
            }
            Self::Start(_) | Self::Fetch(_) => Exit::Fault,
        }
    }
}

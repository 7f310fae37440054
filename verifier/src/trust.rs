//! The trust configuration: one tlog-policy file, and which of its logs a command is about.

use std::path::{Path, PathBuf};

use runseal_tlog::policy::{Policy, PolicyError, PolicyLog};
use thiserror::Error;

use crate::dates::{DateError, Dates, PolicyDates};
use crate::error::Failure;
use crate::file;
#[cfg(feature = "cli")]
use crate::online::directory;

/// Longest policy file read.
pub const POLICY_BYTES_MAX: u64 = 4 << 20;

/// Why there is nothing to trust by.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The policy file is refused.
    #[error("{path}: {source}")]
    Policy {
        /// The file.
        path: PathBuf,
        /// The first fault.
        source: PolicyError,
    },
    /// A date in the policy file is refused.
    #[error("{path}: {source}")]
    Dates {
        /// The file.
        path: PathBuf,
        /// The first fault.
        source: DateError,
    },
    /// The policy trusts no log.
    #[error("{path} lists no log; add a line \"log <vkey> [<url>]\"")]
    NoLog {
        /// The file.
        path: PathBuf,
    },
    /// The policy trusts several logs, and none was chosen.
    #[error("{path} lists several logs; choose one with --log: {}", origins.join(", "))]
    SeveralLogs {
        /// The file.
        path: PathBuf,
        /// Their origins.
        origins: Vec<String>,
    },
    /// The policy lists no directory, or the chosen log is none.
    #[error(
        "{path} lists no such directory; its line is \"log <vkey> [<url>]\" with a key named <base>/log/_directory"
    )]
    NoDirectory {
        /// The file.
        path: PathBuf,
    },
    /// The policy does not list the chosen log.
    #[error("{path} lists no log with origin {origin:?}; it lists {}", origins.join(", "))]
    UnknownLog {
        /// The file.
        path: PathBuf,
        /// The origin asked for.
        origin: String,
        /// The origins listed.
        origins: Vec<String>,
    },
    /// Nothing says where the log is.
    #[error("nothing says where the log {origin:?} is: give --url, or a URL on its line in {path}")]
    NoUrl {
        /// The policy file.
        path: PathBuf,
        /// The log's origin.
        origin: String,
    },
}

/// A policy and the file it came from.
#[derive(Clone, Debug)]
pub struct Trust {
    /// The policy.
    pub policy: Policy,
    dates: PolicyDates,
    path: PathBuf,
}

impl Trust {
    /// Reads a policy file.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn load(path: &Path) -> Result<Self, Failure> {
        Ok(Self::parse(&file::read(path, "tlog-policy file", POLICY_BYTES_MAX)?, path)?)
    }

    /// Reads a policy; `path` is what errors call it.
    ///
    /// # Errors
    /// [`TrustError`].
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, TrustError> {
        let policy =
            Policy::parse(bytes).map_err(|source| TrustError::Policy { path: path.to_owned(), source })?;
        let dates = PolicyDates::parse(bytes)
            .map_err(|source| TrustError::Dates { path: path.to_owned(), source })?;
        Ok(Self { policy, dates, path: path.to_owned() })
    }

    /// The origin a command is about: the one asked for, else the only one listed.
    ///
    /// # Errors
    /// [`TrustError`].
    pub fn choose(&self, asked: Option<&str>) -> Result<&str, TrustError> {
        let mut origins: Vec<&str> = self.policy.logs().iter().map(PolicyLog::origin).collect();
        origins.sort_unstable();
        origins.dedup();
        let owned = || origins.iter().map(|origin| (*origin).to_owned()).collect();
        match (asked, origins.as_slice()) {
            (Some(asked), _) => origins.iter().copied().find(|origin| *origin == asked).ok_or_else(|| {
                TrustError::UnknownLog { path: self.path.clone(), origin: asked.to_owned(), origins: owned() }
            }),
            (None, []) => Err(TrustError::NoLog { path: self.path.clone() }),
            (None, [only]) => Ok(only),
            (None, _) => Err(TrustError::SeveralLogs { path: self.path.clone(), origins: owned() }),
        }
    }

    /// The origin of the directory a command is about: the one asked for, else the only one listed.
    ///
    /// # Errors
    /// [`TrustError`].
    #[cfg(feature = "cli")]
    pub fn choose_directory(&self, asked: Option<&str>) -> Result<&str, TrustError> {
        if let Some(asked) = asked {
            let origin = self.choose(Some(asked))?;
            return match directory::base_of(origin) {
                Some(_) => Ok(origin),
                None => Err(TrustError::NoDirectory { path: self.path.clone() }),
            };
        }
        let logs = self.policy.logs().iter().map(PolicyLog::origin);
        let mut origins: Vec<&str> = logs.filter(|origin| directory::base_of(origin).is_some()).collect();
        origins.sort_unstable();
        origins.dedup();
        match origins.as_slice() {
            [] => Err(TrustError::NoDirectory { path: self.path.clone() }),
            [only] => Ok(only),
            several => {
                let origins = several.iter().map(|origin| (*origin).to_owned()).collect();
                Err(TrustError::SeveralLogs { path: self.path.clone(), origins })
            }
        }
    }

    /// Where the policy says that a log is.
    ///
    /// # Errors
    /// [`TrustError::NoUrl`].
    pub fn url(&self, origin: &str) -> Result<&str, TrustError> {
        let of_origin = |log: &&PolicyLog| log.origin() == origin;
        let url = self.policy.logs().iter().filter(of_origin).find_map(PolicyLog::url);
        url.ok_or_else(|| TrustError::NoUrl { path: self.path.clone(), origin: origin.to_owned() })
    }

    /// Whether any key of the policy is dated.
    pub fn is_dated(&self) -> bool {
        self.dates.any()
    }

    /// When the log key at a position of [`Policy::logs`] is trusted.
    pub fn log_dates(&self, at: usize) -> Dates {
        self.dates.logs.get(at).copied().unwrap_or(Dates::ALWAYS)
    }

    /// When the witness at a position of [`Policy::witnesses`] is trusted.
    pub fn witness_dates(&self, at: usize) -> Dates {
        self.dates.witnesses.get(at).copied().unwrap_or(Dates::ALWAYS)
    }

    /// The policy file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

//! The logs a witness follows: read from lists and policies, checked together, looked up by origin.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use runseal_tlog::cosignature::SUBTREE_NAME_BYTES_MAX;
use runseal_tlog::key::{Algorithm, VerifierKey};
use runseal_tlog::policy::{Policy, PolicyError};
use thiserror::Error;

use crate::admission::Gate;
use crate::failure::Exit;
use crate::fetch::FetchError;
use crate::list::{self, ListError};

/// Longest list read, from a file or a server.
pub const LIST_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// One log, as the lists together describe it.
#[derive(Debug, Clone)]
pub struct Log {
    origin: Arc<str>,
    keys: Vec<VerifierKey>,
    url: Option<String>,
    queries_per_day: Option<u64>,
    gate: Arc<Gate>,
}

impl Log {
    /// The log's identity.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The origin, shared.
    pub fn origin_shared(&self) -> Arc<str> {
        Arc::clone(&self.origin)
    }

    /// The keys its checkpoints are accepted from.
    pub fn keys(&self) -> &[VerifierKey] {
        &self.keys
    }

    /// Where its tiles are, if a list says so.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Requests a day that it may make; `None` for as many as it likes.
    pub const fn queries_per_day(&self) -> Option<u64> {
        self.queries_per_day
    }

    /// Its place in line.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// Where an entry stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file or URL.
    pub source: Arc<str>,
    /// The line, from 1; `None` where the format does not tell.
    pub line: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}", self.source),
            None => write!(f, "{}", self.source),
        }
    }
}

/// Why the lists of logs are refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogsError {
    /// There is no such file.
    #[error("there is no list of logs {path}", path = .0.display())]
    Missing(PathBuf),
    /// The file system refuses.
    #[error("cannot read the list of logs {path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A URL that is not fetched from.
    #[error("{0}: a list of logs is fetched over https (http is for loopback alone)")]
    Url(String),
    /// A list that could not be fetched and was never fetched before.
    #[error("cannot fetch the list of logs {url}: {reason}")]
    Fetch {
        /// Its URL.
        url: String,
        /// Why not.
        reason: FetchError,
    },
    /// Far too long.
    #[error("the list of logs {0} is over {LIST_BYTES_MAX} bytes")]
    TooLong(String),
    /// A list with a fault.
    #[error("{origin}: {fault}", origin = .source_name)]
    List {
        /// The file or URL.
        source_name: String,
        /// The line and what is wrong.
        fault: ListError,
    },
    /// A policy with a fault.
    #[error("{origin}: {fault}; a list of logs is a logs/v0 list or a tlog-policy file", origin = .source_name)]
    Policy {
        /// The file or URL.
        source_name: String,
        /// The line and what is wrong.
        fault: PolicyError,
    },
    /// A log key of a type that no log signs with.
    #[error("{place}: the key of {origin} has type 0x{kind:02x}; a log's key has type 0x01")]
    LogKeyType {
        /// Where.
        place: Place,
        /// The log.
        origin: String,
        /// Its key's type byte.
        kind: u8,
    },
    /// A log that would be taken for the witness.
    #[error(
        "{place}: the log {origin} bears this witness's own name; its signatures and this witness's cosignatures could be confused"
    )]
    OwnName {
        /// Where.
        place: Place,
        /// The log.
        origin: String,
    },
    /// A key in two roles.
    #[error(
        "{place}: the key of the log {origin} is also a key of this witness; one key must not have two roles"
    )]
    OwnKey {
        /// Where.
        place: Place,
        /// The log.
        origin: String,
    },
    /// The origin does not fit an ML-DSA-44 cosignature.
    #[error(
        "{place}: the origin {origin:?} has {bytes} bytes; an ML-DSA-44 cosignature can carry at most {SUBTREE_NAME_BYTES_MAX}"
    )]
    OriginTooLong {
        /// Where.
        place: Place,
        /// The log, cut short.
        origin: String,
        /// Its length.
        bytes: usize,
    },
}

impl LogsError {
    /// The exit code for this error.
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Io { .. } | Self::Fetch { .. } => Exit::Unfinished,
            Self::Missing(_)
            | Self::Url(_)
            | Self::TooLong(_)
            | Self::List { .. }
            | Self::Policy { .. }
            | Self::LogKeyType { .. }
            | Self::OwnName { .. }
            | Self::OwnKey { .. }
            | Self::OriginTooLong { .. } => Exit::Usage,
        }
    }
}

/// One log of one source, before the sources are put together.
#[derive(Debug, Clone)]
pub struct Listed {
    place: Place,
    origin: String,
    key: VerifierKey,
    url: Option<String>,
    queries_per_day: Option<u64>,
}

/// Reads a list or policy file.
///
/// # Errors
/// [`LogsError`].
pub fn read_file(path: &Path) -> Result<Vec<Listed>, LogsError> {
    let io = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => LogsError::Missing(path.to_owned()),
        _ => LogsError::Io { path: path.to_owned(), source },
    };
    let length = std::fs::metadata(path).map_err(io)?.len();
    if length > LIST_BYTES_MAX {
        return Err(LogsError::TooLong(path.display().to_string()));
    }
    parse(&path.display().to_string(), &std::fs::read(path).map_err(io)?)
}

/// Reads the bytes of a `logs/v0` list or of a tlog-policy file; `source` names them in errors.
///
/// # Errors
/// [`LogsError::List`] and [`LogsError::Policy`].
pub fn parse(source: &str, bytes: &[u8]) -> Result<Vec<Listed>, LogsError> {
    let name: Arc<str> = source.into();
    if let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| list::is_list(text)) {
        let entries =
            list::parse(text).map_err(|fault| LogsError::List { source_name: source.to_owned(), fault })?;
        return Ok(entries
            .into_iter()
            .map(|entry| Listed {
                place: Place { source: Arc::clone(&name), line: Some(entry.line) },
                origin: entry.origin,
                key: entry.key,
                url: None,
                queries_per_day: entry.queries_per_day,
            })
            .collect());
    }
    let policy =
        Policy::parse(bytes).map_err(|fault| LogsError::Policy { source_name: source.to_owned(), fault })?;
    Ok(policy
        .logs()
        .iter()
        .map(|log| Listed {
            place: Place { source: Arc::clone(&name), line: None },
            origin: log.origin().to_owned(),
            key: log.key.clone(),
            url: log.url().map(str::to_owned),
            queries_per_day: None,
        })
        .collect())
}

/// The vkeys accepted for each log ever cosigned.
pub type KnownKeys = HashMap<String, Vec<String>>;

/// A log of the lists has keys that were not accepted for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// The log.
    pub origin: String,
    /// The keys accepted before.
    pub accepted: Vec<String>,
    /// The keys listed now and refused.
    pub refused: Vec<String>,
}

impl fmt::Display for KeyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the log {} is listed with a key that is not accepted for it: {} (accepted: {}); what it signs is refused. If the change is genuine, start with --accept-key-change {}",
            self.origin,
            self.refused.join(", "),
            self.accepted.join(", "),
            self.origin
        )
    }
}

/// All logs a witness follows, by origin.
#[derive(Debug, Default, Clone)]
pub struct LogSet {
    logs: HashMap<Arc<str>, Arc<Log>>,
}

impl LogSet {
    /// Puts the sources together and holds them against the witness's own keys, `own`.
    ///
    /// Entries for one origin are one log with several keys; the larger allowance and the first URL
    /// count.
    ///
    /// # Errors
    /// [`LogsError`].
    pub fn new(listed: impl IntoIterator<Item = Listed>, own: &[VerifierKey]) -> Result<Self, LogsError> {
        let subtree = own.iter().any(|key| key.algorithm() == Algorithm::CosignatureMlDsa44);
        let own_public: Vec<Vec<u8>> = own.iter().map(VerifierKey::public_key).collect();
        let mut logs: HashMap<Arc<str>, Log> = HashMap::new();
        for entry in listed {
            let Listed { place, origin, key, url, queries_per_day } = entry;
            if key.algorithm() != Algorithm::Ed25519 {
                return Err(LogsError::LogKeyType { place, origin, kind: key.algorithm() as u8 });
            }
            let named = |name: &str| own.iter().any(|key| key.name().as_str() == name);
            if named(&origin) || named(key.name().as_str()) {
                return Err(LogsError::OwnName { place, origin });
            }
            if own_public.contains(&key.public_key()) {
                return Err(LogsError::OwnKey { place, origin });
            }
            if subtree && origin.len() > SUBTREE_NAME_BYTES_MAX {
                let bytes = origin.len();
                let origin = origin.chars().take(80).collect();
                return Err(LogsError::OriginTooLong { place, origin, bytes });
            }
            let origin: Arc<str> = origin.into();
            let log = logs.entry(Arc::clone(&origin)).or_insert_with(|| Log {
                origin,
                keys: Vec::with_capacity(1),
                url: None,
                queries_per_day,
                gate: Arc::default(),
            });
            if !log.keys.contains(&key) {
                log.keys.push(key);
            }
            if log.url.is_none() {
                log.url = url;
            }
            // No allowance is the largest one.
            log.queries_per_day = log.queries_per_day.zip(queries_per_day).map(|(a, b)| a.max(b));
        }
        Ok(Self { logs: logs.into_iter().map(|(origin, log)| (origin, Arc::new(log))).collect() })
    }

    /// Takes over the gates of logs that `before` had too, so that a reload refills no bucket.
    #[must_use]
    pub fn with_gates_of(mut self, before: &Self) -> Self {
        for (origin, log) in &mut self.logs {
            if let Some(known) = before.logs.get(origin) {
                Arc::make_mut(log).gate = Arc::clone(&known.gate);
            }
        }
        self
    }

    /// Trusts, for each origin in `known`, only the keys accepted for it before. A log left without
    /// a key stays known and has nothing accepted.
    pub fn hold_to(&mut self, known: &KnownKeys) -> Vec<KeyChange> {
        let mut changes = Vec::new();
        for (origin, accepted) in known {
            let Some(log) = self.logs.get_mut(&**origin) else { continue };
            let is_accepted = |key: &VerifierKey| accepted.contains(&key.to_string());
            let refused: Vec<String> =
                log.keys.iter().filter(|key| !is_accepted(key)).map(ToString::to_string).collect();
            if !refused.is_empty() {
                Arc::make_mut(log).keys.retain(is_accepted);
                changes.push(KeyChange { origin: origin.clone(), accepted: accepted.clone(), refused });
            }
        }
        changes.sort_by(|a, b| a.origin.cmp(&b.origin));
        changes
    }

    /// The log of an origin.
    pub fn find(&self, origin: &str) -> Option<&Arc<Log>> {
        self.logs.get(origin)
    }

    /// Every log, in no order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Log>> {
        self.logs.values()
    }

    /// How many logs there are.
    pub fn len(&self) -> usize {
        self.logs.len()
    }

    /// Whether there is no log at all.
    pub fn is_empty(&self) -> bool {
        self.logs.is_empty()
    }
}

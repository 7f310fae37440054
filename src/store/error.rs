//! Why the store cannot do what it was asked.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::corruption::Corruption;

/// A failure of the storage engine: the disk, or what it read from it.
#[derive(Debug, Clone)]
pub struct EngineError(Arc<dyn std::error::Error + Send + Sync>);

impl EngineError {
    /// Wraps the engine's own error.
    pub(crate) fn new(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for EngineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Why the store cannot do what it was asked, whatever that was.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A row is not what the journal wrote. Nothing was changed.
    #[error(transparent)]
    Corrupt(#[from] Box<Corruption>),
    /// The engine failed to read. Nothing was changed.
    #[error("the database failed: {0}")]
    Engine(#[from] EngineError),
    /// The commit failed, and whether it is on disk is not known until the journal is opened again.
    #[error("the commit failed, and whether it lasts is unknown until the journal is opened again: {0}")]
    CommitUnknown(#[source] EngineError),
    /// An earlier commit failed. Nothing was changed; the journal has to be opened again.
    #[error("refused: an earlier commit failed; open the journal again")]
    Poisoned,
    /// The queue of commands is full. Nothing was changed; try again.
    #[error("refused: {waiting} commands are waiting, the most that may; try again")]
    Busy {
        /// Commands in the queue.
        waiting: usize,
    },
    /// The journal is being closed. Nothing was changed.
    #[error("refused: the journal is closed")]
    Closed,
    /// The store stopped before it answered. What it did shows when the journal is opened again.
    #[error("the store stopped before it answered; open the journal again to see what was done")]
    Unanswered,
    /// The file beside the database that remembers signed checkpoints failed.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What went wrong.
        #[source]
        error: Arc<std::io::Error>,
    },
}

impl From<Corruption> for StoreError {
    fn from(corruption: Corruption) -> Self {
        Self::Corrupt(Box::new(corruption))
    }
}

impl StoreError {
    /// The damaged row, where that is the reason.
    pub fn corruption(&self) -> Option<&Corruption> {
        match self {
            Self::Corrupt(corruption) => Some(corruption),
            _ => None,
        }
    }
}

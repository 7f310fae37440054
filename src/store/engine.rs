//! What a storage engine has to offer.

use std::ops::ControlFlow;

use super::error::EngineError;
use super::key::KeyRange;
use super::overlay::Writes;

/// Which way a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the lowest key up.
    Ascending,
    /// From the highest key down.
    Descending,
}

/// What a visitor answers: whether to go on. No row after a `Break` is read.
pub(crate) type Scanned = ControlFlow<()>;

/// Reads at one moment: what is committed later is not seen.
pub(crate) trait Read {
    /// The value at `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError>;

    /// Shows `visit` the rows of `range` in order until it has enough.
    fn scan(
        &self,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Scanned,
    ) -> Result<(), EngineError>;
}

/// An ordered key-value store of bytes.
///
/// There is one writer, the storage thread. A commit is atomic, and durable when it returns; a snapshot
/// taken afterwards, by any thread, holds it.
pub(crate) trait Engine: Send + Sync {
    /// The committed state, as it stands.
    fn snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, EngineError>;

    /// The same for the writer, who asks for some rows again and again.
    fn working_snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, EngineError> {
        self.snapshot()
    }

    /// Makes every write durable, or none of them. After an error nothing is known about which.
    fn commit(&self, writes: Writes) -> Result<(), EngineError>;

    /// Nothing more is to come for now: brings everything to where it stays. An error is that of a commit.
    fn settle(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

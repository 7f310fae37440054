//! Rows that are not what the journal wrote: where, and what is wrong.

use std::fmt;

use runseal_evidence::chain::{ChainFault, ChainHash};
use runseal_evidence::entry::EntryError;
use runseal_evidence::name::NameError;
use runseal_evidence::record::RecordError;
use runseal_evidence::signature::SignatureError;
use runseal_tlog::checkpoint::OpenError;
use runseal_tlog::note::NoteError;
use runseal_tlog::tile::TileError;
use thiserror::Error;

use super::key::Scope;
use super::row::RowFault;

/// A damaged, missing or contradicting row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corruption {
    /// Whose row: a tenant, `_directory`, or empty for the plane.
    pub tenant: String,
    /// What the row holds, as a noun: "record", "lease", "tile".
    pub noun: &'static str,
    /// The run it belongs to, as stored.
    pub run: Option<String>,
    /// The record's number, or the index of an entry or tile.
    pub seq: Option<u64>,
    /// What is wrong.
    pub fault: Fault,
}

impl Corruption {
    /// A fault in a row of `scope` that belongs to no run.
    pub(crate) fn in_scope(scope: &Scope, noun: &'static str, fault: impl Into<Fault>) -> Self {
        Self { tenant: scope.name().to_owned(), noun, run: None, seq: None, fault: fault.into() }
    }

    /// The same, of a run.
    pub(crate) fn of_run(mut self, run: impl AsRef<str>) -> Self {
        self.run = Some(run.as_ref().to_owned());
        self
    }

    /// The same, at a number.
    pub(crate) fn at(mut self, seq: u64) -> Self {
        self.seq = Some(seq);
        self
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.noun)?;
        if let Some(seq) = self.seq {
            write!(f, " {seq}")?;
        }
        if let Some(run) = &self.run {
            write!(f, " of run {run:?}")?;
        }
        if !self.tenant.is_empty() {
            write!(f, " of tenant {}", self.tenant)?;
        }
        // What a newer build wrote is not damaged.
        let what = if self.fault.is_skew() { "cannot be read by this version" } else { "is corrupt" };
        write!(f, " {what}: {}", self.fault)
    }
}

impl std::error::Error for Corruption {}

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The bytes are not a row of the table.
    #[error(transparent)]
    Row(#[from] RowFault),
    /// A stored name breaks its rule.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A row is missing that another row demands.
    #[error("it is missing")]
    Missing,
    /// A row is there that should not be.
    #[error("it is there, and nothing accounts for it")]
    Unaccounted,
    /// The stored hash is not that of the stored bytes.
    #[error("its bytes hash to {computed}, not to the stored {stored}")]
    Hash {
        /// The hash of the bytes.
        computed: ChainHash,
        /// The hash as stored.
        stored: ChainHash,
    },
    /// The record does not follow the one before it.
    #[error("it follows {found}, but the record before it is {expected}")]
    Link {
        /// The hash of the record before, or the genesis.
        expected: ChainHash,
        /// The hash that the row says it follows.
        found: ChainHash,
    },
    /// The record's bytes are no record. A record of a newer version is named as that.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The record does not belong where it is stored.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    /// The record's signature does not hold.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The bytes are no log entry.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The bytes are no tile.
    #[error(transparent)]
    Tile(#[from] TileError),
    /// A stored note is none.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// A stored checkpoint was not signed by the log.
    #[error(transparent)]
    Checkpoint(#[from] OpenError),
    /// Two places that must agree do not.
    #[error("{what} is {found}, but {expected} follows from the rest")]
    Contradiction {
        /// What is compared.
        what: &'static str,
        /// As stored.
        found: String,
        /// As computed.
        expected: String,
    },
}

impl Fault {
    /// Two values of one thing that must agree.
    pub(crate) fn contradiction(
        what: &'static str,
        found: impl fmt::Debug,
        expected: impl fmt::Debug,
    ) -> Self {
        Self::Contradiction { what, found: format!("{found:?}"), expected: format!("{expected:?}") }
    }

    /// True where a newer build may be able to read the bytes: version skew, not damage.
    pub fn is_skew(&self) -> bool {
        match self {
            Self::Record(error) => error.is_skew(),
            Self::Chain(error) => error.is_skew(),
            Self::Entry(error) => error.is_skew(),
            _ => false,
        }
    }
}

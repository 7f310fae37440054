//! The store: one ordered key-value transaction, the engines behind it and the thread that commits.
//!
//! Rules are written against [`Overlay`]: `get`, `scan` both ways, `put`, `delete`. An [`Engine`] offers
//! consistent snapshots and atomic durable commits, and knows nothing of runs. The [`Committer`] runs many
//! commands in one commit.

pub(crate) mod ack;
mod ahead;
mod committer;
mod corruption;
pub(crate) mod counter;
mod engine;
mod error;
pub(crate) mod key;
mod merge;
mod overlay;
mod read_ahead;
mod redb;
pub(crate) mod row;
#[cfg(all(test, shuttle))]
mod schedules;
mod schema;
mod sync;

pub use self::ack::Ack;
pub use self::ahead::AheadFault;
#[cfg(test)]
pub(crate) use self::ahead::AheadPlace;
pub(crate) use self::ahead::{AheadFile, AheadOptions, LoggedEngine, RecoverError, StartError, recover};
pub(crate) use self::committer::{Committer, Limits};
pub use self::corruption::{Corruption, Fault};
pub(crate) use self::engine::{Direction, Engine, Read, Scanned};
pub use self::error::{EngineError, StoreError};
pub(crate) use self::key::{KeyRange, Scope, Space};
pub(crate) use self::overlay::Overlay;
pub(crate) use self::overlay::Writes;
pub(crate) use self::redb::{CACHE_BYTES, RedbEngine, Rewrite, is_redb_file};
pub use self::row::RowFault;
pub(crate) use self::schema::Table;

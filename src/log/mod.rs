//! A log: entries, the tree over them, and the checkpoints that were signed and published of it.
//!
//! Each tenant has one; the plane has one more, the directory of the tenants' logs.

mod checkpoint;
mod handle;
mod opened;
mod prove;
mod tree;
mod watchers;

pub use self::checkpoint::{CheckpointError, PublishError, Remembered};
pub(crate) use self::checkpoint::{open, published, shown, signed};
pub use self::handle::Log;
pub(crate) use self::opened::Opened;
pub use self::prove::ProveError;
pub(crate) use self::prove::proof_of;
pub use self::tree::ProofError;
pub(crate) use self::tree::{append_entry, entry, entry_range, inclusion, root_at, size, size_row, tile_key};
pub(crate) use self::watchers::Watchers;

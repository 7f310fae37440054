//! A run and its chain of records: leasing it, appending to it, reading it, sealing it.
//!
//! Every rule is a function over a transaction; nothing here knows of threads, commits or engines.

mod append;
mod extension;
mod lease;
mod pin;
mod read;
mod record_row;
mod restore;
mod run;
mod seal;
mod upcast;
mod verified;

pub use self::append::{AppendError, Appended};
pub(crate) use self::append::{Writer, append};
pub use self::lease::{Lease, LeaseError, OWNER_BYTES_MAX, TTL_MIN};
pub(crate) use self::lease::{LeaseRow, acquire, lease_row, release, renew};
pub(crate) use self::pin::{heads, pin};
pub use self::read::{PAGE_BYTES_MAX, ReadError, StoredRecord};
pub(crate) use self::read::{read, read_rows};
pub(crate) use self::record_row::{RecordRowView, records};
pub use self::restore::RestoreError;
pub(crate) use self::restore::restore;
pub use self::run::RunSummary;
pub(crate) use self::run::{Conclusion, RunRow, Wait, decode_run, run_row, runs, stored_run};
pub use self::seal::{SealError, Sealed};
pub(crate) use self::seal::{seal, sealed};
pub(crate) use self::upcast::lift;
pub use self::upcast::{AsWritten, ReadRecord, Upcaster};
pub(crate) use self::verified::Verified;
#[cfg(feature = "testkit")]
pub(crate) use self::{read::read_row, record_row::RecordRow};

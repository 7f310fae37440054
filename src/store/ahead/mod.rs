//! The write-ahead log: a commit is durable as soon as one frame of it is, and reaches the tables later, with many
//! others.
//!
//! Tables that are ordered on disk touch many pages for each commit, and many commits touch the same ones. So a
//! commit is a *frame* appended to a file ([`file`]); its rows are kept in memory ([`layer`]) over the tables, where
//! every reader finds them. Once half of the file is full its rows go to the tables in one commit, beside which the
//! other half is written. Opening puts what a crash left in the file into the tables, and removes the file.
//!
//! Which frames the tables hold stands in a row of theirs, the [`Mark`](mark::Mark), written in the same commit. It
//! also says whether there must be a file, so that one that was lost is noticed.

mod engine;
mod file;
mod frame;
mod layer;
mod mark;
mod place;
mod remembered;

pub(crate) use self::engine::{AheadOptions, LoggedEngine, RecoverError, StartError, recover};
pub use self::file::AheadFault;
pub(crate) use self::place::AheadFile;
#[cfg(test)]
pub(crate) use self::place::AheadPlace;

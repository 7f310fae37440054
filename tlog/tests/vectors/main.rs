//! Test vectors: the repository's own cases, beside this file, which always run, and the shared
//! collection in `../shared/vectors` of the workspace, where it is present.
//!
//! Every module walks one kind of file and holds each case against the crate. A file that is there but
//! holds no case fails; a collection that is absent is said on stderr.

#![expect(clippy::unwrap_used, reason = "a test panics where a case is not as it should be")]
#![expect(clippy::struct_field_names, reason = "fields are named as the files name them")]

mod checkpoints;
mod cosignatures;
mod merkle;
mod notes;
mod own;
mod policies;
mod proofs;
mod requests;
mod shared;
mod subtrees;
mod tiles;
mod transparency_dev;

//! RFC 6962 Merkle trees and the C2SP transparency-log formats.
//!
//! This crate does no I/O, reads no clock and starts no task. What it needs it is handed: stored
//! hashes through [`tree::NodeReader`], bytes of notes and tiles as slices, times as POSIX seconds.
//!
//! | module | specification |
//! |---|---|
//! | [`hash`], [`tree`], [`inclusion`], [`consistency`] | RFC 6962, section 2.1 |
//! | [`subtree`] | draft-ietf-plants-merkle-tree-certs-03, section 4 |
//! | [`note`], [`key`] | c2sp.org/signed-note |
//! | [`checkpoint`] | c2sp.org/tlog-checkpoint |
//! | [`cosignature`] | c2sp.org/tlog-cosignature |
//! | [`tile`], [`bundle`] | c2sp.org/tlog-tiles |
//! | [`proof`] | c2sp.org/tlog-proof |
//! | [`policy`] | c2sp.org/tlog-policy |
//! | [`request`] | c2sp.org/tlog-witness |
//! | [`fraud`] | the fraud proof: two signed checkpoints that cannot both be true |
//!
//! Three rules shape the types. A leaf hash is not a node hash: [`hash::LeafHash::of`] is the only
//! way to a leaf. A parsed note is not a verified one: [`note::Note`] has no accessor that vouches
//! for its text, [`checkpoint::SignedCheckpoint`] can only be had by verifying. One value has one
//! spelling: every parser accepts exactly the bytes that the printer would write.

pub mod bundle;
pub mod checkpoint;
pub mod consistency;
pub mod cosignature;
pub mod fraud;
pub mod hash;
pub mod inclusion;
pub mod key;
pub mod note;
pub mod policy;
pub mod proof;
pub mod request;
pub mod subtree;
pub mod text;
pub mod tile;
pub mod tree;

/// The largest tree size accepted anywhere: 2^63 - 1.
///
/// The specifications set no limit, but peers keep sizes in signed 64-bit integers.
pub const TREE_SIZE_MAX: u64 = i64::MAX as u64;

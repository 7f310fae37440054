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
//! spelling: every parser accepts exactly the bytes that the printer would write; only policy files,
//! which people write, may be spaced and commented freely.
//!
//! # A log, a proof, and the one who checks it
//!
//! ```
//! use std::collections::HashMap;
//! use std::convert::Infallible;
//!
//! use runseal_tlog::checkpoint::Checkpoint;
//! use runseal_tlog::hash::{LeafHash, NodeHash};
//! use runseal_tlog::inclusion;
//! use runseal_tlog::key::{Algorithm, KeyName, SignerKey};
//! use runseal_tlog::policy::Policy;
//! use runseal_tlog::proof::TlogProof;
//! use runseal_tlog::tree::{Frontier, NodeId, NodeReader};
//!
//! /// Where this log keeps its hashes.
//! #[derive(Default)]
//! struct Nodes(HashMap<NodeId, NodeHash>);
//!
//! impl NodeReader for Nodes {
//!     type Error = Infallible;
//!
//!     fn read_nodes(&self, nodes: &[NodeId]) -> Result<Vec<NodeHash>, Infallible> {
//!         Ok(nodes.iter().map(|id| self.0[id]).collect())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The log appends three entries, keeps every subtree they complete, and signs its size and root.
//! let (mut edge, mut nodes) = (Frontier::new(), Nodes::default());
//! for entry in ["one", "two", "three"] {
//!     nodes.0.extend(edge.append(LeafHash::of(entry.as_bytes())));
//! }
//! let key = SignerKey::from_seed(KeyName::new("example.com/log")?, Algorithm::Ed25519, &[7; 32]);
//! let note = Checkpoint::new("example.com/log", edge.size(), edge.root())?.sign(&key)?;
//!
//! // It proves that entry 1 is in there, in a file that stands for itself.
//! let hashes = inclusion::prove(1, edge.size(), &nodes)?;
//! let file = TlogProof { extra: None, index: 1, hashes, note }.to_string();
//!
//! // Whoever trusts the log's key can check the file, without the log.
//! let policy = Policy::parse(format!("log {}\nquorum none\n", key.verifier()).as_bytes())?;
//! let proof = TlogProof::parse(file.as_bytes())?;
//! let signed = policy.accept(&proof.note)?;
//! let (size, root) = (signed.checkpoint().size(), signed.checkpoint().root());
//! inclusion::verify(proof.index, size, LeafHash::of(b"two"), &proof.hashes, root)?;
//! assert!(inclusion::verify(proof.index, size, LeafHash::of(b"too"), &proof.hashes, root).is_err());
//! # Ok(())
//! # }
//! ```

// What a peer sent must not be able to stop the process: no index and no range without a check.
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::string_slice))]

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
mod sha256;
pub mod subtree;
pub mod text;
pub mod tile;
pub mod tree;

pub use self::sha256::sha256;

/// The largest tree size accepted anywhere: 2^63 - 1.
///
/// The specifications set no limit, but peers keep sizes in signed 64-bit integers.
pub const TREE_SIZE_MAX: u64 = i64::MAX as u64;

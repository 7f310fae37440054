//! Leaf and node hashes (RFC 6962, section 2.1). The two prefixes are applied here and nowhere else.

use std::fmt;

use crate::sha256::{of_padded, sha256};
use crate::text;

/// Bytes in a hash.
pub const HASH_BYTES: usize = 32;

/// An entry hashed as a leaf: `SHA-256(0x00 || entry)`.
///
/// [`LeafHash::of`] is the only constructor, so a bare digest is never taken for a leaf:
///
/// ```compile_fail
/// let leaf = runseal_tlog::hash::LeafHash([0; 32]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeafHash([u8; HASH_BYTES]);

impl LeafHash {
    /// Hashes one log entry.
    pub fn of(entry: &[u8]) -> Self {
        Self(sha256([&[0x00], entry]))
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; HASH_BYTES] {
        &self.0
    }
}

/// The hash of a subtree: a leaf, or two joined subtrees `SHA-256(0x01 || left || right)`.
///
/// Tile contents, proof hashes and roots are node hashes. A leaf turns into a node, never back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeHash([u8; HASH_BYTES]);

impl NodeHash {
    /// The root of the empty tree, SHA-256 of nothing.
    pub const EMPTY_ROOT: Self = Self([
        0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
        0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
    ]);

    /// A hash read back from storage or from the wire.
    pub const fn from_bytes(bytes: [u8; HASH_BYTES]) -> Self {
        Self(bytes)
    }

    /// A hash from a slice, if it has exactly 32 bytes.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; HASH_BYTES] {
        &self.0
    }

    /// Joins two sibling subtrees.
    #[must_use]
    pub fn join(left: &Self, right: &Self) -> Self {
        // 65 bytes are exactly two SHA-256 blocks: 0x01, left and 31 bytes of right; then the last
        // byte, the 0x80 marker and the length in bits. Feeding them as blocks spares the buffering.
        const BITS: [u8; 8] = (65u64 * 8).to_be_bytes();
        let mut blocks = [[0u8; 64]; 2];
        blocks[0][0] = 0x01;
        blocks[0][1..33].copy_from_slice(&left.0);
        blocks[0][33..].copy_from_slice(&right.0[..31]);
        blocks[1][0] = right.0[31];
        blocks[1][1] = 0x80;
        blocks[1][56..].copy_from_slice(&BITS);
        Self(of_padded(&blocks))
    }

    /// Base64 as proofs and checkpoints carry it.
    pub fn to_base64(&self) -> String {
        text::base64(&self.0)
    }

    /// Reads canonical base64 of exactly 32 bytes.
    pub fn from_base64(encoded: &str) -> Option<Self> {
        text::parse_base64(encoded).and_then(|bytes| Self::from_slice(&bytes))
    }
}

impl From<LeafHash> for NodeHash {
    fn from(leaf: LeafHash) -> Self {
        Self(leaf.0)
    }
}

impl From<[u8; HASH_BYTES]> for NodeHash {
    fn from(bytes: [u8; HASH_BYTES]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for NodeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_base64())
    }
}

impl fmt::Debug for NodeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeHash({self})")
    }
}

impl fmt::Debug for LeafHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeafHash({})", NodeHash::from(*self))
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn plain(parts: &[&[u8]]) -> [u8; 32] {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize().into()
    }

    #[test]
    fn joining_is_sha256_over_the_prefix_and_both_children() {
        let (mut left, mut right) = ([0u8; 32], [0xffu8; 32]);
        for round in 0..200u8 {
            left[usize::from(round) % 32] ^= round;
            right[usize::from(round) % 31] ^= round.wrapping_mul(7);
            let joined = NodeHash::join(&NodeHash(left), &NodeHash(right));
            assert_eq!(joined.0, plain(&[&[1], &left, &right]));
            left = joined.0;
        }
    }

    #[test]
    fn entries_of_every_length_are_hashed_alike() {
        let bytes: Vec<u8> = (0..600usize).map(|at| u8::try_from(at % 251).unwrap()).collect();
        for length in 0..bytes.len() {
            assert_eq!(LeafHash::of(&bytes[..length]).0, plain(&[&[0], &bytes[..length]]), "{length}");
        }
    }

    #[test]
    fn leaves_and_the_empty_root_match_rfc_6962() {
        assert_eq!(LeafHash::of(b"").0, plain(&[&[0]]));
        assert_eq!(LeafHash::of(b"entry").0, plain(&[&[0], b"entry"]));
        assert_eq!(NodeHash::EMPTY_ROOT.0, plain(&[]));
    }

    #[test]
    fn an_entry_made_of_two_hashes_is_not_their_parent() {
        let (left, right) = (LeafHash::of(b"a"), LeafHash::of(b"b"));
        let parent = NodeHash::join(&left.into(), &right.into());
        let forged = [left.0, right.0].concat();
        assert_ne!(NodeHash::from(LeafHash::of(&forged)), parent);
    }

    #[test]
    fn a_hash_is_shown_as_proofs_spell_it() {
        let leaf = LeafHash::of(b"");
        let text = NodeHash::from(leaf).to_base64();
        assert_eq!(
            format!("{leaf:?} {:?}", NodeHash::from(leaf)),
            format!("LeafHash({text}) NodeHash({text})")
        );
    }
}

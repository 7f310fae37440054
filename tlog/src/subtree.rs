//! Subtrees: ranges of leaves that can be proven consistent with the whole tree
//! (draft-ietf-plants-merkle-tree-certs-03, section 4). Prove and verify.
//!
//! A consistency proof between two trees is that of the subtree `[0, old)`, so
//! [`consistency`](crate::consistency) is built on this module.

use std::fmt;

use thiserror::Error;

use crate::hash::{LeafHash, NodeHash};
use crate::inclusion::{self, InclusionError, ProveInclusionError, gather};
use crate::tree::{self, LEVELS, NodeId, NodeReader, range_nodes, split_point};

/// A half-open range of leaves `[start, end)` that is a subtree: not empty, and `start` a multiple of
/// the smallest power of two not below its length.
///
/// [`SubtreeRange::new`] is the only constructor. Drafts after -05 also call the empty range a
/// subtree; the C2SP specifications name -03, which does not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SubtreeRange {
    start: u64,
    end: u64,
}

/// A range of leaves that is no subtree.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
#[error(
    "[{start}, {end}) is not a subtree: the range must not be empty, and its start must be a multiple of \
     the smallest power of two not below its length"
)]
pub struct NotASubtree {
    /// First leaf.
    pub start: u64,
    /// One past the last leaf.
    pub end: u64,
}

impl SubtreeRange {
    /// Checks a range.
    ///
    /// # Errors
    /// [`NotASubtree`].
    pub const fn new(start: u64, end: u64) -> Result<Self, NotASubtree> {
        if start >= end {
            return Err(NotASubtree { start, end });
        }
        // A length above 2^63 has no such power of two in 64 bits; only zero is a multiple of 2^64.
        let aligned = match (end - start).checked_next_power_of_two() {
            Some(width) => start.is_multiple_of(width),
            None => start == 0,
        };
        if aligned { Ok(Self { start, end }) } else { Err(NotASubtree { start, end }) }
    }

    /// The first leaf.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// One past the last leaf.
    pub const fn end(self) -> u64 {
        self.end
    }

    /// Leaves in the range, at least one.
    pub const fn size(self) -> u64 {
        self.end - self.start
    }

    /// The height of the smallest complete subtree that spans the range: 0 for one leaf, at most 64.
    const fn height(self) -> u32 {
        u64::BITS - (self.start ^ (self.end - 1)).leading_zeros()
    }

    /// How far above the leaves the path to the root of a tree of `size` leaves begins: at the range
    /// itself where it is a node of that tree, else at its last complete part.
    fn path_start(self, size: u64) -> u32 {
        if self.end == size { self.height() } else { self.height().min(self.end.trailing_zeros()) }
    }
}

/// `[start, end)`.
impl fmt::Display for SubtreeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}

/// A subtree as somebody states it: the range and the hash over its leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subtree {
    /// The leaves.
    pub range: SubtreeRange,
    /// `MTH(D[start:end])`.
    pub hash: NodeHash,
}

/// Why a subtree proof cannot be made.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProveSubtreeError<E> {
    /// The subtree does not hold the leaf.
    #[error("leaf {index} is not in the subtree {range}")]
    OutOfRange {
        /// The leaf asked for.
        index: u64,
        /// The subtree.
        range: SubtreeRange,
    },
    /// The tree does not reach to the end of the subtree.
    #[error("the subtree {range} ends beyond the tree of {size} leaves")]
    BeyondTree {
        /// The subtree.
        range: SubtreeRange,
        /// The tree's size.
        size: u64,
    },
    /// A stored hash could not be read.
    #[error("a stored hash could not be read")]
    Reader(#[source] E),
}

/// Why a subtree proof does not hold.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
pub enum SubtreeError {
    /// The subtree does not hold that index.
    #[error("leaf index {index} is not in the subtree {range}")]
    OutOfRange {
        /// The claimed index.
        index: u64,
        /// The subtree.
        range: SubtreeRange,
    },
    /// The tree does not reach to the end of the subtree.
    #[error("the subtree {range} ends beyond the tree of {size} leaves")]
    BeyondTree {
        /// The subtree.
        range: SubtreeRange,
        /// The tree's size.
        size: u64,
    },
    /// A proof between them has another number of hashes.
    #[error("the subtree proof has {found} hashes where {expected} are needed")]
    WrongLength {
        /// Hashes in the proof.
        found: usize,
        /// Hashes that the shapes demand.
        expected: usize,
    },
    /// The hashes rebuild another subtree.
    #[error("the proof rebuilds subtree hash {computed}, not {expected}")]
    WrongHash {
        /// The hash that the proof implies.
        computed: NodeHash,
        /// The hash that was stated.
        expected: NodeHash,
    },
    /// The hashes rebuild another root.
    #[error("the proof rebuilds root {computed}, not {expected}")]
    WrongRoot {
        /// The root that the proof implies.
        computed: NodeHash,
        /// The root that was stated.
        expected: NodeHash,
    },
}

/// The hash over the leaves of `range`, from at most 64 stored hashes.
///
/// # Errors
/// Those of the reader.
pub fn hash<R: NodeReader>(range: SubtreeRange, reader: &R) -> Result<NodeHash, R::Error> {
    tree::root(range.size(), &Inside { reader, start: range.start })
}

/// Proves that leaf `index` is in the subtree `range`: the inclusion proof of a tree over its leaves
/// alone, sibling first (section 4.3).
///
/// # Errors
/// [`ProveSubtreeError::OutOfRange`] and [`ProveSubtreeError::Reader`].
pub fn prove_inclusion<R: NodeReader>(
    index: u64,
    range: SubtreeRange,
    reader: &R,
) -> Result<Vec<NodeHash>, ProveSubtreeError<R::Error>> {
    let out_of_range = ProveSubtreeError::OutOfRange { index, range };
    let Some(inner) = index.checked_sub(range.start) else { return Err(out_of_range) };
    inclusion::prove(inner, range.size(), &Inside { reader, start: range.start }).map_err(|error| match error
    {
        ProveInclusionError::OutOfRange { .. } => out_of_range,
        ProveInclusionError::Reader(error) => ProveSubtreeError::Reader(error),
    })
}

/// The subtree hash that `proof` implies for `leaf` at `index` (counted in the whole tree) in `range`
/// (section 4.3.2).
///
/// # Errors
/// [`SubtreeError::OutOfRange`] and [`SubtreeError::WrongLength`].
pub fn implied_hash(
    index: u64,
    range: SubtreeRange,
    leaf: NodeHash,
    proof: &[NodeHash],
) -> Result<NodeHash, SubtreeError> {
    let out_of_range = SubtreeError::OutOfRange { index, range };
    let inner = index.checked_sub(range.start).ok_or(out_of_range)?;
    inclusion::implied_root(inner, range.size(), leaf, proof).map_err(|error| match error {
        InclusionError::WrongLength { found, expected } => SubtreeError::WrongLength { found, expected },
        InclusionError::OutOfRange { .. } | InclusionError::WrongRoot { .. } => out_of_range,
    })
}

/// Checks that `proof` shows `leaf` at `index` (counted in the whole tree) in `subtree`.
///
/// # Errors
/// [`SubtreeError`], but for the kinds about the whole tree.
pub fn verify_inclusion(
    index: u64,
    leaf: LeafHash,
    proof: &[NodeHash],
    subtree: &Subtree,
) -> Result<(), SubtreeError> {
    let Subtree { range, hash } = *subtree;
    let computed = implied_hash(index, range, leaf.into(), proof)?;
    if computed == hash { Ok(()) } else { Err(SubtreeError::WrongHash { computed, expected: hash }) }
}

/// Proves that the subtree `range` is part of the tree of `size` leaves (section 4.4.1).
///
/// Hashes run from the deepest node to the root's child, at most 64 of them; none where the subtree
/// is the whole tree.
///
/// # Errors
/// [`ProveSubtreeError::BeyondTree`] and [`ProveSubtreeError::Reader`].
pub fn prove_consistency<R: NodeReader>(
    range: SubtreeRange,
    size: u64,
    reader: &R,
) -> Result<Vec<NodeHash>, ProveSubtreeError<R::Error>> {
    if range.end > size {
        return Err(ProveSubtreeError::BeyondTree { range, size });
    }
    let (mut nodes, mut parts) = (Vec::with_capacity(LEVELS), Vec::with_capacity(LEVELS));
    let mut take = |from, to| {
        let before = nodes.len();
        range_nodes(from, to, &mut nodes);
        parts.push(nodes.len() - before);
    };
    // SUBTREE_SUBPROOF: `[low, high)` is the node reached, `start` what is left of the range in it.
    let (mut low, mut high, mut start) = (0, size, range.start);
    while (start, range.end) != (low, high) {
        let middle = low + split_point(high - low);
        if range.end <= middle {
            take(middle, high);
            high = middle;
        } else {
            take(low, middle);
            low = middle;
            start = start.max(middle);
        }
    }
    // A part of the range is what the verifier cannot know; the whole range it has.
    if start > range.start {
        take(low, high);
    }
    let hashes = reader.read_nodes(&nodes).map_err(ProveSubtreeError::Reader)?;
    Ok(gather(&hashes, &parts))
}

/// Checks that `proof` shows `subtree` to be part of the tree of `size` leaves with `root`
/// (section 4.4.3).
///
/// # Errors
/// [`SubtreeError`], but for [`SubtreeError::OutOfRange`].
pub fn verify_consistency(
    subtree: &Subtree,
    size: u64,
    root: &NodeHash,
    proof: &[NodeHash],
) -> Result<(), SubtreeError> {
    let Subtree { range, hash } = *subtree;
    if range.end > size {
        return Err(SubtreeError::BeyondTree { range, size });
    }
    let expected = path_length(range, size) + usize::from(!is_node(range, size));
    let wrong_length = SubtreeError::WrongLength { found: proof.len(), expected };
    if proof.len() != expected {
        return Err(wrong_length);
    }
    let (seed, path) =
        if is_node(range, size) { (hash, proof) } else { split_seed(proof).ok_or(wrong_length)? };
    let (computed_hash, computed_root) = implied_hashes(range, size, seed, path);
    if computed_hash != hash {
        return Err(SubtreeError::WrongHash { computed: computed_hash, expected: hash });
    }
    if computed_root != *root {
        return Err(SubtreeError::WrongRoot { computed: computed_root, expected: *root });
    }
    Ok(())
}

/// Whether the range is a node of the tree of `size` leaves, so that its hash is where a proof begins.
pub(crate) fn is_node(range: SubtreeRange, size: u64) -> bool {
    range.path_start(size) == range.height()
}

/// Hashes on the path from where the proof begins to the root of a tree of `size` leaves.
pub(crate) fn path_length(range: SubtreeRange, size: u64) -> usize {
    let (index, inner) = path(range, size);
    (inner + shifted(index, inner).count_ones()) as usize
}

/// The subtree's hash and the root that a path implies. `seed` is the hash of the range where it is a
/// node of the tree, else that of its last complete part; `path` has [`path_length`] hashes.
pub(crate) fn implied_hashes(
    range: SubtreeRange,
    size: u64,
    seed: NodeHash,
    path: &[NodeHash],
) -> (NodeHash, NodeHash) {
    let height = range.height() - range.path_start(size);
    let (index, inner) = self::path(range, size);
    let (mut subtree, mut root) = (seed, seed);
    let mut rest = index;
    let mut level = 0;
    for sibling in path {
        if level >= inner {
            // Above the split from the tree's last leaf only left siblings remain, one for each set bit.
            let skipped = rest.trailing_zeros();
            rest = shifted(rest, skipped);
            level += skipped;
        }
        if rest & 1 == 1 {
            if level < height {
                subtree = NodeHash::join(sibling, &subtree);
            }
            root = NodeHash::join(sibling, &root);
        } else {
            root = NodeHash::join(&root, sibling);
        }
        rest >>= 1;
        level += 1;
    }
    (subtree, root)
}

pub(crate) fn split_seed(hashes: &[NodeHash]) -> Option<(NodeHash, &[NodeHash])> {
    hashes.split_first().map(|(seed, path)| (*seed, path))
}

/// Where the path begins, as the index of a node, and how many levels above it lie inside complete
/// subtrees on the way to the split from the tree's last leaf.
fn path(range: SubtreeRange, size: u64) -> (u64, u32) {
    let start = range.path_start(size);
    let index = shifted(range.end - 1, start);
    let inner = u64::BITS - (index ^ shifted(size - 1, start)).leading_zeros();
    (index, inner)
}

fn shifted(value: u64, by: u32) -> u64 {
    value.checked_shr(by).unwrap_or(0)
}

/// The nodes inside a subtree, for proofs that count its leaves from zero.
struct Inside<'r, R> {
    reader: &'r R,
    start: u64,
}

impl<R: NodeReader> NodeReader for Inside<'_, R> {
    type Error = R::Error;

    fn read_nodes(&self, nodes: &[NodeId]) -> Result<Vec<NodeHash>, R::Error> {
        let within = |node: &NodeId| NodeId {
            level: node.level,
            index: node.index + shifted(self.start, u32::from(node.level)),
        };
        self.reader.read_nodes(&nodes.iter().map(within).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::{Stored, leaves, mth};

    /// SUBTREE_SUBPROOF, section 4.4.1, word for word.
    fn subproof(start: usize, end: usize, d: &[LeafHash], whole: bool) -> Vec<NodeHash> {
        if start == 0 && end == d.len() {
            return if whole { Vec::new() } else { vec![mth(d)] };
        }
        let mut k = 1;
        while k * 2 < d.len() {
            k *= 2;
        }
        let (mut proof, other) = if end <= k {
            (subproof(start, end, &d[..k], whole), &d[k..])
        } else if k <= start {
            (subproof(start - k, end - k, &d[k..], whole), &d[..k])
        } else {
            (subproof(0, end - k, &d[k..], false), &d[..k])
        };
        proof.push(mth(other));
        proof
    }

    #[test]
    fn every_subtree_of_every_small_tree_proves_and_verifies() {
        let all = leaves(34);
        let stored = Stored::of(&all);
        for size in 1..=34 {
            let root = mth(&all[..size]);
            for (start, end) in (0..size).flat_map(|start| (start + 1..=size).map(move |end| (start, end))) {
                let aligned = start % (end - start).next_power_of_two() == 0;
                let range = SubtreeRange::new(start as u64, end as u64);
                assert_eq!(range.is_ok(), aligned, "[{start}, {end})");
                let Ok(range) = range else { continue };
                let subtree = Subtree { range, hash: hash(range, &stored).unwrap() };
                assert_eq!(subtree.hash, mth(&all[start..end]), "{range}");
                let n = size as u64;
                let proof = prove_consistency(range, n, &stored).unwrap();
                assert_eq!(proof, subproof(start, end, &all[..size], true), "{range} in {size}");
                assert_eq!(verify_consistency(&subtree, n, &root, &proof), Ok(()), "{range} in {size}");
                let other = Subtree { hash: NodeHash::join(&subtree.hash, &root), ..subtree };
                assert!(verify_consistency(&other, n, &root, &proof).is_err(), "{range} in {size}");
                assert!(verify_consistency(&subtree, n, &other.hash, &proof).is_err(), "{range} in {size}");
                for (index, leaf) in (start as u64..).zip(&all[start..end]) {
                    let proof = prove_inclusion(index, range, &stored).unwrap();
                    assert_eq!(verify_inclusion(index, *leaf, &proof, &subtree), Ok(()));
                    assert!(verify_inclusion(index, *leaf, &proof, &other).is_err());
                }
            }
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let stored = Stored::of(&leaves(16));
        let range = SubtreeRange::new(8, 13).unwrap();
        let subtree = Subtree { range, hash: hash(range, &stored).unwrap() };
        let leaf = LeafHash::of(b"8");
        for index in [0, 7, 13, u64::MAX] {
            let refused = Err(ProveSubtreeError::OutOfRange { index, range });
            assert_eq!(prove_inclusion(index, range, &stored), refused);
            let refused = Err(SubtreeError::OutOfRange { index, range });
            assert_eq!(verify_inclusion(index, leaf, &[], &subtree), refused);
        }
        for size in [0, 12] {
            let refused = Err(ProveSubtreeError::BeyondTree { range, size });
            assert_eq!(prove_consistency(range, size, &stored), refused);
            let refused = Err(SubtreeError::BeyondTree { range, size });
            assert_eq!(verify_consistency(&subtree, size, &subtree.hash, &[]), refused);
        }
    }

    #[test]
    fn the_largest_ranges_neither_overflow_nor_panic() {
        let hash = NodeHash::EMPTY_ROOT;
        let edges = [0, 1, 2, 3, 256, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];
        for (start, end) in edges.into_iter().flat_map(|start| edges.map(|end| (start, end))) {
            let Ok(range) = SubtreeRange::new(start, end) else { continue };
            for size in edges {
                for count in [0, 1, 62, 63, 64, 65] {
                    let _ = verify_consistency(&Subtree { range, hash }, size, &hash, &vec![hash; count]);
                }
            }
        }
        assert!(SubtreeRange::new(0, u64::MAX).is_ok());
        assert!(SubtreeRange::new(1, u64::MAX).is_err());
    }
}

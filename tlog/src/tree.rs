//! The Merkle tree: which nodes a root or a proof needs, and the growing right edge.
//!
//! Nothing here allocates in proportion to the tree. A root or a proof asks a [`NodeReader`] for at
//! most two hashes a level; appending needs the right edge alone.

use crate::hash::{LeafHash, NodeHash};

/// A complete subtree: `2^level` leaves starting at leaf `index * 2^level`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId {
    /// Height of the subtree; 0 is a leaf.
    pub level: u8,
    /// Position among the complete subtrees of that height.
    pub index: u64,
}

impl NodeId {
    pub(crate) fn new(level: u32, index: u64) -> Self {
        Self { level: u8::try_from(level).expect("a tree of 64-bit size is at most 64 levels high"), index }
    }
}

/// What roots and proofs need: stored node hashes by position.
pub trait NodeReader {
    /// Why a node cannot be read.
    type Error;

    /// The hashes of `nodes`, one each, in the order asked.
    ///
    /// # Errors
    /// When a node is missing or cannot be read. A reader never invents a hash.
    fn read_nodes(&self, nodes: &[NodeId]) -> Result<Vec<NodeHash>, Self::Error>;
}

impl<R: NodeReader + ?Sized> NodeReader for &R {
    type Error = R::Error;

    fn read_nodes(&self, nodes: &[NodeId]) -> Result<Vec<NodeHash>, Self::Error> {
        (**self).read_nodes(nodes)
    }
}

/// The complete subtrees that make up leaves `[start, end)`, left to right.
///
/// `start` must be aligned as RFC 6962's recursion aligns it: a multiple of the largest power of two
/// not above `end - start`, rounded up. At most 64 of them.
pub(crate) fn range_nodes(start: u64, end: u64, nodes: &mut Vec<NodeId>) {
    let mut at = start;
    while at < end {
        // 0 has 64 trailing zeros: any subtree starts there.
        let level = (end - at).ilog2().min(at.trailing_zeros());
        nodes.push(NodeId::new(level, at >> level));
        at += 1 << level;
    }
}

/// Folds complete subtrees, given left to right and falling in height, into the hash over them all.
pub(crate) fn fold_right(hashes: &[NodeHash]) -> Option<NodeHash> {
    let (last, rest) = hashes.split_last()?;
    Some(rest.iter().rfold(*last, |right, left| NodeHash::join(left, &right)))
}

/// The largest power of two strictly below `size`, where RFC 6962 splits a tree. `size` is over 1.
pub(crate) fn split_point(size: u64) -> u64 {
    debug_assert!(size > 1);
    1 << (size - 1).ilog2()
}

/// The root of the first `size` leaves (RFC 6962, section 2.1), from at most 64 stored hashes.
///
/// # Errors
/// Those of the reader.
pub fn root<R: NodeReader>(size: u64, reader: &R) -> Result<NodeHash, R::Error> {
    let mut nodes = Vec::new();
    range_nodes(0, size, &mut nodes);
    Ok(fold_right(&reader.read_nodes(&nodes)?).unwrap_or(NodeHash::EMPTY_ROOT))
}

/// The right edge of a growing tree: enough to append and to know the root, at most 64 hashes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Frontier {
    size: u64,
    /// Hashes of the complete subtrees, left to right, one for each bit set in `size`.
    edge: Vec<NodeHash>,
}

impl Frontier {
    /// The empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes up a stored tree of `size` leaves.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn load<R: NodeReader>(size: u64, reader: &R) -> Result<Self, R::Error> {
        let mut nodes = Vec::new();
        range_nodes(0, size, &mut nodes);
        Ok(Self { size, edge: reader.read_nodes(&nodes)? })
    }

    /// Leaves so far.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Appends one leaf and answers every subtree that it completes, the leaf itself first, rising.
    pub fn append(&mut self, leaf: LeafHash) -> Vec<(NodeId, NodeHash)> {
        let mut completed = Vec::with_capacity(self.size.trailing_ones() as usize + 1);
        self.push(leaf.into(), |node, hash| completed.push((node, hash)));
        completed
    }

    /// Appends a leaf hash read back from a tile, whose entry was hashed by somebody else.
    ///
    /// For verifiers that rebuild a root from level 0 tiles; the root then authenticates the hashes.
    pub fn append_stored(&mut self, leaf: NodeHash) {
        self.push(leaf, |_, _| {});
    }

    fn push(&mut self, leaf: NodeHash, mut completed: impl FnMut(NodeId, NodeHash)) {
        let mut hash = leaf;
        completed(NodeId::new(0, self.size), hash);
        for level in 1..=self.size.trailing_ones() {
            let left = self.edge.pop().expect("one edge hash for each trailing one bit of the size");
            hash = NodeHash::join(&left, &hash);
            completed(NodeId::new(level, self.size >> level), hash);
        }
        self.edge.push(hash);
        self.size = self.size.checked_add(1).expect("a tree of 2^64 leaves cannot be built");
    }

    /// The root of the tree so far.
    pub fn root(&self) -> NodeHash {
        fold_right(&self.edge).unwrap_or(NodeHash::EMPTY_ROOT)
    }
}

/// The root over leaf hashes held in memory.
pub fn root_of(leaves: &[LeafHash]) -> NodeHash {
    if leaves.is_empty() { NodeHash::EMPTY_ROOT } else { over(leaves) }
}

/// The hash over one or more hashes in order (RFC 6962, section 2.1).
pub(crate) fn over<H: Copy + Into<NodeHash>>(hashes: &[H]) -> NodeHash {
    match hashes {
        [hash] => (*hash).into(),
        [left, right] => NodeHash::join(&(*left).into(), &(*right).into()),
        _ => {
            let (left, right) = hashes.split_at(hashes.len().next_power_of_two() / 2);
            NodeHash::join(&over(left), &over(right))
        }
    }
}

/// Levels of the highest tree.
pub(crate) const LEVELS: usize = 64;

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashMap;
    use std::convert::Infallible;

    use super::*;

    /// RFC 6962, section 2.1, word for word; slow on purpose.
    pub(crate) fn mth(leaves: &[LeafHash]) -> NodeHash {
        match leaves {
            [] => NodeHash::EMPTY_ROOT,
            [leaf] => (*leaf).into(),
            _ => {
                let mut k = 1;
                while k * 2 < leaves.len() {
                    k *= 2;
                }
                NodeHash::join(&mth(&leaves[..k]), &mth(&leaves[k..]))
            }
        }
    }

    pub(crate) fn leaves(count: u64) -> Vec<LeafHash> {
        (0..count).map(|i| LeafHash::of(i.to_string().as_bytes())).collect()
    }

    /// Every complete subtree of a small tree, in memory.
    pub(crate) struct Stored(HashMap<NodeId, NodeHash>);

    impl Stored {
        pub(crate) fn of(leaves: &[LeafHash]) -> Self {
            let mut frontier = Frontier::new();
            Self(leaves.iter().flat_map(|leaf| frontier.append(*leaf)).collect())
        }
    }

    impl NodeReader for Stored {
        type Error = Infallible;
        fn read_nodes(&self, nodes: &[NodeId]) -> Result<Vec<NodeHash>, Infallible> {
            Ok(nodes.iter().map(|node| self.0[node]).collect())
        }
    }

    #[test]
    fn roots_match_the_rfc_recursion_at_every_small_size() {
        let all = leaves(600);
        let stored = Stored::of(&all);
        let (mut frontier, mut of_stored) = (Frontier::new(), Frontier::new());
        for size in 0..=600u64 {
            let expected = mth(&all[..usize::try_from(size).unwrap()]);
            assert_eq!(root(size, &stored), Ok(expected), "root({size})");
            assert_eq!(root(size, &&stored), Ok(expected), "by reference");
            assert_eq!((frontier.root(), frontier.size()), (expected, size), "frontier at {size}");
            assert_eq!(of_stored, frontier);
            assert_eq!(root_of(&all[..usize::try_from(size).unwrap()]), expected, "root_of {size}");
            assert_eq!(Frontier::load(size, &stored), Ok(frontier.clone()));
            if let Some(leaf) = all.get(usize::try_from(size).unwrap()) {
                frontier.append(*leaf);
                of_stored.append_stored((*leaf).into());
            }
        }
    }

    #[test]
    fn completed_subtrees_are_the_roots_of_their_leaves() {
        let all = leaves(300);
        let mut frontier = Frontier::new();
        for leaf in &all {
            for (node, hash) in frontier.append(*leaf) {
                let start = usize::try_from(node.index << node.level).unwrap();
                assert_eq!(hash, mth(&all[start..start + (1 << node.level)]), "{node:?}");
            }
        }
    }

    #[test]
    fn a_huge_tree_needs_at_most_64_nodes() {
        for size in [u64::MAX, 1 << 63, (1 << 63) - 1, 1] {
            let mut nodes = Vec::new();
            range_nodes(0, size, &mut nodes);
            assert_eq!(nodes.len(), size.count_ones() as usize);
        }
    }
}

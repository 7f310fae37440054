//! Inclusion proofs: that one leaf is in a tree (RFC 6962, section 2.1.1). Prove and verify.

use thiserror::Error;

use crate::hash::{LeafHash, NodeHash};
use crate::tree::{LEVELS, NodeReader, fold_right, range_nodes, split_point};

/// Why an inclusion proof cannot be made.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProveInclusionError<E> {
    /// The tree does not hold the leaf.
    #[error("leaf {index} is not in a tree of {size} leaves")]
    OutOfRange {
        /// The leaf asked for.
        index: u64,
        /// The tree's size.
        size: u64,
    },
    /// A stored hash could not be read.
    #[error("a stored hash could not be read")]
    Reader(#[source] E),
}

/// Why an inclusion proof does not hold.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
pub enum InclusionError {
    /// The tree does not hold that index.
    #[error("leaf index {index} is not below the tree size {size}")]
    OutOfRange {
        /// The claimed index.
        index: u64,
        /// The claimed tree size.
        size: u64,
    },
    /// A proof of that leaf in that tree has another number of hashes.
    #[error("the inclusion proof has {found} hashes where {expected} are needed")]
    WrongLength {
        /// Hashes in the proof.
        found: usize,
        /// Hashes that the tree's shape demands.
        expected: usize,
    },
    /// The hashes lead to another root.
    #[error("the inclusion proof leads to root {computed}, not {expected}")]
    WrongRoot {
        /// The root the proof leads to.
        computed: NodeHash,
        /// The root it was held against.
        expected: NodeHash,
    },
}

/// Proves that leaf `index` is in the tree of `size` leaves.
///
/// The hashes run from the leaf's sibling to the root's child, at most 63 of them.
///
/// # Errors
/// [`ProveInclusionError`].
pub fn prove<R: NodeReader>(
    index: u64,
    size: u64,
    reader: &R,
) -> Result<Vec<NodeHash>, ProveInclusionError<R::Error>> {
    if index >= size {
        return Err(ProveInclusionError::OutOfRange { index, size });
    }
    let (mut nodes, mut parts) = (Vec::with_capacity(LEVELS), Vec::with_capacity(LEVELS));
    let (mut start, mut end) = (0, size);
    // Down the tree: at every split the half without the leaf is one hash of the proof.
    while end - start > 1 {
        let middle = start + split_point(end - start);
        let before = nodes.len();
        if index < middle {
            range_nodes(middle, end, &mut nodes);
            end = middle;
        } else {
            range_nodes(start, middle, &mut nodes);
            start = middle;
        }
        parts.push(nodes.len() - before);
    }
    let hashes = reader.read_nodes(&nodes).map_err(ProveInclusionError::Reader)?;
    Ok(gather(&hashes, &parts))
}

/// Folds each part's hashes into one and answers them deepest first.
pub(crate) fn gather(hashes: &[NodeHash], parts: &[usize]) -> Vec<NodeHash> {
    assert_eq!(hashes.len(), parts.iter().sum::<usize>(), "a node reader answers every node");
    let mut rest = hashes;
    let fold = |part: &usize| {
        let (part, after) = rest.split_at(*part);
        rest = after;
        fold_right(part)
    };
    let mut proof: Vec<NodeHash> = parts.iter().filter_map(fold).collect();
    proof.reverse();
    proof
}

/// The root that `proof` implies for `leaf` at `index` in a tree of `size` leaves.
///
/// A proof does not bind the size by itself: hold the root against a signed checkpoint of that size.
///
/// # Errors
/// [`InclusionError::OutOfRange`] and [`InclusionError::WrongLength`].
pub fn implied_root(
    index: u64,
    size: u64,
    leaf: NodeHash,
    proof: &[NodeHash],
) -> Result<NodeHash, InclusionError> {
    if index >= size {
        return Err(InclusionError::OutOfRange { index, size });
    }
    // Below `inner` the leaf's path is inside complete subtrees; above it only left siblings remain,
    // one for each bit set in the rest of the index.
    let inner = inner_levels(index, size);
    let border = (index.checked_shr(inner).unwrap_or(0)).count_ones();
    let expected = (inner + border) as usize;
    if proof.len() != expected {
        return Err(InclusionError::WrongLength { found: proof.len(), expected });
    }
    let (inside, above) = proof.split_at(inner as usize);
    let mut hash = leaf;
    for (level, sibling) in inside.iter().enumerate() {
        hash = if index >> level & 1 == 0 {
            NodeHash::join(&hash, sibling)
        } else {
            NodeHash::join(sibling, &hash)
        };
    }
    Ok(above.iter().fold(hash, |right, left| NodeHash::join(left, &right)))
}

fn inner_levels(index: u64, size: u64) -> u32 {
    u64::BITS - (index ^ (size - 1)).leading_zeros()
}

/// Checks that `proof` shows `leaf` at `index` in the tree of `size` leaves with `root`.
///
/// # Errors
/// [`InclusionError`].
pub fn verify(
    index: u64,
    size: u64,
    leaf: LeafHash,
    proof: &[NodeHash],
    root: &NodeHash,
) -> Result<(), InclusionError> {
    let computed = implied_root(index, size, leaf.into(), proof)?;
    if computed == *root { Ok(()) } else { Err(InclusionError::WrongRoot { computed, expected: *root }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::{Stored, leaves, mth};

    /// RFC 6962, section 2.1.1, word for word.
    fn path(m: usize, d: &[LeafHash]) -> Vec<NodeHash> {
        if d.len() <= 1 {
            return Vec::new();
        }
        let mut k = 1;
        while k * 2 < d.len() {
            k *= 2;
        }
        if m < k {
            let mut proof = path(m, &d[..k]);
            proof.push(mth(&d[k..]));
            proof
        } else {
            let mut proof = path(m - k, &d[k..]);
            proof.push(mth(&d[..k]));
            proof
        }
    }

    #[test]
    fn proofs_match_the_rfc_recursion_and_verify() {
        let all = leaves(70);
        let stored = Stored::of(&all);
        for size in 1..=70usize {
            let root = mth(&all[..size]);
            for index in 0..size {
                let (i, n) = (index as u64, size as u64);
                let proof = prove(i, n, &stored).unwrap();
                assert_eq!(proof, path(index, &all[..size]), "{index} in {size}");
                assert_eq!(verify(i, n, all[index], &proof, &root), Ok(()));
                assert!(verify(i, n, all[(index + 1) % 70], &proof, &root).is_err());
                let mut longer = proof.clone();
                longer.push(root);
                assert!(matches!(
                    verify(i, n, all[index], &longer, &root),
                    Err(InclusionError::WrongLength { .. })
                ));
            }
        }
    }

    #[test]
    fn degenerate_sizes_are_refused_without_panic() {
        let sizes = [0, 1, 2, 3, 255, 256, 257, 1 << 32, 1 << 63, u64::MAX];
        let hash = NodeHash::EMPTY_ROOT;
        for index in sizes {
            for size in sizes {
                for count in [0usize, 1, 63, 64, 65] {
                    let result = implied_root(index, size, hash, &vec![hash; count]);
                    assert!(index < size || matches!(result, Err(InclusionError::OutOfRange { .. })));
                }
            }
        }
    }
}

//! Consistency proofs: that one tree extends another (RFC 6962, section 2.1.2). Prove and verify.

use thiserror::Error;

use crate::hash::NodeHash;
use crate::inclusion::gather;
use crate::tree::{NodeReader, range_nodes, split_point};

/// Most hashes a consistency proof can have in a tree of at most 2^63 - 1 leaves.
pub const PROOF_HASHES_MAX: usize = 63;

/// Why a consistency proof cannot be made.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProveConsistencyError<E> {
    /// The older tree is the larger one.
    #[error("there is no consistency proof from size {old} down to size {new}")]
    SizesReversed {
        /// The size to prove from.
        old: u64,
        /// The size to prove to.
        new: u64,
    },
    /// A stored hash could not be read.
    #[error("a stored hash could not be read")]
    Reader(#[source] E),
}

/// Why a consistency proof does not hold.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
pub enum ConsistencyError {
    /// A tree never shrinks.
    #[error("a tree of {new} leaves cannot extend one of {old}")]
    SizesReversed {
        /// The older size.
        old: u64,
        /// The newer size.
        new: u64,
    },
    /// A proof between those sizes has another number of hashes.
    #[error("the consistency proof from {old} to {new} has {found} hashes where {expected} are needed")]
    WrongLength {
        /// The older size.
        old: u64,
        /// The newer size.
        new: u64,
        /// Hashes in the proof.
        found: usize,
        /// Hashes that the trees' shapes demand.
        expected: usize,
    },
    /// Size zero goes with one root only, SHA-256 of nothing.
    #[error("size zero is stated with root {root}, which is not the root of the empty tree")]
    EmptyRoot {
        /// The stated root.
        root: NodeHash,
    },
    /// Two roots for one size: the history was split.
    #[error("two roots for size {size}: {old} and {new}")]
    RootsDiffer {
        /// The size both trees have.
        size: u64,
        /// The older statement.
        old: NodeHash,
        /// The newer statement.
        new: NodeHash,
    },
    /// The hashes rebuild another older root.
    #[error("the proof rebuilds older root {computed}, not {expected}")]
    WrongOldRoot {
        /// The root the hashes imply.
        computed: NodeHash,
        /// The root that was remembered.
        expected: NodeHash,
    },
    /// The hashes rebuild another newer root.
    #[error("the proof rebuilds newer root {computed}, not {expected}")]
    WrongNewRoot {
        /// The root the hashes imply.
        computed: NodeHash,
        /// The root that was stated.
        expected: NodeHash,
    },
}

/// Proves that the tree of `old` leaves is a prefix of the tree of `new` leaves.
///
/// Hashes run from the deepest node to the root's child, at most 63 of them; none when `old` is zero
/// or equals `new`.
///
/// # Errors
/// [`ProveConsistencyError`].
pub fn prove<R: NodeReader>(
    old: u64,
    new: u64,
    reader: &R,
) -> Result<Vec<NodeHash>, ProveConsistencyError<R::Error>> {
    if old > new {
        return Err(ProveConsistencyError::SizesReversed { old, new });
    }
    if old == 0 || old == new {
        return Ok(Vec::new());
    }
    let mut nodes = Vec::new();
    let mut parts = Vec::new();
    let (mut start, mut end) = (0, new);
    let mut take = |from, to| {
        let before = nodes.len();
        range_nodes(from, to, &mut nodes);
        parts.push(nodes.len() - before);
    };
    // SUBPROOF of the RFC: descend towards the boundary at leaf `old`.
    while old != end {
        let middle = start + split_point(end - start);
        if old <= middle {
            take(middle, end);
            end = middle;
        } else {
            take(start, middle);
            start = middle;
        }
    }
    // The older tree's own last complete part is left out where the verifier has it as the old root.
    if start > 0 {
        take(start, end);
    }
    let hashes = reader.read_nodes(&nodes).map_err(ProveConsistencyError::Reader)?;
    Ok(gather(&hashes, &parts))
}

/// The older and the newer root that `hashes` imply, for `0 < old < new`.
///
/// `hashes` starts with the newer tree's hash at the older tree's last complete subtree in every
/// case, also where RFC 6962 leaves it out because `old` is a power of two.
///
/// # Errors
/// [`ConsistencyError::SizesReversed`] and [`ConsistencyError::WrongLength`].
pub fn implied_roots(
    old: u64,
    new: u64,
    hashes: &[NodeHash],
) -> Result<(NodeHash, NodeHash), ConsistencyError> {
    if old == 0 || old >= new {
        return Err(ConsistencyError::SizesReversed { old, new });
    }
    // The path of the last leaf of the older tree, from the root of its last complete subtree up.
    let shift = old.trailing_zeros();
    let index = (old - 1) >> shift;
    let inner = u64::BITS - (((old - 1) ^ (new - 1)) >> shift).leading_zeros();
    let border = index.checked_shr(inner).unwrap_or(0).count_ones();
    let expected = 1 + (inner + border) as usize;
    let Some((seed, path)) = hashes.split_first().filter(|_| hashes.len() == expected) else {
        return Err(ConsistencyError::WrongLength { old, new, found: hashes.len(), expected });
    };
    let (mut old_root, mut new_root) = (*seed, *seed);
    let (inside, above) = path.split_at(inner as usize);
    for (level, sibling) in inside.iter().enumerate() {
        if index >> level & 1 == 1 {
            old_root = NodeHash::join(sibling, &old_root);
            new_root = NodeHash::join(sibling, &new_root);
        } else {
            new_root = NodeHash::join(&new_root, sibling);
        }
    }
    for sibling in above {
        old_root = NodeHash::join(sibling, &old_root);
        new_root = NodeHash::join(sibling, &new_root);
    }
    Ok((old_root, new_root))
}

/// Checks that the tree `(new, new_root)` extends the tree `(old, old_root)`.
///
/// The empty tree is extended by every tree, with an empty proof; equal sizes need equal roots and
/// an empty proof.
///
/// # Errors
/// [`ConsistencyError`].
pub fn verify(
    old: u64,
    old_root: &NodeHash,
    new: u64,
    new_root: &NodeHash,
    proof: &[NodeHash],
) -> Result<(), ConsistencyError> {
    if old > new {
        return Err(ConsistencyError::SizesReversed { old, new });
    }
    for (size, root) in [(old, old_root), (new, new_root)] {
        if size == 0 && *root != NodeHash::EMPTY_ROOT {
            return Err(ConsistencyError::EmptyRoot { root: *root });
        }
    }
    if old == 0 || old == new {
        if !proof.is_empty() {
            return Err(ConsistencyError::WrongLength { old, new, found: proof.len(), expected: 0 });
        }
        if old == new && old_root != new_root {
            return Err(ConsistencyError::RootsDiffer { size: old, old: *old_root, new: *new_root });
        }
        return Ok(());
    }
    // RFC 6962 leaves the first hash out where it is the old root itself. A proof that is too long
    // could not be checked for its length after the insertion of ours, so cap it before.
    let (computed_old, computed_new) = if old.is_power_of_two() {
        let mut hashes = Vec::with_capacity(proof.len() + 1);
        hashes.push(*old_root);
        hashes.extend_from_slice(proof);
        implied_roots(old, new, &hashes).map_err(|error| match error {
            ConsistencyError::WrongLength { old, new, found, expected } => {
                ConsistencyError::WrongLength { old, new, found: found - 1, expected: expected - 1 }
            }
            other => other,
        })?
    } else {
        implied_roots(old, new, proof)?
    };
    if computed_old != *old_root {
        return Err(ConsistencyError::WrongOldRoot { computed: computed_old, expected: *old_root });
    }
    if computed_new != *new_root {
        return Err(ConsistencyError::WrongNewRoot { computed: computed_new, expected: *new_root });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::LeafHash;
    use crate::tree::tests::{Stored, leaves, mth};

    /// RFC 6962, section 2.1.2, word for word.
    fn subproof(m: usize, d: &[LeafHash], whole: bool) -> Vec<NodeHash> {
        if m == d.len() {
            return if whole { Vec::new() } else { vec![mth(d)] };
        }
        let mut k = 1;
        while k * 2 < d.len() {
            k *= 2;
        }
        if m <= k {
            let mut proof = subproof(m, &d[..k], whole);
            proof.push(mth(&d[k..]));
            proof
        } else {
            let mut proof = subproof(m - k, &d[k..], false);
            proof.push(mth(&d[..k]));
            proof
        }
    }

    #[test]
    fn proofs_match_the_rfc_recursion_and_verify() {
        let all = leaves(70);
        let stored = Stored::of(&all);
        for new in 1..=70usize {
            let new_root = mth(&all[..new]);
            for old in 1..=new {
                let (m, n) = (old as u64, new as u64);
                let old_root = mth(&all[..old]);
                let proof = prove(m, n, &stored).unwrap();
                assert_eq!(proof, subproof(old, &all[..new], true), "{old} to {new}");
                assert_eq!(verify(m, &old_root, n, &new_root, &proof), Ok(()), "{old} to {new}");
                if old < new {
                    let other = NodeHash::join(&old_root, &new_root);
                    assert!(verify(m, &other, n, &new_root, &proof).is_err());
                    assert!(verify(m, &old_root, n, &other, &proof).is_err());
                }
                let mut longer = proof.clone();
                longer.push(old_root);
                assert!(verify(m, &old_root, n, &new_root, &longer).is_err());
            }
        }
    }

    #[test]
    fn the_empty_tree_pairs_with_its_own_root_only() {
        let root = mth(&leaves(5));
        assert_eq!(verify(0, &NodeHash::EMPTY_ROOT, 5, &root, &[]), Ok(()));
        assert_eq!(verify(0, &root, 5, &root, &[]), Err(ConsistencyError::EmptyRoot { root }));
        assert_eq!(
            verify(0, &NodeHash::EMPTY_ROOT, 0, &root, &[]),
            Err(ConsistencyError::EmptyRoot { root })
        );
        assert!(matches!(
            verify(0, &NodeHash::EMPTY_ROOT, 5, &root, &[root]),
            Err(ConsistencyError::WrongLength { expected: 0, .. })
        ));
    }

    #[test]
    fn degenerate_sizes_are_refused_without_panic() {
        let sizes = [0, 1, 2, 3, 255, 256, 257, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX];
        let hash = mth(&leaves(1));
        for old in sizes {
            for new in sizes {
                for count in [0usize, 1, 62, 63, 64, 65] {
                    let hashes = vec![hash; count];
                    let _ = implied_roots(old, new, &hashes);
                    let result = verify(old, &hash, new, &hash, &hashes);
                    if old > new {
                        assert_eq!(result, Err(ConsistencyError::SizesReversed { old, new }));
                    }
                }
            }
        }
    }
}

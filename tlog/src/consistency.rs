//! Consistency proofs: that one tree extends another (RFC 6962, section 2.1.2). Prove and verify.
//!
//! The older tree is the subtree `[0, old)` of the newer one; what the sizes and roots of whole trees
//! add to a subtree proof is here.

use thiserror::Error;

use crate::hash::NodeHash;
use crate::subtree::{self, ProveSubtreeError, Subtree, SubtreeError, SubtreeRange};
use crate::tree::NodeReader;

/// Most hashes that a witness request may carry (c2sp.org/tlog-witness): all that a proof can have in a
/// tree of at most 2^62 leaves. A larger tree may need one more.
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
/// Hashes run from the deepest node to the root's child, at most 64 of them; none when `old` is zero
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
    let Ok(older) = SubtreeRange::new(0, old) else { return Ok(Vec::new()) };
    subtree::prove_consistency(older, new, reader).map_err(|error| match error {
        ProveSubtreeError::Reader(error) => ProveConsistencyError::Reader(error),
        ProveSubtreeError::OutOfRange { .. } | ProveSubtreeError::BeyondTree { .. } => {
            ProveConsistencyError::SizesReversed { old, new }
        }
    })
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
    let reversed = ConsistencyError::SizesReversed { old, new };
    let older = SubtreeRange::new(0, old).map_err(|_| reversed)?;
    if old >= new {
        return Err(reversed);
    }
    let expected = 1 + subtree::path_length(older, new);
    let wrong_length = ConsistencyError::WrongLength { old, new, found: hashes.len(), expected };
    match subtree::split_seed(hashes) {
        Some((seed, path)) if hashes.len() == expected => Ok(subtree::implied_hashes(older, new, seed, path)),
        _ => Err(wrong_length),
    }
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
    let range = SubtreeRange::new(0, old).map_err(|_| ConsistencyError::SizesReversed { old, new })?;
    let older = Subtree { range, hash: *old_root };
    subtree::verify_consistency(&older, new, new_root, proof).map_err(|error| match error {
        SubtreeError::WrongLength { found, expected } => {
            ConsistencyError::WrongLength { old, new, found, expected }
        }
        SubtreeError::WrongHash { computed, expected } => {
            ConsistencyError::WrongOldRoot { computed, expected }
        }
        SubtreeError::WrongRoot { computed, expected } => {
            ConsistencyError::WrongNewRoot { computed, expected }
        }
        SubtreeError::OutOfRange { .. } | SubtreeError::BeyondTree { .. } => {
            ConsistencyError::SizesReversed { old, new }
        }
    })
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

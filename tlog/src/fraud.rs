//! Fraud proofs: two checkpoints signed by one log that cannot both be true, and the O(log n) hashes
//! that show it to anybody, without the log, a witness or this suite's say-so.
//!
//! ```text
//! runseal/fraud-proof@v1
//! <hash, base64>            zero or more lines
//!
//! <older signed checkpoint, whole>
//!
//! <newer signed checkpoint, whole>
//! ```
//!
//! The hashes are the consistency proof that the *newer* tree gives from the older size. RFC 6962
//! leaves a first hash out where the older size is a power of two, since a verifier has the older
//! root; a fraud proof always states it, as the newer tree has it, for the contradiction is there.

use std::fmt;

use thiserror::Error;

use crate::checkpoint::{OpenError, SignedCheckpoint};
use crate::consistency::{ConsistencyError, PROOF_HASHES_MAX, ProveConsistencyError, implied_roots, prove};
use crate::hash::NodeHash;
use crate::key::VerifierKey;
use crate::note::{Note, NoteError};
use crate::tree::{NodeId, NodeReader};

/// First line of a fraud proof file.
pub const HEADER: &str = "runseal/fraud-proof@v1";

/// Why text is not a fraud proof file.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum FraudProofError {
    /// Not UTF-8.
    #[error("the fraud proof is not valid UTF-8")]
    Utf8,
    /// The first line is another one.
    #[error("line 1 is not {HEADER:?}")]
    Header,
    /// A line that is no hash.
    #[error("line {line}: not a hash (base64 of 32 bytes)")]
    Hash {
        /// Line number from 1.
        line: usize,
    },
    /// More hashes than any tree can need.
    #[error("more than {} hashes", PROOF_HASHES_MAX + 1)]
    TooManyHashes,
    /// Not two notes with a blank line before each.
    #[error("the hashes are not followed by two signed checkpoints, a blank line before each")]
    Shape,
    /// The older checkpoint is no note.
    #[error("the older checkpoint: {0}")]
    Older(#[source] NoteError),
    /// The newer checkpoint is no note.
    #[error("the newer checkpoint: {0}")]
    Newer(#[source] NoteError),
}

/// Why a fraud proof proves nothing.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum NoFraud {
    /// The older checkpoint is not signed by the log.
    #[error("the older checkpoint: {0}")]
    Older(#[source] OpenError),
    /// The newer checkpoint is not signed by the log.
    #[error("the newer checkpoint: {0}")]
    Newer(#[source] OpenError),
    /// Two logs.
    #[error("the checkpoints are of two logs, {older:?} and {newer:?}")]
    Origins {
        /// The older one's origin.
        older: String,
        /// The newer one's origin.
        newer: String,
    },
    /// The older checkpoint is the larger one.
    #[error("the older checkpoint has size {older}, above the newer one's {newer}")]
    Reversed {
        /// The older one's size.
        older: u64,
        /// The newer one's size.
        newer: u64,
    },
    /// Size zero leaves nothing to contradict.
    #[error("every tree extends the empty tree, so a checkpoint of size zero contradicts nothing")]
    Empty,
    /// Equal sizes need no hashes.
    #[error("the sizes are equal, but there are {0} hashes")]
    HashesAtEqualSize(usize),
    /// Equal sizes and equal roots.
    #[error("the checkpoints agree: one size, one root")]
    SameTree,
    /// The hashes do not fit the sizes.
    #[error(transparent)]
    Hashes(#[from] ConsistencyError),
    /// The hashes do not rebuild the newer root, so they are not the newer tree's.
    #[error("the hashes rebuild root {computed}, not the newer checkpoint's {signed}")]
    NotTheNewerTree {
        /// The root they rebuild.
        computed: NodeHash,
        /// The root that was signed.
        signed: NodeHash,
    },
    /// The newer tree extends the older one, as it should.
    #[error("the checkpoints agree: the newer tree extends the older one")]
    Consistent,
}

/// What a standing fraud proof shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fraud {
    /// The older checkpoint, opened.
    pub older: SignedCheckpoint,
    /// The newer checkpoint, opened.
    pub newer: SignedCheckpoint,
    /// The root that the newer tree has at the older size; the log signed another one.
    pub implied_older_root: NodeHash,
}

/// A fraud proof as read or made. Unverified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FraudProof {
    /// The newer tree's hashes towards the older size.
    pub hashes: Vec<NodeHash>,
    /// The older (not larger) checkpoint.
    pub older: Note,
    /// The newer checkpoint.
    pub newer: Note,
}

impl FraudProof {
    /// Makes the hashes from the newer tree. `old` and `new` are the checkpoints' sizes.
    ///
    /// # Errors
    /// [`ProveConsistencyError`].
    pub fn hashes<R: NodeReader>(
        old: u64,
        new: u64,
        newer_tree: &R,
    ) -> Result<Vec<NodeHash>, ProveConsistencyError<R::Error>> {
        let mut hashes = prove(old, new, newer_tree)?;
        if old != new && old.is_power_of_two() {
            let older_tree = NodeId::new(old.trailing_zeros(), 0);
            let first = newer_tree.read_nodes(&[older_tree]).map_err(ProveConsistencyError::Reader)?;
            hashes.splice(0..0, first);
        }
        Ok(hashes)
    }

    /// Reads a fraud proof file. Exactly the bytes that `Display` writes are accepted.
    ///
    /// # Errors
    /// [`FraudProofError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, FraudProofError> {
        let all = std::str::from_utf8(bytes).map_err(|_| FraudProofError::Utf8)?;
        let (head, notes) = all.split_once("\n\n").ok_or(FraudProofError::Shape)?;
        let mut lines = head.split('\n');
        if lines.next() != Some(HEADER) {
            return Err(FraudProofError::Header);
        }
        let mut hashes = Vec::new();
        for (number, line) in lines.enumerate() {
            if hashes.len() > PROOF_HASHES_MAX {
                return Err(FraudProofError::TooManyHashes);
            }
            let hash = NodeHash::from_base64(line).ok_or(FraudProofError::Hash { line: number + 2 })?;
            hashes.push(hash);
        }
        // A checkpoint has no empty line in its text, so the second one ends the older note.
        let (older_end, _) = notes.match_indices("\n\n").nth(1).ok_or(FraudProofError::Shape)?;
        let (older, newer) = notes.split_at(older_end + 1);
        let newer = newer.strip_prefix('\n').ok_or(FraudProofError::Shape)?;
        Ok(Self {
            hashes,
            older: Note::parse(older.as_bytes()).map_err(FraudProofError::Older)?,
            newer: Note::parse(newer.as_bytes()).map_err(FraudProofError::Newer)?,
        })
    }

    /// Checks that the log whose keys are given signed two histories.
    ///
    /// # Errors
    /// [`NoFraud`]: the file proves nothing, and why.
    pub fn verify<'k>(
        &self,
        log_keys: impl IntoIterator<Item = &'k VerifierKey> + Clone,
    ) -> Result<Fraud, NoFraud> {
        let older =
            SignedCheckpoint::open(self.older.clone(), log_keys.clone(), []).map_err(NoFraud::Older)?;
        let newer = SignedCheckpoint::open(self.newer.clone(), log_keys, []).map_err(NoFraud::Newer)?;
        let (a, b) = (older.checkpoint(), newer.checkpoint());
        if a.origin() != b.origin() {
            return Err(NoFraud::Origins { older: a.origin().to_owned(), newer: b.origin().to_owned() });
        }
        if a.size() > b.size() {
            return Err(NoFraud::Reversed { older: a.size(), newer: b.size() });
        }
        let implied_older_root = if a.size() == b.size() {
            if !self.hashes.is_empty() {
                return Err(NoFraud::HashesAtEqualSize(self.hashes.len()));
            }
            if a.root() == b.root() {
                return Err(NoFraud::SameTree);
            }
            *b.root()
        } else if a.size() == 0 {
            return Err(NoFraud::Empty);
        } else {
            let (old_root, new_root) = implied_roots(a.size(), b.size(), &self.hashes)?;
            if new_root != *b.root() {
                return Err(NoFraud::NotTheNewerTree { computed: new_root, signed: *b.root() });
            }
            if old_root == *a.root() {
                return Err(NoFraud::Consistent);
            }
            old_root
        };
        Ok(Fraud { older, newer, implied_older_root })
    }
}

impl fmt::Display for FraudProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        self.hashes.iter().try_for_each(|hash| writeln!(f, "{hash}"))?;
        write!(f, "\n{}\n{}", self.older, self.newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Checkpoint;
    use crate::hash::LeafHash;
    use crate::key::{Algorithm, KeyName, SignerKey};
    use crate::tree::tests::{Stored, leaves, mth};

    fn key(seed: u8) -> SignerKey {
        SignerKey::from_seed(KeyName::new("log.example").unwrap(), Algorithm::Ed25519, &[seed; 32])
    }

    fn signed(size: usize, leaves: &[LeafHash], key: &SignerKey) -> Note {
        Checkpoint::new("log.example", size as u64, mth(&leaves[..size])).unwrap().sign(key).unwrap()
    }

    fn proof(older: (usize, &[LeafHash]), newer: (usize, &[LeafHash]), key: &SignerKey) -> FraudProof {
        let stored = Stored::of(newer.1);
        FraudProof {
            hashes: FraudProof::hashes(older.0 as u64, newer.0 as u64, &stored).unwrap(),
            older: signed(older.0, older.1, key),
            newer: signed(newer.0, newer.1, key),
        }
    }

    #[test]
    fn an_edited_history_is_convicted_at_every_size_and_an_honest_one_at_none() {
        let honest = leaves(40);
        let mut edited = honest.clone();
        edited[0] = LeafHash::of(b"another");
        let key = key(1);
        for new in 1..=40 {
            for old in 1..=new {
                let made = proof((old, &honest), (new, &edited), &key);
                let read = FraudProof::parse(made.to_string().as_bytes()).unwrap();
                assert_eq!(read, made);
                let fraud = read.verify([key.verifier()]).unwrap();
                assert_eq!(fraud.implied_older_root, mth(&edited[..old]), "{old} to {new}");
                let innocent = proof((old, &honest), (new, &honest), &key).verify([key.verifier()]);
                let expected = if old == new { NoFraud::SameTree } else { NoFraud::Consistent };
                assert_eq!(innocent, Err(expected), "{old} to {new}");
            }
        }
    }

    #[test]
    fn what_the_log_did_not_sign_convicts_nobody() {
        let honest = leaves(9);
        let mut edited = honest.clone();
        edited[3] = LeafHash::of(b"another");
        let made = proof((5, &honest), (9, &edited), &key(1));
        assert!(matches!(made.verify([key(2).verifier()]), Err(NoFraud::Older(_))));
        let mut swapped = made.clone();
        std::mem::swap(&mut swapped.older, &mut swapped.newer);
        assert_eq!(swapped.verify([key(1).verifier()]), Err(NoFraud::Reversed { older: 9, newer: 5 }));
        let mut cut = made.clone();
        cut.hashes.pop();
        assert!(matches!(cut.verify([key(1).verifier()]), Err(NoFraud::Hashes(_))));
        let mut forged = made;
        forged.hashes[0] = honest[0].into();
        assert!(matches!(forged.verify([key(1).verifier()]), Err(NoFraud::NotTheNewerTree { .. })));
        let empty = FraudProof {
            hashes: Vec::new(),
            older: signed(0, &honest, &key(1)),
            newer: signed(9, &honest, &key(1)),
        };
        assert_eq!(empty.verify([key(1).verifier()]), Err(NoFraud::Empty));
    }
}

//! A checkpoint handed in, and how it may contradict what the log signed before.

use std::sync::Arc;

use runseal_tlog::checkpoint::SignedCheckpoint;
use runseal_tlog::consistency::{self, ConsistencyError, implied_roots};
use runseal_tlog::hash::NodeHash;
use sha2::{Digest, Sha256};

use crate::logs::Log;
use crate::state::Head;

/// How a signed checkpoint contradicts the log's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contradiction {
    /// Two roots for one size.
    Fork,
    /// A proof that rebuilds the checkpoint's own root, but not the one last cosigned.
    Rewrite,
    /// A proof of the right length that rebuilds neither root. The log may be at fault, or whoever
    /// sent it; the checkpoint may still be shown to be consistent.
    Unproven,
    /// Size zero with another root than the empty tree's.
    Impossible,
    /// The log publishes less than it published before.
    Rollback,
    /// The log publishes a tile that its own checkpoint does not authenticate.
    BadTile,
}

impl Contradiction {
    /// As stored and logged.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::Rewrite => "rewrite",
            Self::Unproven => "unproven",
            Self::Impossible => "impossible",
            Self::Rollback => "rollback",
            Self::BadTile => "bad-tile",
        }
    }

    /// What a submission says against `head`.
    pub(crate) fn of(head: &Head, submission: &Submission) -> Option<Self> {
        let checkpoint = submission.signed.checkpoint();
        let (size, root) = (checkpoint.size(), checkpoint.root());
        if size == 0 && *root != NodeHash::EMPTY_ROOT {
            return Some(Self::Impossible);
        }
        if size == head.size {
            return (*root != head.root).then_some(Self::Fork);
        }
        match consistency::verify(head.size, &head.root, size, root, &submission.proof) {
            Err(ConsistencyError::WrongOldRoot { .. } | ConsistencyError::WrongNewRoot { .. }) => {
                let hashes = submission.fraud_hashes(head);
                let implied = hashes.and_then(|hashes| implied_roots(head.size, size, &hashes).ok());
                let rewritten = implied.is_some_and(|(old, new)| new == *root && old != head.root);
                Some(if rewritten { Self::Rewrite } else { Self::Unproven })
            }
            Ok(())
            | Err(
                ConsistencyError::SizesReversed { .. }
                | ConsistencyError::WrongLength { .. }
                | ConsistencyError::EmptyRoot { .. }
                | ConsistencyError::RootsDiffer { .. },
            ) => None,
        }
    }
}

/// A checkpoint that the log was seen to have signed, and what is claimed about it.
#[derive(Debug)]
pub struct Submission {
    /// The log.
    pub log: Arc<Log>,
    /// The size the client started from.
    pub old_size: u64,
    /// The proof from there.
    pub proof: Vec<NodeHash>,
    /// The checkpoint.
    pub signed: SignedCheckpoint,
    /// The newer tree's own hashes towards the old size, where the tree itself was at hand.
    pub tree_hashes: Option<Vec<NodeHash>>,
}

impl Submission {
    /// SHA-256 of the checkpoint's text, by which alarms know it.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.signed.note().unverified_text()).into()
    }

    /// The hashes that a fraud proof against `head` would state. A consistency proof has them but for
    /// the first one, which it leaves out where the older size is a power of two.
    pub(crate) fn fraud_hashes(&self, head: &Head) -> Option<Vec<NodeHash>> {
        let size = self.signed.checkpoint().size();
        if self.tree_hashes.is_some() {
            return self.tree_hashes.clone();
        }
        if size == head.size {
            return Some(Vec::new());
        }
        (!head.size.is_power_of_two()).then(|| self.proof.clone())
    }
}

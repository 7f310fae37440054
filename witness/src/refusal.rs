//! Why the witness refuses, and whose fault that is.

use runseal_tlog::checkpoint::{CheckpointError, OpenError};
use runseal_tlog::consistency::ConsistencyError;
use runseal_tlog::note::VerifyError;
use runseal_tlog::request::RequestError;
use runseal_tlog::subtree::{SubtreeError, SubtreeRange};
use thiserror::Error;

use crate::clock::ClockFault;
use crate::commit::NotDurable;
use crate::keys::SignError;
use crate::metrics::Outcome;
use crate::state::StateError;

/// Why the witness will not cosign: one variant for each MUST of tlog-witness, in the order checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The body is no request.
    #[error("{0}")]
    Malformed(#[from] RequestError),
    /// The note in it is no checkpoint.
    #[error("the checkpoint: {0}")]
    NotACheckpoint(#[from] CheckpointError),
    /// The log is not one of those followed.
    #[error("this witness does not follow a log with origin {0:?}")]
    UnknownOrigin(String),
    /// No trusted key of the log signed, or a line under such a key does not verify.
    #[error("{0}")]
    NotSigned(#[from] OpenError),
    /// The old size is above the checkpoint's.
    #[error("old size {old} is above the checkpoint's size {new}")]
    OldSizeAboveNew {
        /// The size the client started from.
        old: u64,
        /// The checkpoint's size.
        new: u64,
    },
    /// The old size is not the one last cosigned.
    #[error("old size {old} is not {cosigned}, the size last cosigned")]
    Conflict {
        /// The size the client started from.
        old: u64,
        /// The size last cosigned.
        cosigned: u64,
    },
    /// The proof does not hold, equal sizes have two roots, or size zero has another root than the
    /// empty tree's.
    #[error("{0}")]
    Inconsistent(#[from] ConsistencyError),
    /// No ML-DSA-44 key: `sign-subtree` is not offered.
    #[error("this witness does not cosign subtrees")]
    NoSubtrees,
    /// The subtree ends beyond the checkpoint.
    #[error("the subtree {range} ends beyond the checkpoint of size {size}")]
    SubtreeBeyondCheckpoint {
        /// The subtree.
        range: SubtreeRange,
        /// The checkpoint's size.
        size: u64,
    },
    /// The reference checkpoint is not cosigned by this witness.
    #[error("the checkpoint is not cosigned by this witness: {0}")]
    NotCosigned(#[source] VerifyError),
    /// The subtree is not shown to be part of the checkpoint's tree.
    #[error("{0}")]
    SubtreeInconsistent(#[source] SubtreeError),
    /// The log has used up its allowance.
    #[error("this log has used up its allowance of requests; try again in {retry_after} s")]
    OverQuota {
        /// Seconds until the next request is allowed.
        retry_after: u64,
    },
    /// The clock cannot be signed by.
    #[error("{0}")]
    Clock(#[from] ClockFault),
    /// The key cannot sign this, or is not to be had.
    #[error("{0}")]
    Sign(#[from] SignError),
    /// The state cannot be read.
    #[error("the witness could not read its state")]
    State(#[from] StateError),
    /// The state cannot be written.
    #[error("{0}")]
    NotDurable(#[from] NotDurable),
    /// Too many requests for this log at once.
    #[error("this log has too many requests at once; try again")]
    Busy,
}

impl Refusal {
    /// What the metrics call it.
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Malformed(_) | Self::NotACheckpoint(_) | Self::SubtreeBeyondCheckpoint { .. } => {
                Outcome::Malformed
            }
            Self::UnknownOrigin(_) | Self::NoSubtrees => Outcome::UnknownOrigin,
            Self::NotSigned(_) | Self::NotCosigned(_) => Outcome::NotSigned,
            Self::OldSizeAboveNew { .. } => Outcome::OldSize,
            Self::Conflict { .. } => Outcome::Conflict,
            Self::Inconsistent(_) | Self::SubtreeInconsistent(_) => Outcome::Inconsistent,
            Self::OverQuota { .. } => Outcome::OverQuota,
            Self::Clock(_) => Outcome::Clock,
            Self::Sign(_) | Self::State(_) | Self::NotDurable(_) | Self::Busy => Outcome::Unavailable,
        }
    }

    /// Whose fault it is.
    pub const fn blame(&self) -> Blame {
        match self.outcome() {
            Outcome::Conflict => Blame::StaleClient,
            Outcome::Clock | Outcome::Unavailable => Blame::Witness,
            Outcome::Signed
            | Outcome::Malformed
            | Outcome::UnknownOrigin
            | Outcome::NotSigned
            | Outcome::OldSize
            | Outcome::Inconsistent
            | Outcome::OverQuota
            | Outcome::TooLong
            | Outcome::TimedOut => Blame::Client,
        }
    }
}

/// Whose fault a refusal is. A log's own misbehaviour is not among them: that is an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The request was wrong.
    Client,
    /// The request came too late, or too early; the client is told where the log stands.
    StaleClient,
    /// The witness cannot do its work.
    Witness,
}

//! What the witness decides, without HTTP: `add-checkpoint` of c2sp.org/tlog-witness, check by check.

use std::sync::{Arc, PoisonError, RwLock};

use runseal_tlog::checkpoint::{Checkpoint, CheckpointError, OpenError, SignedCheckpoint};
use runseal_tlog::consistency::{self, ConsistencyError, implied_roots};
use runseal_tlog::cosignature::CosignatureError;
use runseal_tlog::hash::NodeHash;
use runseal_tlog::note::SignatureLine;
use runseal_tlog::request::{AddCheckpoint, RequestError};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::clock::{Clock, ClockFault, time_after};
use crate::commit::{Commits, NotDurable};
use crate::keys::Keys;
use crate::logs::{Log, LogSet};
use crate::state::{Advance, Alarm, Applied, Change, Head, StateError, Store};

/// How often a decision is made anew because the log moved meanwhile. Each time, another request for
/// the log was served; then the client is told to come back.
const DECISIONS_MAX: usize = 16;

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
    /// The clock cannot be signed by.
    #[error("{0}")]
    Clock(#[from] ClockFault),
    /// The key cannot sign this.
    #[error("{0}")]
    Cosign(#[from] CosignatureError),
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
}

impl Contradiction {
    /// As stored and logged.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::Rewrite => "rewrite",
            Self::Unproven => "unproven",
            Self::Impossible => "impossible",
        }
    }

    /// What a checkpoint of `size` and `root` with this proof says against `head`.
    fn of(head: &Head, checkpoint: &Checkpoint, proof: &[NodeHash]) -> Option<Self> {
        let (size, root) = (checkpoint.size(), checkpoint.root());
        if size == 0 && *root != NodeHash::EMPTY_ROOT {
            return Some(Self::Impossible);
        }
        if size == head.size {
            return (*root != head.root).then_some(Self::Fork);
        }
        match consistency::verify(head.size, &head.root, size, root, proof) {
            Err(ConsistencyError::WrongOldRoot { .. } | ConsistencyError::WrongNewRoot { .. }) => {
                let implied = implied_roots(head.size, size, proof);
                let rebuilt = implied.is_ok_and(|(_, new)| new == *root);
                Some(if rebuilt { Self::Rewrite } else { Self::Unproven })
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
}

/// A witness: keys, logs, state and clock.
pub struct Witness {
    keys: Keys,
    logs: RwLock<Arc<LogSet>>,
    store: Arc<dyn Store>,
    commits: Commits,
    clock: Arc<dyn Clock>,
}

impl Witness {
    /// Puts a witness together. `commits` writes to `store`.
    pub fn new(
        keys: Keys,
        logs: LogSet,
        store: Arc<dyn Store>,
        commits: Commits,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { keys, logs: RwLock::new(Arc::new(logs)), store, commits, clock }
    }

    /// The witness's keys.
    pub const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The state.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The logs followed now.
    pub fn logs(&self) -> Arc<LogSet> {
        Arc::clone(&self.logs.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Follows other logs from now on. What is known of those that left stays.
    pub fn follow(&self, logs: LogSet) {
        *self.logs.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(logs);
    }

    /// Cosigns the checkpoint of an `add-checkpoint` body, or says why not.
    ///
    /// The lines answered are durable: no crash makes this witness forget them.
    ///
    /// # Errors
    /// [`Refusal`]; the state is then as it was, alarms aside.
    pub async fn add_checkpoint(&self, body: &[u8]) -> Result<Vec<SignatureLine>, Refusal> {
        let submission = self.examine(body)?;
        self.advance(&submission).await
    }

    /// Everything that can be said of a request without the log's state.
    ///
    /// # Errors
    /// [`Refusal`], up to the old size above the checkpoint's.
    pub fn examine(&self, body: &[u8]) -> Result<Submission, Refusal> {
        let AddCheckpoint { old_size, proof, note } = AddCheckpoint::parse(body)?;
        let checkpoint = Checkpoint::parse(note.unverified_text())?;
        let log = self.logs().find(checkpoint.origin()).cloned();
        let log = log.ok_or_else(|| Refusal::UnknownOrigin(checkpoint.origin().to_owned()))?;
        // No cosigners: a line under this witness's own name, true or false, is nobody's statement
        // about the checkpoint yet, and a false one must not keep the log from ever moving on.
        let signed = SignedCheckpoint::open(note, log.keys(), [])?;
        if old_size > checkpoint.size() {
            return Err(Refusal::OldSizeAboveNew { old: old_size, new: checkpoint.size() });
        }
        Ok(Submission { log, old_size, proof, signed })
    }

    /// Holds a submission against the log's state, and moves the state on.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn advance(&self, submission: &Submission) -> Result<Vec<SignatureLine>, Refusal> {
        let Submission { log, old_size, proof, signed } = submission;
        let checkpoint = signed.checkpoint();
        let digest: [u8; 32] = Sha256::digest(signed.note().unverified_text()).into();
        for _ in 0..DECISIONS_MAX {
            let head = self.store.head(log.origin())?;
            if let Err(refusal) = extends(&head, *old_size, checkpoint, proof) {
                // Two roots for one size contradict each other whatever old size was sent with them.
                let told = matches!(refusal, Refusal::Inconsistent(_)) || checkpoint.size() == head.size;
                if let Some(contradiction) =
                    told.then(|| Contradiction::of(&head, checkpoint, proof)).flatten()
                {
                    self.raise(log, digest, contradiction, signed).await;
                }
                return Err(refusal);
            }
            let time = time_after(self.clock.now(), head.time)?;
            // What is signed is printed from what was parsed: should this parser and the log's ever
            // disagree, the signature fails instead of vouching for bytes nobody understood.
            let lines = self.keys.cosign(checkpoint, time)?;
            let advance = Advance {
                origin: log.origin_shared(),
                from: head,
                to: Head { size: checkpoint.size(), root: *checkpoint.root(), time },
                note: served_note(signed, &lines),
                digest,
            };
            match self.commits.submit(Change::Advance(advance)).await? {
                Applied::Written => return Ok(lines),
                Applied::Known | Applied::Stale => {}
            }
        }
        Err(Refusal::Busy)
    }

    async fn raise(
        &self,
        log: &Log,
        digest: [u8; 32],
        contradiction: Contradiction,
        signed: &SignedCheckpoint,
    ) {
        let alarm =
            Alarm { origin: log.origin_shared(), digest, time: self.clock.now(), kind: contradiction.name() };
        match self.commits.submit(Change::Alarm(alarm)).await {
            Ok(Applied::Written) => tracing::error!(
                target: "alarm",
                origin = log.origin(),
                kind = contradiction.name(),
                size = signed.checkpoint().size(),
                root = %signed.checkpoint().root(),
                "INTEGRITY ALARM: the log signed a checkpoint that contradicts its history"
            ),
            Ok(Applied::Known | Applied::Stale) => {}
            Err(error) => tracing::error!(
                target: "alarm",
                origin = log.origin(),
                kind = contradiction.name(),
                %error,
                "INTEGRITY ALARM that could not be stored"
            ),
        }
    }
}

/// Whether a checkpoint extends the head: old size, then size zero's root, proof and roots.
fn extends(head: &Head, old_size: u64, checkpoint: &Checkpoint, proof: &[NodeHash]) -> Result<(), Refusal> {
    if old_size != head.size {
        return Err(Refusal::Conflict { old: old_size, cosigned: head.size });
    }
    consistency::verify(head.size, &head.root, checkpoint.size(), checkpoint.root(), proof)?;
    Ok(())
}

/// What monitors are served: the checkpoint byte for byte, the lines of the log that were verified,
/// and this witness's own.
fn served_note(signed: &SignedCheckpoint, lines: &[SignatureLine]) -> String {
    use std::fmt::Write as _;
    let text = signed.note().unverified_text();
    let mut note = String::with_capacity(text.len() + 256 * (1 + lines.len()));
    note.push_str(text);
    note.push('\n');
    for line in signed.verified_lines().chain(lines) {
        // Writing to a string cannot fail.
        let _ = writeln!(note, "{line}");
    }
    note
}

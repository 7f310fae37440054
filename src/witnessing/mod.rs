//! Having checkpoints cosigned: the client side of c2sp.org/tlog-witness.
//!
//! One round takes one signed checkpoint to every witness of a policy, all at once, one request to each URL.
//! What comes of it is a [`Round`]: cosignatures that verify under a configured key, witnesses that could not
//! help this time, and alarms. An alarm is an answer that only a log with two histories can get; it is never
//! retried and never outvoted.
//!
//! A witness is not trusted: its answer is bounded in bytes and time, redirects are not followed, and nothing
//! it says is kept unless a signature bears it out.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use runseal_tlog::{
    checkpoint::{Checkpoint, CheckpointError},
    hash::NodeHash,
    note::{Note, NoteError, SignatureLine},
    policy::Policy,
};
use thiserror::Error;

mod client;
mod exchange;
mod publication;
mod recall;

pub use client::{ANSWER_BYTES_MAX, Client, ClientError, REQUEST_TIMEOUT};
pub use publication::{
    OnShortfall, Publication, PublicationError, Quorum, Terms, compare_with_witnesses, publish,
};
pub use recall::{Recalled, recall};

/// What a round needs to know of the log whose checkpoint it carries.
///
/// Calls may block; a round makes them on threads made for that.
pub trait SubmittingLog: Send + Sync + 'static {
    /// Why the log cannot answer.
    type Error: Error + Send + Sync + 'static;

    /// The consistency proof from size `old` to size `new` (RFC 6962, section 2.1.2).
    ///
    /// # Errors
    /// When stored hashes cannot be read.
    fn consistency_proof(&self, old: u64, new: u64) -> Result<Vec<NodeHash>, Self::Error>;

    /// The size last cosigned by the witness with this key name, as far as is known; 0 where nothing is.
    ///
    /// # Errors
    /// When the log's memory cannot be read.
    fn witness_size(&self, witness: &str) -> Result<u64, Self::Error>;

    /// Remembers what [`Self::witness_size`] answers from now on.
    ///
    /// # Errors
    /// When the log's memory cannot be written.
    fn remember_witness_size(&self, witness: &str, size: u64) -> Result<(), Self::Error>;
}

/// How long a round waits for stragglers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Until every witness has answered or failed.
    All,
    /// No longer than this once the quorum is met.
    AfterQuorum(Duration),
}

/// A checkpoint on its way to the witnesses.
#[derive(Clone, Debug)]
pub struct Submission {
    note: Note,
    checkpoint: Checkpoint,
}

impl Submission {
    /// Takes up a checkpoint signed by its log.
    ///
    /// # Errors
    /// [`CheckpointError`] where the note's text is no checkpoint.
    pub fn new(note: Note) -> Result<Self, CheckpointError> {
        let checkpoint = Checkpoint::parse(note.unverified_text())?;
        Ok(Self { note, checkpoint })
    }

    /// The note as signed by the log.
    pub const fn note(&self) -> &Note {
        &self.note
    }

    /// What it says.
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }
}

/// A cosignature that verifies under a configured key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cosigned {
    /// Position of the witness in [`Policy::witnesses`].
    pub witness: usize,
    /// The line.
    pub line: SignatureLine,
    /// When the witness says it signed, in POSIX seconds.
    pub time: u64,
}

/// Witnesses asked together, at one URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Their positions in [`Policy::witnesses`].
    pub witnesses: Vec<usize>,
    /// Their names in the policy, for people.
    pub names: String,
    /// The key name of the first, under which the size they last cosigned is remembered.
    pub key_name: String,
    /// Their submission prefix, without a slash at the end; empty where the policy names none.
    pub url: String,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.url.is_empty() {
            f.write_str(&self.names)
        } else {
            write!(f, "{} ({})", self.names, self.url)
        }
    }
}

/// A witness that did not cosign this time.
#[derive(Debug, Error)]
#[error("witness {asked}: {reason}")]
pub struct Failure {
    /// Who.
    pub asked: Asked,
    /// Why.
    pub reason: FailureReason,
}

/// Why a witness did not cosign. None of these says anything about the log's integrity.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FailureReason {
    /// The policy names no URL.
    #[error("the policy names no URL to submit to")]
    NoUrl,
    /// The request could not be made.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// A redirect, which is not followed: it would turn the request into another one.
    #[error("it redirects (HTTP {0}), which is not followed; name the final URL in the policy")]
    Redirect(u16),
    /// 404: it does not follow this log.
    #[error("it does not know this log (HTTP 404); its operator has to add the log's vkey")]
    UnknownLog,
    /// 403: the log key it has is another one.
    #[error("it knows this log under another key (HTTP 403)")]
    UnknownKey,
    /// 409 without a size of the right type.
    #[error("it answered 409 without a size that can be read")]
    ConflictUnreadable,
    /// 409 naming the size that was just sent.
    #[error("it answered that its size is {0}, the very size sent")]
    ConflictRepeated(u64),
    /// A new size at every attempt.
    #[error("it named another size at each of {ATTEMPTS_MAX} attempts")]
    ConflictForEver,
    /// Any other status.
    #[error("it answered HTTP {0}")]
    Status(u16),
    /// 200 without a cosignature of the witness.
    #[error("it answered 200, but no line verifies under its key")]
    NoCosignature,
}

/// An answer that a log with one history cannot get.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("INTEGRITY ALARM from witness {asked}: {kind}")]
pub struct Alarm {
    /// Who raised it.
    pub asked: Asked,
    /// What it says.
    pub kind: AlarmKind,
}

/// What an alarm says.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum AlarmKind {
    /// The witness has cosigned a larger tree than the one submitted.
    #[error(
        "it has cosigned size {cosigned} of {origin}, more than the {submitted} submitted: \
         this journal was rolled back, or another one signs for the same log"
    )]
    Rollback {
        /// The log.
        origin: String,
        /// The size the witness has cosigned.
        cosigned: u64,
        /// The size submitted.
        submitted: u64,
    },
    /// The witness remembers a checkpoint, signed by this log, that the journal does not continue.
    #[error(
        "it remembers size {cosigned} of {origin}, which this log signed and this journal does not continue: \
         the journal was rolled back or rewritten; nothing is signed, for the witness would refuse it \
         (HTTP 409 or 422). Bring back the newer journal"
    )]
    Remembered {
        /// The log.
        origin: String,
        /// The size the witness has cosigned.
        cosigned: u64,
    },
    /// The witness found that the checkpoint does not continue the one it cosigned.
    #[error(
        "it refuses size {submitted} of {origin} as no continuation of size {old}, which it has cosigned \
         (HTTP 422): the log has two histories"
    )]
    Contradiction {
        /// The log.
        origin: String,
        /// The size the proof started from.
        old: u64,
        /// The size submitted.
        submitted: u64,
    },
}

/// What came of asking every witness once.
#[derive(Debug, Default)]
pub struct Round {
    /// Cosignatures, at most one a witness, in the policy's order.
    pub cosignatures: Vec<Cosigned>,
    /// Witnesses that did not cosign.
    pub failures: Vec<Failure>,
    /// Alarms. Where there is one, nothing may be published, whatever the quorum says.
    pub alarms: Vec<Alarm>,
}

impl Round {
    /// Whether the cosignatures meet the policy's quorum.
    pub fn quorum_met(&self, policy: &Policy) -> bool {
        policy.quorum_met(|witness| self.cosignatures.iter().any(|cosigned| cosigned.witness == witness))
    }

    /// The submitted note with the cosignatures after the log's own signature.
    ///
    /// # Errors
    /// [`NoteError::TooManySignatures`].
    pub fn cosigned_note(&self, submission: &Submission) -> Result<Note, NoteError> {
        let mut note = submission.note.clone();
        self.cosignatures.iter().try_for_each(|cosigned| note.add(cosigned.line.clone()))?;
        Ok(note)
    }
}

/// Most requests to one witness for one checkpoint.
pub const ATTEMPTS_MAX: u32 = 3;

/// Takes `submission` to every witness of `policy`.
///
/// # Errors
/// Those of the log: a proof that cannot be built, a memory that cannot be kept.
pub async fn cosign<L: SubmittingLog>(
    client: &Client,
    policy: &Policy,
    log: &Arc<L>,
    submission: &Submission,
    patience: Patience,
) -> Result<Round, L::Error> {
    let mut round = Round::default();
    let mut exchanges: FuturesUnordered<_> = groups(policy)
        .into_iter()
        .map(|asked| exchange::exchange(client, policy, log, submission, asked))
        .collect();
    let mut deadline = None;
    loop {
        let next = exchanges.next();
        let answer = match deadline {
            None => next.await,
            // Dropping the rest ends their requests: nothing runs on behind a finished round.
            Some(at) => tokio::time::timeout_at(at, next).await.unwrap_or(None),
        };
        let Some(answer) = answer else { break };
        answer?.enter(&mut round);
        if let Patience::AfterQuorum(wait) = patience
            && deadline.is_none()
            && round.quorum_met(policy)
        {
            deadline = Some(tokio::time::Instant::now() + wait);
        }
    }
    round.cosignatures.sort_by_key(|cosigned| cosigned.witness);
    Ok(round)
}

/// The policy's witnesses by URL: keys that share one share the request.
fn groups(policy: &Policy) -> Vec<Asked> {
    let mut groups: Vec<Asked> = Vec::new();
    for (position, witness) in policy.witnesses().iter().enumerate() {
        let url = witness.url().unwrap_or_default().trim_end_matches('/').to_owned();
        let name = witness.name.to_string();
        let same_url = |group: &&mut Asked| !url.is_empty() && group.url == url;
        if let Some(group) = groups.iter_mut().find(same_url) {
            group.witnesses.push(position);
            group.names = format!("{}, {name}", group.names);
        } else {
            let key_name = witness.key.name().to_string();
            groups.push(Asked { witnesses: vec![position], names: name, key_name, url });
        }
    }
    groups
}

/// Runs a call that may block where blocking is allowed.
async fn blocking<L: Send + Sync + 'static, T: Send + 'static, E: Send + 'static>(
    log: &Arc<L>,
    call: impl FnOnce(&L) -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    let log = Arc::clone(log);
    match tokio::task::spawn_blocking(move || call(&log)).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

//! From a signed checkpoint to a published one: ask the witnesses, weigh their answers, publish or not.

use std::sync::Arc;

use runseal_tlog::{
    checkpoint::CheckpointError,
    hash::NodeHash,
    note::{Note, NoteError},
    policy::Policy,
};
use thiserror::Error;

use super::{
    Alarm, AlarmKind, Client, Failure, Patience, Recalled, Round, Submission, SubmittingLog, cosign, recall,
};
use crate::{CheckpointError as SignError, Log, ProofError, PublishError};

/// What to do with a checkpoint that too few witnesses cosigned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnShortfall {
    /// Publish nothing and try again later.
    Hold,
    /// Publish it with the cosignatures there are.
    Publish,
}

/// What became of a signed checkpoint.
#[derive(Debug)]
pub enum Publication {
    /// It is published.
    Published {
        /// The note, with its cosignatures.
        note: Note,
        /// Whether they meet the policy's quorum; without a policy there is none to meet.
        quorum: Quorum,
        /// The witnesses that did not cosign.
        failures: Vec<Failure>,
    },
    /// Too few witnesses cosigned; nothing is published.
    Held {
        /// How many did.
        cosigned: usize,
        /// The others.
        failures: Vec<Failure>,
    },
    /// A witness contradicts the log; nothing is published, however many others cosigned.
    Alarmed {
        /// What it says.
        alarms: Vec<Alarm>,
        /// The witnesses that did not cosign.
        failures: Vec<Failure>,
    },
}

/// Whether a published checkpoint has the cosignatures its policy asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quorum {
    /// It has.
    Met,
    /// It has not, and was to be published all the same.
    Missed,
    /// There is no policy.
    NotAsked,
}

/// Why nothing could be decided.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PublicationError {
    /// A proof cannot be built, or the memory of what witnesses cosigned cannot be kept.
    #[error(transparent)]
    Log(#[from] ProofError),
    /// The log refuses to publish.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// What the log signed is no checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// More cosignatures than a note holds.
    #[error(transparent)]
    Note(#[from] NoteError),
}

/// Holds `log` against what the witnesses of `policy` remember of it, before anything is signed.
///
/// # Errors
/// When the log's own hashes cannot be read.
pub async fn compare_with_witnesses(
    client: &Client,
    policy: &Policy,
    log: &Arc<Log>,
) -> Result<Vec<Alarm>, SignError> {
    let mut alarms = Vec::new();
    for Recalled { asked, checkpoint } in recall(client, policy, &log.vkey()).await {
        let (size, root, by) = (checkpoint.size(), *checkpoint.root(), asked.to_string());
        match super::blocking(log, move |log| log.compare(size, root, by)).await {
            Ok(()) => {}
            Err(SignError::NotAnExtension { .. }) => {
                let origin = log.origin();
                alarms.push(Alarm { asked, kind: AlarmKind::Remembered { origin, cosigned: size } });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(alarms)
}

/// Whose witnesses to ask, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'t> {
    /// The witnesses and the quorum.
    pub policy: &'t Policy,
    /// What to do without a quorum.
    pub on_shortfall: OnShortfall,
    /// How long to wait for stragglers.
    pub patience: Patience,
}

/// Takes the checkpoint `signed` by `log` to the witnesses, where there are terms, and publishes it.
///
/// # Errors
/// [`PublicationError`].
pub async fn publish(
    client: &Client,
    terms: Option<Terms<'_>>,
    log: &Arc<Log>,
    signed: Note,
) -> Result<Publication, PublicationError> {
    let Some(Terms { policy, on_shortfall, patience }) = terms else {
        let note = store(log, signed).await?;
        return Ok(Publication::Published { note, quorum: Quorum::NotAsked, failures: Vec::new() });
    };
    let submission = Submission::new(signed)?;
    let round = cosign(client, policy, log, &submission, patience).await?;
    let met = round.quorum_met(policy);
    let note = round.cosigned_note(&submission)?;
    let Round { cosignatures, failures, alarms } = round;
    if !alarms.is_empty() {
        return Ok(Publication::Alarmed { alarms, failures });
    }
    let quorum = match (met, on_shortfall) {
        (true, _) => Quorum::Met,
        (false, OnShortfall::Publish) => Quorum::Missed,
        (false, OnShortfall::Hold) => {
            return Ok(Publication::Held { cosigned: cosignatures.len(), failures });
        }
    };
    Ok(Publication::Published { note: store(log, note).await?, quorum, failures })
}

async fn store(log: &Arc<Log>, note: Note) -> Result<Note, PublishError> {
    super::blocking(log, move |log| log.publish(&note).map(|()| note)).await
}

impl SubmittingLog for Log {
    type Error = ProofError;

    fn consistency_proof(&self, old: u64, new: u64) -> Result<Vec<NodeHash>, ProofError> {
        Self::consistency_proof(self, old, new)
    }

    fn witness_size(&self, witness: &str) -> Result<u64, ProofError> {
        Ok(Self::witness_size(self, witness)?.unwrap_or(0))
    }

    fn remember_witness_size(&self, witness: &str, size: u64) -> Result<(), ProofError> {
        Ok(self.set_witness_size(witness, size)?)
    }
}

//! One witness, one checkpoint: the requests and answers of an `add-checkpoint` exchange.

use std::sync::Arc;

use runseal_tlog::{
    policy::Policy,
    request::{self, AddCheckpoint, SIZE_CONTENT_TYPE},
};

use super::{
    ATTEMPTS_MAX, Alarm, AlarmKind, Asked, Client, Cosigned, Failure, FailureReason, Round, Submission,
    SubmittingLog, blocking, client::Answer,
};

/// How an exchange ended.
pub(super) struct Ended {
    asked: Asked,
    outcome: Outcome,
}

enum Outcome {
    Cosigned(Vec<Cosigned>),
    Failed(FailureReason),
    Alarmed(AlarmKind),
}

impl Ended {
    pub(super) fn enter(self, round: &mut Round) {
        let Self { asked, outcome } = self;
        match outcome {
            Outcome::Cosigned(lines) => {
                // Of keys that share a URL some may have signed and others not.
                let missing: Vec<usize> = asked
                    .witnesses
                    .iter()
                    .copied()
                    .filter(|witness| lines.iter().all(|line| line.witness != *witness))
                    .collect();
                round.cosignatures.extend(lines);
                if !missing.is_empty() {
                    let asked = Asked { witnesses: missing, ..asked };
                    round.failures.push(Failure { asked, reason: FailureReason::NoCosignature });
                }
            }
            Outcome::Failed(reason) => round.failures.push(Failure { asked, reason }),
            Outcome::Alarmed(kind) => round.alarms.push(Alarm { asked, kind }),
        }
    }
}

/// Takes `submission` to the witnesses at one URL: from the size remembered for them, and again from the size
/// they name, at most [`ATTEMPTS_MAX`] times.
pub(super) async fn exchange<L: SubmittingLog>(
    client: &Client,
    policy: &Policy,
    log: &Arc<L>,
    submission: &Submission,
    asked: Asked,
) -> Result<Ended, L::Error> {
    let outcome = if asked.url.is_empty() {
        Outcome::Failed(FailureReason::NoUrl)
    } else {
        submit(client, policy, log, submission, &asked).await?
    };
    Ok(Ended { asked, outcome })
}

async fn submit<L: SubmittingLog>(
    client: &Client,
    policy: &Policy,
    log: &Arc<L>,
    submission: &Submission,
    asked: &Asked,
) -> Result<Outcome, L::Error> {
    let (origin, size) = (submission.checkpoint.origin(), submission.checkpoint.size());
    let witness = asked.key_name.clone();
    let remembered = blocking(log, move |log| log.witness_size(&witness)).await?;
    // A memory above the checkpoint is no ground for an alarm: the witness itself says what it has cosigned.
    let mut old_size = remembered.min(size);
    for _ in 0..ATTEMPTS_MAX {
        let proof = blocking(log, move |log| log.consistency_proof(old_size, size)).await?;
        let body = AddCheckpoint { old_size, proof, note: submission.note.clone() }.to_string();
        let answer = match client.add_checkpoint(&asked.url, body).await {
            Ok(answer) => answer,
            Err(error) => return Ok(Outcome::Failed(error.into())),
        };
        match judge(&answer, policy, submission, asked) {
            Judged::Lines(lines) if lines.is_empty() => {
                return Ok(Outcome::Failed(FailureReason::NoCosignature));
            }
            Judged::Lines(lines) => {
                let witness = asked.key_name.clone();
                blocking(log, move |log| log.remember_witness_size(&witness, size)).await?;
                return Ok(Outcome::Cosigned(lines));
            }
            Judged::Size(cosigned) if cosigned > size => {
                let origin = origin.to_owned();
                return Ok(Outcome::Alarmed(AlarmKind::Rollback { origin, cosigned, submitted: size }));
            }
            Judged::Size(cosigned) if cosigned == old_size => {
                return Ok(Outcome::Failed(FailureReason::ConflictRepeated(cosigned)));
            }
            Judged::Size(cosigned) => old_size = cosigned,
            Judged::Contradiction => {
                let origin = origin.to_owned();
                let kind = AlarmKind::Contradiction { origin, old: old_size, submitted: size };
                return Ok(Outcome::Alarmed(kind));
            }
            Judged::Refused(reason) => return Ok(Outcome::Failed(reason)),
        }
    }
    Ok(Outcome::Failed(FailureReason::ConflictForEver))
}

/// What an answer says.
enum Judged {
    /// 200: the lines that verify, one a witness.
    Lines(Vec<Cosigned>),
    /// 409: the size that was last cosigned.
    Size(u64),
    /// 422: the proof does not lead from the cosigned tree to the submitted one.
    Contradiction,
    /// Anything else.
    Refused(FailureReason),
}

fn judge(answer: &Answer, policy: &Policy, submission: &Submission, asked: &Asked) -> Judged {
    match answer.status {
        200 => Judged::Lines(cosignatures(&answer.body, policy, submission, asked)),
        409 => match request::conflict_size(&answer.body) {
            Some(size) if answer.media_type.eq_ignore_ascii_case(SIZE_CONTENT_TYPE) => Judged::Size(size),
            // A proxy's page is no statement of the witness: nothing is concluded from it.
            _ => Judged::Refused(FailureReason::ConflictUnreadable),
        },
        422 => Judged::Contradiction,
        status @ 300..=399 => Judged::Refused(FailureReason::Redirect(status)),
        403 => Judged::Refused(FailureReason::UnknownKey),
        404 => Judged::Refused(FailureReason::UnknownLog),
        status => Judged::Refused(FailureReason::Status(status)),
    }
}

/// The lines of an answer that verify under a key of the witnesses asked; of one key the first alone.
fn cosignatures(body: &[u8], policy: &Policy, submission: &Submission, asked: &Asked) -> Vec<Cosigned> {
    let Ok(body) = std::str::from_utf8(body) else { return Vec::new() };
    let mut kept: Vec<Cosigned> = Vec::new();
    for line in request::answer_lines(body) {
        let of = asked.witnesses.iter().copied().find(|at| line.is_of(&policy.witnesses()[*at].key));
        // At most one verification a key, however many lines claim to be its.
        let Some(witness) = of.filter(|at| kept.iter().all(|seen| seen.witness != *at)) else { continue };
        let verified = line.verify(submission.note.unverified_text(), &policy.witnesses()[witness].key);
        if let Ok(Some(time)) = verified.map(|verified| verified.time) {
            kept.push(Cosigned { witness, line, time });
        }
    }
    kept
}

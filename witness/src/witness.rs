//! What the witness decides, without HTTP: `add-checkpoint` and `sign-subtree` of
//! c2sp.org/tlog-witness, check by check.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use runseal_tlog::checkpoint::{Checkpoint, SignedCheckpoint};
use runseal_tlog::consistency;
use runseal_tlog::hash::NodeHash;
use runseal_tlog::note::SignatureLine;
use runseal_tlog::request::{AddCheckpoint, SignSubtree};
use runseal_tlog::subtree;
use sha2::{Digest, Sha256};

use crate::budget::Budget;
use crate::clock::{Clock, time_after};
use crate::commit::{Commits, NotDurable};
use crate::evidence::{Contradicting, Evidence};
use crate::keys::Keys;
use crate::logs::{Log, LogSet};
use crate::metrics::Metrics;
pub use crate::refusal::{Blame, Refusal};
use crate::state::{Advance, Alarm, Applied, Change, Head, Store, origin_hash};
pub use crate::submission::{Contradiction, Submission};

/// How often a decision is made anew because the log moved meanwhile. Each time, another request for
/// the log was served; then the client is told to come back.
const DECISIONS_MAX: usize = 16;

/// A full disk fails every request; its operator is told ten times a second, not ten thousand.
const LOG_LINES_A_SECOND: u64 = 10;

/// Clients that are behind come and come again, and anybody can repeat what a log once signed.
const STALE_LINES_A_SECOND: u64 = 1;

/// What a witness is made of.
pub struct Parts {
    /// Its keys.
    pub keys: Keys,
    /// The logs it follows.
    pub logs: LogSet,
    /// Its state.
    pub store: Arc<dyn Store>,
    /// The thread that writes to `store`.
    pub commits: Commits,
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// Where it keeps evidence; `None` to keep none.
    pub evidence: Option<Evidence>,
}

/// A witness: keys, logs, state and clock.
pub struct Witness {
    keys: Arc<Keys>,
    logs: RwLock<Arc<LogSet>>,
    store: Arc<dyn Store>,
    commits: Commits,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    evidence: Option<Evidence>,
    log_budget: Budget,
    stale_budget: Budget,
    smaller_budget: Budget,
}

impl Witness {
    /// Puts a witness together.
    pub fn new(parts: Parts) -> Self {
        let Parts { keys, logs, store, commits, clock, metrics, evidence } = parts;
        let witness = Self {
            keys: Arc::new(keys),
            logs: RwLock::default(),
            store,
            commits,
            clock,
            metrics,
            evidence,
            log_budget: Budget::new(LOG_LINES_A_SECOND),
            stale_budget: Budget::new(STALE_LINES_A_SECOND),
            smaller_budget: Budget::new(STALE_LINES_A_SECOND),
        };
        witness.follow(logs);
        witness
    }

    /// The witness's keys.
    pub fn keys(&self) -> &Keys {
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

    /// How many log lines a second its own failures may fill.
    pub(crate) const fn log_budget(&self) -> &Budget {
        &self.log_budget
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The logs followed now.
    pub fn logs(&self) -> Arc<LogSet> {
        Arc::clone(&self.logs.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Follows other logs from now on. What is known of those that left stays.
    pub fn follow(&self, logs: LogSet) {
        let mut current = self.logs.write().unwrap_or_else(PoisonError::into_inner);
        self.metrics.logs.store(logs.len() as u64, Ordering::Relaxed);
        *current = Arc::new(logs.with_gates_of(&current));
    }

    /// Cosigns the checkpoint of an `add-checkpoint` body, or says why not.
    ///
    /// The lines answered are durable: no crash makes this witness forget them.
    ///
    /// # Errors
    /// [`Refusal`]; the state is then as it was, alarms aside.
    pub async fn add_checkpoint(&self, body: &[u8]) -> Result<Vec<SignatureLine>, Refusal> {
        let request = AddCheckpoint::parse(body)?;
        let checkpoint = Checkpoint::parse(request.note.unverified_text())?;
        let log = self.log(&checkpoint)?;
        let _turn = log.gate().turn().await;
        let submission = self.examine(&log, request)?;
        self.advance(&submission).await
    }

    /// Cosigns the subtree of a `sign-subtree` body, or says why not.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn sign_subtree(&self, body: &[u8]) -> Result<Vec<SignatureLine>, Refusal> {
        if !self.keys.signs_subtrees() {
            return Err(Refusal::NoSubtrees);
        }
        let SignSubtree { subtree, proof, note } = SignSubtree::parse(body)?;
        let checkpoint = Checkpoint::parse(note.unverified_text())?;
        if subtree.range.end() > checkpoint.size() {
            let (range, size) = (subtree.range, checkpoint.size());
            return Err(Refusal::SubtreeBeyondCheckpoint { range, size });
        }
        let log = self.log(&checkpoint)?;
        let _turn = log.gate().turn().await;
        note.verify(self.keys.verifiers()).map_err(Refusal::NotCosigned)?;
        subtree::verify_consistency(&subtree, checkpoint.size(), checkpoint.root(), &proof)
            .map_err(Refusal::SubtreeInconsistent)?;
        Ok(self.keys.cosign_subtree(checkpoint.origin(), &subtree)?)
    }

    fn log(&self, checkpoint: &Checkpoint) -> Result<Arc<Log>, Refusal> {
        let log = self.logs().find(checkpoint.origin()).cloned();
        log.ok_or_else(|| Refusal::UnknownOrigin(checkpoint.origin().to_owned()))
    }

    /// Everything that can be said of a request without the log's state. It counts against the log's
    /// allowance once it is seen to be the log's.
    fn examine(&self, log: &Arc<Log>, request: AddCheckpoint) -> Result<Submission, Refusal> {
        let AddCheckpoint { old_size, proof, note } = request;
        // No cosigners: a line under this witness's own name, true or false, is nobody's statement
        // about the checkpoint yet, and a false one must not keep the log from ever moving on.
        let signed = SignedCheckpoint::open(note, log.keys(), [])?;
        if let Some(queries_per_day) = log.queries_per_day() {
            log.gate()
                .admit(queries_per_day, self.clock.elapsed())
                .map_err(|retry_after| Refusal::OverQuota { retry_after })?;
        }
        let new = signed.checkpoint().size();
        if old_size > new {
            // Which size was cosigned only tells how loudly to say it.
            let cosigned = self.store.head(log.origin()).map_or(0, |head| head.size);
            self.say_stale(log, old_size, new, cosigned);
            return Err(Refusal::OldSizeAboveNew { old: old_size, new });
        }
        Ok(Submission { log: Arc::clone(log), old_size, proof, signed, tree_hashes: None })
    }

    /// Holds a submission against the log's state, and moves the state on.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn advance(&self, submission: &Submission) -> Result<Vec<SignatureLine>, Refusal> {
        let Submission { log, signed, .. } = submission;
        let checkpoint = signed.checkpoint();
        for _ in 0..DECISIONS_MAX {
            let head = self.store.head(log.origin())?;
            if let Err(refusal) = extends(&head, submission) {
                // Two roots for one size contradict each other whatever old size was sent with them.
                let told = matches!(refusal, Refusal::Inconsistent(_)) || checkpoint.size() == head.size;
                if let Some(contradiction) = told.then(|| Contradiction::of(&head, submission)).flatten() {
                    let hashes = submission.fraud_hashes(&head);
                    self.raise(log, signed, contradiction, hashes).await;
                } else if matches!(refusal, Refusal::Conflict { .. }) {
                    self.say_stale(log, submission.old_size, checkpoint.size(), head.size);
                }
                return Err(refusal);
            }
            let time = time_after(self.clock.now(), head.time)?;
            let lines = self.cosign(checkpoint, time).await?;
            let advance = Advance {
                log: Arc::clone(log),
                from: head,
                to: Head { size: checkpoint.size(), root: *checkpoint.root(), time },
                note: served_note(signed, &lines),
                digest: submission.digest(),
            };
            match self.commits.submit(Change::Advance(advance)).await? {
                Applied::Written => return Ok(lines),
                Applied::Known | Applied::Stale => {}
            }
        }
        Err(Refusal::Busy)
    }

    /// Says that a client starts from another size than the one cosigned. Nearly always it is behind,
    /// which contradicts nothing; but a log that was rebuilt or restored from a copy starts like this too.
    fn say_stale(&self, log: &Log, old_size: u64, size: u64, cosigned: u64) {
        let origin = log.origin();
        let smaller = size < cosigned;
        let budget = if smaller { &self.smaller_budget } else { &self.stale_budget };
        let Some(left_out) = budget.line(self.clock.elapsed()) else { return };
        if smaller {
            tracing::warn!(target: "stale_client", origin, old_size, size, cosigned, left_out,
                "a checkpoint smaller than the one cosigned: an old one, or the log went back");
        } else {
            tracing::info!(target: "stale_client", origin, old_size, size, cosigned, left_out,
                "a client starts from another size than the one cosigned");
        }
    }

    /// Signs with every key. What is signed is printed from what was parsed: should this parser and
    /// the log's ever disagree, the signature fails instead of vouching for bytes nobody understood.
    async fn cosign(&self, checkpoint: &Checkpoint, time: u64) -> Result<Vec<SignatureLine>, Refusal> {
        if !self.keys.may_block() {
            return Ok(self.keys.cosign(checkpoint, time)?);
        }
        let (keys, checkpoint) = (Arc::clone(&self.keys), checkpoint.clone());
        let signed = tokio::task::spawn_blocking(move || keys.cosign(&checkpoint, time)).await;
        // The task only fails when the runtime is shutting down.
        signed.map_or(Err(Refusal::Busy), |signed| Ok(signed?))
    }

    /// Remembers the largest size that a log itself was seen to publish.
    ///
    /// # Errors
    /// [`NotDurable`].
    pub async fn saw_published(&self, log: &Log, size: u64) -> Result<(), NotDurable> {
        self.commits.submit(Change::Published { origin: log.origin_shared(), size }).await.map(|_| ())
    }

    /// Raises an alarm about a checkpoint that the log signed; once for each such checkpoint.
    pub async fn raise(
        &self,
        log: &Log,
        signed: &SignedCheckpoint,
        contradiction: Contradiction,
        hashes: Option<Vec<NodeHash>>,
    ) {
        let (kind, text) = (contradiction.name(), signed.note().unverified_text());
        let digest: [u8; 32] = Sha256::digest(text).into();
        let alarm = Alarm { origin: log.origin_shared(), digest, time: self.clock.now(), kind };
        match self.commits.submit(Change::Alarm(alarm)).await {
            Ok(Applied::Written) => {}
            Ok(Applied::Known | Applied::Stale) => return,
            // Said aloud all the same; it will be raised again when it is seen again.
            Err(error) => {
                tracing::error!(target: "alarm", origin = log.origin(), %error, "the alarm is not stored");
            }
        }
        self.metrics.alarms.fetch_add(1, Ordering::Relaxed);
        let seen = Contradicting {
            origin: log.origin().to_owned(),
            keys: log.keys().to_vec(),
            digest,
            cosigned: self.store.note(&origin_hash(log.origin())).ok().flatten(),
            contradicting: signed.note().clone(),
            hashes,
        };
        let kept = self.keep(seen).await;
        tracing::error!(
            target: "alarm",
            origin = log.origin(),
            kind,
            size = signed.checkpoint().size(),
            root = %signed.checkpoint().root(),
            evidence = kept.as_deref().unwrap_or("not kept"),
            "INTEGRITY ALARM: the log signed what contradicts its history"
        );
    }

    /// Keeps evidence; answers the file to look at.
    async fn keep(&self, seen: Contradicting) -> Option<String> {
        let evidence = self.evidence.clone()?;
        let kept = tokio::task::spawn_blocking(move || evidence.keep(&seen)).await;
        match kept {
            Ok(Ok(files)) => files.last().map(|path| path.display().to_string()),
            Ok(Err(error)) => {
                tracing::error!(target: "alarm", %error, "the evidence cannot be written");
                None
            }
            Err(_) => None,
        }
    }
}

/// Whether a checkpoint extends the head: old size, then size zero's root, proof and roots.
fn extends(head: &Head, submission: &Submission) -> Result<(), Refusal> {
    let (checkpoint, old_size) = (submission.signed.checkpoint(), submission.old_size);
    if old_size != head.size {
        return Err(Refusal::Conflict { old: old_size, cosigned: head.size });
    }
    consistency::verify(head.size, &head.root, checkpoint.size(), checkpoint.root(), &submission.proof)?;
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

//! The publisher: a checkpoint for every log that has something new, cosigned and then shown.

use std::{collections::HashMap, sync::Arc, time::Duration};

use runseal_tlog::{checkpoint::Checkpoint, note::Note, policy::Policy};
use thiserror::Error;
use tokio::{
    sync::Semaphore,
    task::{Id, JoinError, JoinSet},
    time::{Instant, MissedTickBehavior},
};
use tracing::{debug, error, info, warn};

use super::{Plane, log::published_size, served::Served};
use crate::{
    CheckpointError, ProofError, PublishError, StoreError,
    witnessing::{
        self, Alarm, Client, ClientError, Failure, OnShortfall, Patience, Publication, PublicationError,
        Quorum, REQUEST_TIMEOUT, Terms,
    },
};

/// How checkpoints are published.
#[derive(Clone, Debug)]
pub struct Publishing {
    /// The witnesses to ask and the quorum to reach; without it checkpoints are not cosigned.
    pub policy: Option<Policy>,
    /// What to do with a checkpoint whose quorum is not met.
    pub on_shortfall: OnShortfall,
    /// How often a log is looked at.
    pub checkpoint_interval: Duration,
    /// How often open runs that grew are pinned.
    pub head_interval: Duration,
    /// How often an unchanged checkpoint is cosigned again.
    pub refresh_interval: Duration,
}

/// Why there can be no publisher.
#[derive(Debug, Error)]
#[error("witnesses cannot be asked: {0}")]
pub struct SetupError(#[from] ClientError);

/// Logs that are published at once.
const AT_ONCE_MAX: usize = 16;
/// How long stragglers are waited for once a quorum is met.
const STRAGGLERS: Duration = Duration::from_secs(2);
/// Longest pause between attempts at a log whose quorum is not met.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

pub(super) struct Publisher {
    shared: Arc<Shared>,
    /// What is to be done when, log by log.
    agenda: HashMap<String, Turn>,
    /// The log of each turn under way.
    under_way: HashMap<Id, String>,
}

struct Shared {
    plane: Arc<Plane>,
    publishing: Publishing,
    client: Client,
    at_once: Semaphore,
}

/// When a log is due.
struct Turn {
    under_way: bool,
    /// Set once and for good by an integrity alarm.
    stopped: bool,
    not_before: Instant,
    backoff: Duration,
    recalled: bool,
    heads_due: Instant,
    refresh_due: Instant,
}

/// What came of one log's turn.
enum Done {
    /// There was nothing new.
    Nothing,
    Published,
    /// Too few witnesses, or something that may pass.
    Later,
    Stopped,
}

/// What a turn has to do.
#[derive(Clone, Copy)]
struct Due {
    /// Before the first signature of this process: what do the witnesses remember?
    recall: bool,
    heads: bool,
    refresh: bool,
}

impl Publisher {
    pub(super) fn new(plane: Arc<Plane>, publishing: Publishing) -> Result<Self, SetupError> {
        let client = Client::new(REQUEST_TIMEOUT)?;
        let at_once = Semaphore::new(AT_ONCE_MAX);
        Ok(Self {
            shared: Arc::new(Shared { plane, publishing, client, at_once }),
            agenda: HashMap::new(),
            under_way: HashMap::new(),
        })
    }

    /// Publishes until it is dropped.
    pub(super) async fn run(mut self) {
        let mut ticks = tokio::time::interval(self.shared.publishing.checkpoint_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut turns = JoinSet::new();
        loop {
            tokio::select! {
                _ = ticks.tick() => self.start_turns(&mut turns).await,
                Some(ended) = turns.join_next_with_id() => self.settle(ended),
            }
        }
    }

    async fn start_turns(&mut self, turns: &mut JoinSet<(Due, Done)>) {
        let logs = match self.shared.plane.call(|journal| Ok(Served::all(journal)?)).await {
            Ok(logs) => logs,
            Err(failed) => {
                // The reason is logged where it is known.
                drop(failed.answer());
                return;
            }
        };
        let now = Instant::now();
        for log in logs.into_iter().filter(|log| self.shared.is_followed(log)) {
            let turn = self.agenda.entry(log.name().to_owned()).or_insert_with(|| Turn::new(now));
            if turn.under_way || turn.stopped || turn.not_before > now {
                continue;
            }
            turn.under_way = true;
            let (heads, refresh) = (turn.heads_due <= now, turn.refresh_due <= now);
            let due = Due { recall: !turn.recalled, heads, refresh };
            let shared = Arc::clone(&self.shared);
            let name = log.name().to_owned();
            let spawned = turns.spawn(async move {
                let _place = shared.at_once.acquire().await;
                (due, shared.take_turn(&log, due).await)
            });
            self.under_way.insert(spawned.id(), name);
        }
    }

    fn settle(&mut self, ended: Result<(Id, (Due, Done)), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(name) = self.under_way.remove(&id) else { return };
        let (due, done) = match ended {
            Ok((_, ended)) => ended,
            Err(panicked) => {
                let done = self.shared.stop(&name, &format!("publishing a checkpoint failed: {panicked}"));
                (Due { recall: false, heads: false, refresh: false }, done)
            }
        };
        let Some(turn) = self.agenda.get_mut(&name) else { return };
        let (now, publishing) = (Instant::now(), &self.shared.publishing);
        turn.under_way = false;
        turn.recalled |= !matches!(done, Done::Later);
        if due.heads && !matches!(done, Done::Later) {
            turn.heads_due = now + publishing.head_interval;
        }
        match done {
            Done::Nothing => {}
            Done::Published => {
                turn.backoff = Duration::ZERO;
                turn.refresh_due = now + publishing.refresh_interval;
            }
            Done::Later => {
                turn.backoff =
                    (turn.backoff * 2).clamp(publishing.checkpoint_interval.min(BACKOFF_MAX), BACKOFF_MAX);
                turn.not_before = now + turn.backoff;
            }
            Done::Stopped => turn.stopped = true,
        }
    }
}

impl Turn {
    /// Everything is due at the start: a checkpoint that was signed but not shown, heads, fresh cosignatures.
    fn new(now: Instant) -> Self {
        Self {
            under_way: false,
            stopped: false,
            not_before: now,
            backoff: Duration::ZERO,
            recalled: false,
            heads_due: now,
            refresh_due: now,
        }
    }
}

impl Shared {
    /// Whether a log is published. The directory's needs witnesses that know it: with a policy that lists
    /// logs but not this one there would never be a quorum.
    fn is_followed(&self, log: &Served) -> bool {
        match (log, &self.publishing.policy) {
            (Served::Directory(log), Some(policy)) => {
                policy.logs().is_empty() || policy.log_keys(&log.origin()).next().is_some()
            }
            _ => true,
        }
    }

    /// Publishes one log, if there is something to publish.
    async fn take_turn(&self, log: &Served, due: Due) -> Done {
        let name = log.name();
        if let Some(policy) = self.publishing.policy.as_ref().filter(|_| due.recall) {
            let log = Arc::new(log.log().clone());
            match witnessing::compare_with_witnesses(&self.client, policy, &log).await {
                Ok(alarms) if alarms.is_empty() => {}
                Ok(alarms) => return self.alarmed(name, &alarms),
                Err(error) => return self.failed(name, &error.into()),
            }
        }
        let signed = {
            let (log, policy) = (log.clone(), self.publishing.policy.clone());
            tokio::task::spawn_blocking(move || sign(&log, policy.as_ref(), due)).await
        };
        let signed = match signed {
            Ok(Ok(Signed::Checkpoint(signed))) => signed,
            Ok(Ok(Signed::Nothing { size })) => {
                self.plane.health.of_log(name, |health| health.size = size);
                return Done::Nothing;
            }
            Ok(Err(reason)) => return self.failed(name, &reason),
            Err(panicked) => return self.stop(name, &format!("signing a checkpoint failed: {panicked}")),
        };
        let terms = self.publishing.policy.as_ref().map(|policy| Terms {
            policy,
            on_shortfall: self.publishing.on_shortfall,
            patience: Patience::AfterQuorum(STRAGGLERS),
        });
        match witnessing::publish(&self.client, terms, &Arc::new(log.log().clone()), signed).await {
            Ok(publication) => self.conclude(name, publication),
            Err(error) => self.failed(name, &error.into()),
        }
    }

    fn conclude(&self, name: &str, publication: Publication) -> Done {
        match publication {
            Publication::Published { note, quorum, failures } => {
                let size = published_size(&note);
                debug!(log = name, size, ?quorum, "published");
                self.tell_failures(name, &failures);
                self.plane.health.of_log(name, |health| {
                    let now = std::time::Instant::now();
                    health.size = size;
                    health.published = Some(now);
                    health.publications += 1;
                    match quorum {
                        Quorum::Met => health.quorum = Some(now),
                        Quorum::Missed => health.under_quorum += 1,
                        Quorum::NotAsked => {}
                    }
                });
                if quorum == Quorum::Missed {
                    self.trouble(name, "published without the quorum the policy asks for");
                    return Done::Later;
                }
                self.well(name);
                Done::Published
            }
            Publication::Held { cosigned, failures } => {
                self.tell_failures(name, &failures);
                self.plane.health.of_log(name, |health| health.held += 1);
                self.trouble(
                    name,
                    &format!("not published: {cosigned} cosignature(s) do not meet the quorum"),
                );
                Done::Later
            }
            Publication::Alarmed { alarms, failures } => {
                self.tell_failures(name, &failures);
                self.alarmed(name, &alarms)
            }
        }
    }

    fn alarmed(&self, name: &str, alarms: &[Alarm]) -> Done {
        let said: Vec<String> = alarms.iter().map(ToString::to_string).collect();
        self.stop(name, &said.join("; "))
    }

    /// Stops publishing a log. Only a person can tell what happened, and starts the process again.
    fn stop(&self, name: &str, why: &str) -> Done {
        error!(log = name, "{why}; NOTHING MORE IS PUBLISHED for this log until the server is started again");
        self.plane.health.of_log(name, |health| health.alarm = Some(why.to_owned()));
        Done::Stopped
    }

    fn failed(&self, name: &str, reason: &TurnError) -> Done {
        if reason.contradicts_the_log() {
            return self.stop(name, &reason.to_string());
        }
        self.trouble(name, &reason.to_string());
        Done::Later
    }

    /// Says what is wrong when it begins to be, not at every attempt.
    fn trouble(&self, name: &str, why: &str) {
        self.plane.health.of_log(name, |health| {
            if health.trouble.as_deref() != Some(why) {
                warn!(log = name, "{why}");
                health.trouble = Some(why.to_owned());
            }
        });
    }

    fn well(&self, name: &str) {
        self.plane.health.of_log(name, |health| {
            if health.trouble.take().is_some() {
                info!(log = name, size = health.size, "published again, with its quorum");
            }
        });
    }

    fn tell_failures(&self, name: &str, failures: &[Failure]) {
        for failure in failures {
            debug!(log = name, "{failure}");
        }
        let count = u64::try_from(failures.len()).unwrap_or(u64::MAX);
        self.plane.health.of_log(name, |health| health.failures += count);
    }
}

/// Why a log's turn came to nothing.
#[derive(Debug, Error)]
enum TurnError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Sign(#[from] CheckpointError),
    #[error(transparent)]
    Publish(#[from] PublicationError),
}

impl TurnError {
    /// Whether the log contradicts itself or what it signed, or is damaged: nothing that passes by waiting.
    fn contradicts_the_log(&self) -> bool {
        let store = match self {
            Self::Store(store)
            | Self::Sign(CheckpointError::Store(store))
            | Self::Publish(
                PublicationError::Publish(PublishError::Store(store))
                | PublicationError::Log(ProofError::Store(store)),
            ) => store,
            Self::Sign(CheckpointError::NotAnExtension { .. }) | Self::Publish(_) => return true,
        };
        store.corruption().is_some()
    }
}

/// What there was to sign.
enum Signed {
    Checkpoint(Note),
    /// The published checkpoint, of this size, says all there is to say.
    Nothing {
        size: u64,
    },
}

/// Pins open runs where that is due, and signs a checkpoint where there is something to publish.
fn sign(served: &Served, policy: Option<&Policy>, due: Due) -> Result<Signed, TurnError> {
    if due.heads {
        served.pin_heads()?;
    }
    let log = served.log();
    if let Some(note) = log.published()? {
        let shown = Checkpoint::parse(note.unverified_text()).map_err(PublicationError::from)?;
        let quorum = policy.is_none_or(|policy| policy.examine(&note).is_ok_and(|seen| seen.quorum_met));
        let refresh = due.refresh && policy.is_some();
        // Unchanged and with its quorum: only its age can be a reason to have it cosigned again.
        if shown.size() == log.tree_size()? && quorum && !refresh {
            log.compare(shown.size(), *shown.root(), "the published checkpoint")?;
            return Ok(Signed::Nothing { size: shown.size() });
        }
    }
    Ok(Signed::Checkpoint(log.sign_checkpoint()?))
}

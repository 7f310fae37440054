//! Appends that share one sync, and what is decided about each.
//!
//! A decision sees what is synced and what the batch accepted before it. What it accepts is one run of bytes to
//! write and a list of places to enter in the index, and touches neither before that.

use std::collections::HashMap;

use runseal_evidence::name::{RunId, StepPath};
use runseal_evidence::steps::{
    FRAME_OVERHEAD_BYTES, FrameChain, KnownRun, RunHead, Step, StepDigest, StepKey,
};

use super::error::{LimitKind, StepError};
use super::index::{Index, Place};
use super::limits::StepLimits;
use super::owner::Recorded;
use crate::store::StoreError;
use crate::store::ack::{Answer, Wake};

/// A step to be recorded, with its caller.
pub(super) struct Append {
    run: RunId,
    key: StepKey,
    path: StepPath,
    known: KnownRun,
    payload: Vec<u8>,
    digest: StepDigest,
    answer: AppendAnswer,
}

pub(super) type AppendAnswer = Answer<Result<Recorded, StepError>, StoreError>;

/// Wakes the caller of an append that is answered, when dropped.
pub(super) type Answered = Option<Wake<Result<Result<Recorded, StepError>, StoreError>>>;

impl Append {
    pub(super) fn new(step: Step, payload: Vec<u8>, answer: AppendAnswer) -> Self {
        let known = KnownRun::of(&step);
        let Step { run, key, path, .. } = step;
        let digest = StepDigest::of(&payload);
        Self { run, key, path, known, payload, digest, answer }
    }

    /// What it holds in memory, near enough.
    pub(super) fn bytes(&self) -> usize {
        self.payload.len() + size_of::<Self>()
    }

    pub(super) fn answer(self, answer: Result<Recorded, StepError>) -> Answered {
        self.answer.put(Ok(answer))
    }
}

pub(super) struct Batch {
    /// The chain behind the last frame accepted.
    pub(super) chain: FrameChain,
    /// The frames accepted.
    pub(super) bytes: Vec<u8>,
    runs: HashMap<RunId, StagedRun>,
    steps: u64,
}

struct StagedRun {
    known: KnownRun,
    head: RunHead,
    steps: HashMap<StepKey, Place>,
}

impl Batch {
    /// A batch that goes on behind `chain`.
    pub(super) fn new(chain: FrameChain) -> Self {
        Self { chain, bytes: Vec::new(), runs: HashMap::new(), steps: 0 }
    }

    /// How many steps it records.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Decides about an append, and takes it in where it is new. A refusal leaves the batch as it was.
    ///
    /// `key_at` reads the key of a step that is synced.
    pub(super) fn decide(
        &mut self,
        index: &Index,
        append: &Append,
        limits: &StepLimits,
        key_at: impl Fn(Place) -> Result<StepKey, StepError>,
    ) -> Result<Recorded, StepError> {
        let Append { run, key, known, .. } = append;
        let (synced, staged) = (index.run(run), self.runs.get(run));
        let settled = staged.map(|run| &run.known).or(synced.map(|run| &run.known));
        if let Some(settled) = settled {
            settled.admits(run, &known.tenant, &known.definition)?;
        }
        let conflict =
            || StepError::Conflicting { run: run.clone(), key: *key, path: Box::new(append.path.clone()) };
        if let Some(place) = staged.and_then(|run| run.steps.get(key)) {
            return if place.holds(&append.digest) { Ok(Recorded::Already) } else { Err(conflict()) };
        }
        for place in synced.iter().flat_map(|run| run.places(index.hash(key))) {
            if place.holds(&append.digest) {
                return Ok(Recorded::Already);
            }
            if key_at(place)? == *key {
                return Err(conflict());
            }
        }
        let steps =
            synced.map_or(0, super::index::Run::count) + staged.map_or(0, |run| run.steps.len() as u64) + 1;
        within(LimitKind::RunSteps, steps, limits.run_steps_max)?;
        let file_bytes = self.chain.at() + (FRAME_OVERHEAD_BYTES + append.payload.len()) as u64;
        within(LimitKind::FileBytes, file_bytes, limits.file_bytes_max)?;
        let head = synced.map_or_else(|| RunHead::genesis(&known.tenant, run), |run| run.head);
        self.accept(append, head)
    }

    fn accept(&mut self, append: &Append, synced_head: RunHead) -> Result<Recorded, StepError> {
        let Append { run, key, known, payload, digest, .. } = append;
        let at = self.chain.at();
        self.chain
            .write(payload, digest, &mut self.bytes)
            .map_err(|fault| StepError::Damaged { at, fault: Box::new(fault) })?;
        if !self.runs.contains_key(run) {
            let staged = StagedRun { known: known.clone(), head: synced_head, steps: HashMap::new() };
            self.runs.insert(run.clone(), staged);
        }
        if let Some(staged) = self.runs.get_mut(run) {
            // A payload is at most 16 MiB.
            let payload_bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            staged.head = staged.head.link(digest);
            staged.steps.insert(*key, Place::new(at, payload_bytes, digest));
            self.steps += 1;
        }
        Ok(Recorded::Now)
    }

    /// Enters what is synced now in the index.
    pub(super) fn fold_into(self, index: &mut Index) {
        for (name, staged) in self.runs {
            let steps: Vec<_> =
                staged.steps.into_iter().map(|(key, place)| (index.hash(&key), place)).collect();
            let run = index.run_or_insert(&name, || (staged.known, staged.head));
            run.head = staged.head;
            for (hash, place) in steps {
                // Whether the key was new was decided before it was written.
                let _ = run.insert(hash, place, |_| false);
            }
        }
        index.commit(self.chain.at());
    }
}

fn within(kind: LimitKind, requested: u64, limit: u64) -> Result<(), StepError> {
    if requested > limit { Err(StepError::Limit { kind, requested, limit }) } else { Ok(()) }
}

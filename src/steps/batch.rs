//! Appends that share one sync, and what is decided about each.
//!
//! A decision sees what is synced and what the batch accepted before it. What it accepts is one run of bytes to
//! write and a list of places to enter in the index, and touches neither before that.

use std::collections::{BTreeMap, HashMap};

use runseal_evidence::steps::{
    FRAME_OVERHEAD_BYTES, FrameChain, KnownRun, Payload, RunHead, StepKey, StepView,
};

use super::error::{LimitKind, StepError};
use super::index::Index;
use super::limits::StepLimits;
use super::owner::Recorded;
use super::places::{KeyHash, Place};

/// A step to be recorded.
pub(super) struct Append {
    payload: Payload,
    hash: KeyHash,
}

impl Append {
    /// `hash` is that of the step's key.
    pub(super) fn new(payload: Payload, hash: KeyHash) -> Self {
        Self { payload, hash }
    }

    /// What it holds in memory, near enough.
    pub(super) fn bytes(&self) -> usize {
        self.payload.as_bytes().len() + size_of::<Self>()
    }
}

pub(super) struct Batch<'a> {
    /// The chain behind the last frame accepted.
    pub(super) chain: FrameChain,
    /// The frames accepted.
    pub(super) bytes: Vec<u8>,
    runs: HashMap<&'a str, StagedRun<'a>>,
    steps: u64,
}

/// The steps of a run that are accepted.
struct StagedRun<'a> {
    first: StepView<'a>,
    /// The head at the last of them.
    head: RunHead,
    steps: BTreeMap<StepKey, (KeyHash, Place)>,
}

impl<'a> Batch<'a> {
    /// A batch of appends of about so many bytes that goes on behind `chain`.
    pub(super) fn new(chain: FrameChain, bytes: usize) -> Self {
        Self { chain, bytes: Vec::with_capacity(bytes), runs: HashMap::new(), steps: 0 }
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
        append: &'a Append,
        limits: &StepLimits,
        key_at: impl Fn(Place) -> Result<StepKey, StepError>,
    ) -> Result<Recorded, StepError> {
        let (step, digest) = (append.payload.step(), append.payload.digest());
        let (synced, staged) = (index.run(step.run()), self.runs.get(step.run()));
        match (synced, staged) {
            (Some(synced), _) => synced.known.admits_step(&step)?,
            (None, Some(staged)) => KnownRun::of(&staged.first).admits_step(&step)?,
            (None, None) => {}
        }
        let conflict = || StepError::Conflicting {
            run: step.to_run(),
            key: *step.key(),
            path: Box::new(step.to_path()),
        };
        if let Some((_, place)) = staged.and_then(|run| run.steps.get(step.key())) {
            return if place.holds(digest) { Ok(Recorded::Already) } else { Err(conflict()) };
        }
        for place in synced.iter().flat_map(|run| run.places.at(append.hash)) {
            if place.holds(digest) {
                return Ok(Recorded::Already);
            }
            if key_at(place)? == *step.key() {
                return Err(conflict());
            }
        }
        let steps =
            synced.map_or(0, |run| run.places.count()) + staged.map_or(0, |run| run.steps.len() as u64) + 1;
        within(LimitKind::RunSteps, steps, limits.run_steps_max)?;
        let frame_bytes = (FRAME_OVERHEAD_BYTES + append.payload.as_bytes().len()) as u64;
        within(LimitKind::FileBytes, self.chain.at() + frame_bytes, limits.file_bytes_max)?;
        let head = synced.map_or_else(|| RunHead::genesis(&step.to_tenant(), &step.to_run()), |run| run.head);
        self.accept(append, step, head)
    }

    fn accept(
        &mut self,
        append: &'a Append,
        step: StepView<'a>,
        synced_head: RunHead,
    ) -> Result<Recorded, StepError> {
        let (payload, digest, at) = (append.payload.as_bytes(), append.payload.digest(), self.chain.at());
        self.chain
            .write(payload, digest, &mut self.bytes)
            .map_err(|fault| StepError::Damaged { at, fault: Box::new(fault) })?;
        let staged = self.runs.entry(step.run()).or_insert_with(|| StagedRun {
            first: step,
            head: synced_head,
            steps: BTreeMap::new(),
        });
        // A payload is at most 16 MiB.
        let payload_bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        staged.head = staged.head.link(digest);
        staged.steps.insert(*step.key(), (append.hash, Place::new(at, payload_bytes, digest)));
        self.steps += 1;
        Ok(Recorded::Now)
    }

    /// Enters what is synced now in the index.
    pub(super) fn fold_into(self, index: &mut Index) {
        for staged in self.runs.into_values() {
            let run = index.run_or_insert(&staged.first);
            run.head = staged.head;
            for (hash, place) in staged.steps.into_values() {
                run.places.append(hash, place);
            }
        }
        index.commit(self.chain.at());
    }
}

fn within(kind: LimitKind, requested: u64, limit: u64) -> Result<(), StepError> {
    if requested > limit { Err(StepError::Limit { kind, requested, limit }) } else { Ok(()) }
}

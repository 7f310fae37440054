//! Which runs there are, and where their steps are. Values stay in the file.
//!
//! Besides its steps a run takes about 1 KiB.

use std::collections::HashMap;

use runseal_evidence::name::RunId;
use runseal_evidence::steps::{KnownRun, RunHead, StepView};

use super::places::Places;

/// Every run and step of a store, as far as they are synced.
pub(super) struct Index {
    names: HashMap<RunId, usize>,
    runs: Vec<Run>,
    committed_bytes: u64,
}

/// A run with its steps.
pub(super) struct Run {
    pub(super) known: KnownRun,
    pub(super) head: RunHead,
    pub(super) places: Places,
}

impl Index {
    /// The index of a file of which `committed_bytes` are read.
    pub(super) fn new(committed_bytes: u64) -> Self {
        Self { names: HashMap::new(), runs: Vec::new(), committed_bytes }
    }

    pub(super) fn run(&self, run: &str) -> Option<&Run> {
        self.names.get(run).map(|number| &self.runs[*number])
    }

    /// The run of `step`, made where this is its first.
    pub(super) fn run_or_insert(&mut self, step: &StepView<'_>) -> &mut Run {
        let number = self.names.get(step.run()).copied().unwrap_or_else(|| {
            self.names.insert(step.to_run(), self.runs.len());
            self.runs.push(Run::of(step));
            self.runs.len() - 1
        });
        &mut self.runs[number]
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Sorts the steps that were read, so that they are found.
    pub(super) fn sort(&mut self) {
        self.runs.iter_mut().for_each(|run| run.places.sort());
    }

    pub(super) fn committed_bytes(&self) -> u64 {
        self.committed_bytes
    }

    pub(super) fn commit(&mut self, committed_bytes: u64) {
        self.committed_bytes = committed_bytes;
    }
}

impl Run {
    /// The run that `step` is of, without steps.
    fn of(step: &StepView<'_>) -> Self {
        let known = KnownRun::of(step);
        let head = RunHead::genesis(&known.tenant, &step.to_run());
        Self { known, head, places: Places::default() }
    }
}

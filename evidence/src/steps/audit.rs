//! A file of steps read past its faults, so that each run can be held against its conclusion.
//!
//! The chain through the file is the store's own; what a run's conclusion commits to is the chain through the
//! run's steps. Damage to the first is named, and does not keep the second from being checked: a step that was
//! changed, removed or moved is found by what the conclusion says, even where every head was made to fit.

use std::collections::BTreeMap;
use std::fmt;

use super::{
    commitment::{RunSteps, StepDifference, StepsCommitment},
    digest::StepDigest,
    payload::StepView,
    scan::{Scan, StepsFault},
};
use crate::name::{RunId, StepPath, TenantId};

/// Reads a file from its first byte. Keeps the paths of its steps, about 100 bytes a step.
#[derive(Debug, Default)]
pub struct StepsAudit {
    scan: Scan,
    file: AuditedSteps,
    stopped: bool,
}

/// What a file holds, and what is wrong with it.
#[derive(Debug, Default)]
pub struct AuditedSteps {
    runs: BTreeMap<(TenantId, RunId), AuditedRun>,
    /// The first faults of the file, at most eight.
    pub faults: Vec<StepsFault>,
    /// The frames behind the last fault could not be found: steps of any run may be missing here.
    pub cut_short: bool,
    /// Bytes at the end that an interrupted append left.
    pub torn_bytes: u64,
    /// Steps read.
    pub steps: u64,
    /// Bytes read.
    pub bytes: u64,
}

#[derive(Debug)]
struct AuditedRun {
    steps: RunSteps,
    paths: Vec<StepPath>,
}

/// What a file says of the steps that a conclusion commits to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// They are these.
    BorneOut,
    /// They are others.
    Differs(Vec<NamedDifference>),
    /// Some are not there, and may be in the part of the file that could not be read.
    NotReadable,
}

/// How the steps of a run differ, with the path of the step where it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedDifference {
    /// What differs.
    pub difference: StepDifference,
    /// The path of the step that was changed or added, as the file has it.
    pub path: Option<StepPath>,
}

impl fmt::Display for NamedDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{} ({path:?})", self.difference, path = path.as_str()),
            None => self.difference.fmt(f),
        }
    }
}

/// Faults kept; after these it is clear enough.
const FAULTS_MAX: usize = 8;

impl StepsAudit {
    /// An audit before the first byte.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.file.bytes += bytes.len() as u64;
        if self.stopped {
            return;
        }
        let file = &mut self.file;
        let taken = self.scan.take(bytes, |chain, rest| {
            let (number, at) = (chain.frames() + 1, chain.at());
            match chain.read(rest) {
                Ok(None) => Ok(false),
                Ok(Some(frame)) => {
                    file.add(&frame.step, &frame.digest);
                    Ok(true)
                }
                Err(fault) => {
                    let Some(payload) = chain.pass_over(rest) else { return Err(fault) };
                    if let Ok(step) = StepView::parse(payload) {
                        file.add(&step, &StepDigest::of(payload));
                    }
                    file.fault(StepsFault::Frame { number, at, fault });
                    Ok(true)
                }
            }
        });
        if let Err(fault) = taken {
            self.stop(fault);
        }
    }

    /// Says that the file ends here.
    pub fn finish(mut self) -> AuditedSteps {
        if !self.stopped {
            match std::mem::take(&mut self.scan).finish() {
                Ok(end) => self.file.torn_bytes = end.torn_bytes,
                Err(fault) => self.stop(fault),
            }
        }
        self.file
    }

    fn stop(&mut self, fault: StepsFault) {
        self.stopped = true;
        self.file.cut_short = true;
        self.file.fault(fault);
    }
}

impl AuditedSteps {
    /// Whether the steps of `run` here are those that its conclusion commits to. A run that is not here has none.
    pub fn hold(&self, tenant: &TenantId, run: &RunId, commitment: &StepsCommitment) -> Standing {
        let found = self.run(tenant, run);
        let differences = match found {
            Some(found) => commitment.differences(&found.steps),
            None => commitment.differences(&RunSteps::new(tenant, run)),
        };
        let gone = |difference: &StepDifference| {
            matches!(difference, StepDifference::Removed { .. } | StepDifference::Somewhere { .. })
        };
        if differences.is_empty() {
            Standing::BorneOut
        } else if self.cut_short && differences.iter().all(gone) {
            Standing::NotReadable
        } else {
            let named = differences.into_iter().map(|difference| {
                let index = difference.found_at().and_then(|position| usize::try_from(position - 1).ok());
                let path = found.zip(index).and_then(|(found, index)| found.paths.get(index).cloned());
                NamedDifference { difference, path }
            });
            Standing::Differs(named.collect())
        }
    }

    /// How many steps of `run` are here.
    pub fn count(&self, tenant: &TenantId, run: &RunId) -> u64 {
        self.run(tenant, run).map_or(0, |run| run.steps.count())
    }

    fn run(&self, tenant: &TenantId, run: &RunId) -> Option<&AuditedRun> {
        self.runs.get(&(tenant.clone(), run.clone()))
    }

    fn add(&mut self, step: &StepView<'_>, digest: &StepDigest) {
        self.steps += 1;
        let run = self.runs.entry((step.to_tenant(), step.to_run()));
        let run = run.or_insert_with_key(|(tenant, run)| AuditedRun {
            steps: RunSteps::new(tenant, run),
            paths: Vec::new(),
        });
        run.steps.push(digest);
        run.paths.push(step.to_path());
    }

    fn fault(&mut self, fault: StepsFault) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }

    /// Why the file is not one of steps, or of another version, where that is so.
    pub fn header_fault(&self) -> Option<&StepsFault> {
        self.faults.first().filter(|fault| matches!(fault, StepsFault::Header(_)))
    }
}

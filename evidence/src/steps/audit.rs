//! A file of steps read past its faults, so that each run can be held against its conclusion.
//!
//! The chain through the file is the store's own; what a run's conclusion commits to is the chain through the
//! run's steps. Damage to the first is named, and does not keep the second from being checked: a step that was
//! changed, removed or moved is found by what the conclusion says, even where every head was made to fit.

use std::collections::BTreeMap;

use super::{
    commitment::{RunSteps, StepDifference, StepsCommitment},
    digest::StepDigest,
    scan::{Scan, StepsFault},
    step::Step,
};
use crate::name::{RunId, StepPath, TenantId};

/// Reads a file from its first byte.
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
    offsets: Vec<u64>,
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
                    file.add(at, &frame.step, &frame.digest);
                    Ok(true)
                }
                Err(fault) => {
                    let Some(payload) = chain.pass_over(rest) else { return Err(fault) };
                    if let Ok(step) = Step::parse(payload) {
                        file.add(at, &step, &StepDigest::of(payload));
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
    /// How the steps of `run` here differ from what its conclusion says. A run that is not here has none.
    pub fn differences(
        &self,
        tenant: &TenantId,
        run: &RunId,
        commitment: &StepsCommitment,
    ) -> Vec<StepDifference> {
        match self.run(tenant, run) {
            Some(found) => commitment.differences(&found.steps),
            None => commitment.differences(&RunSteps::new(tenant, run)),
        }
    }

    /// How many steps of `run` are here.
    pub fn count(&self, tenant: &TenantId, run: &RunId) -> u64 {
        self.run(tenant, run).map_or(0, |run| run.steps.count())
    }

    /// Where the frame of the run's step at `position`, from 1, stands in the file.
    pub fn offset(&self, tenant: &TenantId, run: &RunId, position: u64) -> Option<u64> {
        let index = usize::try_from(position.checked_sub(1)?).ok()?;
        self.run(tenant, run)?.offsets.get(index).copied()
    }

    /// The path that the frame whose first bytes are given says it is of.
    pub fn path_in(frame: &[u8]) -> Option<StepPath> {
        let payload = frame.get(super::frame::PREFIX_BYTES..)?;
        let bytes = usize::try_from(super::step::stated_bytes(payload)?).ok()?;
        Step::parse(payload.get(..bytes)?).ok().map(|step| step.path)
    }

    fn run(&self, tenant: &TenantId, run: &RunId) -> Option<&AuditedRun> {
        self.runs.get(&(tenant.clone(), run.clone()))
    }

    fn add(&mut self, at: u64, step: &Step<&[u8]>, digest: &StepDigest) {
        self.steps += 1;
        let run = self.runs.entry((step.tenant.clone(), step.run.clone())).or_insert_with(|| AuditedRun {
            steps: RunSteps::new(&step.tenant, &step.run),
            offsets: Vec::new(),
        });
        run.steps.push(digest);
        run.offsets.push(at);
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

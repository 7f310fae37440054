//! A tenant's concluded runs, held against the file of their steps.

use std::collections::BTreeMap;
use std::io::{self, Read};

use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::RunId;
use runseal_evidence::payload::Meaning;
use runseal_evidence::record::Record;
use runseal_evidence::steps::{AuditedSteps, Standing, StepsAudit, StepsCommitment};

use crate::{ReadError, Tenant};

/// What holding a tenant's runs against their steps came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StepsCheck {
    /// Runs whose conclusion commits to their steps, and whose steps bear it out.
    pub runs: u64,
    /// The steps of these.
    pub steps: u64,
    /// Runs with steps in the file that no conclusion commits to yet, and how many steps.
    pub uncommitted: BTreeMap<RunId, u64>,
    /// Runs whose conclusion commits to steps of which some may be in a part of the file that could not be read.
    pub unreadable: BTreeMap<RunId, u64>,
    /// What contradicts: a step changed, removed or moved, or the file itself.
    pub findings: Vec<Finding>,
}

/// Reads a file of steps without changing it, past what is damaged in it.
///
/// # Errors
/// Those of `file`; what is wrong with its bytes is in the answer.
pub fn read_for_audit(mut file: impl Read) -> io::Result<AuditedSteps> {
    let mut audit = StepsAudit::new();
    let mut chunk = vec![0; 256 << 10];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(audit.finish()),
            Ok(read) => audit.push(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Holds every concluded run of `tenant` against its steps in `file`.
///
/// # Errors
/// [`ReadError`] of the journal.
pub fn check(tenant: &Tenant, file: &AuditedSteps) -> Result<StepsCheck, ReadError> {
    let mut check = StepsCheck::default();
    for fault in &file.faults {
        check.findings.push(Finding::new(FindingKind::Malformed, fault.to_string()));
    }
    let mut after = None;
    loop {
        let runs = tenant.runs(after.as_ref(), PAGE_RUNS)?;
        let Some(last) = runs.last() else { return Ok(check) };
        after = Some(last.run.clone());
        for run in &runs {
            check.run(tenant, file, &run.run, run.records)?;
        }
    }
}

/// Runs listed at a time.
const PAGE_RUNS: usize = 256;

impl StepsCheck {
    /// True where nothing contradicts.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn run(&mut self, tenant: &Tenant, file: &AuditedSteps, run: &RunId, last: u64) -> Result<(), ReadError> {
        let found = |detail: String| Finding::new(FindingKind::RunEdited, detail).in_run(run).at_seq(last);
        let count = file.count(tenant.id(), run);
        let records = tenant.read(run, last, 1)?;
        // Reading has checked that it parses.
        let record = records.first().and_then(|record| Record::parse(&record.raw).ok());
        let concluded = record.filter(|record| record.draft.kind.as_str() == Meaning::RUN_CONCLUDED);
        let commitment = concluded.map(|record| StepsCommitment::of_conclusion(&record.draft.payload));
        match commitment {
            None | Some(Ok(None)) if count > 0 => {
                self.uncommitted.insert(run.clone(), count);
            }
            None | Some(Ok(None)) => {}
            Some(Err(fault)) => self.findings.push(found(fault.to_string())),
            Some(Ok(Some(commitment))) => match file.hold(tenant.id(), run, &commitment) {
                Standing::BorneOut => {
                    self.runs += 1;
                    self.steps += commitment.count;
                }
                Standing::Differs(differences) => {
                    self.findings.extend(differences.iter().map(|difference| found(difference.to_string())));
                }
                Standing::NotReadable => {
                    self.unreadable.insert(run.clone(), commitment.count);
                }
            },
        }
        Ok(())
    }
}

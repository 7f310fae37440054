//! Step results: the file of a tenant's steps, held against what the conclusions of its runs commit to.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use runseal_evidence::amount::amount;
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::{RunId, TenantId};
use runseal_evidence::report::{NotChecked, Report};
use runseal_evidence::signature::{RecordKeyError, RecordVerifier};
use runseal_evidence::steps::{AuditedSteps, CommitmentFault, Standing, StepsAudit, StepsCommitment};
use runseal_tlog::key::{Algorithm, KeyError, VerifierKey};
use thiserror::Error;

use crate::error::Failure;

/// What records are held against besides the log.
#[derive(Clone, Debug, Default)]
pub struct Against {
    /// Keys that sign records; with any, every record must carry a signature of one.
    pub record_keys: Vec<RecordVerifier>,
    /// The file of the steps that the runs' conclusions commit to, where one was given.
    pub steps: Option<Arc<StepsFile>>,
}

/// Why a vkey is not that of a key that signs records.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordVkeyError {
    /// It is no vkey.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// It is of another kind of key.
    #[error("a record key has type 0x01")]
    Algorithm,
    /// Its public key or its name is refused.
    #[error(transparent)]
    Refused(#[from] RecordKeyError),
}

/// Reads the vkey of a key that signs records.
///
/// # Errors
/// [`RecordVkeyError`].
pub fn record_key(vkey: &str) -> Result<RecordVerifier, RecordVkeyError> {
    let key: VerifierKey = vkey.parse()?;
    let public = match key.algorithm() {
        Algorithm::Ed25519 => key.public_key().try_into().ok(),
        _ => None,
    };
    let public: [u8; 32] = public.ok_or(RecordVkeyError::Algorithm)?;
    Ok(RecordVerifier::new(key.name().as_str(), &public)?)
}

/// A file of steps, read.
#[derive(Debug)]
pub struct StepsFile {
    path: PathBuf,
    file: AuditedSteps,
}

/// What holding conclusions against steps came to, over any number of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepsTally {
    /// Runs whose steps are those that their conclusion commits to.
    pub runs: u64,
    /// The steps of these.
    pub steps: u64,
    /// Runs that contradict their file.
    pub contradicted: u64,
    /// Runs whose conclusion commits to steps that nobody gave.
    pub not_given: u64,
    /// Runs with steps in the file that no conclusion commits to.
    pub uncommitted: u64,
}

/// What conclusions and steps came to, of one run or many.
#[derive(Debug, Default)]
pub struct Held {
    /// For the counts.
    pub tally: StepsTally,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What could not be checked.
    pub gaps: Vec<NotChecked>,
}

impl Held {
    /// Adds what another run came to.
    pub fn add(&mut self, other: Self) {
        let Self { tally, findings, gaps } = other;
        self.tally.runs += tally.runs;
        self.tally.steps += tally.steps;
        self.tally.contradicted += tally.contradicted;
        self.tally.not_given += tally.not_given;
        self.tally.uncommitted += tally.uncommitted;
        self.findings.extend(findings);
        self.gaps.extend(gaps);
    }
}

impl StepsFile {
    /// Reads a file. What is damaged in it is for the report to say.
    ///
    /// # Errors
    /// [`Failure::Read`], and [`Failure::NotA`] for another file or version.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let fault = |source| Failure::Read { path: path.to_owned(), source };
        let mut reader = File::open(path).map_err(fault)?;
        let mut audit = StepsAudit::new();
        let mut chunk = vec![0; 256 << 10];
        loop {
            match reader.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => audit.push(&chunk[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(fault(error)),
            }
        }
        let file = audit.finish();
        match file.header_fault() {
            Some(fault) => {
                Err(Failure::NotA { path: path.to_owned(), what: "step file", reason: fault.to_string() })
            }
            None => Ok(Self { path: path.to_owned(), file }),
        }
    }
}

/// Holds what one run's conclusion says of its steps, where it has one, against them.
pub fn hold(
    steps: Option<&StepsFile>,
    tenant: &TenantId,
    run: &RunId,
    commitment: Result<Option<StepsCommitment>, CommitmentFault>,
) -> Held {
    let mut held = Held::default();
    let finding = |kind, detail: String| Finding::new(kind, detail).in_run(run);
    let commitment = match commitment {
        Ok(commitment) => commitment,
        Err(fault) => {
            held.tally.contradicted = 1;
            held.findings.push(finding(FindingKind::Malformed, format!("the conclusion: {fault}")));
            return held;
        }
    };
    match (steps, commitment) {
        (None, None) => {}
        (None, Some(_)) => held.tally.not_given = 1,
        (Some(steps), None) => held.tally.uncommitted = u64::from(steps.file.count(tenant, run) > 0),
        (Some(steps), Some(commitment)) => match steps.file.hold(tenant, run, &commitment) {
            Standing::BorneOut => (held.tally.runs, held.tally.steps) = (1, commitment.count),
            Standing::Differs(differences) => {
                held.tally.contradicted = 1;
                let details = differences.iter().take(DIFFERENCES_MAX).map(ToString::to_string);
                held.findings.extend(details.map(|detail| finding(FindingKind::RunEdited, detail)));
                if differences.len() > DIFFERENCES_MAX {
                    let more = format!(
                        "{} as found or as recorded",
                        amount(differences.len() - DIFFERENCES_MAX, "further difference")
                    );
                    held.findings.push(finding(FindingKind::RunEdited, more));
                }
            }
            Standing::NotReadable => {
                let why = "they may be in the part of the step file that cannot be read";
                held.gaps.push(NotChecked::gap(format!("steps of run {run}"), why));
            }
        },
    }
    held
}

/// Says what holding all runs against their steps came to.
pub fn close(report: &mut Report, steps: Option<&StepsFile>, held: Held) {
    let Held { tally, findings, gaps } = held;
    report.findings.extend(findings);
    report.not_checked.extend(gaps);
    let Some(StepsFile { path, file }) = steps else {
        if tally.not_given > 0 {
            let what = format!("the steps of {}", amount(tally.not_given, "run"));
            report.not_checked.push(NotChecked::out_of_scope(what, "no --steps was given"));
        }
        return;
    };
    for fault in &file.faults {
        let detail = format!("{}: {fault}", path.display());
        report.findings.push(Finding::new(FindingKind::Malformed, detail));
    }
    let StepsTally { runs, steps, contradicted, uncommitted, .. } = tally;
    if contradicted == 0 && file.faults.is_empty() {
        report.passed(
            "steps",
            format!("{} of {}, as the runs concluded", amount(steps, "step"), amount(runs, "run")),
        );
    } else {
        let detail = format!("the steps of {} are not as concluded", amount(contradicted, "run"));
        report.failed("steps", detail);
    }
    if uncommitted > 0 {
        let why = "no conclusion of them commits to the steps";
        report
            .not_checked
            .push(NotChecked::out_of_scope(format!("the steps of {}", amount(uncommitted, "run")), why));
    }
    if file.torn_bytes > 0 {
        let what = format!("{} at the end of {}", amount(file.torn_bytes, "byte"), path.display());
        report.not_checked.push(NotChecked::out_of_scope(what, "an interrupted append left them"));
    }
}

/// Differences named of one run; beyond that they are counted.
const DIFFERENCES_MAX: usize = 8;

//! Reading runs from files: JSON Lines and recorded agent trajectories.
//!
//! A file is read whole before anything of it is stored, so that it is taken or refused as one. Payloads are
//! lossless: what a file says comes out of the journal with its members in order and its digits as written.
//! A refusal names the file, the place in it and the reason.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use runseal_evidence::{
    json::{Json, JsonError, JsonFault},
    name::{EffectKey, NameError, RunId, TenantId},
    payload::{Meaning, PayloadError},
    record::{RECORD_BYTES_MAX, RecordDraft, RecordError, Stamp},
    timestamp::Timestamp,
};
use thiserror::Error;

use crate::AppendError;

pub mod jsonl;
pub mod trajectory;

/// Longest trajectory file read, 1 GiB.
pub const TRAJECTORY_BYTES_MAX: u64 = 1 << 30;

/// How a file spells its runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One record a line, any number of runs.
    Jsonl,
    /// One JSON document, one run.
    Trajectory,
}

impl Format {
    /// The format a file has by its name: `.traj` is a trajectory, anything else JSON Lines.
    pub fn of(file: &Path) -> Self {
        if file.extension().is_some_and(|extension| extension == "traj") {
            Self::Trajectory
        } else {
            Self::Jsonl
        }
    }
}

/// Whether runs are sealed on import.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// A concluded run is sealed; a trajectory is concluded by its exit status.
    Seal,
    /// Every run stays open, and a trajectory gets no conclusion.
    LeaveOpen,
}

/// A run as a file describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportedRun {
    /// The run.
    pub run: RunId,
    /// Its records in order.
    pub drafts: Vec<RecordDraft>,
    /// What its records claim that others may have claimed before.
    pub claims: Vec<Claim>,
    /// Whether it is to be sealed.
    pub seal: bool,
}

/// What a record claims for its run, and where the record is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Where.
    pub place: Place,
    /// What.
    pub claimed: Claimed,
}

/// What can be claimed once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Claimed {
    /// The run itself, by its first record.
    Run,
    /// The start of an effect in the run.
    Effect(EffectKey),
    /// An admission of the run, with its key if it has one.
    Admission(Option<String>),
}

/// The claims of a file's runs, to find the place of one that the journal refuses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claims(Vec<(RunId, Vec<Claim>)>);

impl Claims {
    /// The claims of `runs`.
    pub fn of(runs: &[ImportedRun]) -> Self {
        Self(runs.iter().map(|run| (run.run.clone(), run.claims.clone())).collect())
    }

    /// Where `run` makes the claim that is refused: of equal claims the last, the one too many.
    pub fn place(&self, run: &RunId, refusal: &AppendError) -> Place {
        let refused = |claimed: &Claimed| match (refusal, claimed) {
            (AppendError::DuplicateEffect { effect, .. }, Claimed::Effect(claimed)) => effect == claimed,
            (AppendError::DuplicateAdmission { key, .. }, Claimed::Admission(claimed)) => {
                claimed.as_ref() == Some(key)
            }
            (AppendError::AdmittedBefore { .. }, Claimed::Admission(claimed)) => claimed.is_some(),
            (_, claimed) => *claimed == Claimed::Run,
        };
        let of_run = self.0.iter().filter(|(name, _)| name == run).flat_map(|(_, claims)| claims);
        of_run.rev().find(|claim| refused(&claim.claimed)).map_or(Place::File, |claim| claim.place)
    }
}

/// A place in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line, from 1.
    Line(u64),
    /// A line and a byte in it, both from 1.
    Byte {
        /// The line.
        line: u64,
        /// The byte in the line.
        byte: u64,
    },
    /// The top level of a trajectory.
    Top,
    /// An element of a trajectory's `history`, from 0.
    History(usize),
    /// An element of a trajectory's `trajectory`, from 0.
    Step(usize),
    /// A trajectory's `info.exit_status`.
    ExitStatus,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("the file"),
            Self::Line(line) => write!(f, "line {line}"),
            Self::Byte { line, byte } => write!(f, "line {line}, byte {byte}"),
            Self::Top => f.write_str("the top level"),
            Self::History(index) => write!(f, "history[{index}]"),
            Self::Step(index) => write!(f, "trajectory[{index}]"),
            Self::ExitStatus => f.write_str("info.exit_status"),
        }
    }
}

/// Why a file is refused.
#[derive(Debug, Error)]
#[error("{}: {place}: {fault}", file.display())]
pub struct ImportError {
    /// The file, as the caller named it.
    pub file: PathBuf,
    /// Where in it.
    pub place: Place,
    /// Why.
    pub fault: Box<ImportFault>,
}

/// What is wrong with a file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportFault {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// Nothing to import.
    #[error("it holds no run")]
    Empty,
    /// Nothing to append.
    #[error("it holds no record")]
    NoRecords,
    /// A trajectory file longer than [`TRAJECTORY_BYTES_MAX`].
    #[error("it is longer than {TRAJECTORY_BYTES_MAX} bytes, the most a trajectory may have")]
    FileTooLong,
    /// A line longer than any record needs.
    #[error("it is longer than {} bytes, the most a line may have", jsonl::LINE_BYTES_MAX)]
    LineTooLong,
    /// The file starts with U+FEFF.
    #[error("a byte order mark; save the file as UTF-8 without one")]
    ByteOrderMark,
    /// Not the JSON it should be, with the offset in the line or value.
    #[error(transparent)]
    Json(JsonError),
    /// Not the JSON it should be, at the place named.
    #[error(transparent)]
    Fault(JsonFault),
    /// A member is missing.
    #[error("member {0:?} is missing")]
    Missing(&'static str),
    /// A member that does not belong here.
    #[error("unknown member {name:?}; allowed are {allowed}")]
    Unknown {
        /// The member.
        name: String,
        /// Those that may stand here.
        allowed: &'static str,
    },
    /// A member of the wrong type.
    #[error("member {member:?} is not {expected}")]
    Type {
        /// The member.
        member: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// An element of the wrong type.
    #[error("it is not an object")]
    NotAnObject,
    /// A name breaks its rule.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The file's name gives no run.
    #[error("the run is named by the file's stem, and {0}; rename the file")]
    Stem(NameError),
    /// A payload does not fit its kind.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// The record cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Something follows the conclusion of a run.
    #[error("run {run} was concluded on line {line}; nothing may follow")]
    Concluded {
        /// The run.
        run: RunId,
        /// Where it was concluded.
        line: u64,
    },
    /// An exit status that is no outcome.
    #[error("{0}; --open imports the run without a conclusion")]
    Outcome(NameError),
    /// An exit status that is no string.
    #[error("it is not a string; --open imports the run without a conclusion")]
    OutcomeType,
    /// A trajectory without runs' members.
    #[error("it has neither \"trajectory\" nor \"history\"")]
    NoTrajectory,
}

/// Reads the runs of one file for `tenant`. Runs come in the order in which they start in the file.
///
/// # Errors
/// [`ImportError`]; a file is refused whole.
pub fn read_file(
    file: &Path,
    format: Format,
    tenant: &TenantId,
    ending: Ending,
) -> Result<Vec<ImportedRun>, ImportError> {
    let runs = match format {
        Format::Jsonl => jsonl::read_file(file, tenant, ending),
        Format::Trajectory => trajectory::read_file(file, tenant, ending).map(|run| vec![run]),
    };
    runs.map_err(|(place, fault)| ImportError { file: file.to_owned(), place, fault: Box::new(fault) })
}

/// What goes wrong in a file, and where.
type Refused = (Place, ImportFault);

impl ImportedRun {
    const fn empty(run: RunId) -> Self {
        Self { run, drafts: Vec::new(), claims: Vec::new(), seal: false }
    }

    /// Adds a record. What the journal would refuse in it whatever the state of the run is refused here, where
    /// its place in the file is known: a payload that does not fit its kind, a record over the limit.
    fn push(&mut self, place: Place, draft: RecordDraft, tenant: &TenantId) -> Result<Meaning, ImportFault> {
        let meaning = Meaning::of(&draft.kind, &draft.payload)?;
        let seq = self.drafts.len() as u64 + 1;
        if draft.payload.as_str().len() > RECORD_BYTES_MAX - AROUND_PAYLOAD_BYTES_MAX {
            // The stamp of a first epoch is the shortest there is: what does not fit under it never will.
            let (run, tenant) = (self.run.clone(), tenant.clone());
            draft.clone().stamp(Stamp { at: Timestamp::MIN, epoch: 1, run, seq, tenant }).to_wire()?;
        }
        let mut claim = |claimed| self.claims.push(Claim { place, claimed });
        if seq == 1 {
            claim(Claimed::Run);
        }
        match (&meaning, &draft.effect) {
            (Meaning::EffectStarted, Some(effect)) => claim(Claimed::Effect(effect.clone())),
            (Meaning::RunAdmitted(admitted), _) => claim(Claimed::Admission(admitted.admission_key.clone())),
            _ => {}
        }
        self.drafts.push(draft);
        Ok(meaning)
    }
}

/// Everything around the payload of a record takes less than this.
const AROUND_PAYLOAD_BYTES_MAX: usize = 2048;

/// The string that a member must be.
fn text(value: &Json, member: &'static str) -> Result<String, ImportFault> {
    value.text().ok_or(ImportFault::Type { member, expected: "a string" })
}

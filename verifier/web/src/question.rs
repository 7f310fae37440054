//! A file, and what it is to be held against: the arguments of the command, by the same names.

use std::io::{BufRead, Read as _};
use std::path::Path;

use runseal_evidence::report::Report;
use runseal_tlog::bundle::ENTRY_BYTES_MAX;
use runseal_verifier::checkpoint::NOTE_BYTES_MAX;
use runseal_verifier::error::{EXIT_USAGE, Failure};
use runseal_verifier::export;
use runseal_verifier::export::entries::Spill;
use runseal_verifier::fraud::{self, NoConviction};
use runseal_verifier::lines::LineReader;
use runseal_verifier::proof;
use runseal_verifier::steps::{Against, RecordVkeyError, record_key};
use runseal_verifier::trust::{POLICY_BYTES_MAX, Trust};
use thiserror::Error;

use crate::kind::{Kind, START_BYTES};

/// What a file is to be held against.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// What the file is called.
    pub name: String,
    /// The policy.
    pub policy: Vec<u8>,
    /// What the policy is called.
    pub policy_name: String,
    /// For an export: a signed checkpoint from elsewhere.
    pub checkpoint: Option<Vec<u8>>,
    /// For an export: vkeys of keys that sign records, one a line.
    pub record_keys: String,
    /// For a proof: the entry, where the proof does not hold it.
    pub entry: Option<Vec<u8>>,
    /// For a proof: the origin of the log that the entry must be in.
    pub log: Option<String>,
    /// Randomness nobody else knows, see [`Spill::to_memory`].
    pub run_key: [u8; 16],
}

/// Why there is no report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The command would fail too.
    #[error(transparent)]
    Failure(#[from] Failure),
    /// A fraud proof that proves nothing.
    #[error("{name} proves nothing: {reason}")]
    NoFraud {
        /// The file.
        name: String,
        /// Why.
        reason: NoConviction,
    },
    /// A record key.
    #[error("record key {vkey:?}: {reason}")]
    RecordKey {
        /// As given.
        vkey: String,
        /// What is wrong with it.
        reason: RecordVkeyError,
    },
    /// A file that nothing here reads.
    #[error("{name} is neither a proof nor an export nor a fraud proof")]
    Unknown {
        /// The file.
        name: String,
    },
}

impl Refusal {
    /// The command's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failure(failure) => failure.exit_code(),
            Self::NoFraud { .. } | Self::RecordKey { .. } | Self::Unknown { .. } => EXIT_USAGE,
        }
    }
}

impl Question {
    /// Judges the file, which `open` gives from its start. An export is read as a stream; the others are small.
    ///
    /// # Errors
    /// [`Refusal`] where there is nothing to report on.
    pub fn judge<R: BufRead + Send>(&self, open: impl Fn() -> R) -> Result<Report, Refusal> {
        let trust = self.trust()?;
        let path = Path::new(&self.name);
        let start = start_of(open(), path)?;
        let file = open();
        match Kind::of(&start) {
            Kind::Proof => {
                let bytes = read(file, path, "tlog-proof file", proof::PROOF_BYTES_MAX)?;
                let entry = self.entry.as_deref();
                bounded(entry, "the entry", "log entry", ENTRY_BYTES_MAX as u64)?;
                let log = self.log.as_deref();
                Ok(proof::check(&bytes, entry, log, &trust).map_err(|error| error.into_failure(path))?)
            }
            Kind::Export => {
                let outside = self.checkpoint.as_deref();
                bounded(outside, "the checkpoint from elsewhere", "checkpoint", NOTE_BYTES_MAX as u64)?;
                let against = Against { record_keys: self.record_keys()?, steps: None };
                let spill = Spill::to_memory(self.run_key);
                let mut lines = LineReader::new(file, path);
                Ok(export::check_lines(&mut lines, path, &trust, outside, &against, spill, &|_| {})?)
            }
            Kind::FraudProof => {
                let bytes = read(file, path, "fraud proof", fraud::FRAUD_BYTES_MAX)?;
                let no_fraud = |reason| Refusal::NoFraud { name: self.name.clone(), reason };
                let fraud = fraud::check(&bytes, &trust.policy).map_err(no_fraud)?;
                Ok(fraud::report(&fraud, bytes.len() as u64))
            }
            Kind::Policy | Kind::Checkpoint | Kind::Unknown => {
                Err(Refusal::Unknown { name: self.name.clone() })
            }
        }
    }

    fn trust(&self) -> Result<Trust, Failure> {
        bounded(Some(&self.policy), &self.policy_name, "tlog-policy file", POLICY_BYTES_MAX)?;
        Ok(Trust::parse(&self.policy, Path::new(&self.policy_name))?)
    }

    fn record_keys(&self) -> Result<Vec<runseal_evidence::signature::RecordVerifier>, Refusal> {
        let vkeys = self.record_keys.lines().map(str::trim).filter(|line| !line.is_empty());
        let read = |vkey: &str| {
            record_key(vkey).map_err(|reason| Refusal::RecordKey { vkey: vkey.to_owned(), reason })
        };
        vkeys.map(read).collect()
    }
}

fn start_of(file: impl BufRead, path: &Path) -> Result<Vec<u8>, Failure> {
    let mut start = Vec::new();
    let read = file.take(START_BYTES).read_to_end(&mut start);
    read.map_err(|source| Failure::Read { path: path.to_owned(), source })?;
    Ok(start)
}

fn read(file: impl BufRead, path: &Path, what: &'static str, limit: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = file.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|source| Failure::Read { path: path.to_owned(), source })?;
    bounded(Some(&bytes), path, what, limit)?;
    Ok(bytes)
}

fn bounded(
    bytes: Option<&[u8]>,
    path: impl AsRef<Path>,
    what: &'static str,
    limit: u64,
) -> Result<(), Failure> {
    match bytes {
        Some(bytes) if bytes.len() as u64 > limit => {
            Err(Failure::TooLong { path: path.as_ref().to_owned(), what, limit })
        }
        _ => Ok(()),
    }
}

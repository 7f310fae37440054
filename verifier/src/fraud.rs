//! Fraud proofs, checked offline under a policy.

use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::report::{Command, LogState, NotChecked, Report, Scope};
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::fraud::{Fraud, FraudProof, FraudProofError, NoFraud};
use runseal_tlog::policy::Policy;
use thiserror::Error;

/// Longest fraud proof file read: two notes and 64 hashes.
pub const FRAUD_BYTES_MAX: u64 = 4 << 20;

/// What a report says of a log against which a fraud proof stands.
pub const CONVICTED: &str = "the log signed two checkpoints that cannot both be true; the file that --fraud-proof FILE writes proves it to anybody";

/// Why a file proves nothing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NoConviction {
    /// It is no fraud proof file.
    #[error(transparent)]
    File(#[from] FraudProofError),
    /// Its newer note is no checkpoint.
    #[error("the newer checkpoint does not read: {0}")]
    Checkpoint(#[from] runseal_tlog::checkpoint::CheckpointError),
    /// The policy has no such log.
    #[error("the policy lists no log with origin {0:?}")]
    UnknownLog(String),
    /// It does not hold.
    #[error(transparent)]
    Proof(#[from] NoFraud),
}

/// Checks that a log of the policy signed two histories.
///
/// # Errors
/// [`NoConviction`].
pub fn check(bytes: &[u8], policy: &Policy) -> Result<Fraud, NoConviction> {
    let proof = FraudProof::parse(bytes)?;
    let newer = Checkpoint::parse(proof.newer.unverified_text())?;
    let keys: Vec<_> = policy.log_keys(newer.origin()).collect();
    if keys.is_empty() {
        return Err(NoConviction::UnknownLog(newer.origin().to_owned()));
    }
    Ok(proof.verify(keys)?)
}

/// The report of a fraud proof that stands.
pub fn report(fraud: &Fraud, bytes: u64) -> Report {
    let mut report = Report::new(Command::Fraud, Scope::FraudProof);
    let (older, newer) = (fraud.older.checkpoint(), fraud.newer.checkpoint());
    report.log = Some(LogState {
        origin: newer.origin().to_owned(),
        size: newer.size(),
        root: newer.root().to_base64(),
        checkpoint: fraud.newer.note().to_string(),
    });
    report.counts.bytes = bytes;
    report.passed("log-signature", format!("both checkpoints are signed by {}", newer.origin()));
    report.failed("consistency", "the two trees cannot both be true");
    let detail = format!(
        "{} signed two histories: size {} with root {}, and size {} with root {}, whose first {} entries have root {}",
        older.origin(),
        older.size(),
        older.root(),
        newer.size(),
        newer.root(),
        older.size(),
        fraud.implied_older_root
    );
    report.findings.push(Finding::new(FindingKind::Fork, detail));
    let why = "the log's own signatures convict it, whoever else has seen the two";
    report.not_checked.push(NotChecked::out_of_scope("cosignatures on the two checkpoints", why));
    report
}

//! A tlog-proof file under a policy: one entry is in a tree that the log signed and the witnesses saw.

use runseal_evidence::amount::amount;
use runseal_evidence::entry::{Entry, Recognised};
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::report::{Command, Report, Scope};
use runseal_tlog::hash::LeafHash;
use runseal_tlog::inclusion;
use runseal_tlog::proof::{HEADER, ProofError, TlogProof};

use crate::checkpoint::{self, Memory};
use crate::error::Failure;
use crate::judge;
use crate::trust::{Trust, TrustError};

/// Longest proof file read: a note, 63 hashes and an entry in base64.
pub const PROOF_BYTES_MAX: u64 = 2 << 20;

/// Why there is nothing to check.
#[derive(Debug)]
pub enum NoProof {
    /// The bytes are no proof file.
    NotAProof(ProofError),
    /// No entry was given, and the proof holds none.
    NoEntry,
    /// The policy has no such log.
    Trust(TrustError),
}

/// Checks a proof. The entry is `entry`, else what the proof's extra line holds; the log is `log`, else any
/// that the policy lists.
///
/// # Errors
/// [`NoProof`] when there is nothing to check.
pub fn check(
    bytes: &[u8],
    entry: Option<&[u8]>,
    log: Option<&str>,
    trust: &Trust,
) -> Result<Report, NoProof> {
    let mut report = Report::new(Command::Proof, Scope::Proof);
    report.counts.bytes = bytes.len() as u64;
    let proof = match TlogProof::parse(bytes) {
        Ok(proof) => proof,
        Err(error) if !bytes.starts_with(HEADER.as_bytes()) => return Err(NoProof::NotAProof(error)),
        Err(error) => {
            report.failed("file", error.to_string());
            report.findings.push(Finding::new(FindingKind::Malformed, error.to_string()));
            return Ok(report);
        }
    };
    let entry = entry.or(proof.extra.as_deref()).ok_or(NoProof::NoEntry)?;
    let text = proof.note.unverified_text();
    let origin = log.unwrap_or_else(|| text.lines().next().unwrap_or_default());
    trust.choose(Some(origin)).map_err(NoProof::Trust)?;
    let signed = checkpoint::examine(&mut report, trust, origin, proof.note.to_string().as_bytes());
    let Some(signed) = signed else { return Ok(report) };
    let (size, root) = (signed.checkpoint.size(), signed.checkpoint.root());
    match inclusion::verify(proof.index, size, LeafHash::of(entry), &proof.hashes, root) {
        Ok(()) => {
            let detail = format!("the entry is at index {} of the {size} that the root covers", proof.index);
            report.passed("inclusion", detail);
            report.counts.entries = 1;
        }
        Err(error) => {
            report.failed("inclusion", error.to_string());
            let finding = Finding::new(FindingKind::EntryMismatch, error.to_string()).at_index(proof.index);
            report.findings.push(match judge::name_of(entry) {
                Some((_, run)) => finding.in_run(&run),
                None => finding,
            });
        }
    }
    checkpoint::unwitnessed(&mut report, Memory::OfAProof);
    describe(&mut report, entry);
    Ok(report)
}

/// Says what the entry is, for people.
fn describe(report: &mut Report, entry: &[u8]) {
    let detail = match Entry::recognise(entry) {
        Recognised::Ours(Entry::Seal(seal)) => {
            format!("seal of run {}: {}, {}", seal.run, amount(seal.records.get(), "record"), seal.outcome)
        }
        Recognised::Ours(Entry::Head(head)) => {
            format!("head of open run {}: {} so far", head.run, amount(head.records.get(), "record"))
        }
        Recognised::Ours(Entry::Tenant(log)) => format!("log of tenant {}: {}", log.tenant(), log.vkey()),
        Recognised::Unreadable(error) => format!("an entry that does not read: {error}"),
        Recognised::Foreign => "an entry of another program".to_owned(),
    };
    report.skipped("entry", detail);
}

impl NoProof {
    /// The failure, for the file it came from.
    pub fn into_failure(self, path: &std::path::Path) -> Failure {
        match self {
            Self::NotAProof(error) => {
                Failure::NotA { path: path.to_owned(), what: "tlog-proof file", reason: error.to_string() }
            }
            Self::NoEntry => Failure::Usage("the proof holds no entry (no extra line); give it with --entry"),
            Self::Trust(error) => error.into(),
        }
    }
}

//! A checkpoint under a policy: the log's signature, the cosignatures, the quorum, the age.

use std::time::Duration;

use runseal_evidence::amount::amount;
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::report::{Cosignature, CosignatureStatus, LogState, NotChecked, Quorum, Report};
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::note::Note;
use runseal_tlog::policy::{self, LogStatus, Policy};

use crate::clock;
use crate::dates::Dates;
use crate::trust::Trust;

/// Longest checkpoint note accepted: 128 ML-DSA-44 lines and long names fit.
pub const NOTE_BYTES_MAX: usize = 1 << 20;
/// How far a witness's clock may be ahead of ours.
pub const CLOCK_TOLERANCE: Duration = Duration::from_mins(5);

/// A checkpoint that the log was seen to have signed. Whether its quorum is met is in the report.
#[derive(Clone, Debug)]
pub struct Signed {
    /// What the log states.
    pub checkpoint: Checkpoint,
    /// The whole note.
    pub note: Note,
    /// The newest time of a valid cosignature, POSIX seconds.
    pub newest_time: Option<u64>,
}

/// How old a checkpoint may be.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    /// The time now, POSIX seconds.
    pub now: u64,
    /// The oldest that the newest cosignature may be.
    pub max: Option<Duration>,
}

/// Examines a note under `policy` and puts what it is worth into `report`. `origin` is the log expected.
///
/// `None` where it is not a checkpoint of that log, signed by it: nothing can be built on it then.
pub fn examine(report: &mut Report, trust: &Trust, origin: &str, bytes: &[u8]) -> Option<Signed> {
    let policy = &trust.policy;
    let note = match Note::parse(bytes) {
        Ok(note) => note,
        Err(error) => return malformed(report, &error.to_string()),
    };
    let examination = match policy.examine(&note) {
        Ok(examination) => examination,
        Err(error) => return malformed(report, &error.to_string()),
    };
    let checkpoint = examination.checkpoint;
    report.log = Some(LogState {
        origin: checkpoint.origin().to_owned(),
        size: checkpoint.size(),
        root: checkpoint.root().to_base64(),
        checkpoint: note.to_string(),
    });
    // A line under the log's own name is its signature, by whichever key, and no witness's.
    let (own, witnesses): (Vec<_>, Vec<_>) =
        examination.cosignatures.into_iter().partition(|line| line.name.as_str() == checkpoint.origin());
    report.cosignatures = witnesses.iter().map(cosignature).collect();
    if checkpoint.origin() != origin {
        let detail = format!("the checkpoint is of log {:?}, not {origin:?}", checkpoint.origin());
        return refused(report, detail);
    }
    match &examination.log {
        LogStatus::Signed => {}
        LogStatus::NotSigned => {
            return refused(report, not_signed(policy, origin, &own));
        }
        LogStatus::Invalid(error) => return refused(report, error.to_string()),
        LogStatus::Unknown => {
            return refused(report, format!("the policy lists no log with origin {origin:?}"));
        }
    }
    report.passed("log-signature", format!("signed by {origin}"));
    for line in own.iter().chain(&witnesses) {
        if line.status == policy::CosignatureStatus::Invalid {
            let detail = format!(
                "the cosignature of {} ({}) does not verify, or repeats that witness",
                line.name, line.key_id
            );
            report.failed("cosignatures", detail.clone());
            report.findings.push(Finding::new(FindingKind::CheckpointSignature, detail));
        }
    }
    let counted = counted(report, trust, &witnesses);
    let by = |time: u64| {
        policy.quorum_met(|witness| counted.iter().any(|(at, signed)| *at == witness && *signed <= time))
    };
    let met = by(u64::MAX);
    if trust.is_dated() && !dated(report, trust, &note, origin, quorum_time(&counted, by)) {
        return None;
    }
    quorum(report, policy, met);
    let newest_time = counted.iter().map(|(_, time)| *time).max();
    Some(Signed { checkpoint, note, newest_time })
}

/// What the policy expects of a checkpoint that no trusted key of the log signed, and what it has: the policy may be the
/// wrong one.
fn not_signed(policy: &Policy, origin: &str, own: &[policy::Cosignature]) -> String {
    let expected: Vec<String> = policy.log_keys(origin).map(|key| key.id().to_string()).collect();
    let found: Vec<String> = own.iter().map(|line| line.key_id.to_string()).collect();
    let expected = format!("the policy trusts key {} of log {origin:?}", expected.join(", "));
    if found.is_empty() {
        format!("{expected}, and the checkpoint carries no signature of that name")
    } else {
        let found = found.join(", ");
        format!("{expected}, and the checkpoint is signed by key {found}: a forgery, or the wrong policy")
    }
}

/// The witnesses whose valid cosignatures count, with their times: all of them, unless a key is dated.
fn counted(report: &mut Report, trust: &Trust, lines: &[policy::Cosignature]) -> Vec<(usize, u64)> {
    let mut counted = Vec::new();
    for (at_line, line) in lines.iter().enumerate() {
        let (policy::CosignatureStatus::Valid, Some(at), Some(time)) = (line.status, line.witness, line.time)
        else {
            continue;
        };
        if trust.witness_dates(at).hold(time) {
            counted.push((at, time));
            continue;
        }
        let detail = format!(
            "{} cosigned at {}, outside its key's dates: it does not count",
            line.name,
            clock::spell(time)
        );
        report.skipped("cosignatures", detail);
        // It is as if the policy did not know the key. The report lists the lines in the same order.
        report.cosignatures[at_line].status = CosignatureStatus::Unknown;
    }
    counted
}

/// The time by which the quorum had cosigned.
fn quorum_time(counted: &[(usize, u64)], by: impl Fn(u64) -> bool) -> Option<u64> {
    let mut times: Vec<u64> = counted.iter().map(|(_, time)| *time).collect();
    times.sort_unstable();
    times.into_iter().find(|time| by(*time))
}

/// Whether a log key signed that was trusted when the quorum had cosigned.
fn dated(report: &mut Report, trust: &Trust, note: &Note, origin: &str, time: Option<u64>) -> bool {
    let signers = trust.policy.logs().iter().enumerate().filter(|(_, log)| log.origin() == origin);
    let signers = signers.filter(|(_, log)| note.signatures().iter().any(|line| line.is_of(&log.key)));
    let dates: Vec<_> = signers.map(|(at, log)| (log.key.id(), trust.log_dates(at))).collect();
    if dates.iter().any(|(_, dates)| *dates == Dates::ALWAYS) {
        return true;
    }
    let Some(time) = time else {
        // Nobody vouches for a time, so that of a dated key's signature is anybody's word.
        let why = "its log key is dated, and no quorum tells when it was signed";
        report.not_checked.push(NotChecked::gap("the date of the checkpoint", why));
        return true;
    };
    let spelled = clock::spell(time);
    if let Some((id, _)) = dates.iter().find(|(_, dates)| dates.hold(time)) {
        report.passed("dates", format!("key {id} was trusted when the quorum had cosigned, {spelled}"));
        return true;
    }
    let ids: Vec<String> = dates.iter().map(|(id, _)| id.to_string()).collect();
    let detail = format!(
        "signed by key {}, which was not trusted when the quorum had cosigned, {spelled}",
        ids.join(" and ")
    );
    report.failed("dates", detail.clone());
    report.findings.push(Finding::new(FindingKind::CheckpointSignature, detail));
    false
}

fn quorum(report: &mut Report, policy: &Policy, met: bool) {
    if policy.quorum_is_none() {
        report.skipped("quorum", "the policy asks for no witness; nobody else vouches for this history");
        return;
    }
    let name = policy.quorum_name().to_string();
    let valid = report.cosignatures.iter().filter(|line| line.status == CosignatureStatus::Valid).count();
    report.quorum = Some(Quorum { name: name.clone(), met });
    if met {
        let detail = format!(
            "quorum {name} is met by {}: what these witnesses cosigned before is still in the log",
            amount(valid, "valid cosignature")
        );
        report.passed("quorum", detail);
    } else {
        let detail = format!("quorum {name} is not met by {}", amount(valid, "valid cosignature"));
        report.failed("quorum", detail.clone());
        report.findings.push(Finding::new(FindingKind::QuorumNotMet, detail));
    }
}

/// What a check knows of the log from before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// An audit that keeps no history.
    None,
    /// The first audit that is kept.
    Starts,
    /// Audits since the log had this size, at this time in POSIX seconds.
    Since {
        /// Entries.
        size: u64,
        /// When.
        seen: u64,
    },
    /// An export without a checkpoint from elsewhere.
    OfAnExport,
    /// A proof, which says nothing of deletion.
    OfAProof,
}

/// Says what a policy without witnesses leaves open. With a quorum, whoever deletes what was witnessed gets no
/// cosignatures, and everybody who asks for the same quorum is shown the same history.
pub fn unwitnessed(report: &mut Report, memory: Memory) {
    if report.quorum.is_some() {
        return;
    }
    let deletion = match memory {
        Memory::None => Some(
            "no witness vouches for this log (quorum none), and without --history nothing is remembered of it: \
             entries may have been removed before this audit"
                .to_owned(),
        ),
        Memory::Starts => Some(
            "no witness vouches for this log (quorum none), and this is its first audit with this history: \
             entries may have been removed before it"
                .to_owned(),
        ),
        Memory::Since { size, seen } => Some(format!(
            "no witness vouches for this log (quorum none): that nothing was removed is known only since it \
             was first audited, at size {size} on {}",
            clock::spell(seen)
        )),
        Memory::OfAnExport => Some(
            "no witness (quorum none) and no checkpoint from elsewhere (--checkpoint) vouches for this log: \
             entries may have been removed before it was exported"
                .to_owned(),
        ),
        Memory::OfAProof => None,
    };
    if let Some(why) = deletion {
        report.not_checked.push(NotChecked::out_of_scope("deletion by the operator", why));
    }
    let why = "no witness vouches that the operator shows everybody this log (quorum none)";
    report.not_checked.push(NotChecked::out_of_scope("other views of the log", why));
}

/// Holds the newest cosignature against the clock. `grown` is when our own clock last saw the log grow.
pub fn age(report: &mut Report, signed: &Signed, age: Age, grown: Option<u64>) {
    let growth = grown.map_or(String::new(), |grown| {
        format!("; by this machine's clock the log last grew {}", clock::spell(grown))
    });
    let Some(newest) = signed.newest_time else {
        if age.max.is_some() {
            let why = format!("no valid cosignature tells when it was witnessed{growth}");
            report.not_checked.push(NotChecked::gap("age of the checkpoint", why));
        }
        return;
    };
    let witnessed = format!("newest cosignature {}", clock::spell(newest));
    if newest > age.now.saturating_add(CLOCK_TOLERANCE.as_secs()) {
        let why = format!("{witnessed} is ahead of this machine's clock, {}", clock::spell(age.now));
        let what = "age of the checkpoint";
        report.not_checked.push(match age.max {
            Some(_) => NotChecked::gap(what, why),
            None => NotChecked::out_of_scope(what, why),
        });
        return;
    }
    let old = Duration::from_secs(age.now.saturating_sub(newest));
    let spelled = humantime::format_duration(old);
    match age.max {
        Some(max) if old > max => {
            let detail = format!(
                "{witnessed}, {spelled} ago; at most {} is allowed{growth}",
                humantime::format_duration(max)
            );
            report.failed("age", detail.clone());
            report.findings.push(Finding::new(FindingKind::Stale, detail));
        }
        Some(_) => report.passed("age", format!("{witnessed}, {spelled} ago{growth}")),
        None => report.skipped("age", format!("{witnessed}, {spelled} ago{growth}; no --max-age was given")),
    }
}

fn malformed(report: &mut Report, reason: &str) -> Option<Signed> {
    let detail = format!("the checkpoint cannot be read: {reason}");
    report.failed("log-signature", detail.clone());
    report.findings.push(Finding::new(FindingKind::Malformed, detail));
    None
}

fn refused(report: &mut Report, detail: String) -> Option<Signed> {
    report.failed("log-signature", detail.clone());
    report.findings.push(Finding::new(FindingKind::CheckpointSignature, detail));
    None
}

fn cosignature(line: &policy::Cosignature) -> Cosignature {
    let status = match line.status {
        policy::CosignatureStatus::Valid => CosignatureStatus::Valid,
        policy::CosignatureStatus::Invalid => CosignatureStatus::Invalid,
        policy::CosignatureStatus::Unknown => CosignatureStatus::Unknown,
    };
    Cosignature { witness: line.name.to_string(), time: line.time, status }
}

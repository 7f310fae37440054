//! Reports: what was verified, what was found, what was not checked and why, and whether the input was
//! complete. One JSON form for every command, and one rule for the verdict.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::finding::{Class, Finding};

/// The report version this build writes and reads.
pub const REPORT_VERSION: u64 = 1;

/// The outcome of one command.
///
/// The verdict is not kept but follows from the contents, see [`Report::verdict`]. A report that is read back
/// is refused where its stated verdict does not follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What was run.
    pub command: Command,
    /// What was looked at.
    pub scope: Scope,
    /// The log as its checkpoint states it, once one was read.
    pub log: Option<LogState>,
    /// The log as remembered before.
    pub previous: Option<TreeState>,
    /// The quorum of the policy, where it has one.
    pub quorum: Option<Quorum>,
    /// The cosignatures on the checkpoint.
    pub cosignatures: Vec<Cosignature>,
    /// What was checked, in order.
    pub checks: Vec<Check>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What was not checked.
    pub not_checked: Vec<NotChecked>,
    /// How much was newly checked.
    pub counts: Counts,
}

/// The command a report is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// A log, and its records where they can be had.
    Audit,
    /// An export file.
    Export,
    /// A proof file.
    Proof,
    /// What the witnesses of a policy say of a log.
    Witnesses,
    /// A fraud proof.
    Fraud,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// The log alone.
    #[serde(rename = "log")]
    Log,
    /// The log, and the records of its runs.
    #[serde(rename = "log+records")]
    LogAndRecords,
    /// A complete export.
    #[serde(rename = "export")]
    Export,
    /// An export of chosen runs.
    #[serde(rename = "export-partial")]
    ExportPartial,
    /// One proof.
    #[serde(rename = "proof")]
    Proof,
    /// Two signed checkpoints that contradict each other.
    #[serde(rename = "fraud-proof")]
    FraudProof,
}

/// What a report comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Everything in scope was checked and holds.
    Verified,
    /// Something was found.
    Tampered,
    /// Nothing was found, but not everything in scope could be checked.
    Incomplete,
}

impl Verdict {
    /// The exit code of a command with this verdict: 0, 1 or 3.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Verified => 0,
            Self::Tampered => 1,
            Self::Incomplete => 3,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A log at a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogState {
    /// The log's origin.
    pub origin: String,
    /// How many entries it has.
    pub size: u64,
    /// Its root hash in base64.
    pub root: String,
    /// The signed checkpoint, whole.
    pub checkpoint: String,
}

/// A tree of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeState {
    /// How many entries it has.
    pub size: u64,
    /// Its root hash in base64.
    pub root: String,
}

/// Whether a policy's quorum is met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quorum {
    /// The witness or group the policy names.
    pub name: String,
    /// Whether the checkpoint's cosignatures meet it.
    pub met: bool,
}

/// One cosignature line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cosignature {
    /// The name on the line.
    pub witness: String,
    /// When it was made, in POSIX seconds; null where the line does not say so.
    #[serde(deserialize_with = "Option::deserialize")]
    pub time: Option<u64>,
    /// Whether it counts.
    pub status: CosignatureStatus,
}

/// Whether a cosignature counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CosignatureStatus {
    /// It verifies under a key of the policy.
    Valid,
    /// It names a key of the policy and does not verify.
    Invalid,
    /// The policy does not know its key.
    Unknown,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Its name, for scripts.
    pub check: String,
    /// How it went.
    pub status: CheckStatus,
    /// What it covered, for people.
    pub detail: String,
}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckStatus {
    /// It holds.
    Passed,
    /// It does not hold, or could not be finished.
    Failed,
    /// It was not made.
    Skipped,
}

/// Something that was not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotChecked {
    /// What.
    pub what: String,
    /// Why not.
    pub why: String,
    /// Whether it belongs to the report's scope. A report with a gap in its scope is incomplete.
    pub is_gap: bool,
}

impl NotChecked {
    /// Something that belongs to the scope and could not be checked.
    pub fn gap(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), is_gap: true }
    }

    /// Something that lies outside the scope, said aloud so that nobody takes it for checked.
    pub fn out_of_scope(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), is_gap: false }
    }
}

/// How much was newly checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Log entries.
    pub entries: u64,
    /// Runs.
    pub runs: u64,
    /// Records.
    pub records: u64,
    /// Bytes read.
    pub bytes: u64,
}

impl Report {
    /// An empty report. Its verdict is incomplete: nothing was checked.
    pub fn new(command: Command, scope: Scope) -> Self {
        Self {
            command,
            scope,
            log: None,
            previous: None,
            quorum: None,
            cosignatures: Vec::new(),
            checks: Vec::new(),
            findings: Vec::new(),
            not_checked: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Notes a check that holds.
    pub fn passed(&mut self, check: impl Into<String>, detail: impl Into<String>) {
        self.check(check, CheckStatus::Passed, detail);
    }

    /// Notes a check that does not hold or could not be finished.
    pub fn failed(&mut self, check: impl Into<String>, detail: impl Into<String>) {
        self.check(check, CheckStatus::Failed, detail);
    }

    /// Notes a check that was not made.
    pub fn skipped(&mut self, check: impl Into<String>, detail: impl Into<String>) {
        self.check(check, CheckStatus::Skipped, detail);
    }

    fn check(&mut self, check: impl Into<String>, status: CheckStatus, detail: impl Into<String>) {
        self.checks.push(Check { check: check.into(), status, detail: detail.into() });
    }

    /// What the report comes to.
    ///
    /// Any finding: tampered. Else a gap in the scope, a failed check, or no check that passed: incomplete.
    /// Else verified.
    pub fn verdict(&self) -> Verdict {
        let any_check = |status| self.checks.iter().any(|check| check.status == status);
        let gap = self.not_checked.iter().any(|not_checked| not_checked.is_gap);
        if !self.findings.is_empty() {
            Verdict::Tampered
        } else if gap || any_check(CheckStatus::Failed) || !any_check(CheckStatus::Passed) {
            Verdict::Incomplete
        } else {
            Verdict::Verified
        }
    }
}

impl Report {
    /// What the findings and gaps are signs of, each class once, the gravest first. Empty when verified.
    pub fn classes(&self) -> Vec<Class> {
        let mut classes: Vec<Class> = self.findings.iter().map(|finding| finding.kind.class()).collect();
        if self.verdict() == Verdict::Incomplete
            || self.not_checked.iter().any(|not_checked| not_checked.is_gap)
        {
            classes.push(Class::NotChecked);
        }
        classes.sort_unstable();
        classes.dedup();
        classes
    }
}

/// The JSON form, members in the documented order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportText {
    report: u64,
    command: Command,
    scope: Scope,
    verdict: Verdict,
    #[serde(deserialize_with = "Option::deserialize")]
    log: Option<LogState>,
    #[serde(deserialize_with = "Option::deserialize")]
    previous: Option<TreeState>,
    #[serde(deserialize_with = "Option::deserialize")]
    quorum: Option<Quorum>,
    cosignatures: Vec<Cosignature>,
    checks: Vec<Check>,
    findings: Vec<Finding>,
    not_checked: Vec<NotCheckedText>,
    counts: Counts,
    /// Follows from the rest, so what is read back is not kept.
    #[serde(default)]
    classes: Vec<Class>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotCheckedText {
    what: String,
    why: String,
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (verdict, classes) = (self.verdict(), self.classes());
        let Self {
            command,
            scope,
            log,
            previous,
            quorum,
            cosignatures,
            checks,
            findings,
            not_checked,
            counts,
        } = self.clone();
        let not_checked = not_checked
            .into_iter()
            .map(|NotChecked { what, why, .. }| NotCheckedText { what, why })
            .collect();
        ReportText {
            report: REPORT_VERSION,
            command,
            scope,
            verdict,
            log,
            previous,
            quorum,
            cosignatures,
            checks,
            findings,
            not_checked,
            counts,
            classes,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Report {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ReportText::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}

/// Why a JSON report is refused although it has the right members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A version this build does not read.
    #[error("the report has version {found}; this build reads version {REPORT_VERSION}")]
    UnsupportedVersion {
        /// The version.
        found: u64,
    },
    /// The verdict does not follow from the rest.
    #[error("the report says {stated} where its contents come to {actual}")]
    Contradiction {
        /// The verdict it states.
        stated: Verdict,
        /// The verdict that follows.
        actual: Verdict,
    },
}

impl TryFrom<ReportText> for Report {
    type Error = ReportError;

    fn try_from(text: ReportText) -> Result<Self, ReportError> {
        if text.report != REPORT_VERSION {
            return Err(ReportError::UnsupportedVersion { found: text.report });
        }
        // The JSON form does not say which omissions are gaps; the verdict does: only an incomplete report may
        // have one.
        let is_gap = text.verdict == Verdict::Incomplete;
        let report = Self {
            command: text.command,
            scope: text.scope,
            log: text.log,
            previous: text.previous,
            quorum: text.quorum,
            cosignatures: text.cosignatures,
            checks: text.checks,
            findings: text.findings,
            not_checked: text
                .not_checked
                .into_iter()
                .map(|NotCheckedText { what, why }| NotChecked { what, why, is_gap })
                .collect(),
            counts: text.counts,
        };
        let (stated, actual) = (text.verdict, report.verdict());
        if stated == actual { Ok(report) } else { Err(ReportError::Contradiction { stated, actual }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{finding::FindingKind, name::RunId};

    fn report() -> Report {
        let mut report = Report::new(Command::Audit, Scope::LogAndRecords);
        report.log = Some(LogState {
            origin: "example.com/plane".to_owned(),
            size: 7,
            root: "cm9vdA==".to_owned(),
            checkpoint: "example.com/plane\n7\n".to_owned(),
        });
        report.previous = Some(TreeState { size: 3, root: "b2xk".to_owned() });
        report.quorum = Some(Quorum { name: "two".to_owned(), met: true });
        report.cosignatures.push(Cosignature {
            witness: "witness.example".to_owned(),
            time: Some(1_796_053_879),
            status: CosignatureStatus::Valid,
        });
        report.passed("consistency", "3 to 7");
        report.counts = Counts { entries: 4, runs: 2, records: 20, bytes: 4096 };
        report
    }

    #[test]
    fn the_json_form_has_the_documented_members_in_order() {
        let mut report = report();
        report.findings.push(Finding::new(FindingKind::RunDeleted, "gone").in_run(&RunId::new("r").unwrap()));
        report.not_checked.push(NotChecked::gap("run x", "timed out"));
        let expected = concat!(
            r#"{"report":1,"command":"audit","scope":"log+records","verdict":"tampered","#,
            r#""log":{"origin":"example.com/plane","size":7,"root":"cm9vdA==","checkpoint":"example.com/plane\n7\n"},"#,
            r#""previous":{"size":3,"root":"b2xk"},"quorum":{"name":"two","met":true},"#,
            r#""cosignatures":[{"witness":"witness.example","time":1796053879,"status":"valid"}],"#,
            r#""checks":[{"check":"consistency","status":"passed","detail":"3 to 7"}],"#,
            r#""findings":[{"kind":"run-deleted","run":"r","detail":"gone"}],"#,
            r#""not_checked":[{"what":"run x","why":"timed out"}],"#,
            r#""counts":{"entries":4,"runs":2,"records":20,"bytes":4096},"#,
            r#""classes":["tampering","not-checked"]}"#
        );
        assert_eq!(serde_json::to_string(&report).unwrap(), expected);
        let empty = serde_json::to_string(&Report::new(Command::Proof, Scope::Proof)).unwrap();
        assert_eq!(
            empty,
            concat!(
                r#"{"report":1,"command":"proof","scope":"proof","verdict":"incomplete","log":null,"previous":null,"#,
                r#""quorum":null,"cosignatures":[],"checks":[],"findings":[],"not_checked":[],"#,
                r#""counts":{"entries":0,"runs":0,"records":0,"bytes":0},"classes":["not-checked"]}"#
            )
        );
    }

    #[test]
    fn the_verdict_follows_from_the_contents() {
        assert_eq!(Report::new(Command::Audit, Scope::Log).verdict(), Verdict::Incomplete);
        let mut report = report();
        assert_eq!(report.verdict(), Verdict::Verified);
        report.skipped("records", "no source given");
        report.not_checked.push(NotChecked::out_of_scope("records", "no source given"));
        assert_eq!(report.verdict(), Verdict::Verified);
        let with = |change: fn(&mut Report)| {
            let mut report = report.clone();
            change(&mut report);
            report.verdict()
        };
        assert_eq!(with(|report| report.failed("tiles", "timed out")), Verdict::Incomplete);
        assert_eq!(
            with(|report| report.not_checked.push(NotChecked::gap("run x", "refused"))),
            Verdict::Incomplete
        );
        assert_eq!(
            with(|report| {
                report.not_checked.push(NotChecked::gap("run x", "refused"));
                report.findings.push(Finding::new(FindingKind::Fork, "two roots"));
            }),
            Verdict::Tampered
        );
    }

    #[test]
    fn verdicts_have_exit_codes() {
        assert_eq!(
            [Verdict::Verified, Verdict::Tampered, Verdict::Incomplete].map(Verdict::exit_code),
            [0, 1, 3]
        );
        assert_eq!(Verdict::Tampered.to_string(), "tampered");
    }

    #[test]
    fn a_report_reads_back() {
        let verified = report();
        let mut incomplete = report();
        incomplete.not_checked.push(NotChecked::gap("run x", "refused"));
        let mut tampered = report();
        tampered.findings.push(Finding::new(FindingKind::Stale, "old"));
        for report in [verified, incomplete, tampered, Report::new(Command::Witnesses, Scope::Log)] {
            let json = serde_json::to_string(&report).unwrap();
            assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
        }
    }

    #[test]
    fn a_report_that_contradicts_itself_is_refused() {
        let json = serde_json::to_string(&report()).unwrap();
        for bad in [
            json.replace("\"verified\"", "\"tampered\""),
            json.replace("\"findings\":[]", r#""findings":[{"kind":"fork","detail":""}]"#),
            json.replace("\"passed\"", "\"failed\""),
            json.replace("\"report\":1", "\"report\":2"),
            json.replace("\"report\":1", "\"report\":1,\"extra\":0"),
            json.replace("\"quorum\":{\"name\":\"two\",\"met\":true},", ""),
            json.replace("\"log+records\"", "\"everything\""),
        ] {
            assert_ne!(bad, json);
            assert!(serde_json::from_str::<Report>(&bad).is_err(), "{bad}");
        }
    }
}

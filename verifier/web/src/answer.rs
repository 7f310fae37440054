//! What the page is told: the report exactly as the command writes it, and beside it what the page shows.

use runseal_evidence::report::{Report, Verdict};
use runseal_verifier::report_html;
use runseal_verifier::report_text::{harmless, headline};
use runseal_verifier::timeline;
use serde::Serialize;
use serde_json::Value;

use crate::question::Refusal;

/// How a verdict looks. Only a verdict without findings and gaps is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tone {
    /// Everything in scope was checked and holds.
    Good,
    /// Something was found.
    Bad,
    /// Nothing is known, or not everything.
    Open,
}

/// An answer to a question, as JSON for the page.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// One word for it.
    pub word: &'static str,
    /// A sentence for people who read no further.
    pub sentence: String,
    /// How it looks.
    pub tone: Tone,
    /// The command's exit code.
    pub exit: u8,
    /// The report, where there is one.
    pub report: Option<Shown>,
}

/// A report in three forms.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// As the command writes it with `--json`, without the last line feed.
    pub json: String,
    /// As the command writes it with `--html`.
    pub html: String,
    /// The JSON's members, every text in them made harmless to look at.
    pub members: Value,
    /// For each item not checked, whether it belongs to the scope.
    pub in_scope: Vec<bool>,
}

impl Answer {
    /// Words what a question came to. `now` is the time, POSIX seconds, for the page that the report can be saved as.
    ///
    /// # Errors
    /// Where the report does not serialise.
    pub fn new(judged: &Result<Report, Refusal>, now: u64) -> Result<Self, serde_json::Error> {
        let report = match judged {
            Ok(report) => report,
            Err(refusal) => {
                let word = match refusal {
                    Refusal::NoFraud { .. } => "PROVES NOTHING",
                    _ => "NOT CHECKED",
                };
                let (sentence, exit) = (harmless(&refusal.to_string()), refusal.exit_code());
                return Ok(Self { word, sentence, tone: Tone::Open, exit, report: None });
            }
        };
        let (word, sentence) = headline(report);
        let tone = match report.verdict() {
            Verdict::Verified => Tone::Good,
            Verdict::Tampered => Tone::Bad,
            Verdict::Incomplete => Tone::Open,
        };
        let shown = Shown {
            json: serde_json::to_string(report)?,
            html: report_html::render(report, &timeline::of_report(report, now), now),
            members: without_tricks(serde_json::to_value(report)?),
            in_scope: report.not_checked.iter().map(|item| item.is_gap).collect(),
        };
        let (sentence, exit) = (sentence.to_owned(), report.verdict().exit_code());
        Ok(Self { word, sentence, tone, exit, report: Some(shown) })
    }
}

/// Lines of a note stay lines; all else that a reader could be misled by is spelled out.
fn without_tricks(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.split('\n').map(harmless).collect::<Vec<_>>().join("\n")),
        Value::Array(items) => Value::Array(items.into_iter().map(without_tricks).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, value)| (name, without_tricks(value))).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runseal_evidence::finding::{Finding, FindingKind};
    use runseal_evidence::report::{Command, NotChecked, Scope};

    fn tone(report: Report) -> (Tone, u8) {
        let answer = Answer::new(&Ok(report), 0).unwrap();
        (answer.tone, answer.exit)
    }

    #[test]
    fn only_a_report_without_findings_and_gaps_looks_good() {
        let mut report = Report::new(Command::Proof, Scope::Proof);
        assert_eq!(tone(report.clone()), (Tone::Open, 3), "nothing was checked");
        report.passed("inclusion", "it is there");
        assert_eq!(tone(report.clone()), (Tone::Good, 0));
        let mut gap = report.clone();
        gap.not_checked.push(NotChecked::gap("the rest", "it is cut short"));
        assert_eq!(tone(gap), (Tone::Open, 3));
        report.findings.push(Finding::new(FindingKind::Stale, "old"));
        assert_eq!(tone(report), (Tone::Bad, 1));
        let refused = Answer::new(&Err(Refusal::Unknown { name: "\u{202e}x".to_owned() }), 0).unwrap();
        assert_eq!((refused.tone, refused.exit, refused.report.is_none()), (Tone::Open, 2, true));
        assert!(refused.sentence.starts_with("\\u{202e}x is neither"), "{}", refused.sentence);
    }

    #[test]
    fn what_is_shown_hides_nothing_and_the_json_changes_nothing() {
        let mut report = Report::new(Command::Proof, Scope::Proof);
        report.skipped("entry", "\u{202e}gnp.exe\nnext <b>");
        let shown = Answer::new(&Ok(report.clone()), 0).unwrap().report.unwrap();
        assert_eq!(shown.members["checks"][0]["detail"], "\\u{202e}gnp.exe\nnext <b>");
        assert_eq!(shown.json, serde_json::to_string(&report).unwrap());
    }
}

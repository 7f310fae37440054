//! Reports for people at a terminal: the verdict, then what was found, then what was not checked.

use std::fmt::Write as _;

use runseal_evidence::amount::amount;
use runseal_evidence::finding::Class;
use runseal_evidence::report::{CheckStatus, CosignatureStatus, Counts, Report, Scope, Verdict};

use crate::clock;

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// For a terminal.
    On,
    /// For anything else.
    Off,
}

/// Findings and gaps printed; the JSON report has them all.
const PRINTED_MAX: usize = 50;

impl Colour {
    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::On => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::Off => text.to_owned(),
        }
    }
}

/// Writes a report. Everything in it that came from elsewhere is made harmless for a terminal.
pub fn render(report: &Report, colour: Colour) -> String {
    let mut out = String::new();
    let (word, _) = headline(report);
    let code = match report.verdict() {
        Verdict::Verified => "1;32",
        Verdict::Tampered => "1;31",
        Verdict::Incomplete => "1;33",
    };
    let _ = write!(out, "{}", colour.paint(code, word));
    let _ = match &report.log {
        Some(log) => {
            writeln!(out, "  {} at size {} ({})", harmless(&log.origin), log.size, scope(report.scope))
        }
        None => writeln!(out, "  {}", scope(report.scope)),
    };
    if !report.findings.is_empty() {
        let _ = writeln!(out, "\nFound ({}):", report.findings.len());
    }
    for finding in report.findings.iter().take(PRINTED_MAX) {
        let mut place = finding.run.as_ref().map_or(String::new(), |run| format!(" run {run}"));
        if let Some(index) = finding.index {
            let _ = write!(place, " entry {index}");
        }
        if let Some(seq) = finding.seq {
            let _ = write!(place, " record {seq}");
        }
        let kind = colour.paint("31", &finding.kind.to_string());
        let _ = writeln!(out, "  {kind}{place}: {}", harmless(&finding.detail));
    }
    more(&mut out, report.findings.len());
    if !report.not_checked.is_empty() {
        let _ = writeln!(out, "\nNot checked:");
    }
    for gap in report.not_checked.iter().take(PRINTED_MAX) {
        let what = harmless(&gap.what);
        let what = if gap.is_gap { colour.paint("33", &what) } else { what };
        let _ = writeln!(out, "  {what}: {}", harmless(&gap.why));
    }
    more(&mut out, report.not_checked.len());
    let _ = writeln!(out, "\nChecks:");
    for check in &report.checks {
        let mark = match check.status {
            CheckStatus::Passed => colour.paint("32", "ok  "),
            CheckStatus::Failed => colour.paint("31", "FAIL"),
            CheckStatus::Skipped => colour.paint("2", "-   "),
        };
        let _ = writeln!(out, "  {mark} {}: {}", harmless(&check.check), harmless(&check.detail));
    }
    for line in &report.cosignatures {
        let (mark, word) = match line.status {
            CosignatureStatus::Valid => (colour.paint("32", "ok  "), "valid"),
            CosignatureStatus::Invalid => (colour.paint("31", "FAIL"), "invalid"),
            CosignatureStatus::Unknown => (colour.paint("2", "-   "), "unknown witness"),
        };
        let time = line.time.map_or(String::new(), |time| format!(", {}", clock::spell(time)));
        let _ = writeln!(out, "  {mark} cosignature of {}: {word}{time}", harmless(&line.witness));
    }
    let _ = writeln!(out, "\nNewly checked: {}", newly_checked(report));
    out
}

/// What a report counts, in words.
pub(crate) fn newly_checked(report: &Report) -> String {
    let Counts { entries, runs, records, bytes } = report.counts;
    format!(
        "{}, {}, {}; {} read",
        amount(entries, "entry"),
        amount(runs, "run"),
        amount(records, "record"),
        amount(bytes, "byte")
    )
}

/// One word for the gravest thing in a report, and a sentence for people who read no further.
pub fn headline(report: &Report) -> (&'static str, &'static str) {
    match report.classes().first() {
        None => ("VERIFIED", "Everything in scope was checked and holds."),
        Some(Class::Tampering) => ("TAMPERED", "History was changed, or contradicts itself."),
        Some(Class::Untrusted) => (
            "NOT TRUSTED",
            "The signatures are not those that the policy asks for: forged, or the policy is wrong.",
        ),
        Some(Class::Stale) => ("STALE", "What is shown is older than allowed."),
        Some(Class::Malformed) => ("MALFORMED", "What is shown cannot be read as what it claims to be."),
        Some(Class::NotChecked) => {
            ("INCOMPLETE", "Nothing was found, but not everything in scope could be checked.")
        }
    }
}

fn more(out: &mut String, total: usize) {
    if total > PRINTED_MAX {
        let _ = writeln!(out, "  … and {} more (see --json)", total - PRINTED_MAX);
    }
}

const fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Log => "the log alone, not the records",
        Scope::LogAndRecords => "the log and its records",
        Scope::Export => "a complete export",
        Scope::ExportPartial => "an export of chosen runs",
        Scope::Proof => "one proof",
        Scope::FraudProof => "two signed checkpoints",
    }
}

/// Text without anything that a terminal would act on: control, format and direction characters.
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let hidden = c.is_control()
            || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
        if hidden {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_spelled_out() {
        assert_eq!(harmless("ok \x1b[31m\u{202e}x\r\n"), "ok \\u{1b}[31m\\u{202e}x\\u{d}\\u{a}");
        assert_eq!(harmless("Zürich ✓ 東京"), "Zürich ✓ 東京");
    }
}

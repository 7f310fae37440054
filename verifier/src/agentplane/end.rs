//! What such an export comes to once all of it is read.

use std::collections::BTreeMap;

use runseal_evidence::amount::amount;
use runseal_evidence::finding::FindingKind;
use runseal_evidence::report::{Command, NotChecked, Report, Scope};
use runseal_tlog::hash::LeafHash;
use runseal_tlog::tree::root_of;
use serde_json::Value;

use super::Check;
use crate::checkpoint;
use crate::lines::LineReader;
use crate::trust::Trust;

impl Check {
    pub(super) fn finish(&mut self, lines: &LineReader<'_>, trust: &Trust, outside: Option<&[u8]>) {
        let runs = self.seen.len() as u64;
        self.report.counts.entries = self.leaves.len() as u64;
        self.report.counts.runs = runs;
        self.report.counts.records = self.records;
        self.report.counts.bytes = lines.bytes;
        if lines.too_long {
            self.found(FindingKind::Malformed, format!("line {} is too long", lines.number + 1));
        }
        let end = self.end.take().filter(|_| !lines.cut);
        if let Some(end) = &end {
            self.ended(end, runs);
        } else {
            let why = format!("it is cut short after line {}: there is no end line", lines.number);
            self.report.failed("end", why.clone());
            self.gap("the rest of the export", &why);
        }
        let rebuilt = end.is_some().then(|| self.rebuild()).flatten();
        self.anchor(rebuilt.as_deref(), trust, outside);
        if self.report.findings.is_empty() && end.is_some() {
            let detail = format!(
                "{} of {}, with the chains stated for them",
                amount(self.records, "record"),
                amount(runs, "run")
            );
            self.report.passed("records", detail);
        }
        // Without any case line the plane has no cases to export; that is a state, not an omission.
        if end.is_some() && !self.cases.is_empty() {
            let missing: Vec<String> = self.named_cases.difference(&self.cases).take(100).cloned().collect();
            for case in missing {
                let detail = format!("case {case} is named by a record and not exported");
                self.found(FindingKind::ExportIncomplete, detail);
            }
        }
        let mut asides = Vec::new();
        if self.open > 0 {
            asides.push((
                format!("the ends of {}", amount(self.open, "open run")),
                "nothing pins the end of an open run".to_owned(),
            ));
        }
        if self.signed > 0 {
            let why = "keys of that program are not read here".to_owned();
            asides.push((format!("the signatures of {}", amount(self.signed, "record")), why));
        }
        for strange in std::mem::take(&mut self.strange) {
            asides.push((strange, "it is not known to this build".to_owned()));
        }
        for (what, why) in asides {
            self.report.not_checked.push(NotChecked::out_of_scope(what, why));
        }
    }

    fn ended(&mut self, end: &Value, runs: u64) {
        let unreadable: BTreeMap<&str, &str> = end["unreadable"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|run| {
                Some((run["run"].as_str()?, run["reason"].as_str().unwrap_or("no reason given")))
            })
            .collect();
        for run in std::mem::take(&mut self.empty) {
            match unreadable.get(run.as_str()) {
                Some(reason) => {
                    self.gap(&format!("run {run}"), &format!("the plane could not read it: {reason}"));
                }
                None => self.found(FindingKind::RunDeleted, format!("run {run}: its block holds no record")),
            }
        }
        for (run, reason) in unreadable.iter().filter(|(run, _)| !self.seen.contains(**run)) {
            self.report.not_checked.push(NotChecked::gap(
                format!("run {run}"),
                format!("the plane could not read it: {reason}"),
            ));
        }
        let counted = [
            ("runs_requested", runs),
            ("runs_exported", self.with_records),
            ("records", self.records),
            ("cases", self.cases.len() as u64),
        ];
        let mut agree = true;
        for (member, found) in counted {
            let stated = &end[member];
            // A run may be declared unreadable without a block of its own.
            let honest = stated.as_u64() == Some(found)
                || member == "runs_requested"
                    && stated
                        .as_u64()
                        .is_some_and(|stated| stated >= found && stated <= found + unreadable.len() as u64);
            if !honest {
                agree = false;
                self.found(
                    FindingKind::ExportIncomplete,
                    format!("the end line states {member} {stated}, the file holds {found}"),
                );
            }
        }
        if agree {
            self.report.passed("end", "the end line's counts are those of the file");
        } else {
            self.report.failed("end", "the end line's counts are not those of the file");
        }
    }

    /// The leaves in order, if they rebuild the header's root.
    fn rebuild(&mut self) -> Option<Vec<LeafHash>> {
        let root = self.root?;
        let count = self.leaves.len() as u64;
        if count != self.size {
            let detail = format!(
                "the checkpoint is of {}, the export places {count}",
                amount(self.size, "sealed run")
            );
            self.report.failed("root", detail.clone());
            self.found(FindingKind::ExportIncomplete, detail);
            return None;
        }
        if let Some((gap, _)) = (0..).zip(self.leaves.keys()).find(|(expected, index)| expected != *index) {
            self.report.failed("root", "the positions are not those of the log");
            self.found(FindingKind::ExportIncomplete, format!("no run stands at position {gap}"));
            return None;
        }
        let leaves: Vec<LeafHash> = self.leaves.values().map(|(_, leaf)| *leaf).collect();
        let rebuilt = root_of(&leaves);
        if rebuilt != root {
            let detail = format!("the runs rebuild root {rebuilt}, not the header's {root}");
            self.report.failed("root", detail.clone());
            self.found(FindingKind::ExportIncomplete, detail);
            return None;
        }
        self.report.passed("root", format!("{} give the root in the header", amount(count, "sealed run")));
        Some(leaves)
    }

    /// Holds the file against a signed checkpoint from elsewhere: its own is nobody's word.
    fn anchor(&mut self, leaves: Option<&[LeafHash]>, trust: &Trust, outside: Option<&[u8]>) {
        let Some(bytes) = outside else {
            let why =
                "the file's own checkpoint is unsigned; give a signed one from elsewhere with --checkpoint";
            self.report.skipped("deletion", why);
            return self.gap("whether runs were deleted", why);
        };
        let mut own = Report::new(Command::Export, Scope::Export);
        let origin = self.origin.clone();
        let Some(signed) = checkpoint::examine(&mut own, trust, &origin, bytes) else {
            let why = own.findings.first().map_or("it is refused", |finding| &finding.detail).to_owned();
            return self.gap("whether runs were deleted", &format!("the checkpoint from elsewhere: {why}"));
        };
        self.report.cosignatures = own.cosignatures;
        self.report.quorum = own.quorum;
        self.report.findings.append(&mut own.findings);
        let (size, root) = (signed.checkpoint.size(), *signed.checkpoint.root());
        let Some(leaves) = leaves else {
            return self.gap("whether runs were deleted", "the file does not give a tree to compare");
        };
        let prefix = usize::try_from(size).ok().and_then(|size| leaves.get(..size));
        let Some(prefix) = prefix else {
            let why = format!("the checkpoint from elsewhere, of size {size}, is newer than the export");
            return self.gap("whether runs were deleted", &why);
        };
        let ours = root_of(prefix);
        if ours == root {
            self.report
                .passed("deletion", format!("the signed checkpoint of size {size} is of this history"));
        } else {
            let detail = format!(
                "the signed checkpoint of size {size} has root {root}, the export's runs give {ours}"
            );
            self.report.failed("deletion", detail.clone());
            self.found(FindingKind::Fork, detail);
        }
    }
}

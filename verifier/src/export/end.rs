//! What an export comes to once all of it is read.

use std::collections::HashSet;

use runseal_evidence::amount::amount;
use runseal_evidence::export::{ExportEnd, LINE_BYTES_MAX};
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::report::{NotChecked, Report};
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::hash::NodeHash;

use super::check::ExportCheck;
use crate::checkpoint::{self, Memory};
use crate::error::Failure;
use crate::lines::LineReader;
use crate::runs::{self, RunsStanding};
use crate::steps;

impl ExportCheck<'_> {
    pub(super) fn finish(mut self, lines: &LineReader<'_>) -> Result<Report, Failure> {
        self.report.counts.entries = self.entries;
        self.report.counts.bytes = lines.bytes;
        if lines.too_long {
            let detail = format!("line {} is longer than {LINE_BYTES_MAX} bytes", lines.number + 1);
            self.report.findings.push(Finding::new(FindingKind::Malformed, detail));
        }
        let end = self.end.take().filter(|_| !lines.cut);
        if let Some(end) = &end {
            self.ended(end);
        } else {
            self.blocks.abandon();
            let detail = format!("the export is cut short after line {}: it has no end line", lines.number);
            self.report.failed("end", detail.clone());
            self.report.not_checked.push(NotChecked::gap("the rest of the export", detail));
        }
        self.root(end.is_some());
        if let Some(end) = &end {
            self.completeness(end)?;
        }
        let blocks = self.blocks;
        self.report.counts.runs = blocks.runs;
        self.report.counts.records = blocks.records;
        let standing =
            match RunsStanding::of(!blocks.findings.is_empty(), !blocks.gaps.is_empty() || end.is_none()) {
                RunsStanding::Sound if self.signed.is_none() => RunsStanding::Unvouched,
                standing => standing,
            };
        self.report.findings.extend(blocks.findings);
        self.report.not_checked.extend(blocks.gaps);
        runs::close(&mut self.report, standing, blocks.unpinned, blocks.signed);
        steps::close(&mut self.report, self.steps, blocks.steps);
        if self.foreign > 0 {
            let what = format!("{} of other programs", amount(self.foreign, "entry"));
            self.report
                .not_checked
                .push(NotChecked::out_of_scope(what, "only entries of runs are understood"));
        }
        Ok(self.report)
    }

    /// Holds every count of the end line against the file.
    fn ended(&mut self, end: &ExportEnd) {
        let counted = [
            ("entries", end.entries, self.entries),
            ("runs", end.runs, self.blocks.runs),
            ("records", end.records, self.blocks.records),
        ];
        let mut agree = true;
        for (what, stated, found) in counted.into_iter().filter(|(_, stated, found)| stated != found) {
            agree = false;
            let detail = format!("the end line counts {stated} {what}, the file holds {found}");
            self.report.findings.push(Finding::new(FindingKind::ExportIncomplete, detail));
        }
        if agree {
            self.report.passed("end", "the end line's counts are those of the file");
        } else {
            self.report.failed("end", "the end line's counts are not those of the file");
        }
        for unreadable in &end.unreadable {
            let why = format!("the journal could not read it: {}", unreadable.reason);
            self.report.not_checked.push(NotChecked::gap(format!("run {}", unreadable.run), why));
        }
    }

    /// Holds the entries of a complete export against the signed root.
    fn root(&mut self, whole: bool) {
        if self.signed.is_none() {
            let detail = "no trusted signature vouches for a root to hold the entries against";
            self.report.skipped(if self.header.complete { "root" } else { "inclusion" }, detail);
        }
        if self.header.complete && whole && self.in_sequence {
            if let Some(signed) = &self.signed {
                let (size, root) = (signed.checkpoint.size(), *signed.checkpoint.root());
                let (entries, rebuilt) = (self.frontier.size(), self.frontier.root());
                if entries != size {
                    let detail =
                        format!("the checkpoint is of {}, the export holds {entries}", amount(size, "entry"));
                    self.report.failed("root", detail.clone());
                    self.report.findings.push(Finding::new(FindingKind::ExportIncomplete, detail));
                } else if rebuilt != root {
                    let detail = format!("the entries rebuild root {rebuilt}, not the signed {root}");
                    self.report.failed("root", detail.clone());
                    self.report.findings.push(Finding::new(FindingKind::ExportIncomplete, detail));
                } else {
                    self.report.passed("root", format!("{} give the signed root", amount(size, "entry")));
                }
            }
        } else if !self.header.complete && self.signed.is_some() && self.line_faults == 0 {
            let detail = format!("the signed tree is proven to hold {}", amount(self.entries, "entry"));
            self.report.passed("inclusion", detail);
        }
        if let Some((outside, prefix)) = self.outside.take() {
            self.against_outside(&outside, prefix, whole);
        } else if self.signed.is_some() {
            checkpoint::unwitnessed(&mut self.report, Memory::OfAnExport);
        }
        if !self.header.complete {
            let why = "a partial export speaks for the runs it holds";
            self.report.not_checked.push(NotChecked::out_of_scope("runs that were not exported", why));
        }
    }

    fn against_outside(&mut self, outside: &Checkpoint, prefix: Option<NodeHash>, whole: bool) {
        let Some(signed) = &self.signed else { return };
        let (size, root) = (signed.checkpoint.size(), signed.checkpoint.root());
        let ours = if outside.size() == size {
            Some(*root)
        } else if outside.size() == 0 {
            Some(NodeHash::EMPTY_ROOT)
        } else {
            prefix.filter(|_| self.in_sequence)
        };
        let Some(ours) = ours else {
            let why = if outside.size() > size {
                format!(
                    "it is of size {}, newer than the export's {size}; ask for a newer export",
                    outside.size()
                )
            } else if whole {
                "a partial export does not hold the entries that rebuild it".to_owned()
            } else {
                "the export is cut short before it".to_owned()
            };
            return self.report.not_checked.push(NotChecked::gap("the checkpoint from elsewhere", why));
        };
        if ours == *outside.root() {
            let detail =
                format!("the checkpoint from elsewhere, of size {}, is of the same history", outside.size());
            self.report.passed("outside-checkpoint", detail);
        } else {
            let detail = format!(
                "the checkpoint from elsewhere has root {} at size {}, this export's entries give {ours}",
                outside.root(),
                outside.size()
            );
            self.report.failed("outside-checkpoint", detail.clone());
            self.report.findings.push(Finding::new(FindingKind::Fork, detail));
        }
    }

    /// Names the runs that have an entry here but no block.
    fn completeness(&mut self, end: &ExportEnd) -> Result<(), Failure> {
        let unreadable: HashSet<&str> = end.unreadable.iter().map(|run| run.run.as_str()).collect();
        self.blocks.missing(self.log.as_ref(), &unreadable, |pinned| {
            let detail = "the log holds entries of this run, the export neither its records nor a reason";
            let finding = Finding::new(FindingKind::ExportIncomplete, detail).in_run(&pinned.run);
            match pinned.index() {
                Some(index) => finding.at_index(index),
                None => finding,
            }
        })?;
        Ok(())
    }
}

//! The run blocks of an export: what they come to, and which are missing.

use std::collections::HashSet;

use runseal_evidence::chain::Ahead;
use runseal_evidence::export::{ExportRun, RecordAccount};
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::{RunId, TenantId};
use runseal_evidence::report::NotChecked;

use super::run_judge::{JudgedRun, OpenRun, RunJudge};
use crate::history::HistoryError;
use crate::judge;
use crate::ledger::RunEntries;
use crate::runs::Pinned;
use crate::steps::Held;

/// Runs named that are missing; beyond that they are counted.
const MISSING_MAX: usize = 1_000;

/// Run blocks as they come by, and what they come to.
pub(super) struct RunBlocks<'k> {
    judge: &'k RunJudge<'k>,
    current: Option<OpenRun<'k>>,
    seen: Vec<u64>,
    /// Run lines.
    pub(super) runs: u64,
    /// Record lines.
    pub(super) records: u64,
    /// Open runs with records past their last entry.
    pub(super) unpinned: u64,
    /// Records signed by keys that were not given.
    pub(super) signed: u64,
    /// What conclusions and steps came to.
    pub(super) steps: Held,
    /// What was found.
    pub(super) findings: Vec<Finding>,
    /// What could not be checked.
    pub(super) gaps: Vec<NotChecked>,
}

impl<'k> RunBlocks<'k> {
    /// No runs yet.
    pub(super) fn new(judge: &'k RunJudge<'k>) -> Self {
        Self {
            judge,
            current: None,
            seen: Vec::new(),
            runs: 0,
            records: 0,
            unpinned: 0,
            signed: 0,
            steps: Held::default(),
            findings: Vec::new(),
            gaps: Vec::new(),
        }
    }

    /// Takes the line of a run, of which `entries` holds what the log says.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub(super) fn start(&mut self, line: &ExportRun, entries: &dyn RunEntries) -> Result<(), HistoryError> {
        self.close();
        self.runs += 1;
        self.current = Some(self.judge.open(line, entries)?);
        Ok(())
    }

    /// Takes a record with what its line says of it. `false` where it belongs to no run.
    pub(super) fn record(&mut self, raw: &[u8], line: &RecordAccount, ahead: Ahead) -> bool {
        if let Some(run) = &mut self.current {
            run.push(raw, line, ahead);
            return true;
        }
        self.records += 1;
        false
    }

    /// Takes a run block that was judged already.
    pub(super) fn judged(&mut self, run: &mut JudgedRun) {
        self.close();
        self.runs += 1;
        self.add(run);
    }

    /// Ends the run at hand: its last record was taken.
    pub(super) fn close(&mut self) {
        if let Some(mut run) = self.current.take() {
            self.add(&mut run.close());
        }
    }

    fn add(&mut self, run: &mut JudgedRun) {
        self.seen.push(run.hash);
        self.records += run.records;
        self.unpinned += u64::from(run.unpinned);
        self.signed += run.signed;
        self.steps.add(std::mem::take(&mut run.steps));
        self.findings.append(&mut run.findings);
        self.gaps.append(&mut run.gaps);
    }

    /// Gives up the run at hand: the file was cut inside it, which says nothing about the run.
    pub(super) fn abandon(&mut self) {
        if let Some(run) = self.current.take() {
            let gap =
                NotChecked::gap(format!("run {}", run.check.run()), "the export is cut short inside it");
            self.records += run.records;
            self.findings.extend(run.findings);
            self.gaps.extend(run.gaps);
            self.gaps.push(gap);
        }
    }

    /// Names the runs of the log that no block was about. `unreadable` ones are not checked, all others
    /// are findings of `kind`.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub(super) fn missing(
        &mut self,
        entries: &dyn RunEntries,
        unreadable: &HashSet<&str>,
        finding: impl Fn(&Pinned) -> Finding,
    ) -> Result<(), HistoryError> {
        self.seen.sort_unstable();
        if let Some(pair) = self.seen.windows(2).find(|pair| pair[0] == pair[1]) {
            let marks = entries.marks(pair[0])?;
            let entry = marks.first().map(|mark| entries.entry(mark.index())).transpose()?.flatten();
            let found = Finding::new(FindingKind::Malformed, "a run has more than one block");
            self.findings.push(match entry.and_then(|entry| judge::name_of(&entry)) {
                Some((_, run)) => found.in_run(&run),
                None => found,
            });
        }
        let mut named = 0;
        let mut seen = self.seen.iter().peekable();
        entries.for_each_run(&mut |hash, marks| {
            while seen.next_if(|seen| **seen < hash).is_some() {}
            if seen.peek() == Some(&&hash) || named > MISSING_MAX {
                return Ok(());
            }
            let mut names: Vec<(TenantId, RunId)> = Vec::new();
            for mark in marks {
                let entry = entries.entry(mark.index())?;
                match entry.and_then(|entry| judge::name_of(&entry)) {
                    Some(name) if !names.contains(&name) => names.push(name),
                    _ => {}
                }
            }
            for (tenant, run) in names.iter().filter(|(tenant, _)| *tenant == self.judge.tenant) {
                if unreadable.contains(run.as_str()) {
                    continue;
                }
                named += 1;
                let Some((pinned, _)) = entries.pinned(tenant, run, hash, None, self.judge.end)? else {
                    continue;
                };
                if pinned.is_empty() {
                    let why = "it entered the log after the export was taken";
                    self.gaps.push(NotChecked::gap(format!("run {run}"), why));
                } else {
                    self.findings.push(finding(&pinned));
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::io::Cursor;
    use std::ops::ControlFlow;
    use std::path::Path;

    use std::sync::Arc;

    use runseal_evidence::chain::ChainHash;

    use super::*;
    use crate::export::entries::{ExportEntries, Spill};
    use crate::export::lines::{self, Line};
    use crate::lines::{BLOCK_BYTES, LineReader};
    use crate::mark::{Mark, MarkKind};
    use crate::steps::Against;

    fn tenant() -> TenantId {
        TenantId::new("acme").unwrap()
    }

    /// Run blocks, some of them damaged in one way or another, and what the log says of the runs.
    fn export() -> (String, ExportEntries) {
        let mut entries = ExportEntries::new(Spill::to_memory([7; 16]), "log");
        let mut text = String::new();
        for at in 0..500u64 {
            let run = format!("run-{at:04}");
            let mut head = ChainHash::genesis(&tenant(), &RunId::new(run.clone()).unwrap());
            let (state, index) = match at % 9 {
                1 => ("sealed", at + 1),
                2 => ("open", at),
                _ => ("sealed", at),
            };
            let _ = writeln!(
                text,
                r#"{{"kind":"runseal.export.run","run":"{run}","state":"{state}","index":{index}}}"#
            );
            let records = if at % 17 == 6 { 0 } else { 1 + at % 7 };
            for seq in 1..=records {
                let (kind, payload) = if seq == records {
                    ("RunConcluded", r#"{"outcome":"succeeded"}"#.to_owned())
                } else {
                    ("Message", format!(r#"{{"text":"{}"}}"#, "word ".repeat(200)))
                };
                let raw = format!(
                    r#"{{"at":"2026-11-30T15:51:19.123Z","epoch":1,"kind":"{kind}","payload":{payload},"run":"{run}","seq":{seq},"tenant":"acme","v":1}}"#
                );
                let (prev, hash) = (head, head.link(raw.as_bytes()));
                head = hash;
                let raw = if at % 11 == 3 && seq == 2 { raw.replacen("word", "Word", 1) } else { raw };
                let raw = serde_json::to_string(&raw).unwrap();
                let _ = writeln!(
                    text,
                    r#"{{"kind":"runseal.export.record","seq":{seq},"raw":{raw},"prev":"{prev}","hash":"{hash}","signature":null}}"#
                );
                if at % 13 == 5 && seq == 1 {
                    text.push_str("no line of an export\n");
                }
            }
            if at % 19 != 7 {
                let entry = format!(
                    r#"{{"chain":"{head}","kind":"seal","outcome":"succeeded","records":{},"run":"{run}","tenant":"acme","v":1}}"#,
                    records.max(1)
                );
                let hash = Mark::name_hash(&[7; 16], "acme", &run);
                entries.add(Mark::new(hash, at, MarkKind::Seal, records.max(1)), entry.as_bytes()).unwrap();
            }
        }
        entries.settle().unwrap();
        (text, entries)
    }

    #[test]
    fn runs_judged_ahead_come_to_what_they_come_to_line_by_line() {
        let (text, entries) = export();
        assert!(text.len() > 3 * BLOCK_BYTES);
        let entries = Arc::new(entries);
        let against = Against::default();
        let outcome = |settled: bool| {
            let judge = RunJudge::new(tenant(), u64::MAX, [7; 16], &against);
            if settled {
                judge.settle(Arc::<ExportEntries>::clone(&entries));
            }
            let mut reader = LineReader::new(Cursor::new(&text), Path::new("lines"));
            let (mut blocks, mut strange, mut bytes, mut ahead) = (RunBlocks::new(&judge), Vec::new(), 0, 0);
            lines::for_each(&mut reader, &judge, |(number, length, line)| {
                bytes += length + 1;
                match line {
                    Ok(Line::Judged(lines, run)) => {
                        ahead += lines;
                        blocks.judged(run);
                    }
                    Ok(Line::Record(raw, account, ahead)) => assert!(blocks.record(raw, account, ahead)),
                    Ok(Line::Run(run)) => blocks.start(run, entries.as_ref())?,
                    other => strange.push(format!("{number} {other:?}")),
                }
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
            blocks.close();
            assert_eq!(bytes, text.len());
            let found: Vec<String> =
                blocks.findings.iter().map(|finding| serde_json::to_string(finding).unwrap()).collect();
            let gaps = format!("{:?}", blocks.gaps);
            let counts = (blocks.runs, blocks.records, blocks.unpinned, blocks.signed, reader.number);
            (ahead, (found, gaps, counts, strange, blocks.seen))
        };
        let ((none, expected), (ahead, judged)) = (outcome(false), outcome(true));
        assert_eq!(none, 0);
        assert!(ahead > expected.2.4 / 2, "{ahead} lines of {}", expected.2.4);
        assert!(expected.0.len() > 100 && expected.3.len() > 30);
        assert_eq!(judged, expected);
    }
}

//! The records of an export, held against a log that was audited just now.

use std::collections::HashSet;
use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use runseal_evidence::export::ExportLine;
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::report::{Command, NotChecked, Report, Scope};

use super::lines::{self, Line};
use super::run_judge::RunJudge;
use super::runs::RunBlocks;
use super::{FAULTS_MAX, not_an_export};
use crate::checkpoint;
use crate::error::Failure;
use crate::history::LogHistory;
use crate::lines::{BUFFER_BYTES, LineReader};
use crate::online::progress::Progress;
use crate::runs::{self, RunsStanding};
use crate::steps::{self, Against};
use crate::trust::Trust;

/// Checks the records of an export against a log audited just now.
///
/// # Errors
/// [`Failure`].
pub fn check_records(
    path: &Path,
    report: &mut Report,
    history: &LogHistory,
    trust: &Trust,
    origin: &str,
    against: &Against,
    progress: Progress,
) -> Result<(), Failure> {
    let file = File::open(path).map_err(|source| Failure::Read { path: path.to_owned(), source })?;
    let length = file.metadata().map_or(0, |meta| meta.len());
    let mut reader = LineReader::new(BufReader::with_capacity(BUFFER_BYTES, file), path);
    let bar = progress.bytes("records", length);
    let header = match reader.next_line()?.map(ExportLine::parse) {
        Some(Ok(ExportLine::Header(header))) => header,
        Some(Err(error)) => return Err(not_an_export(path, &error.to_string())),
        _ => return Err(not_an_export(path, "its first line is not a header")),
    };
    let gap = |report: &mut Report, why: String| {
        report.failed("records", why.clone());
        report.not_checked.push(NotChecked::gap("the records", why));
    };
    if header.origin != origin {
        gap(report, format!("the export is of log {:?}, not {origin:?}", header.origin));
        return Ok(());
    }
    // The export's own checkpoint says which entries it may know; the audited log says what they are.
    let mut own = Report::new(Command::Export, Scope::Export);
    let signed = checkpoint::examine(&mut own, trust, origin, header.checkpoint.as_bytes());
    let Some(signed) = signed else {
        let finding = own.findings.swap_remove(0);
        report.failed("records", finding.detail.clone());
        report.findings.push(Finding { detail: format!("in the export: {}", finding.detail), ..finding });
        return Ok(());
    };
    let size = signed.checkpoint.size();
    if let Some(ours) = history.root_at(size)?
        && ours != *signed.checkpoint.root()
    {
        let detail = format!(
            "the export's checkpoint has root {} at size {size}, the log {ours}",
            signed.checkpoint.root()
        );
        report.failed("records", detail.clone());
        report.findings.push(Finding::new(FindingKind::Fork, detail));
        return Ok(());
    }
    let judge = RunJudge::new(header.tenant.clone(), size, *history.run_key(), against);
    judge.settle(Arc::new(history.clone()));
    let mut blocks = RunBlocks::new(&judge);
    let mut end = None;
    let mut faults = 0;
    lines::for_each(&mut reader, &judge, |(number, length, line)| {
        bar.advance(length as u64 + 1);
        let lines = if let Ok(Line::Judged(lines, _)) = &line { *lines } else { 1 };
        let fault = match line {
            _ if end.is_some() => Some("it follows the end line".to_owned()),
            Ok(Line::Record(raw, record, ahead)) => {
                let taken = blocks.record(raw, record, ahead);
                (!taken).then(|| "a record before the first run".to_owned())
            }
            Ok(Line::Entry(..)) => None,
            Ok(Line::Judged(_, run)) => {
                blocks.judged(run);
                None
            }
            Ok(Line::Run(run)) => {
                blocks.start(run, history)?;
                None
            }
            Ok(Line::Other(ExportLine::End(line))) => {
                blocks.close();
                end = Some(line.clone());
                None
            }
            Ok(Line::Other(_)) => Some("a second header".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(fault) = fault {
            for number in number + 1 - lines..=number {
                faults += 1;
                let detail = format!("{}, line {number}: {fault}", path.display());
                report.findings.push(Finding::new(FindingKind::Malformed, detail));
                if faults > FAULTS_MAX {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    match end.filter(|_| !reader.cut) {
        None => {
            blocks.abandon();
            let why = format!("it is cut short after line {}", reader.number);
            report.not_checked.push(NotChecked::gap("the rest of the export", why));
        }
        Some(end) => {
            for unreadable in &end.unreadable {
                let why = format!("the journal could not read it: {}", unreadable.reason);
                report.not_checked.push(NotChecked::gap(format!("run {}", unreadable.run), why));
            }
            if header.complete {
                let unreadable: HashSet<&str> = end.unreadable.iter().map(|run| run.run.as_str()).collect();
                blocks.missing(history, &unreadable, |pinned| {
                    pinned.deleted("the export, complete by its own word, does not hold it")
                })?;
            } else {
                let why = "the export is a partial one";
                report.not_checked.push(NotChecked::gap("records of runs that were not exported", why));
            }
            let sums = [(end.runs, blocks.runs), (end.records, blocks.records)];
            if sums.iter().any(|(stated, found)| stated != found) {
                let detail = "the end line's counts are not those of the file";
                report.findings.push(Finding::new(FindingKind::ExportIncomplete, detail));
            }
        }
    }
    report.counts.runs = blocks.runs;
    report.counts.records = blocks.records;
    report.counts.bytes += reader.bytes;
    let standing =
        RunsStanding::of(!blocks.findings.is_empty() || faults > 0, !blocks.gaps.is_empty() || reader.cut);
    report.findings.extend(blocks.findings);
    report.not_checked.extend(blocks.gaps);
    runs::close(report, standing, blocks.unpinned, blocks.signed);
    steps::close(report, against.steps.as_deref(), blocks.steps);
    Ok(())
}

//! An export file, checked offline: streamed once, in bounded memory.

use std::collections::HashSet;
#[cfg(feature = "cli")]
use std::fs::File;
#[cfg(feature = "cli")]
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::Path;

use runseal_evidence::entry::{Entry, Recognised};
use runseal_evidence::export::{
    ExportEnd, ExportEntry, ExportError, ExportHeader, ExportLine, LINE_BYTES_MAX,
};
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::{Base, TenantId};
use runseal_evidence::report::{Command, NotChecked, Report, Scope};
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::inclusion;
use runseal_tlog::tree::Frontier;

use crate::agentplane;
use crate::checkpoint::{self, Signed};
use crate::error::Failure;
use crate::export_entries::{ExportEntries, Spill};
use crate::export_lines::{self, EntryLine, Line};
use crate::export_runs::RunBlocks;
#[cfg(feature = "cli")]
use crate::history::LogHistory;
use crate::judge;
use crate::ledger::RunEntries as _;
#[cfg(feature = "cli")]
use crate::lines::BUFFER_BYTES;
use crate::lines::LineReader;
use crate::mark::{Mark, MarkKind};
#[cfg(feature = "cli")]
use crate::progress::Progress;
use crate::runs;
use crate::steps::{self, Against, StepsFile};
use crate::trust::Trust;

/// Findings about lines; a file with more is not worth listing.
const FAULTS_MAX: usize = 100;

/// Checks an export file.
///
/// # Errors
/// [`Failure`] when the file cannot be read or is no export, or trust is not configured for its log.
#[cfg(feature = "cli")]
pub fn check(
    path: &Path,
    trust: &Trust,
    outside: Option<&[u8]>,
    against: &Against,
    progress: Progress,
) -> Result<Report, Failure> {
    let file = File::open(path).map_err(|source| Failure::Read { path: path.to_owned(), source })?;
    let length = file.metadata().map_or(0, |meta| meta.len());
    let bar = progress.bytes("export", length);
    let mut lines = LineReader::new(BufReader::with_capacity(BUFFER_BYTES, file), path);
    let spill = Spill::to_file();
    check_lines(&mut lines, path, trust, outside, against, spill, &|bytes| bar.advance(bytes))
}

/// Checks the lines of an export, whatever they come from. `path` is what failures call it, `spill` where entries
/// go that are too many for memory, and `advance` is told of bytes done.
///
/// # Errors
/// As [`check`].
pub fn check_lines(
    lines: &mut LineReader<'_>,
    path: &Path,
    trust: &Trust,
    outside: Option<&[u8]>,
    against: &Against,
    spill: Spill,
    advance: &dyn Fn(u64),
) -> Result<Report, Failure> {
    let Some(first) = lines.next_line()?.map(<[u8]>::to_vec) else {
        return Err(not_an_export(path, "it is empty"));
    };
    if agentplane::claims(&first) {
        return agentplane::check(&first, lines, path, trust, outside, advance);
    }
    let header = match ExportLine::parse(&first) {
        Ok(ExportLine::Header(header)) => header,
        Ok(_) => return Err(not_an_export(path, "its first line is not a header")),
        Err(error) if error.is_skew() => return Ok(skewed(&error)),
        Err(error) => return Err(not_an_export(path, &error.to_string())),
    };
    trust.choose(Some(&header.origin))?;
    let log = ExportEntries::new(spill, &header.origin);
    let mut check = ExportCheck::new(header, trust, log, against);
    if let Some(outside) = outside {
        check.outside(trust, outside);
    }
    export_lines::for_each(lines, |(number, length, line)| {
        advance(length as u64 + 1);
        check.line(number, line)?;
        if check.line_faults <= FAULTS_MAX {
            return Ok(ControlFlow::Continue(()));
        }
        let gap = NotChecked::gap("the rest of the file", "too much is wrong to go on");
        check.report.not_checked.push(gap);
        Ok(ControlFlow::Break(()))
    })?;
    check.finish(lines)
}

fn not_an_export(path: &Path, reason: &str) -> Failure {
    Failure::NotA { path: path.to_owned(), what: "runseal export", reason: reason.to_owned() }
}

fn skewed(error: &ExportError) -> Report {
    let mut report = Report::new(Command::Export, Scope::Export);
    let why = format!("{error}: use a newer runseal-verifier");
    report.skipped("version", why.clone());
    report.not_checked.push(NotChecked::gap("the export", why));
    report
}

/// What line may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Entries,
    Runs,
    Ended,
}

/// Where one line stands among the others.
type Number = u64;

/// An export, checked line by line.
struct ExportCheck<'k> {
    report: Report,
    line_faults: usize,
    header: ExportHeader,
    signed: Option<Signed>,
    log: ExportEntries,
    tenant: Option<TenantId>,
    part: Part,
    frontier: Frontier,
    /// Root of the entries so far at the size of a checkpoint from elsewhere.
    outside: Option<(Checkpoint, Option<NodeHash>)>,
    next_index: u64,
    in_sequence: bool,
    entries: u64,
    foreign: u64,
    blocks: RunBlocks<'k>,
    steps: Option<&'k StepsFile>,
    end: Option<ExportEnd>,
}

impl<'k> ExportCheck<'k> {
    fn new(header: ExportHeader, trust: &Trust, log: ExportEntries, against: &'k Against) -> Self {
        let scope = if header.complete { Scope::Export } else { Scope::ExportPartial };
        let mut report = Report::new(Command::Export, scope);
        let signed = checkpoint::examine(&mut report, trust, &header.origin, header.checkpoint.as_bytes());
        if Base::of_origin(&header.origin, &header.tenant).is_err() {
            let detail = format!("the header names tenant {} and the log {:?}", header.tenant, header.origin);
            report.findings.push(Finding::new(FindingKind::TenantMismatch, detail));
        }
        let blocks = RunBlocks::new(header.tenant.clone(), u64::MAX, against);
        let tenant = Base::tenant_of(&header.origin);
        Self {
            report,
            line_faults: 0,
            header,
            signed,
            log,
            tenant,
            part: Part::Entries,
            frontier: Frontier::new(),
            outside: None,
            next_index: 0,
            in_sequence: true,
            entries: 0,
            foreign: 0,
            blocks,
            steps: against.steps.as_deref(),
            end: None,
        }
    }

    /// Takes a checkpoint from elsewhere, which the log must have signed too.
    fn outside(&mut self, trust: &Trust, bytes: &[u8]) {
        let mut report = Report::new(Command::Export, self.report.scope);
        if let Some(outside) = checkpoint::examine(&mut report, trust, &self.header.origin, bytes) {
            self.outside = Some((outside.checkpoint, None));
        } else {
            let why = report.findings.first().map_or("it is refused", |finding| &finding.detail);
            self.report.not_checked.push(NotChecked::gap("the checkpoint from elsewhere", why));
        }
    }

    fn line(&mut self, number: Number, line: Result<Line<'_>, &ExportError>) -> Result<(), Failure> {
        match line {
            Err(ExportError::UnknownKind { kind }) => {
                let why = format!("it is of the unknown kind {kind:?}");
                self.report.not_checked.push(NotChecked::gap(format!("line {number}"), why));
            }
            Err(error) if error.is_skew() => {
                self.report.not_checked.push(NotChecked::gap(format!("line {number}"), error.to_string()));
            }
            Err(error) => self.misplaced(number, &error.to_string()),
            Ok(_) if self.part == Part::Ended => self.misplaced(number, "it follows the end line"),
            Ok(Line::Record(raw, record, ahead)) => {
                if !self.blocks.record(raw, record, ahead) {
                    self.misplaced(number, "a record before the first run");
                }
            }
            Ok(Line::Entry(_)) if self.part == Part::Runs => {
                self.misplaced(number, "an entry after the first run");
            }
            Ok(Line::Entry(entry)) => self.entry(number, entry)?,
            Ok(Line::Other(ExportLine::Run(run))) => {
                self.end_entries()?;
                self.blocks.start(run.clone(), &self.log)?;
            }
            Ok(Line::Other(ExportLine::End(end))) => {
                self.end_entries()?;
                self.blocks.close();
                self.part = Part::Ended;
                self.end = Some(end.clone());
            }
            // Records and entries come as such; a header is what is left.
            Ok(Line::Other(_)) => self.misplaced(number, "a second header"),
        }
        Ok(())
    }

    fn misplaced(&mut self, number: Number, fault: &str) {
        self.line_faults += 1;
        let detail = format!("line {number}: {fault}");
        self.report.findings.push(Finding::new(FindingKind::Malformed, detail));
    }

    fn entry(&mut self, number: Number, line: &EntryLine) -> Result<(), Failure> {
        let &EntryLine { line: ExportEntry { index, ref entry, ref proof }, leaf, ref recognised } = line;
        self.entries += 1;
        if self.header.complete {
            if proof.is_some() {
                self.misplaced(number, "an inclusion proof in a complete export");
            }
            self.sequence(index);
            self.frontier.append_stored(leaf.into());
            self.note_outside();
        } else {
            self.included(index, leaf, proof.as_deref());
        }
        let (tenant, run, kind, records) = match recognised {
            Recognised::Ours(Entry::Seal(seal)) => (&seal.tenant, &seal.run, MarkKind::Seal, seal.records),
            Recognised::Ours(Entry::Head(head)) => (&head.tenant, &head.run, MarkKind::Head, head.records),
            Recognised::Ours(Entry::Tenant(_)) => return Ok(()),
            Recognised::Unreadable(error) if error.is_skew() => {
                let why = format!("{error}: use a newer runseal-verifier");
                self.report.not_checked.push(NotChecked::gap(format!("entry {index}"), why));
                return Ok(());
            }
            Recognised::Unreadable(error) => {
                self.line_faults += 1;
                let finding = Finding::new(FindingKind::Malformed, error.to_string());
                self.report.findings.push(finding.at_index(index));
                return Ok(());
            }
            Recognised::Foreign => {
                self.foreign += 1;
                return Ok(());
            }
        };
        if self.tenant.as_ref() != Some(tenant) || *tenant != self.header.tenant {
            self.line_faults += 1;
            let detail = format!("the entry is tenant {tenant}'s, in the log {:?}", self.header.origin);
            let finding = Finding::new(FindingKind::TenantMismatch, detail);
            self.report.findings.push(finding.in_run(run).at_index(index));
        }
        let run = Mark::run_hash(self.log.run_key(), tenant, run);
        self.log.add(Mark::new(run, index, kind, records.get()), entry.as_bytes())?;
        Ok(())
    }

    /// In a complete export, entry `n` stands on place `n`.
    fn sequence(&mut self, index: u64) {
        let expected = self.next_index;
        self.next_index = index.saturating_add(1);
        if index != expected {
            self.in_sequence = false;
            self.line_faults += 1;
            let detail = match index.cmp(&expected) {
                std::cmp::Ordering::Greater => {
                    format!("entries {expected} to {} are left out of a complete export", index - 1)
                }
                _ => format!("entry {index} comes again, or out of order"),
            };
            self.report.findings.push(Finding::new(FindingKind::ExportIncomplete, detail).at_index(expected));
        }
    }

    /// In a partial export, each entry proves itself.
    fn included(&mut self, index: u64, leaf: LeafHash, proof: Option<&[[u8; 32]]>) {
        if index < self.next_index {
            self.line_faults += 1;
            let detail = format!("entry {index} comes again, or out of order");
            self.report.findings.push(Finding::new(FindingKind::Malformed, detail).at_index(index));
        }
        self.next_index = index.saturating_add(1);
        let Some(signed) = &self.signed else { return };
        let (size, root) = (signed.checkpoint.size(), signed.checkpoint.root());
        let detail = match proof {
            None => "the entry of a partial export carries no inclusion proof".to_owned(),
            Some(proof) => {
                let proof: Vec<NodeHash> = proof.iter().copied().map(NodeHash::from_bytes).collect();
                match inclusion::verify(index, size, leaf, &proof, root) {
                    Ok(()) => return,
                    Err(error) => error.to_string(),
                }
            }
        };
        self.line_faults += 1;
        self.report.findings.push(Finding::new(FindingKind::EntryMismatch, detail).at_index(index));
    }

    fn note_outside(&mut self) {
        let size = self.frontier.size();
        if let Some((outside, root)) = &mut self.outside
            && outside.size() == size
        {
            *root = Some(self.frontier.root());
        }
    }

    /// All entries are read: holds them against the root and against each other.
    fn end_entries(&mut self) -> Result<(), Failure> {
        if self.part != Part::Entries {
            return Ok(());
        }
        self.part = Part::Runs;
        self.log.settle()?;
        let name = |index| {
            let entry = self.log.entry(index).ok().flatten();
            entry.and_then(|entry| judge::name_of(&entry))
        };
        let found: Vec<Finding> =
            judge::suspects_among(&self.log)?.iter().flat_map(|suspect| suspect.findings(name)).collect();
        if found.is_empty() {
            self.report.passed("seals-and-heads", "no entry contradicts another of its run");
        } else {
            let detail = format!("{} entries contradict others of their run", found.len());
            self.report.failed("seals-and-heads", detail);
        }
        self.report.findings.extend(found);
        Ok(())
    }

    fn finish(mut self, lines: &LineReader<'_>) -> Result<Report, Failure> {
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
        let sound = blocks.findings.is_empty() && blocks.gaps.is_empty() && end.is_some();
        self.report.findings.extend(blocks.findings);
        self.report.not_checked.extend(blocks.gaps);
        runs::close(&mut self.report, sound, blocks.unpinned, blocks.signed);
        steps::close(&mut self.report, self.steps, blocks.steps);
        if self.foreign > 0 {
            let what = format!("{} entries of other programs", self.foreign);
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
        if self.header.complete && whole && self.in_sequence {
            if let Some(signed) = &self.signed {
                let (size, root) = (signed.checkpoint.size(), *signed.checkpoint.root());
                let (entries, rebuilt) = (self.frontier.size(), self.frontier.root());
                if entries != size {
                    let detail = format!("the checkpoint is of {size} entries, the export holds {entries}");
                    self.report.failed("root", detail.clone());
                    self.report.findings.push(Finding::new(FindingKind::ExportIncomplete, detail));
                } else if rebuilt != root {
                    let detail = format!("the entries rebuild root {rebuilt}, not the signed {root}");
                    self.report.failed("root", detail.clone());
                    self.report.findings.push(Finding::new(FindingKind::ExportIncomplete, detail));
                } else {
                    self.report.passed("root", format!("the {size} entries rebuild the signed root"));
                }
            }
        } else if !self.header.complete && self.signed.is_some() && self.line_faults == 0 {
            let detail = format!("{} entries are proven to be in the signed tree", self.entries);
            self.report.passed("inclusion", detail);
        }
        if let Some((outside, prefix)) = self.outside.take() {
            self.against_outside(&outside, prefix, whole);
        } else if self.report.quorum.is_none() {
            let why = "no witness and no checkpoint from elsewhere (--checkpoint) vouches that the operator shows everybody this log";
            self.report.not_checked.push(NotChecked::out_of_scope("deletion by the operator", why));
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
        self.blocks.missing(&self.log, &unreadable, |pinned| {
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

/// Checks the records of an export against a log audited just now.
///
/// # Errors
/// [`Failure`].
#[cfg(feature = "cli")]
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
    let mut lines = LineReader::new(BufReader::with_capacity(BUFFER_BYTES, file), path);
    let bar = progress.bytes("records", length);
    let header = match lines.next_line()?.map(ExportLine::parse) {
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
    let mut blocks = RunBlocks::new(header.tenant.clone(), size, against);
    let mut end = None;
    let mut faults = 0;
    export_lines::for_each(&mut lines, |(number, length, line)| {
        bar.advance(length as u64 + 1);
        let fault = match line {
            _ if end.is_some() => Some("it follows the end line".to_owned()),
            Ok(Line::Record(raw, record, ahead)) => {
                let taken = blocks.record(raw, record, ahead);
                (!taken).then(|| "a record before the first run".to_owned())
            }
            Ok(Line::Entry(_)) => None,
            Ok(Line::Other(ExportLine::Run(run))) => {
                blocks.start(run.clone(), history)?;
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
            faults += 1;
            let detail = format!("{}, line {number}: {fault}", path.display());
            report.findings.push(Finding::new(FindingKind::Malformed, detail));
            if faults > FAULTS_MAX {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    match end.filter(|_| !lines.cut) {
        None => {
            blocks.abandon();
            let why = format!("it is cut short after line {}", lines.number);
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
    report.counts.bytes += lines.bytes;
    let sound = blocks.findings.is_empty() && blocks.gaps.is_empty() && faults == 0 && !lines.cut;
    report.findings.extend(blocks.findings);
    report.not_checked.extend(blocks.gaps);
    runs::close(report, sound, blocks.unpinned, blocks.signed);
    steps::close(report, against.steps.as_deref(), blocks.steps);
    Ok(())
}

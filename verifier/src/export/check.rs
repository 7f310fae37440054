//! An export of ours, checked line by line.

use std::sync::Arc;

use runseal_evidence::amount::amount;
use runseal_evidence::entry::{Entry, Recognised};
use runseal_evidence::export::{EntryAccount, ExportEnd, ExportError, ExportHeader, ExportLine};
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::{Base, TenantId};
use runseal_evidence::report::{Command, NotChecked, Report, Scope};
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::inclusion;
use runseal_tlog::tree::Frontier;

use super::FAULTS_MAX;
use super::entries::ExportEntries;
use super::lines::{EntryLine, Line};
use super::run_judge::RunJudge;
use super::runs::RunBlocks;
use crate::checkpoint::{self, Signed};
use crate::error::Failure;
use crate::judge;
use crate::ledger::RunEntries as _;
use crate::mark::{Mark, MarkKind};
use crate::steps::{Against, StepsFile};
use crate::trust::Trust;

/// What line may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Entries,
    Runs,
    Ended,
}

/// Where one line stands among the others.
pub(super) type Number = u64;

/// An export, checked line by line.
pub(super) struct ExportCheck<'k> {
    pub(super) report: Report,
    pub(super) line_faults: usize,
    pub(super) header: ExportHeader,
    pub(super) signed: Option<Signed>,
    /// Shared once it is settled.
    pub(super) log: Arc<ExportEntries>,
    pub(super) tenant: Option<TenantId>,
    pub(super) part: Part,
    pub(super) frontier: Frontier,
    /// Root of the entries so far at the size of a checkpoint from elsewhere.
    pub(super) outside: Option<(Checkpoint, Option<NodeHash>)>,
    pub(super) next_index: u64,
    pub(super) in_sequence: bool,
    pub(super) entries: u64,
    pub(super) foreign: u64,
    pub(super) blocks: RunBlocks<'k>,
    judge: &'k RunJudge<'k>,
    pub(super) steps: Option<&'k StepsFile>,
    pub(super) end: Option<ExportEnd>,
}

impl<'k> ExportCheck<'k> {
    pub(super) fn new(
        header: ExportHeader,
        trust: &Trust,
        log: ExportEntries,
        judge: &'k RunJudge<'k>,
        against: &'k Against,
    ) -> Self {
        let scope = if header.complete { Scope::Export } else { Scope::ExportPartial };
        let mut report = Report::new(Command::Export, scope);
        let signed = checkpoint::examine(&mut report, trust, &header.origin, header.checkpoint.as_bytes());
        if Base::of_origin(&header.origin, &header.tenant).is_err() {
            let detail = format!("the header names tenant {} and the log {:?}", header.tenant, header.origin);
            report.findings.push(Finding::new(FindingKind::TenantMismatch, detail));
        }
        let tenant = Base::tenant_of(&header.origin);
        Self {
            report,
            line_faults: 0,
            header,
            signed,
            log: Arc::new(log),
            tenant,
            part: Part::Entries,
            frontier: Frontier::new(),
            outside: None,
            next_index: 0,
            in_sequence: true,
            entries: 0,
            foreign: 0,
            blocks: RunBlocks::new(judge),
            judge,
            steps: against.steps.as_deref(),
            end: None,
        }
    }

    /// Takes a checkpoint from elsewhere, which the log must have signed too.
    pub(super) fn outside(&mut self, trust: &Trust, bytes: &[u8]) {
        let mut report = Report::new(Command::Export, self.report.scope);
        if let Some(outside) = checkpoint::examine(&mut report, trust, &self.header.origin, bytes) {
            self.outside = Some((outside.checkpoint, None));
        } else {
            let why = report.findings.first().map_or("it is refused", |finding| &finding.detail);
            self.report.not_checked.push(NotChecked::gap("the checkpoint from elsewhere", why));
        }
    }

    pub(super) fn line(
        &mut self,
        number: Number,
        line: Result<Line<'_>, &ExportError>,
    ) -> Result<(), Failure> {
        match line {
            Err(ExportError::UnknownKind { kind }) => {
                let why = format!("it is of the unknown kind {kind:?}");
                self.report.not_checked.push(NotChecked::gap(format!("line {number}"), why));
            }
            Err(error) if error.is_skew() => {
                self.report.not_checked.push(NotChecked::gap(format!("line {number}"), error.to_string()));
            }
            Err(error) => self.misplaced(number, &error.to_string()),
            Ok(Line::Judged(lines, _)) if self.part == Part::Ended => {
                for number in number + 1 - lines..=number {
                    if self.line_faults <= FAULTS_MAX {
                        self.misplaced(number, "it follows the end line");
                    }
                }
            }
            Ok(_) if self.part == Part::Ended => self.misplaced(number, "it follows the end line"),
            Ok(Line::Judged(_, run)) => self.blocks.judged(run),
            Ok(Line::Record(raw, record, ahead)) => {
                if !self.blocks.record(raw, record, ahead) {
                    self.misplaced(number, "a record before the first run");
                }
            }
            Ok(Line::Entry(..)) if self.part == Part::Runs => {
                self.misplaced(number, "an entry after the first run");
            }
            Ok(Line::Entry(raw, entry)) => self.entry(number, raw, entry)?,
            Ok(Line::Run(run)) => {
                self.end_entries()?;
                self.blocks.start(run, self.log.as_ref())?;
            }
            Ok(Line::Other(ExportLine::End(end))) => {
                self.end_entries()?;
                self.blocks.close();
                self.part = Part::Ended;
                self.end = Some(end.clone());
            }
            // Records, entries and runs come as such; a header is what is left.
            Ok(Line::Other(_)) => self.misplaced(number, "a second header"),
        }
        Ok(())
    }

    fn misplaced(&mut self, number: Number, fault: &str) {
        self.line_faults += 1;
        let detail = format!("line {number}: {fault}");
        self.report.findings.push(Finding::new(FindingKind::Malformed, detail));
    }

    fn entry(&mut self, number: Number, raw: &[u8], line: &EntryLine) -> Result<(), Failure> {
        let &EntryLine { account: EntryAccount { index, ref proof }, leaf, mark } = line;
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
        let plain = mark.filter(|_| self.tenant.as_ref() == Some(&self.header.tenant));
        if let Some(mark) = plain.or_else(|| self.other_entry(index, raw)) {
            let log = Arc::get_mut(&mut self.log).expect("nobody has it before it is settled");
            log.add(mark, raw)?;
        }
        Ok(())
    }

    /// The mark of an entry that is not plainly one of the tenant's, where it is one of a run.
    fn other_entry(&mut self, index: u64, raw: &[u8]) -> Option<Mark> {
        let recognised = Entry::recognise(raw);
        let (tenant, run, kind, records) = match &recognised {
            Recognised::Ours(Entry::Seal(seal)) => (&seal.tenant, &seal.run, MarkKind::Seal, seal.records),
            Recognised::Ours(Entry::Head(head)) => (&head.tenant, &head.run, MarkKind::Head, head.records),
            Recognised::Ours(Entry::Tenant(_)) => return None,
            Recognised::Unreadable(error) if error.is_skew() => {
                let why = format!("{error}: use a newer runseal-verifier");
                self.report.not_checked.push(NotChecked::gap(format!("entry {index}"), why));
                return None;
            }
            Recognised::Unreadable(error) => {
                self.line_faults += 1;
                let finding = Finding::new(FindingKind::Malformed, error.to_string());
                self.report.findings.push(finding.at_index(index));
                return None;
            }
            Recognised::Foreign => {
                self.foreign += 1;
                return None;
            }
        };
        if self.tenant.as_ref() != Some(tenant) || *tenant != self.header.tenant {
            self.line_faults += 1;
            let detail = format!("the entry is tenant {tenant}'s, in the log {:?}", self.header.origin);
            let finding = Finding::new(FindingKind::TenantMismatch, detail);
            self.report.findings.push(finding.in_run(run).at_index(index));
        }
        Some(Mark::new(Mark::run_hash(self.log.run_key(), tenant, run), index, kind, records.get()))
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
        Arc::get_mut(&mut self.log).expect("nobody has it before it is settled").settle()?;
        let name = |index| {
            let entry = self.log.entry(index).ok().flatten();
            entry.and_then(|entry| judge::name_of(&entry))
        };
        let found: Vec<Finding> = judge::suspects_among(self.log.as_ref())?
            .iter()
            .flat_map(|suspect| suspect.findings(name))
            .collect();
        if found.is_empty() {
            self.report.passed("seals-and-heads", "no entry contradicts another of its run");
        } else {
            let detail = format!("{} between entries of one run", amount(found.len(), "contradiction"));
            self.report.failed("seals-and-heads", detail);
        }
        self.report.findings.extend(found);
        let log = Arc::clone(&self.log);
        self.judge.settle(log);
        Ok(())
    }
}

//! What the entries of one run must be to each other: at most one seal, no head after it, heads that grow.

use std::borrow::Cow;

use runseal_evidence::amount::amount;
use runseal_evidence::entry::{Entry, Recognised};
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::{RunId, TenantId};

use crate::history::{HistoryError, LogHistory};
use crate::ledger::{Ledger, RunEntries};
use crate::mark::{Mark, MarkKind, MarkSorter};

/// Runs judged by name in one audit; a log with more contradictions is beyond listing.
const SUSPECTS_MAX: usize = 1_000;
/// Entries of one run judged by name.
const MARKS_MAX: usize = 4_096;

/// Runs whose entries may contradict each other.
#[derive(Debug)]
pub struct Suspect {
    marks: Vec<Mark>,
    /// Entries before this index were judged earlier.
    from: u64,
}

impl Suspect {
    /// Where its entries are.
    pub fn indexes(&self) -> impl Iterator<Item = u64> {
        self.marks.iter().map(Mark::index)
    }

    /// What contradicts what, run by run. Two runs may share a hash, so `name` tells them apart.
    pub fn findings(&self, name: impl Fn(u64) -> Option<(TenantId, RunId)>) -> Vec<Finding> {
        let named = by_name(&self.marks, name);
        named.iter().flat_map(|(run, marks)| contradictions(marks, run.as_ref(), self.from)).collect()
    }
}

/// Holds the entries since the last judgement against each other and against all earlier ones. `unstored` are
/// their last marks where a scratch history did not store them, as the recorder gives them back.
///
/// # Errors
/// [`HistoryError`].
pub fn suspects(history: &LogHistory, unstored: MarkSorter) -> Result<Vec<Suspect>, HistoryError> {
    let first = history.progress()?.unjudged_segment;
    let ledger = Ledger::new(history);
    let with_older = ledger.has_before(first)?;
    let mut suspects = Vec::new();
    if !with_older && !ledger.may_have_pair(&unstored, breaks)? {
        return Ok(suspects);
    }
    ledger.for_each_run_with(first, &unstored.sorted(), |run, new| {
        let marks = if with_older { Cow::Owned(ledger.marks(run)?) } else { Cow::Borrowed(new) };
        if contradicts(&marks) && suspects.len() < SUSPECTS_MAX {
            let marks = marks[..marks.len().min(MARKS_MAX)].to_vec();
            suspects.push(Suspect { marks, from: new[0].index() });
        }
        Ok(())
    })?;
    Ok(suspects)
}

/// Holds all entries against each other.
///
/// # Errors
/// [`HistoryError`].
pub fn suspects_among(entries: &dyn RunEntries) -> Result<Vec<Suspect>, HistoryError> {
    let mut suspects = Vec::new();
    entries.for_each_run(&mut |_, marks| {
        if contradicts(marks) && suspects.len() < SUSPECTS_MAX {
            let marks = marks[..marks.len().min(MARKS_MAX)].to_vec();
            suspects.push(Suspect { marks, from: 0 });
        }
        Ok(())
    })?;
    Ok(suspects)
}

/// Whether one run's marks, in log order, break a rule. Two runs of one hash can do so innocently.
fn contradicts(marks: &[Mark]) -> bool {
    marks.windows(2).any(|pair| breaks(&pair[0], &pair[1]))
}

fn breaks(before: &Mark, after: &Mark) -> bool {
    before.kind() == MarkKind::Seal || after.records < before.records
}

/// Marks of runs with one hash, parted by the runs' names.
fn by_name(
    marks: &[Mark],
    name: impl Fn(u64) -> Option<(TenantId, RunId)>,
) -> Vec<(Option<RunId>, Vec<Mark>)> {
    let keys: Vec<_> = marks.iter().map(|mark| name(mark.index())).collect();
    let mut named: Vec<(Option<RunId>, Vec<Mark>)> = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        if keys[..at].contains(key) {
            continue;
        }
        let of_run = marks.iter().zip(&keys).filter(|(_, other)| *other == key).map(|(mark, _)| *mark);
        named.push((key.as_ref().map(|(_, run)| run.clone()), of_run.collect()));
    }
    named
}

/// The findings in one run's marks, as far as an entry from index `from` on takes part in them.
fn contradictions(marks: &[Mark], run: Option<&RunId>, from: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut sealed: Option<&Mark> = None;
    let mut records = 0;
    for mark in marks {
        let fault = match (sealed, mark.kind()) {
            (Some(seal), MarkKind::Seal) => Some((
                FindingKind::SealDuplicate,
                format!("the run was sealed at index {} and again at index {}", seal.index(), mark.index()),
            )),
            (Some(seal), MarkKind::Head) => Some((
                FindingKind::HeadAfterSeal,
                format!("a head at index {} follows the seal at index {}", mark.index(), seal.index()),
            )),
            (None, _) if mark.records < records => Some((
                FindingKind::HeadRegressed,
                format!(
                    "index {} speaks for {}, an entry before it for {records}",
                    mark.index(),
                    amount(mark.records, "record")
                ),
            )),
            (None, _) => None,
        };
        if mark.kind() == MarkKind::Seal && sealed.is_none() {
            sealed = Some(mark);
        }
        records = records.max(mark.records);
        if let Some((kind, detail)) = fault.filter(|_| mark.index() >= from) {
            let finding = Finding::new(kind, detail).at_index(mark.index());
            findings.push(match run {
                Some(run) => finding.in_run(run),
                None => finding,
            });
        }
    }
    findings
}

/// Tenant and run of a kept entry.
pub fn name_of(entry: &[u8]) -> Option<(TenantId, RunId)> {
    match Entry::recognise(entry) {
        Recognised::Ours(Entry::Seal(seal)) => Some((seal.tenant, seal.run)),
        Recognised::Ours(Entry::Head(head)) => Some((head.tenant, head.run)),
        _ => None,
    }
}

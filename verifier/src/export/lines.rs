//! Export lines, read in blocks and parsed before it is their turn.

use std::ops::{ControlFlow, Range};

use runseal_evidence::chain::Ahead;
use runseal_evidence::entry::EntryView;
use runseal_evidence::export::{EntryAccount, ExportError, ExportLine, ExportRun, ReadLine, RecordAccount};
use runseal_tlog::hash::LeafHash;

use super::crew;
use super::run_judge::{JudgedRun, RunJudge};
use crate::error::Failure;
use crate::lines::{BLOCK_BYTES, LineReader, line_length};
use crate::mark::{Mark, MarkKind};

/// Memory that each buffer of a block keeps: enough for a line with a record of the largest size in most spellings.
const KEPT_BYTES: usize = 2 << 20;

/// One line: its number, its length, and what it says.
pub(super) type Parsed<'l> = (u64, usize, Result<Line<'l>, &'l ExportError>);

/// What a line says, with as much of the checking done as needs no other line.
#[derive(Debug)]
pub(super) enum Line<'l> {
    /// A record: its wire bytes, what the line says of it, and its hash as that of the record after `prev`.
    Record(&'l [u8], &'l RecordAccount, Ahead),
    /// An entry: its bytes, and the rest.
    Entry(&'l [u8], &'l EntryLine),
    /// The line of a run, whose records follow.
    Run(&'l ExportRun),
    /// So many lines at once, this one the last of them: a run with all its records, judged already.
    Judged(u64, &'l mut JudgedRun),
    /// Any other line.
    Other(&'l ExportLine),
}

/// An entry of the log, hashed and read.
#[derive(Debug)]
pub(super) struct EntryLine {
    /// What the line says of it.
    pub(super) account: EntryAccount,
    /// The entry's leaf hash.
    pub(super) leaf: LeafHash,
    /// Its mark, where it is plainly an entry of a run of the tenant whose runs are judged.
    pub(super) mark: Option<Mark>,
}

impl EntryLine {
    fn of(account: EntryAccount, entry: &[u8], judge: &RunJudge<'_>) -> Self {
        let view = EntryView::plain(entry).filter(|view| view.tenant() == judge.tenant.as_str());
        let mark = view.map(|view| {
            let run = Mark::name_hash(judge.run_key(), view.tenant(), view.run());
            let kind = if view.is_seal() { MarkKind::Seal } else { MarkKind::Head };
            Mark::new(run, account.index, kind, view.records().get())
        });
        Self { account, leaf: LeafHash::of(entry), mark }
    }
}

/// Lines on their way from the file to the checker.
#[derive(Default)]
pub(super) struct Block {
    text: Vec<u8>,
    lines: Vec<(usize, Kept)>,
    /// The bytes of the records and entries, one after the other.
    raws: Vec<u8>,
    /// For each record where it starts and ends in `raws`, and what a [`Line`] has of it.
    records: Vec<(Range<usize>, RecordAccount, Ahead)>,
    /// The same for each entry.
    entries: Vec<(Range<usize>, EntryLine)>,
    runs: Vec<ExportRun>,
    /// The runs that lie in this block with all their records, where they could be judged.
    judged: Vec<JudgedLines>,
}

/// A run judged, and how many lines from which one on it has.
struct JudgedLines {
    first: usize,
    lines: usize,
    run: JudgedRun,
}

/// A [`Line`], of a record the next of [`Block::records`], of an entry the next of [`Block::entries`] and of a run the
/// next of [`Block::runs`].
enum Kept {
    Record,
    Entry,
    Run,
    Other(Box<ExportLine>),
    Faulty(Box<ExportError>),
}

impl Block {
    /// Where its lines are read to.
    pub(super) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Reads its lines.
    pub(super) fn parse(&mut self, judge: &RunJudge<'_>) {
        self.raws.clear();
        self.records.clear();
        self.entries.clear();
        self.runs.clear();
        self.lines.clear();
        let mut rest = self.text.as_slice();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(line_length(rest));
            rest = after;
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let start = self.raws.len();
            let kept = match ReadLine::parse(line, &mut self.raws) {
                Ok(ReadLine::Record(account)) => {
                    let range = start..self.raws.len();
                    let ahead = Ahead::of(account.prev, &self.raws[start..]);
                    self.records.push((range, account, ahead));
                    Kept::Record
                }
                Ok(ReadLine::Entry(account)) => {
                    let range = start..self.raws.len();
                    self.entries.push((range, EntryLine::of(account, &self.raws[start..], judge)));
                    Kept::Entry
                }
                Ok(ReadLine::Run(run)) => {
                    self.runs.push(run);
                    Kept::Run
                }
                Ok(ReadLine::Other(line)) => Kept::Other(line),
                Err(error) => Kept::Faulty(Box::new(error)),
            };
            self.lines.push((line.len(), kept));
        }
    }

    /// Judges the runs that lie in this block as a whole: from their line up to the next run's, with records alone
    /// between. That their bytes were looked at just now makes it fast.
    pub(super) fn judge(&mut self, judge: &RunJudge<'_>) {
        self.judged.clear();
        if !judge.is_settled() {
            return;
        }
        let (mut run, mut records, mut runs) = (None, 0, self.runs.iter());
        for (at, (_, kept)) in self.lines.iter().enumerate() {
            match kept {
                Kept::Record => records += 1,
                Kept::Run => {
                    let Some(line) = runs.next() else { break };
                    if let Some((first, line, from)) = run.replace((at, line, records))
                        && let Some(run) = judge.judge(line, self.records(from..records))
                    {
                        self.judged.push(JudgedLines { first, lines: at - first, run });
                    }
                }
                _ => run = None,
            }
        }
    }

    fn records(&self, range: Range<usize>) -> impl Iterator<Item = (&[u8], &RecordAccount, Ahead)> {
        self.records[range].iter().map(|(range, account, ahead)| (&self.raws[range.clone()], account, *ahead))
    }

    /// Hands its lines to `take`, in order. `number` is that of the line before.
    ///
    /// # Errors
    /// [`Failure`] of `take`.
    pub(super) fn hand_over(
        &mut self,
        number: &mut u64,
        take: &mut impl FnMut(Parsed<'_>) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<ControlFlow<()>, Failure> {
        let (mut at, mut record, mut entry, mut run) = (0, 0, 0, 0);
        let mut judged = self.judged.drain(..).peekable();
        while let Some((length, kept)) = self.lines.get(at) {
            if let Some(mut judged) = judged.next_if(|judged| judged.first == at) {
                let lines = &self.lines[at..at + judged.lines];
                // Each has a line feed, which is the caller's to add for the last one.
                let length = lines.iter().map(|(length, _)| length + 1).sum::<usize>() - 1;
                (at, record, run) = (at + judged.lines, record + judged.lines - 1, run + 1);
                let lines = judged.lines as u64;
                *number += lines;
                if take((*number, length, Ok(Line::Judged(lines, &mut judged.run))))?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                continue;
            }
            *number += 1;
            at += 1;
            let line = match kept {
                Kept::Record => {
                    let (range, account, ahead) = &self.records[record];
                    record += 1;
                    Ok(Line::Record(&self.raws[range.clone()], account, *ahead))
                }
                Kept::Entry => {
                    let (range, line) = &self.entries[entry];
                    entry += 1;
                    Ok(Line::Entry(&self.raws[range.clone()], line))
                }
                Kept::Run => {
                    run += 1;
                    Ok(Line::Run(&self.runs[run - 1]))
                }
                Kept::Other(line) => Ok(Line::Other(line)),
                Kept::Faulty(error) => Err(&**error),
            };
            if take((*number, *length, line))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        // One very long line is no reason to keep that much memory.
        for buffer in [&mut self.text, &mut self.raws] {
            buffer.truncate(BLOCK_BYTES);
            buffer.shrink_to(KEPT_BYTES);
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Hands each further line to `take`, in order, until the file ends or `take` has seen enough. On every core where
/// there are threads, lines are parsed and hashed, and whole runs held against what `judge` knows; memory holds a few
/// blocks whatever the file's length.
///
/// # Errors
/// [`Failure`] of the file, or of `take`.
pub(super) fn for_each(
    lines: &mut LineReader<'_>,
    judge: &RunJudge<'_>,
    take: impl FnMut(Parsed<'_>) -> Result<ControlFlow<()>, Failure> + Send,
) -> Result<(), Failure> {
    if cfg!(target_family = "wasm") {
        in_turn(lines, judge, take)
    } else {
        crew::for_each(lines, judge, take)
    }
}

/// The same on one thread.
fn in_turn(
    lines: &mut LineReader<'_>,
    judge: &RunJudge<'_>,
    mut take: impl FnMut(Parsed<'_>) -> Result<ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
    let mut block = Block::default();
    let mut number = lines.number;
    while lines.next_block(&mut block.text)? {
        block.parse(judge);
        block.judge(judge);
        let taken = block.hand_over(&mut number, &mut take);
        lines.number = number;
        if taken?.is_break() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use std::path::Path;

    use runseal_evidence::name::TenantId;

    use crate::steps::Against;

    #[test]
    fn one_thread_and_many_hand_over_the_same_lines_and_stop_where_enough_is_seen() {
        let end =
            "{\"kind\":\"runseal.export.end\",\"entries\":0,\"runs\":0,\"records\":0,\"unreadable\":[]}";
        let hash = "0".repeat(64);
        let record = |raw: &str| {
            format!(
                r#"{{"kind":"runseal.export.record","seq":1,"raw":"{raw}","prev":"{hash}","hash":"{hash}","signature":null}}"#
            )
        };
        let long = "x".repeat(BLOCK_BYTES);
        let some = format!("{end}\n\nno line\n{}\n{}\n", record("a\\nb"), record(""));
        let text = format!("{}{}\n{some}cut", some.repeat(9), record(&long));
        let path = Path::new("lines");
        let against = Against::default();
        let judge = RunJudge::new(TenantId::new("acme").unwrap(), u64::MAX, [7; 16], &against);
        for enough in [1, 20, usize::MAX] {
            let collect = |found: &mut Vec<String>, line: Parsed<'_>| {
                found.push(format!("{line:?}"));
                Ok(if found.len() == enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            };
            let (mut one, mut many) = (Vec::new(), Vec::new());
            let open = || LineReader::new(Cursor::new(&text), path);
            let (mut first, mut other) = (open(), open());
            for_each(&mut first, &judge, |line| collect(&mut many, line)).unwrap();
            in_turn(&mut other, &judge, |line| collect(&mut one, line)).unwrap();
            assert_eq!(many.len(), enough.min(51));
            assert_eq!((first.number, other.number), (many.len() as u64, many.len() as u64));
            assert_eq!(many, one);
            if enough > 51 {
                assert!(first.cut && other.cut);
                let records = many.iter().filter(|line| line.contains("Record([97, 10, 98],"));
                assert_eq!(records.count(), 10);
            }
        }
    }
}

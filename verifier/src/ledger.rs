//! Which entries each run has, for logs too long to hold in memory.
//!
//! Each entry of ours leaves one [`Mark`]. Marks are kept in sorted segments, so that all marks of a run
//! stand together; a run is found by a hash of its name, and names are compared before anything is said
//! against a run.

mod run_entries;
mod sweep;

use redb::{ReadableTable as _, WriteTransaction};
use runseal_evidence::finding::Finding;

pub use self::run_entries::{RunEntries, VisitRun};
use crate::history::{Damage, HistoryError, LOG_FINDINGS, LogHistory, PROGRESS, SEGMENT_SIZES, SEGMENTS};
use crate::mark::{MARK_BYTES, Mark, SortedMarks};

/// Marks in one row: with its key it fills a page of 32 KiB, which the store would else double.
const ROW_MARKS: usize = 1_360;
/// Segments before the younger ones are merged.
const SEGMENTS_MAX: usize = 24;

/// Writes sorted marks as a new segment, within the transaction that writes their entries.
///
/// # Errors
/// [`HistoryError`].
pub(crate) fn add_segment(
    write: &WriteTransaction,
    log: u32,
    marks: impl IntoIterator<Item = Mark>,
) -> Result<(), HistoryError> {
    let mut marks = marks.into_iter().peekable();
    if marks.peek().is_none() {
        return Ok(());
    }
    let mut sizes = write.open_table(SEGMENT_SIZES)?;
    let number = match sizes.range((log, 0)..=(log, u32::MAX))?.next_back().transpose()? {
        Some(row) => row.0.value().1 + 1,
        None => 0,
    };
    let mut segments = write.open_table(SEGMENTS)?;
    let mut total = 0u64;
    while let Some(first) = marks.peek().copied() {
        let mut bytes = Vec::with_capacity(ROW_MARKS * MARK_BYTES);
        for mark in marks.by_ref().take(ROW_MARKS) {
            mark.pack(&mut bytes);
            total += 1;
        }
        segments.insert((log, number, first.run, first.position), bytes.as_slice())?;
    }
    sizes.insert((log, number), total)?;
    Ok(())
}

fn packed_marks(segment: u32, row: &[u8]) -> Result<&[[u8; MARK_BYTES]], HistoryError> {
    let (marks, rest) = row.as_chunks::<MARK_BYTES>();
    if rest.is_empty() { Ok(marks) } else { Err(Damage::Segment(segment).into()) }
}

fn unpack_row(segment: u32, row: &[u8]) -> Result<Vec<Mark>, HistoryError> {
    Ok(packed_marks(segment, row)?.iter().map(Mark::unpack).collect())
}

type SegmentRows = redb::Range<'static, (u32, u32, u64, u64), &'static [u8]>;

/// One segment, read forward: rows of the store, or marks that were not stored.
struct Cursor {
    segment: u32,
    rows: Option<SegmentRows>,
    row: std::vec::IntoIter<Mark>,
    next: Option<Mark>,
}

impl Cursor {
    fn advance(&mut self) -> Result<Option<Mark>, HistoryError> {
        let taken = self.next.take();
        loop {
            if let Some(mark) = self.row.next() {
                self.next = Some(mark);
                return Ok(taken);
            }
            let row = self.rows.as_mut().and_then(Iterator::next).transpose()?;
            let Some(row) = row else { return Ok(taken) };
            self.row = unpack_row(self.segment, row.1.value())?.into_iter();
        }
    }
}

/// The runs of a log, read from its segments.
#[derive(Debug)]
pub struct Ledger<'h> {
    history: &'h LogHistory,
}

impl<'h> Ledger<'h> {
    /// The ledger of a log.
    pub const fn new(history: &'h LogHistory) -> Self {
        Self { history }
    }

    fn segment_numbers(&self) -> Result<Vec<u32>, HistoryError> {
        let log = self.history.number;
        let sizes = self.history.history.begin_read()?.open_table(SEGMENT_SIZES)?;
        sizes.range((log, 0)..=(log, u32::MAX))?.map(|row| Ok(row?.0.value().1)).collect()
    }

    /// The marks of one run hash, in log order.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn marks(&self, run: u64) -> Result<Vec<Mark>, HistoryError> {
        let mut marks = Vec::new();
        for segment in self.segment_numbers()? {
            self.marks_in(segment, run, &mut marks)?;
        }
        marks.sort_unstable();
        Ok(marks)
    }

    fn marks_in(&self, segment: u32, run: u64, marks: &mut Vec<Mark>) -> Result<(), HistoryError> {
        let log = self.history.number;
        let segments = self.history.history.begin_read()?.open_table(SEGMENTS)?;
        // The row that starts before the run's first possible mark may hold some of its marks.
        let first = segments.range((log, segment, 0, 0)..(log, segment, run, 0))?.next_back().transpose()?;
        let from = first.map_or((log, segment, run, 0), |row| row.0.value());
        for row in segments.range(from..=(log, segment, run, u64::MAX))? {
            let row = row?;
            let all = packed_marks(segment, row.1.value())?;
            let start = all.partition_point(|mark| Mark::unpack(mark).run < run);
            marks.extend(all[start..].iter().map(Mark::unpack).take_while(|mark| mark.run == run));
        }
        Ok(())
    }

    /// A cursor at the first mark of run hash `run` or a later one.
    fn cursor_from(&self, segment: u32, run: u64) -> Result<Cursor, HistoryError> {
        let log = self.history.number;
        let segments = self.history.history.begin_read()?.open_table(SEGMENTS)?;
        // The row that starts before the first mark wanted may hold some of them.
        let before = segments.range((log, segment, 0, 0)..(log, segment, run, 0))?.next_back().transpose()?;
        let from = before.map_or((log, segment, run, 0), |row| row.0.value());
        let rows = segments.range(from..=(log, segment, u64::MAX, u64::MAX))?;
        let mut cursor = Cursor { segment, rows: Some(rows), row: Vec::new().into_iter(), next: None };
        cursor.advance()?;
        while cursor.next.is_some_and(|mark| mark.run < run) {
            cursor.advance()?;
        }
        Ok(cursor)
    }

    /// Walks the marks of the segments from `first` on, run by run, each run's marks in log order.
    ///
    /// # Errors
    /// [`HistoryError`], also of the visitor.
    pub fn for_each_run(
        &self,
        first: u32,
        visit: impl FnMut(u64, &[Mark]) -> Result<(), HistoryError>,
    ) -> Result<(), HistoryError> {
        self.for_each_run_with(first, &SortedMarks::default(), visit)
    }

    /// The same with the marks of a last segment that was not stored.
    ///
    /// # Errors
    /// [`HistoryError`], also of the visitor.
    pub fn for_each_run_with(
        &self,
        first: u32,
        unstored: &SortedMarks,
        mut visit: impl FnMut(u64, &[Mark]) -> Result<(), HistoryError>,
    ) -> Result<(), HistoryError> {
        let numbers = self.segment_numbers()?.into_iter().filter(|number| *number >= first);
        let mut cursors = numbers.map(|number| self.cursor_from(number, 0)).collect::<Result<Vec<_>, _>>()?;
        if cursors.is_empty() {
            return unstored.for_each_run(visit);
        }
        let row = unstored.iter().collect::<Vec<_>>().into_iter();
        let mut last = Cursor { segment: u32::MAX, rows: None, row, next: None };
        last.advance()?;
        cursors.push(last);
        let mut heap: std::collections::BinaryHeap<std::cmp::Reverse<(Mark, usize)>> = cursors
            .iter()
            .enumerate()
            .filter_map(|(at, cursor)| cursor.next.map(|mark| std::cmp::Reverse((mark, at))))
            .collect();
        let mut group: Vec<Mark> = Vec::new();
        while let Some(mut top) = heap.peek_mut() {
            let std::cmp::Reverse((mark, at)) = *top;
            cursors[at].advance()?;
            // Replacing the top sifts once where popping and pushing would sift twice.
            match cursors[at].next {
                Some(next) => *top = std::cmp::Reverse((next, at)),
                None => drop(std::collections::binary_heap::PeekMut::pop(top)),
            }
            if group.first().is_some_and(|first| first.run != mark.run) {
                visit(group[0].run, &group)?;
                group.clear();
            }
            group.push(mark);
        }
        if let Some(first) = group.first() {
            visit(first.run, &group)?;
        }
        Ok(())
    }

    /// Whether any segment before `first` may hold marks.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn has_before(&self, first: u32) -> Result<bool, HistoryError> {
        Ok(self.segment_numbers()?.first().is_some_and(|number| *number < first))
    }

    /// The number that the next segment gets.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn next_segment(&self) -> Result<u32, HistoryError> {
        Ok(self.segment_numbers()?.last().map_or(0, |last| last + 1))
    }

    /// Notes that all segments so far were held against each other, with what was found, and merges small
    /// segments once there are many.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn judged(&self, found: &[Finding]) -> Result<(), HistoryError> {
        let log = self.history.number;
        let numbers = self.segment_numbers()?;
        let write = self.history.history.begin_write()?;
        {
            let mut findings = write.open_table(LOG_FINDINGS)?;
            let last = findings.range((log, 0)..=(log, u64::MAX))?.next_back().transpose()?;
            let next = last.map_or(0, |row| row.0.value().1 + 1);
            for (finding, number) in found.iter().zip(next..) {
                let text = serde_json::to_string(finding).unwrap_or_default();
                findings.insert((log, number), text.as_str())?;
            }
            if numbers.len() > SEGMENTS_MAX {
                self.merge(&write, &numbers)?;
            }
            let mut progress = write.open_table(PROGRESS)?;
            let row = progress.get(log)?.map(|row| row.value()).unwrap_or_default();
            let next = numbers.last().map_or(0, |last| last + 1);
            progress.insert(log, (row.0, row.1, next))?;
        }
        write.commit()?;
        Ok(())
    }

    /// Merges all segments but the largest, or all of them when the rest has grown as large.
    fn merge(&self, write: &WriteTransaction, numbers: &[u32]) -> Result<(), HistoryError> {
        let log = self.history.number;
        let mut sizes = write.open_table(SEGMENT_SIZES)?;
        let mut segments = write.open_table(SEGMENTS)?;
        let size_of = |number: &u32| -> Result<u64, HistoryError> {
            Ok(sizes.get((log, *number))?.map_or(0, |size| size.value()))
        };
        let counts = numbers.iter().map(size_of).collect::<Result<Vec<_>, _>>()?;
        let rest: u64 = counts.iter().skip(1).sum();
        let keep = usize::from(counts[0] > rest);
        let merged = &numbers[keep..];
        let target = merged[0];
        // The rows are read from the state before this transaction, so they may be replaced meanwhile.
        for number in merged {
            segments.retain_in((log, *number, 0, 0)..=(log, *number, u64::MAX, u64::MAX), |_, _| false)?;
            sizes.remove((log, *number))?;
        }
        let mut row: Vec<Mark> = Vec::with_capacity(ROW_MARKS);
        let mut total = 0u64;
        let mut flush = |row: &mut Vec<Mark>| -> Result<(), HistoryError> {
            if let Some(first) = row.first() {
                let mut bytes = Vec::with_capacity(row.len() * MARK_BYTES);
                for mark in row.iter() {
                    mark.pack(&mut bytes);
                }
                segments.insert((log, target, first.run, first.position), bytes.as_slice())?;
                row.clear();
            }
            Ok(())
        };
        self.for_each_run(target, |_, marks| {
            for mark in marks {
                row.push(*mark);
                total += 1;
                if row.len() == ROW_MARKS {
                    flush(&mut row)?;
                }
            }
            Ok(())
        })?;
        flush(&mut row)?;
        sizes.insert((log, target), total)?;
        Ok(())
    }
}

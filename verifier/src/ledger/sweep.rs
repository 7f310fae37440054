//! Looks through all marks for two of one run that contradict each other, without putting them in order.

use std::ops::Range;
use std::thread;

use super::Ledger;
use crate::history::HistoryError;
use crate::mark::{BUCKETS, Mark, MarkSorter, Words, any_pair, bucket_of, first_of_bucket};

/// Most marks that are looked at together. One run with as many is beyond this way of looking.
const BUCKET_MARKS_MAX: usize = 1 << 18;

impl Ledger<'_> {
    /// Whether there may be a mark, in any segment or among those that were not stored, and the next one of the same
    /// run hash of which `holds` is true. `false` is certain, and takes a fraction of the time of
    /// [`Self::for_each_run_with`].
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn may_have_pair(
        &self,
        unstored: &MarkSorter,
        holds: impl Fn(&Mark, &Mark) -> bool + Sync,
    ) -> Result<bool, HistoryError> {
        let numbers = self.segment_numbers()?;
        let sweep = |buckets: Range<usize>| self.sweep(&numbers, unstored, buckets, &holds);
        thread::scope(|scope| {
            let first = scope.spawn(|| sweep(0..BUCKETS / 2));
            let second = sweep(BUCKETS / 2..BUCKETS)?;
            // A thread that died told nothing for certain.
            Ok(first.join().unwrap_or(Ok(true))? | second)
        })
    }

    fn sweep(
        &self,
        segments: &[u32],
        unstored: &MarkSorter,
        buckets: Range<usize>,
        holds: impl Fn(&Mark, &Mark) -> bool,
    ) -> Result<bool, HistoryError> {
        let from = first_of_bucket(buckets.start);
        let cursors = segments.iter().map(|segment| self.cursor_from(*segment, from));
        let mut cursors = cursors.collect::<Result<Vec<_>, _>>()?;
        let (mut stored, mut last): (Vec<Words>, Vec<u32>) = (Vec::new(), Vec::new());
        for bucket in buckets {
            let Some(unstored) = unstored.bucket(bucket) else { return Ok(true) };
            stored.clear();
            // Segments are numbered, and what was not stored comes, in log order.
            for cursor in &mut cursors {
                while let Some(mark) = cursor.next.filter(|mark| bucket_of(mark.run) == bucket) {
                    stored.push(mark.words());
                    cursor.advance()?;
                    if stored.len() > BUCKET_MARKS_MAX {
                        return Ok(true);
                    }
                }
            }
            let all = if stored.is_empty() {
                unstored
            } else {
                stored.extend_from_slice(unstored);
                &stored
            };
            if any_pair(all, &mut last, &holds) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::history::History;
    use crate::ledger::add_segment;
    use crate::mark::MarkKind;
    use crate::siphash;

    /// Marks of many runs, and of a few runs over and over, in log order.
    fn marks() -> Vec<Mark> {
        let hash = |run: u64| siphash::hash(&[7; 16], &run.to_be_bytes());
        let run = |index: u64| if index.is_multiple_of(4) { index % 120 } else { index };
        (0..20_000).map(|index| Mark::new(hash(run(index)), index, MarkKind::Head, index + 1)).collect()
    }

    #[test]
    fn pairs_of_one_run_are_seen_wherever_they_are_kept_and_others_are_no_pairs() {
        let marks = marks();
        let mut by_run = marks.clone();
        by_run.sort_unstable();
        let pairs: Vec<[Mark; 2]> =
            by_run.array_windows().copied().filter(|[one, next]| one.run == next.run).collect();
        assert!(pairs.len() > 4_000);
        for parts in
            [&[20_000][..], &[0, 20_000], &[7_000, 13_000], &[5_000, 5_000, 0, 10_000], &[12_000, 8_000, 0]]
        {
            let log = Arc::new(History::in_memory([7; 16]).unwrap()).log("log").unwrap();
            let (mut rest, mut unstored) = (marks.as_slice(), MarkSorter::default());
            for (at, count) in parts.iter().enumerate() {
                let (part, after) = rest.split_at(*count);
                rest = after;
                let mut sorter = MarkSorter::with_room(8 * part.len() as u64);
                for mark in part {
                    sorter.add(mark);
                }
                // The last part is not stored.
                if at + 1 == parts.len() {
                    unstored = sorter;
                } else {
                    let write = log.history.begin_write().unwrap();
                    add_segment(&write, log.number, sorter.sorted().iter()).unwrap();
                    write.commit().unwrap();
                }
            }
            let ledger = Ledger::new(&log);
            for pair in pairs.iter().step_by(97) {
                assert!(ledger.may_have_pair(&unstored, |one, next| [*one, *next] == *pair).unwrap());
            }
            let strangers = |one: &Mark, next: &Mark| one.run != next.run || one.index() >= next.index();
            assert!(!ledger.may_have_pair(&unstored, strangers).unwrap(), "{parts:?}");
            let mut known: Vec<(u64, u64)> =
                pairs.iter().map(|[one, next]| (one.index(), next.index())).collect();
            known.sort_unstable();
            let unknown =
                |one: &Mark, next: &Mark| known.binary_search(&(one.index(), next.index())).is_err();
            assert!(!ledger.may_have_pair(&unstored, unknown).unwrap(), "{parts:?}");
        }
    }

    #[test]
    fn nothing_is_certain_of_marks_that_there_was_no_room_for() {
        let log = Arc::new(History::in_memory([7; 16]).unwrap()).log("log").unwrap();
        let mut full = MarkSorter::with_room(0);
        full.add(&marks()[0]);
        assert!(Ledger::new(&log).may_have_pair(&full, |_, _| false).unwrap());
        assert!(!Ledger::new(&log).may_have_pair(&MarkSorter::default(), |_, _| true).unwrap());
    }
}

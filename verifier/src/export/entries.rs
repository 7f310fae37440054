//! The entries of an export, by run: in memory while they are few, in a scratch history from then on.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

#[cfg(feature = "cli")]
use crate::history::random_key;
use crate::history::{History, HistoryError, LOOSE_ENTRIES, LogHistory};
use crate::ledger::{Ledger, RunEntries, VisitRun, add_segment};
use crate::mark::Mark;

/// Memory for entries before they go into the scratch history, and for each further part of them.
const MEMORY_MAX: usize = 48 << 20;
/// What an entry takes in memory besides its bytes.
const OVERHEAD: usize = size_of::<Mark>() + size_of::<Place>() + 2 * size_of::<u32>();

/// An entry's index, and where its bytes are.
type Place = (u64, Range<usize>);

/// Where the entries of an export go when they are too many for memory.
#[derive(Debug)]
pub struct Spill {
    run_key: [u8; 16],
    open: fn([u8; 16]) -> Result<History, HistoryError>,
}

impl Spill {
    /// Into an unlinked temporary file.
    #[cfg(feature = "cli")]
    pub fn to_file() -> Self {
        Self { run_key: random_key(), open: |run_key| History::scratch_with(run_key, true) }
    }

    /// Into memory after all; `run_key` as for [`History::in_memory`].
    pub fn to_memory(run_key: [u8; 16]) -> Self {
        Self { run_key, open: History::in_memory }
    }
}

/// The entries of an export. They are added first, all of them, and looked up after [`Self::settle`].
#[derive(Debug)]
pub struct ExportEntries {
    spill: Spill,
    origin: String,
    memory_max: usize,
    /// Once some went there, all do.
    spilt: Option<LogHistory>,
    marks: Vec<Mark>,
    /// Where in `marks` those start whose run hash starts with the bits that are the place here, and where the last
    /// ones end: run hashes are as good as random, so few do.
    starts: Vec<u32>,
    /// A bit for each index: whether its mark is the only one of its run hash. Empty where an index is left out or
    /// comes again.
    alone: Vec<u64>,
    places: Vec<Place>,
    bytes: Vec<u8>,
}

impl ExportEntries {
    /// No entries yet of the log called `origin`.
    pub fn new(spill: Spill, origin: &str) -> Self {
        Self {
            spill,
            origin: origin.to_owned(),
            memory_max: MEMORY_MAX,
            spilt: None,
            marks: Vec::new(),
            starts: Vec::new(),
            alone: Vec::new(),
            places: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Adds an entry of a run.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn add(&mut self, mark: Mark, entry: &[u8]) -> Result<(), HistoryError> {
        self.marks.push(mark);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(entry);
        self.places.push((mark.index(), start..self.bytes.len()));
        if self.bytes.len() + self.marks.len() * OVERHEAD > self.memory_max { self.spill() } else { Ok(()) }
    }

    /// Puts in order what was added.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn settle(&mut self) -> Result<(), HistoryError> {
        if self.spilt.is_some() {
            self.spill()?;
            (self.marks, self.places, self.bytes) = (Vec::new(), Vec::new(), Vec::new());
        } else {
            self.marks.sort_unstable();
            self.starts = starts(&self.marks);
            // They are sorted already unless the export is damaged. Of entries of one index the last counts.
            self.places.sort_by_key(|(index, _)| *index);
            if (0..).zip(&self.places).all(|(place, (index, _))| place == *index) {
                self.alone = alone(&self.marks);
            }
        }
        Ok(())
    }

    /// The marks of `run`, once they are in order.
    fn marks_of(&self, run: u64) -> &[Mark] {
        let Some(buckets) = self.starts.len().checked_sub(1) else { return &[] };
        let bucket = bucket(run, buckets);
        let [start, end] = [bucket, bucket + 1].map(|at| self.starts[at] as usize);
        let near = &self.marks[start..end];
        let near = &near[near.partition_point(|mark| mark.run < run)..];
        &near[..near.partition_point(|mark| mark.run == run)]
    }

    fn spill(&mut self) -> Result<(), HistoryError> {
        let scratch = match self.spilt.take() {
            Some(scratch) => scratch,
            None => Arc::new((self.spill.open)(self.spill.run_key)?).log(&self.origin)?,
        };
        self.marks.sort_unstable();
        let write = scratch.history.begin_write()?;
        {
            let mut loose = write.open_table(LOOSE_ENTRIES)?;
            for (index, place) in self.places.drain(..) {
                loose.insert((scratch.number, index), &self.bytes[place])?;
            }
        }
        add_segment(&write, scratch.number, self.marks.iter().copied())?;
        write.commit()?;
        self.marks.clear();
        self.bytes.clear();
        self.spilt = Some(scratch);
        Ok(())
    }
}

/// Where the marks of each bucket start, and where the last one's end: about one mark a bucket.
fn starts(marks: &[Mark]) -> Vec<u32> {
    let buckets = marks.len().next_power_of_two();
    let mut starts = vec![0; buckets + 1];
    for mark in marks {
        starts[bucket(mark.run, buckets) + 1] += 1;
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    starts
}

/// A bit for each index below the number of marks, which are those of all these indexes.
fn alone(marks: &[Mark]) -> Vec<u64> {
    let mut alone = vec![0; marks.len().div_ceil(64)];
    for of_run in marks.chunk_by(|one, next| one.run == next.run) {
        if let [mark] = of_run
            && let Ok(index) = usize::try_from(mark.index())
        {
            alone[index / 64] |= 1 << (index % 64);
        }
    }
    alone
}

/// The bucket of a run hash among a power of two of them: its first bits.
fn bucket(run: u64, buckets: usize) -> usize {
    let bits = buckets.trailing_zeros();
    usize::try_from(run.checked_shr(u64::BITS - bits).unwrap_or(0)).expect("below the number of buckets")
}

impl RunEntries for ExportEntries {
    fn run_key(&self) -> &[u8; 16] {
        &self.spill.run_key
    }

    fn marks(&self, run: u64) -> Result<Cow<'_, [Mark]>, HistoryError> {
        if let Some(scratch) = &self.spilt {
            return RunEntries::marks(scratch, run);
        }
        Ok(Cow::Borrowed(self.marks_of(run)))
    }

    fn entry(&self, index: u64) -> Result<Option<Cow<'_, [u8]>>, HistoryError> {
        if let Some(scratch) = &self.spilt {
            return RunEntries::entry(scratch, index);
        }
        let holds = |at: usize| self.places.get(at).is_some_and(|(found, _)| *found == index);
        // Where no entry is left out or repeated, entry `n` stands on place `n`.
        let usual = usize::try_from(index).ok().filter(|at| holds(*at) && !holds(at + 1));
        let after = || self.places.partition_point(|(found, _)| *found <= index);
        let at = usual.or_else(|| after().checked_sub(1)).filter(|at| holds(*at));
        Ok(at.map(|at| Cow::Borrowed(&self.bytes[self.places[at].1.clone()])))
    }

    fn is_alone(&self, index: u64) -> bool {
        let word = usize::try_from(index / 64).ok().and_then(|at| self.alone.get(at));
        word.is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    fn for_each_run(&self, visit: &mut VisitRun<'_>) -> Result<(), HistoryError> {
        if let Some(scratch) = &self.spilt {
            return Ledger::new(scratch).for_each_run(0, visit);
        }
        self.marks.chunk_by(|one, next| one.run == next.run).try_for_each(|marks| visit(marks[0].run, marks))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mark::MarkKind;

    fn entries(memory_max: usize, added: &[(u64, u64, String)]) -> ExportEntries {
        let mut entries =
            ExportEntries { memory_max, ..ExportEntries::new(Spill::to_memory([7; 16]), "log") };
        for (run, index, entry) in added {
            let mark = Mark::new(*run, *index, MarkKind::Head, 1);
            entries.add(mark, entry.as_bytes()).unwrap();
        }
        entries.settle().unwrap();
        entries
    }

    fn walk(entries: &ExportEntries) -> Vec<(u64, Vec<Mark>)> {
        let mut walked = Vec::new();
        entries
            .for_each_run(&mut |run, marks| {
                walked.push((run, marks.to_vec()));
                Ok(())
            })
            .unwrap();
        walked
    }

    proptest! {
        #[test]
        fn entries_are_found_alike_in_memory_and_spilt(
            // Few distinct values, so that runs have several entries and indexes come twice; and many.
            added in prop::collection::vec((prop_oneof![0..4u64, any::<u64>()], 0..40u64, "[a-z]{1,9}"), 0..60),
            memory_max in 0..4_000usize,
        ) {
            // One index has one mark in a log; a damaged export may repeat both.
            let (memory, spilt) = (entries(usize::MAX, &added), entries(memory_max, &added));
            prop_assert!(memory.spilt.is_none());
            for index in 0..41 {
                let last = added.iter().rev().find(|(_, of, _)| *of == index);
                let expected = last.map(|(.., entry)| entry.as_bytes());
                assert_eq!(memory.entry(index).unwrap().as_deref(), expected);
                assert_eq!(spilt.entry(index).unwrap().as_deref(), expected);
            }
            for (run, ..) in added.iter().chain([&(5, 0, String::new())]) {
                let mut expected: Vec<u64> =
                    added.iter().filter(|(of, ..)| of == run).map(|(_, index, _)| *index).collect();
                expected.sort_unstable();
                let indexes = |entries: &ExportEntries| -> Vec<u64> {
                    RunEntries::marks(entries, *run).unwrap().iter().map(Mark::index).collect()
                };
                prop_assert_eq!(indexes(&memory), expected.clone());
                if !has_repeats(&added) {
                    prop_assert_eq!(indexes(&spilt), expected);
                }
            }
            if !has_repeats(&added) {
                prop_assert_eq!(walk(&memory), walk(&spilt));
            }
            for index in 0..41 {
                let of_index: Vec<u64> = added.iter().filter(|(_, of, _)| *of == index).map(|(run, ..)| *run).collect();
                let alone = of_index.len() == 1 && added.iter().filter(|(run, ..)| *run == of_index[0]).count() == 1;
                prop_assert!(!memory.is_alone(index) || alone);
                prop_assert!(!spilt.is_alone(index) || alone);
            }
        }
    }

    #[test]
    fn a_run_with_one_entry_is_known_to_have_no_other() {
        let added: Vec<_> = (0..200).map(|index| (index % 150, index, format!("entry {index}"))).collect();
        let entries = entries(usize::MAX, &added);
        let alone: Vec<u64> = (0..300).filter(|index| entries.is_alone(*index)).collect();
        assert_eq!(alone, (50..150).collect::<Vec<_>>());
    }

    fn has_repeats(added: &[(u64, u64, String)]) -> bool {
        let distinct: std::collections::HashSet<u64> = added.iter().map(|(_, index, _)| *index).collect();
        distinct.len() < added.len()
    }
}

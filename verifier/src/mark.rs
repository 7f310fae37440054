//! Marks: what an audit keeps of each entry of a run, and a great many of them in order.

use std::thread;

use runseal_evidence::name::{RunId, TenantId};

use crate::siphash;

/// Bytes of a packed mark.
pub(crate) const MARK_BYTES: usize = 24;

/// What an entry does to its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkKind {
    /// It pins the chain so far.
    Head,
    /// It freezes the run.
    Seal,
}

/// One entry of a run. Ordered by run, then by position in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Hash of tenant and run.
    pub run: u64,
    /// The entry's index and, in the lowest bit, what it does: an audit holds a million of these.
    pub(crate) position: u64,
    /// How many records it speaks for.
    pub records: u64,
}

impl Mark {
    /// The mark of the entry at `index`.
    pub const fn new(run: u64, index: u64, kind: MarkKind, records: u64) -> Self {
        // Sizes stay below 2^63, so one bit is free.
        let seal = match kind {
            MarkKind::Head => 0,
            MarkKind::Seal => 1,
        };
        Self { run, position: index << 1 | seal, records }
    }

    /// The entry's index.
    pub const fn index(&self) -> u64 {
        self.position >> 1
    }

    /// What it does.
    pub const fn kind(&self) -> MarkKind {
        if self.position & 1 == 1 { MarkKind::Seal } else { MarkKind::Head }
    }

    /// The hash a run is found by: SipHash-2-4 of tenant, a zero byte and run, under a secret key of this
    /// history. Without the key nobody can name two runs that share a hash.
    pub fn run_hash(key: &[u8; 16], tenant: &TenantId, run: &RunId) -> u64 {
        Self::name_hash(key, tenant.as_str(), run.as_str())
    }

    /// [`Self::run_hash`] of names that were checked where they stand.
    pub(crate) fn name_hash(key: &[u8; 16], tenant: &str, run: &str) -> u64 {
        // Both names have at most 64 bytes.
        let mut name = [0; 129];
        let (tenant, run) = (tenant.as_bytes(), run.as_bytes());
        let length = tenant.len() + 1 + run.len();
        name[..tenant.len()].copy_from_slice(tenant);
        name[tenant.len() + 1..length].copy_from_slice(run);
        siphash::hash(key, &name[..length])
    }

    pub(crate) fn pack(&self, out: &mut Vec<u8>) {
        for word in self.words() {
            out.extend_from_slice(&word.to_be_bytes());
        }
    }

    pub(crate) const fn words(&self) -> Words {
        [self.run, self.position, self.records]
    }

    const fn from_words(&[run, position, records]: &Words) -> Self {
        Self { run, position, records }
    }

    pub(crate) fn unpack(bytes: &[u8; MARK_BYTES]) -> Self {
        let word =
            |at: usize| u64::from_be_bytes(*bytes[at..].first_chunk().expect("three words of 8 bytes each"));
        Self { run: word(0), position: word(8), records: word(16) }
    }
}

/// A mark's three words, in the order that they are packed in.
pub(crate) type Words = [u64; 3];

/// Marks on their way into order: parted by the first bits of their run hash as they come, so that little is left
/// to sort in the end.
#[derive(Debug, Default)]
pub struct MarkSorter {
    /// Room for the marks of each bucket, one bucket after the other. Zeroed words take no memory until they are
    /// written, which marks would.
    buckets: Vec<Words>,
    room: usize,
    /// Marks in each bucket.
    filled: Vec<usize>,
    /// Those that their bucket had no room for.
    more: Vec<Words>,
}

/// Buckets: a thousand marks each where there are a million.
pub(crate) const BUCKETS: usize = 1 << BUCKET_BITS;
const BUCKET_BITS: u32 = 10;

/// The bucket of a run hash.
pub(crate) fn bucket_of(run: u64) -> usize {
    let [high, low, ..] = run.to_be_bytes();
    usize::from(u16::from_be_bytes([high, low]) >> (u16::BITS - BUCKET_BITS))
}

/// The first run hash of a bucket.
pub(crate) fn first_of_bucket(bucket: usize) -> u64 {
    (bucket as u64) << (u64::BITS - BUCKET_BITS)
}

impl MarkSorter {
    /// Room for about so many marks.
    pub fn with_room(marks: u64) -> Self {
        // Run hashes are as good as random: hardly a bucket gets that many more than its share.
        let share = usize::try_from(marks).unwrap_or(0) / BUCKETS;
        let room = if share == 0 { 0 } else { share + share / 4 + 16 };
        Self { buckets: vec![[0; 3]; room * BUCKETS], room, filled: vec![0; BUCKETS], more: Vec::new() }
    }

    /// Takes a mark.
    pub fn add(&mut self, mark: &Mark) {
        let bucket = bucket_of(mark.run);
        if self.filled.get(bucket).is_some_and(|filled| *filled < self.room) {
            self.buckets[bucket * self.room + self.filled[bucket]] = mark.words();
            self.filled[bucket] += 1;
        } else {
            self.more.push(mark.words());
        }
    }

    /// The marks of one bucket, in the order they came in. `None` where there was no room for all marks.
    pub(crate) fn bucket(&self, bucket: usize) -> Option<&[Words]> {
        let start = bucket * self.room;
        let filled = self.filled.get(bucket).copied().unwrap_or(0);
        self.more.is_empty().then(|| &self.buckets[start..start + filled])
    }

    /// Puts them in order, on two threads.
    pub fn sorted(mut self) -> SortedMarks {
        // One entry has one mark, so no two are equal in this, and it compares without a branch.
        let key = |words: &Words| u128::from(words[0]) << 64 | u128::from(words[1]);
        let room = self.room.max(1);
        let sort = |buckets: &mut [Words], filled: &[usize]| {
            for (bucket, filled) in buckets.chunks_mut(room).zip(filled) {
                bucket[..*filled].sort_unstable_by_key(key);
            }
        };
        let (first, second) = self.buckets.split_at_mut(self.room * (BUCKETS / 2));
        let (first_filled, second_filled) = self.filled.split_at(self.filled.len() / 2);
        thread::scope(|scope| {
            scope.spawn(move || sort(first, first_filled));
            sort(second, second_filled);
        });
        let sorted = SortedMarks { parts: self.buckets, room: self.room, filled: self.filled };
        if self.more.is_empty() {
            return sorted;
        }
        let mut all: Vec<Words> = sorted.parts().flatten().copied().chain(self.more).collect();
        // Most of it is in order already, which this sort makes use of.
        all.sort_by_key(key);
        SortedMarks { room: all.len(), filled: vec![all.len()], parts: all }
    }
}

/// Whether `holds` is true of any mark of a bucket, all of it in log order, and the next one of its run hash. `last` is
/// memory.
pub(crate) fn any_pair(bucket: &[Words], last: &mut Vec<u32>, holds: impl Fn(&Mark, &Mark) -> bool) -> bool {
    // Of each run hash, one more than the place of its last mark.
    last.clear();
    last.resize((2 * bucket.len()).next_power_of_two(), 0);
    let bits = last.len().trailing_zeros();
    (1..).zip(bucket).any(|(number, words)| {
        // All in this bucket have the first bits in common; the next ones are as good as random.
        let place = (words[0] << BUCKET_BITS).checked_shr(u64::BITS - bits).unwrap_or(0);
        let mut place = usize::try_from(place).expect("a few bits");
        while let Some(before) = last[place].checked_sub(1).map(|before| &bucket[before as usize]) {
            if before[0] == words[0] {
                last[place] = number;
                return holds(&Mark::from_words(before), &Mark::from_words(words));
            }
            place = (place + 1) % last.len();
        }
        last[place] = number;
        false
    })
}

/// Many marks in order.
#[derive(Debug, Default)]
pub struct SortedMarks {
    /// Parts of which no two have marks of one run, each with room for as many.
    parts: Vec<Words>,
    room: usize,
    filled: Vec<usize>,
}

impl SortedMarks {
    fn parts(&self) -> impl Iterator<Item = &[Words]> {
        self.parts.chunks(self.room.max(1)).zip(&self.filled).map(|(part, filled)| &part[..*filled])
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Mark> {
        self.parts().flatten().map(Mark::from_words)
    }

    /// Hands the marks of each run hash to `visit`.
    ///
    /// # Errors
    /// The visitor's.
    pub fn for_each_run<E>(&self, mut visit: impl FnMut(u64, &[Mark]) -> Result<(), E>) -> Result<(), E> {
        let mut of_run = Vec::new();
        for run in self.parts().flat_map(|part| part.chunk_by(|one, next| one[0] == next[0])) {
            of_run.clear();
            of_run.extend(run.iter().map(Mark::from_words));
            visit(run[0][0], &of_run)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks of many runs, and of a few runs over and over, in log order.
    fn marks(count: u64, of_few: u64) -> Vec<Mark> {
        let hash = |run: u64| siphash::hash(&[7; 16], &run.to_be_bytes());
        (0..count)
            .map(|index| {
                let run = if index.is_multiple_of(4) { index % of_few } else { index };
                let kind = if index % 3 == 0 { MarkKind::Seal } else { MarkKind::Head };
                Mark::new(hash(run), index, kind, index + 1)
            })
            .collect()
    }

    #[test]
    fn marks_come_back_in_order_whatever_room_was_made_for() {
        for (count, of_few) in [(0, 1), (1, 1), (5_000, 2), (50_000, 50), (50_000, 1)] {
            let marks = marks(count, of_few);
            let mut expected = marks.clone();
            expected.sort_by_key(|mark| (mark.run, mark.index()));
            for room in [0, 1, 2 * count, 8 * count] {
                let mut sorter = MarkSorter::with_room(room);
                for mark in &marks {
                    sorter.add(mark);
                }
                let sorted = sorter.sorted();
                assert!(sorted.iter().eq(expected.iter().copied()), "{count} of {of_few}, room {room}");
                let mut runs = expected.chunk_by(|one, next| one.run == next.run);
                let visit = |run: u64, marks: &[Mark]| {
                    let expected = runs.next().unwrap();
                    if (run, marks) == (expected[0].run, expected) { Ok(()) } else { Err(run) }
                };
                assert_eq!(sorted.for_each_run(visit), Ok(()));
                assert_eq!(runs.next(), None);
            }
        }
    }

    #[test]
    fn a_packed_mark_is_the_mark() {
        for kind in [MarkKind::Head, MarkKind::Seal] {
            let mark = Mark::new(u64::MAX - 5, (1 << 63) - 1, kind, 1 << 52);
            let mut packed = Vec::new();
            mark.pack(&mut packed);
            assert_eq!(packed.len(), MARK_BYTES);
            assert_eq!(Mark::unpack(packed.first_chunk().unwrap()), mark);
            assert_eq!((mark.index(), mark.kind()), ((1 << 63) - 1, kind));
        }
    }
}

//! Where the steps of one run are, by the hashes of their keys.
//!
//! What opening reads is sorted once; what is appended later stands in a tree beside it. About 40 bytes a step that
//! was read, and 60 a step that was appended.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use runseal_evidence::steps::{Mark, StepDigest, StepKey};

/// The places of a run's steps. Nothing is ever removed.
#[derive(Default)]
pub(super) struct Places {
    /// By their hashes, once sorted.
    read: Vec<(KeyHash, Place)>,
    appended: BTreeMap<(KeyHash, u64), Place>,
}

/// Hashes keys, as drawn for this handle, so that nobody can choose keys that meet.
#[derive(Default)]
pub(super) struct KeyHashing(RandomState);

/// A key under its hash: 64 bits, and confirmed by reading the frame at the place found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyHash(u64);

/// Where a step is, and enough of its payload to know it again.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) at: u64,
    pub(super) payload_bytes: u32,
    digest: [u8; 16],
}

impl KeyHashing {
    pub(super) fn hash(&self, key: &StepKey) -> KeyHash {
        KeyHash(self.0.hash_one(key))
    }
}

impl Place {
    /// A frame at offset `at`.
    pub(super) fn new(at: u64, payload_bytes: u32, digest: &StepDigest) -> Self {
        Self { at, payload_bytes, digest: half(digest) }
    }

    /// True where the payload here has this digest.
    pub(super) fn holds(&self, digest: &StepDigest) -> bool {
        self.digest == half(digest)
    }
}

/// 128 bits: no other payload will be found that shares them with one that is recorded.
fn half(digest: &StepDigest) -> [u8; 16] {
    let (half, _) = digest.as_bytes().split_first_chunk().expect("a digest has 32 bytes");
    *half
}

impl Places {
    pub(super) fn count(&self) -> u64 {
        (self.read.len() + self.appended.len()) as u64
    }

    /// Where a step of this key may be: nowhere, or with overwhelming likelihood at one place.
    pub(super) fn at(&self, hash: KeyHash) -> impl Iterator<Item = Place> {
        let start = self.read.partition_point(|(other, _)| *other < hash);
        let read = self.read[start..].iter().take_while(move |(other, _)| *other == hash);
        let appended = self.appended.range((hash, 0)..=(hash, u64::MAX));
        read.map(|(_, place)| *place).chain(appended.map(|(_, place)| *place))
    }

    /// Enters a step whose key is not here yet.
    pub(super) fn append(&mut self, hash: KeyHash, place: Place) {
        self.appended.insert((hash, place.at), place);
    }

    /// Takes a step as it is read; none is found before all are sorted.
    pub(super) fn read(&mut self, hash: KeyHash, place: Place) {
        self.read.push((hash, place));
    }

    /// Sorts the steps that were read. Of those that share a hash, the earlier stands first.
    pub(super) fn sort(&mut self) {
        self.read.sort_unstable_by_key(|(hash, place)| (*hash, place.at));
    }

    /// The steps that were read and share their hash with others: of one key, but for a chance in 2^64.
    pub(super) fn meeting(&self) -> impl Iterator<Item = &[(KeyHash, Place)]> {
        self.read.chunk_by(|(one, _), (other, _)| one == other).filter(|meeting| meeting.len() > 1)
    }

    /// The marks of all steps, in the order they were recorded.
    pub(super) fn marks(&self) -> Vec<Mark> {
        let places = self.iter().map(|place| (place.at, Mark::of_start(&place.digest)));
        let mut marks: Vec<_> = places.collect();
        marks.sort_unstable_by_key(|(at, _)| *at);
        marks.into_iter().map(|(_, mark)| mark).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Place> {
        self.read.iter().map(|(_, place)| place).chain(self.appended.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(at: u64) -> Place {
        Place::new(at, 0, &StepDigest::of(&at.to_be_bytes()))
    }

    fn found(places: &Places, hash: u64) -> Vec<u64> {
        places.at(KeyHash(hash)).map(|place| place.at).collect()
    }

    #[test]
    fn steps_are_found_whether_they_were_read_or_appended() {
        let mut places = Places::default();
        for at in (0..50).rev() {
            places.read(KeyHash(at * 7), place(at));
        }
        places.sort();
        (50..100).for_each(|at| places.append(KeyHash(at * 7), place(at)));
        assert_eq!(places.count(), 100);
        for at in 0..100 {
            assert_eq!(found(&places, at * 7), [at]);
            assert!(found(&places, at * 7 + 1).is_empty());
        }
        assert_eq!(places.meeting().count(), 0);
    }

    #[test]
    fn steps_that_share_a_hash_are_all_found_the_earlier_first() {
        let mut places = Places::default();
        for (hash, at) in [(7, 3), (5, 2), (7, 1)] {
            places.read(KeyHash(hash), place(at));
        }
        places.sort();
        places.append(KeyHash(7), place(5));
        places.append(KeyHash(7), place(4));
        assert_eq!(found(&places, 7), [1, 3, 4, 5]);
        let meeting: Vec<Vec<u64>> =
            places.meeting().map(|places| places.iter().map(|(_, place)| place.at).collect()).collect();
        assert_eq!(meeting, [[1, 3]]);
    }

    #[test]
    fn marks_stand_in_the_order_of_the_file() {
        let mut places = Places::default();
        places.read(KeyHash(1), place(2));
        places.read(KeyHash(2), place(1));
        places.sort();
        places.append(KeyHash(0), place(3));
        let expected: Vec<_> =
            [1u64, 2, 3].iter().map(|at| Mark::of(&StepDigest::of(&at.to_be_bytes()))).collect();
        assert_eq!(places.marks(), expected);
    }
}

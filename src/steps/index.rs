//! Where the steps are. Values stay in the file.
//!
//! About 60 bytes a step and 1 KiB a run: a key is kept as a hash of 64 bits, and confirmed by reading the
//! frame it points to. A key whose hash is taken by another stands at the next free one; nothing is ever removed.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

use runseal_evidence::name::RunId;
use runseal_evidence::steps::{KnownRun, Mark, RunHead, StepDigest, StepKey};

/// Every run and step of a store, as far as they are synced.
pub(super) struct Index {
    runs: HashMap<RunId, Run>,
    hashing: RandomState,
    committed_bytes: u64,
}

/// A run with its steps.
pub(super) struct Run {
    pub(super) known: KnownRun,
    pub(super) head: RunHead,
    places: BTreeMap<KeyHash, Place>,
}

/// A key under a hash drawn for this handle, so that nobody can choose keys that meet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyHash(u64);

/// Where a step may be, and enough of its payload to know it again.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) at: u64,
    pub(super) payload_bytes: u32,
    digest: [u8; 16],
}

impl KeyHash {
    fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
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

impl Index {
    /// The index of a file of which `committed_bytes` are read.
    pub(super) fn new(committed_bytes: u64) -> Self {
        Self { runs: HashMap::new(), hashing: RandomState::new(), committed_bytes }
    }

    pub(super) fn hash(&self, key: &StepKey) -> KeyHash {
        KeyHash(self.hashing.hash_one(key))
    }

    pub(super) fn run(&self, run: &RunId) -> Option<&Run> {
        self.runs.get(run)
    }

    /// The run, made where it is new.
    pub(super) fn run_or_insert(
        &mut self,
        run: &RunId,
        first: impl FnOnce() -> (KnownRun, RunHead),
    ) -> &mut Run {
        if !self.runs.contains_key(run) {
            let (known, head) = first();
            self.runs.insert(run.clone(), Run { known, head, places: BTreeMap::new() });
        }
        self.runs.get_mut(run).expect("inserted where it was absent")
    }

    pub(super) fn committed_bytes(&self) -> u64 {
        self.committed_bytes
    }

    pub(super) fn commit(&mut self, committed_bytes: u64) {
        self.committed_bytes = committed_bytes;
    }
}

impl Run {
    /// Enters a step at the first free place for its hash; `same` says whether the step at a place taken is of
    /// the same key, which ends the search.
    ///
    /// # Errors
    /// The place of the step that has this key already.
    pub(super) fn insert(
        &mut self,
        mut hash: KeyHash,
        place: Place,
        same: impl Fn(Place) -> bool,
    ) -> Result<(), Place> {
        loop {
            match self.places.entry(hash) {
                Entry::Vacant(free) => {
                    free.insert(place);
                    return Ok(());
                }
                Entry::Occupied(taken) if same(*taken.get()) => return Err(*taken.get()),
                Entry::Occupied(_) => hash = hash.next(),
            }
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.places.len() as u64
    }

    /// Where a step of this key may be: nowhere, or with overwhelming likelihood at one place.
    pub(super) fn places(&self, hash: KeyHash) -> impl Iterator<Item = Place> {
        let hashes = std::iter::successors(Some(hash), |hash| Some(hash.next()));
        hashes.map_while(|hash| self.places.get(&hash).copied())
    }

    /// The marks of all steps, in the order they were recorded.
    pub(super) fn marks(&self) -> Vec<Mark> {
        let mut marks: Vec<_> =
            self.places.values().map(|place| (place.at, Mark::of_start(&place.digest))).collect();
        marks.sort_unstable_by_key(|(at, _)| *at);
        marks.into_iter().map(|(_, mark)| mark).collect()
    }
}

//! Rows in memory, over what is below them, as they were after each frame.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::store::engine::{Direction, Read, Scanned};
use crate::store::error::EngineError;
use crate::store::key::KeyRange;
use crate::store::merge::merge;
use crate::store::overlay::Writes;

/// A row's value, none where it was deleted.
type Value = Option<Vec<u8>>;

/// The rows of many frames. Frames are added by one thread, while others read what earlier ones left.
#[derive(Default)]
pub(super) struct Layer(RwLock<BTreeMap<Vec<u8>, Versions>>);

/// What one row was, from which frame on; the newest last, never empty.
struct Versions {
    older: Vec<(u64, Value)>,
    newest: (u64, Value),
}

impl Versions {
    /// The row as frame `seen` left it. None where no frame up to it wrote the row.
    fn at(&self, seen: u64) -> Option<&Value> {
        if self.newest.0 <= seen {
            return Some(&self.newest.1);
        }
        let after = self.older.partition_point(|(number, _)| *number <= seen);
        after.checked_sub(1).map(|last| &self.older[last].1)
    }

    fn push(&mut self, number: u64, value: Value) {
        self.older.push(std::mem::replace(&mut self.newest, (number, value)));
    }
}

impl Layer {
    fn rows(&self) -> RwLockReadGuard<'_, BTreeMap<Vec<u8>, Versions>> {
        // No code runs under this lock that can panic.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the rows of frame `number`, which is newer than those here.
    pub(super) fn add(&self, number: u64, writes: Writes) {
        let mut rows = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in writes {
            match rows.entry(key) {
                Entry::Occupied(mut row) => row.get_mut().push(number, value),
                Entry::Vacant(row) => {
                    row.insert(Versions { older: Vec::new(), newest: (number, value) });
                }
            }
        }
    }

    /// The newest of every row.
    pub(super) fn newest(&self) -> Writes {
        self.rows().iter().map(|(key, versions)| (key.clone(), versions.newest.1.clone())).collect()
    }

    /// The rows of `range` as frame `seen` left them.
    fn cursor<'a>(&'a self, seen: u64, range: &KeyRange, direction: Direction) -> Cursor<'a> {
        Cursor {
            layer: self,
            seen,
            direction,
            left: Some(range.clone()),
            ready: VecDeque::new(),
            chunk: FIRST_CHUNK,
        }
    }
}

/// Rows read at a time: a few for who wants one row, many for who reads on.
const FIRST_CHUNK: usize = 4;
const LAST_CHUNK: usize = 256;

/// Rows in order. The lock is held while a few are copied, and not while anybody looks at them.
struct Cursor<'a> {
    layer: &'a Layer,
    seen: u64,
    direction: Direction,
    /// What is still to be read.
    left: Option<KeyRange>,
    ready: VecDeque<(Vec<u8>, Value)>,
    chunk: usize,
}

impl Cursor<'_> {
    fn fill(&mut self) {
        let Some(mut left) = self.left.take() else { return };
        let rows = self.layer.rows();
        let range = rows.range::<Vec<u8>, _>(&left.lower..&left.upper);
        let seen = self.seen;
        let visible = |(key, versions): (&Vec<u8>, &Versions)| {
            versions.at(seen).map(|value| (key.clone(), value.clone()))
        };
        match self.direction {
            Direction::Ascending => self.ready.extend(range.filter_map(visible).take(self.chunk)),
            Direction::Descending => self.ready.extend(range.rev().filter_map(visible).take(self.chunk)),
        }
        drop(rows);
        if self.ready.len() == self.chunk
            && let Some((last, _)) = self.ready.back()
        {
            match self.direction {
                // The lowest key above the last one.
                Direction::Ascending => left.lower = [last, &[0][..]].concat(),
                Direction::Descending => left.upper.clone_from(last),
            }
            self.left = Some(left).filter(|left| !left.is_empty());
        }
        self.chunk = (self.chunk * 4).min(LAST_CHUNK);
    }
}

impl Iterator for Cursor<'_> {
    type Item = (Vec<u8>, Value);

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() {
            self.fill();
        }
        self.ready.pop_front()
    }
}

/// A layer as frame `seen` left it, over what is below.
pub(super) struct Over<'a> {
    pub(super) layer: &'a Layer,
    pub(super) seen: u64,
    pub(super) below: &'a dyn Read,
}

impl Read for Over<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        let rows = self.layer.rows();
        if let Some(value) = rows.get(key).and_then(|versions| versions.at(self.seen)) {
            return Ok(value.clone());
        }
        drop(rows);
        self.below.get(key)
    }

    fn scan(
        &self,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Scanned,
    ) -> Result<(), EngineError> {
        if range.is_empty() {
            return Ok(());
        }
        merge(self.below, self.layer.cursor(self.seen, range, direction), range, direction, visit)
    }
}

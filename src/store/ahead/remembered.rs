//! What the storage thread read from the tables, while they stay as they are.
//!
//! Commands ask for the same rows again and again (a lease), and for the next of many that are not there (the place
//! of a record that is about to be written). Both cost a walk down the tables' tree each time. A row that was found
//! is remembered, and of one that was not, the gap between its neighbours that it fell in.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use crate::store::engine::{Direction, Read, Scanned};
use crate::store::error::EngineError;
use crate::store::key::KeyRange;

/// Rows and gaps remembered at most, of each; then all are forgotten.
const MOST: usize = 4096;
/// A longer value is not kept: rows of runs are longer, change with each command, and are found in a layer then.
const VALUE_BYTES_MAX: usize = 96;
/// Above every key: they start with the length of a name, which has at most 64 bytes.
const ABOVE: [u8; 1] = [0xff];

/// Tables at one moment, with a memory.
pub(super) struct Remembered {
    rows: Arc<dyn Read + Send + Sync>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    found: HashMap<Vec<u8>, Vec<u8>>,
    /// From a key that is not there to the next that is.
    gaps: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// What is known of a key.
enum Known {
    /// Its row.
    Row(Vec<u8>),
    /// That it has none.
    Vacant,
    Nothing,
}

impl Memory {
    fn recall(&self, key: &[u8]) -> Known {
        if let Some(value) = self.found.get(key) {
            return Known::Row(value.clone());
        }
        let before = self.gaps.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        let vacant = before.is_some_and(|(_, next)| key < next.as_slice());
        if vacant { Known::Vacant } else { Known::Nothing }
    }

    fn remember(&mut self, key: &[u8], value: &[u8]) {
        if value.len() <= VALUE_BYTES_MAX {
            if self.found.len() >= MOST {
                self.found.clear();
            }
            self.found.insert(key.to_vec(), value.to_vec());
        }
    }

    fn remember_gap(&mut self, key: &[u8], next: Vec<u8>) {
        if self.gaps.len() >= MOST {
            self.gaps.clear();
        }
        self.gaps.insert(key.to_vec(), next);
    }
}

impl Remembered {
    pub(super) fn new(rows: Arc<dyn Read + Send + Sync>) -> Self {
        Self { rows, memory: Mutex::default() }
    }
}

impl Read for Remembered {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        // What a panic left half written is a fact all the same.
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match memory.recall(key) {
            Known::Row(value) => return Ok(Some(value)),
            Known::Vacant => return Ok(None),
            Known::Nothing => {}
        }
        if let Some(value) = self.rows.get(key)? {
            memory.remember(key, &value);
            return Ok(Some(value));
        }
        let range = KeyRange { lower: key.to_vec(), upper: ABOVE.to_vec() };
        let mut next = range.upper.clone();
        self.rows.scan(&range, Direction::Ascending, &mut |at, _| {
            next = at.to_vec();
            Scanned::Break(())
        })?;
        memory.remember_gap(key, next);
        Ok(None)
    }

    fn scan(
        &self,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Scanned,
    ) -> Result<(), EngineError> {
        self.rows.scan(range, direction, visit)
    }
}

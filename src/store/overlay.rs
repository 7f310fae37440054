//! Writes that are not yet part of what they are written over.

use std::collections::BTreeMap;

use super::engine::{Direction, Read, Scanned};
use super::error::EngineError;
use super::key::KeyRange;
use super::merge::merge;

/// Rows to put, and, without a value, rows to delete.
pub(crate) type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A transaction inside another: it reads its own writes and, below them, what it lies over.
///
/// Dropping it leaves no trace, which is how a refused command is undone.
pub(crate) struct Overlay<'a> {
    below: &'a dyn Read,
    writes: Writes,
}

impl<'a> Overlay<'a> {
    /// No writes, over `below`.
    pub(crate) fn over(below: &'a dyn Read) -> Self {
        Self { below, writes: Writes::new() }
    }

    /// Writes a row.
    pub(crate) fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.writes.insert(key, Some(value));
    }

    /// Deletes a row, which need not exist.
    pub(crate) fn delete(&mut self, key: Vec<u8>) {
        self.writes.insert(key, None);
    }

    /// Whether anything was written.
    pub(crate) fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Takes up the writes of an overlay that lay over this one.
    pub(crate) fn absorb(&mut self, writes: Writes) {
        if self.writes.is_empty() {
            self.writes = writes;
        } else {
            self.writes.extend(writes);
        }
    }

    /// What was written.
    pub(crate) fn into_writes(self) -> Writes {
        self.writes
    }
}

impl Read for Overlay<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        match self.writes.get(key) {
            Some(written) => Ok(written.clone()),
            None => self.below.get(key),
        }
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
        let own = self.writes.range::<Vec<u8>, _>(&range.lower..&range.upper);
        let own = own.map(|(key, value)| (key.as_slice(), value.as_deref()));
        match direction {
            Direction::Ascending => merge(self.below, own, range, direction, visit),
            Direction::Descending => merge(self.below, own.rev(), range, direction, visit),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    struct Rows(BTreeMap<Vec<u8>, Vec<u8>>);

    impl Read for Rows {
        fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
            Ok(self.0.get(key).cloned())
        }

        fn scan(
            &self,
            range: &KeyRange,
            direction: Direction,
            visit: &mut dyn FnMut(&[u8], &[u8]) -> Scanned,
        ) -> Result<(), EngineError> {
            let rows = self.0.range::<Vec<u8>, _>(&range.lower..&range.upper);
            let mut rows: Vec<_> = rows.collect();
            if direction == Direction::Descending {
                rows.reverse();
            }
            let _ = rows.into_iter().try_for_each(|(key, value)| visit(key, value));
            Ok(())
        }
    }

    fn scanned(overlay: &Overlay<'_>, direction: Direction, limit: usize) -> String {
        let range = KeyRange { lower: b"a".to_vec(), upper: b"z".to_vec() };
        let mut seen = String::new();
        overlay
            .scan(&range, direction, &mut |key, value| {
                seen.push_str(std::str::from_utf8(key).unwrap());
                seen.push_str(std::str::from_utf8(value).unwrap());
                seen.push(' ');
                if seen.split_whitespace().count() == limit {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap();
        seen
    }

    #[test]
    fn a_scan_merges_writes_over_what_lies_below_in_both_directions() {
        let rows = Rows(["b", "d", "f"].map(|key| (key.into(), b"0".to_vec())).into());
        let mut batch = Overlay::over(&rows);
        batch.put(b"a".into(), b"1".into());
        batch.put(b"d".into(), b"1".into());
        batch.delete(b"f".into());
        let mut own = Overlay::over(&batch);
        own.put(b"g".into(), b"2".into());
        own.put(b"f".into(), b"2".into());
        own.delete(b"b".into());
        assert_eq!(scanned(&own, Direction::Ascending, 9), "a1 d1 f2 g2 ");
        assert_eq!(scanned(&own, Direction::Descending, 9), "g2 f2 d1 a1 ");
        assert_eq!(scanned(&own, Direction::Ascending, 2), "a1 d1 ");
        assert_eq!(scanned(&own, Direction::Descending, 1), "g2 ");
        assert_eq!(own.get(b"b").unwrap(), None);
        assert_eq!(own.get(b"d").unwrap(), Some(b"1".to_vec()));
        drop(own);
        assert_eq!(scanned(&batch, Direction::Ascending, 9), "a1 b0 d1 ");
    }
}

//! Sets of rows compared without holding either.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A keyed hash of rows. The keys are drawn anew for each check, so nobody can choose rows to collide.
pub(super) struct RowHash([RandomState; 2]);

impl RowHash {
    pub(super) fn new() -> Self {
        Self([RandomState::new(), RandomState::new()])
    }

    /// The hash of one row, whose key and value `row` spells so that they can be told apart.
    fn of(&self, row: &[u8]) -> u128 {
        let [high, low] = &self.0;
        let half = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            hasher.write(row);
            u128::from(hasher.finish())
        };
        half(high) << 64 | half(low)
    }
}

/// A set of rows: how many, and the sum of their hashes, which does not depend on their order.
///
/// Two different sets have the same sum with a probability of about one in 2^128.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) rows: u64,
    sum: u128,
}

impl Tally {
    /// Takes up a row, `buffer` being for its spelling.
    pub(super) fn add(&mut self, hash: &RowHash, buffer: &mut Vec<u8>, key: &[&[u8]], value: &[u8]) {
        buffer.clear();
        let length = key.iter().map(|part| part.len()).sum::<usize>();
        buffer.extend_from_slice(&length.to_le_bytes());
        for part in key {
            buffer.extend_from_slice(part);
        }
        buffer.extend_from_slice(value);
        self.rows += 1;
        self.sum = self.sum.wrapping_add(hash.of(buffer));
    }

    /// Counts a row that is known by other means.
    pub(super) fn count(&mut self) {
        self.rows += 1;
    }

    /// Takes up another set.
    pub(super) fn join(&mut self, other: Self) {
        self.rows += other.rows;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(hash: &RowHash, rows: &[(&str, &str)]) -> Tally {
        let mut tally = Tally::default();
        for (key, value) in rows {
            tally.add(hash, &mut Vec::new(), &[key.as_bytes()], value.as_bytes());
        }
        tally
    }

    #[test]
    fn equal_sets_agree_in_any_order_and_cut_anywhere() {
        let hash = RowHash::new();
        let one = tally(&hash, &[("a", "1"), ("b", "2"), ("c", "")]);
        let mut joined = tally(&hash, &[("c", "")]);
        joined.join(tally(&hash, &[("b", "2"), ("a", "1")]));
        assert_eq!(one, joined);
        let mut parts = Tally::default();
        parts.add(&hash, &mut Vec::new(), &[b"run", &[0], b"x"], b"v");
        assert_eq!(parts, tally(&hash, &[("run\0x", "v")]));
    }

    #[test]
    fn every_other_set_differs() {
        let hash = RowHash::new();
        let set = tally(&hash, &[("a", "1"), ("b", "2")]);
        for other in [
            &[("a", "1")][..],
            &[("a", "1"), ("b", "3")],
            &[("a", "2"), ("b", "1")],
            &[("a1", ""), ("b", "2")],
            &[("", "a1"), ("b", "2")],
            &[("a", "1"), ("b", "2"), ("", "")],
            &[("a", "1"), ("a", "1")],
        ] {
            assert_ne!(tally(&hash, other), set, "{other:?}");
        }
        assert_ne!(tally(&RowHash::new(), &[("a", "1"), ("b", "2")]), set, "keys are drawn anew");
    }
}

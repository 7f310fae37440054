//! Scans: one that may fail at each row, and one that waits while another goes on.

use crate::store::{Direction, EngineError, KeyRange, Read, Scanned, Space, StoreError};

/// Shows `row` every row of `range`, by its own key, until it fails.
pub(super) fn each(
    rows: &dyn Read,
    space: &Space,
    range: &KeyRange,
    mut row: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut failed = None;
    rows.scan(range, Direction::Ascending, &mut |key, value| match row(space.own(key), value) {
        Ok(()) => Scanned::Continue(()),
        Err(error) => {
            failed = Some(error);
            Scanned::Break(())
        }
    })?;
    failed.map_or(Ok(()), Err)
}

/// A row: its own key, and its value.
pub(super) type Row<'r> = (&'r [u8], &'r [u8]);

/// Rows read ahead, one behind the other in one piece of memory.
#[derive(Debug, Default)]
pub(super) struct Page {
    bytes: Vec<u8>,
    /// Where each row's key ends, and its value.
    ends: Vec<(usize, usize)>,
}

impl Page {
    /// The first rows of `range`, as far as `limit`; and what is left of the range, if anything is.
    pub(super) fn read(
        rows: &dyn Read,
        space: &Space,
        range: KeyRange,
        limit: usize,
    ) -> Result<(Self, Option<KeyRange>), EngineError> {
        let mut page = Self::default();
        let mut next = None;
        rows.scan(&range, Direction::Ascending, &mut |key, value| {
            if page.ends.len() == limit {
                next = Some(key.to_vec());
                return Scanned::Break(());
            }
            page.bytes.extend_from_slice(space.own(key));
            let key_end = page.bytes.len();
            page.bytes.extend_from_slice(value);
            page.ends.push((key_end, page.bytes.len()));
            Scanned::Continue(())
        })?;
        Ok((page, next.map(|next| range.from(next))))
    }

    /// The rows, in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.ends.len()).filter_map(|at| self.row(at))
    }

    fn row(&self, at: usize) -> Option<Row<'_>> {
        let (key_end, end) = *self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        Some((&self.bytes[start..key_end], &self.bytes[key_end..end]))
    }
}

/// The rows of a range, one after the other as they are asked for, so that tables can be walked side by side.
pub(super) struct Rows<'c> {
    from: &'c dyn Read,
    space: Space,
    page: Page,
    at: usize,
    rest: Option<KeyRange>,
    /// Bytes of keys and values read so far.
    pub(super) held: u64,
}

/// Rows read at once.
const PAGE: usize = 1024;

impl<'c> Rows<'c> {
    pub(super) fn new(rows: &'c dyn Read, space: Space, range: KeyRange) -> Self {
        Self { from: rows, space, page: Page::default(), at: 0, rest: Some(range), held: 0 }
    }

    /// Those of a page that was read already.
    pub(super) fn of_page(rows: &'c dyn Read, space: Space, page: Page) -> Self {
        let held = page.bytes.len() as u64;
        Self { from: rows, space, page, at: 0, rest: None, held }
    }

    /// The row at hand: its own key, and its value.
    pub(super) fn peek(&mut self) -> Result<Option<Row<'_>>, EngineError> {
        if self.at == self.page.ends.len()
            && let Some(range) = self.rest.take()
        {
            (self.page, self.rest) = Page::read(self.from, &self.space, range, PAGE)?;
            self.at = 0;
            self.held += self.page.bytes.len() as u64;
        }
        Ok(self.page.row(self.at))
    }

    /// Goes on to the next row.
    pub(super) fn pass(&mut self) {
        self.at += 1;
    }
}

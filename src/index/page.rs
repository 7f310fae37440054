//! Reading a page of an index: bounded, in order, and not one row skipped.

use crate::store::{Direction, KeyRange, Read, Scanned, StoreError};

/// The first `limit` rows of `range`, each turned into a `T`. A row that cannot be is the page's error.
pub(crate) fn page<T>(
    rows: &dyn Read,
    range: &KeyRange,
    direction: Direction,
    limit: usize,
    mut read: impl FnMut(&[u8], &[u8]) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut page = Vec::new();
    let mut failed = None;
    if limit == 0 {
        return Ok(page);
    }
    rows.scan(range, direction, &mut |key, value| {
        match read(key, value) {
            Ok(item) => page.push(item),
            Err(error) => failed = Some(error),
        }
        if failed.is_some() || page.len() == limit { Scanned::Break(()) } else { Scanned::Continue(()) }
    })?;
    failed.map_or(Ok(page), Err)
}

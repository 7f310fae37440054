//! Head entries: the chains of open runs, pinned in the log so that a cut tail shows.

use runseal_evidence::entry::{Entry, Head, RecordCount};
use runseal_evidence::name::RunId;

use super::append::Writer;
use super::run::{RunRow, run_row, stored_run};
use crate::index;
use crate::log;
use crate::store::{Corruption, Direction, Fault, Overlay, Read, Scanned, Scope, Space, StoreError, Table};

/// Logs one head for each of at most `limit` open runs that have grown since their last, by id. Answers how
/// many.
pub(crate) fn pin(tx: &mut Overlay<'_>, writer: Writer<'_>, limit: usize) -> Result<usize, StoreError> {
    let Writer { tenant, scope, .. } = writer;
    let space = Space::of(scope, Table::Unpinned);
    let mut grown = Vec::new();
    tx.scan(&space.all(), Direction::Ascending, &mut |key, _| {
        grown.push(space.own(key).to_vec());
        if grown.len() < limit { Scanned::Continue(()) } else { Scanned::Break(()) }
    })?;
    for stored in &grown {
        let run = stored_run(scope, "unpinned run", stored)?;
        let corrupt = |fault| Corruption::in_scope(scope, "unpinned run", fault).of_run(&run);
        let row = run_row(tx, scope, &run)?.ok_or_else(|| corrupt(Fault::Unaccounted))?;
        if !row.is_unpinned() {
            return Err(corrupt(Fault::Unaccounted).into());
        }
        let records = RecordCount::new(row.records)
            .ok_or_else(|| corrupt(Fault::contradiction("records", row.records, "at most 2^53-1")))?;
        let head = Head { chain: row.chain, records, run: run.clone(), tenant: tenant.clone() };
        let index = log::append_entry(tx, scope, &Entry::Head(head).encode())?;
        let heads = Space::of(scope, Table::Heads);
        tx.put(heads.key(&[run.as_str().as_bytes(), &[0], &index.to_be_bytes()]), Vec::new());
        index::unpin(tx, scope, &run);
        index::put_run(tx, scope, &run, &RunRow { pinned: row.records, ..row });
    }
    Ok(grown.len())
}

/// The log indexes of the heads of `run` below `size`, ascending.
pub(crate) fn heads(rows: &dyn Read, scope: &Scope, run: &RunId, size: u64) -> Result<Vec<u64>, StoreError> {
    let space = Space::of(scope, Table::Heads);
    let of_run: &[&[u8]] = &[run.as_str().as_bytes(), &[0]];
    let end = space.key(&[run.as_str().as_bytes(), &[0], &size.to_be_bytes()]);
    let mut indexes = Vec::new();
    rows.scan(&space.starting_with(of_run).before(end), Direction::Ascending, &mut |key, _| {
        indexes.push(key.last_chunk().map_or(u64::MAX, |index| u64::from_be_bytes(*index)));
        Scanned::Continue(())
    })?;
    Ok(indexes)
}

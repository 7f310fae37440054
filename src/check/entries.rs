//! The log: each entry against the run it is about, and the tree built again from the entries.

use runseal_evidence::entry::{Entry, EntryError, EntryFault, Head, Recognised, Seal};
use runseal_evidence::name::{RunId, TenantId};
use runseal_tlog::checkpoint::SignedCheckpoint;
use runseal_tlog::hash::LeafHash;
use runseal_tlog::key::VerifierKey;
use runseal_tlog::tile::Tile;

use super::account::{differs, with_seal};
use super::ledger::{Derived, Ledger, Mode};
use super::rows::{Page, each};
use super::tiles::{Tiles, no_others, same};
use super::{Counts, PROGRESS_ROWS, Subject};
use crate::chain;
use crate::log::{self, ProofError};
use crate::store::{Corruption, Fault, Read, Scope, Space, StoreError, Table};

/// Checkpoints read at once.
const NOTES: usize = 64;

/// Every entry of a tenant's log, and the tree over them.
pub(super) fn entries(
    of: Subject<'_>,
    ledger: &mut Ledger<'_>,
    counts: &mut Counts,
    tick: &dyn Fn(Counts, u64),
) -> Result<(), StoreError> {
    let size = log::size(of.rows, of.scope)?;
    let mut ticked = *counts;
    let tiles = walk(
        of.rows,
        of.scope,
        size,
        |index, bytes| {
            match read(of.scope, of.tenant, index, bytes)? {
                OfRun::Seal(seal) => sealed(of, ledger, index, &seal)?,
                OfRun::Head(head) => filed(ledger, index, &head)?,
            }
            counts.entries = index + 1;
            counts.bytes += bytes.len() as u64;
            counts.held += bytes.len() as u64 + 8;
            if counts.entries.is_multiple_of(PROGRESS_ROWS) || counts.entries == size {
                tick(counts.since(&ticked), size);
                ticked = *counts;
            }
            Ok(())
        },
        |level, index, tile| same(of.rows, of.scope, level, index, tile),
    )?;
    counts.held += no_others(of.rows, of.scope, &tiles)?;
    Ok(())
}

/// The row of a run is that of its seal. Without looking it up, that is for the sums to say.
fn sealed(of: Subject<'_>, ledger: &mut Ledger<'_>, index: u64, seal: &Seal) -> Result<(), StoreError> {
    if matches!(ledger.mode, Mode::LookUp) {
        let missing =
            || Corruption::in_scope(of.scope, "entry", Fault::Unaccounted).of_run(&seal.run).at(index);
        let row = chain::run_row(of.rows, of.scope, &seal.run)?.ok_or_else(missing)?;
        let stored = (row.seal, row.records, row.chain, row.sealed_as());
        let logged = (Some(index), seal.records.get(), seal.chain, Some(&seal.outcome));
        if stored != logged {
            return Err(differs(of.scope, &seal.run, "the seal", stored, logged));
        }
    }
    with_seal((index, seal.records.get(), seal.chain), &seal.run, &seal.outcome, |key| {
        ledger.expect(Derived::Seals, key, &[], &seal.run)
    })
}

/// A head is filed for its run. Whether it pins what the run has is seen where the run's records are.
fn filed(ledger: &mut Ledger<'_>, index: u64, head: &Head) -> Result<(), StoreError> {
    let key = [head.run.as_str().as_bytes(), &[0], &index.to_be_bytes()];
    ledger.expect(Derived::Heads, &key, &[], &head.run)
}

/// An entry of a tenant's log.
pub(super) enum OfRun {
    Seal(Seal),
    Head(Head),
}

impl OfRun {
    pub(super) fn run(&self) -> &RunId {
        match self {
            Self::Seal(seal) => &seal.run,
            Self::Head(head) => &head.run,
        }
    }
}

/// Reads an entry that must be about a run of `tenant`.
pub(super) fn read(scope: &Scope, tenant: &TenantId, index: u64, bytes: &[u8]) -> Result<OfRun, StoreError> {
    let corrupt = |fault: Fault| StoreError::from(Corruption::in_scope(scope, "entry", fault).at(index));
    let (entry, of) = match Entry::recognise(bytes) {
        Recognised::Ours(Entry::Seal(seal)) => (seal.tenant.clone(), OfRun::Seal(seal)),
        Recognised::Ours(Entry::Head(head)) => (head.tenant.clone(), OfRun::Head(head)),
        Recognised::Ours(Entry::Tenant(_)) | Recognised::Foreign => {
            return Err(corrupt(EntryError::Malformed(EntryFault::Spelling).into()));
        }
        Recognised::Unreadable(error) => return Err(corrupt(error.into())),
    };
    if entry == *tenant { Ok(of) } else { Err(corrupt(Fault::contradiction("the tenant", entry, tenant))) }
}

/// Shows `visit` every entry of a log of `size`, with its index, and `tile` every tile of the tree over them.
/// Answers how many tiles each level has.
pub(super) fn walk(
    rows: &dyn Read,
    scope: &Scope,
    size: u64,
    mut visit: impl FnMut(u64, &[u8]) -> Result<(), StoreError>,
    mut tile: impl FnMut(u8, u64, &Tile) -> Result<(), StoreError>,
) -> Result<Vec<u64>, StoreError> {
    let corrupt = |fault, at| StoreError::from(Corruption::in_scope(scope, "entry", fault).at(at));
    let space = Space::of(scope, Table::Entries);
    let (mut tree, mut next) = (Tiles::default(), 0);
    each(rows, &space, &space.all(), |key, entry| {
        if next == size {
            let at = key.first_chunk().map_or(size, |key| u64::from_be_bytes(*key));
            return Err(corrupt(Fault::Unaccounted, at));
        }
        if key != next.to_be_bytes() {
            return Err(corrupt(Fault::Missing, next));
        }
        visit(next, entry)?;
        tree.push(LeafHash::of(entry).into(), &mut tile)?;
        next += 1;
        Ok(())
    })?;
    if next < size { Err(corrupt(Fault::Missing, next)) } else { tree.finish(&mut tile) }
}

/// Every checkpoint remembered is signed by the log and of its tree. Answers the size of the largest.
pub(super) fn checkpoints(rows: &dyn Read, scope: &Scope, key: &VerifierKey) -> Result<u64, StoreError> {
    let space = Space::of(scope, Table::Published);
    let (mut rest, mut largest) = (Some(space.all()), 0);
    while let Some(range) = rest.take() {
        let page;
        (page, rest) = Page::read(rows, &space, range, NOTES)?;
        for (_, note) in page.rows() {
            largest = of_this_tree(rows, scope, &log::open(scope, note, key)?)?.max(largest);
        }
    }
    for signed in [log::signed(rows, scope, key)?, log::published(rows, scope, key)?].iter().flatten() {
        largest = of_this_tree(rows, scope, signed)?.max(largest);
    }
    Ok(largest)
}

fn of_this_tree(rows: &dyn Read, scope: &Scope, signed: &SignedCheckpoint) -> Result<u64, StoreError> {
    let (size, root) = (signed.checkpoint().size(), *signed.checkpoint().root());
    let there = match log::root_at(rows, scope, size) {
        Ok(there) if there == root => return Ok(size),
        Ok(there) => there.to_string(),
        Err(ProofError::Store(error)) => return Err(error),
        Err(other) => other.to_string(),
    };
    let fault = Fault::contradiction("its root", root, there);
    Err(Corruption::in_scope(scope, "checkpoint", fault).at(size).into())
}

//! Making everything that is derived again, from the records and the entries, in one transaction.
//!
//! The evidence is verified first: every record's hash, link and place, every entry, and the tree over the entries
//! against each checkpoint that the log has signed; each seal and head against the run it is about. What contradicts
//! itself there is no index, and nothing is changed. What is written is what the check expects to find, by the same
//! rules. Leases, requests to stop, claims of admission keys and signed checkpoints are facts of their own and stay.
//! Only a claim that no record bears out is dropped, and one that is lost comes back, where its row by age shows that
//! it was not forgotten.

use std::collections::BTreeMap;

use runseal_evidence::entry::{Entry, Recognised};
use runseal_evidence::name::{RunId, TenantId};
use runseal_evidence::signature::RecordSigner;
use runseal_tlog::hash::LeafHash;
use runseal_tlog::key::VerifierKey;
use runseal_tlog::tile::Tile;

use super::account::{Account, RunRows, between};
use super::admissions::is_borne_out;
use super::entries::{checkpoints, read};
use super::facts::Facts;
use super::ledger::{Ledger, Mode};
use super::records::{Chains, Sound, Visitor};
use super::rows::{Page, each};
use super::tiles::Tiles;
use super::{CheckPart, CheckProgress, Counts, PROGRESS_ROWS, verifier};
use crate::index::{admission, outcome};
use crate::log;
use crate::plane::Plane;
use crate::store::{
    Corruption, Engine, Fault, Read, RedbEngine, Rewrite, Scope, Space, StoreError, Table, Writes, counter,
};

/// What was made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RebuildReport {
    /// Entries that the tree was built over.
    pub entries: u64,
    /// Runs whose rows were made.
    pub runs: u64,
    /// Records that they were made from.
    pub records: u64,
    /// Claims of admission keys that were dropped, since no record bears them out.
    pub claims_dropped: u64,
}

/// Runs in a batch of writes, and rows in one of those that have nothing to do with runs.
const BATCH: usize = 4096;

/// Everything of a tenant that follows from the rest, but for the claims of admission keys and their rows by age: which
/// keys were forgotten, only these can tell.
const DERIVED: [Table; 12] = [
    Table::Runs,
    Table::Effects,
    Table::Expiries,
    Table::Unpinned,
    Table::Heads,
    Table::Outcomes,
    Table::OutcomeCounts,
    Table::Waiting,
    Table::Activity,
    Table::Sources,
    Table::Cases,
    Table::Tiles,
];

/// Makes the indexes of one tenant again. An error that is corruption says what of the evidence is damaged.
pub(crate) fn rebuild_tenant(
    engine: &RedbEngine,
    tenant: &TenantId,
    key: &VerifierKey,
    signer: Option<&RecordSigner>,
    progress: &mut dyn FnMut(CheckProgress),
) -> Result<RebuildReport, StoreError> {
    let scope = &Scope::Tenant(tenant.clone());
    let signer = signer.map(|signer| verifier(signer, tenant, key));
    let signer = signer.as_ref();
    let Found { counts, cuts, concluded } = {
        let snapshot = engine.snapshot()?;
        let mut survey = Survey { found: Found::default(), progress };
        let chains = Chains { rows: &*snapshot, tenant, scope, signer };
        chains.walk(&between(scope, Table::Records, &[], None), &mut survey)?;
        survey.found
    };
    let mut ordinals = ordinals(&concluded).into_iter();
    let mut report = RebuildReport { runs: counts.runs, records: counts.records, ..RebuildReport::default() };
    engine.rewrite(|tx| -> Result<(), StoreError> {
        DERIVED.iter().try_for_each(|table| clear(tx, scope, *table))?;
        let heads = Space::of(scope, Table::Heads);
        report.entries = grow(tx, scope, |index, bytes, writes| {
            // Seals are filed beside heads until their run has been made.
            let entry = read(scope, tenant, index, bytes)?;
            let filed = heads.key(&[entry.run().as_str().as_bytes(), &[0], &index.to_be_bytes()]);
            writes.insert(filed, Some(Vec::new()));
            Ok(())
        })?;
        checkpoints(tx, scope, key)?;
        for at in 0..=cuts.len() {
            let from = at.checked_sub(1).map_or(&[][..], |before| &cuts[before]);
            let range = (from, cuts.get(at).map(Vec::as_slice));
            let writes = runs(Chains { rows: tx, tenant, scope, signer }, range, &mut ordinals)?;
            tx.apply(&writes)?;
        }
        report.claims_dropped = claims(tx, scope)?;
        outcome_counts(tx, scope, concluded.len() as u64)
    })?;
    Ok(report)
}

/// Makes the tree of the directory and the list of tenants again. An error that is corruption says what of its
/// entries is damaged.
pub(crate) fn rebuild_directory(engine: &RedbEngine, plane: &Plane) -> Result<RebuildReport, StoreError> {
    let scope = &Scope::Directory;
    let tenants = Space::of(&Scope::Plane, Table::Tenants);
    let mut report = RebuildReport::default();
    engine.rewrite(|tx| -> Result<(), StoreError> {
        clear(tx, scope, Table::Tiles)?;
        clear(tx, &Scope::Plane, Table::Tenants)?;
        report.entries = grow(tx, scope, |index, bytes, writes| {
            let corrupt = |fault: Fault| Corruption::in_scope(scope, "entry", fault).at(index);
            match Entry::recognise(bytes) {
                Recognised::Ours(Entry::Tenant(log)) => {
                    let listed = tenants.key(&[log.tenant().as_str().as_bytes()]);
                    writes.insert(listed, Some(index.to_be_bytes().to_vec()));
                    Ok(())
                }
                Recognised::Unreadable(error) => Err(corrupt(error.into()).into()),
                _ => Err(corrupt(Fault::Unaccounted).into()),
            }
        })?;
        checkpoints(tx, scope, plane.log_key(scope).verifier())?;
        Ok(())
    })?;
    Ok(report)
}

/// What the records say before anything is written: that they are whole, where they can be cut, and when each run
/// that has concluded did so, by name.
struct Survey<'p> {
    found: Found,
    progress: &'p mut dyn FnMut(CheckProgress),
}

#[derive(Default)]
struct Found {
    counts: Counts,
    cuts: Vec<Vec<u8>>,
    concluded: Vec<i64>,
}

impl Visitor for Survey<'_> {
    fn begin(&mut self, run: &RunId) -> Result<(), StoreError> {
        self.found.counts.runs += 1;
        if self.found.counts.runs.is_multiple_of(BATCH as u64) {
            self.found.cuts.push(run.as_str().as_bytes().to_vec());
        }
        Ok(())
    }

    fn record(&mut self, _: &RunId, sound: &Sound<'_>) -> Result<(), StoreError> {
        let counts = &mut self.found.counts;
        counts.records += 1;
        counts.bytes += sound.bytes as u64;
        if counts.records.is_multiple_of(PROGRESS_ROWS) {
            let (done, bytes) = (counts.records, counts.bytes);
            (self.progress)(CheckProgress { part: CheckPart::Records, done, total: None, bytes });
        }
        Ok(())
    }

    fn end(&mut self, facts: &Facts) -> Result<(), StoreError> {
        self.found.concluded.extend(facts.concluded_ms);
        Ok(())
    }
}

/// The place of each conclusion among all of them: by time, equal times by the run's name, in the order given.
fn ordinals(concluded: &[i64]) -> Vec<u64> {
    let mut by_time: Vec<usize> = (0..concluded.len()).collect();
    by_time.sort_by_key(|at| concluded[*at]);
    let mut ordinals = vec![0; concluded.len()];
    for (ordinal, at) in (0..).zip(by_time) {
        ordinals[at] = ordinal;
    }
    ordinals
}

/// The rows of a range of runs, and those by which they are found.
fn runs<'c>(
    chains: Chains<'c>,
    range: (&[u8], Option<&[u8]>),
    ordinals: &'c mut std::vec::IntoIter<u64>,
) -> Result<Writes, StoreError> {
    let ledger = Ledger::new(chains.rows, chains.scope, Mode::Write);
    let mut account = Account::new(chains, ledger, RunRows::Made(ordinals), range, &|_| {});
    chains.walk(&between(chains.scope, Table::Records, range.0, range.1), &mut account)?;
    account.finish()?;
    Ok(account.ledger.writes)
}

/// Removes every row of a table.
fn clear(tx: &mut Rewrite<'_>, scope: &Scope, table: Table) -> Result<(), StoreError> {
    pages(tx, &Space::of(scope, table), |space, key, _, _, writes| {
        writes.insert(space.key(&[key]), None);
        Ok(())
    })
}

/// Builds the tree over the entries that are there, from the first without a gap. `visit` is shown each, and what
/// else is to be written. Answers how many there are.
fn grow(
    tx: &mut Rewrite<'_>,
    scope: &Scope,
    mut visit: impl FnMut(u64, &[u8], &mut Writes) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    fn put<'w>(
        scope: &'w Scope,
        writes: &'w mut Writes,
    ) -> impl FnMut(u8, u64, &Tile) -> Result<(), StoreError> + 'w {
        |level, index, tile| {
            writes.insert(log::tile_key(scope, level, index), Some(tile.to_stored()));
            Ok(())
        }
    }
    let (mut tree, mut size) = (Tiles::default(), 0u64);
    pages(tx, &Space::of(scope, Table::Entries), |_, key, entry, _, writes| {
        if key != size.to_be_bytes() {
            return Err(Corruption::in_scope(scope, "entry", Fault::Missing).at(size).into());
        }
        visit(size, entry, writes)?;
        tree.push(LeafHash::of(entry).into(), &mut put(scope, writes))?;
        size += 1;
        Ok(())
    })?;
    let mut writes = Writes::new();
    tree.finish(&mut put(scope, &mut writes))?;
    let (key, row) = log::size_row(scope, size);
    writes.insert(key, Some(row));
    tx.apply(&writes)?;
    Ok(size)
}

/// Files every claim of an admission key by its age, and drops those that no record bears out. Answers how many.
fn claims(tx: &mut Rewrite<'_>, scope: &Scope) -> Result<u64, StoreError> {
    clear(tx, scope, Table::AdmissionsByAge)?;
    let mut dropped = 0;
    pages(tx, &Space::of(scope, Table::Admissions), |space, key, value, rows, writes| {
        let held = admission::decode(scope, value).ok();
        let borne_out = match &held {
            Some(held) => is_borne_out(rows, scope, key, held)?,
            None => false,
        };
        if let Some(held) = held.filter(|_| borne_out) {
            writes.insert(admission::age_key(scope, held.admitted_ms, key), Some(Vec::new()));
        } else {
            dropped += 1;
            writes.insert(space.key(&[key]), None);
        }
        Ok(())
    })?;
    Ok(dropped)
}

/// Counts the rows of each outcome, and puts the counter of conclusions past all of them.
fn outcome_counts(tx: &mut Rewrite<'_>, scope: &Scope, conclusions: u64) -> Result<(), StoreError> {
    let space = Space::of(scope, Table::Outcomes);
    let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    each(tx, &space, &space.all(), |key, _| {
        let (name, _) = key.split_last_chunk::<8>().unwrap_or((key, &[0; 8]));
        *counts.entry(name.strip_suffix(&[0]).unwrap_or(name).to_vec()).or_default() += 1;
        Ok(())
    })?;
    let space = Space::of(scope, Table::OutcomeCounts);
    let rows = counts.iter().map(|(name, count)| (space.key(&[name]), Some(count.to_be_bytes().to_vec())));
    let mut writes: Writes = rows.collect();
    // A counter that can still be read never goes back.
    let next = counter::peek(tx, scope, outcome::CONCLUSIONS).unwrap_or(0).max(conclusions);
    if next > 0 {
        writes.insert(counter::key(scope, outcome::CONCLUSIONS), Some(next.to_be_bytes().to_vec()));
    }
    Ok(tx.apply(&writes)?)
}

/// Shows `row` every row of a table, a page at a time, with the transaction as it stands before the page and the
/// writes that are made after it.
fn pages(
    tx: &mut Rewrite<'_>,
    space: &Space,
    mut row: impl FnMut(&Space, &[u8], &[u8], &dyn Read, &mut Writes) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut rest = Some(space.all());
    while let Some(range) = rest.take() {
        let page;
        (page, rest) = Page::read(tx, space, range, BATCH)?;
        let mut writes = Writes::new();
        for (key, value) in page.rows() {
            row(space, key, value, tx, &mut writes)?;
        }
        tx.apply(&writes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Derived;
    use super::*;

    #[test]
    fn conclusions_are_ordered_by_time_and_then_by_name() {
        assert_eq!(ordinals(&[30, 10, 20, 10]), [3, 0, 2, 1]);
        assert!(ordinals(&[]).is_empty());
    }

    #[test]
    fn every_table_that_is_compared_is_made_again() {
        for of in Derived::ALL {
            let claimed = matches!(of, Derived::Admissions | Derived::AdmissionsByAge);
            assert!(claimed || of.table().is_none_or(|table| DERIVED.contains(&table)), "{of:?}");
        }
    }
}

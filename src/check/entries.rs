//! The log: each entry against the run it is about, and the tree built again from the entries.

use runseal_evidence::chain::ChainHash;
use runseal_evidence::entry::{Entry, EntryError, EntryFault, Head, Recognised, Seal};
use runseal_evidence::name::{RunId, TenantId};
use runseal_tlog::checkpoint::SignedCheckpoint;
use runseal_tlog::hash::LeafHash;
use runseal_tlog::key::VerifierKey;

use super::places::differs;
use super::tiles::Tiles;
use super::{Check, CheckPart, PROGRESS_ROWS};
use crate::chain;
use crate::log::{self, ProofError};
use crate::store::{Corruption, Direction, Fault, Read, Scanned, Scope, Space, StoreError, Table};

/// Entries read at once.
const PAGE: u64 = 1024;
/// Checkpoints read at once.
const NOTES: usize = 64;

impl Check<'_> {
    pub(super) fn entries(&mut self) -> Result<(), StoreError> {
        let (rows, scope) = (self.rows, self.scope);
        walk(rows, scope, |index, entry, size| {
            self.entry(index, entry)?;
            self.report.entries = index + 1;
            self.report.bytes += entry.len() as u64;
            if self.report.entries.is_multiple_of(PROGRESS_ROWS) || self.report.entries == size {
                self.advance(CheckPart::Entries, self.report.entries, Some(size));
            }
            Ok(())
        })?;
        checkpoints(rows, scope, self.key)
    }

    /// One entry against the run that it is about.
    fn entry(&mut self, index: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let corrupt =
            |fault: Fault| StoreError::from(Corruption::in_scope(self.scope, "entry", fault).at(index));
        let foreign = || EntryError::Malformed(EntryFault::Spelling);
        match Entry::recognise(bytes) {
            Recognised::Ours(Entry::Seal(seal)) => self.seal(index, &seal),
            Recognised::Ours(Entry::Head(head)) => self.head(index, &head),
            Recognised::Ours(Entry::Tenant(_)) | Recognised::Foreign => Err(corrupt(foreign().into())),
            Recognised::Unreadable(error) => Err(corrupt(error.into())),
        }
    }

    fn seal(&mut self, index: u64, seal: &Seal) -> Result<(), StoreError> {
        self.own_tenant(index, &seal.tenant)?;
        self.seals += 1;
        let row =
            chain::run_row(self.rows, self.scope, &seal.run)?.ok_or_else(|| self.no_run(index, &seal.run))?;
        let stored = (row.seal, row.records, row.chain, row.sealed_as().cloned());
        let logged = (Some(index), seal.records.get(), seal.chain, Some(seal.outcome.clone()));
        if stored == logged {
            Ok(())
        } else {
            Err(differs(self.scope, &seal.run, "the seal", stored, logged))
        }
    }

    fn head(&mut self, index: u64, head: &Head) -> Result<(), StoreError> {
        self.own_tenant(index, &head.tenant)?;
        self.expected.heads += 1;
        let row =
            chain::run_row(self.rows, self.scope, &head.run)?.ok_or_else(|| self.no_run(index, &head.run))?;
        let records = head.records.get();
        if row.pinned < records || row.seal.is_some_and(|seal| seal < index) {
            return Err(differs(self.scope, &head.run, "the pinned head", row.pinned, records));
        }
        let record = chain::read_row(self.rows, self.scope, &head.run, records)?;
        if record.hash != head.chain {
            return Err(differs::<ChainHash>(
                self.scope,
                &head.run,
                "the pinned head",
                record.hash,
                head.chain,
            ));
        }
        let run = head.run.as_str().as_bytes();
        let filed = Space::of(self.scope, Table::Heads).key(&[run, &[0], &index.to_be_bytes()]);
        match self.rows.get(&filed)? {
            Some(_) => Ok(()),
            None => Err(Corruption::in_scope(self.scope, "filed head", Fault::Missing)
                .of_run(&head.run)
                .at(index)
                .into()),
        }
    }

    fn own_tenant(&self, index: u64, tenant: &TenantId) -> Result<(), StoreError> {
        if tenant == self.tenant {
            return Ok(());
        }
        let fault = Fault::contradiction("the tenant", tenant, self.tenant);
        Err(Corruption::in_scope(self.scope, "entry", fault).at(index).into())
    }

    fn no_run(&self, index: u64, run: &RunId) -> StoreError {
        Corruption::in_scope(self.scope, "entry", Fault::Unaccounted).of_run(run).at(index).into()
    }
}

/// Shows `visit` every entry of a log, with its index and the log's size, and holds the tree against them.
pub(super) fn walk(
    rows: &dyn Read,
    scope: &Scope,
    mut visit: impl FnMut(u64, &[u8], u64) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let size = log::size(rows, scope)?;
    let mut tree = Tiles::new(rows, scope);
    let mut index = 0;
    while index < size {
        for entry in log::entry_range(rows, scope, index, size.min(index + PAGE))? {
            visit(index, &entry, size)?;
            tree.push(LeafHash::of(&entry).into())?;
            index += 1;
        }
    }
    tree.finish()?;
    let space = Space::of(scope, Table::Entries);
    let mut beyond = false;
    rows.scan(&space.all().from(space.key(&[&size.to_be_bytes()])), Direction::Ascending, &mut |_, _| {
        beyond = true;
        Scanned::Break(())
    })?;
    if beyond {
        Err(Corruption::in_scope(scope, "entry", Fault::Unaccounted).at(size).into())
    } else {
        Ok(())
    }
}

/// Every checkpoint remembered is signed by the log and of its tree.
pub(super) fn checkpoints(rows: &dyn Read, scope: &Scope, key: &VerifierKey) -> Result<(), StoreError> {
    let space = Space::of(scope, Table::Published);
    let mut range = space.all();
    loop {
        let mut notes = Vec::new();
        let mut last = None;
        rows.scan(&range, Direction::Ascending, &mut |key, note| {
            notes.push(note.to_vec());
            last = Some(key.to_vec());
            if notes.len() < NOTES { Scanned::Continue(()) } else { Scanned::Break(()) }
        })?;
        for note in notes {
            of_this_tree(rows, scope, &log::open(scope, &note, key)?)?;
        }
        match last {
            None => break,
            Some(last) => range = space.all().after(last),
        }
    }
    let remembered = [log::signed(rows, scope, key)?, log::published(rows, scope, key)?];
    remembered.iter().flatten().try_for_each(|signed| of_this_tree(rows, scope, signed))
}

fn of_this_tree(rows: &dyn Read, scope: &Scope, signed: &SignedCheckpoint) -> Result<(), StoreError> {
    let (size, root) = (signed.checkpoint().size(), *signed.checkpoint().root());
    let there = match log::root_at(rows, scope, size) {
        Ok(there) if there == root => return Ok(()),
        Ok(there) => there.to_string(),
        Err(ProofError::Store(error)) => return Err(error),
        Err(other) => other.to_string(),
    };
    let fault = Fault::contradiction("its root", root, there);
    Err(Corruption::in_scope(scope, "checkpoint", fault).at(size).into())
}

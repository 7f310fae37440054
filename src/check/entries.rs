//! The log: each entry against the run it is about, and the tree built again from the entries.

use runseal_evidence::chain::ChainHash;
use runseal_evidence::entry::{Entry, EntryError, EntryFault, Head, Recognised, Seal};
use runseal_evidence::name::{RunId, TenantId};
use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::tile::{TILE_WIDTH, Tile};

use super::{Check, CheckPart, PROGRESS_ROWS};
use crate::chain;
use crate::log;
use crate::store::{Corruption, Direction, Fault, Scanned, Space, StoreError, Table};

const PAGE: u64 = 1024;

impl Check<'_> {
    pub(super) fn entries(&mut self) -> Result<(), StoreError> {
        let size = log::size(self.rows, self.scope)?;
        let mut tree = Tiles { levels: Vec::new() };
        let mut index = 0;
        while index < size {
            for entry in log::entry_range(self.rows, self.scope, index, size.min(index + PAGE))? {
                self.entry(index, &entry)?;
                tree.push(self, LeafHash::of(&entry).into())?;
                index += 1;
                self.report.entries = index;
                self.report.bytes += entry.len() as u64;
                if index.is_multiple_of(PROGRESS_ROWS) {
                    self.advance(CheckPart::Entries, index, Some(size));
                }
            }
        }
        tree.finish(self)?;
        self.nothing_beyond(Table::Entries, "entry", &size.to_be_bytes())?;
        self.checkpoints()?;
        self.advance(CheckPart::Entries, size, Some(size));
        Ok(())
    }

    /// One entry against the run that it is about.
    fn entry(&self, index: u64, bytes: &[u8]) -> Result<(), StoreError> {
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

    fn seal(&self, index: u64, seal: &Seal) -> Result<(), StoreError> {
        self.own_tenant(index, &seal.tenant)?;
        let row =
            chain::run_row(self.rows, self.scope, &seal.run)?.ok_or_else(|| self.no_run(index, &seal.run))?;
        let stored = (row.seal, row.records, row.chain, row.sealed_as().cloned());
        let logged = (Some(index), seal.records.get(), seal.chain, Some(seal.outcome.clone()));
        if stored == logged { Ok(()) } else { Err(self.differs(&seal.run, "the seal", stored, logged)) }
    }

    fn head(&self, index: u64, head: &Head) -> Result<(), StoreError> {
        self.own_tenant(index, &head.tenant)?;
        let row =
            chain::run_row(self.rows, self.scope, &head.run)?.ok_or_else(|| self.no_run(index, &head.run))?;
        let records = head.records.get();
        if row.pinned < records || row.seal.is_some_and(|seal| seal < index) {
            return Err(self.differs(&head.run, "the pinned head", row.pinned, records));
        }
        let record = chain::read_row(self.rows, self.scope, &head.run, records)?;
        if record.hash != head.chain {
            return Err(self.differs::<ChainHash>(&head.run, "the pinned head", record.hash, head.chain));
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

    pub(super) fn differs<T: std::fmt::Debug>(
        &self,
        run: &RunId,
        what: &'static str,
        found: T,
        expected: T,
    ) -> StoreError {
        let fault = Fault::contradiction(what, found, expected);
        Corruption::in_scope(self.scope, "run row", fault).of_run(run).into()
    }

    /// No row of a table lies at or above the key `from`.
    pub(super) fn nothing_beyond(
        &self,
        table: Table,
        noun: &'static str,
        from: &[u8],
    ) -> Result<(), StoreError> {
        let space = Space::of(self.scope, table);
        let mut found = None;
        self.rows.scan(&space.all().from(space.key(&[from])), Direction::Ascending, &mut |key, _| {
            found = Some(key.last_chunk().map_or(0, |seq| u64::from_be_bytes(*seq)));
            Scanned::Break(())
        })?;
        match found {
            None => Ok(()),
            Some(at) => Err(Corruption::in_scope(self.scope, noun, Fault::Unaccounted).at(at).into()),
        }
    }

    /// Every checkpoint remembered is signed by the log and of its tree.
    fn checkpoints(&self) -> Result<(), StoreError> {
        let space = Space::of(self.scope, Table::Published);
        let mut notes = Vec::new();
        let mut last = None;
        loop {
            let range = match last.take() {
                None => space.all(),
                Some(key) => space.all().after(key),
            };
            self.rows.scan(&range, Direction::Ascending, &mut |key, note| {
                notes.push(note.to_vec());
                last = Some(key.to_vec());
                if notes.len() < 64 { Scanned::Continue(()) } else { Scanned::Break(()) }
            })?;
            for note in notes.drain(..) {
                self.of_this_tree(&log::open(self.scope, &note, self.key)?)?;
            }
            if last.is_none() {
                break;
            }
        }
        let remembered =
            [log::signed(self.rows, self.scope, self.key)?, log::published(self.rows, self.scope, self.key)?];
        remembered.iter().flatten().try_for_each(|signed| self.of_this_tree(signed))
    }

    fn of_this_tree(&self, signed: &runseal_tlog::checkpoint::SignedCheckpoint) -> Result<(), StoreError> {
        let (size, root) = (signed.checkpoint().size(), *signed.checkpoint().root());
        let there = match log::root_at(self.rows, self.scope, size) {
            Ok(there) if there == root => return Ok(()),
            Ok(there) => there.to_string(),
            Err(log::ProofError::Store(error)) => return Err(error),
            Err(other) => other.to_string(),
        };
        let fault = Fault::contradiction("its root", root, there);
        Err(Corruption::in_scope(self.scope, "checkpoint", fault).at(size).into())
    }
}

/// The tree built again: one growing tile a level, each held against the stored one when it is full, and at
/// the end.
struct Tiles {
    levels: Vec<(Tile, u64)>,
}

impl Tiles {
    fn push(&mut self, check: &Check<'_>, leaf: NodeHash) -> Result<(), StoreError> {
        let mut hash = leaf;
        for level in 0u8.. {
            if self.levels.len() == usize::from(level) {
                self.levels.push((Tile::default(), 0));
            }
            let (tile, index) = &mut self.levels[usize::from(level)];
            tile.push(hash).expect("a full tile is taken away at once");
            let Some(full) = tile.subtree(0, TILE_WIDTH) else { break };
            same(check, level, *index, tile)?;
            (*tile, *index, hash) = (Tile::default(), *index + 1, full);
        }
        Ok(())
    }

    /// Compares the partial tiles, and makes sure that there are no more.
    fn finish(&self, check: &Check<'_>) -> Result<(), StoreError> {
        for (level, (tile, index)) in (0u8..).zip(&self.levels) {
            let mut next = *index;
            if tile.width() > 0 {
                same(check, level, next, tile)?;
                next += 1;
            }
            let space = Space::of(check.scope, Table::Tiles);
            let beyond = space.starting_with(&[&[level]]).from(log::tile_key(check.scope, level, next));
            let mut extra = false;
            check.rows.scan(&beyond, Direction::Ascending, &mut |_, _| {
                extra = true;
                Scanned::Break(())
            })?;
            if extra {
                return Err(Corruption::in_scope(check.scope, "tile", Fault::Unaccounted).at(next).into());
            }
        }
        let levels =
            u8::try_from(self.levels.len()).expect("a tree of 64-bit size has at most 8 levels of tiles");
        check.nothing_beyond(Table::Tiles, "tile", &[levels])
    }
}

fn same(check: &Check<'_>, level: u8, index: u64, tile: &Tile) -> Result<(), StoreError> {
    let corrupt = |fault| Corruption::in_scope(check.scope, "tile", fault).at(index);
    let stored = check.rows.get(&log::tile_key(check.scope, level, index))?;
    let stored = stored.ok_or_else(|| corrupt(Fault::Missing))?;
    let stored = Tile::from_stored(&stored).map_err(|error| corrupt(error.into()))?;
    if stored == *tile {
        return Ok(());
    }
    let differs = stored.hashes().iter().zip(tile.hashes()).position(|(stored, computed)| stored != computed);
    let fault = match differs {
        Some(at) => Fault::contradiction("a hash", stored.hashes()[at], tile.hashes()[at]),
        None => Fault::contradiction("the width or a group's hash", stored.width(), tile.width()),
    };
    Err(corrupt(fault).into())
}

//! The tree built again from the entries, and held against the stored tiles.

use runseal_tlog::hash::NodeHash;
use runseal_tlog::tile::{TILE_WIDTH, Tile};

use crate::log;
use crate::store::{Corruption, Direction, Fault, Read, Scanned, Scope, Space, StoreError, Table};

/// One growing tile a level, each held against the stored one when it is full, and at the end.
pub(super) struct Tiles<'c> {
    rows: &'c dyn Read,
    scope: &'c Scope,
    levels: Vec<(Tile, u64)>,
}

impl<'c> Tiles<'c> {
    pub(super) fn new(rows: &'c dyn Read, scope: &'c Scope) -> Self {
        Self { rows, scope, levels: Vec::new() }
    }

    /// Adds the next leaf.
    pub(super) fn push(&mut self, leaf: NodeHash) -> Result<(), StoreError> {
        let mut hash = leaf;
        for level in 0u8.. {
            if self.levels.len() == usize::from(level) {
                self.levels.push((Tile::default(), 0));
            }
            let (tile, index) = &mut self.levels[usize::from(level)];
            tile.push(hash).expect("a full tile is taken away at once");
            let Some(full) = tile.subtree(0, TILE_WIDTH) else { break };
            same(self.rows, self.scope, level, *index, tile)?;
            (*tile, *index, hash) = (Tile::default(), *index + 1, full);
        }
        Ok(())
    }

    /// Compares the partial tiles, and makes sure that there are no others.
    pub(super) fn finish(&self) -> Result<(), StoreError> {
        for (level, (tile, index)) in (0u8..).zip(&self.levels) {
            let mut next = *index;
            if tile.width() > 0 {
                same(self.rows, self.scope, level, next, tile)?;
                next += 1;
            }
            self.none_from(level, next)?;
        }
        let levels =
            u8::try_from(self.levels.len()).expect("a tree of 64-bit size has at most 8 levels of tiles");
        (levels..=u8::MAX).try_for_each(|level| self.none_from(level, 0))
    }

    fn none_from(&self, level: u8, index: u64) -> Result<(), StoreError> {
        let space = Space::of(self.scope, Table::Tiles);
        let beyond = space.starting_with(&[&[level]]).from(log::tile_key(self.scope, level, index));
        let mut found = None;
        self.rows.scan(&beyond, Direction::Ascending, &mut |key, _| {
            found = Some(key.last_chunk().map_or(index, |found| u64::from_be_bytes(*found)));
            Scanned::Break(())
        })?;
        match found {
            None => Ok(()),
            Some(found) => Err(Corruption::in_scope(self.scope, "tile", Fault::Unaccounted).at(found).into()),
        }
    }
}

fn same(rows: &dyn Read, scope: &Scope, level: u8, index: u64, tile: &Tile) -> Result<(), StoreError> {
    let corrupt = |fault| Corruption::in_scope(scope, "tile", fault).at(index);
    let stored = rows.get(&log::tile_key(scope, level, index))?.ok_or_else(|| corrupt(Fault::Missing))?;
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

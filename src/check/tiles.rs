//! The tree built again from the entries, tile by tile.

use runseal_tlog::hash::NodeHash;
use runseal_tlog::tile::{TILE_WIDTH, Tile};

use super::rows::each;
use crate::log;
use crate::store::{Corruption, Fault, Read, Scope, Space, StoreError, Table};

/// One growing tile a level.
#[derive(Default)]
pub(super) struct Tiles {
    levels: Vec<(Tile, u64)>,
}

impl Tiles {
    /// Adds the next leaf, and shows `full` each tile that it fills: its level, its index, and the tile.
    pub(super) fn push(
        &mut self,
        leaf: NodeHash,
        full: &mut impl FnMut(u8, u64, &Tile) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut hash = leaf;
        for level in 0u8.. {
            if self.levels.len() == usize::from(level) {
                self.levels.push((Tile::default(), 0));
            }
            let (tile, index) = &mut self.levels[usize::from(level)];
            tile.push(hash).expect("a full tile is taken away at once");
            if tile.width() < TILE_WIDTH {
                break;
            }
            full(level, *index, tile)?;
            let above = tile.subtree(0, TILE_WIDTH).expect("the tile is full");
            (*tile, *index, hash) = (Tile::default(), *index + 1, above);
        }
        Ok(())
    }

    /// Shows `partial` the tiles that no leaf has filled, and answers how many tiles each level has.
    pub(super) fn finish(
        &self,
        partial: &mut impl FnMut(u8, u64, &Tile) -> Result<(), StoreError>,
    ) -> Result<Vec<u64>, StoreError> {
        let tiles = (0u8..).zip(&self.levels).map(|(level, (tile, index))| {
            if tile.width() == 0 {
                return Ok(*index);
            }
            partial(level, *index, tile)?;
            Ok(index + 1)
        });
        tiles.collect()
    }
}

/// The stored tile is this one.
pub(super) fn same(
    rows: &dyn Read,
    scope: &Scope,
    level: u8,
    index: u64,
    tile: &Tile,
) -> Result<(), StoreError> {
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

/// No tile is stored but the first `tiles` of each level. Answers their bytes.
pub(super) fn no_others(rows: &dyn Read, scope: &Scope, tiles: &[u64]) -> Result<u64, StoreError> {
    let space = Space::of(scope, Table::Tiles);
    let mut held = 0;
    each(rows, &space, &space.all(), |key, value| {
        held += (key.len() + value.len()) as u64;
        let place = key.split_first().and_then(|(level, index)| {
            Some((usize::from(*level), u64::from_be_bytes(index.try_into().ok()?)))
        });
        match place {
            Some((level, index)) if tiles.get(level).is_some_and(|tiles| index < *tiles) => Ok(()),
            _ => {
                let at = place.map_or(0, |(_, index)| index);
                Err(Corruption::in_scope(scope, "tile", Fault::Unaccounted).at(at).into())
            }
        }
    })?;
    Ok(held)
}

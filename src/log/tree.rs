//! The tree of a log, kept as tiles: full ones of 256 hashes and one that grows on each level.

use runseal_evidence::entry::ENTRY_BYTES_MAX;
use runseal_tlog::TREE_SIZE_MAX;
use runseal_tlog::bundle;
use runseal_tlog::consistency::{self, ProveConsistencyError};
use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::inclusion::{self, ProveInclusionError};
use runseal_tlog::tile::{
    TILE_WIDTH, Tile, TileKind, TileNodes, TileNodesError, TilePath, TileReader, tile_width,
};
use runseal_tlog::tree;
use thiserror::Error;

use crate::store::{
    Corruption, Direction, Fault, KeyRange, Overlay, Read, Scanned, Scope, Space, StoreError, Table, row,
};

const SIZE: &[u8] = b"size";
const _: () = assert!(ENTRY_BYTES_MAX <= bundle::ENTRY_BYTES_MAX);

/// Why there is no such proof, root or tree.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ProofError {
    /// The tree is smaller. An empty proof would say that it is not.
    #[error("size {asked} is beyond the log's {size}")]
    BeyondTree {
        /// The size asked for.
        asked: u64,
        /// The log's size.
        size: u64,
    },
    /// The tree of that size does not hold that leaf.
    #[error("leaf {index} is not in a tree of {size} leaves")]
    NoSuchLeaf {
        /// The leaf asked for.
        index: u64,
        /// The size asked for.
        size: u64,
    },
    /// A consistency proof leads from a smaller tree to a larger one.
    #[error("there is no proof from size {old} to the smaller size {new}")]
    SizesReversed {
        /// The older size.
        old: u64,
        /// The newer size.
        new: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Entries in the log.
pub(crate) fn size(rows: &dyn Read, scope: &Scope) -> Result<u64, StoreError> {
    match rows.get(&Space::of(scope, Table::Log).key(&[SIZE]))? {
        None => Ok(0),
        Some(bytes) => row::read_u64(&bytes, "size")
            .map_err(|fault| Corruption::in_scope(scope, "tree size", fault).into()),
    }
}

/// The row that says that a log has `size` entries.
pub(crate) fn size_row(scope: &Scope, size: u64) -> (Vec<u8>, Vec<u8>) {
    (Space::of(scope, Table::Log).key(&[SIZE]), size.to_be_bytes().to_vec())
}

/// Appends an entry with its leaf, and answers its index. Positions follow commits and are never reissued.
pub(crate) fn append_entry(tx: &mut Overlay<'_>, scope: &Scope, entry: &[u8]) -> Result<u64, StoreError> {
    let index = size(tx, scope)?;
    assert!(index < TREE_SIZE_MAX, "a log of 2^63 entries cannot be written");
    let entries = Space::of(scope, Table::Entries).key(&[&index.to_be_bytes()]);
    if tx.get(&entries)?.is_some() {
        return Err(Corruption::in_scope(scope, "entry", Fault::Unaccounted).at(index).into());
    }
    tx.put(entries, entry.to_vec());
    let mut hash = NodeHash::from(LeafHash::of(entry));
    let mut position = index;
    // A full tile's hash is one hash of the tile above it.
    for level in 0u8.. {
        let (at, width) = (position / u64::from(TILE_WIDTH), position % u64::from(TILE_WIDTH));
        let mut tile = if width == 0 { Tile::default() } else { read_tile(tx, scope, level, at)? };
        if u64::from(tile.width()) != width {
            let fault = Fault::contradiction("the width", tile.width(), width);
            return Err(Corruption::in_scope(scope, "tile", fault).at(at).into());
        }
        let corrupt = |error| Corruption::in_scope(scope, "tile", Fault::Tile(error)).at(at);
        tile.push(hash).map_err(corrupt)?;
        tx.put(tile_key(scope, level, at), tile.to_stored());
        match tile.subtree(0, TILE_WIDTH) {
            Some(full) => (hash, position) = (full, at),
            None => break,
        }
    }
    let (key, size) = size_row(scope, index + 1);
    tx.put(key, size);
    Ok(index)
}

/// The root of the first `asked` entries.
pub(crate) fn root_at(rows: &dyn Read, scope: &Scope, asked: u64) -> Result<NodeHash, ProofError> {
    Ok(tree::root(asked, &nodes(rows, scope, asked)?).map_err(|error| unreadable(scope, error))?)
}

/// Proves that leaf `index` is in the tree of `asked` leaves.
pub(crate) fn inclusion(
    rows: &dyn Read,
    scope: &Scope,
    index: u64,
    asked: u64,
) -> Result<Vec<NodeHash>, ProofError> {
    inclusion::prove(index, asked, &nodes(rows, scope, asked)?).map_err(|error| match error {
        ProveInclusionError::OutOfRange { index, size } => ProofError::NoSuchLeaf { index, size },
        ProveInclusionError::Reader(error) => unreadable(scope, error).into(),
    })
}

/// Proves that the tree of `new` leaves continues that of `old`.
pub(crate) fn consistency(
    rows: &dyn Read,
    scope: &Scope,
    old: u64,
    new: u64,
) -> Result<Vec<NodeHash>, ProofError> {
    consistency::prove(old, new, &nodes(rows, scope, new)?).map_err(|error| match error {
        ProveConsistencyError::SizesReversed { old, new } => ProofError::SizesReversed { old, new },
        ProveConsistencyError::Reader(error) => unreadable(scope, error).into(),
    })
}

fn nodes<'r>(
    rows: &'r dyn Read,
    scope: &'r Scope,
    asked: u64,
) -> Result<TileNodes<StoredTiles<'r>>, ProofError> {
    let size = size(rows, scope)?;
    if asked > size {
        return Err(ProofError::BeyondTree { asked, size });
    }
    // The tree as it is: tiles of an older one may have grown since, and hold it.
    Ok(TileNodes::new(StoredTiles { rows, scope }, size))
}

/// One entry.
pub(crate) fn entry(rows: &dyn Read, scope: &Scope, index: u64) -> Result<Option<Vec<u8>>, StoreError> {
    if index >= size(rows, scope)? {
        return Ok(None);
    }
    match rows.get(&Space::of(scope, Table::Entries).key(&[&index.to_be_bytes()]))? {
        Some(entry) => Ok(Some(entry)),
        None => Err(Corruption::in_scope(scope, "entry", Fault::Missing).at(index).into()),
    }
}

/// The entries from `from` to below `to`, which must all be in the log.
pub(crate) fn entry_range(
    rows: &dyn Read,
    scope: &Scope,
    from: u64,
    to: u64,
) -> Result<Vec<Vec<u8>>, StoreError> {
    let space = Space::of(scope, Table::Entries);
    let end = space.key(&[&to.to_be_bytes()]);
    let range: KeyRange = space.all().from(space.key(&[&from.to_be_bytes()])).before(end);
    let mut entries = Vec::new();
    let mut expected = from;
    let mut gap = false;
    rows.scan(&range, Direction::Ascending, &mut |key, entry| {
        gap = space.own(key) != expected.to_be_bytes();
        if gap {
            return Scanned::Break(());
        }
        entries.push(entry.to_vec());
        expected += 1;
        Scanned::Continue(())
    })?;
    if gap || expected < to {
        return Err(Corruption::in_scope(scope, "entry", Fault::Missing).at(expected).into());
    }
    Ok(entries)
}

/// A tile or entry bundle as served; `None` where the tree is not that wide.
pub(crate) fn tile(rows: &dyn Read, scope: &Scope, path: &TilePath) -> Result<Option<Vec<u8>>, StoreError> {
    let size = size(rows, scope)?;
    let (index, width) = (path.index(), path.width());
    match path.kind() {
        TileKind::Hashes { level } => {
            if tile_width(level, index, size) < width {
                return Ok(None);
            }
            let tile = read_tile(rows, scope, level, index)?;
            tile.to_served(width).map(Some).ok_or_else(|| {
                let fault = Fault::contradiction("the width", tile.width(), width);
                Corruption::in_scope(scope, "tile", fault).at(index).into()
            })
        }
        TileKind::Entries => {
            if tile_width(0, index, size) < width {
                return Ok(None);
            }
            let from = index * u64::from(TILE_WIDTH);
            let mut served = Vec::new();
            for (at, entry) in (from..).zip(entry_range(rows, scope, from, from + u64::from(width))?) {
                let fault = |_| Fault::contradiction("the length", entry.len(), "at most 65535");
                bundle::push(&mut served, &entry)
                    .map_err(|error| Corruption::in_scope(scope, "entry", fault(error)).at(at))?;
            }
            Ok(Some(served))
        }
    }
}

struct StoredTiles<'r> {
    rows: &'r dyn Read,
    scope: &'r Scope,
}

impl TileReader for StoredTiles<'_> {
    type Error = StoreError;

    fn read_tile(&self, level: u8, index: u64, _width: u16) -> Result<Tile, StoreError> {
        read_tile(self.rows, self.scope, level, index)
    }
}

fn read_tile(rows: &dyn Read, scope: &Scope, level: u8, index: u64) -> Result<Tile, StoreError> {
    let corrupt = |fault: Fault| Corruption::in_scope(scope, "tile", fault).at(index);
    let bytes = rows.get(&tile_key(scope, level, index))?.ok_or_else(|| corrupt(Fault::Missing))?;
    Ok(Tile::from_stored(&bytes).map_err(|error| corrupt(error.into()))?)
}

pub(crate) fn tile_key(scope: &Scope, level: u8, index: u64) -> Vec<u8> {
    Space::of(scope, Table::Tiles).key(&[&[level], &index.to_be_bytes()])
}

fn unreadable(scope: &Scope, error: TileNodesError<StoreError>) -> StoreError {
    match error {
        TileNodesError::Reader(error) => error,
        TileNodesError::Narrow { index, found, needed, .. } => {
            let fault = Fault::contradiction("the width", found, needed);
            Corruption::in_scope(scope, "tile", fault).at(index).into()
        }
    }
}

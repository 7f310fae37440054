//! The upper tiles of a log, held against a signed root before anything relies on them.
//!
//! The tiles of the right edge rebuild the root, which vouches for every hash in them. A full tile is
//! vouched for by its hash one level up. So after [`FetchedTree::authenticate`] every hash here is the
//! signed tree's, and each level 0 tile can be checked alone, as it comes.

use std::collections::HashMap;

use futures_util::{StreamExt as _, stream};
use runseal_tlog::hash::NodeHash;
use runseal_tlog::tile::{
    TILE_WIDTH, Tile, TileError, TileKind, TileNodes, TileNodesError, TilePath, TileReader, level_hashes,
    tile_width,
};
use runseal_tlog::tree;
use thiserror::Error;

use crate::online::http::FetchError;
use crate::online::source::{LogSource, SourceError};

/// Why the upper tiles of a tree could not be had.
#[derive(Debug, Error)]
pub enum TreeError {
    /// The source.
    #[error("{path}: {source}")]
    Source {
        /// The tile.
        path: TilePath,
        /// Why.
        source: SourceError,
    },
    /// The signed size asks for more than can be held: the party that is audited does not decide how much memory
    /// that takes.
    #[error("a tree of {size} leaves has {tiles} upper tiles to hold; at most {UPPER_TILES_MAX} are held")]
    TooLarge {
        /// The signed size.
        size: u64,
        /// Tiles it implies.
        tiles: u64,
    },
    /// The tiles contradict the signed root, or each other.
    #[error(transparent)]
    Mismatch(#[from] TileMismatch),
}

/// A tile that is not the signed tree's.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TileMismatch {
    /// A tile of another length.
    #[error("{path}: {error}")]
    Shape {
        /// The tile.
        path: TilePath,
        /// What is wrong.
        error: TileError,
    },
    /// An encoding that hides what the tile is.
    #[error("{path}: {error}")]
    Encoding {
        /// The tile.
        path: TilePath,
        /// What is wrong.
        error: String,
    },
    /// The right edge leads to another root.
    #[error("the tiles of the right edge rebuild root {computed}, not the signed {signed}")]
    Root {
        /// The root rebuilt.
        computed: NodeHash,
        /// The root signed.
        signed: NodeHash,
    },
    /// A full tile does not hash to what the level above says.
    #[error("{path} hashes to {computed}; the level above says {expected}")]
    Above {
        /// The tile.
        path: TilePath,
        /// Its hash.
        computed: NodeHash,
        /// The hash above.
        expected: NodeHash,
    },
}

/// Upper tiles held, 8 KiB each: enough for two thousand million new entries.
const UPPER_TILES_MAX: u64 = 1 << 15;

/// Where a tile lies.
type Place = (u8, u64);

/// Tiles as fetched. Not authenticated.
#[derive(Debug)]
pub struct FetchedTree {
    size: u64,
    tiles: HashMap<Place, Tile>,
}

/// Upper tiles that a signed root vouches for.
#[derive(Clone, Debug)]
pub struct SignedTree {
    size: u64,
    root: NodeHash,
    tiles: HashMap<Place, Tile>,
}

impl FetchedTree {
    /// Fetches what a tree of `size` leaves has beyond its first `known`: of each level above 0 the tiles
    /// with new hashes, of level 0 the two at the edges. `O(new / 65,536 + log size)` tiles.
    ///
    /// # Errors
    /// [`TreeError`].
    pub async fn fetch(source: &LogSource, known: u64, size: u64, jobs: usize) -> Result<Self, TreeError> {
        let paths = upper_paths(known, size)?;
        let mut fetches = stream::iter(paths.chunks(16).map(|chunk| source.fetch(chunk, 0))).buffered(jobs);
        let mut tiles = HashMap::with_capacity(paths.len());
        let mut at = 0;
        while let Some(results) = fetches.next().await {
            for result in results {
                let path = paths[at];
                at += 1;
                let fetched = result.map_err(|source| TreeError::Source { path, source })?;
                let tile = read_tile(path, fetched.open())?;
                if let TileKind::Hashes { level } = path.kind() {
                    tiles.insert((level, path.index()), tile);
                }
            }
        }
        Ok(Self { size, tiles })
    }

    /// Holds the tiles against the signed root.
    ///
    /// # Errors
    /// [`TileMismatch`].
    pub fn authenticate(self, signed: &NodeHash) -> Result<SignedTree, TileMismatch> {
        let Self { size, tiles } = self;
        let computed = tree::root(size, &TileNodes::new(&Tiles(&tiles), size));
        match computed {
            Ok(computed) if computed == *signed => {}
            Ok(computed) => return Err(TileMismatch::Root { computed, signed: *signed }),
            // Every tile of the right edge was asked for, so only a caller's mistake leaves one out.
            Err(TileNodesError::Reader(Missing) | TileNodesError::Narrow { .. }) => {
                return Err(TileMismatch::Root { computed: NodeHash::EMPTY_ROOT, signed: *signed });
            }
        }
        for (&(level, index), tile) in &tiles {
            if tile.width() < TILE_WIDTH {
                continue;
            }
            let expected = above(&tiles, level, index);
            let computed = hash_of_full(tile);
            if let Some(expected) = expected.filter(|expected| *expected != computed) {
                let path = hash_path(level, index, TILE_WIDTH);
                return Err(TileMismatch::Above { path, computed, expected });
            }
        }
        Ok(SignedTree { size, root: *signed, tiles })
    }
}

fn read_tile(path: TilePath, bytes: Result<Vec<u8>, FetchError>) -> Result<Tile, TileMismatch> {
    let bytes = bytes.map_err(|error| TileMismatch::Encoding { path, error: error.to_string() })?;
    Tile::from_served(&bytes, path.width()).map_err(|error| TileMismatch::Shape { path, error })
}

fn above(tiles: &HashMap<Place, Tile>, level: u8, index: u64) -> Option<NodeHash> {
    let parent = tiles.get(&(level + 1, index / u64::from(TILE_WIDTH)))?;
    parent.hashes().get(usize::try_from(index % u64::from(TILE_WIDTH)).ok()?).copied()
}

fn hash_of_full(tile: &Tile) -> NodeHash {
    tile.subtree(0, TILE_WIDTH).expect("a full tile has a hash over all its 256")
}

fn hash_path(level: u8, index: u64, width: u16) -> TilePath {
    TilePath::new(TileKind::Hashes { level }, index, width).expect("a tree has no tile beyond 2^63 leaves")
}

/// The tiles to fetch, lowest level first.
fn upper_paths(known: u64, size: u64) -> Result<Vec<TilePath>, TreeError> {
    let width = u64::from(TILE_WIDTH);
    let ranges = (0..).map_while(|level| {
        let hashes = level_hashes(level, size);
        (hashes > 0).then(|| (level, level_hashes(level, known) / width, (hashes - 1) / width))
    });
    // A level without new hashes whose last tile is full has none to fetch.
    let ranges: Vec<(u8, u64, u64)> = ranges.filter(|(_, first, last)| first <= last).collect();
    let tiles: u64 =
        ranges.iter().filter(|(level, ..)| *level > 0).map(|(_, first, last)| last - first + 1).sum();
    if tiles > UPPER_TILES_MAX {
        return Err(TreeError::TooLarge { size, tiles });
    }
    let mut paths = Vec::new();
    for (level, first, last) in ranges {
        // Level 0 is long and its tiles come with the entries; proofs need its edges alone.
        let step = if level == 0 { (last - first).max(1) } else { 1 };
        let mut index = first;
        while index <= last {
            paths.push(hash_path(level, index, tile_width(level, index, size)));
            index += step;
        }
    }
    Ok(paths)
}

impl SignedTree {
    /// Leaves in the tree.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The signed root.
    pub const fn root(&self) -> &NodeHash {
        &self.root
    }

    /// What vouches for level 0 tile `index`.
    pub fn leaf_tile(&self, index: u64) -> LeafTile<'_> {
        match above(&self.tiles, 0, index) {
            Some(hash) => LeafTile::Full(hash),
            None => self.tiles.get(&(0, index)).map_or(LeafTile::Beyond, LeafTile::Edge),
        }
    }

    /// The tiles, for keeping.
    pub fn tiles(&self) -> impl Iterator<Item = (u8, u64, &Tile)> {
        self.tiles.iter().map(|(&(level, index), tile)| (level, index, tile))
    }
}

/// What vouches for a level 0 tile.
#[derive(Debug)]
pub enum LeafTile<'t> {
    /// The hash over its 256 leaves.
    Full(NodeHash),
    /// The tile itself, at the tree's right edge.
    Edge(&'t Tile),
    /// Nothing: the tree does not reach there, or that part was not fetched.
    Beyond,
}

/// A tile that this part of the tree does not hold.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the tile is not among those fetched")]
pub struct Missing;

struct Tiles<'t>(&'t HashMap<Place, Tile>);

impl TileReader for &Tiles<'_> {
    type Error = Missing;

    fn read_tile(&self, level: u8, index: u64, _width: u16) -> Result<Tile, Missing> {
        self.0.get(&(level, index)).cloned().ok_or(Missing)
    }
}

impl TileReader for &SignedTree {
    type Error = Missing;

    fn read_tile(&self, level: u8, index: u64, _width: u16) -> Result<Tile, Missing> {
        self.tiles.get(&(level, index)).cloned().ok_or(Missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_tiles_are_those_with_new_hashes_at_every_boundary() {
        let sizes = [
            0u64, 1, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537, 65_792, 131_072, 16_777_216, 16_777_217,
        ];
        for known in sizes {
            for size in sizes.into_iter().filter(|size| *size >= known) {
                let paths = upper_paths(known, size).unwrap();
                let mut distinct = paths.clone();
                distinct.dedup();
                assert_eq!(distinct, paths, "{known} {size}");
                for path in &paths {
                    let TileKind::Hashes { level } = path.kind() else { panic!("{path}") };
                    assert_eq!(path.width(), tile_width(level, path.index(), size), "{known} {size}");
                    assert!(path.index() >= level_hashes(level, known) / 256, "{known} {size} {path}");
                }
                // Every partial tile of the right edge is among them: they rebuild the root.
                for level in 0..4u8 {
                    let (index, width) = (level_hashes(level, size) / 256, level_hashes(level, size) % 256);
                    let edge = paths
                        .iter()
                        .any(|path| path.kind() == TileKind::Hashes { level } && path.index() == index);
                    assert_eq!(edge, width > 0, "{known} {size} level {level}");
                }
            }
        }
        for size in [1 << 34, 1 << 62, (1 << 63) - 1] {
            assert!(matches!(upper_paths(0, size), Err(TreeError::TooLarge { .. })));
        }
    }
}

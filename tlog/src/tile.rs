//! Tiles (c2sp.org/tlog-tiles): coordinates, paths, and proofs from stored tiles.

mod path;

use thiserror::Error;

pub use self::path::{TileKind, TilePath, TilePathError, level_hashes, level_tiles, tiles_of};
use crate::hash::{HASH_BYTES, NodeHash};
use crate::tree::{NodeId, NodeReader, over};

/// Hashes in a full tile, entries in a full bundle.
pub const TILE_WIDTH: u16 = 256;
/// Tree levels a tile spans.
pub const TILE_HEIGHT: u8 = 8;
/// Highest tile level that a path may name.
pub const TILE_LEVEL_MAX: u8 = 63;

/// The tile that holds (or builds) a node: tile level, tile index, first hash, number of hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TileSpan {
    /// Tile level.
    pub level: u8,
    /// Tile index.
    pub index: u64,
    /// First hash inside the tile that the node spans.
    pub first: u16,
    /// Hashes that the node spans, a power of two up to 128.
    pub count: u16,
}

impl TileSpan {
    /// The tile: its level and index.
    const fn tile(&self) -> (u8, u64) {
        (self.level, self.index)
    }

    /// Where node `id` is to be found.
    pub fn of(id: NodeId) -> Self {
        let height = id.level % TILE_HEIGHT;
        let per_tile = TILE_HEIGHT - height;
        Self {
            level: id.level / TILE_HEIGHT,
            index: id.index >> per_tile,
            first: width_of(id.index & ((1 << per_tile) - 1)) << height,
            count: 1 << height,
        }
    }
}

/// Hashes of one tile as stored: the tile itself and, to keep proofs cheap, the roots over each
/// aligned group of 16.
///
/// A subtree inside a tile then costs at most 15 joins instead of 127, so that the price of a proof
/// hardly depends on the size of the tree. On disk: `width * 32` bytes of hashes, then
/// `width / 16 * 32` bytes of group roots. The group roots are derived and never served.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tile {
    /// The hashes, then the group roots: the stored form in one piece.
    stored: Vec<NodeHash>,
    width: usize,
}

const GROUP: usize = 16;

/// Why stored or fetched bytes are not a tile.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
#[non_exhaustive]
pub enum TileError {
    /// The length is not that of the expected width.
    #[error("a tile of width {width} has {expected} bytes, not {found}")]
    Length {
        /// The width asked for.
        width: u16,
        /// Bytes that belong there.
        expected: usize,
        /// Bytes found.
        found: usize,
    },
    /// Stored bytes that no width accounts for.
    #[error("{0} bytes are not a stored tile of any width")]
    Stored(usize),
    /// A full tile takes no more hashes.
    #[error("the tile is full")]
    Full,
}

impl Tile {
    /// Reads a served tile of exactly `width` hashes. Unauthenticated: hold it against a root.
    ///
    /// # Errors
    /// [`TileError::Length`].
    pub fn from_served(bytes: &[u8], width: u16) -> Result<Self, TileError> {
        let expected = usize::from(width) * HASH_BYTES;
        if bytes.len() != expected || width > TILE_WIDTH {
            return Err(TileError::Length { width, expected, found: bytes.len() });
        }
        Ok(Self::from_hashes(split_hashes(bytes)))
    }

    /// The hash over a full tile as it is served, for those who want nothing else of it. `None` where it is not full.
    pub fn hash_of_served(bytes: &[u8]) -> Option<NodeHash> {
        let (hashes, rest) = bytes.as_chunks::<HASH_BYTES>();
        (rest.is_empty() && hashes.len() == usize::from(TILE_WIDTH)).then(|| over(hashes))
    }

    /// Reads a tile from its stored form.
    ///
    /// # Errors
    /// [`TileError::Stored`].
    pub fn from_stored(bytes: &[u8]) -> Result<Self, TileError> {
        let width = StoredTile::parse(bytes)?.hashes.len();
        Ok(Self { stored: split_hashes(bytes), width })
    }

    fn from_hashes(mut hashes: Vec<NodeHash>) -> Self {
        let width = hashes.len();
        let groups: Vec<NodeHash> = hashes.chunks_exact(GROUP).map(over).collect();
        hashes.extend(groups);
        Self { stored: hashes, width }
    }

    /// The stored form.
    pub fn to_stored(&self) -> Vec<u8> {
        joined(&self.stored)
    }

    /// The first `width` hashes as they are served, if the tile has that many.
    pub fn to_served(&self, width: u16) -> Option<Vec<u8>> {
        self.hashes().get(..usize::from(width)).map(joined)
    }

    /// Adds the next hash.
    ///
    /// # Errors
    /// [`TileError::Full`].
    pub fn push(&mut self, hash: NodeHash) -> Result<(), TileError> {
        if self.width >= usize::from(TILE_WIDTH) {
            return Err(TileError::Full);
        }
        self.stored.insert(self.width, hash);
        self.width += 1;
        if let Some(group) = self.hashes().rchunks_exact(GROUP).next()
            && self.width.is_multiple_of(GROUP)
        {
            let group = over(group);
            self.stored.push(group);
        }
        Ok(())
    }

    /// The hashes.
    pub fn hashes(&self) -> &[NodeHash] {
        let (hashes, _) = self.stored.split_at(self.width);
        hashes
    }

    fn groups(&self) -> &[NodeHash] {
        let (_, groups) = self.stored.split_at(self.width);
        groups
    }

    /// Hashes in the tile.
    pub fn width(&self) -> u16 {
        width_of(self.width as u64)
    }

    /// The hash over `count` (a power of two) hashes from `first`, an aligned span.
    pub fn subtree(&self, first: u16, count: u16) -> Option<NodeHash> {
        subtree(self.hashes(), self.groups(), first, count)
    }

    /// Adds to `hashes` one hash for each span of this tile.
    ///
    /// # Errors
    /// [`TileNodesError::Narrow`].
    pub fn read_spans<E>(
        &self,
        spans: &[TileSpan],
        hashes: &mut Vec<NodeHash>,
    ) -> Result<(), TileNodesError<E>> {
        read_spans((self.hashes(), self.groups()), spans, hashes)
    }
}

/// A tile in its stored form, read in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredTile<'b> {
    hashes: &'b [[u8; HASH_BYTES]],
    groups: &'b [[u8; HASH_BYTES]],
}

impl<'b> StoredTile<'b> {
    /// Takes up a tile's stored form.
    ///
    /// # Errors
    /// [`TileError::Stored`].
    pub fn parse(bytes: &'b [u8]) -> Result<Self, TileError> {
        let (all, rest) = bytes.as_chunks();
        // Each width has one number of hashes and group roots together: width + width / 16.
        let width = all.len() - all.len() / (GROUP + 1);
        let (hashes, groups) = all.split_at(width);
        if !rest.is_empty() || groups.len() != width / GROUP || width > usize::from(TILE_WIDTH) {
            return Err(TileError::Stored(bytes.len()));
        }
        Ok(Self { hashes, groups })
    }

    /// Hashes in the tile.
    pub fn width(&self) -> u16 {
        width_of(self.hashes.len() as u64)
    }

    /// The hash over `count` (a power of two) hashes from `first`, an aligned span.
    pub fn subtree(&self, first: u16, count: u16) -> Option<NodeHash> {
        subtree(self.hashes, self.groups, first, count)
    }

    /// Adds to `hashes` one hash for each span of this tile.
    ///
    /// # Errors
    /// [`TileNodesError::Narrow`].
    pub fn read_spans<E>(
        &self,
        spans: &[TileSpan],
        hashes: &mut Vec<NodeHash>,
    ) -> Result<(), TileNodesError<E>> {
        read_spans((self.hashes, self.groups), spans, hashes)
    }
}

fn read_spans<H: Copy + Into<NodeHash>, E>(
    (hashes, groups): (&[H], &[H]),
    spans: &[TileSpan],
    read: &mut Vec<NodeHash>,
) -> Result<(), TileNodesError<E>> {
    for &TileSpan { level, index, first, count } in spans {
        let found = width_of(hashes.len() as u64);
        let narrow = TileNodesError::Narrow { level, index, found, needed: first + count };
        read.push(subtree(hashes, groups, first, count).ok_or(narrow)?);
    }
    Ok(())
}

fn subtree<H: Copy + Into<NodeHash>>(hashes: &[H], groups: &[H], first: u16, count: u16) -> Option<NodeHash> {
    let (first, count) = (usize::from(first), usize::from(count));
    if count >= GROUP {
        groups.get(first / GROUP..(first + count) / GROUP).map(over)
    } else {
        hashes.get(first..first + count).map(over)
    }
}

fn joined(hashes: &[NodeHash]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| *hash.as_bytes()).collect()
}

fn split_hashes(bytes: &[u8]) -> Vec<NodeHash> {
    let (hashes, _) = bytes.as_chunks::<HASH_BYTES>();
    hashes.iter().map(|hash| NodeHash::from_bytes(*hash)).collect()
}

/// Where tiles come from: a store, a server, a folder.
pub trait TileReader {
    /// Why a tile cannot be read.
    type Error;

    /// The tile at `(level, index)` with at least `width` hashes.
    ///
    /// # Errors
    /// When the tile is missing, too narrow or cannot be read.
    fn read_tile(&self, level: u8, index: u64, width: u16) -> Result<Tile, Self::Error>;

    /// Adds to `hashes` one hash for each span of the tile at `(level, index)`, which has at least `width`
    /// hashes: what proofs read. A reader that has stored bytes at hand may answer in place, with
    /// [`StoredTile::read_spans`], and spare the copy.
    ///
    /// # Errors
    /// [`TileNodesError`].
    fn read_spans(
        &self,
        level: u8,
        index: u64,
        width: u16,
        spans: &[TileSpan],
        hashes: &mut Vec<NodeHash>,
    ) -> Result<(), TileNodesError<Self::Error>> {
        self.read_tile(level, index, width).map_err(TileNodesError::Reader)?.read_spans(spans, hashes)
    }
}

impl<R: TileReader + ?Sized> TileReader for &R {
    type Error = R::Error;

    fn read_tile(&self, level: u8, index: u64, width: u16) -> Result<Tile, Self::Error> {
        (**self).read_tile(level, index, width)
    }

    fn read_spans(
        &self,
        level: u8,
        index: u64,
        width: u16,
        spans: &[TileSpan],
        hashes: &mut Vec<NodeHash>,
    ) -> Result<(), TileNodesError<Self::Error>> {
        (**self).read_spans(level, index, width, spans, hashes)
    }
}

/// Why a node cannot be built from tiles.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TileNodesError<E> {
    /// The reader failed.
    #[error("a tile could not be read")]
    Reader(#[source] E),
    /// The reader answered a tile narrower than the tree's size implies.
    #[error("tile {level}/{index} has {found} hashes where the tree needs {needed}")]
    Narrow {
        /// Tile level.
        level: u8,
        /// Tile index.
        index: u64,
        /// Hashes in the tile.
        found: u16,
        /// Hashes needed.
        needed: u16,
    },
}

/// Node hashes of a tree of `size` leaves, built from its tiles; each tile is read once a call.
#[derive(Debug)]
pub struct TileNodes<R> {
    reader: R,
    size: u64,
}

impl<R: TileReader> TileNodes<R> {
    /// Nodes of the tree of `size` leaves whose tiles `reader` has.
    pub const fn new(reader: R, size: u64) -> Self {
        Self { reader, size }
    }

    /// Width of a tile in this tree; 0 where the tree has no such tile.
    pub fn width(&self, level: u8, index: u64) -> u16 {
        tile_width(level, index, self.size)
    }
}

/// Width of tile `(level, index)` in a tree of `size` leaves; 0 where the tree has no such tile.
pub fn tile_width(level: u8, index: u64, size: u64) -> u16 {
    let before = index.saturating_mul(u64::from(TILE_WIDTH));
    let rest = level_hashes(level, size).saturating_sub(before);
    width_of(rest.min(u64::from(TILE_WIDTH)))
}

fn width_of(hashes: u64) -> u16 {
    u16::try_from(hashes).expect("a tile holds at most 256 hashes")
}

impl<R: TileReader> NodeReader for TileNodes<R> {
    type Error = TileNodesError<R::Error>;

    fn read_nodes(&self, nodes: &[NodeId]) -> Result<Vec<NodeHash>, Self::Error> {
        // Each tile is read once: its spans together, each with its place in the answer.
        let mut order: Vec<(TileSpan, usize)> =
            nodes.iter().zip(0..).map(|(node, at)| (TileSpan::of(*node), at)).collect();
        order.sort_unstable_by_key(|(span, at)| (span.tile(), *at));
        let mut hashes = vec![NodeHash::EMPTY_ROOT; nodes.len()];
        let mut spans = Vec::with_capacity(nodes.len());
        let mut read = Vec::with_capacity(nodes.len());
        for part in order.chunk_by(|(one, _), (next, _)| one.tile() == next.tile()) {
            spans.clear();
            spans.extend(part.iter().map(|(span, _)| *span));
            let Some((level, index)) = spans.first().map(TileSpan::tile) else { continue };
            read.clear();
            self.reader.read_spans(level, index, self.width(level, index), &spans, &mut read)?;
            assert_eq!(read.len(), spans.len(), "a tile reader answers every span");
            for ((_, at), hash) in part.iter().zip(&read) {
                if let Some(place) = hashes.get_mut(*at) {
                    *place = *hash;
                }
            }
        }
        Ok(hashes)
    }
}

#[cfg(test)]
mod tests;

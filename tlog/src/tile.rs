//! Tiles (c2sp.org/tlog-tiles): coordinates, paths, and proofs from stored tiles.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::TREE_SIZE_MAX;
use crate::hash::{HASH_BYTES, NodeHash};
use crate::text;
use crate::tree::{NodeId, NodeReader, over};

/// Hashes in a full tile, entries in a full bundle.
pub const TILE_WIDTH: u16 = 256;
/// Tree levels a tile spans.
pub const TILE_HEIGHT: u8 = 8;
/// Highest tile level that a path may name.
pub const TILE_LEVEL_MAX: u8 = 63;

/// What a tile path points at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum TileKind {
    /// Hashes; level 0 are leaf hashes, each hash above spans a full tile below.
    Hashes {
        /// The tile level, 0 to 63.
        level: u8,
    },
    /// An entry bundle.
    Entries,
}

/// A tile or entry bundle of a log, full (width 256) or partial.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TilePath {
    kind: TileKind,
    index: u64,
    width: u16,
}

/// Why a path names no tile.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
#[non_exhaustive]
pub enum TilePathError {
    /// It does not start with `tile/` and a level or `entries`.
    #[error("the path is not tile/<level>/<index> or tile/entries/<index>")]
    Shape,
    /// The level is not a canonical decimal from 0 to 63.
    #[error("the tile level is not a decimal from 0 to 63")]
    Level,
    /// The index is not in canonical three-digit elements, or beyond 2^63 - 1.
    #[error("the tile index is not written in three-digit elements (1234067 is x001/x234/067)")]
    Index,
    /// The width is not a canonical decimal from 1 to 255.
    #[error("the partial width is not a decimal from 1 to 255")]
    Width,
}

impl TilePath {
    /// A tile from its coordinates.
    ///
    /// # Errors
    /// [`TilePathError`] for a level above 63, an index above 2^63 - 1, a width of 0 or above 256.
    pub const fn new(kind: TileKind, index: u64, width: u16) -> Result<Self, TilePathError> {
        if let TileKind::Hashes { level } = kind
            && level > TILE_LEVEL_MAX
        {
            return Err(TilePathError::Level);
        }
        if index > TREE_SIZE_MAX {
            return Err(TilePathError::Index);
        }
        if width == 0 || width > TILE_WIDTH {
            return Err(TilePathError::Width);
        }
        Ok(Self { kind, index, width })
    }

    /// Hashes of a level, or entries.
    pub const fn kind(&self) -> TileKind {
        self.kind
    }

    /// Position among the tiles of its level.
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// Hashes or entries in it, 1 to 256.
    pub const fn width(&self) -> u16 {
        self.width
    }

    /// Whether it is a partial tile.
    pub const fn is_partial(&self) -> bool {
        self.width < TILE_WIDTH
    }

    /// The full tile at the same place, which replaces a partial one in time.
    #[must_use]
    pub const fn full(self) -> Self {
        Self { width: TILE_WIDTH, ..self }
    }
}

/// The path below the log's prefix, without a leading slash.
impl fmt::Display for TilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TileKind::Hashes { level } => write!(f, "tile/{level}/")?,
            TileKind::Entries => f.write_str("tile/entries/")?,
        }
        // Seven elements hold any 64-bit index.
        for power in (1..7).rev() {
            let above = self.index / 1000u64.pow(power);
            if above > 0 {
                write!(f, "x{:03}/", above % 1000)?;
            }
        }
        write!(f, "{:03}", self.index % 1000)?;
        if self.is_partial() { write!(f, ".p/{}", self.width) } else { Ok(()) }
    }
}

impl FromStr for TilePath {
    type Err = TilePathError;

    fn from_str(path: &str) -> Result<Self, TilePathError> {
        let rest = path.strip_prefix("tile/").ok_or(TilePathError::Shape)?;
        let (level, rest) = rest.split_once('/').ok_or(TilePathError::Shape)?;
        let kind = if level == "entries" {
            TileKind::Entries
        } else {
            let level = text::parse_decimal(level).and_then(|level| u8::try_from(level).ok());
            TileKind::Hashes { level: level.ok_or(TilePathError::Level)? }
        };
        let (index, width) = match rest.split_once(".p/") {
            None => (rest, TILE_WIDTH),
            Some((index, width)) => {
                let width = text::parse_decimal(width).and_then(|width| u16::try_from(width).ok());
                (index, width.filter(|width| *width < TILE_WIDTH).ok_or(TilePathError::Width)?)
            }
        };
        Self::new(kind, parse_index(index).ok_or(TilePathError::Index)?, width)
    }
}

fn parse_index(index: &str) -> Option<u64> {
    let mut value: u64 = 0;
    let mut elements = index.split('/').peekable();
    let mut first = true;
    while let Some(element) = elements.next() {
        let digits = match elements.peek() {
            Some(_) => element.strip_prefix('x')?,
            None => element,
        };
        if digits.len() != 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let number: u64 = digits.parse().ok()?;
        if first && number == 0 && elements.peek().is_some() {
            return None;
        }
        first = false;
        value = value.checked_mul(1000)?.checked_add(number)?;
    }
    Some(value)
}

/// Hashes that level `level` holds in a tree of `size` leaves: one for each full subtree of
/// `256^level` leaves.
pub const fn level_hashes(level: u8, size: u64) -> u64 {
    let shift = level as u32 * TILE_HEIGHT as u32;
    if shift >= u64::BITS { 0 } else { size >> shift }
}

/// Every tile of one level (and its width) in a tree of `size` leaves, the partial one last.
pub fn level_tiles(kind: TileKind, size: u64) -> impl Iterator<Item = TilePath> {
    let level = match kind {
        TileKind::Hashes { level } => level,
        TileKind::Entries => 0,
    };
    let hashes = level_hashes(level, size);
    let (full, partial) = (hashes / u64::from(TILE_WIDTH), hashes % u64::from(TILE_WIDTH));
    let partial = u16::try_from(partial).ok().filter(|width| *width > 0);
    (0..full)
        .map(move |index| TilePath { kind, index, width: TILE_WIDTH })
        .chain(partial.map(move |width| TilePath { kind, index: full, width }))
}

/// Every hash tile and entry bundle that a checkpoint of `size` implies.
pub fn tiles_of(size: u64) -> impl Iterator<Item = TilePath> {
    (0..=TILE_LEVEL_MAX / TILE_HEIGHT)
        .flat_map(move |level| level_tiles(TileKind::Hashes { level }, size))
        .chain(level_tiles(TileKind::Entries, size))
}

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
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::tree::tests::{leaves, mth};
    use crate::tree::{Frontier, root};
    use crate::{consistency, inclusion};

    struct Tiles(HashMap<(u8, u64), Tile>);

    impl TileReader for Tiles {
        type Error = String;
        fn read_tile(&self, level: u8, index: u64, _width: u16) -> Result<Tile, String> {
            self.0.get(&(level, index)).cloned().ok_or_else(|| format!("{level}/{index} is missing"))
        }
    }

    fn tiles(count: u64) -> Tiles {
        let mut frontier = Frontier::new();
        let mut tiles: HashMap<(u8, u64), Tile> = HashMap::new();
        for leaf in leaves(count) {
            for (node, hash) in frontier.append(leaf) {
                if node.level.is_multiple_of(TILE_HEIGHT) {
                    let key = (node.level / TILE_HEIGHT, node.index / 256);
                    tiles.entry(key).or_default().push(hash).unwrap();
                }
            }
        }
        Tiles(tiles)
    }

    #[test]
    fn proofs_and_roots_from_tiles_verify() {
        let all = leaves(1_000);
        let reader = tiles(1_000);
        let new_root = mth(&all);
        for size in [1u64, 15, 16, 17, 255, 256, 257, 511, 513, 999, 1_000] {
            let nodes = TileNodes::new(&reader, size);
            let old_root = root(size, &nodes).unwrap();
            assert_eq!(old_root, mth(&all[..usize::try_from(size).unwrap()]));
            for index in [0, size / 2, size - 1] {
                let proof = inclusion::prove(index, size, &nodes).unwrap();
                let leaf = all[usize::try_from(index).unwrap()];
                assert_eq!(inclusion::verify(index, size, leaf, &proof, &old_root), Ok(()));
            }
            let proof = consistency::prove(size, 1_000, &TileNodes::new(&reader, 1_000)).unwrap();
            assert_eq!(consistency::verify(size, &old_root, 1_000, &new_root, &proof), Ok(()));
        }
    }

    #[test]
    fn a_tile_survives_its_stored_and_served_forms_at_every_width() {
        let mut tile = Tile::default();
        for width in 0..=256u16 {
            let stored = tile.to_stored();
            assert_eq!(Tile::from_stored(&stored), Ok(tile.clone()), "{width}");
            let served = tile.to_served(width).unwrap();
            assert_eq!(Tile::from_served(&served, width), Ok(tile.clone()));
            let whole = (width == 256).then(|| mth(&vec![leaves(1)[0]; 256]));
            assert_eq!(Tile::hash_of_served(&served), whole);
            let pushed = tile.push(leaves(1)[0].into());
            assert_eq!(pushed.is_err(), width == 256);
        }
    }

    /// The same tiles in their stored form, read in place.
    struct InPlace(HashMap<(u8, u64), Vec<u8>>);

    impl TileReader for InPlace {
        type Error = String;

        fn read_tile(&self, level: u8, index: u64, _width: u16) -> Result<Tile, String> {
            unreachable!("tile {level}/{index} is read in place")
        }

        fn read_spans(
            &self,
            level: u8,
            index: u64,
            _width: u16,
            spans: &[TileSpan],
            hashes: &mut Vec<NodeHash>,
        ) -> Result<(), TileNodesError<String>> {
            StoredTile::parse(&self.0[&(level, index)]).unwrap().read_spans(spans, hashes)
        }
    }

    #[test]
    fn a_tile_read_in_place_gives_the_same_nodes() {
        let copied = tiles(70_000);
        let in_place = InPlace(copied.0.iter().map(|(at, tile)| (*at, tile.to_stored())).collect());
        let (copied, in_place) = (TileNodes::new(&copied, 70_000), TileNodes::new(&in_place, 70_000));
        for index in [0, 255, 256, 65_535, 65_536, 69_887, 69_888, 69_999] {
            let proof = inclusion::prove(index, 70_000, &copied).unwrap();
            assert_eq!(inclusion::prove(index, 70_000, &in_place), Ok(proof));
            let proof = consistency::prove(index, 70_000, &copied).unwrap();
            assert_eq!(consistency::prove(index, 70_000, &in_place), Ok(proof));
        }
    }

    #[test]
    fn stored_bytes_of_no_width_are_refused() {
        for width in 0..=256usize {
            let stored = (width + width / 16) * 32;
            for length in [stored + 1, stored + 31] {
                assert_eq!(StoredTile::parse(&vec![0; length]), Err(TileError::Stored(length)));
            }
            assert_eq!(usize::from(StoredTile::parse(&vec![0; stored]).unwrap().width()), width);
        }
        // Sixteen hashes come with their root: sixteen alone are no tile, nor are more than a full one.
        for hashes in [16, 33, 273] {
            assert_eq!(Tile::from_stored(&vec![0; hashes * 32]), Err(TileError::Stored(hashes * 32)));
        }
    }

    #[test]
    fn a_missing_or_narrow_tile_is_an_error_not_a_hash() {
        let mut reader = tiles(600);
        assert!(root(700, &TileNodes::new(&reader, 700)).is_err());
        reader.0.remove(&(0, 1));
        assert!(inclusion::prove(300, 600, &TileNodes::new(&reader, 600)).is_err());
    }

    #[test]
    fn the_specification_example_of_70000_entries_has_those_tiles() {
        let count = |level| {
            let tiles: Vec<_> = level_tiles(TileKind::Hashes { level }, 70_000).collect();
            (tiles.iter().filter(|tile| !tile.is_partial()).count(), tiles.last().unwrap().width())
        };
        assert_eq!(count(0), (273, 112));
        assert_eq!(count(1), (1, 17));
        assert_eq!(count(2), (0, 1));
        assert_eq!(level_tiles(TileKind::Hashes { level: 3 }, 70_000).count(), 0);
        assert_eq!("tile/0/x001/x234/067".parse::<TilePath>().unwrap().index(), 1_234_067);
    }

    proptest::proptest! {
        #[test]
        fn paths_have_one_spelling(index in 0..=TREE_SIZE_MAX, level in 0..=63u8, width in 1..=256u16, noise in "[0-9x./p]{0,24}") {
            let path = TilePath::new(TileKind::Hashes { level }, index, width).unwrap();
            proptest::prop_assert_eq!(path.to_string().parse(), Ok(path));
            let text = format!("tile/{noise}");
            if let Ok(path) = text.parse::<TilePath>() {
                proptest::prop_assert_eq!(path.to_string(), text);
            }
        }
    }
}

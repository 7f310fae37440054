//! Coordinates and paths of tiles, and which tiles a tree has.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::{TILE_HEIGHT, TILE_LEVEL_MAX, TILE_WIDTH};
use crate::TREE_SIZE_MAX;
use crate::text;

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

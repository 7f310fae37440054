//! Single entries of the verified part of a log: from the history, else fetched again and held against
//! the leaf that the history keeps.

use runseal_tlog::bundle::{self, BUNDLE_BYTES_MAX};
use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::tile::{TileKind, TilePath, tile_width};

use crate::blocking::blocking;
use crate::error::Failure;
use crate::history::{LogHistory, place};
use crate::source::LogSource;

/// Finds entries by index.
#[derive(Debug)]
pub struct Finder<'a> {
    history: &'a LogHistory,
    source: &'a LogSource,
    size: u64,
}

impl<'a> Finder<'a> {
    /// Entries of a log of `size` entries.
    pub const fn new(history: &'a LogHistory, source: &'a LogSource, size: u64) -> Self {
        Self { history, source, size }
    }

    /// An entry, `None` where it can no longer be had.
    ///
    /// # Errors
    /// [`Failure`] of the history.
    pub async fn entry(&self, index: u64) -> Result<Option<Vec<u8>>, Failure> {
        let history = self.history.clone();
        let kept = blocking(move || history.entry(index)).await??;
        if kept.is_some() {
            return Ok(kept);
        }
        let (tile, within) = place(index);
        Ok(self.fetched(tile).await?.into_iter().nth(usize::from(within)).flatten())
    }

    /// The entries of one bundle, each `None` where it can no longer be had.
    ///
    /// # Errors
    /// [`Failure`] of the history.
    pub async fn bundle(&self, tile: u64) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        let width = tile_width(0, tile, self.size);
        let history = self.history.clone();
        let kept = blocking(move || history.bundle(tile)).await??;
        match kept
            .as_deref()
            .map(|kept| bundle::entries(bundle::prefix(kept, width).unwrap_or_default(), width))
        {
            Some(Ok(entries)) => Ok(entries.into_iter().map(|entry| Some(entry.to_vec())).collect()),
            _ => self.fetched(tile).await,
        }
    }

    async fn fetched(&self, tile: u64) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        let width = tile_width(0, tile, self.size);
        let history = self.history.clone();
        let Some(leaves) = blocking(move || history.tile(0, tile)).await?? else { return Ok(Vec::new()) };
        let nothing = vec![None; usize::from(width)];
        let Ok(path) = TilePath::new(TileKind::Entries, tile, width) else { return Ok(nothing) };
        let fetched = self.source.fetch(&[path], BUNDLE_BYTES_MAX).await.pop().and_then(Result::ok);
        let Some(bytes) = fetched.and_then(|fetched| fetched.open().ok()) else { return Ok(nothing) };
        let exact = bundle::prefix(&bytes, width).unwrap_or_default();
        let Ok(entries) = bundle::entries(exact, width) else { return Ok(nothing) };
        let authentic = |(entry, leaf): (&[u8], &NodeHash)| {
            (NodeHash::from(LeafHash::of(entry)) == *leaf).then(|| entry.to_vec())
        };
        Ok(entries.into_iter().zip(leaves.hashes()).map(authentic).collect())
    }
}

//! Single entries of the verified part of a log: from the history, else fetched again and held against
//! the leaf that the history keeps.

use std::sync::Arc;

use runseal_tlog::bundle::{self, BUNDLE_BYTES_MAX};
use runseal_tlog::hash::LeafHash;
use runseal_tlog::tile::{TileKind, TilePath, tile_width};

use crate::error::Failure;
use crate::history::{LogHistory, place};
use crate::online::blocking::blocking;
use crate::online::entries::Examiner;
use crate::online::source::LogSource;

/// Finds entries by index.
#[derive(Debug)]
pub struct Finder<'a> {
    history: &'a LogHistory,
    source: &'a LogSource,
    size: u64,
    examiner: Option<Arc<Examiner>>,
}

impl<'a> Finder<'a> {
    /// Entries of a log of `size` entries.
    pub const fn new(history: &'a LogHistory, source: &'a LogSource, size: u64) -> Self {
        Self { history, source, size, examiner: None }
    }

    /// The same, for a history that keeps no leaves: `examiner` has the tree that vouches for entries.
    #[must_use]
    pub fn with(self, examiner: Arc<Examiner>) -> Self {
        Self { examiner: Some(examiner), ..self }
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
        let nothing = vec![None; usize::from(width)];
        let Ok(path) = TilePath::new(TileKind::Entries, tile, width) else { return Ok(nothing) };
        let fetched = self.source.fetch(&[path], BUNDLE_BYTES_MAX).await.pop().and_then(Result::ok);
        let Some(bytes) = fetched.and_then(|fetched| fetched.open().ok()) else { return Ok(nothing) };
        let exact = bundle::prefix(&bytes, width).unwrap_or_default();
        let Ok(entries) = bundle::entries(exact, width) else { return Ok(nothing) };
        let hashes: Vec<u8> = entries.iter().flat_map(|entry| *LeafHash::of(entry).as_bytes()).collect();
        let history = self.history.clone();
        let authentic = match (blocking(move || history.tile(0, tile)).await??, &self.examiner) {
            (Some(leaves), _) => leaves.to_served(width).is_some_and(|leaves| leaves == hashes),
            (None, Some(examiner)) => examiner.vouches_for(tile, &hashes),
            (None, None) => false,
        };
        if !authentic {
            return Ok(nothing);
        }
        Ok(entries.into_iter().map(|entry| Some(entry.to_vec())).collect())
    }
}

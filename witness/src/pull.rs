//! Pulling one log's next checkpoint: fetch it, fetch the tiles that prove it, authenticate each tile,
//! and hand the checkpoint over to the same decision that a pushed one meets.
//!
//! No tile is believed. The partial tiles at the tree's right edge together give the checkpoint's
//! root, which authenticates every hash in them; a full tile is authenticated by its hash in the tile
//! above. Where a log no longer has a partial tile, the full one is cut to its width.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use reqwest::header::HeaderValue;
use runseal_tlog::checkpoint::{CheckpointError, OpenError, SignedCheckpoint};
use runseal_tlog::consistency;
use runseal_tlog::fraud::FraudProof;
use runseal_tlog::hash::{HASH_BYTES, NodeHash};
use runseal_tlog::note::{Note, NoteError};
use runseal_tlog::tile::{
    TILE_WIDTH, Tile, TileError, TileKind, TileNodes, TilePath, TileReader, TileSpan, level_hashes,
    tile_width,
};
use runseal_tlog::tree::{self, NodeId, NodeReader};
use thiserror::Error;

use crate::commit::NotDurable;
use crate::fetch::{FetchError, Fetched, Fetcher, Freshness};
use crate::logs::Log;
use crate::state::StateError;
use crate::witness::{Contradiction, Refusal, Submission, Witness};

/// Longest checkpoint read.
const NOTE_BYTES_MAX: u64 = 64 * 1024;
/// How long one file may take.
const FETCH_TIME: Duration = Duration::from_secs(5);
/// Tiles fetched at once from one log.
const FETCHES: usize = 8;
/// A cosignature older than this is made anew though the log stands still.
const REFRESH_SECONDS: u64 = 60;

/// What a pull came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulled {
    /// A newer checkpoint was cosigned.
    Cosigned {
        /// Its size.
        size: u64,
    },
    /// The log stands where it stood; its cosignature was made anew.
    Refreshed,
    /// The log stands where it stood, or has yet to publish what it had cosigned already.
    Unchanged,
}

/// Why a pull came to nothing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PullError {
    /// A file could not be fetched.
    #[error("{path}: {reason}")]
    Fetch {
        /// The file, below the log's URL.
        path: String,
        /// Why not.
        reason: FetchError,
    },
    /// What was fetched is no note.
    #[error("checkpoint: {0}")]
    Note(#[from] NoteError),
    /// The log did not sign it.
    #[error("checkpoint: {0}")]
    Open(#[from] OpenError),
    /// The checkpoint is another log's.
    #[error("checkpoint: the origin is {0:?}")]
    Origin(String),
    /// A tile has another length than its width demands.
    #[error("{path}: {fault}")]
    Tile {
        /// The tile.
        path: String,
        /// What is wrong with it.
        fault: TileError,
    },
    /// The log misbehaved; an alarm was raised.
    #[error("the log contradicts itself: {}", .0.name())]
    Alarm(Contradiction),
    /// A tile that the checkpoint does not authenticate; an alarm was raised.
    #[error("{0} is not the tile that the log's own checkpoint commits to")]
    BadTile(String),
    /// A tile that was asked for is not at hand; a fault of this program, and nothing is signed.
    #[error("a tile that the proof needs was not fetched")]
    Incomplete,
    /// The witness refused it for another reason.
    #[error("{0}")]
    Refused(#[source] Refusal),
    /// The state cannot be read.
    #[error("{0}")]
    State(#[from] StateError),
    /// The state cannot be written.
    #[error("{0}")]
    NotDurable(#[from] NotDurable),
}

impl From<CheckpointError> for PullError {
    fn from(error: CheckpointError) -> Self {
        Self::Open(OpenError::Checkpoint(error))
    }
}

/// One log that is pulled from.
#[derive(Debug)]
pub struct Puller {
    url: String,
    etag: Option<HeaderValue>,
    fetcher: Fetcher,
}

impl Puller {
    /// Pulls from the tlog-tiles prefix `url`.
    pub fn new(url: &str, fetcher: Fetcher) -> Self {
        Self { url: url.trim_end_matches('/').to_owned(), etag: None, fetcher }
    }

    /// Looks at the log once.
    ///
    /// # Errors
    /// [`PullError`]. After an alarm the state stays as it was.
    pub async fn pull(&mut self, witness: &Witness, log: &Arc<Log>) -> Result<Pulled, PullError> {
        let head = witness.store().head(log.origin())?;
        let due = witness.clock().now().saturating_sub(head.time) >= REFRESH_SECONDS;
        let freshness = match &self.etag {
            Some(etag) if !due => Freshness::Unless(etag),
            _ => Freshness::Any,
        };
        let Some((note, etag)) = self.checkpoint(freshness).await? else { return Ok(Pulled::Unchanged) };
        let mut signed = open(note, log)?;
        let published = witness.store().published(log.origin())?;
        if signed.checkpoint().size() < published {
            // A cache on the way may be behind; the log itself may not.
            let fresh = self.checkpoint(Freshness::FromOrigin).await?;
            if let Some((note, _)) = fresh {
                signed = open(note, log)?;
            }
            if signed.checkpoint().size() < published {
                witness.raise(log, &signed, Contradiction::Rollback, None).await;
                return Err(PullError::Alarm(Contradiction::Rollback));
            }
        }
        let (size, root) = (signed.checkpoint().size(), *signed.checkpoint().root());
        if size < head.size {
            // Pushed here before the log published it, as logs do that wait for their quorum.
            return Ok(Pulled::Unchanged);
        }
        if (size, root) == (head.size, head.root) && !due {
            self.etag = etag;
            self.remember(witness, log, published, size).await?;
            return Ok(Pulled::Unchanged);
        }
        let mut submission = Submission {
            log: Arc::clone(log),
            old_size: head.size,
            proof: Vec::new(),
            signed,
            tree_hashes: None,
        };
        if head.size > 0 && size > head.size {
            match self.prove(head.size, size, &root).await {
                Ok((proof, tree_hashes)) => {
                    submission.proof = proof;
                    submission.tree_hashes = Some(tree_hashes);
                }
                Err(PullError::BadTile(path)) => {
                    witness.raise(log, &submission.signed, Contradiction::BadTile, None).await;
                    return Err(PullError::BadTile(path));
                }
                Err(error) => return Err(error),
            }
        }
        match witness.advance(&submission).await {
            Ok(_) => {
                self.etag = etag;
                self.remember(witness, log, published, size).await?;
                Ok(if size == head.size { Pulled::Refreshed } else { Pulled::Cosigned { size } })
            }
            // The alarm is raised where the contradiction was seen.
            Err(Refusal::Inconsistent(_)) => Err(PullError::Alarm(Contradiction::Fork)),
            // Pushed here meanwhile; next time.
            Err(Refusal::Conflict { .. }) => Ok(Pulled::Unchanged),
            Err(refusal) => Err(PullError::Refused(refusal)),
        }
    }

    async fn remember(
        &self,
        witness: &Witness,
        log: &Log,
        published: u64,
        size: u64,
    ) -> Result<(), NotDurable> {
        if size > published { witness.saw_published(log, size).await } else { Ok(()) }
    }

    async fn checkpoint(
        &self,
        freshness: Freshness<'_>,
    ) -> Result<Option<(Note, Option<HeaderValue>)>, PullError> {
        match self.get("checkpoint", NOTE_BYTES_MAX, freshness).await? {
            Fetched::Body { bytes, etag } => Ok(Some((Note::parse(&bytes)?, etag))),
            Fetched::NotModified => Ok(None),
        }
    }

    async fn get(&self, path: &str, limit: u64, freshness: Freshness<'_>) -> Result<Fetched, PullError> {
        let url = format!("{}/{path}", self.url);
        self.fetcher
            .get(&url, limit, FETCH_TIME, freshness, None)
            .await
            .map_err(|reason| PullError::Fetch { path: path.to_owned(), reason })
    }

    /// The consistency proof from `old` to the tree of `size` and `root`, and the newer tree's hashes
    /// as a fraud proof would state them.
    async fn prove(
        &self,
        old: u64,
        size: u64,
        root: &NodeHash,
    ) -> Result<(Vec<NodeHash>, Vec<NodeHash>), PullError> {
        let wanted = wanted_tiles(old, size);
        let fetches: Vec<_> = wanted.into_iter().map(|id| self.identified_tile(id, size)).collect();
        let fetched: Vec<Result<(TileId, Tile), PullError>> =
            stream::iter(fetches).buffer_unordered(FETCHES).collect().await;
        let tiles: Tiles = fetched.into_iter().collect::<Result<_, _>>().map(Tiles)?;
        tiles.authenticate(size, root)?;
        let nodes = TileNodes::new(&tiles, size);
        let proof = consistency::prove(old, size, &nodes).map_err(|_| PullError::Incomplete)?;
        let hashes = FraudProof::hashes(old, size, &nodes).map_err(|_| PullError::Incomplete)?;
        Ok((proof, hashes))
    }

    async fn identified_tile(&self, id: TileId, size: u64) -> Result<(TileId, Tile), PullError> {
        Ok((id, self.tile(id, size).await?))
    }

    async fn tile(&self, id: TileId, size: u64) -> Result<Tile, PullError> {
        let width = tile_width(id.level, id.index, size);
        let path = TilePath::new(TileKind::Hashes { level: id.level }, id.index, width)
            .expect("a tile of a tree has a level below 8 and a width from 1 to 256");
        let limit = u64::from(TILE_WIDTH) * HASH_BYTES as u64;
        let (path, fetched) = match self.get(&path.to_string(), limit, Freshness::Any).await {
            // A log may drop a partial tile once the full one is there.
            Err(PullError::Fetch { reason: FetchError::Status(_), .. }) if path.is_partial() => {
                let full = path.full().to_string();
                let fetched = self.get(&full, limit, Freshness::Any).await?;
                (full, fetched)
            }
            other => (path.to_string(), other?),
        };
        let Fetched::Body { bytes, .. } = fetched else {
            return Err(PullError::Fetch { path, reason: FetchError::Status(304) });
        };
        // Of a full tile in a partial one's place only the hashes that the tree has are taken.
        let cut =
            if bytes.len() as u64 == limit { bytes.slice(..usize::from(width) * HASH_BYTES) } else { bytes };
        Tile::from_served(&cut, width).map_err(|fault| PullError::Tile { path, fault })
    }
}

fn open(note: Note, log: &Log) -> Result<SignedCheckpoint, PullError> {
    let signed = SignedCheckpoint::open(note, log.keys(), [])?;
    let origin = signed.checkpoint().origin();
    if origin == log.origin() { Ok(signed) } else { Err(PullError::Origin(origin.to_owned())) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TileId {
    level: u8,
    index: u64,
}

/// Answers no hash, but remembers which were asked for.
struct Asked(std::cell::RefCell<Vec<NodeId>>);

impl NodeReader for Asked {
    type Error = Infallible;

    fn read_nodes(&self, nodes: &[NodeId]) -> Result<Vec<NodeHash>, Infallible> {
        self.0.borrow_mut().extend_from_slice(nodes);
        Ok(vec![NodeHash::EMPTY_ROOT; nodes.len()])
    }
}

/// The tiles that a proof from `old` to `size` needs, and those that authenticate them.
fn wanted_tiles(old: u64, size: u64) -> BTreeSet<TileId> {
    let asked = Asked(std::cell::RefCell::default());
    // The reader never fails, and a dummy proof is no use to anybody: only the questions count.
    let _ = FraudProof::hashes(old, size, &asked);
    let _ = tree::root(size, &asked);
    let mut wanted = BTreeSet::new();
    for node in asked.0.into_inner() {
        let span = TileSpan::of(node);
        let mut id = TileId { level: span.level, index: span.index };
        // A full tile is authenticated by the tile above; the tile at the right edge by the root.
        while wanted.insert(id) && tile_width(id.level, id.index, size) == TILE_WIDTH {
            id = parent(id);
        }
    }
    wanted
}

fn parent(id: TileId) -> TileId {
    TileId { level: id.level + 1, index: id.index / u64::from(TILE_WIDTH) }
}

/// Fetched tiles.
struct Tiles(BTreeMap<TileId, Tile>);

impl TileReader for &Tiles {
    type Error = TileId;

    fn read_tile(&self, level: u8, index: u64, _: u16) -> Result<Tile, TileId> {
        let id = TileId { level, index };
        self.0.get(&id).cloned().ok_or(id)
    }
}

impl Tiles {
    /// Proves every tile: those at the right edge together give the root, and each full one gives its
    /// hash in the tile above.
    fn authenticate(&self, size: u64, root: &NodeHash) -> Result<(), PullError> {
        let edge = tree::root(size, &TileNodes::new(self, size)).map_err(|_| PullError::Incomplete)?;
        if edge != *root {
            let edge = self.0.keys().find(|id| is_edge(**id, size));
            return Err(bad_tile(*edge.unwrap_or(&TileId { level: 0, index: 0 }), size));
        }
        for (id, tile) in &self.0 {
            if is_edge(*id, size) {
                continue;
            }
            let above = self.0.get(&parent(*id)).ok_or(PullError::Incomplete)?;
            let place = usize::try_from(id.index % u64::from(TILE_WIDTH)).expect("below 256");
            let stated = above.hashes().get(place);
            if stated.is_none() || stated != tile.subtree(0, TILE_WIDTH).as_ref() {
                return Err(bad_tile(*id, size));
            }
        }
        Ok(())
    }
}

/// Whether a tile is partial in a tree of `size` leaves, and so read for its root.
fn is_edge(id: TileId, size: u64) -> bool {
    tile_width(id.level, id.index, size) < TILE_WIDTH
}

fn bad_tile(id: TileId, size: u64) -> PullError {
    debug_assert!(level_hashes(id.level, size) > 0);
    let path =
        TilePath::new(TileKind::Hashes { level: id.level }, id.index, tile_width(id.level, id.index, size));
    PullError::BadTile(path.map_or_else(|_| "a tile".to_owned(), |path| path.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_handful_of_tiles_is_wanted_however_large_the_log() {
        for (old, size) in [(1, 2), (255, 256), (256, 257), (70_000, 70_400), (1 << 40, (1 << 40) + 12_345)] {
            let wanted = wanted_tiles(old, size);
            assert!(wanted.len() <= 2 * 8, "{old} to {size}: {}", wanted.len());
            for id in wanted {
                assert!(tile_width(id.level, id.index, size) > 0, "{old} to {size}: {id:?}");
            }
        }
    }
}

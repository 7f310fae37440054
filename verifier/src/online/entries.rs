//! Entry bundles and leaf tiles, authenticated as they come: nothing is used or kept before.

mod examined;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use runseal_evidence::entry::{Entry, EntryView, Recognised};
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::{Base, TenantId};
use runseal_evidence::report::NotChecked;
use runseal_tlog::bundle::{self, BUNDLE_BYTES_MAX};
use runseal_tlog::hash::{HASH_BYTES, LeafHash};
use runseal_tlog::tile::{TILE_WIDTH, Tile, TileKind, TilePath, tile_width};

pub use self::examined::{Examined, VerifiedTile};
use crate::history::LogHistory;
use crate::mark::{Mark, MarkKind};
use crate::online::source::{BUNDLE_BYTES_USUAL, Fetched, FileBuffer, LogSource, SourceError};
use crate::online::tree::{LeafTile, SignedTree};

/// What new entries are held against.
#[derive(Debug)]
pub struct Examiner {
    tree: SignedTree,
    known: u64,
    origin: String,
    tenant: Option<TenantId>,
    run_key: [u8; 16],
    keeps_entries: bool,
    keeps_tiles: bool,
    /// Memory to read files into, for whoever reads next.
    buffers: Mutex<Vec<FileBuffers>>,
}

/// Memory for a tile and for its bundle.
type FileBuffers = (FileBuffer, FileBuffer);

impl Examiner {
    /// Examines entries from `known` on against `tree`, for `history`.
    pub fn new(tree: SignedTree, known: u64, origin: &str, history: &LogHistory) -> Self {
        let (keeps_entries, keeps_tiles) = (history.keeps_entries(), history.keeps_tiles());
        Self {
            tree,
            known,
            origin: origin.to_owned(),
            tenant: Base::tenant_of(origin),
            run_key: *history.run_key(),
            keeps_entries,
            keeps_tiles,
            buffers: Mutex::default(),
        }
    }

    /// The tree.
    pub const fn tree(&self) -> &SignedTree {
        &self.tree
    }

    /// The leaf tiles with entries that are not known yet.
    pub fn leaf_tiles(&self) -> Range<u64> {
        let width = u64::from(TILE_WIDTH);
        if self.known >= self.tree.size() {
            0..0
        } else {
            self.known / width..self.tree.size().div_ceil(width)
        }
    }

    /// Fetches and examines some leaf tiles with their entries, bundles of up to `bundle_limit` bytes.
    ///
    /// # Errors
    /// Only when a task of ours died.
    pub async fn examine(
        self: Arc<Self>,
        source: &LogSource,
        tiles: Range<u64>,
        bundle_limit: usize,
    ) -> Result<Examined, SourceError> {
        if let Some(root) = source.directory() {
            // Read and looked at by one thread, the bytes are still in its reach.
            let root = root.to_owned();
            let read = move || self.examine_files(&root, tiles, bundle_limit);
            let (examined, bytes) = tokio::task::spawn_blocking(read).await?;
            source.add_bytes(bytes);
            return Ok(examined);
        }
        let kinds = |index| [TileKind::Hashes { level: 0 }, TileKind::Entries].map(|kind| (kind, index));
        let paths: Vec<TilePath> =
            tiles.flat_map(kinds).map(|(kind, index)| self.leaf_path(kind, index)).collect();
        let fetched = source.fetch(&paths, bundle_limit).await;
        let oversized =
            |result: &Result<Fetched, SourceError>| matches!(result, Err(error) if error.is_too_long());
        if bundle_limit < BUNDLE_BYTES_MAX && fetched.iter().skip(1).step_by(2).any(oversized) {
            return Ok(Examined { oversized: true, ..Examined::default() });
        }
        Ok(tokio::task::spawn_blocking(move || {
            let mut examined = Examined::default();
            let mut fetched = fetched.into_iter();
            for pair in paths.chunks_exact(2) {
                let (Some(tile), Some(bundle)) = (fetched.next(), fetched.next()) else {
                    examined.gap(pair[0], "the read was given up");
                    continue;
                };
                let tile = tile.and_then(|tile| Ok(tile.open()?));
                let bundle = bundle.and_then(|bundle| Ok(bundle.open()?));
                self.tile(pair[0], bundle_limit, as_bytes(&tile), as_bytes(&bundle), &mut examined);
                if examined.oversized {
                    return Examined { oversized: true, ..Examined::default() };
                }
            }
            examined
        })
        .await?)
    }

    /// The same of a static tree, and the bytes read.
    fn examine_files(&self, root: &Path, tiles: Range<u64>, bundle_limit: usize) -> (Examined, u64) {
        let count = usize::try_from(tiles.end.saturating_sub(tiles.start)).unwrap_or(0);
        let marks = Vec::with_capacity(count * usize::from(TILE_WIDTH));
        let mut examined = Examined { marks, ..Examined::default() };
        // A lock that a panic left behind holds memory that is written over.
        let spare = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let (mut tile_buffer, mut bundle_buffer) = spare.unwrap_or_default();
        let mut bytes = 0;
        for index in tiles {
            let path = self.leaf_path(TileKind::Hashes { level: 0 }, index);
            let tile = tile_buffer.read(root, path, 0);
            let bundle = bundle_buffer.read(root, self.leaf_path(TileKind::Entries, index), bundle_limit);
            for read in [&tile, &bundle] {
                bytes += read.as_ref().map_or(0, |read| read.len() as u64);
            }
            self.tile(path, bundle_limit, tile.as_deref(), bundle.as_deref(), &mut examined);
            if examined.oversized {
                return (Examined { oversized: true, ..Examined::default() }, bytes);
            }
        }
        // One that a very long bundle was read into is not kept.
        if bundle_limit <= BUNDLE_BYTES_USUAL {
            let buffers = (tile_buffer, bundle_buffer);
            self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(buffers);
        }
        (examined, bytes)
    }

    /// Whether these leaf hashes are those of level 0 tile `index`.
    pub fn vouches_for(&self, index: u64, hashes: &[u8]) -> bool {
        let width = tile_width(0, index, self.tree.size());
        vouches(&self.tree.leaf_tile(index), hashes, width)
    }

    /// The same examiner, keeping the entries it examines.
    #[must_use]
    pub fn keeping_entries(self) -> Self {
        Self { keeps_entries: true, keeps_tiles: true, ..self }
    }

    fn leaf_path(&self, kind: TileKind, index: u64) -> TilePath {
        let width = tile_width(0, index, self.tree.size());
        TilePath::new(kind, index, width).expect("the tree has that tile")
    }

    /// Examines one leaf tile and its bundle, of up to `bundle_limit` bytes.
    fn tile(
        &self,
        path: TilePath,
        bundle_limit: usize,
        tile: Result<&[u8], &SourceError>,
        bundle: Result<&[u8], &SourceError>,
        out: &mut Examined,
    ) {
        let width = path.width();
        let vouched = self.tree.leaf_tile(path.index());
        let served = match tile {
            Ok(bytes) if vouches(&vouched, bytes, width) => Some(bytes),
            Ok(_) => {
                let detail = format!("{path} does not hash to what the signed root vouches for");
                let at = path.index() * u64::from(TILE_WIDTH);
                out.findings.push(Finding::new(FindingKind::TileMismatch, detail).at_index(at));
                None
            }
            Err(error) => {
                out.gap(path, &error.to_string());
                None
            }
        };
        let bundle_path = TilePath::new(TileKind::Entries, path.index(), width).expect("as the tile's");
        let bytes = match bundle {
            Ok(bytes) => bytes,
            // It is longer than the short limit, maybe decompressed: it gets its own turn with the long one.
            Err(error) if bundle_limit < BUNDLE_BYTES_MAX && error.is_too_long() => {
                out.oversized = true;
                return;
            }
            Err(error) => {
                out.broken(path.index());
                return out.gap(bundle_path, &error.to_string());
            }
        };
        let first = path.index() * u64::from(TILE_WIDTH);
        let exact = if width < TILE_WIDTH { bundle::prefix(bytes, width) } else { Ok(bytes) };
        // Only a full bundle in place of a partial one may be longer than its width.
        let read = exact.and_then(|exact| {
            bundle::entries(if width < TILE_WIDTH { exact } else { bytes }, width)
                .map(|entries| (exact, entries))
        });
        let (exact, entries) = match read {
            Ok(read) => read,
            Err(error) => {
                out.broken(path.index());
                let detail = format!("{bundle_path}: {error}");
                out.findings.push(Finding::new(FindingKind::EntryMismatch, detail).at_index(first));
                return;
            }
        };
        let mut hashes = Vec::with_capacity(entries.len() * HASH_BYTES);
        for entry in &entries {
            hashes.extend_from_slice(LeafHash::of(entry).as_bytes());
        }
        let authentic = match served {
            Some(served) => served == hashes,
            None => vouches(&vouched, &hashes, width),
        };
        if !authentic {
            out.broken(path.index());
            return out.mismatched(bundle_path, first, &entries, &hashes, served);
        }
        for (entry, index) in entries.iter().zip(first..) {
            if index >= self.known {
                self.entry(index, entry, out);
            }
        }
        let bundle = if self.keeps_entries { exact.to_vec() } else { Vec::new() };
        let hashes = if self.keeps_tiles { hashes } else { Vec::new() };
        out.tiles.push(VerifiedTile { index: path.index(), width, hashes, bundle });
    }

    fn entry(&self, index: u64, bytes: &[u8], out: &mut Examined) {
        out.entries += 1;
        if let Some(view) = EntryView::plain(bytes)
            && self.tenant.as_ref().is_some_and(|tenant| tenant.as_str() == view.tenant())
        {
            let kind = if view.is_seal() { MarkKind::Seal } else { MarkKind::Head };
            let run = Mark::name_hash(&self.run_key, view.tenant(), view.run());
            return out.marks.push(Mark::new(run, index, kind, view.records().get()));
        }
        let (tenant, run, kind, records) = match Entry::recognise(bytes) {
            Recognised::Ours(Entry::Seal(seal)) => (seal.tenant, seal.run, MarkKind::Seal, seal.records),
            Recognised::Ours(Entry::Head(head)) => (head.tenant, head.run, MarkKind::Head, head.records),
            // A directory's entry is about another tenant's log, not about a run.
            Recognised::Ours(Entry::Tenant(_)) => return,
            Recognised::Unreadable(error) if error.is_skew() => {
                let what = format!("entry {index}");
                return out
                    .gaps
                    .push(NotChecked::gap(what, format!("{error}: use a newer runseal-verifier")));
            }
            Recognised::Unreadable(error) => {
                let finding = Finding::new(FindingKind::Malformed, error.to_string());
                return out.findings.push(finding.at_index(index));
            }
            Recognised::Foreign => {
                out.foreign += 1;
                return;
            }
        };
        if self.tenant.as_ref() != Some(&tenant) {
            let detail = format!("the entry is tenant {tenant}'s, in the log {:?}", self.origin);
            let finding = Finding::new(FindingKind::TenantMismatch, detail);
            out.findings.push(finding.in_run(&run).at_index(index));
        }
        let run = Mark::run_hash(&self.run_key, &tenant, &run);
        out.marks.push(Mark::new(run, index, kind, records.get()));
    }
}

fn as_bytes(read: &Result<Vec<u8>, SourceError>) -> Result<&[u8], &SourceError> {
    read.as_ref().map(Vec::as_slice)
}

/// Whether the signed tree has these leaf hashes in that place.
fn vouches(vouched: &LeafTile<'_>, hashes: &[u8], width: u16) -> bool {
    match vouched {
        LeafTile::Beyond => false,
        LeafTile::Edge(tile) => tile.to_served(width).is_some_and(|edge| edge == hashes),
        LeafTile::Full(hash) => Tile::hash_of_served(hashes).as_ref() == Some(hash),
    }
}

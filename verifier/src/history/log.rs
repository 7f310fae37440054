//! What is remembered of one log.

use std::collections::BTreeSet;
use std::sync::Arc;

use redb::ReadableTable as _;
use runseal_evidence::finding::Finding;
use runseal_tlog::bundle::{self, BundleError};
use runseal_tlog::checkpoint::{Checkpoint, CheckpointError};
use runseal_tlog::hash::{HASH_BYTES, LeafHash, NodeHash};
use runseal_tlog::note::{Note, NoteError};
use runseal_tlog::tile::{TILE_WIDTH, Tile, TileNodes, TileNodesError, TileReader};
use runseal_tlog::tree;

use super::{
    BUNDLES, CHECKPOINTS, Damage, FRAUD, History, HistoryError, LOG_FINDINGS, LOOSE_ENTRIES, LogNumber,
    PIECES, PROGRESS, TILES, TOLD,
};

/// A checkpoint that was verified once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Leaves in the tree.
    pub size: u64,
    /// Its root.
    pub root: NodeHash,
    /// The whole signed note.
    pub note: Note,
    /// When the auditor's own clock read this size first.
    pub seen: u64,
}

/// How far a log was verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Entries verified and kept, from the first on without a gap.
    pub entries: u64,
    /// The first segment whose runs were not yet held against each other.
    pub unjudged_segment: u32,
    /// Entries of other programs among them.
    pub foreign: u64,
}

/// What the history holds of one log.
#[derive(Clone, Debug)]
pub struct LogHistory {
    pub(crate) history: Arc<History>,
    pub(crate) number: LogNumber,
}

impl LogHistory {
    /// Whether entries are kept.
    pub fn keeps_entries(&self) -> bool {
        self.history.keeps_entries
    }

    /// Whether tiles are kept.
    pub fn keeps_tiles(&self) -> bool {
        self.history.keeps_tiles
    }

    pub(crate) fn run_key(&self) -> &[u8; 16] {
        &self.history.run_key
    }

    /// The largest checkpoint ever verified.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn latest(&self) -> Result<Option<Remembered>, HistoryError> {
        let checkpoints = self.history.begin_read()?.open_table(CHECKPOINTS)?;
        let mut rows = checkpoints.range((self.number, 0, 0)..=(self.number, u64::MAX, 0))?;
        // Rows of 1 sort after their row of 0; the last row of the range may be either.
        let Some(row) = rows.next_back().transpose()? else { return Ok(None) };
        let size = row.0.value().1;
        self.at_size(size)
    }

    /// The smallest checkpoint ever verified.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn earliest(&self) -> Result<Option<Remembered>, HistoryError> {
        self.checkpoints_from(0)?.next().transpose()
    }

    /// The checkpoint of `size` as first seen.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn at_size(&self, size: u64) -> Result<Option<Remembered>, HistoryError> {
        let checkpoints = self.history.begin_read()?.open_table(CHECKPOINTS)?;
        let row = checkpoints.get((self.number, size, 0))?;
        row.map(|row| remembered(size, row.value())).transpose()
    }

    /// The checkpoint of `size` with its newest cosignatures.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn newest_at_size(&self, size: u64) -> Result<Option<Remembered>, HistoryError> {
        let checkpoints = self.history.begin_read()?.open_table(CHECKPOINTS)?;
        let row = match checkpoints.get((self.number, size, 1))? {
            Some(row) => Some(row),
            None => checkpoints.get((self.number, size, 0))?,
        };
        row.map(|row| remembered(size, row.value())).transpose()
    }

    /// Every checkpoint as first seen, from `size` on, in order of size.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn checkpoints_from(
        &self,
        size: u64,
    ) -> Result<impl Iterator<Item = Result<Remembered, HistoryError>> + use<>, HistoryError> {
        let checkpoints = self.history.begin_read()?.open_table(CHECKPOINTS)?;
        let rows = checkpoints.range((self.number, size, 0)..=(self.number, u64::MAX, u8::MAX))?;
        Ok(rows.filter_map(|row| match row {
            Ok((key, value)) if key.value().2 == 0 => Some(remembered(key.value().1, value.value())),
            Ok(_) => None,
            Err(error) => Some(Err(error.into())),
        }))
    }

    /// How far the log was verified.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn progress(&self) -> Result<Progress, HistoryError> {
        let progress = self.history.begin_read()?.open_table(PROGRESS)?;
        Ok(progress.get(self.number)?.map_or_else(Progress::default, |row| {
            let (entries, foreign, unjudged_segment) = row.value();
            Progress { entries, unjudged_segment, foreign }
        }))
    }

    /// The root over the first `size` verified leaves, `None` where fewer are kept.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn root_at(&self, size: u64) -> Result<Option<NodeHash>, HistoryError> {
        if size > self.progress()?.entries {
            return Ok(None);
        }
        match tree::root(size, &TileNodes::new(self, size)) {
            Ok(root) => Ok(Some(root)),
            Err(TileNodesError::Reader(error)) => Err(error),
            Err(TileNodesError::Narrow { index, .. }) => {
                Err(Damage::Missing { what: "a hash of tile", index }.into())
            }
        }
    }

    /// A kept entry, `None` in a light history or beyond what is verified.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn entry(&self, index: u64) -> Result<Option<Vec<u8>>, HistoryError> {
        let (tile, within) = place(index);
        let Some(bundle) = self.bundle(tile)? else {
            let loose = self.history.begin_read()?.open_table(LOOSE_ENTRIES)?;
            return Ok(loose.get((self.number, index))?.map(|entry| entry.value().to_vec()));
        };
        let fault = |error| Damage::Bundle { index: tile, error };
        let (before, upto) = (
            bundle::prefix(&bundle, within).map_err(fault)?.len(),
            bundle::prefix(&bundle, within + 1).map(<[u8]>::len),
        );
        // A partial bundle ends before entries that are not verified yet.
        Ok(upto.ok().map(|upto| bundle[before + 2..upto].to_vec()))
    }

    /// A kept bundle.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn bundle(&self, index: u64) -> Result<Option<Vec<u8>>, HistoryError> {
        let read = self.history.begin_read()?;
        let mut whole = Vec::new();
        for piece in
            read.open_table(PIECES)?.range((self.number, index, 0)..=(self.number, index, u32::MAX))?
        {
            whole.extend_from_slice(piece?.1.value());
        }
        if !whole.is_empty() {
            return Ok(Some(whole));
        }
        let bundles = read.open_table(BUNDLES)?;
        Ok(bundles.get((self.number, index))?.map(|bundle| bundle.value().to_vec()))
    }

    /// A kept tile, as wide as it was verified.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn tile(&self, level: u8, index: u64) -> Result<Option<Tile>, HistoryError> {
        let tiles = self.history.begin_read()?.open_table(TILES)?;
        let mut hashes = tiles.get((self.number, level, index))?.map(|row| row.value().to_vec());
        if level == 0
            && let Some(bundle) = self.bundle(index)?
        {
            // The log may have been kept with entries and without by turns: the wider is the newer.
            let made = leaf_hashes(&bundle).map_err(|error| Damage::Bundle { index, error })?;
            if hashes.as_ref().is_none_or(|hashes| hashes.len() < made.len()) {
                hashes = Some(made);
            }
        }
        let Some(hashes) = hashes else { return Ok(None) };
        let width = u16::try_from(hashes.len() / HASH_BYTES).unwrap_or(u16::MAX);
        let tile = Tile::from_served(&hashes, width);
        Ok(Some(tile.map_err(|error| Damage::Tile { level, index, error })?))
    }

    /// Keeps a verified checkpoint and the upper tiles it vouches for, in one transaction.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn remember<'t>(
        &self,
        checkpoint: &Remembered,
        tiles: impl Iterator<Item = (u8, u64, &'t Tile)>,
    ) -> Result<(), HistoryError> {
        let write = self.history.begin_write()?;
        {
            let mut checkpoints = write.open_table(CHECKPOINTS)?;
            let mut value = checkpoint.seen.to_be_bytes().to_vec();
            value.extend_from_slice(checkpoint.note.to_string().as_bytes());
            let first = checkpoints.get((self.number, checkpoint.size, 0))?.is_none();
            checkpoints.insert((self.number, checkpoint.size, u8::from(!first)), value.as_slice())?;
            let mut kept = write.open_table(TILES)?;
            // Leaf tiles are kept with their entries, so that progress and leaves never part.
            for (level, index, tile) in tiles.filter(|(level, ..)| *level > 0) {
                let bytes: Vec<u8> = tile.hashes().iter().flat_map(|hash| *hash.as_bytes()).collect();
                kept.insert((self.number, level, index), bytes.as_slice())?;
            }
        }
        write.commit()?;
        Ok(())
    }

    /// Findings that lie in the log itself, kept since its entries never change.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn findings(&self) -> Result<Vec<Finding>, HistoryError> {
        let findings = self.history.begin_read()?.open_table(LOG_FINDINGS)?;
        let rows = findings.range((self.number, 0)..=(self.number, u64::MAX))?;
        rows.map(|row| {
            let (key, value) = row?;
            serde_json::from_str(value.value()).map_err(|_| Damage::Finding(key.value().1).into())
        })
        .collect()
    }

    /// Keeps a fraud proof, unless it is kept already.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn keep_fraud(&self, proof: &str) -> Result<(), HistoryError> {
        let write = self.history.begin_write()?;
        {
            let mut fraud = write.open_table(FRAUD)?;
            let mut next = 0;
            let mut known = false;
            for row in fraud.range((self.number, 0)..=(self.number, u64::MAX))? {
                let (key, value) = row?;
                known |= value.value() == proof;
                next = key.value().1 + 1;
            }
            if !known {
                fraud.insert((self.number, next), proof)?;
            }
        }
        write.commit()?;
        Ok(())
    }

    /// The keys of alerts that were told and are not over.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn told(&self) -> Result<BTreeSet<String>, HistoryError> {
        let told = self.history.begin_read()?.open_table(TOLD)?;
        let rows = told.range((self.number, "")..)?;
        let of_log = rows.take_while(|row| row.as_ref().map_or(true, |row| row.0.value().0 == self.number));
        of_log.map(|row| Ok(row?.0.value().1.to_owned())).collect()
    }

    /// Remembers exactly these alerts as told.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn keep_told(&self, keys: &BTreeSet<String>) -> Result<(), HistoryError> {
        let before = self.told()?;
        let write = self.history.begin_write()?;
        {
            let mut told = write.open_table(TOLD)?;
            for over in before.difference(keys) {
                told.remove((self.number, over.as_str()))?;
            }
            for new in keys.difference(&before) {
                told.insert((self.number, new.as_str()), ())?;
            }
        }
        write.commit()?;
        Ok(())
    }

    /// The fraud proofs kept.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn fraud_proofs(&self) -> Result<Vec<String>, HistoryError> {
        let fraud = self.history.begin_read()?.open_table(FRAUD)?;
        let rows = fraud.range((self.number, 0)..=(self.number, u64::MAX))?;
        rows.map(|row| Ok(row?.1.value().to_owned())).collect()
    }
}

/// The leaf hashes of all entries of a bundle.
fn leaf_hashes(bundle: &[u8]) -> Result<Vec<u8>, BundleError> {
    let mut hashes = Vec::new();
    let mut rest = bundle;
    while !rest.is_empty() {
        let width = bundle::prefix(rest, 1)?.len();
        let (entry, after) = rest.split_at(width);
        hashes.extend_from_slice(LeafHash::of(&entry[2..]).as_bytes());
        rest = after;
    }
    Ok(hashes)
}

impl TileReader for &LogHistory {
    type Error = HistoryError;

    fn read_tile(&self, level: u8, index: u64, _width: u16) -> Result<Tile, HistoryError> {
        self.tile(level, index)?.ok_or_else(|| Damage::Missing { what: "tile", index }.into())
    }
}

/// The bundle that holds an entry, and the entry's place in it.
pub(crate) fn place(index: u64) -> (u64, u16) {
    let within = index % u64::from(TILE_WIDTH);
    (index / u64::from(TILE_WIDTH), u16::try_from(within).expect("below 256"))
}

fn remembered(size: u64, value: &[u8]) -> Result<Remembered, HistoryError> {
    let damage = |reason: String| Damage::Checkpoint { size, reason };
    let (seen, note) = value.split_first_chunk::<8>().ok_or_else(|| damage("it is cut short".to_owned()))?;
    let note = Note::parse(note).map_err(|error: NoteError| damage(error.to_string()))?;
    let checkpoint = Checkpoint::parse(note.unverified_text())
        .map_err(|error: CheckpointError| damage(error.to_string()))?;
    if checkpoint.size() != size {
        return Err(damage(format!("it states size {}", checkpoint.size())).into());
    }
    Ok(Remembered { size, root: *checkpoint.root(), note, seen: u64::from_be_bytes(*seen) })
}

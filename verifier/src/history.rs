//! What the auditor remembers: checkpoints, leaf hashes and entries of each log, in one redb file.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | `format`, `run-key` | [`FORMAT`]; a random key in hex, see [`Mark`](crate::mark::Mark) |
//! | `logs` | origin | log number |
//! | `checkpoints` | log, size, 0 first seen or 1 seen last | POSIX seconds when seen, then the note |
//! | `tiles` | log, level, index | the tile's hashes, authenticated; of level 0 in a light history alone |
//! | `pieces` | log, index, number | a piece of the entry bundle, authenticated; absent in a light history |
//! | `bundles` | log, index | the bundle whole, as format 1 kept it beside its level 0 tile |
//! | `loose_entries` | log, index | an entry of a partial export; only in scratch histories |
//! | `progress` | log | entries verified, runs entered, segments judged |
//! | `segments` | log, segment, first run hash, first position | packed [`Mark`](crate::mark::Mark)s, sorted |
//! | `segment_sizes` | log, segment | marks in it |
//! | `log_findings` | log, number | a finding that lies in the log itself, as JSON |
//! | `fraud` | log, number | a fraud proof file |
//! | `told` | log, alert key | empty; alerts that were told and are not over |
//!
//! Everything is written after verification, each step in one transaction. Per entry it takes 24 bytes of mark and
//! the entry with two bytes of length, which its leaf hash is made from again; in a light history 32 bytes of leaf
//! hash instead. A bundle is kept in pieces that fill the store's pages, whose sizes are powers of two.

use std::collections::BTreeSet;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::InMemoryBackend;
use redb::{
    Database, DatabaseError, Durability, ReadTransaction, ReadableDatabase as _, ReadableTable as _,
    StorageError, TableDefinition, WriteTransaction,
};
use runseal_evidence::finding::Finding;
use runseal_tlog::bundle::{self, BundleError};
use runseal_tlog::checkpoint::{Checkpoint, CheckpointError};
use runseal_tlog::hash::{HASH_BYTES, LeafHash, NodeHash};
use runseal_tlog::note::{Note, NoteError};
use runseal_tlog::tile::{TILE_WIDTH, Tile, TileError, TileNodes, TileNodesError, TileReader};
use runseal_tlog::tree;
use thiserror::Error;

use crate::error::{EXIT_UNFINISHED, EXIT_USAGE};
#[cfg(feature = "cli")]
use crate::scratch::ScratchFile;

/// The value of `meta/format`.
pub const FORMAT: &str = "runseal-verifier history 2";
/// The format before, which is read and turned into this one by writing to it.
const FORMAT_1: &str = "runseal-verifier history 1";
/// Memory that the store may use for pages.
const CACHE_BYTES: usize = 24 << 20;

type LogNumber = u32;

pub(crate) const META: TableDefinition<&str, &str> = TableDefinition::new("meta");
pub(crate) const LOGS: TableDefinition<&str, LogNumber> = TableDefinition::new("logs");
pub(crate) const CHECKPOINTS: TableDefinition<(LogNumber, u64, u8), &[u8]> =
    TableDefinition::new("checkpoints");
pub(crate) const TILES: TableDefinition<(LogNumber, u8, u64), &[u8]> = TableDefinition::new("tiles");
const BUNDLES: TableDefinition<(LogNumber, u64), &[u8]> = TableDefinition::new("bundles");
pub(crate) const PIECES: TableDefinition<(LogNumber, u64, u32), &[u8]> = TableDefinition::new("pieces");
pub(crate) const LOOSE_ENTRIES: TableDefinition<(LogNumber, u64), &[u8]> =
    TableDefinition::new("loose_entries");
pub(crate) const PROGRESS: TableDefinition<LogNumber, (u64, u64, u32)> = TableDefinition::new("progress");
pub(crate) const SEGMENTS: TableDefinition<(LogNumber, u32, u64, u64), &[u8]> =
    TableDefinition::new("segments");
pub(crate) const SEGMENT_SIZES: TableDefinition<(LogNumber, u32), u64> =
    TableDefinition::new("segment_sizes");
pub(crate) const LOG_FINDINGS: TableDefinition<(LogNumber, u64), &str> = TableDefinition::new("log_findings");
pub(crate) const TOLD: TableDefinition<(LogNumber, &str), ()> = TableDefinition::new("told");
pub(crate) const FRAUD: TableDefinition<(LogNumber, u64), &str> = TableDefinition::new("fraud");

/// Why the history cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// There is no such file.
    #[error("{path}: there is no history file; an audit with --history makes one")]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened for reading and writing.
    #[error("{path} cannot be opened for reading and writing: {source}")]
    Access {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another file, or one of another version.
    #[error("{path} is not a history of this version: {reason}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        reason: String,
    },
    /// Another process has it open.
    #[error("{path} is in use by another process")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The history knows no such log.
    #[error("the history holds no log with origin {0:?}")]
    UnknownLog(String),
    /// The store failed.
    #[error("the history failed: {0}")]
    Store(Box<redb::Error>),
    /// What is stored is not what was written.
    #[error("the history is damaged: {0}")]
    Damaged(#[from] Damage),
}

impl HistoryError {
    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Absent { .. } | Self::Access { .. } | Self::Foreign { .. } | Self::UnknownLog(_) => {
                EXIT_USAGE
            }
            Self::InUse { .. } | Self::Store(_) | Self::Damaged(_) => EXIT_UNFINISHED,
        }
    }
}

/// What is wrong with a stored value.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Damage {
    /// A checkpoint.
    #[error("the checkpoint of size {size} does not read: {reason}")]
    Checkpoint {
        /// Its size by its key.
        size: u64,
        /// Why.
        reason: String,
    },
    /// A tile.
    #[error("tile {level}/{index}: {error}")]
    Tile {
        /// Its level.
        level: u8,
        /// Its index.
        index: u64,
        /// What is wrong.
        error: TileError,
    },
    /// A tile or bundle that should be there.
    #[error("{what} {index} is missing")]
    Missing {
        /// `leaf tile`, `bundle`, …
        what: &'static str,
        /// Its index.
        index: u64,
    },
    /// A bundle.
    #[error("bundle {index}: {error}")]
    Bundle {
        /// Its index.
        index: u64,
        /// What is wrong.
        error: BundleError,
    },
    /// Marks that are not whole.
    #[error("segment {0} is not a whole number of marks")]
    Segment(u32),
    /// A stored finding.
    #[error("finding {0} does not read")]
    Finding(u64),
    /// The key that runs are hashed with.
    #[error("the run key does not read")]
    RunKey,
}

macro_rules! store_errors {
    ($($error:ty),*) => {
        $(impl From<$error> for HistoryError {
            fn from(error: $error) -> Self {
                Self::Store(Box::new(error.into()))
            }
        })*
    };
}
store_errors!(
    StorageError,
    redb::TableError,
    redb::TransactionError,
    redb::CommitError,
    redb::SetDurabilityError,
    DatabaseError
);

/// An open history.
#[derive(Debug)]
pub struct History {
    db: Database,
    keeps_entries: bool,
    keeps_tiles: bool,
    durability: Durability,
    run_key: [u8; 16],
}

impl History {
    /// Opens a history file, making it where there is none. With `light` no entries are kept from now on.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn open_or_create(path: &Path, light: bool) -> Result<Self, HistoryError> {
        if path.exists() {
            return Self::open(path, light);
        }
        let db = builder().create(path).map_err(|error| opening(path, error))?;
        let history = Self {
            db,
            keeps_entries: !light,
            keeps_tiles: true,
            durability: Durability::Immediate,
            run_key: random_key(),
        };
        history.initialise()?;
        Ok(history)
    }

    /// Opens a history file that exists.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn open(path: &Path, light: bool) -> Result<Self, HistoryError> {
        if !path.exists() {
            return Err(HistoryError::Absent { path: path.to_owned() });
        }
        let foreign = |reason: String| HistoryError::Foreign { path: path.to_owned(), reason };
        if path.is_dir() {
            return Err(foreign("it is a directory".to_owned()));
        }
        // redb opens a file for writing alone, and makes a database of an empty one.
        let probe = File::options().read(true).write(true).open(path).and_then(|file| file.metadata());
        let probe = probe.map_err(|source| HistoryError::Access { path: path.to_owned(), source })?;
        if probe.len() == 0 {
            return Err(foreign("it is empty".to_owned()));
        }
        let db = builder().open(path).map_err(|error| opening(path, error))?;
        let (format, key) = {
            let read = db.begin_read()?;
            match read.open_table(META) {
                Ok(meta) => {
                    let value = |name: &str| {
                        Ok::<_, StorageError>(meta.get(name)?.map(|value| value.value().to_owned()))
                    };
                    (value("format")?, value("run-key")?)
                }
                Err(_) => (None, None),
            }
        };
        match format.as_deref() {
            Some(FORMAT | FORMAT_1) => {
                let mut run_key = [0; 16];
                hex::decode_to_slice(key.unwrap_or_default(), &mut run_key).map_err(|_| Damage::RunKey)?;
                let history = Self {
                    db,
                    keeps_entries: !light,
                    keeps_tiles: true,
                    durability: Durability::Immediate,
                    run_key,
                };
                if format.as_deref() == Some(FORMAT_1) {
                    history.initialise()?;
                }
                Ok(history)
            }
            Some(other) => Err(foreign(format!("its format is {other:?}"))),
            None => Err(foreign("it is a database of another program".to_owned())),
        }
    }

    /// A history in memory, with all that is put into it. `run_key` is random: without knowing it nobody can name
    /// two runs that share a hash.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn in_memory(run_key: [u8; 16]) -> Result<Self, HistoryError> {
        let db = builder().create_with_backend(InMemoryBackend::new())?;
        let history =
            Self { db, keeps_entries: true, keeps_tiles: true, durability: Durability::None, run_key };
        history.initialise()?;
        Ok(history)
    }

    /// A history that lives as long as this process, in an unlinked temporary file. Without entries it keeps no
    /// tiles either, but only which entries each run has.
    ///
    /// # Errors
    /// [`HistoryError`].
    #[cfg(feature = "cli")]
    pub fn scratch(keeps_entries: bool) -> Result<Self, HistoryError> {
        Self::scratch_with(random_key(), keeps_entries)
    }

    /// The same with a run key as [`Self::in_memory`] has it.
    ///
    /// # Errors
    /// [`HistoryError`].
    #[cfg(feature = "cli")]
    pub(crate) fn scratch_with(run_key: [u8; 16], keeps_entries: bool) -> Result<Self, HistoryError> {
        let place = std::env::temp_dir();
        let file = tempfile::tempfile_in(&place)
            .map_err(|source| HistoryError::Access { path: place.clone(), source })?;
        let backend = ScratchFile::new(file).map_err(|error| opening(&place, error))?;
        let db = builder().create_with_backend(backend).map_err(|error| opening(&place, error))?;
        let history =
            Self { db, keeps_entries, keeps_tiles: keeps_entries, durability: Durability::None, run_key };
        history.initialise()?;
        Ok(history)
    }

    fn initialise(&self) -> Result<(), HistoryError> {
        let write = self.begin_write()?;
        {
            let mut meta = write.open_table(META)?;
            meta.insert("format", FORMAT)?;
            meta.insert("run-key", hex::encode(self.run_key).as_str())?;
        }
        write.open_table(LOGS)?;
        write.open_table(CHECKPOINTS)?;
        write.open_table(TILES)?;
        write.open_table(BUNDLES)?;
        write.open_table(PIECES)?;
        write.open_table(LOOSE_ENTRIES)?;
        write.open_table(PROGRESS)?;
        write.open_table(SEGMENTS)?;
        write.open_table(SEGMENT_SIZES)?;
        write.open_table(LOG_FINDINGS)?;
        write.open_table(FRAUD)?;
        write.open_table(TOLD)?;
        write.commit()?;
        Ok(())
    }

    /// Whether entries are kept.
    pub const fn keeps_entries(&self) -> bool {
        self.keeps_entries
    }

    pub(crate) fn begin_write(&self) -> Result<WriteTransaction, HistoryError> {
        let mut write = self.db.begin_write()?;
        write.set_durability(self.durability)?;
        Ok(write)
    }

    pub(crate) fn begin_read(&self) -> Result<ReadTransaction, HistoryError> {
        Ok(self.db.begin_read()?)
    }

    /// The origins of all logs, sorted.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn origins(&self) -> Result<Vec<String>, HistoryError> {
        let logs = self.begin_read()?.open_table(LOGS)?;
        logs.iter()?.map(|log| Ok(log?.0.value().to_owned())).collect()
    }

    /// The part of the history about one log, which may hold nothing yet.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn log(self: &Arc<Self>, origin: &str) -> Result<LogHistory, HistoryError> {
        let known = self.begin_read()?.open_table(LOGS)?.get(origin)?.map(|number| number.value());
        let number = if let Some(number) = known {
            number
        } else {
            let write = self.begin_write()?;
            let number = {
                let mut logs = write.open_table(LOGS)?;
                let taken = redb::ReadableTableMetadata::len(&logs)?;
                let number = LogNumber::try_from(taken).unwrap_or(LogNumber::MAX);
                logs.insert(origin, number)?;
                number
            };
            write.commit()?;
            number
        };
        Ok(LogHistory { history: Arc::clone(self), number })
    }
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// A key nobody else knows, from the randomness that the standard library keys its hash maps with.
pub(crate) fn random_key() -> [u8; 16] {
    let mut key = [0; 16];
    for half in key.chunks_exact_mut(8) {
        half.copy_from_slice(&RandomState::new().build_hasher().finish().to_be_bytes());
    }
    key
}

fn opening(path: &Path, error: DatabaseError) -> HistoryError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => HistoryError::InUse { path },
        DatabaseError::UpgradeRequired(version) => {
            HistoryError::Foreign { path, reason: format!("it is of database version {version}") }
        }
        DatabaseError::Storage(StorageError::Io(source)) => match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                HistoryError::Foreign { path, reason: source.to_string() }
            }
            _ => HistoryError::Access { path, source },
        },
        DatabaseError::Storage(StorageError::Corrupted(reason)) => HistoryError::Foreign { path, reason },
        other => other.into(),
    }
}

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

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

mod error;
mod log;

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use redb::backends::{FileBackend, InMemoryBackend};
use redb::{
    Database, DatabaseError, Durability, ReadTransaction, ReadableDatabase as _, ReadableTable as _,
    StorageError, TableDefinition, WriteTransaction,
};

pub use self::error::{Damage, HistoryError};
#[cfg(feature = "cli")]
pub(crate) use self::log::place;
pub use self::log::{LogHistory, Progress, Remembered};
#[cfg(feature = "cli")]
use crate::online::scratch::ScratchFile;

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
        // Entries of runs are for the auditor alone, from the first byte on.
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path);
        let file = file.map_err(|source| HistoryError::Access { path: path.to_owned(), source })?;
        let backend = FileBackend::new(file).map_err(|error| opening(path, error))?;
        let db = builder().create_with_backend(backend).map_err(|error| opening(path, error))?;
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
        let (db, format, key) = sheltered(path, || {
            let db = builder().open(path).map_err(|error| opening(path, error))?;
            let read = db.begin_read()?;
            let (format, key) = match read.open_table(META) {
                Ok(meta) => {
                    let value = |name: &str| {
                        Ok::<_, StorageError>(meta.get(name)?.map(|value| value.value().to_owned()))
                    };
                    (value("format")?, value("run-key")?)
                }
                Err(_) => (None, None),
            };
            Ok((db, format, key))
        })?;
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

    /// Holds every page of a history file against its checksum, in a copy beside it: the file is left as it is. Nobody
    /// may have it open.
    ///
    /// # Errors
    /// [`HistoryError`]; [`Damage::Pages`] where one is not as it was written.
    #[cfg(feature = "cli")]
    pub fn check(path: &Path) -> Result<(), HistoryError> {
        let access = |source| HistoryError::Access { path: path.to_owned(), source };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut copy = tempfile::tempfile_in(folder).map_err(access)?;
        File::open(path).and_then(|mut file| io::copy(&mut file, &mut copy)).map_err(access)?;
        let sound = sheltered(path, || {
            let backend = ScratchFile::new(copy).map_err(|error| opening(path, error))?;
            let mut db = builder().create_with_backend(backend).map_err(|error| opening(path, error))?;
            Ok(db.check_integrity()?)
        })?;
        if sound { Ok(()) } else { Err(Damage::Pages { path: path.to_owned() }.into()) }
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

/// Calls into redb. It trusts the numbers in its pages here and there, and panics where damage has changed them.
fn sheltered<T>(path: &Path, call: impl FnOnce() -> Result<T, HistoryError>) -> Result<T, HistoryError> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(Damage::Pages { path: path.to_owned() }.into()))
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

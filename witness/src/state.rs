//! The witness's memory: the last cosigned checkpoint of every log, in one redb file.
//!
//! | table | key -> value |
//! |---|---|
//! | `meta` | `"format"` -> [`FORMAT`] |
//! | `logs` | origin -> size, root, time, whole cosigned note |
//! | `origins` | SHA-256 of origin -> origin; what the monitoring path names |
//! | `log_keys` | origin -> vkeys accepted for it, one a line |
//! | `witness_keys` | name and key ID of a key that cosigned -> its vkey |
//! | `alarms` | origin, SHA-256 of the contradicting checkpoint's text -> time, kind |

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use redb::{
    Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _,
    TableDefinition,
};
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::hash::NodeHash;
use runseal_tlog::key::VerifierKey;
use runseal_tlog::note::Note;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::failure::Exit;

/// What `meta` says of a file in this format.
pub const FORMAT: &str = "runseal-witness-state/1";
/// Most distinct contradictions kept for one log; a log that forks without end must not fill the disk.
pub const ALARMS_MAX: usize = 1024;

const META: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
const LOGS: TableDefinition<'_, &str, (u64, &[u8; 32], u64, &str)> = TableDefinition::new("logs");
const ORIGINS: TableDefinition<'_, &[u8; 32], &str> = TableDefinition::new("origins");
const LOG_KEYS: TableDefinition<'_, &str, &str> = TableDefinition::new("log_keys");
const WITNESS_KEYS: TableDefinition<'_, &str, &str> = TableDefinition::new("witness_keys");
const ALARMS: TableDefinition<'_, (&str, &[u8; 32]), (u64, &str)> = TableDefinition::new("alarms");

/// First bytes of every redb file.
const REDB_MAGIC: &[u8; 9] = b"redb\x1a\x0a\xa9\x0d\x0a";
/// Memory for database pages. 40,000 logs and their notes fit.
const CACHE_BYTES: usize = 48 * 1024 * 1024;

/// Where a log stands: what the witness last cosigned for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Leaves.
    pub size: u64,
    /// Root.
    pub root: NodeHash,
    /// POSIX seconds of the cosignature; 0 before the first.
    pub time: u64,
}

impl Head {
    /// Where a log stands that was never cosigned: at the empty tree.
    pub const EMPTY: Self = Self { size: 0, root: NodeHash::EMPTY_ROOT, time: 0 };
}

/// A log's head, the note that shows it, and the alarms raised about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cosigned {
    /// The log.
    pub origin: String,
    /// Where it stands.
    pub head: Head,
    /// The checkpoint with the log's verified lines and the witness's own.
    pub note: String,
    /// Distinct checkpoints that contradicted it.
    pub alarms: u64,
}

/// One step of a log, from the head it was decided on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advance {
    /// The log.
    pub origin: Arc<str>,
    /// The head that the decision was made on.
    pub from: Head,
    /// The head after it.
    pub to: Head,
    /// The note to serve from then on.
    pub note: String,
    /// SHA-256 of the checkpoint's text: an alarm about it, raised on a proof that did not verify,
    /// is withdrawn now that one does.
    pub digest: [u8; 32],
}

/// A checkpoint that a log signed and that contradicts what it signed before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// The log.
    pub origin: Arc<str>,
    /// SHA-256 of the contradicting checkpoint's text.
    pub digest: [u8; 32],
    /// POSIX seconds when it was seen.
    pub time: u64,
    /// What kind of contradiction.
    pub kind: &'static str,
}

/// What a store is asked to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Move a log on.
    Advance(Advance),
    /// Remember a contradiction.
    Alarm(Alarm),
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It is durable, and it is new.
    Written,
    /// Nothing to write: the alarm is known, or the log has too many.
    Known,
    /// The log moved since the decision was made; decide again.
    Stale,
}

/// Where the witness keeps what it must never forget.
///
/// Calls may come from several threads. A change is visible to readers only once it is durable.
pub trait Store: Send + Sync + 'static {
    /// Where a log stands; [`Head::EMPTY`] if it was never cosigned.
    ///
    /// # Errors
    /// [`StateError`]; an unreadable head is never an empty one.
    fn head(&self, origin: &str) -> Result<Head, StateError>;

    /// Applies changes in order, all in one transaction, and answers what became of each. When it
    /// returns, what was written is on disk.
    ///
    /// # Errors
    /// [`StateError`]: then nothing may be taken as written, nor as not written.
    fn commit(&self, changes: &[Change]) -> Result<Vec<Applied>, StateError>;

    /// The note of the log whose origin has this SHA-256.
    ///
    /// # Errors
    /// [`StateError`].
    fn note(&self, origin_hash: &[u8; 32]) -> Result<Option<String>, StateError>;

    /// Up to `limit` cosigned logs in order of origin, from the first one after `after`.
    ///
    /// # Errors
    /// [`StateError`].
    fn cosigned(&self, after: Option<&str>, limit: usize) -> Result<Vec<Cosigned>, StateError>;

    /// Makes a store usable again after a failed commit.
    ///
    /// # Errors
    /// [`StateError`]: it still is not.
    fn recover(&self) -> Result<(), StateError>;
}

/// Why the state cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StateError {
    /// There is no such file. It is never made by accident.
    #[error("there is no witness database {path}; make one with `runseal-witness init --db {path}` if this is a new witness, or restore it if it is not: a witness that starts afresh could sign a split view", path = .0.display())]
    Missing(PathBuf),
    /// There is something already.
    #[error("{path} exists and is never overwritten", path = .0.display())]
    Exists(PathBuf),
    /// Not a witness database.
    #[error("{path} is not a witness database: {found}", path = .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        found: String,
    },
    /// A witness database of another version.
    #[error("{path} is a witness database of format {found:?}; this program reads {FORMAT:?}", path = .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: String,
    },
    /// Open elsewhere.
    #[error("{path} is in use by another process; stop it first", path = .0.display())]
    Busy(PathBuf),
    /// A stored checkpoint that does not hold.
    #[error(
        "the stored state of the log {origin:?} is damaged: {fault}; nothing is signed from a damaged database. Restore it from `runseal-witness db export`, or from the copy that this witness serves to monitors"
    )]
    Damaged {
        /// The log.
        origin: String,
        /// What is wrong.
        fault: String,
    },
    /// The file system refuses.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The database failed.
    #[error("the witness database failed: {0}")]
    Database(#[source] redb::Error),
    /// A commit failed before, and nothing has been repaired since.
    #[error("the witness database failed before and could not be reopened yet")]
    Closed,
}

/// Every redb error widens to `redb::Error`, so that plain `?` works on all of them.
impl<E: Into<redb::Error>> From<E> for StateError {
    fn from(error: E) -> Self {
        Self::Database(error.into())
    }
}

impl StateError {
    /// The exit code for this error.
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Missing(_) | Self::Exists(_) | Self::Foreign { .. } | Self::Version { .. } => Exit::Usage,
            Self::Busy(_) | Self::Damaged { .. } | Self::Io { .. } | Self::Database(_) | Self::Closed => {
                Exit::Unfinished
            }
        }
    }
}

/// SHA-256 of an origin, as the monitoring path spells it in hex.
pub fn origin_hash(origin: &str) -> [u8; 32] {
    Sha256::digest(origin).into()
}

/// The state in a redb file.
pub struct RedbStore {
    path: PathBuf,
    /// `None` from a failed commit until it could be opened again.
    database: RwLock<Option<Database>>,
}

impl RedbStore {
    /// Makes a new, empty state file, readable by its owner alone.
    ///
    /// # Errors
    /// [`StateError::Exists`] when there is a file; it is not touched.
    pub fn create(path: &Path) -> Result<(), StateError> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let io = |source| StateError::Io { path: path.to_owned(), source };
        if path.symlink_metadata().is_ok() {
            return Err(StateError::Exists(path.to_owned()));
        }
        // Written aside and linked into place, so that no interrupted `init` leaves half a database.
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".new-{}", std::process::id()));
        let aside = PathBuf::from(name);
        let made = (|| {
            let file = File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&aside)
                .map_err(io)?;
            let backend = redb::backends::FileBackend::new(file)?;
            let database = builder().create_with_backend(backend)?;
            let write = database.begin_write()?;
            write.open_table(META)?.insert("format", FORMAT)?;
            write.open_table(LOGS)?;
            write.open_table(ORIGINS)?;
            write.open_table(LOG_KEYS)?;
            write.open_table(WITNESS_KEYS)?;
            write.open_table(ALARMS)?;
            write.commit()?;
            drop(database);
            // A link, unlike a rename, fails where a file has appeared meanwhile.
            std::fs::hard_link(&aside, path).map_err(|source| match source.kind() {
                std::io::ErrorKind::AlreadyExists => StateError::Exists(path.to_owned()),
                _ => io(source),
            })
        })();
        // The name aside goes either way; leaving it would harm nothing.
        let _ = std::fs::remove_file(&aside);
        made?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()).map_err(io)
    }

    /// Opens a state file and verifies every stored checkpoint's own cosignature again.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn open(path: &Path) -> Result<Self, StateError> {
        let store = Self { path: path.to_owned(), database: RwLock::new(Some(open_database(path)?)) };
        store.verify()?;
        Ok(store)
    }

    /// Remembers the keys that will cosign, before the first cosignature of theirs is stored.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn enrol<'k>(&self, keys: impl IntoIterator<Item = &'k VerifierKey>) -> Result<(), StateError> {
        self.with(|database| {
            let write = database.begin_write()?;
            {
                let mut table = write.open_table(WITNESS_KEYS)?;
                for key in keys {
                    table.insert(key_handle(key).as_str(), key.to_string().as_str())?;
                }
            }
            write.commit()?;
            Ok(())
        })
    }

    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, StateError>) -> Result<T, StateError> {
        let guard = self.database.read().unwrap_or_else(PoisonError::into_inner);
        work(guard.as_ref().ok_or(StateError::Closed)?)
    }

    /// Holds every stored checkpoint against the key that cosigned it.
    fn verify(&self) -> Result<(), StateError> {
        self.with(|database| {
            let read = database.begin_read()?;
            let keys = witness_keys(&read)?;
            let table = read.open_table(LOGS)?;
            let origins = read.open_table(ORIGINS)?;
            let mut rows = Vec::new();
            for row in table.iter()? {
                let (origin, value) = row?;
                let origin = origin.value().to_owned();
                let (size, root, time, note) = value.value();
                let head = Head { size, root: NodeHash::from_bytes(*root), time };
                let indexed = origins.get(&origin_hash(&origin))?;
                if indexed.is_none_or(|found| found.value() != origin) {
                    return Err(damaged(&origin, "its entry for the monitoring path is missing"));
                }
                rows.push((origin, head, note.to_owned()));
            }
            if origins.len()? != table.len()? {
                return Err(damaged("", "there are entries for the monitoring path without a checkpoint"));
            }
            let share =
                rows.len().div_ceil(std::thread::available_parallelism().map_or(1, usize::from)).max(1);
            std::thread::scope(|scope| {
                let workers: Vec<_> = rows
                    .chunks(share)
                    .map(|rows| {
                        let keys = &keys;
                        scope.spawn(move || {
                            rows.iter()
                                .try_for_each(|(origin, head, note)| verify_row(origin, head, note, keys))
                        })
                    })
                    .collect();
                workers.into_iter().try_for_each(|worker| {
                    worker
                        .join()
                        .unwrap_or_else(|_| Err(damaged("", "the check of stored checkpoints failed")))
                })
            })
        })
    }
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn open_database(path: &Path) -> Result<Database, StateError> {
    let io = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => StateError::Missing(path.to_owned()),
        _ => StateError::Io { path: path.to_owned(), source },
    };
    let foreign = |found: &str| StateError::Foreign { path: path.to_owned(), found: found.to_owned() };
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(REDB_MAGIC.len() as u64).read_to_end(&mut start))
        .map_err(io)?;
    if start != REDB_MAGIC {
        return Err(foreign("it does not start like a database"));
    }
    let database = builder().open(path).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => StateError::Busy(path.to_owned()),
        other => other.into(),
    })?;
    let read = database.begin_read()?;
    let format = match read.open_table(META) {
        Ok(table) => table.get("format")?.map(|found| found.value().to_owned()),
        Err(redb::TableError::TableDoesNotExist(_) | redb::TableError::TableTypeMismatch { .. }) => None,
        Err(other) => return Err(other.into()),
    };
    drop(read);
    match format {
        Some(found) if found == FORMAT => Ok(database),
        Some(found) if found.starts_with("runseal-witness-state/") => {
            Err(StateError::Version { path: path.to_owned(), found })
        }
        _ => Err(foreign("it is a database of another program")),
    }
}

fn damaged(origin: &str, fault: &str) -> StateError {
    StateError::Damaged { origin: origin.to_owned(), fault: fault.to_owned() }
}

/// What `witness_keys` calls a key, and what a signature line tells of it.
fn key_handle(key: &VerifierKey) -> String {
    format!("{}+{}", key.name(), key.id())
}

fn witness_keys(read: &redb::ReadTransaction) -> Result<Vec<VerifierKey>, StateError> {
    let table = read.open_table(WITNESS_KEYS)?;
    let mut keys = Vec::new();
    for row in table.iter()? {
        let (handle, vkey) = row?;
        let key: VerifierKey = vkey
            .value()
            .parse()
            .map_err(|error| damaged("", &format!("the witness key {}: {error}", handle.value())))?;
        keys.push(key);
    }
    Ok(keys)
}

/// A stored note must be a checkpoint of that log and head, cosigned by a key of this witness.
fn verify_row(origin: &str, head: &Head, note: &str, keys: &[VerifierKey]) -> Result<(), StateError> {
    let note = Note::parse(note.as_bytes()).map_err(|error| damaged(origin, &error.to_string()))?;
    let checkpoint =
        Checkpoint::parse(note.unverified_text()).map_err(|error| damaged(origin, &error.to_string()))?;
    if (checkpoint.origin(), checkpoint.size(), *checkpoint.root()) != (origin, head.size, head.root) {
        return Err(damaged(origin, "its checkpoint is not the one that the index names"));
    }
    let own = keys.iter().filter(|key| note.signatures().iter().any(|line| line.is_of(key)));
    let verified = note.verify(own).map_err(|error| damaged(origin, &error.to_string()))?;
    if verified.iter().all(|seen| seen.time == Some(head.time)) {
        Ok(())
    } else {
        Err(damaged(origin, "its cosignature is of another time than the index names"))
    }
}

fn head_of(row: (u64, &[u8; 32], u64, &str)) -> Head {
    Head { size: row.0, root: NodeHash::from_bytes(*row.1), time: row.2 }
}

impl Store for RedbStore {
    fn head(&self, origin: &str) -> Result<Head, StateError> {
        self.with(|database| {
            let read = database.begin_read()?;
            let row = read.open_table(LOGS)?.get(origin)?;
            Ok(row.map_or(Head::EMPTY, |row| head_of(row.value())))
        })
    }

    fn commit(&self, changes: &[Change]) -> Result<Vec<Applied>, StateError> {
        let outcome = self.with(|database| {
            let write = database.begin_write()?;
            let mut applied = Vec::with_capacity(changes.len());
            {
                let mut logs = write.open_table(LOGS)?;
                let mut alarms = write.open_table(ALARMS)?;
                for change in changes {
                    applied.push(match change {
                        Change::Advance(step) => {
                            let known = logs.get(&*step.origin)?.map(|row| head_of(row.value()));
                            if known.unwrap_or(Head::EMPTY) == step.from {
                                let row = (step.to.size, step.to.root.as_bytes(), step.to.time, &*step.note);
                                logs.insert(&*step.origin, row)?;
                                if known.is_none() {
                                    write
                                        .open_table(ORIGINS)?
                                        .insert(&origin_hash(&step.origin), &*step.origin)?;
                                }
                                alarms.remove((&*step.origin, &step.digest))?;
                                Applied::Written
                            } else {
                                Applied::Stale
                            }
                        }
                        Change::Alarm(alarm) => {
                            let key = (&*alarm.origin, &alarm.digest);
                            let known = alarms.get(key)?.is_some();
                            if known || count_alarms(&alarms, &alarm.origin)? >= ALARMS_MAX as u64 {
                                Applied::Known
                            } else {
                                alarms.insert(key, (alarm.time, alarm.kind))?;
                                Applied::Written
                            }
                        }
                    });
                }
            }
            write.commit()?;
            Ok(applied)
        });
        if outcome.is_err() {
            // Whether the disk has it or not is unknown until the file is opened anew.
            *self.database.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
        outcome
    }

    fn note(&self, origin_hash: &[u8; 32]) -> Result<Option<String>, StateError> {
        self.with(|database| {
            let read = database.begin_read()?;
            let Some(origin) = read.open_table(ORIGINS)?.get(origin_hash)? else { return Ok(None) };
            let row = read.open_table(LOGS)?.get(origin.value())?;
            Ok(row.map(|row| row.value().3.to_owned()))
        })
    }

    fn cosigned(&self, after: Option<&str>, limit: usize) -> Result<Vec<Cosigned>, StateError> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.with(|database| {
            let read = database.begin_read()?;
            let alarms = read.open_table(ALARMS)?;
            let logs = read.open_table(LOGS)?;
            let from = after.map_or(Unbounded, Excluded);
            let mut found = Vec::new();
            for row in logs.range::<&str>((from, Unbounded))?.take(limit) {
                let (origin, row) = row?;
                let origin = origin.value().to_owned();
                let alarms = count_alarms(&alarms, &origin)?;
                let row = row.value();
                found.push(Cosigned { head: head_of(row), note: row.3.to_owned(), origin, alarms });
            }
            Ok(found)
        })
    }

    fn recover(&self) -> Result<(), StateError> {
        let mut guard = self.database.write().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            *guard = Some(open_database(&self.path)?);
        }
        Ok(())
    }
}

fn count_alarms(
    alarms: &impl redb::ReadableTable<(&'static str, &'static [u8; 32]), (u64, &'static str)>,
    origin: &str,
) -> Result<u64, StateError> {
    let mut count = 0;
    for row in alarms.range((origin, &[0; 32])..=(origin, &[0xff; 32]))? {
        row?;
        count += 1;
    }
    Ok(count)
}

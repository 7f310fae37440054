//! The witness's state in one redb file.
//!
//! | table | key -> value |
//! |---|---|
//! | `meta` | `"format"` -> [`FORMAT`] |
//! | `logs` | origin -> size, root, time, whole cosigned note |
//! | `origins` | SHA-256 of origin -> origin; what the monitoring path names |
//! | `log_keys` | origin -> vkeys accepted for it, one a line |
//! | `witness_keys` | name and key ID of a key that cosigned -> its vkey |
//! | `published` | origin -> largest size the log was seen to publish, where it is pulled |
//! | `alarms` | origin, SHA-256 of the contradicting checkpoint's text -> time, kind |

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use redb::{
    Database, DatabaseError, ReadableDatabase as _, ReadableTable, ReadableTableMetadata as _,
    TableDefinition,
};
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::hash::NodeHash;
use runseal_tlog::key::VerifierKey;
use runseal_tlog::note::Note;

use crate::logs::{KnownKeys, Log};
use crate::state::{ALARMS_MAX, Applied, Change, Cosigned, Head, StateError, Store, origin_hash};

/// What `meta` says of a file in this format.
pub const FORMAT: &str = "runseal-witness-state/1";
pub(crate) const META: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
pub(crate) const LOGS: TableDefinition<'_, &str, (u64, &[u8; 32], u64, &str)> = TableDefinition::new("logs");
pub(crate) const ORIGINS: TableDefinition<'_, &[u8; 32], &str> = TableDefinition::new("origins");
pub(crate) const LOG_KEYS: TableDefinition<'_, &str, &str> = TableDefinition::new("log_keys");
pub(crate) const WITNESS_KEYS: TableDefinition<'_, &str, &str> = TableDefinition::new("witness_keys");
pub(crate) const PUBLISHED: TableDefinition<'_, &str, u64> = TableDefinition::new("published");
pub(crate) const ALARMS: TableDefinition<'_, (&str, &[u8; 32]), (u64, &str)> = TableDefinition::new("alarms");

/// First bytes of every redb file.
const REDB_MAGIC: &[u8; 9] = b"redb\x1a\x0a\xa9\x0d\x0a";
/// Memory for database pages. 40,000 logs and their notes fit.
const CACHE_BYTES: usize = 48 * 1024 * 1024;

/// The state in a redb file.
pub struct RedbStore {
    path: PathBuf,
    /// `None` from a failed commit until it could be opened again.
    open: RwLock<Option<Open>>,
}

struct Open {
    /// `None` while it is closed.
    database: Option<Database>,
    /// Every head as last committed: what each request asks for first.
    heads: RwLock<HashMap<String, Head>>,
}

impl Open {
    fn new(database: Database) -> Result<Self, StateError> {
        let heads = RwLock::new(read_heads(&database)?);
        Ok(Self { database: Some(database), heads })
    }

    fn database(&self) -> &Database {
        self.database.as_ref().expect("it is closed by drop alone")
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Closing writes, and may meet damage there. What was committed is durable without it.
        let closed = sheltered(|| {
            drop(self.database.take());
            Ok(())
        });
        if let Err(error) = closed {
            tracing::error!(target: "state", %error, "the database was not closed in an orderly way");
        }
    }
}

/// Calls into redb. It trusts the numbers in its pages here and there, and panics where damage has changed them.
fn sheltered<T>(call: impl FnOnce() -> Result<T, StateError>) -> Result<T, StateError> {
    let nonsense = |_| Err(StateError::DamagedFile("a page of it makes no sense".to_owned()));
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(nonsense)
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
            write.open_table(PUBLISHED)?;
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
        Self::verified(path, sheltered(|| open_database(path))?)
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

    /// Verifies the whole file, page by page, and every stored checkpoint; answers how many there are.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn check(path: &Path) -> Result<u64, StateError> {
        let database = sheltered(|| {
            let mut database = open_database(path)?;
            if database.check_integrity()? {
                Ok(database)
            } else {
                Err(StateError::DamagedFile(
                    "it failed its integrity check and was repaired; check it again".to_owned(),
                ))
            }
        })?;
        let store = Self::verified(path, database)?;
        store.with(|database| Ok(database.begin_read()?.open_table(LOGS)?.len()?))
    }

    fn verified(path: &Path, database: Database) -> Result<Self, StateError> {
        let open = sheltered(|| Open::new(database))?;
        let store = Self { path: path.to_owned(), open: RwLock::new(Some(open)) };
        store.verify()?;
        Ok(store)
    }

    /// Every key that ever cosigned here.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn own_keys(&self) -> Result<Vec<VerifierKey>, StateError> {
        self.with(|database| witness_keys(&database.begin_read()?))
    }

    /// Keys accepted for each log ever cosigned.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn known_keys(&self) -> Result<KnownKeys, StateError> {
        self.with(|database| {
            let read = database.begin_read()?;
            let mut known = KnownKeys::new();
            for row in read.open_table(LOG_KEYS)?.iter()? {
                let (origin, lines) = row?;
                let origin = origin.value().to_owned();
                known.insert(origin, lines.value().lines().map(str::to_owned).collect());
            }
            Ok(known)
        })
    }

    /// Accepts these keys for a log that was cosigned before, in place of those known.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn accept_keys(&self, log: &Log) -> Result<(), StateError> {
        self.with(|database| {
            let write = database.begin_write()?;
            write.open_table(LOG_KEYS)?.insert(log.origin(), &*vkey_lines(log.keys()))?;
            write.commit()?;
            Ok(())
        })
    }

    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        self.with_open(|open| work(open.database()))
    }

    fn with_open<T>(&self, work: impl FnOnce(&Open) -> Result<T, StateError>) -> Result<T, StateError> {
        let guard = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let open = guard.as_ref().ok_or(StateError::Closed)?;
        sheltered(|| work(open))
    }

    /// Lets `work` change heads by other ways than a commit.
    pub(crate) fn rewrite<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        self.with_open(|open| {
            let mut heads = open.heads.write().unwrap_or_else(PoisonError::into_inner);
            let outcome = work(open.database());
            *heads = read_heads(open.database())?;
            outcome
        })
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
                return Err(StateError::DamagedFile(
                    "it has monitoring paths without a checkpoint".to_owned(),
                ));
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
                    worker.join().unwrap_or_else(|_| {
                        Err(StateError::DamagedFile("the check of stored checkpoints failed".to_owned()))
                    })
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

pub(crate) fn damaged(origin: &str, fault: &str) -> StateError {
    StateError::Damaged { origin: origin.to_owned(), fault: fault.to_owned() }
}

pub(crate) fn vkey_lines(keys: &[VerifierKey]) -> String {
    keys.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// What `witness_keys` calls a key, and what a signature line tells of it.
pub(crate) fn key_handle(key: &VerifierKey) -> String {
    format!("{}+{}", key.name(), key.id())
}

pub(crate) fn witness_keys(read: &redb::ReadTransaction) -> Result<Vec<VerifierKey>, StateError> {
    let table = read.open_table(WITNESS_KEYS)?;
    let mut keys = Vec::new();
    for row in table.iter()? {
        let (handle, vkey) = row?;
        let key: VerifierKey = vkey.value().parse().map_err(|error| {
            StateError::DamagedFile(format!("the witness key {}: {error}", handle.value()))
        })?;
        keys.push(key);
    }
    Ok(keys)
}

/// A stored note must be a checkpoint of that log and head, cosigned by a key of this witness.
pub(crate) fn verify_row(
    origin: &str,
    head: &Head,
    note: &str,
    keys: &[VerifierKey],
) -> Result<(), StateError> {
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

pub(crate) fn head_of(row: (u64, &[u8; 32], u64, &str)) -> Head {
    Head { size: row.0, root: NodeHash::from_bytes(*row.1), time: row.2 }
}

fn read_heads(database: &Database) -> Result<HashMap<String, Head>, StateError> {
    let table = database.begin_read()?.open_table(LOGS)?;
    let mut heads = HashMap::with_capacity(usize::try_from(table.len()?).unwrap_or(0));
    for row in table.iter()? {
        let (origin, row) = row?;
        heads.insert(origin.value().to_owned(), head_of(row.value()));
    }
    Ok(heads)
}

impl Store for RedbStore {
    fn head(&self, origin: &str) -> Result<Head, StateError> {
        self.with_open(|open| {
            let heads = open.heads.read().unwrap_or_else(PoisonError::into_inner);
            Ok(heads.get(origin).copied().unwrap_or(Head::EMPTY))
        })
    }

    fn commit(&self, changes: &[Change]) -> Result<Vec<Applied>, StateError> {
        let outcome = self.with_open(|open| {
            let heads = &open.heads;
            let write = open.database().begin_write()?;
            let mut applied = Vec::with_capacity(changes.len());
            {
                let mut logs = write.open_table(LOGS)?;
                let mut alarms = write.open_table(ALARMS)?;
                // Nearly always there is none, and nothing to look for.
                let mut no_alarms = alarms.is_empty()?;
                for change in changes {
                    applied.push(match change {
                        Change::Advance(step) => {
                            let known = logs.get(step.log.origin())?.map(|row| head_of(row.value()));
                            if known.unwrap_or(Head::EMPTY) == step.from {
                                let row = (step.to.size, step.to.root.as_bytes(), step.to.time, &*step.note);
                                logs.insert(step.log.origin(), row)?;
                                if known.is_none() {
                                    write
                                        .open_table(ORIGINS)?
                                        .insert(&origin_hash(step.log.origin()), step.log.origin())?;
                                    let keys = vkey_lines(step.log.keys());
                                    write.open_table(LOG_KEYS)?.insert(step.log.origin(), &*keys)?;
                                }
                                if !no_alarms {
                                    alarms.remove((step.log.origin(), &step.digest))?;
                                }
                                Applied::Written
                            } else {
                                Applied::Stale
                            }
                        }
                        Change::Published { origin, size } => {
                            let mut published = write.open_table(PUBLISHED)?;
                            let known = published.get(&**origin)?.map_or(0, |row| row.value());
                            if known < *size {
                                published.insert(&**origin, size)?;
                                Applied::Written
                            } else {
                                Applied::Known
                            }
                        }
                        Change::Alarm(alarm) => {
                            let key = (&*alarm.origin, &alarm.digest);
                            let known = alarms.get(key)?.is_some();
                            if known || count_alarms(&alarms, &alarm.origin)? >= ALARMS_MAX as u64 {
                                Applied::Known
                            } else {
                                alarms.insert(key, (alarm.time, alarm.kind))?;
                                no_alarms = false;
                                Applied::Written
                            }
                        }
                    });
                }
            }
            write.commit()?;
            let mut heads = heads.write().unwrap_or_else(PoisonError::into_inner);
            for (change, applied) in changes.iter().zip(&applied) {
                let (Change::Advance(step), Applied::Written) = (change, applied) else { continue };
                match heads.get_mut(step.log.origin()) {
                    Some(head) => *head = step.to,
                    None => drop(heads.insert(step.log.origin().to_owned(), step.to)),
                }
            }
            Ok(applied)
        });
        if outcome.is_err() {
            // Whether the disk has it or not is unknown until the file is opened anew.
            *self.open.write().unwrap_or_else(PoisonError::into_inner) = None;
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

    fn published(&self, origin: &str) -> Result<u64, StateError> {
        self.with(|database| {
            let read = database.begin_read()?;
            let row = read.open_table(PUBLISHED)?.get(origin)?;
            Ok(row.map_or(0, |row| row.value()))
        })
    }

    fn recover(&self) -> Result<(), StateError> {
        let mut guard = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            *guard = Some(sheltered(|| Open::new(open_database(&self.path)?))?);
        }
        Ok(())
    }
}

fn count_alarms(
    alarms: &impl ReadableTable<(&'static str, &'static [u8; 32]), (u64, &'static str)>,
    origin: &str,
) -> Result<u64, StateError> {
    let mut count = 0;
    for row in alarms.range((origin, &[0; 32])..=(origin, &[0xff; 32]))? {
        row?;
        count += 1;
    }
    Ok(count)
}

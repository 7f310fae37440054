//! The journal: making one, opening one, and its tenants.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use runseal_evidence::name::{Base, NameError, TenantId};
use thiserror::Error;

use crate::check::{self, CheckProgress, CheckReport, RebuildReport};
use crate::clock::{Clock, SystemClock};
use crate::disk::owner_only;
use crate::log::Log;
use crate::plane::{
    Enlisted, Files, KeyFileError, Keys, MasterKey, Meta, MetaFault, Plane, RecordKey, read_secret,
    write_secret,
};
use crate::shared::Shared;
use crate::store::{
    AheadFault, AheadFile, AheadOptions, CACHE_BYTES, Corruption, Direction, Engine, EngineError, Limits,
    LoggedEngine, Overlay, RecoverError, RedbEngine, Scanned, Scope, Space, StartError, StoreError, Table,
    is_redb_file, recover,
};
use crate::tenant::Tenant;

/// A plane's journal: all tenants' runs and logs in one database.
///
/// A handle is cheap to clone and safe to share. The journal closes with its last handle, after every
/// command that was accepted has been carried out.
#[derive(Clone)]
pub struct Journal {
    shared: Arc<Shared>,
}

/// How long a journal must be idle before everything is brought into its database. See `docs/adr/0006`.
const SETTLE_AFTER: Duration = Duration::from_secs(2);

/// How a plane is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CreateOptions {
    /// Sign every record with a key of the plane's own.
    pub sign_records: bool,
}

/// How a journal is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// Memory for pages of the database that were read or wait to be written. Default: 64 MiB.
    pub cache_bytes: usize,
    /// Read the database in pieces of many pages, 2 MiB of them at once. Pays where all of it is read, and costs
    /// where single rows are. Default: no.
    pub read_ahead: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { cache_bytes: CACHE_BYTES, read_ahead: false }
    }
}

impl OpenOptions {
    /// For who opens a journal to check it, and does nothing else with it. Every page is read once, so that memory
    /// for many is of no use, and little of it stays in the processor's own caches.
    pub fn for_check() -> Self {
        Self { cache_bytes: 4 << 20, read_ahead: true }
    }
}

/// Why indexes are not made again. Nothing was changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// The journal cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The records, the entries or a row of its own right contradict themselves: that is damage to the evidence,
    /// and no index can be made from it.
    #[error("{0}; this is no index, and nothing was changed: restore it from a backup")]
    Damaged(Box<Corruption>),
    /// The evidence holds what a newer build wrote, which this one cannot judge.
    #[error("{0}; nothing was changed: use a newer runseal")]
    Newer(Box<Corruption>),
    /// The database failed.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for RebuildError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Corrupt(corruption) if corruption.fault.is_skew() => Self::Newer(corruption),
            StoreError::Corrupt(corruption) => Self::Damaged(corruption),
            error => Self::Store(error),
        }
    }
}

/// Why a journal is not made or opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no journal in the directory.
    #[error("{dir} holds no journal; make one with `runseal init`, or check the path")]
    Missing {
        /// The directory.
        dir: PathBuf,
    },
    /// There is one where one was to be made.
    #[error("{path} exists; a plane is made once and never made over")]
    Exists {
        /// What exists.
        path: PathBuf,
    },
    /// Another process, or another handle, has it open.
    #[error("{path} is in use by another process; stop that one, or wait for it to end")]
    InUse {
        /// The database.
        path: PathBuf,
    },
    /// The file is some other program's.
    #[error("{path} is not a runseal journal")]
    Foreign {
        /// The database.
        path: PathBuf,
    },
    /// Another version made it.
    #[error("{path} has format {found:?}; this build reads {expected:?}; use the build that made it", expected = crate::FORMAT)]
    OtherVersion {
        /// The database.
        path: PathBuf,
        /// The format found.
        found: String,
    },
    /// The file is damaged.
    #[error("{path} is damaged ({reason}); restore it from a backup that no checkpoint has outgrown")]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What the engine says.
        reason: String,
    },
    /// The write-ahead log does not go with the database.
    #[error("{path}: {fault}")]
    WriteAheadLog {
        /// The log.
        path: PathBuf,
        /// Why.
        #[source]
        fault: AheadFault,
    },
    /// A key file is missing, readable by others, or holds no key.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The key is another plane's: what it signs would be of another log.
    #[error("{path} is not the key that this journal was made with; put the right one back")]
    OtherKey {
        /// The key file.
        path: PathBuf,
    },
    /// A file or directory cannot be used.
    #[error("{path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// No randomness for a key.
    #[error("the system gives no randomness for a key: {0}")]
    Randomness(getrandom::Error),
    /// The database failed.
    #[error("the database failed: {0}")]
    Engine(#[from] EngineError),
    /// The storage thread cannot be started.
    #[error("the storage thread cannot be started: {0}")]
    Thread(#[source] io::Error),
}

impl Journal {
    /// Makes a plane: its directory where there is none, its keys, its database.
    ///
    /// # Errors
    /// [`OpenError`]; what exists is never written over.
    pub fn create(dir: &Path, base: &Base, options: &CreateOptions) -> Result<Self, OpenError> {
        let files = Files::in_dir(dir);
        fs::create_dir_all(dir).map_err(io_at(dir))?;
        // The memory of an earlier plane would forbid this one to sign.
        let made = [files.write_ahead_log(), files.master_key(), files.record_key(), files.signed_dir()];
        for path in [files.database()].into_iter().chain(made) {
            if path.try_exists().map_err(io_at(&path))? {
                return Err(OpenError::Exists { path });
            }
        }
        // The database gets its name last: until then there is no journal here.
        let unfinished = files.unfinished_database();
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io_at(&unfinished)(error)),
            _ => {}
        }
        let master = MasterKey::generate().map_err(OpenError::Randomness)?;
        let keys = Keys::new(master.clone());
        let record_line = if options.sign_records {
            Some(RecordKey::generate(base).map_err(OpenError::Randomness)?)
        } else {
            None
        };
        let record_key = record_line.as_deref().and_then(|line| RecordKey::parse(line, base));
        let meta = Meta {
            base: base.clone(),
            vkey: default_vkey(&keys, base),
            record_key: record_key.as_ref().map(|key| key.vkey.clone()),
        };
        // What agents recorded is for the plane's owner alone.
        owner_only(fs::OpenOptions::new().write(true).create_new(true))
            .open(&unfinished)
            .map_err(io_at(&unfinished))?;
        let engine = RedbEngine::create(&unfinished).map_err(|error| refused(&unfinished, error))?;
        write_meta(&engine, &meta)?;
        write_secret(&files.master_key(), &master.to_line()).map_err(io_at(&files.master_key()))?;
        if let Some(line) = record_line {
            write_secret(&files.record_key(), &line).map_err(io_at(&files.record_key()))?;
        }
        fs::rename(&unfinished, files.database()).map_err(io_at(&files.database()))?;
        files.sync().map_err(io_at(dir))?;
        let record_signer = record_key.map(|key| key.signer);
        Self::start(
            engine,
            &files.clone(),
            Plane {
                base: base.clone(),
                clock: Arc::new(SystemClock),
                record_signer,
                files: Some(files),
                keys,
                enlisted: Enlisted::default(),
            },
        )
    }

    /// Opens a plane's journal, which no other process may use meanwhile.
    ///
    /// # Errors
    /// [`OpenError`]. A refused file is left as it is.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        Self::open_with_clock(dir, Arc::new(SystemClock))
    }

    /// Opens a plane's journal with a clock of the caller's.
    ///
    /// # Errors
    /// Those of [`Journal::open`].
    pub fn open_with_clock(dir: &Path, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let (engine, plane) = opened(dir, &OpenOptions::default(), clock)?;
        Self::start(engine, &Files::in_dir(dir), plane)
    }

    /// Opens a plane's journal in a way of the caller's.
    ///
    /// # Errors
    /// Those of [`Journal::open`].
    pub fn open_with(dir: &Path, options: &OpenOptions) -> Result<Self, OpenError> {
        let (engine, plane) = opened(dir, options, Arc::new(SystemClock))?;
        Self::start(engine, &Files::in_dir(dir), plane)
    }

    /// Makes everything of a tenant that follows from its records and entries again: the rows of its runs, every
    /// index, the tiles and their counters. One transaction does all of it or nothing; no other process may use the
    /// journal meanwhile. For a journal whose [check](Tenant::check) finds a contradiction in any of them.
    ///
    /// Records and entries are verified first, the entries against every checkpoint signed. Runs keep their order
    /// under an outcome by the time of their conclusion; equal times are ordered by name. Besides the cache, memory
    /// grows by about 32 bytes a run.
    ///
    /// # Errors
    /// [`RebuildError`]; [`RebuildError::Damaged`] where the evidence itself contradicts itself.
    pub fn rebuild_indexes(
        dir: &Path,
        options: &OpenOptions,
        tenant: &TenantId,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<RebuildReport, RebuildError> {
        let (engine, plane) = opened(dir, options, Arc::new(SystemClock))?;
        let key = plane.log_key(&Scope::Tenant(tenant.clone()));
        let signer = plane.record_signer.as_ref();
        Ok(check::rebuild_tenant(&engine, tenant, key.verifier(), signer, progress)?)
    }

    /// Makes the tiles of the directory and the list of tenants again, from the directory's entries.
    ///
    /// # Errors
    /// Those of [`Journal::rebuild_indexes`].
    pub fn rebuild_directory(dir: &Path, options: &OpenOptions) -> Result<RebuildReport, RebuildError> {
        let (engine, plane) = opened(dir, options, Arc::new(SystemClock))?;
        Ok(check::rebuild_directory(&engine, &plane)?)
    }

    /// A journal that lives and ends with this process, under the same rules.
    ///
    /// # Errors
    /// [`OpenError`] where the storage thread cannot be started.
    pub fn in_memory(base: &Base, master_key: [u8; 32], clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let engine = RedbEngine::in_memory().map_err(|error| refused(Path::new("memory"), error))?;
        Self::on_engine(engine, base, master_key, clock)
    }

    /// A journal on an engine of the caller's, without a directory. An engine that holds one is taken up.
    pub(crate) fn on_engine(
        engine: impl Engine + 'static,
        base: &Base,
        master_key: [u8; 32],
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let keys = Keys::new(MasterKey::from_bytes(master_key));
        let meta = Meta { base: base.clone(), vkey: default_vkey(&keys, base), record_key: None };
        match Meta::read(&*engine.snapshot()?) {
            Ok(found) if found == meta => {}
            Ok(_) => return Err(OpenError::OtherKey { path: PathBuf::from("memory") }),
            Err(MetaFault::Foreign) => write_meta(&engine, &meta)?,
            Err(fault) => return Err(unreadable(Path::new("memory"), fault)),
        }
        Self::start_with(
            engine,
            Limits::default(),
            Plane {
                base: base.clone(),
                clock,
                record_signer: None,
                files: None,
                keys,
                enlisted: Enlisted::default(),
            },
        )
    }

    /// On a file, with a write-ahead log beside it.
    fn start(engine: RedbEngine, files: &Files, plane: Plane) -> Result<Self, OpenError> {
        let place = AheadFile::at(files.write_ahead_log());
        let engine = LoggedEngine::start(Arc::new(engine), Box::new(place), AheadOptions::default());
        let engine = engine.map_err(|error| match error {
            StartError::Engine(error) => OpenError::Engine(error),
            StartError::Thread(error) => OpenError::Thread(error),
        })?;
        Self::start_with(engine, Limits { settle_after: Some(SETTLE_AFTER), ..Limits::default() }, plane)
    }

    fn start_with(engine: impl Engine + 'static, limits: Limits, plane: Plane) -> Result<Self, OpenError> {
        let shared = Shared::start(Arc::new(engine), plane, limits).map_err(OpenError::Thread)?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What the origins of this plane's logs begin with.
    pub fn base(&self) -> &Base {
        &self.shared.plane.base
    }

    /// The directory; a journal in memory has none.
    pub fn dir(&self) -> Option<&Path> {
        self.shared.plane.files.as_ref().map(Files::dir)
    }

    /// The tenants that have anything, by name.
    ///
    /// # Errors
    /// [`StoreError`]; a stored name that is none is corruption.
    pub fn tenants(&self) -> Result<Vec<TenantId>, StoreError> {
        let space = Space::of(&Scope::Plane, Table::Tenants);
        let mut names = Vec::new();
        self.shared.snapshot()?.scan(&space.all(), Direction::Ascending, &mut |key, _| {
            names.push(String::from_utf8_lossy(space.own(key)).into_owned());
            Scanned::Continue(())
        })?;
        let corrupt = |error: NameError| Corruption::in_scope(&Scope::Plane, "tenant", error).into();
        names.into_iter().map(|name| TenantId::new(name).map_err(corrupt)).collect()
    }

    /// The handle of one tenant, which need not have anything yet.
    pub fn tenant(&self, tenant: &TenantId) -> Tenant {
        Tenant::new(Arc::clone(&self.shared), tenant.clone())
    }

    /// The log of the tenants' logs, `<base>/log/_directory`: one entry for each tenant, made with its first
    /// row and never removed.
    pub fn directory(&self) -> Log {
        Log::new(Arc::clone(&self.shared), Scope::Directory)
    }

    /// Checks the directory: its tree, its checkpoints, and that it has an entry for each tenant and no other.
    /// Tenants are checked one by one, see [`Tenant::check`].
    ///
    /// # Errors
    /// [`StoreError`] where the database cannot be read. A contradiction is no error: the report locates it.
    pub fn check_directory(
        &self,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport, StoreError> {
        check::directory(&*self.shared.snapshot()?, &self.shared.plane, progress)
    }

    /// The inside, for tools that damage a journal on purpose.
    #[cfg(any(test, feature = "testkit"))]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("base", self.base()).field("dir", &self.dir()).finish_non_exhaustive()
    }
}

/// The database of a plane and what goes with it, which no other process may use meanwhile.
fn opened(
    dir: &Path,
    options: &OpenOptions,
    clock: Arc<dyn Clock>,
) -> Result<(RedbEngine, Plane), OpenError> {
    let files = Files::in_dir(dir);
    let path = files.database();
    match is_redb_file(&path) {
        Ok(true) => {}
        Ok(false) => return Err(OpenError::Foreign { path }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(OpenError::Missing { dir: dir.to_owned() });
        }
        Err(error) => return Err(OpenError::Io { path, error }),
    }
    let key_path = files.master_key();
    let line = read_secret(&key_path)?;
    let master = MasterKey::parse(&line);
    let master =
        master.ok_or_else(|| KeyFileError::Malformed { path: key_path.clone(), expected: "master key" })?;
    let engine = RedbEngine::open(&path, options.cache_bytes, options.read_ahead)
        .map_err(|error| refused(&path, error))?;
    let meta = read_meta(&engine, &path)?;
    let keys = Keys::new(master);
    if default_vkey(&keys, &meta.base) != meta.vkey {
        return Err(OpenError::OtherKey { path: key_path });
    }
    let record_signer = match &meta.record_key {
        None => None,
        Some(vkey) => Some(open_record_key(&files.record_key(), &meta.base, vkey)?),
    };
    let log = files.write_ahead_log();
    recover(&engine, &AheadFile::at(log.clone())).map_err(|error| match error {
        RecoverError::Fault(fault) => OpenError::WriteAheadLog { path: log, fault },
        RecoverError::Store(StoreError::Engine(error)) => OpenError::Engine(error),
        RecoverError::Store(error) => OpenError::Damaged { path, reason: error.to_string() },
    })?;
    let plane = Plane {
        base: meta.base,
        clock,
        record_signer,
        files: Some(files),
        keys,
        enlisted: Enlisted::default(),
    };
    Ok((engine, plane))
}

fn default_vkey(keys: &Keys, base: &Base) -> String {
    let default = TenantId::default();
    keys.log_key(&Scope::Tenant(default.clone()), || base.origin(&default)).verifier().to_string()
}

fn write_meta(engine: &impl Engine, meta: &Meta) -> Result<(), OpenError> {
    let snapshot = engine.snapshot()?;
    let mut tx = Overlay::over(&*snapshot);
    meta.write(&mut tx);
    engine.commit(tx.into_writes())?;
    Ok(())
}

fn read_meta(engine: &RedbEngine, path: &Path) -> Result<Meta, OpenError> {
    Meta::read(&*engine.snapshot()?).map_err(|fault| unreadable(path, fault))
}

fn unreadable(path: &Path, fault: MetaFault) -> OpenError {
    let path = path.to_owned();
    match fault {
        MetaFault::Foreign => OpenError::Foreign { path },
        MetaFault::Format(found) => OpenError::OtherVersion { path, found },
        MetaFault::Damaged => OpenError::Damaged { path, reason: "its base or key is unreadable".to_owned() },
        MetaFault::Engine(error) => OpenError::Engine(error),
    }
}

fn refused(path: &Path, error: redb::DatabaseError) -> OpenError {
    let path = path.to_owned();
    match error {
        redb::DatabaseError::DatabaseAlreadyOpen => OpenError::InUse { path },
        redb::DatabaseError::UpgradeRequired(version) => {
            OpenError::OtherVersion { path, found: format!("redb file format {version}") }
        }
        redb::DatabaseError::Storage(redb::StorageError::Io(error)) => OpenError::Io { path, error },
        other => OpenError::Damaged { path, reason: other.to_string() },
    }
}

fn open_record_key(
    path: &Path,
    base: &Base,
    vkey: &str,
) -> Result<runseal_evidence::signature::RecordSigner, OpenError> {
    let line = read_secret(path)?;
    let key = RecordKey::parse(&line, base);
    let key = key.ok_or_else(|| KeyFileError::Malformed {
        path: path.to_owned(),
        expected: "record key of this plane",
    })?;
    if key.vkey == vkey { Ok(key.signer) } else { Err(OpenError::OtherKey { path: path.to_owned() }) }
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> OpenError + use<> {
    let path = path.to_owned();
    move |error| OpenError::Io { path, error }
}

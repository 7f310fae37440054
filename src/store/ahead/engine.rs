//! An engine that logs commits before it makes them in the tables of another.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use thiserror::Error;

use super::file::{AheadFault, AheadLog, Found};
use super::frame::{Tie, frame_bytes};
use super::layer::{Layer, Over};
use super::mark::Mark;
use super::place::AheadPlace;
use super::remembered::Remembered;
use crate::store::engine::{Direction, Engine, Read, Scanned};
use crate::store::error::{EngineError, StoreError};
use crate::store::key::KeyRange;
use crate::store::overlay::Writes;

/// When commits are logged, and how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AheadOptions {
    /// Bytes of each half of the file. Rows of both may be in memory at once.
    pub(crate) half_bytes: u64,
    /// A commit with a longer frame goes to the tables directly.
    pub(crate) frame_bytes: usize,
    /// So many commits after a start or a rest go to the tables directly: a process that makes a few and ends
    /// needs no file.
    pub(crate) direct_commits: u32,
}

impl Default for AheadOptions {
    fn default() -> Self {
        Self { half_bytes: 8 << 20, frame_bytes: 1 << 20, direct_commits: 8 }
    }
}

/// Why what a crash left is not brought in.
#[derive(Debug, Error)]
pub(crate) enum RecoverError {
    /// The file does not go with the tables.
    #[error(transparent)]
    Fault(#[from] AheadFault),
    /// The tables failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<EngineError> for RecoverError {
    fn from(error: EngineError) -> Self {
        Self::Store(error.into())
    }
}

impl From<io::Error> for RecoverError {
    fn from(error: io::Error) -> Self {
        Self::Fault(error.into())
    }
}

/// Brings into the tables what a crash left in the file, and removes it.
pub(crate) fn recover(tables: &dyn Engine, place: &dyn AheadPlace) -> Result<(), RecoverError> {
    let mark = Mark::read(&*tables.snapshot()?)?;
    let live = mark.filter(|mark| mark.live);
    let Some(disk) = place.open()? else {
        return if live.is_some() { Err(AheadFault::Missing.into()) } else { Ok(()) };
    };
    let found = Found::read(&*disk)?;
    drop(disk);
    if let Some(live) = live {
        if found.id() != live.id {
            return Err(AheadFault::OtherState.into());
        }
        let (mut writes, held) = found.behind(&live.held)?;
        tracing::info!(
            rows = writes.len(),
            commits = held.number - live.held.number,
            "brought in after a crash"
        );
        writes.extend([Mark { live: false, held, ..live }.row()]);
        tables.commit(writes)?;
    } else {
        // Made, and not taken into use; or taken out of use, and not removed.
        let held = mark.filter(|mark| mark.id == found.id()).map_or(0, |mark| mark.held.number);
        if found.newest() > held {
            return Err(AheadFault::OtherState.into());
        }
    }
    Ok(place.remove()?)
}

/// Tables, with a write-ahead log before them.
pub(crate) struct LoggedEngine {
    shared: Arc<Shared>,
    writer: Mutex<Writer>,
    thread: Option<JoinHandle<()>>,
}

/// What the storage thread has to itself.
struct Writer {
    place: Box<dyn AheadPlace>,
    options: AheadOptions,
    mode: Mode,
}

enum Mode {
    /// There is no file; so many commits were made since there was none.
    Direct(u32),
    Logged(AheadLog),
}

struct Shared {
    // Dropped first: what is read lets go of the tables before they close.
    state: Mutex<State>,
    tables: Arc<dyn Engine>,
    changed: Condvar,
}

struct State {
    view: View,
    /// What the tables hold once they hold the filled layer.
    filled: Option<Mark>,
    /// Why nothing more is written.
    failed: Option<EngineError>,
    closing: bool,
}

/// What readers see: rows of frames up to `seen`, over those of the layer that is on its way to the tables, over
/// the tables.
#[derive(Clone)]
struct View {
    tables: Tables,
    filled: Option<Arc<Layer>>,
    filling: Arc<Layer>,
    seen: u64,
}

/// The tables at one moment, as readers see them and as the storage thread does.
#[derive(Clone)]
struct Tables {
    rows: Arc<dyn Read + Send + Sync>,
    remembered: Arc<Remembered>,
}

impl Tables {
    fn of(engine: &dyn Engine) -> Result<Self, EngineError> {
        let rows: Arc<dyn Read + Send + Sync> = engine.snapshot()?.into();
        Ok(Self { remembered: Arc::new(Remembered::new(Arc::clone(&rows))), rows })
    }
}

/// The file of the write-ahead log failed.
#[derive(Debug, Error)]
#[error("{path}: {error}")]
struct FileError {
    path: PathBuf,
    #[source]
    error: io::Error,
}

impl Writer {
    fn failed(place: &dyn AheadPlace) -> impl FnOnce(io::Error) -> EngineError {
        let path = place.path().to_owned();
        |error| EngineError::new(FileError { path, error })
    }
}

impl LoggedEngine {
    /// Over `tables`, into which [`recover`] has brought what a crash left at `place`.
    pub(crate) fn start(
        tables: Arc<dyn Engine>,
        place: Box<dyn AheadPlace>,
        options: AheadOptions,
    ) -> Result<Self, StartError> {
        let view = View { tables: Tables::of(&*tables)?, filled: None, filling: Arc::default(), seen: 0 };
        let state = State { view, filled: None, failed: None, closing: false };
        let shared = Arc::new(Shared { tables, state: Mutex::new(state), changed: Condvar::new() });
        let served = Arc::clone(&shared);
        let thread = thread::Builder::new().name("runseal-tables".to_owned());
        let thread = thread.spawn(move || served.fill_tables())?;
        let writer = Mutex::new(Writer { place, options, mode: Mode::Direct(0) });
        Ok(Self { shared, writer, thread: Some(thread) })
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // What a panic interrupted was a commit, after which nothing is written any more.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` unless anything failed before, and never again once it fails.
    fn guarded(
        &self,
        work: impl FnOnce(&Shared, &mut Writer) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut writer = self.writer();
        if let Some(error) = &self.shared.lock().failed {
            return Err(error.clone());
        }
        work(&self.shared, &mut writer).inspect_err(|error| self.shared.fail(error.clone()))
    }
}

/// Why an engine does not start.
#[derive(Debug, Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Thread(#[from] io::Error),
}

impl Engine for LoggedEngine {
    fn snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, EngineError> {
        Ok(Box::new(self.shared.lock().view.clone()))
    }

    fn working_snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, EngineError> {
        let mut view = self.shared.lock().view.clone();
        view.tables.rows = view.tables.remembered.clone();
        Ok(Box::new(view))
    }

    fn commit(&self, writes: Writes) -> Result<(), EngineError> {
        self.guarded(|shared, writer| {
            let options = writer.options;
            let place = &*writer.place;
            match &mut writer.mode {
                Mode::Direct(commits) if *commits < options.direct_commits => {
                    *commits += 1;
                    shared.write_tables(writes)
                }
                mode @ Mode::Direct(_) => {
                    let log = AheadLog::create(place, options.half_bytes).map_err(Writer::failed(place))?;
                    let mark = Mark { live: true, id: log.id(), held: log.last() };
                    let mut writes = writes;
                    writes.extend([mark.row()]);
                    shared.write_tables(writes)?;
                    *mode = Mode::Logged(log);
                    Ok(())
                }
                Mode::Logged(log) => {
                    let bytes = frame_bytes(&writes);
                    if bytes > options.frame_bytes || bytes as u64 > options.half_bytes {
                        let mark = Mark { live: true, id: log.id(), held: log.last() };
                        return shared.bring_in(writes, mark);
                    }
                    if !log.fits(bytes) {
                        shared.fill(log.id(), log.last())?;
                        log.turn();
                    }
                    let tie = log.append(&writes).map_err(Writer::failed(place))?;
                    shared.show(tie.number, writes);
                    Ok(())
                }
            }
        })
    }

    /// Brings everything into the tables and removes the file.
    fn settle(&self) -> Result<(), EngineError> {
        self.guarded(|shared, writer| {
            // The file is closed before it is removed, as some systems ask.
            if let Mode::Logged(log) = std::mem::replace(&mut writer.mode, Mode::Direct(0)) {
                let mark = Mark { live: false, id: log.id(), held: log.last() };
                drop(log);
                shared.bring_in(Writes::new(), mark)?;
                writer.place.remove().map_err(Writer::failed(&*writer.place))?;
            }
            Ok(())
        })
    }
}

impl Drop for LoggedEngine {
    fn drop(&mut self) {
        // After a failure the file is left for the next opening.
        if let Err(error) = self.settle() {
            tracing::error!(%error, "closed without bringing everything into the tables; opening does that");
        }
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there has failed everything that waited for it already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code runs under this lock that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: EngineError) {
        self.lock().failed.get_or_insert(error);
        self.changed.notify_all();
    }

    /// Commits to the tables themselves, over which no layer lies.
    fn write_tables(&self, writes: Writes) -> Result<(), EngineError> {
        self.tables.commit(writes)?;
        let tables = Tables::of(&*self.tables)?;
        self.lock().view.tables = tables;
        Ok(())
    }

    /// Commits to the tables all that lies over them, and `writes` over that. Nothing lies over them then.
    fn bring_in(&self, writes: Writes, mark: Mark) -> Result<(), EngineError> {
        self.wait_for_tables()?;
        let filling = Arc::clone(&self.lock().view.filling);
        let mut all = filling.newest();
        all.extend(writes);
        all.extend([mark.row()]);
        self.tables.commit(all)?;
        let tables = Tables::of(&*self.tables)?;
        // Frames may be numbered from 1 again: who still reads these rows keeps a layer of his own.
        let view = View { tables, filled: None, filling: Arc::default(), seen: 0 };
        self.lock().view = view;
        Ok(())
    }

    /// Shows the rows of a frame that is durable.
    fn show(&self, number: u64, writes: Writes) {
        // This thread alone changes which layer is being filled.
        let filling = Arc::clone(&self.lock().view.filling);
        filling.add(number, writes);
        self.lock().view.seen = number;
    }

    /// Sends all frames up to `last` on their way to the tables.
    fn fill(&self, id: [u8; 16], last: Tie) -> Result<(), EngineError> {
        self.wait_for_tables()?;
        let mut state = self.lock();
        state.filled = Some(Mark { live: true, id, held: last });
        state.view.filled = Some(std::mem::take(&mut state.view.filling));
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Returns once no layer is on its way to the tables.
    fn wait_for_tables(&self) -> Result<(), EngineError> {
        let mut state = self.lock();
        loop {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.filled.is_none() {
                return Ok(());
            }
            state = self.wait(state);
        }
    }

    /// Brings layers into the tables as they come.
    fn fill_tables(&self) {
        let _guard = FailOnPanic(self);
        while let Some((layer, mark)) = self.next_filled() {
            let mut writes = layer.newest();
            writes.extend([mark.row()]);
            let tables = self.tables.commit(writes).and_then(|()| Tables::of(&*self.tables));
            match tables {
                Ok(tables) => {
                    let mut state = self.lock();
                    state.view.tables = tables;
                    state.view.filled = None;
                    state.filled = None;
                    drop(state);
                    self.changed.notify_all();
                    release(layer);
                }
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Waits for a layer; none when there will not be one.
    fn next_filled(&self) -> Option<(Arc<Layer>, Mark)> {
        let mut state = self.lock();
        loop {
            if state.failed.is_some() {
                return None;
            }
            if let (Some(layer), Some(mark)) = (&state.view.filled, state.filled) {
                return Some((Arc::clone(layer), mark));
            }
            if state.closing {
                return None;
            }
            state = self.wait(state);
        }
    }
}

/// Lets go of a layer once the thread that commits has, for whom freeing so many rows would be a pause.
fn release(layer: Arc<Layer>) {
    for _ in 0..10 {
        if Arc::strong_count(&layer) == 1 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    drop(layer);
}

/// The thread that fills the tables panicked.
#[derive(Debug, Error)]
#[error("bringing commits into the tables panicked")]
struct Panicked;

struct FailOnPanic<'a>(&'a Shared);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(EngineError::new(Panicked));
        }
    }
}

impl View {
    /// Calls `read` with all rows that this view shows.
    fn rows<T>(&self, read: impl FnOnce(&dyn Read) -> T) -> T {
        let tables = &*self.tables.rows;
        let filling = |below| Over { layer: &self.filling, seen: self.seen, below };
        match &self.filled {
            None => read(&filling(tables)),
            Some(filled) => read(&filling(&Over { layer: filled, seen: self.seen, below: tables })),
        }
    }
}

impl Read for View {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.rows(|rows| rows.get(key))
    }

    fn scan(
        &self,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Scanned,
    ) -> Result<(), EngineError> {
        self.rows(|rows| rows.scan(range, direction, visit))
    }
}

//! A disk that loses power: at every sync, with what was written since torn or lost.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

use super::world::{MASTER, NOW, TTL, base, concluded, note, run, started, suspended, tenant};
use crate::disk::{Disk, read_exact_at};
use crate::store::{AheadOptions, AheadPlace, LoggedEngine, RedbEngine, recover};
use crate::{Journal, ManualClock, StoreError};

/// What happens to writes that no sync has covered when the power goes.
#[derive(Debug, Clone, Copy)]
enum Unsynced {
    /// None of them lasts.
    Lost,
    /// All of them last.
    Kept,
    /// Each lasts or not by the toss of a coin, in blocks of 512 bytes: torn and out of order.
    Torn(u64),
}

/// A machine with a database and, while there is one, a write-ahead log, each in a file with a write cache.
#[derive(Debug, Clone)]
struct Machine(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The database, and every log there ever was.
    files: Vec<FileState>,
    /// Which of them bears the log's name, and which does after a loss of power.
    log: Option<usize>,
    durable_log: Option<usize>,
    syncs: u64,
    /// After how many syncs the power goes: the next one fails.
    power_until: Option<u64>,
    dead: bool,
    /// Syncs that fail while the power stays.
    failing_sync: Option<u64>,
}

#[derive(Debug, Default, Clone)]
struct FileState {
    durable: Vec<u8>,
    /// The file as its user sees it.
    seen: Vec<u8>,
    /// Blocks that differ from what is durable.
    dirty: BTreeSet<usize>,
}

const BLOCK: usize = 512;

/// One file of a machine.
#[derive(Debug, Clone)]
struct FileOf(Machine, usize);

const DATABASE: usize = 0;

/// Few commits fill a log, and some go by it.
const OPTIONS: AheadOptions = AheadOptions { half_bytes: 24 << 10, frame_bytes: 12 << 10, direct_commits: 3 };

impl Machine {
    /// A machine with a journal that holds nothing yet. Making one is another matter: until it is whole it does
    /// not bear its name.
    fn with_journal(power_until: Option<u64>, failing_sync: Option<u64>) -> Self {
        let machine = Self::holding(FileState::default(), None);
        let engine = RedbEngine::on(machine.database()).unwrap();
        drop(Journal::on_engine(engine, &base(), MASTER, Arc::new(ManualClock::at(NOW))).unwrap());
        let files = machine.0.lock().unwrap().files.clone();
        Self(Arc::new(Mutex::new(State { files, power_until, failing_sync, ..State::default() })))
    }

    fn holding(database: FileState, log: Option<FileState>) -> Self {
        let mut state = State { files: vec![database], ..State::default() };
        if let Some(log) = log {
            state.files.push(log);
            state.log = Some(1);
            state.durable_log = Some(1);
        }
        Self(Arc::new(Mutex::new(state)))
    }

    fn database(&self) -> FileOf {
        FileOf(self.clone(), DATABASE)
    }

    /// A journal on what this machine holds, as a start makes it.
    fn start(&self) -> Result<Journal, Box<dyn std::error::Error>> {
        let tables = RedbEngine::on(self.database())?;
        recover(&tables, self)?;
        let engine = LoggedEngine::start(Arc::new(tables), Box::new(self.clone()), OPTIONS)?;
        Ok(Journal::on_engine(engine, &base(), MASTER, Arc::new(ManualClock::at(NOW)))?)
    }

    fn syncs(&self) -> u64 {
        self.0.lock().unwrap().syncs
    }

    fn living(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.0.lock().unwrap();
        if state.dead { Err(no_power()) } else { Ok(state) }
    }

    /// The machine as it comes up again.
    fn after_reboot(&self, unsynced: Unsynced) -> Self {
        let state = self.0.lock().unwrap();
        let mut coin = Coin::of(unsynced);
        let named =
            if state.log == state.durable_log || !coin.lasts() { state.durable_log } else { state.log };
        let mut kept = |file: usize| state.files[file].after_reboot(&mut coin);
        Self::holding(kept(DATABASE), named.map(&mut kept))
    }
}

/// Decides for each unsynced write whether it lasts.
enum Coin {
    Always(bool),
    /// xorshift64
    Tossed(u64),
}

impl Coin {
    fn of(unsynced: Unsynced) -> Self {
        match unsynced {
            Unsynced::Lost => Self::Always(false),
            Unsynced::Kept => Self::Always(true),
            Unsynced::Torn(seed) => Self::Tossed(seed | 1),
        }
    }

    fn lasts(&mut self) -> bool {
        match self {
            Self::Always(lasts) => *lasts,
            Self::Tossed(coin) => {
                *coin ^= *coin << 13;
                *coin ^= *coin >> 7;
                *coin ^= *coin << 17;
                *coin & 1 == 1
            }
        }
    }
}

impl FileState {
    fn synced(bytes: Vec<u8>) -> Self {
        Self { durable: bytes.clone(), seen: bytes, dirty: BTreeSet::new() }
    }

    fn after_reboot(&self, coin: &mut Coin) -> Self {
        let mut bytes = self.durable.clone();
        if !matches!(coin, Coin::Always(false)) {
            // A grown file keeps its length with either content.
            bytes.resize(self.seen.len().max(bytes.len()), 0);
        }
        for block in &self.dirty {
            let range = block * BLOCK..((block + 1) * BLOCK).min(self.seen.len());
            if coin.lasts() && range.start < range.end {
                bytes[range.clone()].copy_from_slice(&self.seen[range]);
            }
        }
        Self::synced(bytes)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let seen = self.seen.get_mut(start..start + data.len());
        seen.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?.copy_from_slice(data);
        self.dirty.extend(start / BLOCK..=(start + data.len() - 1) / BLOCK);
        Ok(())
    }
}

fn no_power() -> io::Error {
    io::Error::other("no power")
}

impl State {
    /// A point at which the power may go, or a sync may fail.
    fn sync_point(&mut self) -> io::Result<()> {
        if self.power_until == Some(self.syncs) {
            self.dead = true;
            return Err(no_power());
        }
        self.syncs += 1;
        if self.failing_sync == Some(self.syncs) {
            return Err(io::Error::other("the sync failed"));
        }
        Ok(())
    }
}

impl FileOf {
    fn with<T>(&self, call: impl FnOnce(&mut FileState) -> io::Result<T>) -> io::Result<T> {
        call(&mut self.0.living()?.files[self.1])
    }

    fn synced(&self) -> io::Result<()> {
        let mut state = self.0.living()?;
        state.sync_point()?;
        let file = &mut state.files[self.1];
        file.durable.clone_from(&file.seen);
        file.dirty.clear();
        Ok(())
    }

    fn resized(&self, bytes: u64) -> io::Result<()> {
        self.with(|file| {
            file.seen.resize(usize::try_from(bytes).map_err(io::Error::other)?, 0);
            Ok(())
        })
    }
}

impl StorageBackend for FileOf {
    fn len(&self) -> io::Result<u64> {
        self.with(|file| Ok(file.seen.len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        read_exact_at(self, out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.resized(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.synced()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|file| file.write(offset, data))
    }
}

impl Disk for FileOf {
    fn size(&self) -> io::Result<u64> {
        self.with(|file| Ok(file.seen.len() as u64))
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.with(|file| {
            let rest = file.seen.get(usize::try_from(at).map_err(io::Error::other)?..).unwrap_or_default();
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        })
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.with(|file| file.write(at, bytes))
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.resized(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.synced()
    }
}

impl AheadPlace for Machine {
    fn open(&self) -> io::Result<Option<Box<dyn Disk>>> {
        let log = self.living()?.log;
        Ok(log.map(|file| Box::new(FileOf(self.clone(), file)) as Box<dyn Disk>))
    }

    fn create(&self, start: &[u8], size: u64) -> io::Result<Box<dyn Disk>> {
        let mut state = self.living()?;
        let mut bytes = start.to_vec();
        bytes.resize(usize::try_from(size).map_err(io::Error::other)?, 0);
        state.files.push(FileState::synced(bytes));
        let file = state.files.len() - 1;
        // Renamed; the name is durable behind the next point.
        state.log = Some(file);
        state.sync_point()?;
        state.durable_log = Some(file);
        Ok(Box::new(FileOf(self.clone(), file)))
    }

    fn remove(&self) -> io::Result<()> {
        self.living()?.log = None;
        Ok(())
    }

    fn path(&self) -> &Path {
        Path::new("log")
    }
}

/// One step of the work: what it does, and what must be true for ever once it was acknowledged.
type Step = (&'static str, u64);

/// Does the work until the power goes; answers what was acknowledged.
fn work(machine: &Machine) -> Vec<Step> {
    let mut done = Vec::new();
    let _ = attempt(machine, &mut done);
    done
}

fn attempt(machine: &Machine, done: &mut Vec<Step>) -> Result<(), Box<dyn std::error::Error>> {
    let journal = machine.start()?;
    let acme = journal.tenant(&tenant("acme"));
    let epoch = acme.acquire(&run("long"), "w", TTL)?.epoch;
    done.push(("lease", epoch));
    for number in 0..12 {
        let drafts = vec![note(&"x".repeat(900 * number)), started(u8::try_from(number)?)];
        let appended = acme.append(&run("long"), epoch, drafts)?;
        done.push(("long", appended.last().map_or(0, |appended| appended.seq)));
        let name = run(&format!("r{number}"));
        acme.append_once(&name, "w", vec![note("1"), suspended("2027-01-01T00:00:00Z")], false)?;
        let (_, sealed) = acme.append_once(&name, "w", vec![concluded("succeeded")], true)?;
        done.push(("seals", sealed.map_or(0, |sealed| sealed.index + 1)));
        acme.pin_heads()?;
        done.push(("size", acme.tree_size()?));
        let note = acme.sign_checkpoint()?;
        acme.publish(&note)?;
        done.push(("published", acme.tree_size()?));
    }
    Ok(())
}

/// Runs that append at once, two records each time.
const CROWD: [&str; 8] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];
const ROUNDS: u8 = 6;

/// Appends to all runs of the crowd at once, until the power goes; answers how many records of each were
/// acknowledged.
fn crowd(machine: &Machine) -> [u64; CROWD.len()] {
    let mut acknowledged = [0; CROWD.len()];
    let Ok(journal) = machine.start() else { return acknowledged };
    let acme = journal.tenant(&tenant("acme"));
    if CROWD.iter().any(|name| acme.acquire(&run(name), "w", TTL).is_err()) {
        return acknowledged;
    }
    for round in 0..ROUNDS {
        let drafts = |name: &str| vec![note(&name.repeat(40 * usize::from(round))), started(round)];
        let answers = CROWD.map(|name| acme.append_queued(&run(name), 1, drafts(name)));
        for (records, answer) in acknowledged.iter_mut().zip(answers) {
            if let Some(last) = answer.wait().ok().and_then(|appended| appended.last().map(|last| last.seq)) {
                *records = last;
            }
        }
    }
    acknowledged
}

/// Opens the journal after a reboot and holds it against what was acknowledged.
fn examine(machine: &Machine, done: &[Step]) -> Result<(), String> {
    let journal = machine.start().map_err(|error| format!("does not open: {error}"))?;
    let acme = journal.tenant(&tenant("acme"));
    let failed = |error: StoreError| error.to_string();
    let report = acme.check(&mut |_| {}).map_err(failed)?;
    if let Some(contradiction) = report.contradiction {
        return Err(contradiction.to_string());
    }
    let last = |name: &str| done.iter().rev().find(|(step, _)| *step == name).map_or(0, |(_, value)| *value);
    let long = acme.run(&run("long")).map_err(failed)?.map_or(0, |summary| summary.records);
    // What was acknowledged is there; what was not is at most the one batch that was under way, whole.
    if long != last("long") && long != last("long") + 2 {
        return Err(format!("{long} records where {} were acknowledged", last("long")));
    }
    let size = acme.tree_size().map_err(failed)?;
    if size < last("size").max(last("seals")) {
        return Err(format!("size {size} where {} was acknowledged", last("size")));
    }
    let published = acme.published().map_err(failed)?;
    if last("published") > 0 && published.is_none() {
        return Err("no checkpoint where one was acknowledged".to_owned());
    }
    // And the journal goes on.
    acme.sign_checkpoint().map_err(|error| error.to_string())?;
    if last("lease") == 1 {
        acme.append(&run("long"), 1, vec![note("on")]).map_err(|error| error.to_string())?;
    }
    acme.append_once(&run("new"), "w", vec![concluded("succeeded")], true)
        .map_err(|error| error.to_string())?;
    Ok(())
}

#[test]
fn everything_acknowledged_survives_a_power_cut_at_every_sync() {
    let whole = Machine::with_journal(None, None);
    assert_eq!(work(&whole).len(), 1 + 4 * 12);
    let syncs = whole.syncs();
    let mut survived = 0;
    for power_until in 0..syncs {
        let machine = Machine::with_journal(Some(power_until), None);
        let done = work(&machine);
        for unsynced in [
            Unsynced::Lost,
            Unsynced::Kept,
            Unsynced::Torn(power_until),
            Unsynced::Torn(power_until + 1_000_003),
        ] {
            let machine = machine.after_reboot(unsynced);
            if let Err(fault) = examine(&machine, &done) {
                panic!("power cut after {power_until} syncs, writes since {unsynced:?}: {fault}");
            }
            survived += 1;
        }
    }
    println!("{survived} power cuts survived, 4 at each of {syncs} syncs");
}

#[test]
fn a_failed_sync_answers_nobody_and_loses_nothing_acknowledged() {
    let whole = Machine::with_journal(None, None);
    work(&whole);
    let mut interrupted = 0;
    for failing in 1..whole.syncs() {
        let machine = Machine::with_journal(None, Some(failing));
        let done = work(&machine);
        interrupted += u64::from(done.len() < 1 + 4 * 12);
        for unsynced in [Unsynced::Lost, Unsynced::Kept] {
            let machine = machine.after_reboot(unsynced);
            if let Err(fault) = examine(&machine, &done) {
                panic!("sync {failing} failed, writes since {unsynced:?}: {fault}");
            }
        }
    }
    // All but those of closing the database, and of the tables behind the last commit, were somebody's commit.
    assert!(interrupted + 10 > whole.syncs(), "{interrupted} of {}", whole.syncs());
}

#[test]
fn of_commands_that_share_a_commit_each_is_there_whole_once_it_was_acknowledged() {
    let whole = Machine::with_journal(None, None);
    let all = 2 * u64::from(ROUNDS);
    assert_eq!(crowd(&whole), [all; CROWD.len()]);
    let syncs = whole.syncs();
    let commands = (CROWD.len() * (1 + usize::from(ROUNDS))) as u64;
    assert!(syncs < commands, "{syncs} syncs for {commands} commands: nothing was shared");
    for power_until in 0..syncs {
        let machine = Machine::with_journal(Some(power_until), None);
        let acknowledged = crowd(&machine);
        for unsynced in [Unsynced::Lost, Unsynced::Kept, Unsynced::Torn(power_until)] {
            let journal = machine.after_reboot(unsynced).start().unwrap();
            let acme = journal.tenant(&tenant("acme"));
            for (name, acknowledged) in CROWD.iter().zip(acknowledged) {
                let records = acme.run(&run(name)).unwrap().map_or(0, |summary| summary.records);
                assert!(
                    records == acknowledged || records == acknowledged + 2,
                    "power cut after {power_until} syncs, writes since {unsynced:?}: \
                     {name} has {records} records of {acknowledged} acknowledged"
                );
            }
            assert_eq!(acme.check(&mut |_| {}).unwrap().contradiction, None);
        }
    }
}

//! A disk that loses power: at every sync, with what was written since torn or lost.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};

use redb::StorageBackend;

use super::world::{MASTER, NOW, TTL, base, concluded, note, run, started, suspended, tenant};
use crate::store::RedbEngine;
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

/// A disk in memory with a write cache.
#[derive(Debug, Clone)]
struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    durable: Vec<u8>,
    /// The disk as its user sees it.
    seen: Vec<u8>,
    /// Blocks that differ from what is durable.
    dirty: BTreeSet<usize>,
    syncs: u64,
    /// After how many syncs the power goes: the next one fails.
    power_until: Option<u64>,
    dead: bool,
    /// Syncs that fail while the power stays.
    failing_sync: Option<u64>,
}

const BLOCK: usize = 512;

impl Disk {
    /// A disk with a journal that holds nothing yet. Making one is another matter: until it is whole it does
    /// not bear its name.
    fn with_journal(power_until: Option<u64>, failing_sync: Option<u64>) -> Self {
        let disk = Self::holding(Vec::new());
        let engine = RedbEngine::on(disk.clone()).unwrap();
        drop(Journal::on_engine(engine, &base(), MASTER, Arc::new(ManualClock::at(NOW))).unwrap());
        let durable = disk.0.lock().unwrap().durable.clone();
        let seen = durable.clone();
        Self(Arc::new(Mutex::new(State { durable, seen, power_until, failing_sync, ..State::default() })))
    }

    fn holding(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(State { durable: bytes.clone(), seen: bytes, ..State::default() })))
    }

    fn syncs(&self) -> u64 {
        self.0.lock().unwrap().syncs
    }

    /// The disk as it comes up again.
    fn after_reboot(&self, unsynced: Unsynced) -> Self {
        let state = self.0.lock().unwrap();
        let mut bytes = state.durable.clone();
        let mut coin = match unsynced {
            Unsynced::Lost => return Self::holding(bytes),
            Unsynced::Kept => None,
            Unsynced::Torn(seed) => Some(seed | 1),
        };
        // A grown file keeps its length with either content.
        bytes.resize(state.seen.len().max(bytes.len()), 0);
        for block in &state.dirty {
            let lasts = coin.as_mut().is_none_or(|coin| {
                // xorshift64
                *coin ^= *coin << 13;
                *coin ^= *coin >> 7;
                *coin ^= *coin << 17;
                *coin & 1 == 1
            });
            let range = block * BLOCK..((block + 1) * BLOCK).min(state.seen.len());
            if lasts && range.start < range.end {
                bytes[range.clone()].copy_from_slice(&state.seen[range]);
            }
        }
        Self::holding(bytes)
    }
}

fn no_power() -> io::Error {
    io::Error::other("no power")
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        let state = self.0.lock().unwrap();
        if state.dead { Err(no_power()) } else { Ok(state.seen.len() as u64) }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock().unwrap();
        if state.dead {
            return Err(no_power());
        }
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = state.seen.get(start..start + out.len());
        out.copy_from_slice(bytes.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.dead {
            return Err(no_power());
        }
        state.seen.resize(usize::try_from(len).map_err(io::Error::other)?, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.dead || state.power_until == Some(state.syncs) {
            state.dead = true;
            return Err(no_power());
        }
        state.syncs += 1;
        if state.failing_sync == Some(state.syncs) {
            return Err(io::Error::other("the sync failed"));
        }
        let state = &mut *state;
        state.durable.clone_from(&state.seen);
        state.dirty.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.dead {
            return Err(no_power());
        }
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        if state.seen.len() < start + data.len() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        state.seen[start..start + data.len()].copy_from_slice(data);
        state.dirty.extend(start / BLOCK..=(start + data.len() - 1) / BLOCK);
        Ok(())
    }
}

/// One step of the work: what it does, and what must be true for ever once it was acknowledged.
type Step = (&'static str, u64);

/// Does the work until the power goes; answers what was acknowledged.
fn work(disk: &Disk) -> Vec<Step> {
    let mut done = Vec::new();
    let _ = attempt(disk, &mut done);
    done
}

fn attempt(disk: &Disk, done: &mut Vec<Step>) -> Result<(), Box<dyn std::error::Error>> {
    let engine = RedbEngine::on(disk.clone())?;
    let journal = Journal::on_engine(engine, &base(), MASTER, Arc::new(ManualClock::at(NOW)))?;
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

/// Opens the journal after a reboot and holds it against what was acknowledged.
fn examine(disk: &Disk, done: &[Step]) -> Result<(), String> {
    let engine = RedbEngine::on(disk.clone()).map_err(|error| format!("does not open: {error}"))?;
    let journal = Journal::on_engine(engine, &base(), MASTER, Arc::new(ManualClock::at(NOW)))
        .map_err(|error| format!("does not open: {error}"))?;
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
    let whole = Disk::with_journal(None, None);
    assert_eq!(work(&whole).len(), 1 + 4 * 12);
    let syncs = whole.syncs();
    let mut survived = 0;
    for power_until in 0..syncs {
        let disk = Disk::with_journal(Some(power_until), None);
        let done = work(&disk);
        for unsynced in [
            Unsynced::Lost,
            Unsynced::Kept,
            Unsynced::Torn(power_until),
            Unsynced::Torn(power_until + 1_000_003),
        ] {
            let disk = disk.after_reboot(unsynced);
            if let Err(fault) = examine(&disk, &done) {
                panic!("power cut after {power_until} syncs, writes since {unsynced:?}: {fault}");
            }
            survived += 1;
        }
    }
    println!("{survived} power cuts survived, 4 at each of {syncs} syncs");
}

#[test]
fn a_failed_sync_answers_nobody_and_loses_nothing_acknowledged() {
    let whole = Disk::with_journal(None, None);
    work(&whole);
    let mut interrupted = 0;
    for failing in 1..whole.syncs() {
        let disk = Disk::with_journal(None, Some(failing));
        let done = work(&disk);
        interrupted += u64::from(done.len() < 1 + 4 * 12);
        for unsynced in [Unsynced::Lost, Unsynced::Kept] {
            let disk = disk.after_reboot(unsynced);
            if let Err(fault) = examine(&disk, &done) {
                panic!("sync {failing} failed, writes since {unsynced:?}: {fault}");
            }
        }
    }
    // All but those of closing the database were somebody's commit.
    assert!(interrupted + 5 > whole.syncs(), "{interrupted} of {}", whole.syncs());
}

//! What the tests share: names, drafts, and a journal on each engine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use runseal_evidence::json::Json;
use runseal_evidence::name::{Base, CaseId, EffectKey, Kind, Outcome, RunId, TenantId};
use runseal_evidence::record::RecordDraft;
use tempfile::TempDir;

use super::logged::{Logged, SMALL};
use crate::store::{
    Direction, Engine, EngineError, KeyRange, Overlay, Read, Scanned, Scope, Space, StoreError, Table, Writes,
};
use crate::{Appended, CreateOptions, Journal, ManualClock, Sealed, Tenant};

pub(crate) const MASTER: [u8; 32] = [7; 32];
pub(crate) const NOW: i64 = 1_770_000_000_000;
pub(crate) const TTL: Duration = Duration::from_secs(30);

pub(crate) fn base() -> Base {
    Base::new("log.example.com/plane").unwrap()
}

pub(crate) fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

pub(crate) fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

pub(crate) fn outcome(name: &str) -> Outcome {
    Outcome::new(name).unwrap()
}

pub(crate) fn effect(byte: u8) -> EffectKey {
    EffectKey::new(format!("{byte:02x}").repeat(32)).unwrap()
}

pub(crate) fn case(name: &str) -> CaseId {
    CaseId::new(name).unwrap()
}

pub(crate) fn draft(kind: &str, payload: &str) -> RecordDraft {
    let payload = Json::parse(payload.as_bytes()).unwrap();
    RecordDraft { kind: Kind::new(kind).unwrap(), payload, effect: None, case: None }
}

pub(crate) fn note(text: &str) -> RecordDraft {
    draft("Note", &format!("{{\"text\":{}}}", Json::string(text)))
}

pub(crate) fn concluded(outcome: &str) -> RecordDraft {
    draft("RunConcluded", &format!("{{\"outcome\":{}}}", Json::string(outcome)))
}

pub(crate) fn suspended(until: &str) -> RecordDraft {
    draft("RunSuspended", &format!("{{\"until\":\"{until}\",\"reason\":\"mail\"}}"))
}

pub(crate) fn admitted(key: &str, source: &str) -> RecordDraft {
    let (key, source) = (Json::string(key), Json::string(source));
    draft("RunAdmitted", &format!("{{\"admission_key\":{key},\"source\":{source}}}"))
}

pub(crate) fn started(byte: u8) -> RecordDraft {
    RecordDraft { effect: Some(effect(byte)), ..draft("EffectStarted", "{}") }
}

pub(crate) fn in_case(name: &str, draft: RecordDraft) -> RecordDraft {
    RecordDraft { case: Some(case(name)), ..draft }
}

/// A journal with a clock that stands until it is moved.
pub(crate) struct World {
    pub(crate) journal: Journal,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) acme: Tenant,
    home: Home,
}

/// What outlives a restart.
enum Home {
    /// The journal itself: its engine ends with it.
    Nowhere,
    Dir(TempDir),
    /// Tables and a write-ahead log, which are never closed in an orderly way.
    Logged(Logged),
}

impl World {
    /// On redb in memory.
    pub(crate) fn in_memory() -> Self {
        let clock = Arc::new(ManualClock::at(NOW));
        let journal = Journal::in_memory(&base(), MASTER, clock.clone()).unwrap();
        Self::of(journal, clock, Home::Nowhere)
    }

    /// On redb in a file.
    pub(crate) fn on_disk() -> Self {
        let dir = tempfile::tempdir().unwrap();
        drop(Journal::create(dir.path(), &base(), &CreateOptions::default()).unwrap());
        let clock = Arc::new(ManualClock::at(NOW));
        let journal = Journal::open_with_clock(dir.path(), clock.clone()).unwrap();
        Self::of(journal, clock, Home::Dir(dir))
    }

    /// On an engine that is no more than an ordered map: the promises rest on nothing else.
    pub(crate) fn on_a_map() -> Self {
        let clock = Arc::new(ManualClock::at(NOW));
        let journal = Journal::on_engine(MapEngine::default(), &base(), MASTER, clock.clone()).unwrap();
        Self::of(journal, clock, Home::Nowhere)
    }

    /// On an ordered map behind a write-ahead log that is full every few commits. A restart is a crash.
    pub(crate) fn logged() -> Self {
        let clock = Arc::new(ManualClock::at(NOW));
        let logged = Logged::default();
        let journal = Journal::on_engine(logged.start(SMALL), &base(), MASTER, clock.clone()).unwrap();
        Self::of(journal, clock, Home::Logged(logged))
    }

    fn of(journal: Journal, clock: Arc<ManualClock>, home: Home) -> Self {
        let acme = journal.tenant(&tenant("acme"));
        Self { journal, clock, acme, home }
    }

    /// The same journal after a restart, where the engine outlives one.
    pub(crate) fn reopened(self) -> Self {
        self.closed_for(|_| {})
    }

    /// The same journal after `meanwhile`, which is shown the directory of a closed one, where there is one.
    pub(crate) fn closed_for(self, meanwhile: impl FnOnce(&Path)) -> Self {
        let Self { journal, clock, acme, home } = self;
        let dir = match home {
            Home::Nowhere => return Self { journal, clock, acme, home },
            Home::Dir(dir) => dir,
            Home::Logged(logged) => {
                let logged = logged.crashed();
                drop((journal, acme));
                let engine = logged.start(SMALL);
                let journal = Journal::on_engine(engine, &base(), MASTER, clock.clone()).unwrap();
                return Self::of(journal, clock, Home::Logged(logged));
            }
        };
        drop((journal, acme));
        meanwhile(dir.path());
        let journal = Journal::open_with_clock(dir.path(), clock.clone()).unwrap();
        Self::of(journal, clock, Home::Dir(dir))
    }

    /// Claims a run for `worker`.
    pub(crate) fn lease(&self, name: &str) -> u64 {
        self.acme.acquire(&run(name), "worker", TTL).unwrap().epoch
    }

    /// Claims a run and appends to it.
    pub(crate) fn leased_with(&self, name: &str, drafts: Vec<RecordDraft>) -> u64 {
        let epoch = self.lease(name);
        self.acme.append(&run(name), epoch, drafts).unwrap();
        epoch
    }

    /// Appends in one call that takes the lease itself.
    pub(crate) fn wrote(&self, name: &str, drafts: Vec<RecordDraft>) -> Vec<Appended> {
        self.acme.append_once(&run(name), "test", drafts, false).unwrap().0
    }

    /// A run of a note and a conclusion, sealed.
    pub(crate) fn sealed(&self, name: &str) -> Sealed {
        let drafts = vec![note(name), concluded("succeeded")];
        self.acme.append_once(&run(name), "test", drafts, true).unwrap().1.unwrap()
    }

    /// The full check, which must find nothing.
    pub(crate) fn assert_sound(&self) {
        assert_eq!(self.acme.check(&mut |_| {}).unwrap().contradiction, None);
        assert_eq!(self.journal.check_directory(&mut |_| {}).unwrap().contradiction, None);
    }

    /// Writes a row behind the journal's back; without a value it is deleted.
    pub(crate) fn plant(&self, table: Table, key: &[&[u8]], value: Option<&[u8]>) {
        plant(&self.journal, table, key, value);
    }

    /// Changes a row behind the journal's back.
    pub(crate) fn damage(&self, table: Table, key: &[&[u8]], change: impl Fn(&mut Vec<u8>) + Send + 'static) {
        let key = space(table).key(key);
        let damaged = self.journal.shared().run(&Scope::Plane, 0, move |tx, _| -> Result<(), StoreError> {
            let mut value = tx.get(&key)?.expect("there is such a row");
            change(&mut value);
            tx.put(key.clone(), value);
            Ok(())
        });
        damaged.unwrap();
    }

    /// How many rows a table has.
    pub(crate) fn rows(&self, table: Table) -> usize {
        let mut rows = 0;
        let snapshot = self.journal.shared().snapshot().unwrap();
        snapshot
            .scan(&space(table).all(), Direction::Ascending, &mut |_, _| {
                rows += 1;
                Scanned::Continue(())
            })
            .unwrap();
        rows
    }
}

fn space(table: Table) -> Space {
    Space::of(&Scope::Tenant(tenant("acme")), table)
}

fn plant(journal: &Journal, table: Table, key: &[&[u8]], value: Option<&[u8]>) {
    let (key, value) = (space(table).key(key), value.map(<[u8]>::to_vec));
    let planted =
        journal.shared().run(&Scope::Plane, 0, move |tx: &mut Overlay<'_>, _| -> Result<(), StoreError> {
            match value.clone() {
                Some(value) => tx.put(key.clone(), value),
                None => tx.delete(key.clone()),
            }
            Ok(())
        });
    planted.unwrap();
}

/// The key of a record, for [`World::damage`].
pub(crate) fn record_key(name: &str, seq: u64) -> Vec<u8> {
    [name.as_bytes(), &[0], &seq.to_be_bytes()].concat()
}

/// The row by which a run holds an admission key.
pub(crate) fn claim(name: &str, admitted_ms: i64) -> Vec<u8> {
    let length = u32::try_from(name.len()).unwrap();
    [&admitted_ms.to_be_bytes()[..], &length.to_le_bytes(), name.as_bytes()].concat()
}

/// An engine out of the standard library's ordered map.
#[derive(Clone, Default)]
pub(crate) struct MapEngine(Arc<RwLock<Arc<MapRows>>>);

type MapRows = BTreeMap<Vec<u8>, Vec<u8>>;

impl MapEngine {
    /// Another engine with the same rows.
    pub(crate) fn copied(&self) -> Self {
        Self(Arc::new(RwLock::new(Arc::clone(&self.0.read().unwrap()))))
    }
}

impl Engine for MapEngine {
    fn snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, EngineError> {
        Ok(Box::new(MapSnapshot(Arc::clone(&self.0.read().unwrap()))))
    }

    fn commit(&self, writes: Writes) -> Result<(), EngineError> {
        let mut rows = self.0.write().unwrap();
        let rows = Arc::make_mut(&mut rows);
        for (key, value) in writes {
            match value {
                Some(value) => drop(rows.insert(key, value)),
                None => drop(rows.remove(&key)),
            }
        }
        Ok(())
    }
}

struct MapSnapshot(Arc<MapRows>);

impl Read for MapSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(
        &self,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Scanned,
    ) -> Result<(), EngineError> {
        if range.is_empty() {
            return Ok(());
        }
        let mut rows = self.0.range::<Vec<u8>, _>(&range.lower..&range.upper);
        loop {
            let row = match direction {
                Direction::Ascending => rows.next(),
                Direction::Descending => rows.next_back(),
            };
            match row {
                Some((key, value)) if visit(key, value).is_continue() => {}
                _ => return Ok(()),
            }
        }
    }
}

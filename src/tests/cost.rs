//! What a page costs: rows looked at grow with the page, not with the journal behind it. And what takes more than
//! one transaction, so that no page of the work is too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::world::{
    MASTER, MapEngine, NOW, TTL, admitted, base, case, concluded, in_case, note, outcome, run, suspended,
    tenant,
};
use crate::store::{Direction, Engine, EngineError, KeyRange, Read, Scanned, Writes};
use crate::{Journal, ManualClock};

/// An ordered map that counts the rows that readers come by.
#[derive(Clone, Default)]
struct Counting {
    rows: MapEngine,
    seen: Arc<AtomicUsize>,
}

struct CountingSnapshot(Box<dyn Read + Send + Sync>, Arc<AtomicUsize>);

impl Engine for Counting {
    fn snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, EngineError> {
        Ok(Box::new(CountingSnapshot(self.rows.snapshot()?, Arc::clone(&self.seen))))
    }

    fn commit(&self, writes: Writes) -> Result<(), EngineError> {
        self.rows.commit(writes)
    }
}

impl Read for CountingSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.get(key)
    }

    fn scan(
        &self,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Scanned,
    ) -> Result<(), EngineError> {
        self.0.scan(range, direction, &mut |key, value| {
            self.1.fetch_add(1, Ordering::Relaxed);
            visit(key, value)
        })
    }
}

/// Runs of each kind that a listing is about.
const RUNS: usize = 400;
/// Rows asked for.
const PAGE: usize = 3;
/// Rows looked at for each that is given, and for the page: its index row, its run's, its lease's or claim's.
const FOR_EACH: usize = 4;
const FOR_THE_PAGE: usize = 8;

#[test]
fn a_page_looks_at_no_more_rows_than_it_needs() {
    let engine = Counting::default();
    let clock = Arc::new(ManualClock::at(NOW));
    let journal = Journal::on_engine(engine.clone(), &base(), MASTER, clock.clone()).unwrap();
    let acme = journal.tenant(&tenant("acme"));
    let long = run("long");
    acme.append_once(&long, "w", (0..RUNS).map(|at| note(&at.to_string())).collect(), false).unwrap();
    for at in 0..RUNS {
        let named = |kind: &str| run(&format!("{kind}-{at:04}"));
        let drafts =
            vec![admitted(&format!("key-{at}"), "mail"), in_case("c", note("x")), concluded("failed")];
        acme.append_once(&named("done"), "w", drafts, false).unwrap();
        acme.append_once(&named("waits"), "w", vec![suspended("2026-01-01T00:00:00Z")], false).unwrap();
        acme.acquire(&named("left"), "w", TTL).unwrap();
    }
    clock.advance(TTL.as_millis().try_into().unwrap());
    clock.advance(1);
    let cost = |what: &str, rows: &dyn Fn() -> usize| {
        let before = engine.seen.load(Ordering::Relaxed);
        let given = rows();
        let seen = engine.seen.load(Ordering::Relaxed) - before;
        assert!(given > 0, "{what} gave nothing");
        assert!(seen <= FOR_EACH * given + FOR_THE_PAGE, "{what} looked at {seen} rows for {given}");
    };
    cost("read", &|| acme.read(&long, 200, PAGE).unwrap().len());
    cost("read_unverified", &|| acme.read_unverified(&long, 200, PAGE).unwrap().len());
    cost("runs", &|| acme.runs(Some(&run("left-0007")), PAGE).unwrap().len());
    cost("runs_by_outcome", &|| acme.runs_by_outcome(&outcome("failed"), PAGE).unwrap().len());
    cost("recent_runs", &|| acme.recent_runs(None, PAGE).unwrap().len());
    cost("recent_runs_from", &|| acme.recent_runs_from("mail", None, PAGE).unwrap().len());
    cost("waiting_runs", &|| acme.waiting_runs(PAGE).unwrap().len());
    cost("abandoned_runs", &|| acme.abandoned_runs(PAGE).unwrap().len());
    cost("case_records", &|| acme.case_records(&case("c"), None, PAGE).unwrap().len());
    cost("admitted_as", &|| usize::from(acme.admitted_as("key-7").unwrap().is_some()));
    // A count is kept, not counted.
    cost("count_by_outcome", &|| {
        assert_eq!(acme.count_by_outcome(&outcome("failed")).unwrap(), RUNS as u64);
        1
    });
}

#[test]
fn what_takes_several_transactions_is_done_whole() {
    let clock = Arc::new(ManualClock::at(NOW));
    let journal = Journal::in_memory(&base(), MASTER, clock).unwrap();
    let acme = journal.tenant(&tenant("acme"));
    // More than one transaction pins, and more than one forgets.
    let runs = 4_200;
    let acks: Vec<_> = (0..runs)
        .map(|at| {
            let name = run(&format!("r{at:04}"));
            let epoch = acme.acquire(&name, "w", TTL).unwrap().epoch;
            acme.append_queued(&name, epoch, vec![admitted(&format!("key-{at}"), "mail")])
        })
        .collect();
    for ack in acks {
        ack.wait().unwrap();
    }
    assert_eq!((acme.pin_heads().unwrap(), acme.tree_size().unwrap()), (runs, runs as u64));
    assert_eq!(acme.pin_heads().unwrap(), 0);
    assert_eq!(acme.forget_admissions(NOW + 1).unwrap(), runs as u64);
    assert_eq!(acme.forget_admissions(NOW + 1).unwrap(), 0);
    assert_eq!(acme.admitted_as("key-4199").unwrap(), None);
    assert!(acme.check(&mut |_| {}).unwrap().is_sound());
}

//! One pass over a tenant, its parts shared among as many threads as the machine has.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use super::account::{Account, RunRows, between};
use super::entries::entries;
use super::indexes::Part;
use super::ledger::{Ledger, Mode, Tallies, compare, join};
use super::records::Chains;
use super::rows::{Page, Rows};
use super::{CheckPart, Counts, Subject};
use crate::store::{KeyRange, Space, StoreError, Table};

/// Runs in a range. Small enough that the last thread does not work long alone.
const RUNS: usize = 4096;
/// Most threads. Beyond these the disk is what they wait for.
const THREADS_MAX: usize = 16;

/// What is done in one go. Their order is that in which contradictions are reported.
enum Task {
    Entries,
    /// The runs whose rows are in the page, named from `from` to below `to`.
    Runs {
        from: Vec<u8>,
        to: Option<Vec<u8>>,
        page: Page,
    },
    Part(Part),
}

/// What a task came to.
struct Done {
    at: u64,
    counts: Counts,
    expected: Tallies,
    found: Tallies,
    result: Result<(), StoreError>,
}

/// How far a part is.
pub(super) struct Tick {
    pub(super) part: CheckPart,
    /// What was seen since the last.
    pub(super) seen: Counts,
    pub(super) total: Option<u64>,
}

/// Parts come behind all runs, however many ranges these make.
const PARTS_FROM: u64 = 1 << 62;

/// Gives out the tasks, those first that take longest.
struct Tasks<'c> {
    of: Subject<'c>,
    given: usize,
    ranges: u64,
    /// Rows of runs that are in no range yet.
    rest: Option<KeyRange>,
    from: Vec<u8>,
}

impl Tasks<'_> {
    fn next(&mut self) -> Result<Option<(u64, Task)>, StoreError> {
        self.given += 1;
        if self.given == 1 {
            return Ok(Some((0, Task::Entries)));
        }
        if let Some(part) = Part::ALL.get(self.given - 2) {
            let number = PARTS_FROM + self.given as u64;
            return Ok(Some((number, Task::Part(*part))));
        }
        let Some(range) = self.rest.take() else { return Ok(None) };
        let space = Space::of(self.of.scope, Table::Runs);
        let page;
        (page, self.rest) = Page::read(self.of.rows, &space, range, RUNS)?;
        let to = self.rest.as_ref().map(|rest| space.own(&rest.lower).to_vec());
        let from = std::mem::replace(&mut self.from, to.clone().unwrap_or_default());
        self.ranges += 1;
        Ok(Some((self.ranges, Task::Runs { from, to, page })))
    }
}

/// Does every task; what was counted, and the first contradiction in their order.
pub(super) fn pass(
    of: Subject<'_>,
    mode: Mode<'_>,
    progress: &mut dyn FnMut(Tick),
) -> (Counts, Result<(), StoreError>) {
    let rest = Some(Space::of(of.scope, Table::Runs).all());
    let tasks = Mutex::new(Tasks { of, given: 0, ranges: 0, rest, from: Vec::new() });
    let failed = AtomicU64::new(u64::MAX);
    let all: Mutex<Vec<Done>> = Mutex::default();
    let work = |ticks: mpsc::Sender<Tick>| {
        loop {
            let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
            let done = match next {
                Ok(None) => return,
                // What comes behind a contradiction is not looked at.
                Ok(Some((at, _))) if at > failed.load(Ordering::Relaxed) => continue,
                Ok(Some((at, task))) => task.done(at, of, mode, &ticks),
                Err(error) => Done::failed(error),
            };
            if done.result.is_err() {
                failed.fetch_min(done.at, Ordering::Relaxed);
            }
            all.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let (sender, ticks) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads {
            let (work, sender) = (&work, sender.clone());
            scope.spawn(move || work(sender));
        }
        drop(sender);
        ticks.into_iter().for_each(progress);
    });
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_by_key(|done| done.at);
    let mut counts = Counts::default();
    let (mut expected, mut found) = <(Tallies, Tallies)>::default();
    for done in all {
        counts.add(&done.counts);
        join(&mut expected, &done.expected);
        join(&mut found, &done.found);
        if let Err(error) = done.result {
            return (counts, Err(error));
        }
    }
    (counts, compare(of.scope, &expected, &found))
}

impl Task {
    fn done(self, at: u64, of: Subject<'_>, mode: Mode<'_>, ticks: &mpsc::Sender<Tick>) -> Done {
        let tick = |part, seen, total| {
            // Nobody listens any more where the whole check has ended.
            let _ = ticks.send(Tick { part, seen, total });
        };
        let mut ledger = Ledger::new(of.rows, of.scope, mode);
        let mut counts = Counts::default();
        let result = match self {
            Self::Entries => entries(of, &mut ledger, &mut counts, &|seen, size| {
                tick(CheckPart::Entries, seen, Some(size));
            }),
            Self::Part(part) => {
                let result = part.check(of, &mut ledger, &mut counts);
                tick(CheckPart::Indexes, Counts::default(), Some(Part::ALL.len() as u64));
                result
            }
            Self::Runs { from, to, page } => {
                let tick = |seen| tick(CheckPart::Records, seen, None);
                let chains = Chains { rows: of.rows, tenant: of.tenant, scope: of.scope, signer: of.signer };
                let runs = Rows::of_page(of.rows, Space::of(of.scope, Table::Runs), page);
                let range = (from.as_slice(), to.as_deref());
                let mut account = Account::new(chains, ledger, RunRows::Stored(runs), range, &tick);
                let records = between(of.scope, Table::Records, range.0, range.1);
                let walked = chains.walk(&records, &mut account).and_then(|()| account.finish());
                (ledger, counts) = (account.ledger, account.counts);
                walked
            }
        };
        let Ledger { expected, found, .. } = ledger;
        Done { at, counts, expected, found, result }
    }
}

impl Done {
    fn failed(error: StoreError) -> Self {
        let (expected, found) = Default::default();
        Self { at: 0, counts: Counts::default(), expected, found, result: Err(error) }
    }
}

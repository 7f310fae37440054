//! The journal against a plain model of it, over random interleavings of every verb by several owners and
//! tenants while the clock jumps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use runseal_evidence::name::Outcome;
use runseal_evidence::record::RecordDraft;

use super::world::{NOW, World, admitted, concluded, draft, note, outcome, run, started, suspended, tenant};
use crate::{AppendError, AsWritten, LeaseError, RestoredRecord, SealError, Tenant};

const TENANTS: [&str; 2] = ["acme", "globex"];
const RUNS: [&str; 3] = ["a", "b", "c"];
const OWNERS: [&str; 2] = ["ann", "bob"];
const OUTCOMES: [&str; 2] = ["succeeded", "failed"];
const KEYS: [&str; 2] = ["k1", "k2"];

/// What happens next. Small numbers choose among the names above.
#[derive(Debug, Clone)]
enum Verb {
    Acquire { run: usize, owner: usize, seconds: u64 },
    Renew { run: usize, owner: usize, epoch: Epoch, seconds: u64 },
    Release { run: usize, epoch: Epoch },
    Append { run: usize, epoch: Epoch, batch: Vec<What> },
    Seal { run: usize, epoch: Epoch },
    AppendOnce { run: usize, owner: usize, batch: Vec<What>, seal: bool },
    SealOnce { run: usize, owner: usize },
    Import { run: usize, batch: Vec<What>, seal: bool },
    Pin,
    Cancel { run: usize },
    Forget { age: i64 },
    Checkpoint,
    Jump { ms: i64 },
    Reopen,
}

/// An epoch by its relation to the current one.
#[derive(Debug, Clone, Copy)]
enum Epoch {
    Current,
    Older,
    Newer,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Note,
    Start(u8),
    Admit(usize),
    Suspend(u8),
    Conclude(usize),
    TooLarge,
}

impl What {
    fn draft(self) -> RecordDraft {
        match self {
            Self::Note => note("x"),
            Self::Start(effect) => started(effect),
            Self::Admit(key) => admitted(KEYS[key], "mail"),
            Self::Suspend(day) => suspended(&format!("2027-01-{:02}T00:00:00Z", day + 1)),
            Self::Conclude(outcome) => concluded(OUTCOMES[outcome]),
            Self::TooLarge => draft("Note", &format!("\"{}\"", "x".repeat(1 << 20))),
        }
    }
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        4 => Just(What::Note),
        3 => (0..3u8).prop_map(What::Start),
        2 => (0..KEYS.len()).prop_map(What::Admit),
        2 => (0..3u8).prop_map(What::Suspend),
        3 => (0..OUTCOMES.len()).prop_map(What::Conclude),
        1 => Just(What::TooLarge),
    ]
}

fn epoch() -> impl Strategy<Value = Epoch> {
    prop_oneof![6 => Just(Epoch::Current), 1 => Just(Epoch::Older), 1 => Just(Epoch::Newer)]
}

fn verb() -> impl Strategy<Value = (usize, Verb)> {
    let (run, owner) = (0..RUNS.len(), 0..OWNERS.len());
    let batch = || prop::collection::vec(what(), 0..4);
    let verb = prop_oneof![
        6 => (run.clone(), owner.clone(), 0..60u64).prop_map(|(run, owner, seconds)| Verb::Acquire { run, owner, seconds }),
        2 => (run.clone(), owner.clone(), epoch(), 0..60u64)
            .prop_map(|(run, owner, epoch, seconds)| Verb::Renew { run, owner, epoch, seconds }),
        2 => (run.clone(), epoch()).prop_map(|(run, epoch)| Verb::Release { run, epoch }),
        10 => (run.clone(), epoch(), batch()).prop_map(|(run, epoch, batch)| Verb::Append { run, epoch, batch }),
        3 => (run.clone(), epoch()).prop_map(|(run, epoch)| Verb::Seal { run, epoch }),
        3 => (run.clone(), owner.clone(), batch(), any::<bool>())
            .prop_map(|(run, owner, batch, seal)| Verb::AppendOnce { run, owner, batch, seal }),
        2 => (run.clone(), owner).prop_map(|(run, owner)| Verb::SealOnce { run, owner }),
        2 => (run.clone(), batch(), any::<bool>())
            .prop_map(|(run, batch, seal)| Verb::Import { run, batch, seal }),
        1 => Just(Verb::Pin),
        1 => run.prop_map(|run| Verb::Cancel { run }),
        1 => (0..50_000i64).prop_map(|age| Verb::Forget { age }),
        1 => Just(Verb::Checkpoint),
        4 => (-40_000..80_000i64).prop_map(|ms| Verb::Jump { ms }),
        1 => Just(Verb::Reopen),
    ];
    (0..TENANTS.len(), verb)
}

/// A tenant's runs as the promises have them.
#[derive(Debug, Default)]
struct Model {
    runs: BTreeMap<usize, ModelRun>,
    admissions: BTreeMap<usize, (usize, i64)>,
    conclusions: u64,
    log: Vec<(usize, Option<usize>, u64)>,
}

#[derive(Debug, Default, Clone)]
struct ModelRun {
    /// The epoch of each record.
    records: Vec<u64>,
    updated_ms: i64,
    effects: BTreeSet<u8>,
    /// By which key, and when.
    admitted: Option<(usize, i64)>,
    conclusion: Option<(usize, u64)>,
    concluded: bool,
    waiting: Option<u8>,
    pinned: u64,
    seal: Option<u64>,
    lease: Option<ModelLease>,
    cancelled: bool,
}

#[derive(Debug, Clone)]
struct ModelLease {
    owner: Option<usize>,
    epoch: u64,
    expires_ms: i64,
}

/// Why the model refuses.
#[derive(Debug, PartialEq, Eq)]
enum No {
    Held,
    NotHeld,
    Ttl,
    Sealed,
    Fenced,
    Effect,
    Admission,
    AdmittedBefore,
    TooLarge,
    NotConcluded,
    Unknown,
    Exists,
}

impl Model {
    fn run(&mut self, run: usize) -> &mut ModelRun {
        self.runs.entry(run).or_default()
    }

    fn epoch(&mut self, run: usize, epoch: Epoch) -> u64 {
        let current = self.run(run).lease.as_ref().map_or(0, |lease| lease.epoch);
        match epoch {
            Epoch::Current => current,
            Epoch::Older => current.saturating_sub(1),
            Epoch::Newer => current + 1,
        }
    }

    fn acquire(&mut self, run: usize, owner: usize, seconds: u64, now: i64) -> Result<u64, No> {
        let state = self.run(run);
        if seconds < 1 {
            return Err(No::Ttl);
        }
        if state.seal.is_some() {
            return Err(No::Sealed);
        }
        if state.lease.as_ref().is_some_and(|lease| lease.owner.is_some() && lease.expires_ms > now) {
            return Err(No::Held);
        }
        let epoch = 1 + state.lease.as_ref().map_or(0, |lease| lease.epoch);
        let expires_ms = now + i64::try_from(seconds).unwrap() * 1000;
        state.lease = Some(ModelLease { owner: Some(owner), epoch, expires_ms });
        Ok(epoch)
    }

    fn renew(&mut self, run: usize, owner: usize, epoch: u64, seconds: u64, now: i64) -> Result<(), No> {
        if seconds < 1 {
            return Err(No::Ttl);
        }
        match &mut self.run(run).lease {
            Some(lease) if lease.owner == Some(owner) && lease.epoch == epoch && lease.expires_ms > now => {
                lease.expires_ms = now + i64::try_from(seconds).unwrap() * 1000;
                Ok(())
            }
            _ => Err(No::NotHeld),
        }
    }

    fn release(&mut self, run: usize, epoch: u64) {
        if let Some(lease) = self.run(run).lease.as_mut().filter(|lease| lease.epoch == epoch) {
            lease.owner = None;
        }
    }

    fn fence(&mut self, run: usize, epoch: u64) -> Result<(), No> {
        let state = self.run(run);
        match &state.lease {
            Some(lease) if lease.epoch != epoch => Err(No::Fenced),
            Some(lease) if lease.owner.is_some() || state.seal.is_some() => Ok(()),
            _ => Err(No::NotHeld),
        }
    }

    fn append(&mut self, run: usize, epoch: u64, batch: &[What], now: i64) -> Result<u64, No> {
        if batch.is_empty() {
            return Ok(self.run(run).records.len() as u64);
        }
        self.fence(run, epoch)?;
        if self.run(run).seal.is_some() {
            return Err(No::Sealed);
        }
        let mut after = self.run(run).clone();
        let (mut admissions, mut concluded) = (self.admissions.clone(), None);
        for what in batch {
            after.waiting = None;
            after.concluded = false;
            match *what {
                What::Note => {}
                What::TooLarge => return Err(No::TooLarge),
                What::Start(effect) => {
                    if !after.effects.insert(effect) {
                        return Err(No::Effect);
                    }
                }
                What::Admit(key) => {
                    if admissions.contains_key(&key) {
                        return Err(No::Admission);
                    }
                    if after.admitted.replace((key, now)).is_some() {
                        return Err(No::AdmittedBefore);
                    }
                    admissions.insert(key, (run, now));
                }
                What::Suspend(day) => after.waiting = Some(day),
                What::Conclude(outcome) => {
                    after.concluded = true;
                    concluded = Some(outcome);
                }
            }
            after.records.push(epoch);
        }
        after.updated_ms = now;
        if let Some(outcome) = concluded {
            after.conclusion = Some((outcome, self.conclusions));
            self.conclusions += 1;
        }
        self.admissions = admissions;
        let records = after.records.len() as u64;
        *self.run(run) = after;
        Ok(records)
    }

    fn seal(&mut self, run: usize, epoch: u64) -> Result<u64, No> {
        if self.run(run).records.is_empty() {
            return Err(No::Unknown);
        }
        self.fence(run, epoch)?;
        if let Some(index) = self.run(run).seal {
            return Ok(index);
        }
        if !self.run(run).concluded {
            return Err(No::NotConcluded);
        }
        Ok(self.enter(run))
    }

    /// Puts a run's seal into the log.
    fn enter(&mut self, run: usize) -> u64 {
        let index = self.log.len() as u64;
        let state = self.run(run);
        let records = state.records.len() as u64;
        state.seal = Some(index);
        state.pinned = records;
        if let Some(lease) = &mut state.lease {
            lease.owner = None;
        }
        let outcome = state.conclusion.map(|(outcome, _)| outcome);
        self.log.push((run, outcome, records));
        index
    }

    fn append_once(
        &mut self,
        run: usize,
        owner: usize,
        batch: &[What],
        seal: bool,
        now: i64,
    ) -> Result<(), No> {
        let (runs, admissions, conclusions) = (self.runs.clone(), self.admissions.clone(), self.conclusions);
        let result = self.acquire(run, owner, 60, now).and_then(|epoch| {
            self.append(run, epoch, batch, now)?;
            if seal {
                self.seal(run, epoch)?;
            }
            self.release(run, epoch);
            Ok(())
        });
        if result.is_err() {
            (self.runs, self.admissions, self.conclusions) = (runs, admissions, conclusions);
        }
        result
    }

    fn seal_once(&mut self, run: usize, owner: usize, now: i64) -> Result<u64, No> {
        if self.run(run).records.is_empty() {
            return Err(No::Unknown);
        }
        if let Some(index) = self.run(run).seal {
            return Ok(index);
        }
        let before = self.run(run).clone();
        let result = self.acquire(run, owner, 60, now).and_then(|epoch| self.seal(run, epoch));
        if result.is_err() {
            *self.run(run) = before;
        }
        result
    }

    fn import(&mut self, run: usize, batch: &[What], seal: bool, now: i64) -> Result<(), No> {
        if !self.run(run).records.is_empty() {
            return Err(No::Exists);
        }
        // Whoever imports is none of the owners.
        self.append_once(run, OWNERS.len(), batch, seal, now)
    }

    /// A run of another model, brought back with what follows from its records and nothing else.
    fn restore(&mut self, run: usize, of: &ModelRun) {
        let lease =
            of.records.iter().max().map(|epoch| ModelLease { owner: None, epoch: *epoch, expires_ms: 0 });
        let mut restored = ModelRun { pinned: 0, seal: None, cancelled: false, lease, ..of.clone() };
        if let Some((_, order)) = &mut restored.conclusion {
            *order = self.conclusions;
            self.conclusions += 1;
        }
        if let Some((key, at)) = of.admitted {
            let held = self.admissions.entry(key).or_insert((run, at));
            // The last admission holds the key; of those at one time, that of the run called last.
            if (held.1, held.0) < (at, run) {
                *held = (run, at);
            }
        }
        self.runs.insert(run, restored);
        if of.seal.is_some() {
            self.enter(run);
        }
    }

    fn pin(&mut self) -> usize {
        let mut pinned = 0;
        for (run, state) in &mut self.runs {
            let records = state.records.len() as u64;
            if state.seal.is_none() && state.pinned < records {
                state.pinned = records;
                self.log.push((*run, None, records));
                pinned += 1;
            }
        }
        pinned
    }
}

fn of_lease(error: &LeaseError) -> No {
    match error {
        LeaseError::LeaseHeld { .. } => No::Held,
        LeaseError::LeaseNotHeld { .. } => No::NotHeld,
        LeaseError::Ttl { .. } => No::Ttl,
        LeaseError::RunSealed { .. } => No::Sealed,
        other => panic!("{other}"),
    }
}

fn of_append(error: &AppendError) -> No {
    match error {
        AppendError::Fenced { .. } => No::Fenced,
        AppendError::LeaseNotHeld { .. } => No::NotHeld,
        AppendError::RunSealed { .. } => No::Sealed,
        AppendError::RunExists { .. } => No::Exists,
        AppendError::DuplicateEffect { .. } => No::Effect,
        AppendError::DuplicateAdmission { .. } => No::Admission,
        AppendError::AdmittedBefore { .. } => No::AdmittedBefore,
        AppendError::RecordTooLarge { .. } => No::TooLarge,
        AppendError::Lease(error) => of_lease(error),
        AppendError::Seal(error) => of_seal(error),
        other => panic!("{other}"),
    }
}

fn of_seal(error: &SealError) -> No {
    match error {
        SealError::Fenced { .. } => No::Fenced,
        SealError::LeaseNotHeld { .. } => No::NotHeld,
        SealError::NotConcluded { .. } => No::NotConcluded,
        SealError::UnknownRun { .. } => No::Unknown,
        SealError::Lease(error) => of_lease(error),
        other => panic!("{other}"),
    }
}

/// Does one thing to both, and holds the answers against each other.
fn step(world: &World, log: &Tenant, model: &mut Model, now: &mut i64, verb: &Verb) {
    match verb {
        Verb::Acquire { run: r, owner, seconds } => {
            let ttl = Duration::from_secs(*seconds);
            let done = log.acquire(&run(RUNS[*r]), OWNERS[*owner], ttl).map(|lease| lease.epoch);
            assert_eq!(done.map_err(|error| of_lease(&error)), model.acquire(*r, *owner, *seconds, *now));
        }
        Verb::Renew { run: r, owner, epoch, seconds } => {
            let epoch = model.epoch(*r, *epoch);
            let ttl = Duration::from_secs(*seconds);
            let done = log.renew(&run(RUNS[*r]), OWNERS[*owner], epoch, ttl).map(drop);
            assert_eq!(
                done.map_err(|error| of_lease(&error)),
                model.renew(*r, *owner, epoch, *seconds, *now)
            );
        }
        Verb::Release { run: r, epoch } => {
            let epoch = model.epoch(*r, *epoch);
            log.release(&run(RUNS[*r]), epoch).unwrap();
            model.release(*r, epoch);
        }
        Verb::Append { run: r, epoch, batch } => {
            let epoch = model.epoch(*r, *epoch);
            let drafts = batch.iter().map(|what| what.draft()).collect();
            let before = model.run(*r).records.len() as u64;
            let done = if batch.len().is_multiple_of(2) {
                log.append(&run(RUNS[*r]), epoch, drafts)
            } else {
                log.append_queued(&run(RUNS[*r]), epoch, drafts).wait()
            };
            let done = done.map(|appended| appended.last().map_or(before, |last| last.seq));
            assert_eq!(done.map_err(|error| of_append(&error)), model.append(*r, epoch, batch, *now));
        }
        Verb::Seal { run: r, epoch } => {
            let epoch = model.epoch(*r, *epoch);
            let done = if epoch.is_multiple_of(2) {
                log.seal(&run(RUNS[*r]), epoch)
            } else {
                log.seal_queued(&run(RUNS[*r]), epoch).wait()
            };
            let done = done.map(|sealed| sealed.index);
            assert_eq!(done.map_err(|error| of_seal(&error)), model.seal(*r, epoch));
        }
        Verb::AppendOnce { run: r, owner, batch, seal } => {
            let drafts = batch.iter().map(|what| what.draft()).collect();
            let done = log.append_once(&run(RUNS[*r]), OWNERS[*owner], drafts, *seal).map(drop);
            assert_eq!(
                done.map_err(|error| of_append(&error)),
                model.append_once(*r, *owner, batch, *seal, *now)
            );
        }
        Verb::SealOnce { run: r, owner } => {
            let done = log.seal_once(&run(RUNS[*r]), OWNERS[*owner]).map(|sealed| sealed.index);
            assert_eq!(done.map_err(|error| of_seal(&error)), model.seal_once(*r, *owner, *now));
        }
        Verb::Import { run: r, batch, seal } => {
            let drafts = batch.iter().map(|what| what.draft()).collect();
            let done = log.import(&run(RUNS[*r]), drafts, *seal).map(drop);
            assert_eq!(done.map_err(|error| of_append(&error)), model.import(*r, batch, *seal, *now));
        }
        Verb::Pin => assert_eq!(log.pin_heads().unwrap(), model.pin()),
        Verb::Cancel { run: r } => {
            let state = model.run(*r);
            let open = !state.records.is_empty() && state.seal.is_none();
            let noted = log.request_cancel(&run(RUNS[*r]), "ann", "test", "stop");
            assert_eq!(noted.ok(), open.then(|| !std::mem::replace(&mut state.cancelled, true)));
        }
        Verb::Forget { age } => {
            let cutoff = *now - age;
            let before = model.admissions.len();
            model.admissions.retain(|_, (_, at)| *at >= cutoff);
            assert_eq!(log.forget_admissions(cutoff).unwrap(), (before - model.admissions.len()) as u64);
        }
        Verb::Checkpoint => {
            let note = log.sign_checkpoint().unwrap();
            log.publish(&note).unwrap();
        }
        Verb::Jump { ms } => {
            *now += ms;
            world.clock.set(*now);
        }
        Verb::Reopen => {}
    }
}

/// Everything that can be asked is as the model has it.
fn compare(log: &Tenant, model: &Model, now: i64) {
    let written: Vec<_> = model.runs.iter().filter(|(_, state)| !state.records.is_empty()).collect();
    let listed = log.runs(None, 99).unwrap();
    let expected: Vec<_> = written
        .iter()
        .map(|(run, state)| {
            let outcome = state.conclusion.map(|(outcome, _)| OUTCOMES[outcome]);
            (RUNS[**run].to_owned(), state.records.len() as u64, outcome, state.seal, state.updated_ms)
        })
        .collect();
    let found: Vec<_> = listed
        .iter()
        .map(|s| {
            (s.run.to_string(), s.records, s.outcome.as_ref().map(Outcome::as_str), s.index, s.updated_ms)
        })
        .collect();
    assert_eq!(found, expected);
    for (run_number, state) in &written {
        let name = run(RUNS[**run_number]);
        let records = log.read_lifted(&name, 1, 999, &AsWritten).unwrap();
        let epochs: Vec<u64> = records.iter().map(|read| read.record.stamp.epoch).collect();
        assert_eq!(epochs, state.records);
        assert_eq!(log.cancellation(&name).unwrap().is_some(), state.cancelled);
    }
    for (number, name) in OUTCOMES.iter().enumerate() {
        let mut expected: Vec<_> = written
            .iter()
            .filter_map(|(run, state)| {
                state.conclusion.filter(|(o, _)| *o == number).map(|(_, at)| (at, RUNS[**run].to_owned()))
            })
            .collect();
        expected.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let found = log.runs_by_outcome(&outcome(name), 99).unwrap();
        let found: Vec<_> = found.iter().map(|summary| summary.run.to_string()).collect();
        assert_eq!(found, expected.into_iter().map(|(_, run)| run).collect::<Vec<_>>());
        assert_eq!(log.count_by_outcome(&outcome(name)).unwrap(), found.len() as u64);
    }
    let mut expected: Vec<_> = written
        .iter()
        .filter_map(|(run, state)| state.waiting.map(|day| (day, RUNS[**run].to_owned())))
        .collect();
    expected.sort();
    let found = log.waiting_runs(99).unwrap();
    let found: Vec<_> = found.iter().map(|waiting| waiting.run.to_string()).collect();
    assert_eq!(found, expected.into_iter().map(|(_, run)| run).collect::<Vec<_>>());
    let mut expected: Vec<_> =
        written.iter().map(|(run, state)| (state.updated_ms, RUNS[**run].to_owned())).collect();
    expected.sort();
    expected.reverse();
    let found = log.recent_runs(None, 99).unwrap();
    assert_eq!(
        found.into_iter().map(|item| (item.updated_ms, item.run.to_string())).collect::<Vec<_>>(),
        expected
    );
    let mut expected: Vec<_> = model
        .runs
        .iter()
        .filter_map(|(run, state)| state.lease.as_ref().map(|lease| (run, lease)))
        .filter(|(_, lease)| lease.owner.is_some() && lease.expires_ms <= now)
        .map(|(run, lease)| (lease.expires_ms, RUNS[*run].to_owned(), lease.epoch))
        .collect();
    expected.sort();
    let found = log.abandoned_runs(99).unwrap();
    let found: Vec<_> =
        found.into_iter().map(|run| (run.expired_at_ms, run.run.to_string(), run.epoch)).collect();
    assert_eq!(found, expected);
    for (number, key) in KEYS.iter().enumerate() {
        let found = log.admitted_as(key).unwrap().map(|held| (held.run.to_string(), held.admitted_ms));
        let expected = model.admissions.get(&number).map(|(run, at)| (RUNS[*run].to_owned(), *at));
        assert_eq!(found, expected);
    }
    assert_eq!(log.tree_size().unwrap(), model.log.len() as u64);
    for (index, (run, outcome, records)) in (0..).zip(&model.log) {
        let entry = String::from_utf8(log.entry(index).unwrap().unwrap()).unwrap();
        let kind = if outcome.is_some() { "seal" } else { "head" };
        assert!(entry.contains(&format!("\"kind\":\"{kind}\"")), "{entry}");
        assert!(entry.contains(&format!("\"records\":{records},\"run\":\"{}\"", RUNS[*run])), "{entry}");
    }
    assert_eq!(log.check(&mut |_| {}).unwrap().contradiction, None);
}

/// Every run restored in another journal, the last one first: what follows from the records is as it was.
fn restored_like_its_model(log: &Tenant, model: &Model, now: i64) {
    let world = World::in_memory();
    world.clock.set(now);
    let elsewhere = world.journal.tenant(log.id());
    let mut expected = Model::default();
    for (number, state) in model.runs.iter().rev().filter(|(_, state)| !state.records.is_empty()) {
        let name = run(RUNS[*number]);
        let records: Vec<_> = log.read(&name, 1, 999).unwrap();
        let restored = records
            .iter()
            .map(|record| RestoredRecord { raw: record.raw.clone(), signature: record.signature });
        let restored = elsewhere.restore(&name, restored.collect(), state.seal.is_some()).unwrap();
        expected.restore(*number, state);
        assert_eq!(restored.index, expected.run(*number).seal);
        assert_eq!(elsewhere.read(&name, 1, 999).unwrap(), records, "byte for byte");
    }
    compare(&elsewhere, &expected, now);
    for (number, state) in &expected.runs.clone() {
        let epoch = expected.acquire(*number, 0, 60, now);
        let lease = elsewhere.acquire(&run(RUNS[*number]), OWNERS[0], Duration::from_mins(1));
        assert_eq!(lease.map(|lease| lease.epoch).map_err(|error| of_lease(&error)), epoch);
        assert!(epoch.is_err() || epoch.as_ref().ok() > state.records.iter().max());
    }
}

fn runs_like_its_model(world: World, verbs: Vec<(usize, Verb)>) {
    let mut world = world;
    let mut models = [Model::default(), Model::default()];
    let mut now = NOW;
    for (of, verb) in verbs {
        if matches!(verb, Verb::Reopen) {
            world = world.reopened();
        }
        let log = world.journal.tenant(&tenant(TENANTS[of]));
        step(&world, &log, &mut models[of], &mut now, &verb);
    }
    for (name, model) in TENANTS.iter().zip(&models) {
        let log = world.journal.tenant(&tenant(name));
        compare(&log, model, now);
        restored_like_its_model(&log, model, now);
    }
    assert_eq!(world.journal.check_directory(&mut |_| {}).unwrap().contradiction, None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_interleaving_runs_like_the_model_in_memory(verbs in prop::collection::vec(verb(), 1..80)) {
        runs_like_its_model(World::in_memory(), verbs);
    }

    #[test]
    fn every_interleaving_runs_like_the_model_on_a_map(verbs in prop::collection::vec(verb(), 1..80)) {
        runs_like_its_model(World::on_a_map(), verbs);
    }

    #[test]
    fn every_interleaving_runs_like_the_model_behind_a_log_with_crashes(verbs in prop::collection::vec(verb(), 1..80)) {
        runs_like_its_model(World::logged(), verbs);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_interleaving_runs_like_the_model_on_disk_with_restarts(verbs in prop::collection::vec(verb(), 1..80)) {
        runs_like_its_model(World::on_disk(), verbs);
    }
}

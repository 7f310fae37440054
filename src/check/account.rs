//! What runs account for: their rows, and the rows that put each of them on a list, in a case or under an outcome.

use runseal_evidence::chain::ChainHash;
use runseal_evidence::entry::{Entry, Recognised, Seal};
use runseal_evidence::json::Json;
use runseal_evidence::name::{Outcome, RunId, TenantId};
use runseal_evidence::payload::Meaning;

use super::facts::Facts;
use super::ledger::{Derived, Ledger, Mode};
use super::records::{Chains, Sound, Visitor};
use super::rows::Rows;
use super::{Counts, PROGRESS_ROWS, admissions};
use crate::chain::{LeaseRow, RunRow, decode_run, stored_run};
use crate::index::{Admission, activity, case, outcome, waiting};
use crate::store::key::time_key;
use crate::store::{Corruption, Fault, KeyRange, Read, Scope, Space, StoreError, Table};

/// Follows a walk over records with the tables that are ordered by run, side by side.
pub(super) struct Account<'c, 't> {
    rows: &'c dyn Read,
    tenant: &'c TenantId,
    scope: &'c Scope,
    pub(super) ledger: Ledger<'c>,
    pub(super) counts: Counts,
    runs: RunRows<'c>,
    leases: Rows<'c>,
    heads: Rows<'c>,
    log: LogSide,
    tick: &'t dyn Fn(Counts),
    ticked: Counts,
}

/// Where the rows of runs come from.
pub(super) enum RunRows<'c> {
    /// They are there, to be held against the records.
    Stored(Rows<'c>),
    /// They are made from the records. Runs that have concluded take these places in the outcome index.
    Made(&'c mut std::vec::IntoIter<u64>),
}

/// What the log says of the run at hand.
#[derive(Default)]
struct LogSide {
    /// The next head, whose record has not been seen yet.
    pin: Option<Pin>,
    /// Records pinned by the heads seen so far.
    pinned: u64,
    /// The index of the last head.
    last_head: Option<u64>,
    /// The seal, where the log is read for it.
    seal: Option<(u64, Seal)>,
}

struct Pin {
    records: u64,
    chain: ChainHash,
}

impl<'c, 't> Account<'c, 't> {
    /// Of the runs whose names are from `from` to below `to`. `tick` is told now and then of what was seen since.
    pub(super) fn new(
        of: Chains<'c>,
        ledger: Ledger<'c>,
        runs: RunRows<'c>,
        (from, to): (&[u8], Option<&[u8]>),
        tick: &'t dyn Fn(Counts),
    ) -> Self {
        let Chains { rows, tenant, scope, .. } = of;
        let table = |table| Rows::new(rows, Space::of(scope, table), between(scope, table, from, to));
        Self {
            rows,
            tenant,
            scope,
            ledger,
            counts: Counts::default(),
            runs,
            leases: table(Table::Leases),
            heads: table(Table::Heads),
            log: LogSide::default(),
            tick,
            ticked: Counts::default(),
        }
    }

    /// After the last run of the range: nothing may be left over.
    pub(super) fn finish(&mut self) -> Result<(), StoreError> {
        self.leases_until(None)?;
        if let Some((key, _)) = self.heads.peek()? {
            return Err(stray_head(self.scope, key));
        }
        if let RunRows::Stored(rows) = &mut self.runs {
            if let Some((key, _)) = rows.peek()? {
                let run = stored_run(self.scope, "run row", key)?;
                return Err(without_records(self.scope, &run));
            }
            self.counts.held += rows.held;
        }
        self.counts.held += self.leases.held + self.heads.held;
        self.tell();
        Ok(())
    }

    fn tell(&mut self) {
        (self.tick)(self.counts.since(&self.ticked));
        self.ticked = self.counts;
    }

    /// The row of a run all of whose records have been seen.
    fn row(&mut self, facts: &Facts) -> Result<RunRow, StoreError> {
        match &mut self.runs {
            RunRows::Stored(rows) => {
                let missing =
                    || Corruption::in_scope(self.scope, "run row", Fault::Missing).of_run(&facts.run);
                let (key, value) = rows.peek()?.ok_or_else(missing)?;
                if key != facts.run.as_str().as_bytes() {
                    let run = stored_run(self.scope, "run row", key)?;
                    let earlier = run < facts.run;
                    return Err(if earlier { without_records(self.scope, &run) } else { missing().into() });
                }
                let row = decode_run(self.scope, facts.run.as_str(), value)?;
                rows.pass();
                facts.compare(self.scope, &row)?;
                Ok(row)
            }
            RunRows::Made(ordinals) => {
                let ordinal = || ordinals.next().expect("as many as runs that have concluded were counted");
                let seal = self.log.seal.as_ref();
                let pinned = if seal.is_some() { facts.records } else { self.log.pinned };
                let row = facts.row(pinned, seal.map(|(index, _)| *index), ordinal);
                if let Some((index, seal)) = seal {
                    let stored = (row.records, row.chain, row.sealed_as().filter(|_| row.concluded));
                    let logged = (seal.records.get(), seal.chain, Some(&seal.outcome));
                    if stored != logged {
                        return Err(differs(self.scope, &facts.run, "the seal", stored, logged));
                    }
                    let name = facts.run.as_str().as_bytes();
                    let filed = Space::of(self.scope, Table::Heads).key(&[name, &[0], &index.to_be_bytes()]);
                    self.ledger.writes.insert(filed, None);
                }
                let key = Space::of(self.scope, Table::Runs).key(&[facts.run.as_str().as_bytes()]);
                self.ledger.writes.insert(key, Some(row.encode()));
                Ok(row)
            }
        }
    }

    /// The rows that one record alone gives rise to.
    fn derived_from(&mut self, run: &RunId, sound: &Sound<'_>) -> Result<(), StoreError> {
        let Sound { seq, record, meaning, .. } = sound;
        let name = run.as_str().as_bytes();
        if let (Meaning::EffectStarted, Some(effect)) = (meaning, record.effect()) {
            let key = [name, &[0], effect.as_bytes()];
            self.ledger.expect(Derived::Effects, &key, &seq.to_be_bytes(), run)?;
        }
        if let Some(case) = record.case() {
            let ledger = &mut self.ledger;
            case::with_key(case, run, *seq, |key| ledger.expect(Derived::Cases, key, &[], run))?;
        }
        if let Meaning::RunAdmitted(admitted) = meaning
            && let Some(key) = &admitted.admission_key
        {
            let this = Admission { run: run.clone(), admitted_ms: record.at().posix_ms() };
            admissions::admitted(&mut self.ledger, key, &this)?;
        }
        Ok(())
    }

    /// The rows that a run as a whole gives rise to.
    fn places(&mut self, run: &RunId, row: &RunRow, reason: Option<&Json>) -> Result<(), StoreError> {
        let (ledger, name) = (&mut self.ledger, run.as_str().as_bytes());
        activity::with_key(None, row.updated_ms, run, |key| ledger.expect(Derived::Activity, key, &[], run))?;
        if let Some(source) = &row.source {
            activity::with_key(Some(source), row.updated_ms, run, |key| {
                ledger.expect(Derived::Sources, key, &[], run)
            })?;
        }
        if let Some(conclusion) = &row.conclusion {
            outcome::with_key(conclusion, |key| ledger.expect(Derived::Outcomes, key, name, run))?;
        }
        if let Some(wait) = row.waiting {
            let reason = reason.map_or("", Json::as_str).as_bytes();
            waiting::with_key(wait, run, |key| ledger.expect(Derived::Waiting, key, reason, run))?;
        }
        if row.is_unpinned() {
            ledger.expect(Derived::Unpinned, &[name], &[], run)?;
        }
        if let (Some(index), Some(outcome)) = (row.seal, row.sealed_as()) {
            with_seal((index, row.records, row.chain), run, outcome, |key| {
                ledger.found(Derived::Seals, key, &[]);
            });
        }
        Ok(())
    }

    /// A run is pinned as far as its last entry says.
    fn pins(&self, run: &RunId, row: &RunRow) -> Result<(), StoreError> {
        let LogSide { pin, pinned, last_head, .. } = &self.log;
        if let Some(pin) = pin {
            // A head of more records than there are, or of fewer than a head before it.
            return Err(differs(self.scope, run, "the pinned head", row.records.max(*pinned), pin.records));
        }
        if let (Some(seal), Some(head)) = (row.seal, last_head)
            && seal < *head
        {
            return Err(differs(self.scope, run, "the index of the seal", seal, *head));
        }
        let pinned = if row.seal.is_some() { row.records } else { *pinned };
        if row.pinned == pinned {
            Ok(())
        } else {
            Err(differs(self.scope, run, "what is pinned", row.pinned, pinned))
        }
    }

    /// Takes up the next head that is filed for `run`.
    fn next_pin(&mut self, run: &RunId) -> Result<(), StoreError> {
        self.log.pin = None;
        while let Some((key, value)) = self.heads.peek()? {
            let (name, index) = key.split_last_chunk::<8>().unwrap_or((key, &[0; 8]));
            let name = name.strip_suffix(&[0]).unwrap_or(name);
            if name < run.as_str().as_bytes() {
                return Err(stray_head(self.scope, key));
            }
            if name != run.as_str().as_bytes() {
                return Ok(());
            }
            let index = u64::from_be_bytes(*index);
            self.ledger.found(Derived::Heads, &[key], value);
            self.heads.pass();
            let entry = self.rows.get(&Space::of(self.scope, Table::Entries).key(&[&index.to_be_bytes()]))?;
            match entry.as_deref().map(Entry::recognise) {
                Some(Recognised::Ours(Entry::Head(head)))
                    if head.run == *run && head.tenant == *self.tenant =>
                {
                    self.log.last_head = Some(index);
                    self.log.pin = Some(Pin { records: head.records.get(), chain: head.chain });
                    return Ok(());
                }
                // A log that is read anew has its seals filed beside its heads until their run is done.
                Some(Recognised::Ours(Entry::Seal(seal)))
                    if matches!(self.ledger.mode, Mode::Write)
                        && seal.run == *run
                        && self.log.seal.is_none() =>
                {
                    self.log.seal = Some((index, seal));
                }
                _ => {
                    let fault = Fault::Unaccounted;
                    let corruption = Corruption::in_scope(self.scope, "filed head", fault);
                    return Err(corruption.of_run(run).at(index).into());
                }
            }
        }
        Ok(())
    }

    /// Takes up the leases of runs before `run`, which may be of runs that were never written to, and its own.
    fn leases_until(&mut self, run: Option<(&RunId, &RunRow)>) -> Result<(), StoreError> {
        while let Some((key, value)) = self.leases.peek()? {
            let of = match run {
                Some((run, _)) if key > run.as_str().as_bytes() => return Ok(()),
                Some((run, _)) if key == run.as_str().as_bytes() => run.clone(),
                _ => stored_run(self.scope, "lease", key)?,
            };
            let lease = LeaseRow::decode(value)
                .map_err(|fault| Corruption::in_scope(self.scope, "lease", fault).of_run(&of))?;
            if let Some((run, row)) = run.filter(|(run, _)| **run == of) {
                lease_fits(self.scope, run, row, &lease)?;
            }
            if lease.is_owned() {
                let key = [&time_key(lease.expires_at_ms), of.as_str().as_bytes()];
                self.ledger.expect(Derived::Expiries, &key, &[], &of)?;
            }
            self.leases.pass();
        }
        Ok(())
    }
}

impl Visitor for Account<'_, '_> {
    fn begin(&mut self, run: &RunId) -> Result<(), StoreError> {
        self.log = LogSide::default();
        self.next_pin(run)
    }

    fn record(&mut self, run: &RunId, sound: &Sound<'_>) -> Result<(), StoreError> {
        self.derived_from(run, sound)?;
        while let Some(pin) = self.log.pin.as_ref().filter(|pin| pin.records == sound.seq) {
            if pin.chain != sound.hash {
                return Err(differs(self.scope, run, "the pinned head", sound.hash, pin.chain));
            }
            self.log.pinned = sound.seq;
            self.next_pin(run)?;
        }
        self.counts.records += 1;
        self.counts.bytes += sound.bytes as u64;
        self.counts.held += sound.held as u64;
        if self.counts.records.is_multiple_of(PROGRESS_ROWS) {
            self.tell();
        }
        Ok(())
    }

    fn end(&mut self, facts: &Facts) -> Result<(), StoreError> {
        let row = self.row(facts)?;
        self.places(&facts.run, &row, facts.reason.as_ref())?;
        self.pins(&facts.run, &row)?;
        self.leases_until(Some((&facts.run, &row)))?;
        self.counts.runs += 1;
        Ok(())
    }
}

/// The rows of `table` for runs whose names are from `from` to below `to`.
pub(super) fn between(scope: &Scope, table: Table, from: &[u8], to: Option<&[u8]>) -> KeyRange {
    let space = Space::of(scope, table);
    let range = space.all().from(space.key(&[from]));
    match to {
        Some(to) => range.before(space.key(&[to])),
        None => range,
    }
}

/// A lease is of an epoch that the records have not passed; nobody holds a sealed run.
fn lease_fits(scope: &Scope, run: &RunId, row: &RunRow, lease: &LeaseRow) -> Result<(), StoreError> {
    if lease.epoch < row.epoch {
        return Err(differs(scope, run, "the lease's epoch", lease.epoch, row.epoch));
    }
    if row.seal.is_some() && lease.is_owned() {
        return Err(differs(scope, run, "the owner of a sealed run", lease.owner.clone(), String::new()));
    }
    Ok(())
}

/// All that a seal says, in parts, for `with`: where it stands, of how many records, and their chain.
pub(super) fn with_seal<T>(
    (index, records, chain): (u64, u64, ChainHash),
    run: &RunId,
    outcome: &Outcome,
    with: impl FnOnce(&[&[u8]]) -> T,
) -> T {
    let (index, records) = (index.to_be_bytes(), records.to_be_bytes());
    with(&[&index, &records, chain.as_bytes(), run.as_str().as_bytes(), &[0], outcome.as_str().as_bytes()])
}

/// A filed head of a run that has no records.
fn stray_head(scope: &Scope, key: &[u8]) -> StoreError {
    let (name, index) = key.split_last_chunk::<8>().unwrap_or((key, &[0; 8]));
    let run = String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name));
    let corruption = Corruption::in_scope(scope, "filed head", Fault::Unaccounted);
    corruption.of_run(&*run).at(u64::from_be_bytes(*index)).into()
}

fn without_records(scope: &Scope, run: &RunId) -> StoreError {
    Corruption::in_scope(scope, "record", Fault::Missing).of_run(run).at(1).into()
}

/// A run's row that says another thing than the rest.
pub(super) fn differs<T: std::fmt::Debug>(
    scope: &Scope,
    run: &RunId,
    what: &'static str,
    found: T,
    expected: T,
) -> StoreError {
    let fault = Fault::contradiction(what, found, expected);
    Corruption::in_scope(scope, "run row", fault).of_run(run).into()
}

//! The handle of one tenant: its runs and its log.
//!
//! Writing calls come in two forms. The plain one (`append`) blocks until what it did is durable. The
//! queued one (`append_queued`) returns at once with an [`Ack`] to wait for or to `.await`, and is refused
//! with [`StoreError::Busy`] where the queue is full.

use std::fmt;
use std::io::Write;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use runseal_evidence::name::{CaseId, Outcome, RunId, TenantId};
use runseal_evidence::record::RecordDraft;
use runseal_tlog::proof::TlogProof;
use thiserror::Error;

use crate::chain::{
    self, AppendError, Appended, Lease, LeaseError, ReadError, RunSummary, SealError, Sealed, StoredRecord,
    Verified, Writer,
};
use crate::check::{self, CheckProgress, CheckReport};
use crate::export::{self, ExportError, ExportSummary};
use crate::index::{
    AbandonedRun, ActivityCursor, Admission, CancelError, Cancellation, CaseRecord, WaitingRun, activity,
    admission, cancellation, case, lapsed, outcome, waiting,
};
use crate::log::{self, Log, ProveError};
use crate::plane::Plane;
use crate::shared::{Queueing, Shared};
use crate::store::{Ack, Corruption, Fault, Overlay, Read, Scope, Space, StoreError, Table};

/// One tenant's runs and log. Cheap to clone and safe to share.
///
/// It is the tenant's [`Log`] as well, and has all of its methods.
#[derive(Clone)]
pub struct Tenant {
    shared: Arc<Shared>,
    id: TenantId,
    scope: Scope,
    log: Log,
}

/// A run that came in whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The run.
    pub run: RunId,
    /// How many records it has.
    pub records: u64,
    /// How it ended, where it was sealed.
    pub outcome: Option<Outcome>,
    /// The log index of its seal.
    pub index: Option<u64>,
}

/// Why a set of runs was not imported. None of them was.
#[derive(Debug, Clone, Error)]
#[error("run {run}: {error}")]
pub struct ImportError {
    /// The run that is the reason.
    pub run: RunId,
    /// The reason.
    #[source]
    pub error: AppendError,
}

/// A failure of the store, which no run is the reason of.
impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> Self {
        let run = RunId::new("0").expect("a digit is a run's name");
        Self { run, error: error.into() }
    }
}

/// How long the lease lasts that a call takes and returns by itself.
const OWN_LEASE: Duration = Duration::from_mins(1);
/// Who holds it while a run is imported.
const IMPORTER: &str = "runseal import";
/// Heads logged in one transaction.
const PINS_MAX: usize = 1024;
/// Admission keys forgotten in one transaction.
const FORGOTTEN_MAX: usize = 4096;

impl Tenant {
    pub(crate) fn new(shared: Arc<Shared>, id: TenantId) -> Self {
        let scope = Scope::Tenant(id.clone());
        let log = Log::new(Arc::clone(&shared), scope.clone());
        Self { shared, id, scope, log }
    }

    /// The tenant's name.
    pub fn id(&self) -> &TenantId {
        &self.id
    }

    /// The tenant's log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Claims a run that nobody holds, for `ttl`. The epoch is higher than any before it.
    ///
    /// # Errors
    /// [`LeaseError`]; [`LeaseError::LeaseHeld`] also where the caller itself holds it.
    pub fn acquire(&self, run: &RunId, owner: &str, ttl: Duration) -> Result<Lease, LeaseError> {
        let (scope, run, owner) = (self.scope.clone(), run.clone(), owner.to_owned());
        self.run_rule(0, move |tx, plane| chain::acquire(tx, &scope, &run, &owner, ttl, plane.clock.now_ms()))
    }

    /// Extends a lease held by exactly this owner and epoch to `ttl` from now. Never claims.
    ///
    /// # Errors
    /// [`LeaseError`].
    pub fn renew(&self, run: &RunId, owner: &str, epoch: u64, ttl: Duration) -> Result<Lease, LeaseError> {
        let (scope, run, owner) = (self.scope.clone(), run.clone(), owner.to_owned());
        self.run_rule(0, move |tx, plane| {
            chain::renew(tx, &scope, &run, &owner, epoch, ttl, plane.clock.now_ms())
        })
    }

    /// Returns a lease. Returning another's, or twice, does nothing.
    ///
    /// # Errors
    /// [`LeaseError::Store`].
    pub fn release(&self, run: &RunId, epoch: u64) -> Result<(), LeaseError> {
        let (scope, run) = (self.scope.clone(), run.clone());
        self.run_rule(0, move |tx, _| Ok(chain::release(tx, &scope, &run, epoch)?))
    }

    /// Appends a batch, whole or not at all, and returns once it is durable.
    ///
    /// # Errors
    /// [`AppendError`]; then nothing was appended and nothing claimed.
    pub fn append(
        &self,
        run: &RunId,
        epoch: u64,
        drafts: Vec<RecordDraft>,
    ) -> Result<Vec<Appended>, AppendError> {
        self.queue_append(run, epoch, drafts, Queueing::Waits).wait()
    }

    /// Queues [`Tenant::append`]. The acknowledgement comes when the records are durable.
    pub fn append_queued(
        &self,
        run: &RunId,
        epoch: u64,
        drafts: Vec<RecordDraft>,
    ) -> Ack<Vec<Appended>, AppendError> {
        self.queue_append(run, epoch, drafts, Queueing::Refused)
    }

    fn queue_append(
        &self,
        run: &RunId,
        epoch: u64,
        drafts: Vec<RecordDraft>,
        queueing: Queueing,
    ) -> Ack<Vec<Appended>, AppendError> {
        let (run, rule) = (run.clone(), self.writer());
        self.shared.queue(&self.scope, weight(&drafts), queueing, move |tx, plane| {
            chain::append(tx, rule.at(plane), &run, epoch, &drafts)
        })
    }

    /// Seals a concluded run into the log, and returns once that is durable. Sealing it again answers the
    /// same.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal(&self, run: &RunId, epoch: u64) -> Result<Sealed, SealError> {
        let verified = self.walk(run)?;
        self.queue_seal(run, epoch, verified, Queueing::Waits).wait()
    }

    /// Queues [`Tenant::seal`]. The acknowledgement comes when the seal is durable; a checkpoint that covers
    /// it comes later, see [`Log::published_queued`].
    pub fn seal_queued(&self, run: &RunId, epoch: u64) -> Ack<Sealed, SealError> {
        // An executor's thread is not to wait for the disk: the storage thread walks the chain.
        self.queue_seal(run, epoch, Verified::nothing(&self.id, run), Queueing::Refused)
    }

    fn queue_seal(
        &self,
        run: &RunId,
        epoch: u64,
        verified: Verified,
        queueing: Queueing,
    ) -> Ack<Sealed, SealError> {
        let (run, rule) = (run.clone(), self.writer());
        self.shared.queue(&self.scope, 0, queueing, move |tx, plane| {
            chain::seal(tx, rule.at(plane), &run, epoch, verified.clone())
        })
    }

    /// Walks the chain of an open run, outside the storage thread, so that sealing a long run holds nobody up.
    fn walk(&self, run: &RunId) -> Result<Verified, StoreError> {
        let rows = self.snapshot()?;
        let mut verified = Verified::nothing(&self.id, run);
        match chain::run_row(&*rows, &self.scope, run)? {
            Some(row) if row.seal.is_none() => verified.walk(&*rows, &self.scope, run, row.records)?,
            _ => {}
        }
        Ok(verified)
    }

    /// Brings in a run that does not exist yet, in one transaction, its lease taken and returned inside.
    ///
    /// # Errors
    /// [`AppendError`]; [`AppendError::RunExists`] where it does.
    pub fn import(&self, run: &RunId, drafts: Vec<RecordDraft>, seal: bool) -> Result<Imported, AppendError> {
        let (run, rule) = (run.clone(), self.writer());
        self.run_rule(weight(&drafts), move |tx, plane| import(tx, rule.at(plane), &run, &drafts, seal))
    }

    /// Brings in many runs, all or none, in one transaction.
    ///
    /// # Errors
    /// [`ImportError`] names the run that is the reason.
    pub fn import_all(
        &self,
        runs: Vec<(RunId, Vec<RecordDraft>, bool)>,
    ) -> Result<Vec<Imported>, ImportError> {
        let rule = self.writer();
        let bytes = runs.iter().map(|(_, drafts, _)| weight(drafts)).sum();
        self.run_rule(bytes, move |tx, plane| {
            let one = |(run, drafts, seal): &(RunId, Vec<RecordDraft>, bool)| {
                import(tx, rule.at(plane), run, drafts, *seal)
                    .map_err(|error| ImportError { run: run.clone(), error })
            };
            runs.iter().map(one).collect()
        })
    }

    /// Appends a batch, and seals the run where asked, in one transaction that takes the run's lease and
    /// returns it.
    ///
    /// # Errors
    /// [`AppendError`]; [`AppendError::Lease`] where somebody holds the run.
    pub fn append_once(
        &self,
        run: &RunId,
        owner: &str,
        drafts: Vec<RecordDraft>,
        seal: bool,
    ) -> Result<(Vec<Appended>, Option<Sealed>), AppendError> {
        let verified = if seal { Some(self.walk(run)?) } else { None };
        let (run, owner, rule) = (run.clone(), owner.to_owned(), self.writer());
        self.run_rule(weight(&drafts), move |tx, plane| {
            append_once(tx, rule.at(plane), &run, &owner, &drafts, verified.clone())
        })
    }

    /// Seals a run in one transaction that takes its lease and returns it. Sealing it again answers the same.
    ///
    /// # Errors
    /// [`SealError`]; [`SealError::Lease`] where somebody holds the run.
    pub fn seal_once(&self, run: &RunId, owner: &str) -> Result<Sealed, SealError> {
        let verified = self.walk(run)?;
        let (run, owner, rule) = (run.clone(), owner.to_owned(), self.writer());
        self.run_rule(0, move |tx, plane| {
            let writer = rule.at(plane);
            let known = chain::run_row(tx, writer.scope, &run)?;
            let known = known.ok_or_else(|| SealError::UnknownRun { run: run.clone() })?;
            if let Some(sealed) = chain::sealed(&run, &known) {
                return Ok(sealed);
            }
            let lease = chain::acquire(tx, writer.scope, &run, &owner, OWN_LEASE, writer.now_ms)?;
            chain::seal(tx, writer, &run, lease.epoch, verified.clone())
        })
    }

    /// Up to `limit` records from number `from` on, each verified: its hash first, then its bytes, its place,
    /// and that it follows the one before it. A page ends early after 16 MiB.
    ///
    /// # Errors
    /// [`ReadError`]; a damaged or missing row is [`StoreError::Corrupt`].
    pub fn read(&self, run: &RunId, from: u64, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        chain::read(&*self.snapshot()?, &self.scope, run, from, limit)
    }

    /// Up to `limit` records from number `from` on, as stored: what an auditor gets to see, damage and all.
    /// Only a row that cannot be taken apart at all is an error. A page ends early after 16 MiB.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_unverified(
        &self,
        run: &RunId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let rows = self.snapshot()?;
        let page = chain::read_rows(&*rows, &self.scope, run, from, limit)?;
        if page.is_empty() && chain::run_row(&*rows, &self.scope, run)?.is_none() {
            return Err(ReadError::UnknownRun { run: run.clone() });
        }
        Ok(page.into_iter().map(|(seq, row)| row.into_stored(seq)).collect())
    }

    /// A run, if it has records.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn run(&self, run: &RunId) -> Result<Option<RunSummary>, StoreError> {
        Ok(chain::run_row(&*self.snapshot()?, &self.scope, run)?.map(|row| row.summary(run.clone())))
    }

    /// Up to `limit` runs after `after`, by id. Each is seen once, whatever is written meanwhile.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn runs(&self, after: Option<&RunId>, limit: usize) -> Result<Vec<RunSummary>, StoreError> {
        let space = Space::of(&self.scope, Table::Runs);
        let range = match after {
            None => space.all(),
            Some(run) => space.all().after(space.key(&[run.as_str().as_bytes()])),
        };
        let runs = chain::runs(&*self.snapshot()?, &self.scope, &range, limit)?;
        Ok(runs.into_iter().map(|(run, row)| row.summary(run)).collect())
    }

    /// Up to `limit` runs whose last conclusion is `outcome`, the newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn runs_by_outcome(&self, outcome: &Outcome, limit: usize) -> Result<Vec<RunSummary>, StoreError> {
        let rows = self.snapshot()?;
        let runs = outcome::newest(&*rows, &self.scope, outcome, limit)?;
        self.summaries(&*rows, runs, "outcome")
    }

    /// How many runs have `outcome` as their last conclusion: all of them, not a page.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn count_by_outcome(&self, outcome: &Outcome) -> Result<u64, StoreError> {
        outcome::counted(&*self.snapshot()?, &self.scope, outcome)
    }

    /// Up to `limit` runs by their last append, the newest first, ties by id descending; after `after`,
    /// exclusive.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn recent_runs(
        &self,
        after: Option<&ActivityCursor>,
        limit: usize,
    ) -> Result<Vec<ActivityCursor>, StoreError> {
        activity::newest(&*self.snapshot()?, &self.scope, None, after, limit)
    }

    /// The same, of the runs that `source` asked for.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn recent_runs_from(
        &self,
        source: &str,
        after: Option<&ActivityCursor>,
        limit: usize,
    ) -> Result<Vec<ActivityCursor>, StoreError> {
        activity::newest(&*self.snapshot()?, &self.scope, Some(source), after, limit)
    }

    /// Up to `limit` runs whose last record suspends them, those first that should have moved on first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn waiting_runs(&self, limit: usize) -> Result<Vec<WaitingRun>, StoreError> {
        waiting::due_first(&*self.snapshot()?, &self.scope, limit)
    }

    /// Up to `limit` runs whose lease lapsed without being returned, the longest ago first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn abandoned_runs(&self, limit: usize) -> Result<Vec<AbandonedRun>, StoreError> {
        lapsed::oldest(&*self.snapshot()?, &self.scope, self.shared.plane.clock.now_ms(), limit)
    }

    /// Up to `limit` records of a case after `after`, by run and number, whichever run they are of.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn case_records(
        &self,
        case: &CaseId,
        after: Option<&CaseRecord>,
        limit: usize,
    ) -> Result<Vec<CaseRecord>, StoreError> {
        case::records(&*self.snapshot()?, &self.scope, case, after, limit)
    }

    /// Which run an admission key admitted. The append that claims a key decides; this only says who did.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn admitted_as(&self, admission_key: &str) -> Result<Option<Admission>, StoreError> {
        admission::admitted_as(&*self.snapshot()?, &self.scope, admission_key)
    }

    /// Forgets the admission keys claimed before `cutoff_ms`, so that they may admit again. The records stay.
    /// Answers how many.
    ///
    /// # Errors
    /// [`StoreError`]; keys forgotten before it stay forgotten.
    pub fn forget_admissions(&self, cutoff_ms: i64) -> Result<u64, StoreError> {
        self.repeat(FORGOTTEN_MAX, move |tx, writer, limit| {
            admission::forget(tx, writer.scope, cutoff_ms, limit)
        })
    }

    /// Asks for a run to stop. Needs no lease and writes no record; the first asker stays. Answers whether
    /// this is the request that was noted.
    ///
    /// # Errors
    /// [`CancelError`].
    pub fn request_cancel(
        &self,
        run: &RunId,
        actor: &str,
        basis: &str,
        reason: &str,
    ) -> Result<bool, CancelError> {
        let (scope, run) = (self.scope.clone(), run.clone());
        let (actor, basis, reason) = (actor.to_owned(), basis.to_owned(), reason.to_owned());
        let mut request = Cancellation { actor, basis, reason, requested_ms: 0 };
        self.run_rule(0, move |tx, plane| {
            request.requested_ms = plane.clock.now_ms();
            cancellation::request(tx, &scope, &run, &request)
        })
    }

    /// The request to stop that was noted for a run.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn cancellation(&self, run: &RunId) -> Result<Option<Cancellation>, StoreError> {
        cancellation::requested(&*self.snapshot()?, &self.scope, run)
    }

    /// Logs a head for every open run that has grown since its last one, so that cutting its tail shows.
    /// Answers how many.
    ///
    /// # Errors
    /// [`StoreError`]; heads logged before it stay.
    pub fn pin_heads(&self) -> Result<usize, StoreError> {
        let pinned = self.repeat(PINS_MAX, chain::pin)?;
        Ok(usize::try_from(pinned).unwrap_or(usize::MAX))
    }

    /// The offline proof of a sealed run against the published checkpoint, or where none is published the
    /// last signed.
    ///
    /// # Errors
    /// [`ProveError`].
    pub fn prove(&self, run: &RunId) -> Result<TlogProof, ProveError> {
        let rows = self.snapshot()?;
        let checkpoint = log::shown(&*rows, &self.scope, &self.vkey())?;
        log::proof_of(&*rows, &self.scope, run, checkpoint)
    }

    /// Writes an export of all runs, or of the chosen ones with inclusion proofs, against the published
    /// checkpoint, or where none is published the last signed. Bytes go out as stored.
    ///
    /// # Errors
    /// [`ExportError`]. A run that cannot be read is no error: the trailer names it.
    pub fn export(&self, runs: Option<&[RunId]>, out: &mut dyn Write) -> Result<ExportSummary, ExportError> {
        let rows = self.snapshot()?;
        let checkpoint = log::shown(&*rows, &self.scope, &self.vkey())?.ok_or(ExportError::NoCheckpoint)?;
        export::write(&*rows, &self.id, &self.scope, &checkpoint, runs, out)
    }

    /// Recomputes everything that this tenant has and holds it together: every chain, every index, every
    /// tile, every counter. Memory stays flat, and the journal is in use meanwhile.
    ///
    /// # Errors
    /// [`StoreError`] where the database cannot be read. A contradiction is no error: the report locates the
    /// first.
    pub fn check(&self, progress: &mut dyn FnMut(CheckProgress)) -> Result<CheckReport, StoreError> {
        let signer = self.shared.plane.record_signer.as_ref();
        check::tenant(&*self.snapshot()?, &self.id, &self.scope, &self.vkey(), signer, progress)
    }

    fn summaries(
        &self,
        rows: &dyn Read,
        runs: Vec<RunId>,
        noun: &'static str,
    ) -> Result<Vec<RunSummary>, StoreError> {
        let summary = |run: RunId| match chain::run_row(rows, &self.scope, &run)? {
            Some(row) => Ok(row.summary(run)),
            None => Err(Corruption::in_scope(&self.scope, noun, Fault::Unaccounted).of_run(run).into()),
        };
        runs.into_iter().map(summary).collect()
    }

    fn snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, StoreError> {
        Ok(self.shared.snapshot()?)
    }

    fn writer(&self) -> WriterOf {
        WriterOf { tenant: self.id.clone(), scope: self.scope.clone() }
    }

    fn run_rule<T, E>(
        &self,
        bytes: usize,
        rule: impl FnMut(&mut Overlay<'_>, &Plane) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.shared.run(&self.scope, bytes, rule)
    }

    /// Runs a rule that does up to `limit` things, in as many transactions as it takes to do them all.
    fn repeat(
        &self,
        limit: usize,
        rule: impl Fn(&mut Overlay<'_>, Writer<'_>, usize) -> Result<usize, StoreError> + Send + Clone + 'static,
    ) -> Result<u64, StoreError> {
        let mut total = 0;
        loop {
            let (rule, of) = (rule.clone(), self.writer());
            let done: usize = self.run_rule(0, move |tx, plane| rule(tx, of.at(plane), limit))?;
            total += done as u64;
            if done < limit {
                return Ok(total);
            }
        }
    }
}

/// What a rule takes along of the tenant it writes for.
struct WriterOf {
    tenant: TenantId,
    scope: Scope,
}

impl WriterOf {
    fn at<'a>(&'a self, plane: &'a Plane) -> Writer<'a> {
        let signer = plane.record_signer.as_ref();
        Writer { tenant: &self.tenant, scope: &self.scope, signer, now_ms: plane.clock.now_ms() }
    }
}

fn import(
    tx: &mut Overlay<'_>,
    writer: Writer<'_>,
    run: &RunId,
    drafts: &[RecordDraft],
    seal: bool,
) -> Result<Imported, AppendError> {
    if chain::run_row(tx, writer.scope, run)?.is_some() {
        return Err(AppendError::RunExists { run: run.clone() });
    }
    let verified = seal.then(|| Verified::nothing(writer.tenant, run));
    let (appended, sealed) = append_once(tx, writer, run, IMPORTER, drafts, verified)?;
    let (outcome, index) = sealed.map(|sealed| (sealed.outcome, sealed.index)).unzip();
    Ok(Imported { run: run.clone(), records: appended.len() as u64, outcome, index })
}

fn append_once(
    tx: &mut Overlay<'_>,
    writer: Writer<'_>,
    run: &RunId,
    owner: &str,
    drafts: &[RecordDraft],
    seal: Option<Verified>,
) -> Result<(Vec<Appended>, Option<Sealed>), AppendError> {
    let lease = chain::acquire(tx, writer.scope, run, owner, OWN_LEASE, writer.now_ms)?;
    let before = chain::run_row(tx, writer.scope, run)?.map(|row| (row.records, row.chain));
    let appended = chain::append(tx, writer, run, lease.epoch, drafts)?;
    let sealed = match seal {
        None => None,
        Some(mut verified) => {
            // What was appended just now need not be read back to be known.
            if before.unwrap_or((0, verified.chain)) == (verified.records, verified.chain) {
                verified.follow(&appended, drafts);
            }
            Some(chain::seal(tx, writer, run, lease.epoch, verified)?)
        }
    };
    chain::release(tx, writer.scope, run, lease.epoch)?;
    Ok((appended, sealed))
}

/// About what a batch holds in memory while it waits.
fn weight(drafts: &[RecordDraft]) -> usize {
    drafts.iter().map(|draft| draft.payload.as_str().len() + 256).sum()
}

impl Deref for Tenant {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.log
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("id", &self.id).finish_non_exhaustive()
    }
}

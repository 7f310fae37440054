//! Writing to a leased run, and what goes on beside it.

use std::time::Duration;

use runseal_evidence::name::RunId;
use runseal_evidence::record::RecordDraft;

use super::Tenant;
use super::whole::weight;
use crate::chain::{self, AppendError, Appended, Lease, LeaseError, SealError, Sealed, Verified};
use crate::index::{CancelError, Cancellation, admission, cancellation};
use crate::shared::Queueing;
use crate::store::{Ack, StoreError};

/// Heads logged in one transaction.
const PINS_MAX: usize = 1024;
/// Admission keys forgotten in one transaction.
const FORGOTTEN_MAX: usize = 4096;

/// A caller that will not wait walks a chain of so many records itself: they were written a moment ago, as a rule, and
/// are in memory. An executor's thread is not to wait for the disk, so that a longer one is left to the storage
/// thread.
const WALKED_BY_CALLER: u64 = 64;

impl Tenant {
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
    /// it comes later, see [`published_queued`](crate::Log::published_queued).
    pub fn seal_queued(&self, run: &RunId, epoch: u64) -> Ack<Sealed, SealError> {
        // Whatever is wrong with the chain, the storage thread finds it again where it would be sealed.
        let verified = self.walk_if(run, |records| records <= WALKED_BY_CALLER);
        let verified = verified.unwrap_or_else(|_| Verified::nothing(&self.id, run));
        self.queue_seal(run, epoch, verified, Queueing::Refused)
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
    pub(super) fn walk(&self, run: &RunId) -> Result<Verified, StoreError> {
        self.walk_if(run, |_| true)
    }

    /// Walks the chain of an open run if it has a fitting number of records.
    fn walk_if(&self, run: &RunId, fits: impl FnOnce(u64) -> bool) -> Result<Verified, StoreError> {
        let rows = self.snapshot()?;
        let mut verified = Verified::nothing(&self.id, run);
        match chain::run_row(&*rows, &self.scope, run)? {
            Some(row) if row.seal.is_none() && fits(row.records) => {
                verified.walk(&*rows, &self.scope, run, row.records)?;
            }
            _ => {}
        }
        Ok(verified)
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

    /// Forgets the admission keys claimed before `cutoff_ms`, so that they may admit again. The records stay.
    /// Answers how many.
    ///
    /// # Errors
    /// [`StoreError`]; keys forgotten before it stay forgotten. A key that is filed by another age than its claim has
    /// is [`StoreError::Corrupt`].
    pub fn forget_admissions(&self, cutoff_ms: i64) -> Result<u64, StoreError> {
        self.repeat(FORGOTTEN_MAX, move |tx, writer, limit| {
            admission::forget(tx, writer.scope, cutoff_ms, limit)
        })
    }
}

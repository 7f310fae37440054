//! Leases: who may write to a run, fenced by an epoch that only grows.

use std::time::Duration;

use runseal_evidence::name::{Outcome, RunId};
use runseal_evidence::timestamp::Timestamp;
use thiserror::Error;

use super::run::{RunRow, run_row};
use crate::store::row::{RowFault, RowReader, RowWriter};
use crate::store::{Corruption, Overlay, Read, Scope, Space, StoreError, Table, key};

/// Most bytes that the name of an owner may have.
pub const OWNER_BYTES_MAX: usize = 256;
/// The shortest lease.
pub const TTL_MIN: Duration = Duration::from_secs(1);

/// The right to write to a run, until it expires and somebody else claims it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The run.
    pub run: RunId,
    /// Who holds it.
    pub owner: String,
    /// The fencing token: higher than any before it, and part of every record written under it.
    pub epoch: u64,
    /// When it may be claimed by others, in milliseconds since 1970.
    pub expires_at_ms: i64,
}

/// Why a lease is not given, kept or returned.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The owner is blank: such a lease could never be told from a released one.
    #[error("the owner is blank; name the process that will write")]
    BlankOwner,
    /// The owner's name is too long.
    #[error("the owner has {bytes} bytes, more than the {OWNER_BYTES_MAX} allowed")]
    OwnerTooLong {
        /// Its length.
        bytes: usize,
    },
    /// Leases last a second or longer, and end before time does. Refused, never clamped.
    #[error("a lease cannot last {ttl:?}: it must have at least one second and end before the year 10000")]
    Ttl {
        /// The time asked for.
        ttl: Duration,
    },
    /// Somebody holds it, possibly the caller: claiming never renews.
    #[error("run {run} is leased by {owner:?} (epoch {epoch}) for another {remaining:?}")]
    LeaseHeld {
        /// The run.
        run: RunId,
        /// Who holds it.
        owner: String,
        /// Their epoch.
        epoch: u64,
        /// How long until it can be claimed.
        remaining: Duration,
    },
    /// The caller does not hold it, or no longer.
    #[error("the lease of run {run} is not held by that owner with epoch {epoch}")]
    LeaseNotHeld {
        /// The run.
        run: RunId,
        /// The epoch the caller named.
        epoch: u64,
    },
    /// The run is frozen: there is nothing left to write.
    #[error("run {run} is sealed ({outcome})")]
    RunSealed {
        /// The run.
        run: RunId,
        /// How it ended.
        outcome: Outcome,
    },
    /// Every epoch has been given out.
    #[error("run {run} has no epoch left")]
    EpochsExhausted {
        /// The run.
        run: RunId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The row of a lease. Without an owner it is released; the epoch stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseRow {
    pub(crate) owner: String,
    pub(crate) epoch: u64,
    pub(crate) expires_at_ms: i64,
}

impl LeaseRow {
    fn released(epoch: u64) -> Self {
        Self { owner: String::new(), epoch, expires_at_ms: 0 }
    }

    /// Whether somebody holds it or let it lapse.
    pub(crate) fn is_owned(&self) -> bool {
        !self.owner.is_empty()
    }

    pub(crate) fn is_live(&self, now_ms: i64) -> bool {
        self.is_owned() && self.expires_at_ms > now_ms
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = RowWriter::default();
        row.u64(self.epoch).i64(self.expires_at_ms).counted(self.owner.as_bytes()).finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RowFault> {
        let mut row = RowReader::new(bytes);
        let epoch = row.u64("epoch")?;
        let expires_at_ms = row.i64("expiry")?;
        let owner = row.text("owner")?.to_owned();
        row.end()?;
        let row = Self { owner, epoch, expires_at_ms };
        // Nobody has it, or somebody with a name.
        if row.epoch == 0 {
            Err(RowFault::Value("epoch"))
        } else if row.owner.trim().is_empty() && row != Self::released(epoch) {
            Err(RowFault::Value("owner"))
        } else {
            Ok(row)
        }
    }
}

/// The row of the lease of `run`, if it ever had one.
pub(crate) fn lease_row(rows: &dyn Read, scope: &Scope, run: &RunId) -> Result<Option<LeaseRow>, StoreError> {
    let Some(bytes) = rows.get(&Space::of(scope, Table::Leases).key(&[run.as_str().as_bytes()]))? else {
        return Ok(None);
    };
    match LeaseRow::decode(&bytes) {
        Ok(lease) => Ok(Some(lease)),
        Err(fault) => Err(Corruption::in_scope(scope, "lease", fault).of_run(run).into()),
    }
}

/// Claims a run that nobody holds, with an epoch higher than any that it has had.
///
/// Where the row is gone, the epoch follows from the records: a restored run never reuses one.
pub(crate) fn acquire(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    run: &RunId,
    owner: &str,
    ttl: Duration,
    now_ms: i64,
) -> Result<Lease, LeaseError> {
    check_owner(owner)?;
    let expires_at_ms = expiry(ttl, now_ms)?;
    let known = run_row(tx, scope, run)?;
    refuse_sealed(run, known.as_ref())?;
    let last = lease_row(tx, scope, run)?;
    if let Some(row) = last.as_ref().filter(|row| row.is_live(now_ms)) {
        return Err(LeaseError::LeaseHeld {
            run: run.clone(),
            owner: row.owner.clone(),
            epoch: row.epoch,
            remaining: Duration::from_millis(row.expires_at_ms.abs_diff(now_ms)),
        });
    }
    let leased = last.as_ref().map_or(0, |row| row.epoch);
    let written = known.map_or(0, |row| row.epoch);
    let epoch = leased.max(written).checked_add(1);
    let epoch = epoch.ok_or_else(|| LeaseError::EpochsExhausted { run: run.clone() })?;
    let row = LeaseRow { owner: owner.to_owned(), epoch, expires_at_ms };
    write(tx, scope, run, last.as_ref(), &row);
    Ok(Lease { run: run.clone(), owner: row.owner, epoch, expires_at_ms })
}

/// Extends a lease that is held by exactly this owner and epoch. Never claims.
pub(crate) fn renew(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    run: &RunId,
    owner: &str,
    epoch: u64,
    ttl: Duration,
    now_ms: i64,
) -> Result<Lease, LeaseError> {
    check_owner(owner)?;
    let expires_at_ms = expiry(ttl, now_ms)?;
    let last = lease_row(tx, scope, run)?;
    let held = last.filter(|row| row.is_live(now_ms) && row.owner == owner && row.epoch == epoch);
    let held = held.ok_or_else(|| LeaseError::LeaseNotHeld { run: run.clone(), epoch })?;
    let row = LeaseRow { expires_at_ms, ..held.clone() };
    write(tx, scope, run, Some(&held), &row);
    Ok(Lease { run: run.clone(), owner: row.owner, epoch, expires_at_ms })
}

/// Returns a lease. Another epoch's, a returned one or none: nothing happens. The row and its epoch stay.
pub(crate) fn release(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    run: &RunId,
    epoch: u64,
) -> Result<(), StoreError> {
    let held = lease_row(tx, scope, run)?.filter(|row| row.epoch == epoch);
    give_back(tx, scope, run, held.as_ref());
    Ok(())
}

/// Returns whatever lease there is, for a run that has been sealed.
pub(crate) fn free(tx: &mut Overlay<'_>, scope: &Scope, run: &RunId) -> Result<(), StoreError> {
    let held = lease_row(tx, scope, run)?;
    give_back(tx, scope, run, held.as_ref());
    Ok(())
}

fn give_back(tx: &mut Overlay<'_>, scope: &Scope, run: &RunId, held: Option<&LeaseRow>) {
    if let Some(row) = held.filter(|row| row.is_owned()) {
        write(tx, scope, run, Some(row), &LeaseRow::released(row.epoch));
    }
}

/// Why a caller with `held` may not write.
#[derive(Debug)]
pub(crate) enum Fence {
    /// The epoch is another one.
    Fenced { held: u64, current: u64 },
    /// There is no lease, or it was returned.
    NotHeld,
}

/// Whether a caller with epoch `held` may write to `run`: by inequality, so that an epoch from the future is
/// refused like one from the past. Expiry alone fences nobody; the next claim does.
pub(crate) fn fence(
    rows: &dyn Read,
    scope: &Scope,
    run: &RunId,
    known: Option<&RunRow>,
    held: u64,
) -> Result<Result<(), Fence>, StoreError> {
    let written = known.map_or(0, |row| row.epoch);
    let sealed = known.is_some_and(|row| row.seal.is_some());
    Ok(match lease_row(rows, scope, run)? {
        Some(row) if row.epoch != held => Err(Fence::Fenced { held, current: row.epoch }),
        // A lease older than the records was restored from somewhere; epochs never decrease.
        Some(_) if held < written => Err(Fence::Fenced { held, current: written }),
        // Sealing returns the lease; the one who sealed is told of the seal.
        Some(row) if row.is_owned() || sealed => Ok(()),
        Some(_) | None => Err(Fence::NotHeld),
    })
}

/// Writes `row` over `last`, and keeps the index of owned leases in step.
fn write(tx: &mut Overlay<'_>, scope: &Scope, run: &RunId, last: Option<&LeaseRow>, row: &LeaseRow) {
    let expiries = Space::of(scope, Table::Expiries);
    let expiry = |row: &LeaseRow| expiries.key(&[&key::time_key(row.expires_at_ms), run.as_str().as_bytes()]);
    if let Some(last) = last.filter(|last| last.is_owned()) {
        tx.delete(expiry(last));
    }
    if row.is_owned() {
        tx.put(expiry(row), Vec::new());
    }
    tx.put(Space::of(scope, Table::Leases).key(&[run.as_str().as_bytes()]), row.encode());
}

fn check_owner(owner: &str) -> Result<(), LeaseError> {
    if owner.trim().is_empty() {
        return Err(LeaseError::BlankOwner);
    }
    if owner.len() > OWNER_BYTES_MAX {
        return Err(LeaseError::OwnerTooLong { bytes: owner.len() });
    }
    Ok(())
}

fn expiry(ttl: Duration, now_ms: i64) -> Result<i64, LeaseError> {
    let ms = i64::try_from(ttl.as_millis()).ok().filter(|_| ttl >= TTL_MIN);
    let expiry = ms.and_then(|ms| now_ms.checked_add(ms)).filter(|at| *at <= Timestamp::MAX.posix_ms());
    expiry.ok_or(LeaseError::Ttl { ttl })
}

pub(crate) fn refuse_sealed(run: &RunId, known: Option<&RunRow>) -> Result<(), LeaseError> {
    match known.and_then(RunRow::sealed_as) {
        Some(outcome) => Err(LeaseError::RunSealed { run: run.clone(), outcome: outcome.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_held_by_a_name_or_returned_and_no_other_row_is_one() {
        let row =
            |owner: &str, epoch, expires_at_ms| LeaseRow { owner: owner.to_owned(), epoch, expires_at_ms };
        for fine in [row("w", 3, 9), row("w", 3, 0), LeaseRow::released(3)] {
            assert_eq!(LeaseRow::decode(&fine.encode()), Ok(fine));
        }
        assert_eq!(LeaseRow::decode(&row("w", 0, 9).encode()), Err(RowFault::Value("epoch")));
        for blank in [row("", 3, 9), row("", 3, -1), row(" ", 3, 9), row(" ", 3, 0)] {
            assert_eq!(LeaseRow::decode(&blank.encode()), Err(RowFault::Value("owner")), "{blank:?}");
        }
    }
}

//! Runs whose lease lapsed without having been returned: their owner is gone.

use runseal_evidence::name::RunId;

use super::page::page;
use crate::chain::{lease_row, stored_run};
use crate::store::key::{time_key, time_of_key};
use crate::store::{Corruption, Direction, Fault, Read, RowFault, Scope, Space, StoreError, Table};

/// A run that somebody claimed and neither returned nor kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbandonedRun {
    /// The run.
    pub run: RunId,
    /// Who held it.
    pub owner: String,
    /// The epoch they held it with.
    pub epoch: u64,
    /// When the lease lapsed, in milliseconds since 1970.
    pub expired_at_ms: i64,
}

/// The runs whose lease lapsed by `now_ms`, the longest ago first.
pub(crate) fn oldest(
    rows: &dyn Read,
    scope: &Scope,
    now_ms: i64,
    limit: usize,
) -> Result<Vec<AbandonedRun>, StoreError> {
    let space = Space::of(scope, Table::Expiries);
    let live = space.key(&[&time_key(now_ms.saturating_add(1))]);
    let lapsed = page(rows, &space.all().before(live), Direction::Ascending, limit, |key, _| {
        let corrupt = |fault: RowFault| Corruption::in_scope(scope, "lease expiry", fault);
        let (time, run) =
            space.own(key).split_first_chunk().ok_or_else(|| corrupt(RowFault::Short("expiry")))?;
        Ok((time_of_key(*time), stored_run(scope, "lease expiry", run)?))
    })?;
    let abandoned = lapsed.into_iter().map(|(expired_at_ms, run)| {
        let corrupt =
            |fault: Fault| StoreError::from(Corruption::in_scope(scope, "lease expiry", fault).of_run(&run));
        let lease = lease_row(rows, scope, &run)?.ok_or_else(|| corrupt(Fault::Unaccounted))?;
        if lease.expires_at_ms != expired_at_ms || !lease.is_owned() {
            return Err(corrupt(Fault::contradiction("the expiry", expired_at_ms, lease.expires_at_ms)));
        }
        Ok(AbandonedRun { owner: lease.owner, epoch: lease.epoch, run, expired_at_ms })
    });
    abandoned.collect()
}

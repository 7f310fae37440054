//! The entries of a verified log, by run, wherever they are kept.

use std::borrow::Cow;

use runseal_evidence::name::{RunId, TenantId};

use super::Ledger;
use crate::history::{HistoryError, LogHistory};
use crate::mark::Mark;
use crate::runs::Pinned;

/// Takes one run's hash and its marks in log order.
pub type VisitRun<'v> = dyn FnMut(u64, &[Mark]) -> Result<(), HistoryError> + 'v;

/// The entries of a verified log, by run.
pub trait RunEntries {
    /// The key that runs are hashed with.
    fn run_key(&self) -> &[u8; 16];

    /// The marks of one run hash, in log order.
    ///
    /// # Errors
    /// [`HistoryError`].
    fn marks(&self, run: u64) -> Result<Cow<'_, [Mark]>, HistoryError>;

    /// An entry, `None` where it is not kept.
    ///
    /// # Errors
    /// [`HistoryError`].
    fn entry(&self, index: u64) -> Result<Option<Cow<'_, [u8]>>, HistoryError>;

    /// Whether the mark of the entry at `index` is known to be the only one of its run hash: `true` is certain.
    fn is_alone(&self, _index: u64) -> bool {
        false
    }

    /// Walks all marks, run by run in ascending order of the run hash, each run's marks in log order.
    ///
    /// # Errors
    /// [`HistoryError`], also of the visitor.
    fn for_each_run(&self, visit: &mut VisitRun<'_>) -> Result<(), HistoryError>;

    /// Everything that the log says of a run, whose hash is `hash`, before index `end`, and whether there is more of
    /// it from there on. `None` where an entry is not kept. `near` may be the index of one of its entries; of a run
    /// with no other, this spares the search.
    ///
    /// # Errors
    /// [`HistoryError`].
    fn pinned(
        &self,
        tenant: &TenantId,
        run: &RunId,
        hash: u64,
        near: Option<u64>,
        end: u64,
    ) -> Result<Option<(Pinned, bool)>, HistoryError> {
        let mut pinned = Pinned::new(tenant.clone(), run.clone());
        if let Some(index) = near.filter(|index| *index < end && self.is_alone(*index))
            && let Some(entry) = self.entry(index)?
            && pinned.add(index, &entry)
        {
            return Ok(Some((pinned, false)));
        }
        let mut later = false;
        for mark in self.marks(hash)?.iter() {
            let Some(entry) = self.entry(mark.index())? else { return Ok(None) };
            // Two runs may share a hash; the name decides.
            if mark.index() < end {
                pinned.add(mark.index(), &entry);
            } else {
                later |= pinned.is_of(&entry);
            }
        }
        Ok(Some((pinned, later)))
    }
}

impl RunEntries for LogHistory {
    fn run_key(&self) -> &[u8; 16] {
        self.run_key()
    }

    fn marks(&self, run: u64) -> Result<Cow<'_, [Mark]>, HistoryError> {
        Ledger::new(self).marks(run).map(Cow::Owned)
    }

    fn entry(&self, index: u64) -> Result<Option<Cow<'_, [u8]>>, HistoryError> {
        Ok(self.entry(index)?.map(Cow::Owned))
    }

    fn for_each_run(&self, visit: &mut VisitRun<'_>) -> Result<(), HistoryError> {
        Ledger::new(self).for_each_run(0, visit)
    }
}

//! What the log says of a run.

use runseal_evidence::entry::{Entry, Head, Seal};
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::{RunId, TenantId};

/// What the log says of a run.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// The tenant.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// Its first seal.
    pub seal: Option<(u64, Seal)>,
    /// Its heads, in log order.
    pub heads: Vec<(u64, Head)>,
}

impl Pinned {
    /// A run without entries.
    pub const fn new(tenant: TenantId, run: RunId) -> Self {
        Self { tenant, run, seal: None, heads: Vec::new() }
    }

    /// Whether an entry speaks of this run.
    pub fn is_of(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Seal(seal) => seal.run == self.run && seal.tenant == self.tenant,
            Entry::Head(head) => head.run == self.run && head.tenant == self.tenant,
            Entry::Tenant(_) => false,
        }
    }

    /// Adds an entry, if it is one of this run.
    pub fn add(&mut self, index: u64, entry: Entry) {
        match entry {
            entry if !self.is_of(&entry) => {}
            Entry::Seal(seal) => {
                self.seal.get_or_insert((index, seal));
            }
            Entry::Head(head) => self.heads.push((index, head)),
            Entry::Tenant(_) => {}
        }
    }

    /// Whether the log says anything of this run.
    pub const fn is_empty(&self) -> bool {
        self.seal.is_none() && self.heads.is_empty()
    }

    /// Where the log speaks last of this run.
    pub fn index(&self) -> Option<u64> {
        let seal = self.seal.as_ref().map(|(index, _)| *index);
        seal.or_else(|| self.heads.last().map(|(index, _)| *index))
    }

    /// The finding that the run is gone.
    pub fn deleted(&self, why: &str) -> Finding {
        let detail = match (&self.seal, self.heads.last()) {
            (Some((index, seal)), _) => format!(
                "the log seals this run at index {index} ({} records, {}), but {why}",
                seal.records.get(),
                seal.outcome
            ),
            (None, Some((index, head))) => {
                format!(
                    "the log pins {} records of this open run at index {index}, but {why}",
                    head.records.get()
                )
            }
            (None, None) => why.to_owned(),
        };
        let finding = Finding::new(FindingKind::RunDeleted, detail).in_run(&self.run);
        match self.index() {
            Some(index) => finding.at_index(index),
            None => finding,
        }
    }
}

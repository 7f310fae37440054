//! What the log says of a run.

use runseal_evidence::amount::amount;
use runseal_evidence::chain::ChainHash;
use runseal_evidence::entry::{Entry, EntryView, Recognised};
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::{Outcome, RunId, TenantId};

/// What the log says of a run.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// The tenant.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// Its first seal: what it pins, and the outcome it states.
    pub seal: Option<(Pin, Outcome)>,
    /// What its heads pin, in log order.
    pub heads: Vec<Pin>,
}

/// What an entry pins: the chain of a run's first records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// How many records.
    pub records: u64,
    /// The entry's index.
    pub index: u64,
    /// The chain hash of the last of them.
    pub chain: ChainHash,
}

impl Pinned {
    /// A run without entries.
    pub const fn new(tenant: TenantId, run: RunId) -> Self {
        Self { tenant, run, seal: None, heads: Vec::new() }
    }

    /// Takes the entry at `index`, if it is one of this run. Else `false`.
    pub fn add(&mut self, index: u64, entry: &[u8]) -> bool {
        let Some((pin, outcome)) = self.pin_of(index, entry) else { return false };
        match outcome {
            Some(outcome) => {
                self.seal.get_or_insert((pin, outcome));
            }
            None => self.heads.push(pin),
        }
        true
    }

    /// Whether an entry speaks of this run.
    pub fn is_of(&self, entry: &[u8]) -> bool {
        self.pin_of(0, entry).is_some()
    }

    /// What an entry of this run pins, and a seal's outcome.
    fn pin_of(&self, index: u64, entry: &[u8]) -> Option<(Pin, Option<Outcome>)> {
        if let Some(view) = EntryView::plain(entry) {
            let is_of = view.run() == self.run.as_str() && view.tenant() == self.tenant.as_str();
            let pin = || Pin { records: view.records().get(), index, chain: view.chain() };
            return is_of.then(|| (pin(), view.outcome()));
        }
        let (tenant, run, records, chain, outcome) = match Entry::recognise(entry) {
            Recognised::Ours(Entry::Seal(seal)) => {
                (seal.tenant, seal.run, seal.records, seal.chain, Some(seal.outcome))
            }
            Recognised::Ours(Entry::Head(head)) => (head.tenant, head.run, head.records, head.chain, None),
            _ => return None,
        };
        let is_of = run == self.run && tenant == self.tenant;
        is_of.then_some((Pin { records: records.get(), index, chain }, outcome))
    }

    /// Whether the log says anything of this run.
    pub const fn is_empty(&self) -> bool {
        self.seal.is_none() && self.heads.is_empty()
    }

    /// Where the log speaks last of this run.
    pub fn index(&self) -> Option<u64> {
        let seal = self.seal.as_ref().map(|(pin, _)| pin.index);
        seal.or_else(|| self.heads.last().map(|pin| pin.index))
    }

    /// The finding that the run is gone.
    pub fn deleted(&self, why: &str) -> Finding {
        let detail = match (&self.seal, self.heads.last()) {
            (Some((Pin { index, records, .. }, outcome)), _) => {
                format!(
                    "the log seals this run at index {index} ({}, {outcome}), but {why}",
                    amount(records, "record")
                )
            }
            (None, Some(Pin { index, records, .. })) => {
                format!(
                    "the log pins {} of this open run at index {index}, but {why}",
                    amount(records, "record")
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

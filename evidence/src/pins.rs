//! What a tenant's log says of one run: the heads that pinned it while it was open, and its seal.

use crate::{
    chain::ChainHash,
    entry::{Head, Seal},
    finding::{Finding, FindingKind},
};

/// The entries of one run, taken in index order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunPins {
    heads: Vec<Pin>,
    seal: Option<(u64, Seal)>,
}

/// The chain of a run after some of its records, as an entry of the log states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    /// The index of the entry.
    pub index: u64,
    /// How many records.
    pub records: u64,
    /// The chain hash of the last of them.
    pub chain: ChainHash,
}

impl RunPins {
    /// A run the log says nothing of yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the run's next entry, a head. A head that contradicts an earlier entry is reported and not kept.
    pub fn take_head(&mut self, index: u64, head: &Head) -> Option<Finding> {
        let pin = Pin { index, records: head.records.get(), chain: head.chain };
        let finding = match (&self.seal, self.heads.last()) {
            (Some((seal, _)), _) => Some((
                FindingKind::HeadAfterSeal,
                format!("entry {index} is a head, but entry {seal} has sealed the run"),
            )),
            (None, Some(last)) if pin.records < last.records => Some((
                FindingKind::HeadRegressed,
                format!(
                    "entry {index} pins {} records, but entry {} pinned {}",
                    pin.records, last.index, last.records
                ),
            )),
            (None, Some(last)) => contradiction(last, &pin),
            (None, None) => None,
        };
        if finding.is_none() {
            self.heads.push(pin);
        }
        finding.map(|(kind, detail)| Finding::new(kind, detail).in_run(&head.run).at_index(index))
    }

    /// Takes the run's next entry, a seal. The first seal is kept; another one is reported.
    pub fn take_seal(&mut self, index: u64, seal: &Seal) -> Option<Finding> {
        let pin = Pin { index, records: seal.records.get(), chain: seal.chain };
        let finding = match (&self.seal, self.heads.last()) {
            (Some((first, _)), _) => {
                Some((FindingKind::SealDuplicate, format!("entries {first} and {index} both seal the run")))
            }
            (None, Some(last)) if pin.records < last.records => Some((
                FindingKind::RunTruncated,
                format!(
                    "entry {index} seals {} records, but entry {} pinned {}",
                    pin.records, last.index, last.records
                ),
            )),
            (None, Some(last)) => contradiction(last, &pin),
            (None, None) => None,
        };
        if self.seal.is_none() {
            self.seal = Some((index, seal.clone()));
        }
        finding.map(|(kind, detail)| Finding::new(kind, detail).in_run(&seal.run).at_index(index))
    }

    /// The heads that do not contradict one another: neither index nor number of records decreases.
    pub fn heads(&self) -> &[Pin] {
        &self.heads
    }

    /// The seal and its index.
    pub fn seal(&self) -> Option<(u64, &Seal)> {
        self.seal.as_ref().map(|(index, seal)| (*index, seal))
    }

    /// The entry that pins the most records: the seal, else the last head.
    pub fn last(&self) -> Option<Pin> {
        match &self.seal {
            Some((index, seal)) => {
                Some(Pin { index: *index, records: seal.records.get(), chain: seal.chain })
            }
            None => self.heads.last().copied(),
        }
    }
}

fn contradiction(last: &Pin, pin: &Pin) -> Option<(FindingKind, String)> {
    (pin.records == last.records && pin.chain != last.chain).then(|| {
        let detail =
            format!("entries {} and {} pin different records 1 to {}", last.index, pin.index, pin.records);
        (FindingKind::RunEdited, detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        entry::RecordCount,
        name::{Outcome, RunId, TenantId},
    };

    fn head(records: u64, chain: u8) -> Head {
        Head {
            chain: ChainHash::from_bytes([chain; 32]),
            records: RecordCount::new(records).unwrap(),
            run: RunId::new("run-1").unwrap(),
            tenant: TenantId::new("acme").unwrap(),
        }
    }

    fn seal(records: u64, chain: u8) -> Seal {
        let Head { chain, records, run, tenant } = head(records, chain);
        Seal { chain, outcome: Outcome::new("succeeded").unwrap(), records, run, tenant }
    }

    fn kind(finding: Option<Finding>) -> Option<(FindingKind, u64)> {
        finding.map(|finding| {
            assert_eq!(finding.run.unwrap().as_str(), "run-1");
            (finding.kind, finding.index.unwrap())
        })
    }

    #[test]
    fn heads_and_a_seal_follow_one_another() {
        let mut pins = RunPins::new();
        assert_eq!(pins.last(), None);
        assert_eq!(pins.take_head(2, &head(3, 1)), None);
        assert_eq!(pins.take_head(4, &head(3, 1)), None);
        assert_eq!(pins.take_head(5, &head(7, 2)), None);
        assert_eq!(pins.last().map(|pin| (pin.index, pin.records)), Some((5, 7)));
        assert_eq!(pins.take_seal(9, &seal(7, 2)), None);
        assert_eq!(pins.seal().map(|(index, seal)| (index, seal.records.get())), Some((9, 7)));
        assert_eq!(pins.last().map(|pin| (pin.index, pin.records)), Some((9, 7)));
    }

    #[test]
    fn a_head_after_the_seal_is_a_finding() {
        let mut pins = RunPins::new();
        pins.take_seal(1, &seal(5, 1));
        assert_eq!(kind(pins.take_head(2, &head(6, 2))), Some((FindingKind::HeadAfterSeal, 2)));
        assert_eq!(pins.heads(), []);
    }

    #[test]
    fn a_head_with_fewer_records_is_a_finding() {
        let mut pins = RunPins::new();
        pins.take_head(1, &head(5, 1));
        assert_eq!(kind(pins.take_head(2, &head(4, 2))), Some((FindingKind::HeadRegressed, 2)));
        assert_eq!(pins.heads().len(), 1);
        assert_eq!(kind(pins.take_seal(3, &seal(4, 2))), Some((FindingKind::RunTruncated, 3)));
    }

    #[test]
    fn one_number_of_records_has_one_chain() {
        let mut pins = RunPins::new();
        pins.take_head(1, &head(5, 1));
        assert_eq!(kind(pins.take_head(2, &head(5, 2))), Some((FindingKind::RunEdited, 2)));
        assert_eq!(kind(pins.take_seal(3, &seal(5, 2))), Some((FindingKind::RunEdited, 3)));
    }

    #[test]
    fn a_second_seal_is_a_finding_and_the_first_one_stays() {
        let mut pins = RunPins::new();
        pins.take_seal(1, &seal(5, 1));
        assert_eq!(kind(pins.take_seal(2, &seal(5, 1))), Some((FindingKind::SealDuplicate, 2)));
        assert_eq!(pins.seal().unwrap().0, 1);
    }
}

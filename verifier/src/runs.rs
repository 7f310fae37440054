//! One run: its records against the entries that the log holds of it.

mod pinned;

use runseal_evidence::amount::amount;
use runseal_evidence::chain::{Ahead, Chain, ChainFault};
use runseal_evidence::export::RecordAccount;
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::{Outcome, RunId};
use runseal_evidence::payload::Meaning;
use runseal_evidence::report::{NotChecked, Report};
use runseal_evidence::steps::{CommitmentFault, StepsCommitment};

pub use self::pinned::{Pin, Pinned};
use crate::steps::{self, Against, Held};

/// Faults named of one run; after these it is clear enough.
const FAULTS_MAX: usize = 8;

/// A run's records, checked as they come by.
#[derive(Debug)]
pub struct RunCheck<'k> {
    /// In the order that the chain comes by them.
    pins: Vec<Pin>,
    seal: Option<(Pin, Outcome)>,
    next_pin: usize,
    chain: Chain,
    against: &'k Against,
    /// What the last record taken says of the run's steps, where it concludes the run.
    steps: Option<Box<Result<StepsCommitment, CommitmentFault>>>,
    last_seq: u64,
    first_contradiction: Option<u64>,
    last_good_pin: Option<u64>,
    broken_pin: Option<Pin>,
    findings: Vec<Finding>,
    gaps: Vec<NotChecked>,
    signed: u64,
}

/// What checking a run came to.
#[derive(Debug, Default)]
pub struct RunResult {
    /// What was found.
    pub findings: Vec<Finding>,
    /// What could not be checked.
    pub gaps: Vec<NotChecked>,
    /// Records read.
    pub records: u64,
    /// Records past the last entry of an open run.
    pub unpinned: u64,
    /// Records that carry a signature which no key was given for.
    pub signed: u64,
    /// What the run's conclusion and its steps came to.
    pub steps: Held,
}

impl<'k> RunCheck<'k> {
    /// Starts before the first record.
    pub fn new(pinned: Pinned, against: &'k Against) -> Self {
        let Pinned { tenant, run, seal, heads: mut pins } = pinned;
        pins.extend(seal.iter().map(|(pin, _)| *pin));
        pins.sort_by_key(|pin| (pin.records, pin.index));
        Self {
            pins,
            seal,
            next_pin: 0,
            chain: Chain::new(tenant, run),
            against,
            steps: None,
            last_seq: 0,
            first_contradiction: None,
            last_good_pin: None,
            broken_pin: None,
            findings: Vec::new(),
            gaps: Vec::new(),
            signed: 0,
        }
    }

    /// What the log says of the run.
    pub fn pinned(&self) -> Pinned {
        let mut pinned = Pinned::new(self.chain.tenant().clone(), self.run().clone());
        let is_head = |pin: &&Pin| self.seal.as_ref().is_none_or(|(seal, _)| **pin != *seal);
        pinned.heads = self.pins.iter().filter(is_head).copied().collect();
        pinned.heads.sort_by_key(|pin| pin.index);
        pinned.seal.clone_from(&self.seal);
        pinned
    }

    /// The run.
    pub fn run(&self) -> &RunId {
        self.chain.run()
    }

    /// Records taken.
    pub fn count(&self) -> u64 {
        self.chain.count()
    }

    /// Takes the next record: its wire bytes, what its line says of it, and its hash as the line would have it.
    pub fn push(&mut self, raw: &[u8], line: &RecordAccount, ahead: Ahead) {
        let before = self.chain.head();
        let pushed = self.chain.push_ahead(raw, ahead);
        let count = self.chain.count();
        // The store's own account tells where an edit was made, unless the editor saw to it too.
        if self.first_contradiction.is_none()
            && (line.prev != before || line.hash != self.chain.head() || line.seq != count)
        {
            self.first_contradiction = Some(count);
            if line.prev != before && count > 1 {
                let detail = format!("record {count} is not linked to the record before it");
                self.fault(FindingKind::ChainBroken, Some(count), detail);
            }
        }
        match &pushed {
            Ok(record) => {
                self.last_seq = self.last_seq.max(record.seq());
                let concludes = record.kind() == Meaning::RUN_CONCLUDED;
                let commitment = if concludes { StepsCommitment::of_record(record) } else { Ok(None) };
                self.steps = commitment.transpose().map(Box::new);
            }
            Err(fault) => {
                self.steps = None;
                self.chain_fault(fault, count);
            }
        }
        self.signature(line, count);
        while let Some(pin) = self.pins.get(self.next_pin).copied().filter(|pin| pin.records == count) {
            self.next_pin += 1;
            if pin.chain == self.chain.head() {
                self.last_good_pin = Some(count);
            } else if self.broken_pin.is_none() {
                self.broken_pin = Some(pin);
            }
        }
    }

    fn chain_fault(&mut self, fault: &ChainFault, count: u64) {
        if fault.is_skew() {
            let what = format!("record {count} of run {}", self.run());
            return self.gaps.push(NotChecked::gap(what, format!("{fault}: use a newer runseal-verifier")));
        }
        match fault {
            ChainFault::WrongTenant { seq, .. } => {
                self.fault(FindingKind::TenantMismatch, Some(*seq), fault.to_string());
            }
            ChainFault::Gap { found, .. } => {
                self.last_seq = self.last_seq.max(*found);
                self.fault(FindingKind::ChainBroken, Some(*found), fault.to_string());
            }
            ChainFault::WrongRun { seq, .. } | ChainFault::EpochDecreased { seq, .. } => {
                self.fault(FindingKind::ChainBroken, Some(*seq), fault.to_string());
            }
            _ => self.fault(FindingKind::Malformed, Some(count), fault.to_string()),
        }
    }

    fn signature(&mut self, line: &RecordAccount, count: u64) {
        let detail = match &line.signature {
            None if self.against.record_keys.is_empty() => return,
            None => "the record carries no signature".to_owned(),
            Some(_) if self.against.record_keys.is_empty() => {
                self.signed += 1;
                return;
            }
            Some(signature) => {
                match self.against.record_keys.iter().find(|key| key.key_id() == signature.key_id) {
                    None => format!("the record is signed by key {}, which was not given", signature.key_id),
                    Some(key) => match key.verify(&self.chain.head(), signature) {
                        Ok(()) => return,
                        Err(error) => error.to_string(),
                    },
                }
            }
        };
        self.fault(FindingKind::SignatureInvalid, Some(count), detail);
    }

    fn fault(&mut self, kind: FindingKind, seq: Option<u64>, detail: String) {
        if self.findings.len() < FAULTS_MAX {
            let finding = Finding::new(kind, detail).in_run(self.run());
            self.findings.push(match seq {
                Some(seq) => finding.at_seq(seq),
                None => finding,
            });
        }
    }

    /// Judges the run once its last record was taken.
    pub fn finish(&mut self) -> RunResult {
        let count = self.chain.count();
        let pinned = self.pins.last().copied();
        if let Some(pin) = self.broken_pin {
            self.edited(pin);
        } else if let Some(pin) = pinned.filter(|pin| pin.records > count) {
            // Records cut from the middle leave a higher number behind.
            let missing = pin.records - count;
            if self.last_seq >= pin.records {
                let detail = format!("{missing} of {} gone from the middle", amount(pin.records, "record"));
                self.found(FindingKind::RunEdited, pin.index, None, detail);
            } else {
                let detail = format!(
                    "the log pins {} at index {}, the source has {count}: from record {} on they are gone",
                    amount(pin.records, "record"),
                    pin.index,
                    count + 1
                );
                self.found(FindingKind::RunTruncated, pin.index, Some(count + 1), detail);
            }
        } else if self.first_contradiction.is_some() && self.findings.is_empty() {
            // No pin speaks for the place, but the store's own hashes do.
            let detail = "the stored hashes are not those of the records".to_owned();
            self.fault(FindingKind::ChainBroken, self.first_contradiction, detail);
        }
        self.seal(count);
        let (file, of) = (self.against.steps.as_deref(), self.steps.take().map(|steps| *steps).transpose());
        let mut steps = steps::hold(file, self.chain.tenant(), self.run(), of);
        if !steps.findings.is_empty() {
            let index = self.pinned().index();
            for finding in &mut steps.findings {
                (finding.index, finding.seq) = (index, Some(count));
            }
        }
        let unpinned = count.saturating_sub(pinned.map_or(0, |pin| pin.records));
        RunResult {
            unpinned: if self.seal.is_some() { 0 } else { unpinned },
            findings: std::mem::take(&mut self.findings),
            gaps: std::mem::take(&mut self.gaps),
            records: count,
            signed: self.signed,
            steps,
        }
    }

    fn edited(&mut self, pin: Pin) {
        let place = match (self.first_contradiction, self.last_good_pin) {
            (Some(seq), _) => format!("; by the store's own hashes record {seq} is the first changed"),
            (None, Some(good)) => {
                format!("; up to record {good} all is as pinned, and the store's hashes were made to fit")
            }
            (None, None) => "; the store's hashes were made to fit".to_owned(),
        };
        let detail = format!(
            "the run up to record {} does not give the chain that the log pins at index {}{place}",
            pin.records, pin.index
        );
        self.found(FindingKind::RunEdited, pin.index, self.first_contradiction, detail);
    }

    fn found(&mut self, kind: FindingKind, index: u64, seq: Option<u64>, detail: String) {
        let finding = Finding::new(kind, detail).in_run(self.run()).at_index(index);
        // What the log pins comes first; the places found on the way explain it.
        self.findings.insert(
            0,
            match seq {
                Some(seq) => finding.at_seq(seq),
                None => finding,
            },
        );
    }

    fn seal(&mut self, count: u64) {
        let Some((Pin { records, index, chain }, outcome)) = &self.seal else { return };
        let (index, sealed) = (*index, *records);
        let concluded = self.chain.conclusion();
        if count > sealed {
            let detail = format!(
                "{} beyond the {sealed} that the seal at index {index} covers",
                amount(count - sealed, "record")
            );
            self.found(FindingKind::RunEdited, index, Some(sealed + 1), detail);
        } else if count == sealed
            && *chain == self.chain.head()
            && concluded != Some(outcome)
            && self.gaps.is_empty()
        {
            let concluded = concluded.map_or("nothing", |outcome| outcome.as_str());
            let detail =
                format!("the seal at index {index} says {outcome}, the last record concludes {concluded}");
            self.found(FindingKind::RunEdited, index, Some(sealed), detail);
        }
    }
}

/// How the runs of an audit or an export stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsStanding {
    /// All of them were checked and are as the log holds them.
    Sound,
    /// At least one is not.
    Contradicted,
    /// None is known not to be, but not all could be checked.
    NotChecked,
    /// All of them are as entries hold them that no trusted signature vouches for.
    Unvouched,
}

impl RunsStanding {
    /// How they stand where something was `found`, or not all could be checked.
    pub const fn of(found: bool, gaps: bool) -> Self {
        match (found, gaps) {
            (true, _) => Self::Contradicted,
            (false, true) => Self::NotChecked,
            (false, false) => Self::Sound,
        }
    }
}

/// Says what checking the records of all runs came to.
pub fn close(report: &mut Report, standing: RunsStanding, unpinned: u64, signed: u64) {
    let (runs, records) = (amount(report.counts.runs, "run"), amount(report.counts.records, "record"));
    match standing {
        RunsStanding::Sound => {
            report.passed("records", format!("{records} of {runs}, with the chains that the log holds"));
        }
        RunsStanding::Contradicted => {
            report.failed("records", format!("looked at {runs}; not all are as the log holds them"));
        }
        RunsStanding::Unvouched => {
            let whose = "with the chains of entries that no trusted signature vouches for";
            report.skipped("records", format!("{records} of {runs}, {whose}"));
        }
        RunsStanding::NotChecked => {
            report.skipped("records", format!("looked at {runs}; not all could be checked"));
        }
    }
    if unpinned > 0 {
        let what = format!("the newest records of {}", amount(unpinned, "open run"));
        let why = "no entry of their run pins them yet; a later checkpoint will";
        report.not_checked.push(NotChecked::out_of_scope(what, why));
    }
    if signed > 0 {
        let what = format!("the signatures of {}", amount(signed, "record"));
        report.not_checked.push(NotChecked::out_of_scope(what, "no --record-key was given"));
    }
}

//! Holding the stored records of one run against themselves and against what the log says of the run.

use crate::{
    chain::{Chain, ChainFault, ChainHash},
    export::ExportRecord,
    finding::{Finding, FindingKind},
    name::{RunId, TenantId},
    pins::RunPins,
    record::Record,
    report::NotChecked,
};

/// Most findings that one run adds to a report. Further ones are counted in one last finding.
pub const FINDINGS_MAX: usize = 32;

/// A record as a store has it.
#[derive(Debug, Clone, Copy)]
pub struct StoredRecord<'a> {
    /// Its number, by the store's account.
    pub seq: u64,
    /// Its wire bytes.
    pub raw: &'a [u8],
    /// The chain hash before it, by the store's account.
    pub prev: ChainHash,
    /// Its chain hash, by the store's account.
    pub hash: ChainHash,
}

impl<'a> From<&'a ExportRecord> for StoredRecord<'a> {
    fn from(record: &'a ExportRecord) -> Self {
        Self { seq: record.seq, raw: record.raw.as_bytes(), prev: record.prev, hash: record.hash }
    }
}

/// Checks one run: its records are pushed in the order the store gives them, then the check is finished.
///
/// A record has at most one finding, the one that says most: that its bytes are not the ones hashed, that the
/// records before it are not the ones it follows, or that it is no record of this run. The store's own account
/// (`prev`, `hash`) is checked link by link, so that one edit is one finding; the pins of the log are checked
/// against the chain recomputed from the bytes alone, so that an edit whose hashes were made anew shows too.
#[derive(Debug)]
pub struct RunCheck<'p> {
    chain: Chain,
    pins: &'p RunPins,
    /// How many heads of the pins have been held against the chain.
    heads_checked: usize,
    /// How many records the last head that matched covers.
    records_matched: u64,
    /// The hash of the last record, by the store's account.
    stored_head: ChainHash,
    findings: Vec<Finding>,
    findings_beyond: u64,
    /// Whether a finding says already that the bytes are not the ones pinned.
    is_edited: bool,
    is_foreign: bool,
    skew: Option<(u64, ChainFault)>,
    skewed: u64,
    last_is_skewed: bool,
}

/// What the check of a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunChecked {
    /// What was found, in the order of the records.
    pub findings: Vec<Finding>,
    /// What could not be checked: records of a version this build does not read.
    pub not_checked: Vec<NotChecked>,
    /// How many records the store gave.
    pub records: u64,
    /// How many of the last records no entry of the log pins yet. Their deletion would not show.
    pub unpinned: u64,
    /// The chain hash recomputed from the bytes.
    pub head: ChainHash,
}

impl<'p> RunCheck<'p> {
    /// Starts the check of `run`, of which the log says `pins`.
    pub fn new(tenant: TenantId, run: RunId, pins: &'p RunPins) -> Self {
        let chain = Chain::new(tenant, run);
        Self {
            stored_head: chain.head(),
            chain,
            pins,
            heads_checked: 0,
            records_matched: 0,
            findings: Vec::new(),
            findings_beyond: 0,
            is_edited: false,
            is_foreign: false,
            skew: None,
            skewed: 0,
            last_is_skewed: false,
        }
    }

    /// Takes the next record. It comes back parsed where it is a sound one.
    pub fn push(&mut self, stored: StoredRecord<'_>) -> Option<Record> {
        let follows = stored.prev == self.stored_head;
        let head_before = self.chain.head();
        let parsed = self.chain.push(stored.raw);
        let is_own_hash = stored.hash
            == if stored.prev == head_before { self.chain.head() } else { stored.prev.link(stored.raw) };
        self.stored_head = stored.hash;
        self.last_is_skewed = matches!(&parsed, Err(fault) if fault.is_skew());

        let seq = stored.seq;
        let found = match &parsed {
            // Said once for the run.
            Err(fault @ ChainFault::WrongTenant { .. }) if !self.is_foreign => {
                self.is_foreign = true;
                Some((FindingKind::TenantMismatch, fault.to_string()))
            }
            _ if !is_own_hash => Some((
                FindingKind::RunEdited,
                format!("record {seq} does not have the hash it is stored with"),
            )),
            Err(fault @ ChainFault::Gap { .. }) => Some((FindingKind::ChainBroken, fault.to_string())),
            _ if !follows => {
                Some((FindingKind::ChainBroken, format!("record {seq} does not follow the record before it")))
            }
            Ok(record) if record.stamp.seq != seq => {
                let text = format!("the record stored as {seq} says that it is record {}", record.stamp.seq);
                Some((FindingKind::ChainBroken, text))
            }
            Ok(_) | Err(ChainFault::WrongTenant { .. }) => None,
            Err(fault) if fault.is_skew() => {
                self.skewed += 1;
                self.skew.get_or_insert_with(|| (seq, fault.clone()));
                None
            }
            Err(ChainFault::Record(error)) => Some((FindingKind::Malformed, error.to_string())),
            Err(fault) => Some((FindingKind::ChainBroken, fault.to_string())),
        };
        if let Some((kind, detail)) = found {
            let finding = self.finding(kind, detail).at_seq(seq);
            self.keep(finding);
        }
        self.check_heads();
        parsed.ok()
    }

    /// The chain hash of the last record taken, recomputed from the bytes. A signature is over this hash.
    pub fn head(&self) -> ChainHash {
        self.chain.head()
    }

    /// Ends the check: the store has no more records of the run.
    pub fn finish(mut self) -> RunChecked {
        let records = self.chain.count();
        let last = self.pins.last();
        match last {
            Some(pin) if records == 0 => {
                let text =
                    format!("entry {} vouches for {} records, and there is none", pin.index, pin.records);
                self.found_at_index(FindingKind::RunDeleted, pin.index, text);
            }
            Some(pin) if records < pin.records => {
                let (from, to) = (records + 1, pin.records);
                let text = format!("records {from} to {to}, which entry {} vouches for, are gone", pin.index);
                let finding = self.finding(FindingKind::RunTruncated, text).at_index(pin.index).at_seq(from);
                self.keep(finding);
            }
            None if records == 0 => {
                let finding = self.finding(FindingKind::Malformed, "the run has no records".to_owned());
                self.keep(finding);
            }
            _ => self.check_seal(),
        }
        let unpinned = records.saturating_sub(last.map_or(0, |pin| pin.records));
        if self.findings_beyond > 0 {
            let kind = self.findings.last().map_or(FindingKind::ChainBroken, |finding| finding.kind);
            let text = format!("{} more findings in this run", self.findings_beyond);
            self.findings.push(self.finding(kind, text));
        }
        let not_checked = self.skew.take().map(|(seq, fault)| {
            let what = format!("run {}: {} of {records} records", self.chain.run(), self.skewed);
            NotChecked::gap(what, format!("from record {seq} on: {fault}"))
        });
        RunChecked {
            findings: self.findings,
            not_checked: not_checked.into_iter().collect(),
            records,
            unpinned,
            head: self.chain.head(),
        }
    }

    /// Holds the heads that pin the records so far against the chain.
    fn check_heads(&mut self) {
        while let Some(pin) = self.pins.heads().get(self.heads_checked) {
            if pin.records != self.chain.count() {
                break;
            }
            self.heads_checked += 1;
            if pin.chain == self.chain.head() {
                self.records_matched = pin.records;
            } else {
                self.edited(pin.index, pin.records);
            }
        }
    }

    /// Holds the run as a whole against its seal.
    fn check_seal(&mut self) {
        let Some((index, seal)) = self.pins.seal() else { return };
        let (records, sealed) = (self.chain.count(), seal.records.get());
        if records > sealed {
            let text = format!("{} records follow the {sealed} that entry {index} seals", records - sealed);
            let finding = self.finding(FindingKind::RunEdited, text).at_index(index).at_seq(sealed + 1);
            self.keep(finding);
        } else if self.chain.head() != seal.chain {
            self.edited(index, sealed);
        } else if self.chain.conclusion() != Some(&seal.outcome) && !self.last_is_skewed {
            let concluded = self
                .chain
                .conclusion()
                .map_or("no conclusion".to_owned(), |outcome| format!("{:?}", outcome.as_str()));
            let text = format!(
                "entry {index} seals outcome {:?}, the last record holds {concluded}",
                seal.outcome.as_str()
            );
            self.found_at_index(FindingKind::Malformed, index, text);
        }
    }

    /// The records up to `to` are not the ones that entry `index` vouches for. An edit that was found already
    /// explains this, and so does the first pin of several that fail.
    fn edited(&mut self, index: u64, to: u64) {
        if !self.is_edited {
            let from = self.records_matched + 1;
            let text = format!("records {from} to {to} are not the ones that entry {index} vouches for");
            self.found_at_index(FindingKind::RunEdited, index, text);
        }
    }

    fn finding(&self, kind: FindingKind, detail: String) -> Finding {
        Finding::new(kind, detail).in_run(self.chain.run())
    }

    fn found_at_index(&mut self, kind: FindingKind, index: u64, detail: String) {
        let finding = self.finding(kind, detail).at_index(index);
        self.keep(finding);
    }

    fn keep(&mut self, finding: Finding) {
        self.is_edited |= matches!(
            finding.kind,
            FindingKind::RunEdited | FindingKind::ChainBroken | FindingKind::TenantMismatch
        );
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.findings_beyond += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        entry::{Head, RecordCount, Seal},
        name::Outcome,
    };

    /// A stored run that can be damaged.
    #[derive(Clone)]
    struct Stored(Vec<(u64, String, ChainHash, ChainHash)>);

    fn tenant() -> TenantId {
        TenantId::new("acme").unwrap()
    }

    fn run() -> RunId {
        RunId::new("run-1").unwrap()
    }

    fn raw(seq: u64, kind: &str, payload: &str) -> String {
        format!(
            r#"{{"at":"2026-11-30T15:51:19.123Z","epoch":1,"kind":"{kind}","payload":{payload},"run":"run-1","seq":{seq},"tenant":"acme","v":1}}"#
        )
    }

    impl Stored {
        /// A concluded run of `records` records.
        fn new(records: u64) -> Self {
            let mut stored =
                Self((1..records).map(|seq| Self::row(seq, raw(seq, "Note", "{\"n\":1}"))).collect());
            stored.0.push(Self::row(records, raw(records, "RunConcluded", r#"{"outcome":"succeeded"}"#)));
            stored.rehash(0);
            stored
        }

        fn row(seq: u64, raw: String) -> (u64, String, ChainHash, ChainHash) {
            (seq, raw, ChainHash::from_bytes([0; 32]), ChainHash::from_bytes([0; 32]))
        }

        /// Makes the hashes from `index` on fit the bytes.
        fn rehash(&mut self, index: usize) {
            let before = index.checked_sub(1).map(|before| self.0[before].3);
            let mut head = before.unwrap_or_else(|| ChainHash::genesis(&tenant(), &run()));
            for (_, raw, prev, hash) in &mut self.0[index..] {
                *prev = head;
                head = head.link(raw.as_bytes());
                *hash = head;
            }
        }

        fn edit(&mut self, index: usize) {
            self.0[index].1 = self.0[index].1.replace("\"n\":1", "\"n\":2");
        }

        /// Pins of heads after so many records each, and of a seal over all where `sealed`.
        fn pins(&self, heads: &[u64], sealed: bool) -> RunPins {
            let mut pins = RunPins::new();
            let count = |records| RecordCount::new(records).unwrap();
            let chain = |records: u64| self.0[usize::try_from(records).unwrap() - 1].3;
            let mut index = 10;
            for &records in heads {
                let head =
                    Head { chain: chain(records), records: count(records), run: run(), tenant: tenant() };
                assert_eq!(pins.take_head(index, &head), None);
                index += 1;
            }
            if sealed {
                let records = self.0.len() as u64;
                let outcome = Outcome::new("succeeded").unwrap();
                let seal = Seal {
                    chain: chain(records),
                    outcome,
                    records: count(records),
                    run: run(),
                    tenant: tenant(),
                };
                assert_eq!(pins.take_seal(index, &seal), None);
            }
            pins
        }

        fn check(&self, pins: &RunPins) -> RunChecked {
            let mut check = RunCheck::new(tenant(), run(), pins);
            for (seq, raw, prev, hash) in &self.0 {
                check.push(StoredRecord { seq: *seq, raw: raw.as_bytes(), prev: *prev, hash: *hash });
            }
            check.finish()
        }

        /// Kind, index and record of each finding.
        fn findings(&self, pins: &RunPins) -> Vec<(FindingKind, Option<u64>, Option<u64>)> {
            let findings = self.check(pins).findings;
            assert!(findings.iter().all(|finding| finding.run == Some(run())));
            findings.iter().map(|finding| (finding.kind, finding.index, finding.seq)).collect()
        }
    }

    use FindingKind::*;

    #[test]
    fn a_sound_run_has_no_findings() {
        let stored = Stored::new(6);
        for pins in [stored.pins(&[], false), stored.pins(&[2, 2, 5], false), stored.pins(&[3], true)] {
            let checked = stored.check(&pins);
            assert_eq!((checked.findings, checked.not_checked, checked.records), (vec![], vec![], 6));
            assert_eq!(checked.head, stored.0[5].3);
        }
        assert_eq!(stored.check(&stored.pins(&[2, 5], false)).unpinned, 1);
        assert_eq!(stored.check(&stored.pins(&[], false)).unpinned, 6);
        assert_eq!(stored.check(&stored.pins(&[], true)).unpinned, 0);
    }

    #[test]
    fn an_edit_that_keeps_the_hashes_is_found_at_its_record_and_once() {
        let sound = Stored::new(6);
        for pins in [sound.pins(&[], false), sound.pins(&[2, 4, 5], false), sound.pins(&[3], true)] {
            let mut stored = sound.clone();
            stored.edit(2);
            assert_eq!(stored.findings(&pins), [(RunEdited, None, Some(3))]);
        }
        let mut stored = sound.clone();
        stored.edit(0);
        stored.edit(4);
        assert_eq!(
            stored.findings(&sound.pins(&[], true)),
            [(RunEdited, None, Some(1)), (RunEdited, None, Some(5))]
        );
    }

    #[test]
    fn an_edit_with_new_hashes_is_found_by_the_first_pin_after_it() {
        let sound = Stored::new(6);
        let mut stored = sound.clone();
        stored.edit(2);
        stored.rehash(2);
        assert_eq!(stored.findings(&sound.pins(&[], true)), [(RunEdited, Some(10), None)]);
        assert_eq!(stored.findings(&sound.pins(&[2, 4, 5], true)), [(RunEdited, Some(11), None)]);
        let detail = &stored.check(&sound.pins(&[2, 4, 5], true)).findings[0].detail;
        assert_eq!(detail, "records 3 to 4 are not the ones that entry 11 vouches for");
        // Nothing vouches for the records after the last pin.
        assert_eq!(stored.findings(&sound.pins(&[2], false)), []);
    }

    #[test]
    fn a_cut_tail_is_truncation_and_nothing_left_is_deletion() {
        let sound = Stored::new(6);
        let mut stored = sound.clone();
        stored.0.truncate(3);
        assert_eq!(stored.findings(&sound.pins(&[], true)), [(RunTruncated, Some(10), Some(4))]);
        assert_eq!(stored.findings(&sound.pins(&[2, 5], false)), [(RunTruncated, Some(11), Some(4))]);
        assert_eq!(stored.findings(&sound.pins(&[3], false)), []);
        stored.0.clear();
        assert_eq!(stored.findings(&sound.pins(&[2, 5], false)), [(RunDeleted, Some(11), None)]);
        assert_eq!(stored.findings(&sound.pins(&[], true)), [(RunDeleted, Some(10), None)]);
        assert_eq!(stored.findings(&RunPins::new()), [(Malformed, None, None)]);
    }

    #[test]
    fn a_record_taken_out_or_moved_breaks_the_chain() {
        let sound = Stored::new(6);
        let pins = sound.pins(&[2], true);
        let mut stored = sound.clone();
        stored.0.remove(2);
        assert_eq!(stored.findings(&pins)[0], (ChainBroken, None, Some(4)));
        let mut stored = sound.clone();
        stored.0.swap(2, 3);
        assert_eq!(stored.findings(&pins)[0], (ChainBroken, None, Some(4)));
        let mut stored = sound.clone();
        stored.0[3].2 = ChainHash::from_bytes([9; 32]);
        assert_eq!(stored.findings(&pins), [(RunEdited, None, Some(4))]);
        let mut stored = sound.clone();
        stored.0[3].0 = 7;
        assert_eq!(stored.findings(&pins), [(ChainBroken, None, Some(7))]);
        // Two chains, each sound in itself, one after the other.
        let mut stored = sound.clone();
        stored.0[3].2 = ChainHash::from_bytes([9; 32]);
        stored.0[3].3 = ChainHash::from_bytes([9; 32]).link(stored.0[3].1.as_bytes());
        assert_eq!(stored.findings(&pins)[0], (ChainBroken, None, Some(4)));
    }

    #[test]
    fn records_after_the_seal_are_found() {
        let sound = Stored::new(6);
        let mut stored = sound.clone();
        stored.0.push(Stored::row(7, raw(7, "Note", "1")));
        stored.rehash(6);
        assert_eq!(stored.findings(&sound.pins(&[], true)), [(RunEdited, Some(10), Some(7))]);
    }

    #[test]
    fn a_seal_states_the_outcome_of_the_last_record() {
        let mut stored = Stored::new(3);
        stored.0[2].1 = stored.0[2].1.replace("succeeded", "failed");
        stored.rehash(2);
        assert_eq!(stored.findings(&stored.pins(&[], true)), [(Malformed, Some(10), None)]);
        stored.0[2].1 = raw(3, "Note", "1");
        stored.rehash(2);
        let checked = stored.check(&stored.pins(&[], true));
        assert_eq!(
            checked.findings[0].detail,
            "entry 10 seals outcome \"succeeded\", the last record holds no conclusion"
        );
    }

    #[test]
    fn another_tenants_records_are_said_once() {
        let mut stored = Stored::new(40);
        for (_, raw, ..) in &mut stored.0 {
            *raw = raw.replace("acme", "evil");
        }
        stored.rehash(0);
        assert_eq!(stored.findings(&stored.pins(&[], false)), [(TenantMismatch, None, Some(1))]);
        // Shown under another tenant as they were stored, they start from another genesis.
        let moved = Stored::new(2);
        let pins = RunPins::new();
        let mut check = RunCheck::new(TenantId::new("evil").unwrap(), run(), &pins);
        for (seq, raw, prev, hash) in &moved.0 {
            assert_eq!(
                check.push(StoredRecord { seq: *seq, raw: raw.as_bytes(), prev: *prev, hash: *hash }),
                None
            );
        }
        assert_eq!(check.finish().findings[0].kind, TenantMismatch);
    }

    #[test]
    fn another_runs_records_break_the_chain() {
        let mut stored = Stored::new(2);
        stored.0[0].1 = stored.0[0].1.replace("run-1", "run-2");
        stored.rehash(0);
        assert_eq!(stored.findings(&RunPins::new()), [(ChainBroken, None, Some(1))]);
    }

    #[test]
    fn damaged_bytes_under_their_own_hash_are_malformed() {
        let mut stored = Stored::new(3);
        stored.0[1].1 = "junk".to_owned();
        stored.rehash(1);
        assert_eq!(stored.findings(&stored.pins(&[], true)), [(Malformed, None, Some(2))]);
    }

    #[test]
    fn records_of_a_later_version_are_hashed_and_said_to_be_unread() {
        let mut stored = Stored::new(4);
        for row in [1, 3] {
            stored.0[row].1 = stored.0[row].1.replace("\"v\":1", "\"v\":2");
        }
        stored.rehash(0);
        let pins = stored.pins(&[2], true);
        let checked = stored.check(&pins);
        assert_eq!(checked.findings, []);
        assert_eq!(checked.not_checked.len(), 1);
        assert_eq!(checked.not_checked[0].what, "run run-1: 2 of 4 records");
        assert!(
            checked.not_checked[0].is_gap && checked.not_checked[0].why.starts_with("from record 2 on: ")
        );
        stored.edit(1);
        assert_eq!(stored.findings(&pins), [(RunEdited, None, Some(2))]);
    }

    #[test]
    fn the_findings_of_a_run_are_bounded() {
        let mut stored = Stored::new(200);
        for row in 0..100 {
            stored.edit(row);
        }
        let findings = stored.check(&RunPins::new()).findings;
        assert_eq!(findings.len(), FINDINGS_MAX + 1);
        assert_eq!(findings[FINDINGS_MAX].detail, "68 more findings in this run");
    }

    #[test]
    fn no_single_changed_byte_of_a_pinned_run_goes_unnoticed() {
        let sound = Stored::new(3);
        let pins = sound.pins(&[2], true);
        for row in 0..3 {
            for at in 0..sound.0[row].1.len() {
                let mut stored = sound.clone();
                let mut bytes = stored.0[row].1.clone().into_bytes();
                bytes[at] ^= 1;
                stored.0[row].1 = String::from_utf8(bytes).unwrap();
                assert!(!stored.check(&pins).findings.is_empty(), "byte {at} of record {row}");
                stored.rehash(row);
                assert!(!stored.check(&pins).findings.is_empty(), "byte {at} of record {row}, rehashed");
            }
        }
    }
}

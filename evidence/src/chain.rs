//! The hash chain of a run.
//!
//! ```text
//! genesis(tenant, run) = SHA-256("runseal/run/v1\n" || u16be(len tenant) || tenant || u16be(len run) || run)
//! hash(record)         = SHA-256("runseal/record/v1\n" || hash of the record before, or genesis || wire bytes)
//! ```
//!
//! The genesis names tenant and run, so a chain cannot be shown as another's.

use std::{fmt, str::FromStr};

use runseal_tlog::sha256;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    name::{Outcome, RunId, TenantId},
    payload::Meaning,
    record::{Record, RecordError, RecordView},
};

/// `SHA-256(label ‖ u16be(bytes of tenant) ‖ tenant ‖ u16be(bytes of run) ‖ run)`: where a chain of a run starts.
pub(crate) fn genesis(label: &str, tenant: &TenantId, run: &RunId) -> [u8; 32] {
    let length = |name: &str| u16::try_from(name.len()).expect("names have at most 64 bytes").to_be_bytes();
    let (tenant, run) = (tenant.as_str(), run.as_str());
    sha256([label.as_bytes(), &length(tenant), tenant.as_bytes(), &length(run), run.as_bytes()])
}

/// A point of a chain: the genesis, or the hash of a record. Spelled as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainHash([u8; 32]);

impl ChainHash {
    /// Where the chain of `run` starts.
    pub fn genesis(tenant: &TenantId, run: &RunId) -> Self {
        Self(genesis("runseal/run/v1\n", tenant, run))
    }

    /// The hash of the record whose wire bytes are `raw` and which follows `self`.
    #[must_use]
    pub fn link(self, raw: &[u8]) -> Self {
        Self(sha256([RECORD_PREFIX, &self.0, raw]))
    }

    /// A hash that was stored or received.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// What a record's hash is over, before the hash of the record before it.
const RECORD_PREFIX: &[u8; 18] = b"runseal/record/v1\n";

/// The text is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a chain hash is 64 lower-case hexadecimal digits")]
pub struct ChainHashError;

impl ChainHash {
    /// Reads 64 lower-case hexadecimal digits.
    pub(crate) fn from_hex(digits: &[u8; 64]) -> Result<Self, ChainHashError> {
        // Without a branch or a table in the loops, the compiler looks at many digits at once.
        let mut values = [0; 64];
        let mut wrong = 0;
        for (value, digit) in values.iter_mut().zip(digits) {
            let (decimal, letter) = (digit.wrapping_sub(b'0'), digit.wrapping_sub(b'a'));
            let (is_decimal, is_letter) = (u8::from(decimal < 10), u8::from(letter < 6));
            *value = decimal & is_decimal.wrapping_neg() | letter.wrapping_add(10) & is_letter.wrapping_neg();
            wrong |= 1 ^ (is_decimal | is_letter);
        }
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(values.as_chunks::<2>().0) {
            *byte = high << 4 | low;
        }
        if wrong == 0 { Ok(Self(bytes)) } else { Err(ChainHashError) }
    }

    /// Whether [`Self::from_hex`] reads them.
    pub(crate) fn is_hex(digits: &[u8; 64]) -> bool {
        let is_digit = |digit: u8| digit.wrapping_sub(b'0') < 10 || digit.wrapping_sub(b'a') < 6;
        digits.iter().fold(true, |all, digit| all & is_digit(*digit))
    }
}

impl FromStr for ChainHash {
    type Err = ChainHashError;

    fn from_str(text: &str) -> Result<Self, ChainHashError> {
        Self::from_hex(text.as_bytes().try_into().map_err(|_| ChainHashError)?)
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChainHash({self})")
    }
}

impl Serialize for ChainHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ChainHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The hash of a record, taken before its turn: of a record that says which hash it follows, it can be had while
/// the records before it are still being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    prev: ChainHash,
    hash: ChainHash,
}

impl Ahead {
    /// Hashes the record whose wire bytes are `raw` as if it followed `prev`.
    pub fn of(prev: ChainHash, raw: &[u8]) -> Self {
        Self { prev, hash: prev.link(raw) }
    }

    /// The hash, where the record does follow `head`; else it is taken now.
    fn after(self, head: ChainHash, raw: &[u8]) -> ChainHash {
        debug_assert_eq!(self.prev.link(raw), self.hash, "the hash of another record");
        if self.prev == head { self.hash } else { head.link(raw) }
    }
}

/// Checks the records of one run as they come by, in order from the first.
///
/// Each record is hashed before it is parsed: the hash covers the bytes whatever their shape, so the head is
/// right even past a record that is refused. One fault does not bring others about: after a gap, counting
/// goes on from the number found.
#[derive(Debug, Clone)]
pub struct Chain {
    tenant: TenantId,
    run: RunId,
    head: ChainHash,
    count: u64,
    next_seq: u64,
    epoch: u64,
    faults: u64,
    conclusion: Option<Outcome>,
}

/// Why a record does not continue its chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainFault {
    /// The bytes are no record, or one of an unknown version.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The record's number is not the next one.
    #[error("record {expected} should follow, record {found} does")]
    Gap {
        /// The next number.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// The record names another run.
    #[error("record {seq} names run {found}, not {expected}")]
    WrongRun {
        /// The record's number.
        seq: u64,
        /// The run this chain is of.
        expected: RunId,
        /// The run named.
        found: RunId,
    },
    /// The record names another tenant.
    #[error("record {seq} names tenant {found}, not {expected}")]
    WrongTenant {
        /// The record's number.
        seq: u64,
        /// The tenant this chain is of.
        expected: TenantId,
        /// The tenant named.
        found: TenantId,
    },
    /// The record's epoch is lower than one before it. Epochs of a run never decrease.
    #[error("record {seq} has epoch {found}, lower than epoch {before} before it")]
    EpochDecreased {
        /// The record's number.
        seq: u64,
        /// The highest epoch before it.
        before: u64,
        /// Its epoch.
        found: u64,
    },
}

impl ChainFault {
    /// True where a newer build may be able to read the record.
    pub fn is_skew(&self) -> bool {
        matches!(self, Self::Record(error) if error.is_skew())
    }
}

impl Chain {
    /// The chain of `run` before its first record.
    pub fn new(tenant: TenantId, run: RunId) -> Self {
        let head = ChainHash::genesis(&tenant, &run);
        Self { tenant, run, head, count: 0, next_seq: 1, epoch: 0, faults: 0, conclusion: None }
    }

    /// Takes the next record's wire bytes. The head moves over them in any case; of several faults the first
    /// in the order of tenant, run, number and epoch is named.
    pub fn push(&mut self, raw: &[u8]) -> Result<Record, ChainFault> {
        self.take(self.head.link(raw), raw).map(|record| record.to_record())
    }

    /// As [`Self::push`], for a record of which [`Ahead`] was taken, and which is not copied.
    pub fn push_ahead<'a>(&mut self, raw: &'a [u8], ahead: Ahead) -> Result<RecordView<'a>, ChainFault> {
        self.take(ahead.after(self.head, raw), raw)
    }

    fn take<'a>(&mut self, head: ChainHash, raw: &'a [u8]) -> Result<RecordView<'a>, ChainFault> {
        self.head = head;
        self.count += 1;
        let expected = self.next_seq;
        self.next_seq = expected.saturating_add(1);
        self.conclusion = None;
        let record = match RecordView::parse(raw) {
            Ok(record) => record,
            Err(error) => {
                self.faults += 1;
                return Err(error.into());
            }
        };
        let fault = self.fault(&record, expected);
        self.next_seq = record.seq().saturating_add(1);
        self.epoch = self.epoch.max(record.epoch());
        if let Some(fault) = fault {
            self.faults += 1;
            return Err(fault);
        }
        self.conclusion = conclusion(&record);
        Ok(record)
    }

    /// Whose run this is.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The run.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// The hash of the last record taken, or the genesis.
    pub fn head(&self) -> ChainHash {
        self.head
    }

    /// How many records were taken.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// True where no record taken so far had a fault.
    pub fn is_intact(&self) -> bool {
        self.faults == 0
    }

    /// The outcome that the last record taken concludes the run with. A seal needs one, and takes this one.
    pub fn conclusion(&self) -> Option<&Outcome> {
        self.conclusion.as_ref()
    }

    fn fault(&self, record: &RecordView<'_>, expected: u64) -> Option<ChainFault> {
        let (seq, epoch) = (record.seq(), record.epoch());
        if record.tenant() != self.tenant.as_str() {
            let (expected, found) = (self.tenant.clone(), TenantId::checked(record.tenant()));
            return Some(ChainFault::WrongTenant { seq, expected, found });
        }
        if record.run() != self.run.as_str() {
            let (expected, found) = (self.run.clone(), RunId::checked(record.run()));
            return Some(ChainFault::WrongRun { seq, expected, found });
        }
        if seq != expected {
            return Some(ChainFault::Gap { expected, found: seq });
        }
        if epoch < self.epoch {
            return Some(ChainFault::EpochDecreased { seq, before: self.epoch, found: epoch });
        }
        None
    }
}

fn conclusion(record: &RecordView<'_>) -> Option<Outcome> {
    if record.kind() != Meaning::RUN_CONCLUDED {
        return None;
    }
    match Meaning::of_record(record) {
        Ok(Meaning::RunConcluded(concluded)) => Some(concluded.outcome),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    fn run(name: &str) -> RunId {
        RunId::new(name).unwrap()
    }

    fn raw(seq: u64, epoch: u64, kind: &str, payload: &str) -> String {
        format!(
            r#"{{"at":"2026-11-30T15:51:19.123Z","epoch":{epoch},"kind":"{kind}","payload":{payload},"run":"run-1","seq":{seq},"tenant":"acme","v":1}}"#
        )
    }

    fn chain_of(records: &[String]) -> (Chain, Vec<Result<Record, ChainFault>>) {
        let mut chain = Chain::new(tenant("acme"), run("run-1"));
        let results = records.iter().map(|record| chain.push(record.as_bytes())).collect();
        (chain, results)
    }

    #[test]
    fn records_of_every_length_are_hashed_alike() {
        let bytes: Vec<u8> = (0..800usize).map(|at| u8::try_from(at % 251).unwrap()).collect();
        for length in 0..bytes.len() {
            let prev = [bytes[length]; 32];
            let mut hasher = Sha256::new();
            hasher.update("runseal/record/v1\n");
            hasher.update(prev);
            hasher.update(&bytes[..length]);
            let expected: [u8; 32] = hasher.finalize().into();
            assert_eq!(ChainHash(prev).link(&bytes[..length]).0, expected, "{length}");
        }
    }

    // The expected hashes in this module come from Python's hashlib over the bytes the module's
    // documentation describes.
    #[test]
    fn the_genesis_names_tenant_and_run() {
        let genesis = |t, r| ChainHash::genesis(&tenant(t), &run(r)).to_string();
        assert_eq!(
            genesis("acme", "run-1"),
            "97da6a446a38015bcc2b9aa7764afcc40b944748adb01f5157fd6aeb8c5ad6a8"
        );
        assert_eq!(
            genesis("default", "a"),
            "b8a6e7b208d4404b2f9974f31bafca8edd0d2b93621987e7a6b3f5914adaca50"
        );
        // The lengths keep neighbours apart.
        assert_ne!(genesis("ab", "c"), genesis("a", "bc"));
    }

    #[test]
    fn each_record_is_linked_to_the_one_before() {
        let records =
            [raw(1, 1, "RunAdmitted", "{}"), raw(2, 1, "RunConcluded", r#"{"outcome":"succeeded"}"#)];
        let first = ChainHash::genesis(&tenant("acme"), &run("run-1")).link(records[0].as_bytes());
        assert_eq!(first.to_string(), "a443f81ea8a6193079f9ad9196513b3356fc02e066e3c7d968a0084b5ea3ad7d");
        assert_eq!(
            first.link(records[1].as_bytes()).to_string(),
            "0589bdf444fa53278af952d41a82591f6138c4441c1a81631c21030ddffb621b"
        );
        assert_eq!(
            ChainHash::from_bytes([0; 32]).link(b"").to_string(),
            "9cb378d47b692c0aa7a2f744c9cd41be06b863aa0972bca4e72f92ce614f04c5"
        );

        let (chain, results) = chain_of(&records);
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(
            chain.head().to_string(),
            "0589bdf444fa53278af952d41a82591f6138c4441c1a81631c21030ddffb621b"
        );
        assert_eq!((chain.count(), chain.is_intact()), (2, true));
        assert_eq!(chain.conclusion().unwrap().as_str(), "succeeded");
    }

    #[test]
    fn only_a_last_conclusion_concludes() {
        let (chain, _) =
            chain_of(&[raw(1, 1, "RunConcluded", r#"{"outcome":"failed"}"#), raw(2, 1, "Note", "1")]);
        assert_eq!(chain.conclusion(), None);
        let (chain, _) = chain_of(&[raw(1, 1, "RunConcluded", r#"{"outcome":"failed"}"#), "junk".to_owned()]);
        assert_eq!(chain.conclusion(), None);
        let (chain, _) = chain_of(&[raw(1, 1, "RunConcluded", "{}")]);
        assert_eq!(chain.conclusion(), None);
    }

    #[test]
    fn a_gap_is_named_once() {
        let (chain, results) = chain_of(&[raw(1, 1, "A", "1"), raw(3, 1, "A", "1"), raw(4, 1, "A", "1")]);
        assert_eq!(results[1], Err(ChainFault::Gap { expected: 2, found: 3 }));
        assert!(results[2].is_ok());
        assert!(!chain.is_intact());
        let (_, results) = chain_of(&[raw(2, 1, "A", "1")]);
        assert_eq!(results[0], Err(ChainFault::Gap { expected: 1, found: 2 }));
        let (_, results) = chain_of(&[raw(1, 1, "A", "1"), raw(1, 1, "A", "1"), raw(2, 1, "A", "1")]);
        assert_eq!(results[1], Err(ChainFault::Gap { expected: 2, found: 1 }));
        assert!(results[2].is_ok());
        let (_, results) = chain_of(&[raw(u64::MAX, 1, "A", "1"), raw(u64::MAX, 1, "A", "1")]);
        assert_eq!(results[0], Err(ChainFault::Gap { expected: 1, found: u64::MAX }));
    }

    #[test]
    fn records_of_others_are_refused() {
        let other_run = raw(1, 1, "A", "1").replace("run-1", "run-2");
        let other_tenant = other_run.replace("acme", "evil");
        let (_, results) = chain_of(&[other_run]);
        assert_eq!(
            results[0],
            Err(ChainFault::WrongRun { seq: 1, expected: run("run-1"), found: run("run-2") })
        );
        let (_, results) = chain_of(&[other_tenant]);
        assert_eq!(
            results[0],
            Err(ChainFault::WrongTenant { seq: 1, expected: tenant("acme"), found: tenant("evil") })
        );
    }

    #[test]
    fn epochs_never_decrease() {
        let (_, results) =
            chain_of(&[raw(1, 2, "A", "1"), raw(2, 2, "A", "1"), raw(3, 1, "A", "1"), raw(4, 3, "A", "1")]);
        assert_eq!(results[2], Err(ChainFault::EpochDecreased { seq: 3, before: 2, found: 1 }));
        assert!(results[3].is_ok());
    }

    #[test]
    fn the_head_moves_over_bytes_that_are_no_record() {
        let skewed = raw(2, 1, "A", "1").replace("\"v\":1", "\"v\":2");
        let records = [raw(1, 1, "A", "1"), skewed, "junk\u{0}".to_owned(), raw(4, 1, "A", "1")];
        let (chain, results) = chain_of(&records);
        assert!(results[1].as_ref().unwrap_err().is_skew());
        assert!(matches!(results[2], Err(ChainFault::Record(RecordError::Malformed(_)))));
        assert!(results[3].is_ok());
        let genesis = ChainHash::genesis(&tenant("acme"), &run("run-1"));
        assert_eq!(chain.head(), records.iter().fold(genesis, |head, record| head.link(record.as_bytes())));
        assert_eq!((chain.count(), chain.is_intact()), (4, false));
    }

    #[test]
    fn a_chain_hash_has_one_spelling() {
        let text = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
        let hash: ChainHash = text.parse().unwrap();
        assert_eq!(hash.to_string(), text);
        assert_eq!(serde_json::to_string(&hash).unwrap(), format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<ChainHash>(&format!("\"{text}\"")).unwrap(), hash);
        for bad in [&text.to_uppercase(), &text[1..], &format!("{text}0"), "", &text.replace('0', "g")] {
            assert_eq!(bad.parse::<ChainHash>(), Err(ChainHashError), "{bad}");
        }
        assert_eq!(format!("{hash:?}"), format!("ChainHash({text})"));
        for byte in 0..=255 {
            for at in [0, 1, 63] {
                let mut digits = [b'a'; 64];
                digits[at] = byte;
                let is_digit = matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                assert_eq!(ChainHash::is_hex(&digits), is_digit, "{byte}");
                let expected = is_digit.then(|| hex::decode(digits).unwrap());
                assert_eq!(ChainHash::from_hex(&digits).ok().map(|hash| hash.0.to_vec()), expected, "{byte}");
            }
        }
    }

    #[test]
    fn a_hash_taken_ahead_counts_only_where_the_record_follows() {
        let (prev, head) = (ChainHash([1; 32]), ChainHash([2; 32]));
        let ahead = Ahead::of(prev, b"{}");
        assert_eq!(
            (ahead.after(prev, b"{}"), ahead.after(head, b"{}")),
            (prev.link(b"{}"), head.link(b"{}"))
        );
    }

    #[test]
    fn only_a_record_of_another_version_is_skew() {
        assert!(!ChainFault::Gap { expected: 1, found: 2 }.is_skew());
        assert!(!ChainFault::Record(RecordError::TooLarge { bytes: 2, limit: 1 }).is_skew());
        assert!(ChainFault::Record(RecordError::UnknownVersion { found: 2 }).is_skew());
        let (chain, _) = chain_of(&[]);
        assert_eq!((chain.tenant(), chain.run()), (&tenant("acme"), &run("run-1")));
    }
}

//! Entries of a tenant's log: what a checkpoint vouches for.
//!
//! Compact JSON in exactly these shapes, which is their RFC 8785 form; the RFC 6962 leaf hash of these bytes
//! is the leaf.
//!
//! ```text
//! {"chain":"<hex>","kind":"seal","outcome":"succeeded","records":17,"run":"…","tenant":"acme","v":1}
//! {"chain":"<hex>","kind":"head","records":12,"run":"…","tenant":"acme","v":1}
//! {"kind":"tenant","origin":"…","tenant":"acme","v":1,"vkey":"…"}
//! ```
//!
//! A *seal* freezes a run for good. A *head* pins the chain of an open run so far. A *tenant* is an entry of
//! a plane's directory: which log and key a tenant has.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use crate::{
    chain::{ChainHash, ChainHashError},
    decimal,
    json::{self, Json, JsonError},
    name::{self, Base, NameError, OriginError, Outcome, RunId, TenantId},
};

/// The entry version this build writes and reads.
pub const ENTRY_VERSION: u64 = 1;

/// Most bytes an entry has. Well below the 65,535 of an entry bundle (c2sp.org/tlog-tiles).
pub const ENTRY_BYTES_MAX: usize = 4096;

/// How many records a chain has: 1 to 2^53-1, which any JSON reader holds exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordCount(u64);

impl RecordCount {
    /// The count, unless it is out of bounds.
    pub fn new(records: u64) -> Option<Self> {
        (1..1 << 53).contains(&records).then_some(Self(records))
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// One entry of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A run is frozen.
    Seal(Seal),
    /// An open run's chain so far.
    Head(Head),
    /// A tenant's log.
    Tenant(TenantLog),
}

/// Freezes a run for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// The chain hash of the run's last record.
    pub chain: ChainHash,
    /// The outcome of that record.
    pub outcome: Outcome,
    /// How many records the run has.
    pub records: RecordCount,
    /// The run.
    pub run: RunId,
    /// Whose run it is.
    pub tenant: TenantId,
}

/// Pins an open run's chain so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The chain hash of the run's last record by then.
    pub chain: ChainHash,
    /// How many records the run had by then.
    pub records: RecordCount,
    /// The run.
    pub run: RunId,
    /// Whose run it is.
    pub tenant: TenantId,
}

/// Says which log and key a tenant has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantLog {
    base: Base,
    tenant: TenantId,
    vkey: String,
}

/// Why bytes are not an entry of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// An entry of ours by a version that this build does not read. Build skew, not damage.
    #[error("the entry has version {found}; this build reads version {ENTRY_VERSION}")]
    UnknownVersion {
        /// The value of `v`.
        found: u64,
    },
    /// An entry of this version whose kind this build does not know.
    #[error("the entry has the unknown kind {kind:?}")]
    UnknownKind {
        /// The value of `kind`.
        kind: String,
    },
    /// Not an entry.
    #[error("the entry is malformed: {0}")]
    Malformed(#[from] EntryFault),
}

impl EntryError {
    /// True where a newer build may be able to read the bytes.
    pub fn is_skew(&self) -> bool {
        matches!(self, Self::UnknownVersion { .. })
    }
}

/// What is wrong with a malformed entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryFault {
    /// Longer than [`ENTRY_BYTES_MAX`].
    #[error("it has {bytes} bytes, more than {ENTRY_BYTES_MAX}")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// Not one JSON object in compact form.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A member is missing, or is not a string.
    #[error("member {0:?} is missing or not a string")]
    NotAString(&'static str),
    /// `records` is not an integer from 1 to 2^53-1.
    #[error("member \"records\" is not an integer from 1 to 2^53-1")]
    Records,
    /// `v` is missing or not an integer.
    #[error("member \"v\" is missing or not an integer")]
    Version,
    /// `chain` is not a hash.
    #[error(transparent)]
    Chain(#[from] ChainHashError),
    /// A name breaks its rule.
    #[error(transparent)]
    Name(#[from] NameError),
    /// `origin` is not that of the tenant's log.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// `vkey` is not a verifier key called `origin`.
    #[error("member \"vkey\" is not a verifier key called {origin:?}")]
    VerifierKey {
        /// The origin.
        origin: String,
    },
    /// The right members, but not in the one spelling an entry has.
    #[error("it is not in RFC 8785 form, or has other members")]
    Spelling,
}

/// What the bytes of a log entry are to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recognised {
    /// An entry of ours.
    Ours(Entry),
    /// Claims to be ours, but is not one that can be read: damage, or build skew.
    Unreadable(EntryError),
    /// Another log's entry.
    Foreign,
}

impl Entry {
    /// The bytes that are logged.
    pub fn encode(&self) -> Vec<u8> {
        // Names and hashes hold nothing that JSON escapes; an outcome, an origin and a key may.
        let text = match self {
            Self::Seal(Seal { chain, outcome, records: RecordCount(records), run, tenant }) => {
                let outcome = Json::string(outcome.as_str());
                format!(
                    r#"{{"chain":"{chain}","kind":"seal","outcome":{outcome},"records":{records},"run":"{run}","tenant":"{tenant}","v":1}}"#
                )
            }
            Self::Head(Head { chain, records: RecordCount(records), run, tenant }) => format!(
                r#"{{"chain":"{chain}","kind":"head","records":{records},"run":"{run}","tenant":"{tenant}","v":1}}"#
            ),
            Self::Tenant(TenantLog { base, tenant, vkey }) => {
                let (origin, vkey) = (Json::string(&base.origin(tenant)), Json::string(vkey));
                format!(r#"{{"kind":"tenant","origin":{origin},"tenant":"{tenant}","v":1,"vkey":{vkey}}}"#)
            }
        };
        text.into_bytes()
    }

    /// Reads an entry of ours. Whatever is accepted encodes to the same bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, EntryError> {
        if let Some(view) = EntryView::plain(bytes) {
            return Ok(view.to_entry());
        }
        Self::parse_by_member(bytes)
    }

    fn parse_by_member(bytes: &[u8]) -> Result<Self, EntryError> {
        if bytes.len() > ENTRY_BYTES_MAX {
            return Err(EntryFault::TooLarge { bytes: bytes.len() }.into());
        }
        let members = Members(json::compact_members(bytes).map_err(EntryFault::from)?);
        match members.get("v").and_then(decimal::parse) {
            None => return Err(EntryFault::Version.into()),
            Some(ENTRY_VERSION) => {}
            Some(found) => return Err(EntryError::UnknownVersion { found }),
        }
        let entry = match &*members.text("kind")? {
            "seal" => members.seal().map(Self::Seal)?,
            "head" => members.head().map(Self::Head)?,
            "tenant" => members.tenant_log().map(Self::Tenant)?,
            kind => return Err(EntryError::UnknownKind { kind: kind.chars().take(80).collect() }),
        };
        if entry.encode() == bytes { Ok(entry) } else { Err(EntryFault::Spelling.into()) }
    }

    /// Tells our entries from those of other logs.
    ///
    /// Bytes claim to be ours where they are a JSON object, however spelled, with members `kind`, `tenant` and
    /// `v`, be it twice or with values that a strict reader refuses. What claims so and cannot be read is
    /// reported, never passed over; what does not claim so is none of our business, and no run can rely on it.
    pub fn recognise(bytes: &[u8]) -> Recognised {
        match Self::parse(bytes) {
            Ok(entry) => Recognised::Ours(entry),
            Err(error) if claims_to_be_ours(bytes) => Recognised::Unreadable(error),
            Err(_) => Recognised::Foreign,
        }
    }
}

impl TenantLog {
    /// Says that the log of `tenant` on the plane called `base` has the verifier key `vkey`, which must be
    /// called as the log's origin: `<origin>+<key id>+<key>` (c2sp.org/signed-note).
    pub fn new(base: Base, tenant: TenantId, vkey: impl Into<String>) -> Result<Self, EntryFault> {
        let (origin, vkey) = (base.origin(&tenant), vkey.into());
        let plausible = |key: &str| key.len() <= 200 && key.bytes().all(|byte| byte.is_ascii_graphic());
        match vkey.strip_prefix(&origin).and_then(|rest| rest.strip_prefix('+')) {
            Some(key) if plausible(key) => Ok(Self { base, tenant, vkey }),
            _ => Err(EntryFault::VerifierKey { origin }),
        }
    }

    /// The origin of the tenant's log.
    pub fn origin(&self) -> String {
        self.base.origin(&self.tenant)
    }

    /// Whose log it is.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The verifier key of the log, as logged. That it is called as the origin is known, that it is a key is not.
    pub fn vkey(&self) -> &str {
        &self.vkey
    }
}

/// A seal or head as it stands in its bytes: read whole and held to every rule, but copied nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryView<'a> {
    /// Hexadecimal digits of a [`ChainHash`].
    chain: &'a [u8; 64],
    outcome: Option<&'a str>,
    records: RecordCount,
    run: &'a str,
    tenant: &'a str,
}

impl<'a> EntryView<'a> {
    /// Reads a seal or head whose bytes are plainly in their one spelling, which nearly all are: an auditor reads
    /// millions of them. Of whatever this does not take [`Entry::recognise`] says what it is.
    pub fn plain(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() > ENTRY_BYTES_MAX { None } else { Plain(std::str::from_utf8(bytes).ok()?).entry() }
    }

    /// Whether it is a seal, else a head.
    pub fn is_seal(&self) -> bool {
        self.outcome.is_some()
    }

    /// How many records it speaks for.
    pub fn records(&self) -> RecordCount {
        self.records
    }

    /// The chain hash of the last of them.
    #[expect(clippy::missing_panics_doc, reason = "the digits were looked at when it was read")]
    pub fn chain(&self) -> ChainHash {
        ChainHash::from_hex(self.chain).expect("the digits were looked at")
    }

    /// The outcome that a seal states.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome.map(Outcome::checked)
    }

    /// The run, a [`RunId`].
    pub fn run(&self) -> &'a str {
        self.run
    }

    /// Whose run it is, a [`TenantId`].
    pub fn tenant(&self) -> &'a str {
        self.tenant
    }

    /// The entry by itself.
    pub fn to_entry(&self) -> Entry {
        let (chain, records) = (self.chain(), self.records);
        let (run, tenant) = (RunId::checked(self.run), TenantId::checked(self.tenant));
        match self.outcome() {
            Some(outcome) => Entry::Seal(Seal { chain, outcome, records, run, tenant }),
            None => Entry::Head(Head { chain, records, run, tenant }),
        }
    }
}

/// What is left to read of a plain entry.
struct Plain<'a>(&'a str);

impl<'a> Plain<'a> {
    fn entry(mut self) -> Option<EntryView<'a>> {
        self.skip(br#"{"chain":""#)?;
        let chain = self.take()?;
        if !ChainHash::is_hex(chain) {
            return None;
        }
        self.skip(br#"","kind":""#)?;
        let outcome = match self.take()? {
            b"seal" => {
                self.skip(br#"","outcome":""#)?;
                Some(self.outcome()?)
            }
            b"head" => None,
            _ => return None,
        };
        self.skip(br#"","records":"#)?;
        let (records, rest) = decimal::split(self.0)?;
        self.0 = rest;
        let records = RecordCount::new(records)?;
        self.skip(br#","run":""#)?;
        let run = self.identifier()?;
        self.skip(br#"","tenant":""#)?;
        let tenant = self.identifier()?;
        (self.0 == r#"","v":1}"#).then_some(EntryView { chain, outcome, records, run, tenant })
    }

    #[inline]
    fn skip<const N: usize>(&mut self, expected: &[u8; N]) -> Option<()> {
        (self.take()? == expected).then_some(())
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let taken = self.0.as_bytes().first_chunk()?;
        self.0 = self.0.get(N..)?;
        Some(taken)
    }

    /// An outcome in which nothing is escaped.
    #[inline]
    fn outcome(&mut self) -> Option<&'a str> {
        let (outcome, rest) = self.0.split_at_checked(json::plain_length(self.0.as_bytes()))?;
        self.0 = rest;
        Outcome::check(outcome).is_ok().then_some(outcome)
    }

    #[inline]
    fn identifier(&mut self) -> Option<&'a str> {
        let (identifier, rest) = name::split_identifier(self.0)?;
        self.0 = rest;
        Some(identifier)
    }
}

/// The members of an entry by name. Their order is checked by encoding what was read.
struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| *value)
    }

    fn text(&self, name: &'static str) -> Result<Cow<'a, str>, EntryFault> {
        self.get(name).and_then(json::text_of).ok_or(EntryFault::NotAString(name))
    }

    fn records(&self) -> Result<RecordCount, EntryFault> {
        let records = self.get("records").and_then(decimal::parse);
        records.and_then(RecordCount::new).ok_or(EntryFault::Records)
    }

    fn seal(&self) -> Result<Seal, EntryFault> {
        Ok(Seal {
            chain: self.text("chain")?.parse()?,
            outcome: Outcome::new(self.text("outcome")?)?,
            records: self.records()?,
            run: RunId::new(self.text("run")?)?,
            tenant: TenantId::new(self.text("tenant")?)?,
        })
    }

    fn head(&self) -> Result<Head, EntryFault> {
        Ok(Head {
            chain: self.text("chain")?.parse()?,
            records: self.records()?,
            run: RunId::new(self.text("run")?)?,
            tenant: TenantId::new(self.text("tenant")?)?,
        })
    }

    fn tenant_log(&self) -> Result<TenantLog, EntryFault> {
        let tenant = TenantId::new(self.text("tenant")?)?;
        let base = Base::of_origin(&self.text("origin")?, &tenant)?;
        TenantLog::new(base, tenant, self.text("vkey")?)
    }
}

/// Whether some reader of JSON finds the members of our entries in these bytes, at their top: also one that takes the
/// last of two members of a name, and does not look into values. What readers understand differently is ours to report.
fn claims_to_be_ours(bytes: &[u8]) -> bool {
    serde_json::from_slice::<OurNames>(bytes).is_ok_and(|OurNames([kind, tenant, v])| kind && tenant && v)
}

/// Which of `kind`, `tenant` and `v` an object has.
struct OurNames([bool; 3]);

impl<'de> Deserialize<'de> for OurNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = OurNames;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<OurNames, A::Error> {
                let mut found = [false; 3];
                while let Some((name, IgnoredAny)) = members.next_entry::<String, IgnoredAny>()? {
                    for (found, ours) in found.iter_mut().zip(["kind", "tenant", "v"]) {
                        *found |= name == ours;
                    }
                }
                Ok(OurNames(found))
            }
        }
        deserializer.deserialize_map(Names)
    }
}

#[cfg(test)]
mod tests;

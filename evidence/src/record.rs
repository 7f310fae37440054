//! The record: one compact JSON object, stored and hashed as the exact bytes written ("wire bytes").
//!
//! ```text
//! {"at":"2026-11-30T15:51:19.123Z","case":"c-1","effect":"<64 hex>","epoch":1,"kind":"EffectStarted",
//!  "payload":{…},"run":"…","seq":2,"tenant":"acme","v":1}
//! ```
//!
//! on one line, members in this order, each once; `case` and `effect` only where present. The payload is any
//! JSON value in compact form ([`crate::json`]), so one record has one spelling: parsing and rendering are
//! inverse to each other.

use std::borrow::Cow;

use crate::{
    decimal,
    json::{self, Envelope, Json, JsonError},
    name::{CaseId, EffectKey, Kind, NameError, RunId, TenantId},
    timestamp::{Timestamp, TimestampError},
};

/// Most wire bytes a record may have: 1 MiB.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// The record version this build writes and reads.
pub const RECORD_VERSION: u64 = 1;

/// What a writer has to say; the store stamps the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordDraft {
    /// What the record is about.
    pub kind: Kind,
    /// The content, lossless.
    pub payload: Json,
    /// The effect it belongs to.
    pub effect: Option<EffectKey>,
    /// The case it belongs to.
    pub case: Option<CaseId>,
}

/// What the store adds to a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The store's own time.
    pub at: Timestamp,
    /// The epoch of the lease the record was written under.
    pub epoch: u64,
    /// The run it belongs to.
    pub run: RunId,
    /// Position in the run, from 1, without gaps.
    pub seq: u64,
    /// Whose run it is.
    pub tenant: TenantId,
}

/// A record, read or about to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What the writer said.
    pub draft: RecordDraft,
    /// What the store added.
    pub stamp: Stamp,
}

/// Why bytes are no record, or a record cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Longer than [`RECORD_BYTES_MAX`]. Refused, never truncated.
    #[error("the record has {bytes} bytes, more than the {limit} allowed")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A well-formed record of a version this build does not read. Build skew, not damage: the bytes may be
    /// sound, and their hash can still be checked.
    #[error("the record has version {found}; this build reads version {RECORD_VERSION}")]
    UnknownVersion {
        /// The value of `v`.
        found: u64,
    },
    /// Not a record.
    #[error("the record is malformed: {0}")]
    Malformed(#[from] RecordFault),
}

impl RecordError {
    /// True where a newer build may be able to read the bytes.
    pub fn is_skew(&self) -> bool {
        matches!(self, Self::UnknownVersion { .. })
    }
}

/// What is wrong with a malformed record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// Not one JSON object in compact form.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// Another member stands where `expected` should, or none.
    #[error("member {expected:?} should stand where {found} does")]
    Member {
        /// The member that should stand here, or the end of the record.
        expected: &'static str,
        /// The member that does, quoted, or the end of the record.
        found: String,
    },
    /// A member that is to be a string is not.
    #[error("member {member:?} is not a string")]
    NotAString {
        /// The member.
        member: &'static str,
    },
    /// A member that is to be an integer from 0 to 2^64-1 is not.
    #[error("member {member:?} is not an integer from 0 to 2^64-1 in plain digits")]
    NotAnInteger {
        /// The member.
        member: &'static str,
    },
    /// `seq` counts from 1.
    #[error("seq is 0; it counts from 1")]
    SeqZero,
    /// A name breaks its rule.
    #[error(transparent)]
    Name(#[from] NameError),
    /// `at` is not a timestamp.
    #[error(transparent)]
    Timestamp(#[from] TimestampError),
}

impl RecordDraft {
    /// Makes the draft the record that `stamp` places.
    pub fn stamp(self, stamp: Stamp) -> Record {
        Record { draft: self, stamp }
    }
}

impl Record {
    /// Reads wire bytes.
    ///
    /// Whatever else a later version changes, bytes that are one compact JSON object with an integer `v` other
    /// than 1 are [`RecordError::UnknownVersion`].
    pub fn parse(raw: &[u8]) -> Result<Self, RecordError> {
        RecordView::parse(raw).map(|view| view.to_record())
    }

    /// The wire bytes.
    pub fn to_wire(&self) -> Result<Vec<u8>, RecordError> {
        let Self { draft, stamp } = self;
        if stamp.seq == 0 {
            return Err(RecordFault::SeqZero.into());
        }
        let payload = draft.payload.as_str();
        let mut out = String::with_capacity(payload.len() + 512);
        out.push_str("{\"at\":\"");
        out.push_str(&stamp.at.to_string());
        out.push('"');
        if let Some(case) = &draft.case {
            out.push_str(",\"case\":");
            json::push_string(&mut out, case.as_str());
        }
        if let Some(effect) = &draft.effect {
            out.push_str(",\"effect\":");
            json::push_string(&mut out, effect.as_str());
        }
        out.push_str(",\"epoch\":");
        out.push_str(&stamp.epoch.to_string());
        out.push_str(",\"kind\":");
        json::push_string(&mut out, draft.kind.as_str());
        out.push_str(",\"payload\":");
        out.push_str(payload);
        out.push_str(",\"run\":");
        json::push_string(&mut out, stamp.run.as_str());
        out.push_str(",\"seq\":");
        out.push_str(&stamp.seq.to_string());
        out.push_str(",\"tenant\":");
        json::push_string(&mut out, stamp.tenant.as_str());
        out.push_str(",\"v\":1}");
        check_size(out.len())?;
        Ok(out.into_bytes())
    }
}

/// A record as it stands in its wire bytes: read whole and held to every rule, but copied nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordView<'a> {
    at: Timestamp,
    case: Option<Cow<'a, str>>,
    effect: Option<&'a str>,
    epoch: u64,
    kind: &'a str,
    payload: &'a str,
    run: &'a str,
    seq: u64,
    tenant: &'a str,
}

impl<'a> RecordView<'a> {
    /// Reads wire bytes. Refuses what [`Record::parse`] refuses.
    pub fn parse(raw: &'a [u8]) -> Result<Self, RecordError> {
        check_size(raw.len())?;
        let fault = match read(raw) {
            Ok((record, RECORD_VERSION)) => return Ok(record),
            Ok((_, found)) => return Err(RecordError::UnknownVersion { found }),
            Err(fault) => fault,
        };
        match version(raw) {
            Some(found) if found != RECORD_VERSION => Err(RecordError::UnknownVersion { found }),
            _ => Err(fault.into()),
        }
    }

    /// The store's own time.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// The case it belongs to, a [`CaseId`].
    pub fn case(&self) -> Option<&str> {
        self.case.as_deref()
    }

    /// The effect it belongs to, an [`EffectKey`].
    pub fn effect(&self) -> Option<&str> {
        self.effect
    }

    /// The epoch of the lease the record was written under.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What the record is about, a [`Kind`].
    pub fn kind(&self) -> &str {
        self.kind
    }

    /// The content in compact form.
    pub fn payload(&self) -> &'a str {
        self.payload
    }

    /// The content by itself.
    pub fn to_payload(&self) -> Json {
        Json::from_compact(self.payload)
    }

    /// The run it belongs to, a [`RunId`].
    pub fn run(&self) -> &str {
        self.run
    }

    /// Position in the run, from 1.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Whose run it is, a [`TenantId`].
    pub fn tenant(&self) -> &str {
        self.tenant
    }

    /// The record by itself.
    pub fn to_record(&self) -> Record {
        let draft = RecordDraft {
            kind: Kind::checked(self.kind),
            payload: self.to_payload(),
            effect: self.effect.map(EffectKey::checked),
            case: self.case.as_deref().map(CaseId::checked),
        };
        draft.stamp(Stamp {
            at: self.at,
            epoch: self.epoch,
            run: RunId::checked(self.run),
            seq: self.seq,
            tenant: TenantId::checked(self.tenant),
        })
    }
}

fn check_size(bytes: usize) -> Result<(), RecordError> {
    if bytes > RECORD_BYTES_MAX {
        return Err(RecordError::TooLarge { bytes, limit: RECORD_BYTES_MAX });
    }
    Ok(())
}

/// Reads a record of this version's shape, and its version.
#[expect(clippy::inline_always, reason = "called once; a record's view is large to hand over")]
#[inline(always)]
fn read(raw: &[u8]) -> Result<(RecordView<'_>, u64), RecordFault> {
    let mut members = Members { raw, envelope: Envelope::of(json::characters(raw)?), taken: 0 };
    let at = members.text("at")?.parse()?;
    let case = members.optional_text("case")?;
    case.as_deref().map_or(Ok(()), CaseId::check)?;
    let effect = members.optional_text("effect")?;
    let effect = effect.map(|effect| members.name("effect", &effect, EffectKey::check)).transpose()?;
    let epoch = members.integer("epoch")?;
    let kind = members.text("kind")?;
    let kind = members.name("kind", &kind, Kind::check)?;
    let payload = members.value("payload")?;
    let run = members.text("run")?;
    let run = members.name("run", &run, RunId::check)?;
    let seq = members.integer("seq")?;
    let tenant = members.text("tenant")?;
    let tenant = members.name("tenant", &tenant, TenantId::check)?;
    let v = members.integer("v")?;
    members.end()?;
    if seq == 0 {
        return Err(RecordFault::SeqZero);
    }
    Ok((RecordView { at, case, effect, epoch, kind, payload, run, seq, tenant }, v))
}

/// The value of `v`, whatever the other members are.
fn version(raw: &[u8]) -> Option<u64> {
    let members = json::compact_members(raw).ok()?;
    members.iter().find(|(name, _)| name == "v").and_then(|(_, value)| decimal::parse(value))
}

/// The envelope's members, taken one after the other.
struct Members<'a> {
    raw: &'a [u8],
    envelope: Envelope<'a>,
    /// How many were taken.
    taken: usize,
}

#[expect(clippy::inline_always, reason = "names are known to the calls that pass them on, as Envelope asks")]
impl<'a> Members<'a> {
    #[inline(always)]
    fn value(&mut self, expected: &'static str) -> Result<&'a str, RecordFault> {
        match self.next(expected)? {
            Some(value) => Ok(value),
            None => Err(self.misplaced(expected)),
        }
    }

    #[inline(always)]
    fn next(&mut self, name: &'static str) -> Result<Option<&'a str>, RecordFault> {
        let value = self.envelope.value(name)?;
        self.taken += usize::from(value.is_some());
        Ok(value)
    }

    #[inline(always)]
    fn text(&mut self, member: &'static str) -> Result<Cow<'a, str>, RecordFault> {
        self.optional_text(member)?.ok_or_else(|| self.misplaced(member))
    }

    #[inline(always)]
    fn optional_text(&mut self, member: &'static str) -> Result<Option<Cow<'a, str>>, RecordFault> {
        if !self.envelope.is_next(member) {
            return Ok(None);
        }
        if let Some(text) = self.envelope.text(member)? {
            self.taken += 1;
            return Ok(Some(text));
        }
        match self.next(member)? {
            Some(_) => Err(RecordFault::NotAString { member }),
            None => Ok(None),
        }
    }

    #[inline(always)]
    fn integer(&mut self, member: &'static str) -> Result<u64, RecordFault> {
        if let Some(integer) = self.envelope.integer(member) {
            self.taken += 1;
            return Ok(integer);
        }
        decimal::parse(self.value(member)?).ok_or(RecordFault::NotAnInteger { member })
    }

    /// A name that `check` lets pass, which has no character that is escaped and stands where it was read.
    #[inline]
    fn name(
        &self,
        member: &'static str,
        text: &Cow<'a, str>,
        check: impl Fn(&str) -> Result<(), NameError>,
    ) -> Result<&'a str, RecordFault> {
        check(text)?;
        match text {
            Cow::Borrowed(name) => Ok(name),
            Cow::Owned(_) => Err(self.misplaced(member)),
        }
    }

    fn end(&self) -> Result<(), RecordFault> {
        if self.envelope.is_at_end() { Ok(()) } else { Err(self.misplaced("the end")) }
    }

    /// Why `expected` does not come next: the text is not compact JSON, or another member comes.
    fn misplaced(&self, expected: &'static str) -> RecordFault {
        let members = match json::compact_members(self.raw) {
            Ok(members) => members,
            Err(error) => return error.into(),
        };
        let found = members.get(self.taken).map_or("the end".to_owned(), |(name, _)| quoted(name));
        RecordFault::Member { expected, found }
    }
}

/// A member's name as an error repeats it: escaped, and cut where it is long.
fn quoted(name: &str) -> String {
    format!("{:?}", name.chars().take(80).collect::<String>())
}

#[cfg(test)]
mod tests;

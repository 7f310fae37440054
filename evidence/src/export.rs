//! Export lines: evidence on its way to an auditor, as JSON Lines.
//!
//! ```text
//! {"kind":"runseal.export","version":1,"tenant","origin","complete":true|false,"checkpoint":"<the note>"}
//! {"kind":"runseal.export.entry","index","entry":"<entry as logged>","proof":[…]}
//! {"kind":"runseal.export.run","run","state":"open|sealed","index":N|null}
//! {"kind":"runseal.export.record","seq","raw":"<record bytes>","prev","hash","signature":{…}|null}
//! {"kind":"runseal.export.end","entries","runs","records","unreadable":[{"run","reason"}]}
//! ```
//!
//! First the header, then entries in index order, then for each run its line and its records, last the end.
//! Bytes go out as stored: a line neither verifies nor repairs what it carries. Writing and reading one line
//! is all there is here; which lines may follow which is for whoever reads the whole.

use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    chain::ChainHash,
    json::{self, Envelope},
    name::{RunId, TenantId},
    signature::RecordSignature,
};

/// The export version this build writes and reads.
pub const EXPORT_VERSION: u64 = 1;

/// Most bytes a line may have without its line feed: 16 MiB. A record of 1 MiB takes at most six times that.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// One line of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum ExportLine {
    /// The first line.
    #[serde(rename = "runseal.export")]
    Header(ExportHeader),
    /// An entry of the log.
    #[serde(rename = "runseal.export.entry")]
    Entry(ExportEntry),
    /// A run, whose records follow.
    #[serde(rename = "runseal.export.run")]
    Run(ExportRun),
    /// A record of the run before it.
    #[serde(rename = "runseal.export.record")]
    Record(ExportRecord),
    /// The last line. An export without it was cut short.
    #[serde(rename = "runseal.export.end")]
    End(ExportEnd),
}

/// What is exported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportHeader {
    version: u64,
    /// Whose runs these are.
    pub tenant: TenantId,
    /// The origin of the tenant's log.
    pub origin: String,
    /// Whether every entry of the log is here, or those of chosen runs.
    pub complete: bool,
    /// The signed checkpoint, whole.
    pub checkpoint: String,
}

impl ExportHeader {
    /// The header of an export of this version.
    pub fn new(
        tenant: TenantId,
        origin: impl Into<String>,
        complete: bool,
        checkpoint: impl Into<String>,
    ) -> Self {
        Self {
            version: EXPORT_VERSION,
            tenant,
            origin: origin.into(),
            complete,
            checkpoint: checkpoint.into(),
        }
    }
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportEntry {
    /// Its log index, from 0.
    pub index: u64,
    /// The bytes logged.
    pub entry: String,
    /// Its inclusion proof against the header's checkpoint, leaf upwards (RFC 6962 section 2.1.1). Only in an
    /// export that is not complete.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "present_proof")]
    pub proof: Option<Vec<[u8; 32]>>,
}

impl ExportEntry {
    /// The line of a logged entry, whose bytes must be UTF-8 to fit into a JSON string.
    pub fn new(index: u64, entry: Vec<u8>, proof: Option<Vec<[u8; 32]>>) -> Result<Self, ExportError> {
        let entry = String::from_utf8(entry)
            .map_err(|error| ExportError::EntryNotText { index, offset: error.utf8_error().valid_up_to() })?;
        Ok(Self { index, entry, proof })
    }
}

/// A run, whose records follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportRun {
    /// The run.
    pub run: RunId,
    /// Whether the checkpoint holds its seal.
    pub state: RunState,
    /// The log index of its seal.
    #[serde(deserialize_with = "Option::deserialize")]
    pub index: Option<u64>,
}

/// Whether a run is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// It may go on.
    Open,
    /// It is frozen.
    Sealed,
}

/// A record, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportRecord {
    /// Its number, by the store's account.
    pub seq: u64,
    /// Its wire bytes.
    pub raw: String,
    /// The chain hash before it, by the store's account.
    pub prev: ChainHash,
    /// Its chain hash, by the store's account.
    pub hash: ChainHash,
    /// Its signature, where it has one.
    #[serde(deserialize_with = "Option::deserialize")]
    pub signature: Option<RecordSignature>,
}

impl ExportRecord {
    /// The line of a stored record, whose bytes must be UTF-8 to fit into a JSON string. A run with a record
    /// that does not fit is unreadable.
    pub fn new(
        seq: u64,
        raw: Vec<u8>,
        prev: ChainHash,
        hash: ChainHash,
        signature: Option<RecordSignature>,
    ) -> Result<Self, ExportError> {
        let raw = String::from_utf8(raw)
            .map_err(|error| ExportError::RecordNotText { seq, offset: error.utf8_error().valid_up_to() })?;
        Ok(Self { seq, raw, prev, hash, signature })
    }
}

/// The last line: what the lines before it add up to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportEnd {
    /// How many entry lines.
    pub entries: u64,
    /// How many run lines.
    pub runs: u64,
    /// How many record lines.
    pub records: u64,
    /// The runs that could not be read.
    pub unreadable: Vec<Unreadable>,
}

/// A run that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unreadable {
    /// What the store calls it. Not a [`RunId`]: the stored name itself may be what cannot be read.
    pub run: String,
    /// Why.
    pub reason: String,
}

/// Why a line cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The line is longer than [`LINE_BYTES_MAX`].
    #[error("the line has {bytes} bytes, more than the {LINE_BYTES_MAX} allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A stored record is not UTF-8.
    #[error("record {seq} is not UTF-8 from byte {offset} on")]
    RecordNotText {
        /// The record's number.
        seq: u64,
        /// The first byte that is not UTF-8.
        offset: usize,
    },
    /// A logged entry is not UTF-8.
    #[error("entry {index} is not UTF-8 from byte {offset} on")]
    EntryNotText {
        /// The entry's index.
        index: u64,
        /// The first byte that is not UTF-8.
        offset: usize,
    },
    /// The header names a version this build does not read. Skew, not damage.
    #[error("the export has version {found}; this build reads version {EXPORT_VERSION}")]
    UnsupportedVersion {
        /// The version.
        found: u64,
    },
    /// A line of a kind this build does not know.
    #[error("unknown line kind {kind:?}")]
    UnknownKind {
        /// The value of `kind`.
        kind: String,
    },
    /// The line does not start with `{` and end with `}`: white space or a byte order mark around the object,
    /// an empty line, or no object.
    #[error("the line is not one JSON object with nothing around it")]
    NotAnObject,
    /// Not a line of its kind.
    #[error("malformed line: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl ExportError {
    /// True where a newer build may be able to read the line.
    pub fn is_skew(&self) -> bool {
        matches!(self, Self::UnsupportedVersion { .. })
    }
}

impl ExportLine {
    /// Appends the line and its line feed. On an error `out` is as before.
    pub fn write_to(&self, out: &mut Vec<u8>) -> Result<(), ExportError> {
        let start = out.len();
        let written = serde_json::to_writer(&mut *out, self);
        let bytes = out.len() - start;
        if written.is_err() || bytes > LINE_BYTES_MAX {
            out.truncate(start);
        }
        written?;
        if bytes > LINE_BYTES_MAX {
            return Err(ExportError::TooLong { bytes });
        }
        out.push(b'\n');
        Ok(())
    }

    /// Reads one line, given without its line feed.
    ///
    /// Members may come in any order; an unknown or repeated one is refused, and so is anything around the
    /// object, a carriage return included.
    #[expect(clippy::missing_panics_doc, reason = "what a string in a text decodes to is text")]
    pub fn parse(line: &[u8]) -> Result<Self, ExportError> {
        check_frame(line)?;
        let mut bytes = Vec::new();
        let text = |bytes| String::from_utf8(bytes).expect("the characters of a string in a text");
        match read_plain(line, &mut bytes) {
            Some(ReadLine::Record(RecordAccount { seq, prev, hash, signature })) => {
                let signature = signature.map(|signature| *signature);
                Ok(Self::Record(ExportRecord { seq, raw: text(bytes), prev, hash, signature }))
            }
            Some(ReadLine::Entry(EntryAccount { index, proof })) => {
                Ok(Self::Entry(ExportEntry { index, entry: text(bytes), proof }))
            }
            Some(ReadLine::Run(run)) => Ok(Self::Run(run)),
            Some(ReadLine::Other(line)) => Ok(*line),
            None => read_any(line),
        }
    }
}

/// A line read for a checker, which keeps no line: the bytes of a record or an entry stand in memory of the caller's.
#[derive(Debug)]
pub enum ReadLine {
    /// A record line. Its record is what was appended.
    Record(RecordAccount),
    /// An entry line. Its entry is what was appended.
    Entry(EntryAccount),
    /// The line of a run. Nothing was appended.
    Run(ExportRun),
    /// Any other line. Nothing was appended. There are few, and all others are passed on often.
    Other(Box<ExportLine>),
}

/// What a record line says of its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordAccount {
    /// The record's number, by the store's account.
    pub seq: u64,
    /// The chain hash before it, by the store's account.
    pub prev: ChainHash,
    /// Its chain hash, by the store's account.
    pub hash: ChainHash,
    /// Its signature, where it has one. Most have none, and an account is passed on often.
    pub signature: Option<Box<RecordSignature>>,
}

/// What an entry line says of its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryAccount {
    /// Its log index, from 0.
    pub index: u64,
    /// Its inclusion proof, as in [`ExportEntry`].
    pub proof: Option<Vec<[u8; 32]>>,
}

impl ReadLine {
    /// Reads one line as [`ExportLine::parse`] does and appends the record's wire bytes, or the entry's, to `raws`.
    /// On an error `raws` is as before.
    pub fn parse(line: &[u8], raws: &mut Vec<u8>) -> Result<Self, ExportError> {
        let start = raws.len();
        check_frame(line)?;
        if let Some(read) = read_plain(line, raws) {
            return Ok(read);
        }
        raws.truncate(start);
        Ok(match read_any(line)? {
            ExportLine::Record(ExportRecord { seq, raw, prev, hash, signature }) => {
                raws.extend_from_slice(raw.as_bytes());
                Self::Record(RecordAccount { seq, prev, hash, signature: signature.map(Box::new) })
            }
            ExportLine::Entry(ExportEntry { index, entry, proof }) => {
                raws.extend_from_slice(entry.as_bytes());
                Self::Entry(EntryAccount { index, proof })
            }
            ExportLine::Run(run) => Self::Run(run),
            other => Self::Other(Box::new(other)),
        })
    }
}

fn check_frame(line: &[u8]) -> Result<(), ExportError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(ExportError::TooLong { bytes: line.len() });
    }
    if line.first() != Some(&b'{') || line.last() != Some(&b'}') {
        return Err(ExportError::NotAnObject);
    }
    Ok(())
}

/// Reads a line however it is spelled.
fn read_any(line: &[u8]) -> Result<ExportLine, ExportError> {
    match serde_json::from_slice(line) {
        Ok(ExportLine::Header(header)) if header.version != EXPORT_VERSION => {
            Err(ExportError::UnsupportedVersion { found: header.version })
        }
        Ok(line) => Ok(line),
        Err(error) => Err(diagnose(line).unwrap_or_else(|| error.into())),
    }
}

/// Reads a record line, a run line or an entry line without a proof that is spelled as it is written here, a record
/// or an entry into `raws`. Any other spelling is left to serde: where this answers `None`, `raws` may have grown.
///
/// Nearly all lines of an export are such lines, and this takes a fraction of the time.
fn read_plain(line: &[u8], raws: &mut Vec<u8>) -> Option<ReadLine> {
    let mut members = Envelope::of(json::characters(line).ok()?);
    let read = if members.pass("kind", "\"runseal.export.record\"") {
        ReadLine::Record(read_record(&mut members, raws)?)
    } else if members.pass("kind", "\"runseal.export.entry\"") {
        let index = members.integer("index")?;
        if !members.text_into("entry", raws).ok()? {
            return None;
        }
        ReadLine::Entry(EntryAccount { index, proof: None })
    } else if members.pass("kind", "\"runseal.export.run\"") {
        ReadLine::Run(read_run(&mut members)?)
    } else {
        return None;
    };
    // Not `then_some`, which would move what was read before it knows.
    if members.is_at_end() { Some(read) } else { None }
}

fn read_record(members: &mut Envelope<'_>, raws: &mut Vec<u8>) -> Option<RecordAccount> {
    let seq = members.integer("seq")?;
    if !members.text_into("raw", raws).ok()? {
        return None;
    }
    let prev = ChainHash::from_hex(members.quoted("prev")?).ok()?;
    let hash = ChainHash::from_hex(members.quoted("hash")?).ok()?;
    let signature = if members.pass("signature", "null") {
        None
    } else {
        Some(Box::new(serde_json::from_str(members.value("signature").ok()??).ok()?))
    };
    Some(RecordAccount { seq, prev, hash, signature })
}

fn read_run(members: &mut Envelope<'_>) -> Option<ExportRun> {
    let run = RunId::new(members.text("run").ok()??).ok()?;
    let state = if members.pass("state", "\"sealed\"") {
        RunState::Sealed
    } else if members.pass("state", "\"open\"") {
        RunState::Open
    } else {
        return None;
    };
    let index = if members.pass("index", "null") { None } else { Some(members.integer("index")?) };
    Some(ExportRun { run, state, index })
}

/// What a line claims to be, whatever else it holds.
#[derive(Deserialize)]
struct Claim {
    kind: String,
    version: Option<u64>,
}

/// Why a line was refused, where that is more than a malformed member: a later version may have other members
/// and other kinds of lines.
fn diagnose(line: &[u8]) -> Option<ExportError> {
    match serde_json::from_slice(line).ok()? {
        Claim { kind, version: Some(found) } if kind == "runseal.export" && found != EXPORT_VERSION => {
            Some(ExportError::UnsupportedVersion { found })
        }
        Claim { kind, .. } if !KINDS.contains(&kind.as_str()) => {
            Some(ExportError::UnknownKind { kind: kind.chars().take(80).collect() })
        }
        Claim { .. } => None,
    }
}

const KINDS: [&str; 5] = [
    "runseal.export",
    "runseal.export.entry",
    "runseal.export.run",
    "runseal.export.record",
    "runseal.export.end",
];

/// A proof as a list of base64 hashes. Where the member is there it is a list, not null.
mod present_proof {
    use super::{Deserialize, Deserializer, STANDARD, Serializer};
    use base64::Engine as _;
    use serde::de::Error as _;

    #[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
    pub(super) fn serialize<S: Serializer>(
        proof: &Option<Vec<[u8; 32]>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(proof.iter().flatten().map(|hash| STANDARD.encode(hash)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<[u8; 32]>>, D::Error> {
        let hash = |text: String| match STANDARD.decode(&text).map(<[u8; 32]>::try_from) {
            Ok(Ok(hash)) => Ok(hash),
            _ => Err(D::Error::custom(format_args!("{text:?} is not a hash of 32 bytes in base64"))),
        };
        Vec::<String>::deserialize(deserializer)?.into_iter().map(hash).collect::<Result<_, _>>().map(Some)
    }
}

#[cfg(test)]
mod tests;

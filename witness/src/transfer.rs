//! Moving a witness to another machine: `db export` writes its state as JSON Lines, `db import` takes
//! it up, and neither can make a witness forget.
//!
//! ```text
//! {"kind":"runseal.witness","version":1,"keys":["<vkey>",…]}
//! {"kind":"runseal.witness.log","origin","keys":["<vkey>",…],"published":N,"note":"<cosigned note>"}
//! {"kind":"runseal.witness.alarm","origin","digest":"<hex>","time":N,"contradiction":"fork"}
//! {"kind":"runseal.witness.end","logs":N,"alarms":N}
//! ```

use std::collections::HashSet;
use std::io::{BufRead, Write};

use redb::{ReadableDatabase as _, ReadableTable as _};
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::key::VerifierKey;
use runseal_tlog::note::Note;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::database::{
    ALARMS, LOG_KEYS, LOGS, ORIGINS, PUBLISHED, RedbStore, WITNESS_KEYS, head_of, key_handle, verify_row,
    witness_keys,
};
use crate::failure::Exit;
use crate::state::{Head, StateError, origin_hash};

/// Longest line read: a note of the largest request, escaped, and then some.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// One line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields)]
enum Line {
    #[serde(rename = "runseal.witness")]
    Header { version: u32, keys: Vec<String> },
    #[serde(rename = "runseal.witness.log")]
    Log { origin: String, keys: Vec<String>, published: u64, note: String },
    #[serde(rename = "runseal.witness.alarm")]
    Alarm { origin: String, digest: String, time: u64, contradiction: String },
    #[serde(rename = "runseal.witness.end")]
    End { logs: u64, alarms: u64 },
}

/// What was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Logs in the export.
    pub logs: u64,
    /// Alarms in the export.
    pub alarms: u64,
}

/// Why a state cannot be moved.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The database.
    #[error(transparent)]
    State(#[from] StateError),
    /// Reading or writing the export.
    #[error("the export: {0}")]
    Io(#[from] std::io::Error),
    /// A line that is none of an export's.
    #[error("line {line} of the export: {fault}; nothing was imported")]
    Line {
        /// Line number from 1.
        line: u64,
        /// What is wrong with it.
        fault: String,
    },
    /// The export ends too early.
    #[error("the export is cut short: its last line is missing; nothing was imported")]
    CutShort,
    /// What is held is newer.
    #[error(
        "this database holds {origin:?} at size {held}, cosigned at {held_time}; the export has size {offered}, cosigned at {offered_time}. A witness never goes back; nothing was imported"
    )]
    Older {
        /// The log.
        origin: String,
        /// The size held.
        held: u64,
        /// When it was cosigned.
        held_time: u64,
        /// The size in the export.
        offered: u64,
        /// When that was cosigned.
        offered_time: u64,
    },
    /// Two roots for one size: this witness, or two with one key, signed a split view.
    #[error(
        "INTEGRITY: this database and the export hold two roots of {origin:?} for size {size}; nothing was imported"
    )]
    Fork {
        /// The log.
        origin: String,
        /// The size.
        size: u64,
    },
}

impl TransferError {
    /// The exit code for this error.
    pub const fn exit(&self) -> Exit {
        match self {
            Self::State(error) => error.exit(),
            Self::Io(_) => Exit::Unfinished,
            Self::Line { .. } | Self::CutShort | Self::Older { .. } => Exit::Usage,
            Self::Fork { .. } => Exit::Finding,
        }
    }
}

/// What a redb transaction can fail with is the database's failure.
macro_rules! from_redb {
    ($($error:ident)*) => {$(
        impl From<redb::$error> for TransferError {
            fn from(error: redb::$error) -> Self {
                Self::State(error.into())
            }
        }
    )*};
}

from_redb!(TransactionError TableError StorageError CommitError);

/// Writes the whole state of `store`.
///
/// # Errors
/// [`TransferError`].
pub fn export(store: &RedbStore, out: &mut dyn Write) -> Result<Moved, TransferError> {
    let mut lines = Vec::new();
    let moved = store.with(|database| {
        let read = database.begin_read()?;
        let keys = witness_keys(&read)?.iter().map(ToString::to_string).collect();
        lines.push(Line::Header { version: 1, keys });
        let (log_keys, published) = (read.open_table(LOG_KEYS)?, read.open_table(PUBLISHED)?);
        let mut moved = Moved { logs: 0, alarms: 0 };
        for row in read.open_table(LOGS)?.iter()? {
            let (origin, row) = row?;
            let accepted = log_keys.get(origin.value())?;
            lines.push(Line::Log {
                origin: origin.value().to_owned(),
                keys: accepted
                    .map_or_else(Vec::new, |keys| keys.value().lines().map(str::to_owned).collect()),
                published: published.get(origin.value())?.map_or(0, |size| size.value()),
                note: row.value().3.to_owned(),
            });
            moved.logs += 1;
        }
        for row in read.open_table(ALARMS)?.iter()? {
            let (key, row) = row?;
            let ((origin, digest), (time, kind)) = (key.value(), row.value());
            lines.push(Line::Alarm {
                origin: origin.to_owned(),
                digest: hex::encode(digest),
                time,
                contradiction: kind.to_owned(),
            });
            moved.alarms += 1;
        }
        lines.push(Line::End { logs: moved.logs, alarms: moved.alarms });
        Ok(moved)
    })?;
    for line in &lines {
        serde_json::to_writer(&mut *out, line).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(moved)
}

/// A log of an export, verified.
struct Offered {
    origin: String,
    keys: Vec<String>,
    published: u64,
    note: String,
    head: Head,
}

struct OfferedAlarm {
    origin: String,
    digest: [u8; 32],
    time: u64,
    contradiction: String,
}

/// Reads a whole export and verifies every note in it, without taking it up.
///
/// # Errors
/// [`TransferError`].
pub fn verify(input: &mut dyn BufRead) -> Result<Moved, TransferError> {
    let (_, logs, alarms) = read_export(input)?;
    Ok(Moved { logs: logs.len() as u64, alarms: alarms.len() as u64 })
}

/// Takes up a whole export, or nothing of it.
///
/// # Errors
/// [`TransferError`]; also when anything in it is older than what `store` holds.
pub fn import(store: &RedbStore, input: &mut dyn BufRead) -> Result<Moved, TransferError> {
    let (keys, logs, alarms) = read_export(input)?;
    store.rewrite(|database| {
        // The outer result is the store's; the inner one says why the import is refused.
        Ok(apply(database, &keys, &logs, &alarms))
    })??;
    Ok(Moved { logs: logs.len() as u64, alarms: alarms.len() as u64 })
}

fn apply(
    database: &redb::Database,
    keys: &[VerifierKey],
    logs: &[Offered],
    alarms: &[OfferedAlarm],
) -> Result<(), TransferError> {
    let write = database.begin_write()?;
    {
        let mut witness_keys = write.open_table(WITNESS_KEYS)?;
        for key in keys {
            witness_keys.insert(key_handle(key).as_str(), key.to_string().as_str())?;
        }
        let mut held = write.open_table(LOGS)?;
        let mut origins = write.open_table(ORIGINS)?;
        let mut log_keys = write.open_table(LOG_KEYS)?;
        let mut published = write.open_table(PUBLISHED)?;
        for log in logs {
            let known = held.get(&*log.origin)?.map(|row| head_of(row.value()));
            if let Some(known) = known {
                never_back(&log.origin, &known, &log.head)?;
            }
            held.insert(&*log.origin, (log.head.size, log.head.root.as_bytes(), log.head.time, &*log.note))?;
            origins.insert(&origin_hash(&log.origin), &*log.origin)?;
            if known.is_none() {
                log_keys.insert(&*log.origin, log.keys.join("\n").as_str())?;
            }
            let before = published.get(&*log.origin)?.map_or(0, |size| size.value());
            if log.published > before {
                published.insert(&*log.origin, log.published)?;
            }
        }
        let mut table = write.open_table(ALARMS)?;
        for alarm in alarms {
            table.insert((&*alarm.origin, &alarm.digest), (alarm.time, &*alarm.contradiction))?;
        }
    }
    write.commit()?;
    Ok(())
}

fn never_back(origin: &str, held: &Head, offered: &Head) -> Result<(), TransferError> {
    if held.size == offered.size && held.root != offered.root {
        return Err(TransferError::Fork { origin: origin.to_owned(), size: held.size });
    }
    if (held.size, held.time) > (offered.size, offered.time) || held.time > offered.time {
        return Err(TransferError::Older {
            origin: origin.to_owned(),
            held: held.size,
            held_time: held.time,
            offered: offered.size,
            offered_time: offered.time,
        });
    }
    Ok(())
}

type Export = (Vec<VerifierKey>, Vec<Offered>, Vec<OfferedAlarm>);

/// Reads an export to its last line and verifies every note in it.
fn read_export(input: &mut dyn BufRead) -> Result<Export, TransferError> {
    let (mut keys, mut logs, mut alarms) = (None::<Vec<VerifierKey>>, Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    let mut number = 0;
    let mut text = String::new();
    loop {
        number += 1;
        let wrong = |fault: String| TransferError::Line { line: number, fault };
        text.clear();
        let read = std::io::Read::take(&mut *input, LINE_BYTES_MAX).read_line(&mut text)?;
        if read == 0 {
            return Err(TransferError::CutShort);
        }
        let line = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match (line, &keys) {
            (Line::Header { version: 1, keys: vkeys }, None) => {
                let parsed: Result<_, _> = vkeys.iter().map(|vkey| vkey.parse()).collect();
                keys = Some(parsed.map_err(|error: runseal_tlog::key::KeyError| wrong(error.to_string()))?);
            }
            (Line::Header { version, .. }, None) => {
                return Err(wrong(format!("version {version}; this program reads version 1")));
            }
            (Line::Log { origin, keys: vkeys, published, note }, Some(keys)) => {
                let head = offered_head(&note, keys).map_err(wrong)?;
                verify_row(&origin, &head, &note, keys).map_err(|error| wrong(error.to_string()))?;
                if !seen.insert(origin.clone()) {
                    return Err(wrong(format!("{origin:?} is there twice")));
                }
                logs.push(Offered { origin, keys: vkeys, published, note, head });
            }
            (Line::Alarm { origin, digest, time, contradiction }, Some(_)) => {
                let mut bytes = [0; 32];
                hex::decode_to_slice(&digest, &mut bytes).map_err(|error| wrong(error.to_string()))?;
                alarms.push(OfferedAlarm { origin, digest: bytes, time, contradiction });
            }
            (Line::End { logs: count, alarms: alarm_count }, Some(_)) => {
                if (count, alarm_count) != (logs.len() as u64, alarms.len() as u64) {
                    return Err(wrong("its counts are not those of the lines before".to_owned()));
                }
                let keys = keys.unwrap_or_default();
                return Ok((keys, logs, alarms));
            }
            (_, None) => return Err(wrong("expected the header of a witness export".to_owned())),
            (Line::Header { .. }, Some(_)) => return Err(wrong("a second header".to_owned())),
        }
    }
}

/// Size, root and time that a note states, the time being that of the witness's own line.
fn offered_head(note: &str, keys: &[VerifierKey]) -> Result<Head, String> {
    let note = Note::parse(note.as_bytes()).map_err(|error| error.to_string())?;
    let checkpoint = Checkpoint::parse(note.unverified_text()).map_err(|error| error.to_string())?;
    let own = keys.iter().find_map(|key| {
        note.signatures().iter().find(|line| line.is_of(key)).and_then(|line| line.claimed_time(key))
    });
    let time = own.ok_or("the note is not cosigned by a key of the export")?;
    Ok(Head { size: checkpoint.size(), root: *checkpoint.root(), time })
}

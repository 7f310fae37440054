//! What a history holds, for people and for scripts.

use std::fmt::Write as _;
use std::sync::Arc;

use runseal_evidence::amount::amount;
use runseal_tlog::key::KeyName;
use runseal_tlog::note::SignatureLine;
use serde::Serialize;

use crate::clock;
use crate::history::{History, HistoryError, LogHistory};
use crate::report_text::harmless;

#[derive(Serialize)]
struct LogLine<'a> {
    origin: &'a str,
    entries: u64,
    checkpoints: Vec<CheckpointLine>,
    findings: usize,
    fraud_proofs: Vec<String>,
    /// Bytes of the whole file, with all its logs.
    store_bytes: u64,
}

#[derive(Serialize)]
struct CheckpointLine {
    size: u64,
    root: String,
    seen: u64,
    /// Unverified: they were verified when the checkpoint was kept, by the policy of that day.
    cosigned_by: Vec<String>,
    checkpoint: String,
}

/// Lists all logs, or one, of a store of `store_bytes` bytes.
///
/// # Errors
/// [`HistoryError`].
pub fn render(
    history: &Arc<History>,
    store_bytes: u64,
    only: Option<&str>,
    json: bool,
) -> Result<String, HistoryError> {
    let origins = history.origins()?;
    if let Some(only) = only.filter(|only| !origins.iter().any(|origin| origin == only)) {
        return Err(HistoryError::UnknownLog(only.to_owned()));
    }
    let mut out = String::new();
    for origin in origins.iter().filter(|origin| only.is_none_or(|only| only == *origin)) {
        let line = log(origin, &history.log(origin)?, store_bytes)?;
        if json {
            out += &serde_json::to_string(&line).unwrap_or_default();
            out.push('\n');
        } else {
            describe(&line, &mut out);
        }
    }
    if !json {
        let _ = writeln!(out, "the store has {}, with all its logs", amount(store_bytes, "byte"));
    }
    Ok(out)
}

fn log<'a>(origin: &'a str, history: &LogHistory, store_bytes: u64) -> Result<LogLine<'a>, HistoryError> {
    let mut checkpoints = Vec::new();
    for checkpoint in history.checkpoints_from(0)? {
        let checkpoint = checkpoint?;
        let names = checkpoint.note.signatures().iter().map(SignatureLine::name);
        checkpoints.push(CheckpointLine {
            size: checkpoint.size,
            root: checkpoint.root.to_base64(),
            seen: checkpoint.seen,
            cosigned_by: names.map(KeyName::to_string).filter(|name| name != origin).collect(),
            checkpoint: checkpoint.note.to_string(),
        });
    }
    Ok(LogLine {
        origin,
        entries: history.progress()?.entries,
        checkpoints,
        findings: history.findings()?.len(),
        fraud_proofs: history.fraud_proofs()?,
        store_bytes,
    })
}

fn describe(line: &LogLine<'_>, out: &mut String) {
    let _ = writeln!(out, "{}", harmless(line.origin));
    let entries = amount(line.entries, "entry");
    let contradictions = match line.findings {
        0 => "no contradiction between them".to_owned(),
        found => format!("{} between them", amount(found, "contradiction")),
    };
    let _ = writeln!(out, "  {entries} verified, {contradictions}");
    if !line.fraud_proofs.is_empty() {
        let proofs = amount(line.fraud_proofs.len(), "fraud proof");
        let _ = writeln!(out, "  the log signed two histories: {proofs} kept (--json shows the text)");
    }
    for checkpoint in &line.checkpoints {
        let by = if checkpoint.cosigned_by.is_empty() {
            "no cosignature".to_owned()
        } else {
            format!("cosigned by {}", harmless(&checkpoint.cosigned_by.join(", ")))
        };
        let seen = clock::spell(checkpoint.seen);
        let _ = writeln!(out, "  size {:>10}  {}  seen {seen}  {by}", checkpoint.size, checkpoint.root);
    }
}

//! Exports of agentplane, another agent plane, format 1: a second tool for its auditors.
//!
//! ```text
//! {"kind":"agentplane.export","version":1,"checkpoint":{"origin","size","root":"<hex>"},"canon":1}
//! {"kind":"agentplane.export.run","run","index"?,"seal"?}
//! {"seq","body","prev_hash","hash","signature","raw"}                              a record of the run above it
//! {"kind":"agentplane.export.case","case":{"id",…},…}
//! {"kind":"agentplane.export.end","runs_requested","runs_exported","records","cases","unreadable":[{"run","reason"}]}
//! ```
//!
//! Its chain is `SHA-256(hash of the record before, or 32 zero bytes || raw)`, its leaf value the hash of
//! the last record of a sealed run, its tree that of RFC 6962. Nothing in such a file is signed by the log,
//! so that without a signed checkpoint from elsewhere nobody vouches that no run is missing.

mod canon;
mod end;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use runseal_evidence::chain::ChainHash;
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::report::{Command, LogState, NotChecked, Report, Scope};
use runseal_tlog::hash::{LeafHash, NodeHash};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::error::Failure;
use crate::lines::LineReader;
use crate::trust::Trust;

/// The kind of the first line.
pub const HEADER_KIND: &str = "agentplane.export";
/// The format and the canonical form this build reads.
const VERSION: u64 = 1;
/// Findings of one file; after these it is clear enough.
const FINDINGS_MAX: usize = 1_000;

/// Whether a first line claims to be such an export.
pub fn claims(first: &[u8]) -> bool {
    let kind = serde_json::from_slice::<Value>(first).ok();
    kind.is_some_and(|value| value["kind"].as_str().is_some_and(|kind| kind.starts_with("agentplane.")))
}

/// Checks an export whose first line is `first` and whose other lines `lines` gives.
///
/// # Errors
/// [`Failure`] when the file cannot be read, or holds something else of that program.
pub fn check(
    first: &[u8],
    lines: &mut LineReader<'_>,
    path: &Path,
    trust: &Trust,
    outside: Option<&[u8]>,
    advance: &dyn Fn(u64),
) -> Result<Report, Failure> {
    let header: Value = serde_json::from_slice(first).unwrap_or_default();
    if header["kind"] != HEADER_KIND {
        let reason = format!("lines of the kind {} are not read here", header["kind"]);
        return Err(Failure::NotA { path: path.to_owned(), what: "agentplane export", reason });
    }
    let mut check = Check::new();
    for (member, found) in [("version", &header["version"]), ("canon", &header["canon"])] {
        if found.as_u64() != Some(VERSION) {
            let why =
                format!("its {member} is {found}; this build reads {VERSION}: unverifiable, not tampered");
            check.report.skipped("version", why.clone());
            check.report.not_checked.push(NotChecked::gap("the export", why));
            return Ok(check.report);
        }
    }
    check.members("the header", &header, &["kind", "version", "checkpoint", "canon"]);
    check.header(&header);
    while let Some(line) = lines.next_line()? {
        advance(line.len() as u64 + 1);
        let parsed = serde_json::from_slice::<Value>(line);
        let number = lines.number;
        let Ok(value) = parsed else {
            check
                .found(FindingKind::Malformed, format!("line {number} is not JSON: the rest cannot be read"));
            break;
        };
        check.line(number, &value);
        if check.report.findings.len() > FINDINGS_MAX {
            check.gap("the rest of the file", "too much is wrong to go on");
            break;
        }
    }
    check.finish(lines, trust, outside);
    Ok(check.report)
}

/// The run at hand.
struct Run {
    id: String,
    index: Option<u64>,
    seal: Option<ChainHash>,
    head: [u8; 32],
    records: u64,
    next_seq: u64,
    faults: u32,
}

struct Check {
    report: Report,
    origin: String,
    size: u64,
    root: Option<NodeHash>,
    run: Option<Run>,
    seen: BTreeSet<String>,
    leaves: BTreeMap<u64, (String, LeafHash)>,
    empty: Vec<String>,
    with_records: u64,
    open: u64,
    records: u64,
    cases: BTreeSet<String>,
    named_cases: BTreeSet<String>,
    signed: u64,
    end: Option<Value>,
    strange: BTreeSet<String>,
}

impl Check {
    fn new() -> Self {
        Self {
            report: Report::new(Command::Export, Scope::Export),
            origin: String::new(),
            size: 0,
            root: None,
            run: None,
            seen: BTreeSet::new(),
            leaves: BTreeMap::new(),
            empty: Vec::new(),
            with_records: 0,
            open: 0,
            records: 0,
            cases: BTreeSet::new(),
            named_cases: BTreeSet::new(),
            signed: 0,
            end: None,
            strange: BTreeSet::new(),
        }
    }

    fn found(&mut self, kind: FindingKind, detail: String) {
        self.report.findings.push(Finding::new(kind, detail));
    }

    fn gap(&mut self, what: &str, why: &str) {
        self.report.not_checked.push(NotChecked::gap(what, why));
    }

    /// A finding about the run at hand. Run names of that program are not ours, so they stand in the text.
    fn in_run(&mut self, kind: FindingKind, seq: Option<u64>, detail: &str) {
        let Some(run) = &mut self.run else { return };
        run.faults += 1;
        let finding = Finding::new(kind, format!("run {}: {detail}", run.id));
        self.report.findings.push(match seq {
            Some(seq) => finding.at_seq(seq),
            None => finding,
        });
    }

    /// Notes members that this build does not know.
    fn members(&mut self, what: &str, value: &Value, known: &[&str]) {
        let names = value.as_object().into_iter().flat_map(|object| object.keys());
        let strange = names.filter(|name| !known.contains(&name.as_str()) && self.strange.len() < 32);
        let strange: Vec<String> = strange.map(|name| format!("member {name:?} of {what}")).collect();
        self.strange.extend(strange);
    }

    fn header(&mut self, header: &Value) {
        let checkpoint = &header["checkpoint"];
        checkpoint["origin"].as_str().unwrap_or_default().clone_into(&mut self.origin);
        self.size = checkpoint["size"].as_u64().unwrap_or(u64::MAX);
        let root = checkpoint["root"].as_str().and_then(|root| root.parse::<ChainHash>().ok());
        self.root = root.map(|root| NodeHash::from_bytes(*root.as_bytes()));
        match self.root {
            Some(root) if !self.origin.is_empty() && self.size != u64::MAX => {
                self.report.log = Some(LogState {
                    origin: self.origin.clone(),
                    size: self.size,
                    root: root.to_base64(),
                    checkpoint: String::new(),
                });
            }
            _ => self.found(
                FindingKind::Malformed,
                "the header states no checkpoint (origin, size, root)".to_owned(),
            ),
        }
    }

    fn line(&mut self, number: u64, value: &Value) {
        if self.end.is_some() {
            return self.found(FindingKind::Malformed, format!("line {number} follows the end line"));
        }
        match value["kind"].as_str() {
            Some("agentplane.export") => {
                self.found(FindingKind::Malformed, format!("line {number} is a second header"));
            }
            Some("agentplane.export.run") => self.start(number, value),
            Some("agentplane.export.case") => {
                self.members("a case line", value, &["kind", "case", "deadlines", "blobs", "hold"]);
                if let Some(id) = value["case"]["id"].as_str() {
                    self.cases.insert(id.to_owned());
                }
                self.close();
            }
            Some("agentplane.export.end") => {
                self.close();
                let known = ["kind", "runs_requested", "runs_exported", "records", "cases", "unreadable"];
                self.members("the end line", value, &known);
                self.end = Some(value.clone());
            }
            Some(kind) if kind.starts_with("agentplane.") => {
                self.gap(&format!("line {number}"), &format!("it is of the unknown kind {kind:?}"));
            }
            _ if self.run.is_none() => {
                self.records += 1;
                self.found(FindingKind::Malformed, format!("line {number} is a record of no run"));
            }
            _ => self.record(value),
        }
    }

    fn start(&mut self, number: u64, value: &Value) {
        self.close();
        self.members("a run line", value, &["kind", "run", "index", "seal", "proof"]);
        let id = value["run"].as_str().unwrap_or_default().to_owned();
        if id.is_empty() {
            self.found(FindingKind::Malformed, format!("line {number} names no run"));
        } else if !self.seen.insert(id.clone()) {
            self.found(FindingKind::Malformed, format!("run {id} has more than one block"));
        }
        let (index, seal) =
            (value.get("index").filter(|v| !v.is_null()), value.get("seal").filter(|v| !v.is_null()));
        let read = (
            index.and_then(Value::as_u64),
            seal.and_then(Value::as_str).and_then(|seal| seal.parse::<ChainHash>().ok()),
        );
        if index.is_some() != seal.is_some()
            || index.is_some() != read.0.is_some()
            || seal.is_some() != read.1.is_some()
        {
            self.found(
                FindingKind::Malformed,
                format!("run {id}: index and seal are not both there, or do not read"),
            );
        }
        let (index, seal) = read;
        if let (Some(index), Some(seal)) = (index, &seal) {
            let leaf = LeafHash::of(seal.as_bytes());
            if let Some((other, _)) = self.leaves.insert(index, (id.clone(), leaf)) {
                self.found(
                    FindingKind::Malformed,
                    format!("position {index} is claimed by runs {other} and {id}"),
                );
            }
        }
        self.run = Some(Run { id, index, seal, head: [0; 32], records: 0, next_seq: 1, faults: 0 });
    }

    fn record(&mut self, value: &Value) {
        self.records += 1;
        let known = ["seq", "body", "prev_hash", "hash", "signature", "attestation", "raw"];
        self.members("a record", value, &known);
        let Some(run) = &mut self.run else { return };
        run.records += 1;
        let (expected, before, id) = (run.next_seq, run.head, run.id.clone());
        let Some(raw) = value["raw"].as_str() else {
            run.next_seq += 1;
            return self.in_run(FindingKind::Malformed, Some(expected), "a record without its bytes");
        };
        let digest = |member: &str| value[member].as_str().and_then(|hex| hex.parse::<ChainHash>().ok());
        let (prev, hash) = (digest("prev_hash"), digest("hash"));
        // Each record is held against the link and the hash stated for it, so that one edit is one finding.
        let linked = prev.map_or(before, |prev| *prev.as_bytes());
        let computed: [u8; 32] = Sha256::new().chain_update(linked).chain_update(raw).finalize().into();
        run.head = hash.map_or(computed, |hash| *hash.as_bytes());
        if prev != Some(ChainHash::from_bytes(before)) {
            self.in_run(
                FindingKind::ChainBroken,
                Some(expected),
                "the record is not linked to the one before it",
            );
        }
        if hash != Some(ChainHash::from_bytes(computed)) {
            self.in_run(FindingKind::RunEdited, Some(expected), "the record's bytes do not give its hash");
        }
        let Ok(body @ Value::Object(_)) = serde_json::from_str::<Value>(raw) else {
            self.advance(expected + 1);
            return self.in_run(
                FindingKind::Malformed,
                Some(expected),
                "the record's bytes are no JSON object",
            );
        };
        if canon::canonical(&body).as_bytes() != raw.as_bytes() {
            self.in_run(
                FindingKind::Malformed,
                Some(expected),
                "the record's bytes are not in canonical form 1",
            );
        }
        if body["v"].as_u64() != Some(VERSION) {
            let why = format!("its version is {}; this build reads {VERSION}", body["v"]);
            self.gap(&format!("the content of record {expected} of run {id}"), &why);
        }
        if value["body"] != body {
            self.in_run(
                FindingKind::RunEdited,
                Some(expected),
                "the copy shown beside the bytes says something else",
            );
        }
        if body["run"].as_str() != Some(&id) {
            let detail = format!("the record is one of run {}", body["run"]);
            self.in_run(FindingKind::ChainBroken, Some(expected), &detail);
        }
        let seq = body["seq"].as_u64().unwrap_or(0);
        if seq != expected || value["seq"].as_u64() != Some(seq) {
            let detail = format!("record {expected} should follow, record {seq} does");
            self.in_run(FindingKind::ChainBroken, Some(expected), &detail);
        }
        if body["kind"] == "RunConcluded"
            && let Some(stated) = body["chain_head"].as_str()
            && stated.parse() != Ok(ChainHash::from_bytes(linked))
        {
            self.in_run(FindingKind::RunEdited, Some(expected), "the conclusion states another chain head");
        }
        if let Some(case) = body["case"].as_str() {
            self.named_cases.insert(case.to_owned());
        }
        let signature = [&value["signature"], &value["attestation"]];
        self.signed += u64::from(signature.iter().any(|signature| !signature.is_null()));
        self.advance(seq.max(expected).saturating_add(1));
    }

    fn advance(&mut self, seq: u64) {
        if let Some(run) = &mut self.run {
            run.next_seq = seq;
        }
    }

    fn close(&mut self) {
        let Some(run) = &self.run else { return };
        self.open += u64::from(run.index.is_none());
        if run.records == 0 {
            self.empty.push(run.id.clone());
        } else {
            self.with_records += 1;
            if run.seal.is_some_and(|seal| *seal.as_bytes() != run.head) {
                let detail = "its records do not give the chain that its leaf commits to";
                self.in_run(FindingKind::RunEdited, None, detail);
            }
        }
        self.run = None;
    }
}

//! A tiny plane: runs, a log, tiles on disk, witnesses. It spells every format out for itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use runseal_evidence::chain::ChainHash;
use runseal_evidence::name::{RunId, TenantId};
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::cosignature::cosign;
use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::inclusion;
use runseal_tlog::key::{Algorithm, KeyName, SignerKey};
use runseal_tlog::note::Note;
use runseal_tlog::tree::{Frontier, NodeId, NodeReader, root_of};
use tempfile::TempDir;

pub(crate) const ORIGIN: &str = "plane.example/log/acme";
pub(crate) const TENANT: &str = "acme";
pub(crate) const NOON: u64 = 1_790_000_000;

/// One record as the store keeps it.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) raw: String,
    pub(crate) prev: ChainHash,
    pub(crate) hash: ChainHash,
}

pub(crate) struct Plane {
    pub(crate) dir: TempDir,
    pub(crate) entries: Vec<Vec<u8>>,
    pub(crate) runs: BTreeMap<String, Vec<Stored>>,
    pub(crate) time: u64,
}

pub(crate) fn log_key() -> SignerKey {
    SignerKey::from_seed(KeyName::new(ORIGIN).unwrap(), Algorithm::Ed25519, &[7; 32])
}

pub(crate) fn witness_key(seed: u8) -> SignerKey {
    let name = KeyName::new(format!("witness.example/w{seed}")).unwrap();
    SignerKey::from_seed(name, Algorithm::CosignatureEd25519, &[seed; 32])
}

pub(crate) fn record(run: &str, seq: u64, kind: &str, payload: &str) -> String {
    format!(
        r#"{{"at":"2026-11-30T15:51:19.{:03}Z","epoch":1,"kind":"{kind}","payload":{payload},"run":"{run}","seq":{seq},"tenant":"{TENANT}","v":1}}"#,
        seq % 1000
    )
}

pub(crate) fn chain(run: &str, raws: &[String]) -> Vec<Stored> {
    let mut prev = ChainHash::genesis(&TenantId::new(TENANT).unwrap(), &RunId::new(run).unwrap());
    raws.iter()
        .map(|raw| {
            let hash = prev.link(raw.as_bytes());
            let stored = Stored { raw: raw.clone(), prev, hash };
            prev = hash;
            stored
        })
        .collect()
}

impl Plane {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().unwrap(), entries: Vec::new(), runs: BTreeMap::new(), time: NOON }
    }

    /// A log of eight sealed runs, `r0` to `r7`, and one open, `open`, pinned once.
    pub(crate) fn sample() -> Self {
        let mut plane = Self::new();
        for run in 0..8 {
            plane.sealed(&format!("r{run}"), 3 + run % 3);
        }
        plane.open("open", 4);
        plane.head("open");
        plane
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn open(&mut self, run: &str, records: u64) {
        let raws: Vec<String> = (1..=records)
            .map(|seq| record(run, seq, "Message", &format!(r#"{{"text":"step {seq}"}}"#)))
            .collect();
        self.runs.insert(run.to_owned(), chain(run, &raws));
    }

    pub(crate) fn sealed(&mut self, run: &str, records: u64) {
        let mut raws: Vec<String> = (1..records)
            .map(|seq| record(run, seq, "Message", &format!(r#"{{"text":"step {seq}"}}"#)))
            .collect();
        raws.push(record(run, records, "RunConcluded", r#"{"outcome":"succeeded"}"#));
        self.runs.insert(run.to_owned(), chain(run, &raws));
        self.seal(run);
    }

    pub(crate) fn seal(&mut self, run: &str) {
        let records = &self.runs[run];
        let entry = seal_entry(run, records.len(), &records.last().unwrap().hash);
        self.entries.push(entry.into_bytes());
    }

    pub(crate) fn head(&mut self, run: &str) {
        let records = &self.runs[run];
        let entry = head_entry(run, records.len(), &records.last().unwrap().hash);
        self.entries.push(entry.into_bytes());
    }

    pub(crate) fn leaves(&self) -> Vec<LeafHash> {
        self.entries.iter().map(|entry| LeafHash::of(entry)).collect()
    }

    /// The signed checkpoint of the first `size` entries, cosigned by both witnesses.
    pub(crate) fn note(&self, size: usize) -> Note {
        self.note_by(size, &[1, 2])
    }

    pub(crate) fn note_by(&self, size: usize, witnesses: &[u8]) -> Note {
        let root = root_of(&self.leaves()[..size]);
        let checkpoint = Checkpoint::new(ORIGIN, size as u64, root).unwrap();
        let mut note = checkpoint.sign(&log_key()).unwrap();
        for seed in witnesses {
            note.add(cosign(&checkpoint, self.time, &witness_key(*seed)).unwrap()).unwrap();
        }
        note
    }

    /// Writes tiles and checkpoint of the whole log as a static tree.
    pub(crate) fn publish(&self) -> PathBuf {
        let dir = self.path("log");
        self.publish_to(&dir);
        dir
    }

    pub(crate) fn publish_to(&self, dir: &Path) {
        let _ = fs::remove_dir_all(dir);
        fs::create_dir_all(dir).unwrap();
        self.write_tiles(dir);
        fs::write(dir.join("checkpoint"), self.note(self.entries.len()).to_string()).unwrap();
    }

    pub(crate) fn write_tiles(&self, dir: &Path) {
        let leaves: Vec<NodeHash> = self.leaves().into_iter().map(Into::into).collect();
        let mut level = leaves;
        for number in 0.. {
            for (index, hashes) in level.chunks(256).enumerate() {
                let bytes: Vec<u8> = hashes.iter().flat_map(|hash| *hash.as_bytes()).collect();
                put(dir, &format!("tile/{number}"), index, hashes.len(), &bytes);
            }
            level = level
                .chunks_exact(256)
                .map(|full| {
                    let mut hashes = full.to_vec();
                    while hashes.len() > 1 {
                        hashes = hashes.chunks(2).map(|pair| NodeHash::join(&pair[0], &pair[1])).collect();
                    }
                    hashes[0]
                })
                .collect();
            if level.is_empty() {
                break;
            }
        }
        for (index, entries) in self.entries.chunks(256).enumerate() {
            put(dir, "tile/entries", index, entries.len(), &bundle(entries));
        }
    }

    pub(crate) fn policy(&self) -> PathBuf {
        self.policy_with("all", &[1, 2])
    }

    pub(crate) fn policy_with(&self, threshold: &str, witnesses: &[u8]) -> PathBuf {
        let mut text = format!("log {}\n", log_key().verifier());
        for seed in witnesses {
            text += &format!("witness w{seed} {}\n", witness_key(*seed).verifier());
        }
        if witnesses.is_empty() {
            text += "quorum none\n";
        } else {
            let names: Vec<String> = witnesses.iter().map(|seed| format!("w{seed}")).collect();
            text += &format!("group all-of-them {threshold} {}\nquorum all-of-them\n", names.join(" "));
        }
        let path = self.path("policy.txt");
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn record_lines(&self, run: &str) -> String {
        self.runs[run]
            .iter()
            .zip(1u64..)
            .map(|(stored, seq)| {
                let raw = serde_json::to_string(&stored.raw).unwrap();
                format!(
                    "{{\"kind\":\"runseal.export.record\",\"seq\":{seq},\"raw\":{raw},\"prev\":\"{}\",\"hash\":\"{}\",\"signature\":null}}\n",
                    stored.prev, stored.hash
                )
            })
            .collect()
    }

    fn seal_of(&self, run: &str) -> Option<usize> {
        let of_run = format!("\"run\":\"{run}\",");
        self.entries.iter().position(|entry| {
            let text = String::from_utf8_lossy(entry);
            text.contains(&of_run) && text.contains("\"kind\":\"seal\"")
        })
    }

    pub(crate) fn run_block(&self, run: &str) -> String {
        let (state, index) = match self.seal_of(run) {
            Some(index) => ("sealed", index.to_string()),
            None => ("open", "null".to_owned()),
        };
        format!(
            "{{\"kind\":\"runseal.export.run\",\"run\":\"{run}\",\"state\":\"{state}\",\"index\":{index}}}\n"
        ) + &self.record_lines(run)
    }

    /// A complete export.
    pub(crate) fn export(&self) -> String {
        let note = serde_json::to_string(&self.note(self.entries.len()).to_string()).unwrap();
        let mut out = format!(
            "{{\"kind\":\"runseal.export\",\"version\":1,\"tenant\":\"{TENANT}\",\"origin\":\"{ORIGIN}\",\"complete\":true,\"checkpoint\":{note}}}\n"
        );
        for (index, entry) in self.entries.iter().enumerate() {
            let entry = serde_json::to_string(std::str::from_utf8(entry).unwrap()).unwrap();
            out += &format!("{{\"kind\":\"runseal.export.entry\",\"index\":{index},\"entry\":{entry}}}\n");
        }
        let mut records = 0;
        for run in self.runs.keys() {
            out += &self.run_block(run);
            records += self.runs[run].len();
        }
        out + &end_line(self.entries.len(), self.runs.len(), records, "")
    }

    /// An export of some runs, each entry with its inclusion proof.
    pub(crate) fn export_of(&self, runs: &[&str]) -> String {
        let leaves = self.leaves();
        let nodes = Nodes::of(&leaves);
        let size = leaves.len() as u64;
        let note = serde_json::to_string(&self.note(leaves.len()).to_string()).unwrap();
        let mut out = format!(
            "{{\"kind\":\"runseal.export\",\"version\":1,\"tenant\":\"{TENANT}\",\"origin\":\"{ORIGIN}\",\"complete\":false,\"checkpoint\":{note}}}\n"
        );
        let (mut entries, mut records) = (0, 0);
        for (index, entry) in self.entries.iter().enumerate() {
            let text = std::str::from_utf8(entry).unwrap();
            if !runs.iter().any(|run| text.contains(&format!("\"run\":\"{run}\","))) {
                continue;
            }
            entries += 1;
            let proof = inclusion::prove(index as u64, size, &nodes).unwrap();
            let proof: Vec<String> = proof.iter().map(|hash| format!("\"{hash}\"")).collect();
            let entry = serde_json::to_string(text).unwrap();
            out += &format!(
                "{{\"kind\":\"runseal.export.entry\",\"index\":{index},\"entry\":{entry},\"proof\":[{}]}}\n",
                proof.join(",")
            );
        }
        for run in runs {
            out += &self.run_block(run);
            records += self.runs[*run].len();
        }
        out + &end_line(entries, runs.len(), records, "")
    }

    /// A tlog-proof file for one entry.
    pub(crate) fn proof(&self, index: usize) -> String {
        let leaves = self.leaves();
        let hashes = inclusion::prove(index as u64, leaves.len() as u64, &Nodes::of(&leaves)).unwrap();
        let hashes: String = hashes.iter().map(|hash| format!("{hash}\n")).collect();
        let extra = runseal_tlog::text::base64(&self.entries[index]);
        let note = self.note(leaves.len());
        format!("c2sp.org/tlog-proof@v1\nextra {extra}\nindex {index}\n{hashes}\n{note}")
    }
}

pub(crate) fn end_line(entries: usize, runs: usize, records: usize, unreadable: &str) -> String {
    format!(
        "{{\"kind\":\"runseal.export.end\",\"entries\":{entries},\"runs\":{runs},\"records\":{records},\"unreadable\":[{unreadable}]}}\n"
    )
}

pub(crate) fn seal_entry(run: &str, records: usize, chain: &ChainHash) -> String {
    format!(
        r#"{{"chain":"{chain}","kind":"seal","outcome":"succeeded","records":{records},"run":"{run}","tenant":"{TENANT}","v":1}}"#
    )
}

pub(crate) fn head_entry(run: &str, records: usize, chain: &ChainHash) -> String {
    format!(
        r#"{{"chain":"{chain}","kind":"head","records":{records},"run":"{run}","tenant":"{TENANT}","v":1}}"#
    )
}

pub(crate) fn bundle(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend(u16::try_from(entry.len()).unwrap().to_be_bytes());
        bytes.extend(entry);
    }
    bytes
}

/// Writes a tile under its path: `001/234` style elements only matter past 999, which tests do not reach
/// except through `x001/...`.
fn put(dir: &Path, prefix: &str, index: usize, width: usize, bytes: &[u8]) {
    let mut name = format!("{:03}", index % 1000);
    if index >= 1000 {
        name = format!("x{:03}/{name}", index / 1000);
    }
    if width < 256 {
        name += &format!(".p/{width}");
    }
    let path = dir.join(prefix).join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Every complete subtree, in memory.
pub(crate) struct Nodes(BTreeMap<NodeId, NodeHash>);

impl Nodes {
    pub(crate) fn of(leaves: &[LeafHash]) -> Self {
        let mut frontier = Frontier::new();
        Self(leaves.iter().flat_map(|leaf| frontier.append(*leaf)).collect())
    }
}

impl NodeReader for Nodes {
    type Error = std::convert::Infallible;
    fn read_nodes(&self, nodes: &[NodeId]) -> Result<Vec<NodeHash>, Self::Error> {
        Ok(nodes.iter().map(|node| self.0[node]).collect())
    }
}

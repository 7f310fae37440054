//! How an audit compares with bare SHA-256 over the same bytes, in one run on one machine.
//!
//! `cargo bench -p runseal-verifier` prints a table of ratios. `RUNSEAL_BENCH_LARGE=1` adds a log of ten
//! million entries, which takes 2 GB in the temporary folder.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(clippy::cast_precision_loss, reason = "ratios are read by people")]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use runseal_evidence::chain::ChainHash;
use runseal_evidence::name::{RunId, TenantId};
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::key::{Algorithm, KeyName, SignerKey};
use runseal_tlog::tile::{TILE_HEIGHT, TileKind, TilePath};
use runseal_tlog::tree::Frontier;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

const ORIGIN: &str = "plane.example/log/acme";

fn key() -> SignerKey {
    SignerKey::from_seed(KeyName::new(ORIGIN).unwrap(), Algorithm::Ed25519, &[7; 32])
}

/// A static log that grows, written tile by tile.
struct Log {
    dir: PathBuf,
    frontier: Frontier,
    tiles: Vec<(u64, Vec<u8>)>,
    bundle: Vec<u8>,
}

impl Log {
    fn new(dir: PathBuf) -> Self {
        Self { dir, frontier: Frontier::new(), tiles: Vec::new(), bundle: Vec::new() }
    }

    fn grow(&mut self, to: u64) {
        for index in self.frontier.size()..to {
            let chain = hex::encode(Sha256::digest(index.to_be_bytes()));
            let entry = format!(
                r#"{{"chain":"{chain}","kind":"seal","outcome":"succeeded","records":17,"run":"run-{index:012}","tenant":"acme","v":1}}"#
            );
            self.bundle.extend(u16::try_from(entry.len()).unwrap().to_be_bytes());
            self.bundle.extend_from_slice(entry.as_bytes());
            for (node, hash) in self.frontier.append(LeafHash::of(entry.as_bytes())) {
                if node.level % TILE_HEIGHT == 0 {
                    let level = usize::from(node.level / TILE_HEIGHT);
                    if self.tiles.len() == level {
                        self.tiles.push((0, Vec::new()));
                    }
                    self.tiles[level].1.extend_from_slice(hash.as_bytes());
                    self.full_tile(level);
                }
            }
            if (index + 1) % 256 == 0 {
                let bundle = std::mem::take(&mut self.bundle);
                self.put(TileKind::Entries, index / 256, 256, &bundle);
            }
        }
        for level in 0..self.tiles.len() {
            let (index, bytes) = self.tiles[level].clone();
            if !bytes.is_empty() {
                self.put(hashes(level), index, u16::try_from(bytes.len() / 32).unwrap(), &bytes);
            }
        }
        let rest = u16::try_from(to % 256).unwrap();
        if rest > 0 {
            self.put(TileKind::Entries, to / 256, rest, &self.bundle.clone());
        }
        let note = Checkpoint::new(ORIGIN, to, self.frontier.root()).unwrap().sign(&key()).unwrap();
        fs::write(self.dir.join("checkpoint"), note.to_string()).unwrap();
    }

    fn full_tile(&mut self, level: usize) {
        if self.tiles[level].1.len() == 256 * 32 {
            let (index, bytes) = std::mem::take(&mut self.tiles[level]);
            self.put(hashes(level), index, 256, &bytes);
            self.tiles[level].0 = index + 1;
        }
    }

    fn put(&self, kind: TileKind, index: u64, width: u16, bytes: &[u8]) {
        let path = self.dir.join(TilePath::new(kind, index, width).unwrap().to_string());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn hashes(level: usize) -> TileKind {
    TileKind::Hashes { level: u8::try_from(level).unwrap() }
}

/// Bare `sha2` over the same bytes: every entry as a leaf, every node above it, on both cores.
fn bare(dir: &Path, size: u64) -> Duration {
    let bundles: Vec<Vec<u8>> = (0..size / 256)
        .map(|index| {
            fs::read(dir.join(TilePath::new(TileKind::Entries, index, 256).unwrap().to_string())).unwrap()
        })
        .collect();
    let started = Instant::now();
    let half = bundles.len() / 2;
    thread::scope(|scope| {
        let one = scope.spawn(|| hash_all(&bundles[..half]));
        let two = hash_all(&bundles[half..]);
        std::hint::black_box((one.join().unwrap(), two));
    });
    started.elapsed()
}

fn hash_all(bundles: &[Vec<u8>]) -> [u8; 32] {
    let mut last = [0; 32];
    for bundle in bundles {
        let mut rest = bundle.as_slice();
        let mut level: Vec<[u8; 32]> = Vec::with_capacity(256);
        while let Some((length, after)) = rest.split_first_chunk::<2>() {
            let (entry, after) = after.split_at(usize::from(u16::from_be_bytes(*length)));
            level.push(Sha256::new().chain_update([0]).chain_update(entry).finalize().into());
            rest = after;
        }
        while level.len() > 1 {
            let join = |pair: &[[u8; 32]]| {
                Sha256::new().chain_update([1]).chain_update(pair[0]).chain_update(pair[1]).finalize().into()
            };
            level = level.chunks_exact(2).map(join).collect();
        }
        last = level[0];
    }
    last
}

struct Ran {
    took: Duration,
    /// Processor time of all threads, which a busy machine does not stretch.
    cpu: Duration,
    peak_mib: f64,
    bytes: u64,
}

fn verifier(args: &[&str], json: &Path) -> Ran {
    let _ = fs::remove_file(json);
    let started = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_runseal-verifier"));
    command.args(args).arg("--json").arg(json).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let proc = PathBuf::from(format!("/proc/{}", child.id()));
    let (mut peak_kib, mut ticks) = (0.0f64, 0u64);
    // Until it is waited for, an ended process still tells what it used.
    loop {
        let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak_kib = peak_kib.max(kib.unwrap_or(0.0));
        let stat = fs::read_to_string(proc.join("stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        ticks = ticks.max(fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap());
        if fields[0] == "Z" {
            break;
        }
        thread::sleep(Duration::from_millis(2));
    }
    let took = started.elapsed();
    assert!(child.wait().unwrap().success(), "{args:?}");
    let report: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    // The kernel counts in hundredths of a second.
    let cpu = Duration::from_millis(ticks * 10);
    Ran { took, cpu, peak_mib: peak_kib / 1024.0, bytes: report["counts"]["bytes"].as_u64().unwrap() }
}

fn best(runs: usize, mut run: impl FnMut() -> Ran) -> Ran {
    let mut all: Vec<Ran> = (0..runs).map(|_| run()).collect();
    all.sort_by_key(|ran| ran.took);
    all.swap_remove(0)
}

fn row(what: &str, figure: &str, of: &str) {
    println!("{what:<58} {figure:>12}  {of}");
}

fn audits(work: &TempDir, policy: &Path) {
    let json = work.path().join("report.json");
    let dir = work.path().join("log");
    let mut log = Log::new(dir.clone());
    let small = 1_000_000;
    log.grow(small);
    let url = dir.to_str().unwrap();
    let policy = policy.to_str().unwrap();
    let audit = ["audit", "--policy", policy, "--url", url];
    let bare_small = (0..3).map(|_| bare(&dir, small)).min().unwrap();
    let fresh = best(3, || verifier(&audit, &json));
    row("bare sha2, 1e6 entries, two threads", &format!("{:.0} ms", bare_small.as_secs_f64() * 1e3), "");
    row(
        "audit of 1e6 entries / bare sha2",
        &format!("{:.2}", fresh.took.as_secs_f64() / bare_small.as_secs_f64()),
        &format!(
            "{:.0} ms, of processor {:.0} ms, peak {:.0} MiB",
            fresh.took.as_secs_f64() * 1e3,
            fresh.cpu.as_secs_f64() * 1e3,
            fresh.peak_mib
        ),
    );
    let history = work.path().join("history.redb");
    let kept = best(2, || {
        let _ = fs::remove_file(&history);
        verifier(&[&audit[..], &["--history", history.to_str().unwrap()]].concat(), &json)
    });
    row(
        "the same, remembered with --history / bare sha2",
        &format!("{:.2}", kept.took.as_secs_f64() / bare_small.as_secs_f64()),
        &format!(
            "{:.0} ms, of processor {:.0} ms, peak {:.0} MiB, history {:.0} MiB",
            kept.took.as_secs_f64() * 1e3,
            kept.cpu.as_secs_f64() * 1e3,
            kept.peak_mib,
            fs::metadata(&history).unwrap().len() as f64 / 1_048_576.0
        ),
    );
    let mut again = Vec::new();
    for round in 1..=3 {
        log.grow(small + round * 1_000);
        again.push(verifier(&[&audit[..], &["--history", history.to_str().unwrap()]].concat(), &json));
    }
    again.sort_by_key(|ran| ran.took);
    row(
        "re-audit after 1,000 new entries on 1e6",
        &format!("{:.0} ms", again[0].took.as_secs_f64() * 1e3),
        &format!("{:.0} KiB read", again[0].bytes as f64 / 1024.0),
    );
    if std::env::var_os("RUNSEAL_BENCH_LARGE").is_some() {
        let large = 10_000_000;
        log.grow(large);
        let ran = verifier(&audit, &json);
        row(
            "audit of 1e7 entries / ten times 1e6",
            &format!("{:.2}", ran.took.as_secs_f64() / fresh.took.as_secs_f64() / 10.0),
            &format!("{:.0} ms, peak {:.0} MiB", ran.took.as_secs_f64() * 1e3, ran.peak_mib),
        );
    }
}

/// An export of `runs` runs with `records` records each.
fn export(path: &Path, runs: u64, records: u64) {
    let tenant = TenantId::new("acme").unwrap();
    let filler = "All work and no play makes a dull agent. ".repeat(20);
    let raw = |run: &str, seq: u64| {
        if seq == records {
            format!(
                r#"{{"at":"2026-11-30T15:51:19.123Z","epoch":1,"kind":"RunConcluded","payload":{{"outcome":"succeeded"}},"run":"{run}","seq":{seq},"tenant":"acme","v":1}}"#
            )
        } else {
            format!(
                r#"{{"at":"2026-11-30T15:51:19.123Z","epoch":1,"kind":"Message","payload":{{"text":"{filler}","n":{seq}}},"run":"{run}","seq":{seq},"tenant":"acme","v":1}}"#
            )
        }
    };
    let (mut entries, mut frontier) = (String::new(), Frontier::new());
    let mut heads = Vec::new();
    for at in 0..runs {
        let run = format!("run-{at:08}");
        let start = ChainHash::genesis(&tenant, &RunId::new(run.clone()).unwrap());
        let head = (1..=records).fold(start, |head, seq| head.link(raw(&run, seq).as_bytes()));
        let entry = format!(
            r#"{{"chain":"{head}","kind":"seal","outcome":"succeeded","records":{records},"run":"{run}","tenant":"acme","v":1}}"#
        );
        frontier.append_stored(NodeHash::from(LeafHash::of(entry.as_bytes())));
        let quoted = serde_json::to_string(&entry).unwrap();
        let _ = writeln!(entries, r#"{{"kind":"runseal.export.entry","index":{at},"entry":{quoted}}}"#);
        heads.push(run);
    }
    let note = Checkpoint::new(ORIGIN, runs, frontier.root()).unwrap().sign(&key()).unwrap();
    let note = serde_json::to_string(&note.to_string()).unwrap();
    let mut out = BufWriter::new(File::create(path).unwrap());
    writeln!(out, r#"{{"kind":"runseal.export","version":1,"tenant":"acme","origin":"{ORIGIN}","complete":true,"checkpoint":{note}}}"#).unwrap();
    out.write_all(entries.as_bytes()).unwrap();
    for (index, run) in heads.iter().enumerate() {
        writeln!(out, r#"{{"kind":"runseal.export.run","run":"{run}","state":"sealed","index":{index}}}"#)
            .unwrap();
        let mut prev = ChainHash::genesis(&tenant, &RunId::new(run.clone()).unwrap());
        for seq in 1..=records {
            let raw = raw(run, seq);
            let hash = prev.link(raw.as_bytes());
            let quoted = serde_json::to_string(&raw).unwrap();
            writeln!(out, r#"{{"kind":"runseal.export.record","seq":{seq},"raw":{quoted},"prev":"{prev}","hash":"{hash}","signature":null}}"#).unwrap();
            prev = hash;
        }
    }
    let total = runs * records;
    writeln!(
        out,
        r#"{{"kind":"runseal.export.end","entries":{runs},"runs":{runs},"records":{total},"unreadable":[]}}"#
    )
    .unwrap();
    out.flush().unwrap();
}

fn exports(work: &TempDir, policy: &Path) {
    let json = work.path().join("report.json");
    for (name, runs) in [("small", 1_000u64), ("large", 10_000)] {
        let path = work.path().join("export.jsonl");
        export(&path, runs, 20);
        let mut bytes = Vec::new();
        File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
        let hashed = (0..3)
            .map(|_| {
                let started = Instant::now();
                std::hint::black_box(Sha256::digest(&bytes));
                started.elapsed()
            })
            .min()
            .unwrap();
        let size = bytes.len() as f64 / 1_048_576.0;
        drop(bytes);
        let args = ["export", path.to_str().unwrap(), "--policy", policy.to_str().unwrap()];
        let ran = best(3, || verifier(&args, &json));
        row(
            &format!("export check, {name}: rate / one-core SHA-256"),
            &format!("{:.2}", hashed.as_secs_f64() / ran.took.as_secs_f64()),
            &format!("{size:.0} MiB in {:.0} ms, peak {:.0} MiB", ran.took.as_secs_f64() * 1e3, ran.peak_mib),
        );
    }
}

fn main() {
    let work = TempDir::new().unwrap();
    let policy = work.path().join("policy.txt");
    fs::write(&policy, format!("log {}\nquorum none\n", key().verifier())).unwrap();
    exports(&work, &policy);
    audits(&work, &policy);
}

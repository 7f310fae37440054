//! How an audit compares with bare SHA-256 over the same bytes, in one run on one machine.
//!
//! `cargo bench -p runseal-verifier` prints a table of ratios; after `--` any of `exports`, `audits` and `large`
//! choose a part. `RUNSEAL_BENCH_LARGE=1` adds `large`, a log of ten million entries, which takes 2 GB in the
//! temporary folder. `RUNSEAL_BENCH_DIR` names a folder in which the logs are kept for the next time.
//! `RUNSEAL_BENCH_EXPORT` and `RUNSEAL_BENCH_POLICY` name an export of one's own and its policy for `exports`.
//!
//! "Bare sha2" is what no auditor can do without, and nothing else: the bytes are in memory, each entry is hashed
//! as a leaf and each pair of hashes as a node, with the `sha2` crate on both cores. "One stream" hashes the same
//! files as they lie on disk without that structure; it checks nothing, and is printed for scale. The audit is
//! the whole process, from its start to its report.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(clippy::cast_precision_loss, reason = "ratios are read by people")]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
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

/// The entry bundles of a log, in memory.
fn bundles(dir: &Path, size: u64) -> Vec<Vec<u8>> {
    let path = |index| dir.join(TilePath::new(TileKind::Entries, index, 256).unwrap().to_string());
    (0..size / 256).map(|index| fs::read(path(index)).unwrap()).collect()
}

/// Runs `hash` over both halves of the bundles at once. The shortest time it took, and processor time of a run.
fn on_both_cores(bundles: &[Vec<u8>], hash: fn(&[Vec<u8>]) -> [u8; 32]) -> (Duration, Duration) {
    const RUNS: u32 = 5;
    let run = || {
        let started = Instant::now();
        let (one, two) = bundles.split_at(bundles.len() / 2);
        thread::scope(|scope| {
            let one = scope.spawn(|| hash(one));
            let two = hash(two);
            std::hint::black_box((one.join().unwrap(), two));
        });
        started.elapsed()
    };
    let own = Path::new("/proc/self");
    let before = processor(&stat(own));
    let took = (0..RUNS).map(|_| run()).min().unwrap();
    (took, processor(&stat(own)).saturating_sub(before) / RUNS)
}

/// The fields of a process's `stat` after its name.
fn stat(proc: &Path) -> Vec<String> {
    let stat = fs::read_to_string(proc.join("stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().map(str::to_owned).collect()
}

/// Processor time of all threads, which a busy machine does not stretch. The kernel counts in hundredths of a second.
fn processor(stat: &[String]) -> Duration {
    let ticks = |field: usize| stat[field].parse::<u64>().unwrap();
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// The bundles' bytes, and 32 bytes of leaf hash for each entry, as one stream.
fn hash_stream(bundles: &[Vec<u8>]) -> [u8; 32] {
    let mut stream = Sha256::new();
    for bundle in bundles {
        stream.update(bundle);
        stream.update([0; 256 * 32]);
    }
    stream.finalize().into()
}

/// Every entry as a leaf, every node above it.
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
    let (mut peak_kib, mut cpu) = (0.0f64, Duration::ZERO);
    // Until it is waited for, an ended process still tells what it used.
    loop {
        let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak_kib = peak_kib.max(kib.unwrap_or(0.0));
        let stat = stat(&proc);
        cpu = cpu.max(processor(&stat));
        if stat[0] == "Z" {
            break;
        }
        thread::sleep(Duration::from_millis(2));
    }
    let took = started.elapsed();
    assert!(child.wait().unwrap().success(), "{args:?}");
    let report: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    Ran { took, cpu, peak_mib: peak_kib / 1024.0, bytes: report["counts"]["bytes"].as_u64().unwrap() }
}

fn best(runs: usize, mut run: impl FnMut() -> Ran) -> Ran {
    let mut all: Vec<Ran> = (0..runs).map(|_| run()).collect();
    all.sort_by_key(|ran| ran.took);
    all.swap_remove(0)
}

fn row(what: &str, figure: &str, of: &str) {
    println!("{what:<82} {figure:>8}  {of}");
}

fn ms(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1e3)
}

fn used(ran: &Ran) -> String {
    format!("{}, of processor {}, peak {:.0} MiB", ms(ran.took), ms(ran.cpu), ran.peak_mib)
}

fn ratio(one: Duration, other: Duration) -> String {
    format!("{:.2}", one.as_secs_f64() / other.as_secs_f64())
}

/// Where benchmarks put their files: a folder that stays, or one that goes with the process.
struct Place {
    dir: PathBuf,
    temporary: Option<TempDir>,
}

impl Place {
    fn new() -> Self {
        if let Some(dir) = std::env::var_os("RUNSEAL_BENCH_DIR") {
            fs::create_dir_all(&dir).unwrap();
            return Self { dir: dir.into(), temporary: None };
        }
        let temporary = TempDir::new().unwrap();
        Self { dir: temporary.path().to_owned(), temporary: Some(temporary) }
    }

    /// A log of that size, made unless it is there.
    fn log(&self, size: u64) -> String {
        let dir = self.dir.join(format!("log-{size}"));
        if !dir.join("checkpoint").exists() {
            Log::new(dir.clone()).grow(size);
        }
        dir.to_str().unwrap().to_owned()
    }
}

/// A part of the benchmark, given where its files go and the policy.
type Part = fn(&Place, &str);

const SMALL: u64 = 1_000_000;
const LARGE: u64 = 10_000_000;

fn fresh(place: &Place, policy: &str, size: u64, runs: usize) -> Ran {
    let json = place.dir.join("report.json");
    let url = place.log(size);
    best(runs, || verifier(&["audit", "--policy", policy, "--url", &url], &json))
}

fn audits(place: &Place, policy: &str) {
    let json = place.dir.join("report.json");
    let dir = PathBuf::from(place.log(SMALL));
    let in_memory = bundles(&dir, SMALL);
    let (bare, bare_cpu) = on_both_cores(&in_memory, hash_all);
    let (stream, _) = on_both_cores(&in_memory, hash_stream);
    drop(in_memory);
    let of = format!("of processor {}; one stream: {}", ms(bare_cpu), ms(stream));
    row("bare sha2, 1e6 entries, both cores", &ms(bare), &of);
    let ran = fresh(place, policy, SMALL, 7);
    row("audit of 1e6 entries / bare sha2", &ratio(ran.took, bare), &used(&ran));
    row("the same in processor time", &ratio(ran.cpu, bare_cpu), "");
    let history = place.dir.join("history.redb");
    let remembered = history.to_str().unwrap();
    for (flag, what) in [(None, "--history"), (Some("--history-light"), "--history-light")] {
        let url = place.log(SMALL);
        let args: Vec<&str> = ["audit", "--policy", policy, "--url", &url, "--history", remembered]
            .into_iter()
            .chain(flag)
            .collect();
        let kept = best(3, || {
            let _ = fs::remove_file(&history);
            verifier(&args, &json)
        });
        let mib = fs::metadata(&history).unwrap().len() as f64 / 1_048_576.0;
        let of = format!("{}, history {mib:.0} MiB", used(&kept));
        row(&format!("the same, remembered with {what} / bare sha2"), &ratio(kept.took, bare), &of);
    }
    let _ = fs::remove_file(&history);
    let grown = TempDir::new_in(&place.dir).unwrap();
    let mut log = Log::new(grown.path().join("log"));
    log.grow(SMALL);
    let url = log.dir.to_str().unwrap().to_owned();
    let args = ["audit", "--policy", policy, "--url", &url, "--history", remembered];
    verifier(&args, &json);
    let mut round = 0;
    let again = best(5, || {
        round += 1;
        log.grow(SMALL + round * 1_000);
        verifier(&args, &json)
    });
    let of = format!("{}, {:.0} KiB read", used(&again), again.bytes as f64 / 1024.0);
    row("re-audit after 1,000 new entries on 1e6", &ms(again.took), &of);
    let _ = fs::remove_file(&history);
}

fn large(place: &Place, policy: &str) {
    let small = fresh(place, policy, SMALL, 3);
    let large = fresh(place, policy, LARGE, 2);
    row("audit of 1e7 entries / ten times 1e6", &ratio(large.took, small.took * 10), &used(&large));
}

/// An export of `runs` runs with `records` records each, `text` in every record but the last of a run.
struct Shape {
    name: &'static str,
    runs: u64,
    records: u64,
    text: String,
}

fn shapes() -> [Shape; 6] {
    let sentence = "All work and no play makes a dull agent. ";
    let source = "fn main() {\n\tprintln!(\"Größe: {:?}\", \"\\\\\");\n}\n";
    let shape = |name, runs, records, text: String| Shape { name, runs, records, text };
    [
        shape("records of 1 KiB, a short file", 1_000, 20, sentence.repeat(20)),
        shape("records of 1 KiB", 10_000, 20, sentence.repeat(20)),
        shape("records of 130 bytes", 5_000, 100, String::new()),
        shape("records of 130 bytes, runs of two", 100_000, 2, String::new()),
        shape("records of 600 KiB, text full of escapes", 100, 5, source.repeat(8_000)),
        shape("records of 600 KiB", 100, 5, sentence.repeat(15_000)),
    ]
}

fn export(path: &Path, shape: &Shape) {
    let &Shape { runs, records, ref text, .. } = shape;
    let tenant = TenantId::new("acme").unwrap();
    let text =
        if text.is_empty() { "{}".to_owned() } else { serde_json::json!({ "text": text }).to_string() };
    let raw = |run: &str, seq: u64| {
        let (kind, payload) = if seq == records {
            ("RunConcluded", r#"{"outcome":"succeeded"}"#)
        } else {
            ("Message", text.as_str())
        };
        format!(
            r#"{{"at":"2026-11-30T15:51:19.123Z","epoch":1,"kind":"{kind}","payload":{payload},"run":"{run}","seq":{seq},"tenant":"acme","v":1}}"#
        )
    };
    let (mut entries, mut frontier) = (String::new(), Frontier::new());
    let mut blocks = String::new();
    for at in 0..runs {
        let run = format!("run-{at:08}");
        let _ = writeln!(
            blocks,
            r#"{{"kind":"runseal.export.run","run":"{run}","state":"sealed","index":{at}}}"#
        );
        let mut head = ChainHash::genesis(&tenant, &RunId::new(run.clone()).unwrap());
        for seq in 1..=records {
            let raw = raw(&run, seq);
            let (prev, hash) = (head, head.link(raw.as_bytes()));
            let quoted = serde_json::to_string(&raw).unwrap();
            let _ = writeln!(
                blocks,
                r#"{{"kind":"runseal.export.record","seq":{seq},"raw":{quoted},"prev":"{prev}","hash":"{hash}","signature":null}}"#
            );
            head = hash;
        }
        let entry = format!(
            r#"{{"chain":"{head}","kind":"seal","outcome":"succeeded","records":{records},"run":"{run}","tenant":"acme","v":1}}"#
        );
        frontier.append_stored(NodeHash::from(LeafHash::of(entry.as_bytes())));
        let quoted = serde_json::to_string(&entry).unwrap();
        let _ = writeln!(entries, r#"{{"kind":"runseal.export.entry","index":{at},"entry":{quoted}}}"#);
    }
    let note = Checkpoint::new(ORIGIN, runs, frontier.root()).unwrap().sign(&key()).unwrap();
    let note = serde_json::to_string(&note.to_string()).unwrap();
    let mut out = BufWriter::new(File::create(path).unwrap());
    writeln!(out, r#"{{"kind":"runseal.export","version":1,"tenant":"acme","origin":"{ORIGIN}","complete":true,"checkpoint":{note}}}"#).unwrap();
    out.write_all(entries.as_bytes()).unwrap();
    out.write_all(blocks.as_bytes()).unwrap();
    let total = runs * records;
    writeln!(
        out,
        r#"{{"kind":"runseal.export.end","entries":{runs},"runs":{runs},"records":{total},"unreadable":[]}}"#
    )
    .unwrap();
    out.flush().unwrap();
}

fn exports(place: &Place, policy: &str) {
    for (at, shape) in shapes().iter().enumerate() {
        let path = place.dir.join(format!("export-{at}.jsonl"));
        if !path.exists() {
            export(&path, shape);
        }
        check(place, &path, policy, shape.name);
    }
    if let Some(path) = std::env::var_os("RUNSEAL_BENCH_EXPORT") {
        let own = std::env::var("RUNSEAL_BENCH_POLICY").unwrap();
        check(place, Path::new(&path), &own, "the export given");
    }
}

/// An export's check against the hashing of its bytes.
fn check(place: &Place, path: &Path, policy: &str, name: &str) {
    let json = place.dir.join("report.json");
    let bytes = fs::read(path).unwrap();
    let hash = || {
        let started = Instant::now();
        std::hint::black_box(Sha256::digest(&bytes));
        started.elapsed()
    };
    let hashed = (0..3).map(|_| hash()).min().unwrap();
    let size = bytes.len() as f64 / 1_048_576.0;
    drop(bytes);
    let args = ["export", path.to_str().unwrap(), "--policy", policy];
    let ran = best(5, || verifier(&args, &json));
    let of = format!("{size:.0} MiB, hashed in {}, checked in {}", ms(hashed), used(&ran));
    row(&format!("one-core SHA-256 / export check, {name}"), &ratio(hashed, ran.took), &of);
}

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let place = Place::new();
    let policy = place.dir.join("policy.txt");
    fs::write(&policy, format!("log {}\nquorum none\n", key().verifier())).unwrap();
    let policy = policy.to_str().unwrap();
    let parts: [(&str, Part, bool); 3] = [
        ("exports", exports, true),
        ("audits", audits, true),
        ("large", large, std::env::var_os("RUNSEAL_BENCH_LARGE").is_some()),
    ];
    for (name, part, usual) in parts {
        if if chosen.is_empty() { usual } else { chosen.iter().any(|chosen| chosen == name) } {
            part(&place, policy);
        }
    }
    drop(place.temporary);
}

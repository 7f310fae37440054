//! What the size of a journal costs: roots, proofs and checkpoints, opening, opening after a crash, and the full
//! check with the memory that it needs.
//!
//! `cargo bench --bench scale` measures journals of 1,000 to 100,000 sealed runs of 8 records with 256-byte
//! payloads, each in a process of its own; `RUNSEAL_BENCH_LARGE=1` adds one of a million. `RUNSEAL_BENCH_DIR` says
//! where they are built and keeps them there for the next time; without it they are built in the system's temporary
//! directory and removed. `RUNSEAL_BENCH_RUNS` measures that one size alone.

#![expect(clippy::cast_precision_loss, reason = "counts shown as rates; 52 bits are plenty")]

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use runseal::evidence::json::Json;
use runseal::evidence::name::{Base, Kind, RunId, TenantId};
use runseal::evidence::record::RecordDraft;
use runseal::tlog::checkpoint::Checkpoint;
use runseal::tlog::key::{Algorithm, KeyName, SignerKey};
use runseal::{CreateOptions, Journal, OpenOptions, Tenant};
use sha2::{Digest, Sha256};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Records of each run, the last of them its conclusion.
const RECORDS: usize = 8;
/// Bytes of the payload of each record but the last.
const PAYLOAD_BYTES: usize = 256;
/// Runs imported in one transaction.
const BATCH: u64 = 2000;
/// Calls that a median is taken over.
const CALLS: u64 = 2000;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["build", plane, runs] => return build(Path::new(plane), runs.parse()?),
        ["proofs", plane, runs] => return proofs(Path::new(plane), runs.parse()?),
        ["crash", plane, idle_ms] => return crash(Path::new(plane), Duration::from_millis(idle_ms.parse()?)),
        ["open", plane] => return open(Path::new(plane)),
        ["check", plane] => return check(Path::new(plane)),
        _ => {}
    }
    let mut sizes = vec![1000, 10_000, 100_000];
    if std::env::var("RUNSEAL_BENCH_LARGE").is_ok_and(|large| large == "1") {
        sizes.push(1_000_000);
    }
    if let Ok(only) = std::env::var("RUNSEAL_BENCH_RUNS") {
        sizes = vec![only.parse()?];
    }
    let temporary = tempfile::tempdir()?;
    let kept = std::env::var_os("RUNSEAL_BENCH_DIR").map(PathBuf::from);
    let parent = kept.as_deref().unwrap_or(temporary.path());
    let planes: Vec<(PathBuf, u64)> =
        sizes.into_iter().map(|runs| Ok((built(parent, runs)?, runs))).collect::<Outcome<_>>()?;

    println!(
        "microseconds, the median of {CALLS} calls, and the ratio to the smallest size (goal: within 2)"
    );
    let names = ["root", "inclusion, first", "inclusion", "consistency", "checkpoint"];
    println!("{:>10} {}", "seals", names.map(|name| format!("{name:>16}")).join(" "));
    let mut first: Option<Vec<f64>> = None;
    for (plane, runs) in &planes {
        let told = told(&["proofs", text(plane)?, &runs.to_string()])?;
        let medians: Vec<f64> = told.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let base = first.get_or_insert_with(|| medians.clone());
        let columns = medians.iter().zip(base.iter()).map(|(us, base)| format!("{us:.1} ({:.2})", us / base));
        let columns: Vec<String> = columns.map(|column| format!("{column:>16}")).collect();
        println!("{runs:>10} {}", columns.join(" "));
    }

    println!(
        "\nseconds to open (goal: under 1): after an orderly stop, and after a crash, idle or in the middle of work"
    );
    println!("{:>10} {:>10} {:>10} {:>10} {:>12}", "runs", "orderly", "idle", "busy", "file MB");
    for (plane, runs) in &planes {
        let file = plane.join("journal.redb");
        let mut seconds = vec![told(&["open", text(plane)?])?];
        for idle_ms in ["3000", "0"] {
            // The child ends by aborting, so its status says nothing.
            Command::new(std::env::current_exe()?).args(["crash", text(plane)?, idle_ms]).output()?;
            seconds.push(told(&["open", text(plane)?])?);
        }
        let mb = fs::metadata(file)?.len() as f64 / 1e6;
        println!("{runs:>10} {:>10} {:>10} {:>10} {mb:>12.0}", seconds[0], seconds[1], seconds[2]);
    }

    println!(
        "\nthe full check, and SHA-256 alone over pieces of a record's size on one core (goal: 0.5 of it)"
    );
    println!("hashed: wire bytes of records and entries; held: every key and value that was read");
    println!(
        "{:>10} {:>8} {:>10} {:>10} {:>10} {:>8} {:>10} {:>8} {:>9}",
        "records", "seconds", "hashed MB", "MB/s", "SHA MB/s", "ratio", "held MB/s", "ratio", "peak MiB"
    );
    for (plane, _) in &planes {
        println!("{}", told(&["check", text(plane)?])?);
    }
    Ok(())
}

/// What a process of our own says that does one thing.
fn told(args: &[&str]) -> Outcome<String> {
    let output = Command::new(std::env::current_exe()?).args(args).output()?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?.trim_end().to_owned());
    }
    Err(format!("{args:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

fn text(path: &Path) -> Outcome<&str> {
    path.to_str().ok_or_else(|| "the directory's name is not UTF-8".into())
}

/// The plane of so many runs, built where it is not there yet.
fn built(parent: &Path, runs: u64) -> Outcome<PathBuf> {
    let plane = parent.join(format!("scale-{runs}"));
    if !plane.exists() {
        let unfinished = parent.join(format!("scale-{runs}.unfinished"));
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        let start = Instant::now();
        told(&["build", text(&unfinished)?, &runs.to_string()])?;
        fs::rename(&unfinished, &plane)?;
        eprintln!("built {runs} runs in {:.1} s", start.elapsed().as_secs_f64());
    }
    Ok(plane)
}

fn build(plane: &Path, runs: u64) -> Outcome<()> {
    let journal = Journal::create(plane, &Base::new("bench.example")?, &CreateOptions::default())?;
    let tenant = bench(&journal)?;
    let text = "x".repeat(PAYLOAD_BYTES - r#"{"text":""}"#.len());
    let mut drafts = vec![draft("Note", &format!("{{\"text\":\"{text}\"}}"))?; RECORDS - 1];
    drafts.push(draft("RunConcluded", r#"{"outcome":"succeeded"}"#)?);
    let mut next = 0;
    while next < runs {
        let until = runs.min(next + BATCH);
        let batch =
            (next..until).map(|number| Ok((RunId::new(format!("run-{number:09}"))?, drafts.clone(), true)));
        tenant.import_all(batch.collect::<Outcome<_>>()?)?;
        next = until;
    }
    let signed = tenant.sign_checkpoint()?;
    tenant.publish(&signed)?;
    Ok(())
}

/// Medians of a root, an inclusion and a consistency proof at indexes all over the tree, and of signing what
/// has grown by one, the sync aside.
fn proofs(plane: &Path, size: u64) -> Outcome<()> {
    let journal = Journal::open(plane)?;
    let tenant = bench(&journal)?;
    let anywhere = |call: u64| call.wrapping_mul(0x9e37_79b9_7f4a_7c15) % size;
    let root = median(|_| {
        black_box(tenant.root_at(size)?);
        Ok(())
    })?;
    let include = |call| {
        black_box(tenant.inclusion_proof(anywhere(call), size)?);
        Ok(())
    };
    // In a large tree most of the first calls each read a tile out of the file; the second time it is in memory, as
    // it is in a small tree from the first call on.
    let (from_file, inclusion) = (median(include)?, median(include)?);
    let consistency = median(|call| {
        black_box(tenant.consistency_proof(anywhere(call), size)?);
        Ok(())
    })?;
    // Everything of a checkpoint but the disk. A tree that was signed is held against what is remembered of it and
    // not signed again, so a signature is added here.
    let key = SignerKey::from_seed(KeyName::new(tenant.origin())?, Algorithm::Ed25519, &[7; 32]);
    let root_now = tenant.root_at(size)?;
    let checkpoint = median(|_| {
        black_box(tenant.sign_checkpoint()?);
        black_box(Checkpoint::new(tenant.origin(), size, root_now)?.sign(&key)?);
        Ok(())
    })?;
    println!("{root} {from_file} {inclusion} {consistency} {checkpoint}");
    Ok(())
}

fn median(mut call: impl FnMut(u64) -> Outcome<()>) -> Outcome<f64> {
    let mut times = Vec::new();
    for number in 0..CALLS {
        let start = Instant::now();
        call(number)?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2].as_secs_f64() * 1e6)
}

fn open(plane: &Path) -> Outcome<()> {
    let start = Instant::now();
    let journal = Journal::open(plane)?;
    black_box(bench(&journal)?.tree_size()?);
    println!("{:.3}", start.elapsed().as_secs_f64());
    Ok(())
}

/// Commits something and is idle for so long, or works, and is gone before anything is tidied up.
fn crash(plane: &Path, idle: Duration) -> Outcome<()> {
    let journal = Journal::open(plane)?;
    let (tenant, run) = (bench(&journal)?, RunId::new("crash")?);
    let lease = tenant.acquire(&run, "bench", Duration::from_secs(1))?;
    if idle.is_zero() {
        // In the middle of work: the log is about as full as it ever is.
        let text = "x".repeat(200 << 10);
        for _ in 0..75 {
            let payload = Json::parse(format!("{{\"text\":\"{text}\"}}").as_bytes())?;
            let draft = RecordDraft { kind: Kind::new("Note")?, payload, effect: None, case: None };
            tenant.append(&run, lease.epoch, vec![draft])?;
        }
    } else {
        tenant.release(&run, lease.epoch)?;
        std::thread::sleep(idle);
    }
    std::process::abort()
}

fn check(plane: &Path) -> Outcome<()> {
    let journal = Journal::open_with(plane, &OpenOptions::for_check())?;
    let tenant = bench(&journal)?;
    let before = hashing_rate();
    let start = Instant::now();
    let report = tenant.check(&mut |_| {})?;
    let seconds = start.elapsed().as_secs_f64();
    let hashing = f64::midpoint(before, hashing_rate());
    assert!(report.is_sound(), "{report:?}");
    let (hashed, held) = (report.bytes as f64, report.held_bytes as f64);
    let peak = peak_bytes().map_or_else(|| "-".to_owned(), |bytes| (bytes >> 20).to_string());
    println!(
        "{:>10} {seconds:>8.2} {:>10.0} {:>10.0} {:>10.0} {:>8.2} {:>10.0} {:>8.2} {peak:>9}",
        report.records,
        hashed / 1e6,
        hashed / seconds / 1e6,
        hashing / 1e6,
        hashed / seconds / hashing,
        held / seconds / 1e6,
        held / seconds / hashing,
    );
    Ok(())
}

/// Bytes a second that SHA-256 takes on one core, in pieces of the size of a record.
fn hashing_rate() -> f64 {
    let record = [7u8; 420];
    let start = Instant::now();
    let mut bytes = 0;
    while start.elapsed().as_millis() < 500 {
        for _ in 0..1000 {
            black_box(Sha256::digest(black_box(record)));
            bytes += record.len();
        }
    }
    bytes as f64 / start.elapsed().as_secs_f64()
}

/// The most memory that the system says this process has held, where it says so.
fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
}

fn bench(journal: &Journal) -> Outcome<Tenant> {
    Ok(journal.tenant(&TenantId::new("bench")?))
}

fn draft(kind: &str, payload: &str) -> Outcome<RecordDraft> {
    let payload = Json::parse(payload.as_bytes())?;
    Ok(RecordDraft { kind: Kind::new(kind)?, payload, effect: None, case: None })
}

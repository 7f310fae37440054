//! What the size of a journal costs: proofs and roots while it grows, then opening and checking it.
//!
//! `cargo bench --bench scale` grows one journal tenfold at a time and prints a line for each size.
//! `RUNSEAL_BENCH_RUNS` sets the largest (default 100000 sealed runs of 8 records; a million needs about
//! 20 GB and some minutes), `RUNSEAL_BENCH_DIR` where (default the system's temporary directory).

#![expect(clippy::cast_precision_loss, reason = "counts shown as rates; 52 bits are plenty")]

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use runseal::evidence::json::Json;
use runseal::evidence::name::{Base, Kind, RunId, TenantId};
use runseal::evidence::record::RecordDraft;
use runseal::{CreateOptions, Journal, Tenant};
use sha2::{Digest, Sha256};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Records of each run, the last of them its conclusion.
const RECORDS: usize = 8;
/// Runs imported in one transaction.
const BATCH: u64 = 500;
/// Calls that a median is taken over.
const CALLS: u64 = 2000;

fn main() -> Outcome<()> {
    let largest =
        std::env::var("RUNSEAL_BENCH_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let parent = std::env::var_os("RUNSEAL_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let dir = tempfile::tempdir_in(parent)?;
    let plane = dir.path().join("plane");
    let journal = Journal::create(&plane, &Base::new("bench.example")?, &CreateOptions::default())?;
    let tenant = journal.tenant(&TenantId::new("bench")?);
    println!(
        "microseconds, the median of {CALLS} calls, and the ratio to the smallest size (goal: within 2)"
    );
    println!("{:>10} {:>14} {:>16} {:>16} {:>14}", "seals", "root", "inclusion", "consistency", "built/s");
    let (mut size, mut first) = (1000, None);
    let mut built = 0;
    while size <= largest {
        let start = Instant::now();
        grow(&tenant, built, size)?;
        let rate = (size - built) as f64 / start.elapsed().as_secs_f64();
        built = size;
        let medians = proofs(&tenant, size)?;
        let base = *first.get_or_insert(medians);
        let show = |index: usize| format!("{:.1} ({:.2})", medians[index], medians[index] / base[index]);
        println!("{size:>10} {:>14} {:>16} {:>16} {rate:>14.0}", show(0), show(1), show(2));
        size *= 10;
    }
    tenant.sign_checkpoint()?;
    drop((journal, tenant));
    reopened(&plane, built)
}

/// Seals runs of 8 records until there are `to` of them.
fn grow(tenant: &Tenant, from: u64, to: u64) -> Outcome<()> {
    let note = draft("Note", &format!("{{\"text\":\"{}\"}}", "x".repeat(245)))?;
    let mut drafts = vec![note; RECORDS - 1];
    drafts.push(draft("RunConcluded", r#"{"outcome":"succeeded"}"#)?);
    let mut next = from;
    while next < to {
        let until = to.min(next + BATCH);
        let runs =
            (next..until).map(|number| Ok((RunId::new(format!("run-{number:09}"))?, drafts.clone(), true)));
        tenant.import_all(runs.collect::<Outcome<_>>()?)?;
        next = until;
    }
    Ok(())
}

/// Medians of a root, an inclusion and a consistency proof, at indexes all over the tree.
fn proofs(tenant: &Tenant, size: u64) -> Outcome<[f64; 3]> {
    let anywhere = |call: u64| call.wrapping_mul(0x9e37_79b9_7f4a_7c15) % size;
    Ok([
        median(|_| {
            black_box(tenant.root_at(size)?);
            Ok(())
        })?,
        median(|call| {
            black_box(tenant.inclusion_proof(anywhere(call), size)?);
            Ok(())
        })?,
        median(|call| {
            black_box(tenant.consistency_proof(anywhere(call), size)?);
            Ok(())
        })?,
    ])
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

/// Opens the journal again and checks all of it, against the rate of SHA-256 alone on one core.
fn reopened(plane: &std::path::Path, runs: u64) -> Outcome<()> {
    let start = Instant::now();
    let journal = Journal::open(plane)?;
    let tenant = journal.tenant(&TenantId::new("bench")?);
    println!("\nopen with {runs} runs: {:.3} s (goal: under 1 at a million)", start.elapsed().as_secs_f64());
    let hashing = hashing_rate();
    let before = resident_bytes();
    let start = Instant::now();
    let report = tenant.check(&mut |_| {})?;
    let rate = report.bytes as f64 / start.elapsed().as_secs_f64();
    assert!(report.is_sound(), "{report:?}");
    println!(
        "check: {} records, {:.0} MB in {:.1} s, {:.0} MB/s; SHA-256 alone {:.0} MB/s; ratio {:.2} (goal 0.5)",
        report.records,
        report.bytes as f64 / 1e6,
        start.elapsed().as_secs_f64(),
        rate / 1e6,
        hashing / 1e6,
        rate / hashing
    );
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        println!("memory: {} MB before the check, {} MB after", before >> 20, after >> 20);
    }
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

/// What the system says this process holds in memory, where it says so.
fn resident_bytes() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    pages.split(' ').nth(1)?.parse::<u64>().ok().map(|pages| pages * 4096)
}

fn draft(kind: &str, payload: &str) -> Outcome<RecordDraft> {
    let payload = Json::parse(payload.as_bytes())?;
    Ok(RecordDraft { kind: Kind::new(kind)?, payload, effect: None, case: None })
}

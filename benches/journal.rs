//! What the journal costs, as ratios to bare redb measured in the same run, on the same disk.
//!
//! `cargo bench --bench journal` prints the table. `RUNSEAL_BENCH_SECONDS` sets how long each line measures
//! (default 3), `RUNSEAL_BENCH_DIR` where (default the system's temporary directory).

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redb::{Database, TableDefinition};
use runseal::evidence::json::Json;
use runseal::evidence::name::{Base, Kind, RunId, TenantId};
use runseal::evidence::record::RecordDraft;
use runseal::{CreateOptions, Journal, Tenant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const CALLERS: usize = 64;
const LEASE: Duration = Duration::from_secs(3600);

fn main() -> Outcome<()> {
    let seconds = std::env::var("RUNSEAL_BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3.0);
    let time = Duration::from_secs_f64(seconds);
    let parent = std::env::var_os("RUNSEAL_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let dir = tempfile::tempdir_in(parent)?;
    println!("{:<44} {:>12} {:>12} {:>8}", "", "a second", "microseconds", "ratio");
    let bare = bare_redb(&dir.path().join("bare.redb"), time)?;
    show("bare redb, one row a durable commit", bare, None);

    let journal = Journal::create(&dir.path().join("plane"), &Base::new("bench.example")?, &CreateOptions::default())?;
    let tenant = journal.tenant(&TenantId::new("bench")?);
    let one = appends(&tenant, 1, time)?;
    show("append, one run, one caller (goal 0.8)", one, Some(one / bare));
    let many = appends(&tenant, CALLERS, time)?;
    show("append, 64 runs, 64 callers (goal 20)", many, Some(many / bare));
    let sealed = seals(&tenant, CALLERS, time)?;
    show("seal, 64 callers (goal 15)", sealed, Some(sealed / bare));
    Ok(())
}

fn show(name: &str, rate: f64, ratio: Option<f64>) {
    let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    println!("{name:<44} {rate:>12.0} {:>12.1} {ratio:>8}", 1e6 / rate);
}

/// One caller, one row of the size of a record's, one durable commit each.
fn bare_redb(path: &Path, time: Duration) -> Outcome<f64> {
    const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
    let database = Database::create(path)?;
    let value = vec![7; 450];
    let start = Instant::now();
    let mut count = 0u64;
    while start.elapsed() < time {
        let transaction = database.begin_write()?;
        let key = [b"bench run".as_slice(), &count.to_be_bytes()].concat();
        transaction.open_table(ROWS)?.insert(key.as_slice(), value.as_slice())?;
        transaction.commit()?;
        count += 1;
    }
    Ok(rate(count, start))
}

/// Each caller appends one record of a 256-byte payload after the other to a run of its own.
fn appends(tenant: &Tenant, callers: usize, time: Duration) -> Outcome<f64> {
    let mut leased = Vec::new();
    for caller in 0..callers {
        let run = RunId::new(format!("append-{callers}-{caller}"))?;
        let epoch = tenant.acquire(&run, "bench", LEASE)?.epoch;
        leased.push((run, epoch));
    }
    let draft = note(256)?;
    let start = Instant::now();
    let total = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (run, epoch) in &leased {
            let (total, draft) = (&total, &draft);
            scope.spawn(move || -> Outcome<()> {
                while start.elapsed() < time {
                    tenant.append(run, *epoch, vec![draft.clone()])?;
                    total.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
        }
    });
    Ok(rate(total.into_inner(), start))
}

/// Each caller seals one concluded run after the other.
fn seals(tenant: &Tenant, callers: usize, time: Duration) -> Outcome<f64> {
    const READY: usize = 4000;
    let mut rates = Vec::new();
    let measured = Instant::now();
    for round in 0.. {
        let name = |number: usize| RunId::new(format!("seal-{round}-{number}"));
        let mut runs = Vec::new();
        for number in 0..READY {
            runs.push((name(number)?, vec![note(256)?, concluded()?], false));
        }
        tenant.import_all(runs)?;
        let next = AtomicU64::new(0);
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..callers {
                scope.spawn(|| -> Outcome<()> {
                    loop {
                        let number = usize::try_from(next.fetch_add(1, Ordering::Relaxed))?;
                        if number >= READY {
                            return Ok(());
                        }
                        tenant.seal_once(&name(number)?, "bench")?;
                    }
                });
            }
        });
        rates.push(rate(READY as u64, start));
        if measured.elapsed() > time {
            break;
        }
    }
    Ok(rates.iter().sum::<f64>() / rates.len() as f64)
}

fn rate(count: u64, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}

fn note(bytes: usize) -> Outcome<RecordDraft> {
    let payload = Json::parse(format!("{{\"text\":\"{}\"}}", "x".repeat(bytes - 11)).as_bytes())?;
    Ok(RecordDraft { kind: Kind::new("Note")?, payload, effect: None, case: None })
}

fn concluded() -> Outcome<RecordDraft> {
    let payload = Json::parse(br#"{"outcome":"succeeded"}"#)?;
    Ok(RecordDraft { kind: Kind::new("RunConcluded")?, payload, effect: None, case: None })
}

//! What the journal costs, as ratios to bare redb measured in the same run, on the same disk.
//!
//! `cargo bench --bench journal` prints the table, with words behind `--` the lines that contain them. `RUNSEAL_BENCH_SECONDS` sets how long each line measures
//! (default 3), `RUNSEAL_BENCH_DIR` where (default the system's temporary directory). The processor's share of
//! each call is shown beside its duration, where the system tells it: it stays what it is on a busy machine.

#![expect(clippy::cast_precision_loss, reason = "counts shown as rates; 52 bits are plenty")]

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redb::{Database, TableDefinition};
use runseal::evidence::json::Json;
use runseal::evidence::name::{Base, Kind, RunId, TenantId};
use runseal::evidence::record::RecordDraft;
use runseal::{CreateOptions, Journal, Tenant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const CALLERS: usize = 64;
const LEASE: Duration = Duration::from_hours(1);

fn main() -> Outcome<()> {
    let seconds =
        std::env::var("RUNSEAL_BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3.0);
    let time = Duration::from_secs_f64(seconds);
    let parent = std::env::var_os("RUNSEAL_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let dir = tempfile::tempdir_in(parent)?;
    println!("{:<40} {:>10} {:>10} {:>10} {:>8}", "", "a second", "us each", "cpu us", "ratio");
    let bare = bare_redb(&dir.path().join("bare.redb"), time)?;
    bare.show("bare redb, one row a durable commit", None);

    let journal =
        Journal::create(&dir.path().join("plane"), &Base::new("bench.example")?, &CreateOptions::default())?;
    let tenant = journal.tenant(&TenantId::new("bench")?);
    // Words behind the command choose lines.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let lines: [(&str, &dyn Fn() -> Outcome<Measured>); 5] = [
        ("append, one run, one caller (goal 0.8)", &|| appends(&tenant, 1, time)),
        ("append, 64 runs, 64 tasks (goal 20)", &|| append_tasks(&tenant, time)),
        ("append, 64 runs, 64 threads", &|| appends(&tenant, CALLERS, time)),
        ("seal, 64 tasks (goal 15)", &|| seal_tasks(&tenant, time)),
        ("seal, 64 threads", &|| seals(&tenant, CALLERS, time)),
    ];
    for (name, measure) in lines {
        if wanted.iter().all(|word| name.contains(word.as_str())) {
            measure()?.show(name, Some(&bare));
        }
    }
    Ok(())
}

/// How often something was done, in what time, with how much of the processor.
#[derive(Default)]
struct Measured {
    count: u64,
    seconds: f64,
    cpu_seconds: Option<f64>,
}

impl Measured {
    fn show(&self, name: &str, bare: Option<&Self>) {
        let each = |seconds: f64| seconds * 1e6 / self.count as f64;
        let cpu = self.cpu_seconds.map_or_else(|| "-".to_owned(), |cpu| format!("{:.1}", each(cpu)));
        let ratio = bare.map_or_else(String::new, |bare| format!("{:.2}", self.rate() / bare.rate()));
        println!("{name:<40} {:>10.0} {:>10.1} {cpu:>10} {ratio:>8}", self.rate(), each(self.seconds));
    }

    fn rate(&self) -> f64 {
        self.count as f64 / self.seconds
    }
}

/// Runs from `start` to `stop`, in time and in time of the processor.
struct Stopwatch {
    start: Instant,
    cpu_seconds: Option<f64>,
}

impl Stopwatch {
    fn start() -> Self {
        Self { cpu_seconds: cpu_seconds(), start: Instant::now() }
    }

    fn stop(&self, count: u64) -> Measured {
        let seconds = self.start.elapsed().as_secs_f64();
        let cpu_seconds = cpu_seconds().zip(self.cpu_seconds).map(|(now, before)| now - before);
        Measured { count, seconds, cpu_seconds }
    }
}

/// What all threads of this process have had of the processor, where the system tells.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Fields 14 and 15, counted from behind the name, in hundredths of a second.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}

/// One caller, one row of the size of a record's, one durable commit each.
fn bare_redb(path: &Path, time: Duration) -> Outcome<Measured> {
    const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
    let database = Database::create(path)?;
    let value = vec![7; 450];
    let watch = Stopwatch::start();
    let mut count = 0u64;
    while watch.start.elapsed() < time {
        let transaction = database.begin_write()?;
        let key = [b"bench run".as_slice(), &count.to_be_bytes()].concat();
        transaction.open_table(ROWS)?.insert(key.as_slice(), value.as_slice())?;
        transaction.commit()?;
        count += 1;
    }
    Ok(watch.stop(count))
}

/// A run for each caller, and the epoch of its lease.
fn leased(tenant: &Tenant, prefix: &str, callers: usize) -> Outcome<Vec<(RunId, u64)>> {
    let lease = |caller| {
        let run = RunId::new(format!("{prefix}-{caller}"))?;
        let epoch = tenant.acquire(&run, "bench", LEASE)?.epoch;
        Ok((run, epoch))
    };
    (0..callers).map(lease).collect()
}

/// Runs that have concluded and are to be sealed in one round.
const READY: usize = 4000;

/// Makes them.
fn concluded_runs(tenant: &Tenant, prefix: &str) -> Outcome<Vec<RunId>> {
    let names: Vec<RunId> =
        (0..READY).map(|number| RunId::new(format!("{prefix}-{number}"))).collect::<Result<_, _>>()?;
    let drafts = vec![note(256)?, concluded()?];
    tenant.import_all(names.iter().map(|run| (run.clone(), drafts.clone(), false)).collect())?;
    Ok(names)
}

/// Measures rounds, each given its number, until they have taken `time` together.
fn rounds(time: Duration, mut measure: impl FnMut(usize) -> Outcome<Measured>) -> Outcome<Measured> {
    let mut all = Measured { cpu_seconds: Some(0.0), ..Measured::default() };
    for number in 0.. {
        let round = measure(number)?;
        all.count += round.count;
        all.seconds += round.seconds;
        all.cpu_seconds = all.cpu_seconds.zip(round.cpu_seconds).map(|(all, round)| all + round);
        if all.seconds > time.as_secs_f64() {
            break;
        }
    }
    Ok(all)
}

/// Each caller appends one record of a 256-byte payload after the other to a run of its own.
fn appends(tenant: &Tenant, callers: usize, time: Duration) -> Outcome<Measured> {
    let leased = leased(tenant, &format!("append-{callers}"), callers)?;
    let draft = note(256)?;
    let watch = Stopwatch::start();
    let start = watch.start;
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
    Ok(watch.stop(total.into_inner()))
}

/// The same from tasks of one runtime, as a platform of agents does it.
fn append_tasks(tenant: &Tenant, time: Duration) -> Outcome<Measured> {
    let leased = leased(tenant, "task", CALLERS)?;
    let draft = note(256)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let watch = Stopwatch::start();
    let start = watch.start;
    let total = runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for (run, epoch) in leased {
            let (tenant, draft) = (tenant.clone(), draft.clone());
            tasks.spawn(async move {
                let mut count = 0;
                while start.elapsed() < time {
                    tenant.append_queued(&run, epoch, vec![draft.clone()]).await?;
                    count += 1;
                }
                Outcome::Ok(count)
            });
        }
        let mut total = 0;
        while let Some(count) = tasks.join_next().await {
            total += count??;
        }
        Outcome::Ok(total)
    })?;
    Ok(watch.stop(total))
}

/// Each task seals one concluded run after the other, of which it has taken the lease before.
fn seal_tasks(tenant: &Tenant, time: Duration) -> Outcome<Measured> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    rounds(time, |round| {
        let names = concluded_runs(tenant, &format!("seal-task-{round}"))?;
        let leased: Vec<Vec<(RunId, u64)>> = std::thread::scope(|scope| {
            let lease = |runs: &[RunId]| -> Outcome<Vec<(RunId, u64)>> {
                let lease = |run: &RunId| Ok((run.clone(), tenant.acquire(run, "bench", LEASE)?.epoch));
                runs.iter().map(lease).collect()
            };
            let threads: Vec<_> =
                names.chunks(READY.div_ceil(CALLERS)).map(|runs| scope.spawn(move || lease(runs))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no lease panics")).collect::<Outcome<_>>()
        })?;
        let watch = Stopwatch::start();
        runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for runs in leased {
                let tenant = tenant.clone();
                tasks.spawn(async move {
                    for (run, epoch) in runs {
                        tenant.seal_queued(&run, epoch).await?;
                    }
                    Outcome::Ok(())
                });
            }
            while let Some(done) = tasks.join_next().await {
                done??;
            }
            Outcome::Ok(())
        })?;
        Ok(watch.stop(READY as u64))
    })
}

/// Each caller seals one concluded run after the other.
fn seals(tenant: &Tenant, callers: usize, time: Duration) -> Outcome<Measured> {
    rounds(time, |round| {
        let names = concluded_runs(tenant, &format!("seal-{round}"))?;
        let next = AtomicUsize::new(0);
        let watch = Stopwatch::start();
        std::thread::scope(|scope| {
            for _ in 0..callers {
                scope.spawn(|| -> Outcome<()> {
                    while let Some(run) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                        tenant.seal_once(run, "bench")?;
                    }
                    Ok(())
                });
            }
        });
        Ok(watch.stop(READY as u64))
    })
}

fn note(bytes: usize) -> Outcome<RecordDraft> {
    let payload = Json::parse(format!("{{\"text\":\"{}\"}}", "x".repeat(bytes - 11)).as_bytes())?;
    Ok(RecordDraft { kind: Kind::new("Note")?, payload, effect: None, case: None })
}

fn concluded() -> Outcome<RecordDraft> {
    let payload = Json::parse(br#"{"outcome":"succeeded"}"#)?;
    Ok(RecordDraft { kind: Kind::new("RunConcluded")?, payload, effect: None, case: None })
}

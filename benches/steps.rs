//! What the step store costs, as ratios to what the same disk and processor do without it, in the same run.
//!
//! `cargo bench --bench steps` prints the table. `RUNSEAL_BENCH_SECONDS` sets how long each line measures (default
//! 3), `RUNSEAL_BENCH_DIR` where (default the system's temporary directory), `RUNSEAL_BENCH_MIB` the size of the
//! large store (default 1024).

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates and sizes are shown with two digits"
)]

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use runseal::evidence::name::{CodecId, DefinitionName, RunId, StepPath, TenantId};
use runseal::steps::{Definition, InputDigest, Step, StepAck, StepKey, StepLimits, StepStore};
use sha2::{Digest, Sha256};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const CALLERS: u64 = 64;
/// Lines that share a disk are measured in turns, so that its moods meet them alike.
const TURNS: u32 = 10;
/// A result of the usual size.
const VALUE_BYTES: usize = 300;
const MEMORY_GOAL_MIB: f64 = 64.0;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().collect();
    if let [_, open, path] = args.as_slice()
        && open == "open"
    {
        return open_and_tell(Path::new(path));
    }
    let number = |name: &str, otherwise: f64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let turn = Duration::from_secs_f64(number("RUNSEAL_BENCH_SECONDS", 3.0)) / TURNS;
    let mib = number("RUNSEAL_BENCH_MIB", 1024.0);
    let parent = std::env::var_os("RUNSEAL_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let dir = tempfile::tempdir_in(parent)?;

    println!("{:<52} {:>12} {:>8}", "", "a second", "ratio");
    appending(dir.path(), turn)?;
    println!("{:<52} {:>12} {:>8}", "", "MiB a second", "ratio");
    for value_bytes in [256, 1 << 10, 4 << 10, 64 << 10] {
        opening(&dir.path().join("opened.steps"), value_bytes)?;
    }
    println!("{:<52} {:>12} {:>8}", "", "MiB", "ratio");
    for value_bytes in [256, 1 << 10, 16 << 10] {
        resident(&dir.path().join("large.steps"), value_bytes, mib)?;
    }
    Ok(())
}

/// Appends against a bare write and sync of as many bytes.
fn appending(dir: &Path, turn: Duration) -> Outcome<()> {
    let store = StepStore::open(dir.join("appended.steps"), StepLimits::default())?;
    let mut bare_file = File::create(dir.join("bare"))?;
    let frame = vec![7; usize::try_from(step(0, 0, VALUE_BYTES)?.payload_bytes())? + 36];
    let queue = {
        let (store, next) = (store.clone(), Arc::new(AtomicU64::new(0)));
        move || -> Outcome<StepAck> {
            let number = next.fetch_add(1, Ordering::Relaxed);
            Ok(store.append(step(number / 50_000, number, VALUE_BYTES)?))
        }
    };
    let append = || -> Outcome<()> {
        queue()?.wait()?;
        Ok(())
    };
    let (mut bare, mut one, mut threads, mut tasks) =
        (Rate::default(), Rate::default(), Rate::default(), Rate::default());
    // As many threads of its own as the machine has cores: what a server has.
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    for _ in 0..TURNS {
        bare.add(turn, || {
            bare_file.write_all(&frame)?;
            Ok(bare_file.sync_data()?)
        })?;
        one.add(turn, append)?;
        tasks.add_tasks(&runtime, turn, &queue)?;
        threads.add_threads(turn, &append)?;
    }
    show("write and sync alone", bare.per_second(), None);
    show("append, one caller (goal 0.9)", one.per_second(), Some(one.per_second() / bare.per_second()));
    let against_one = |many: &Rate| Some(many.per_second() / one.per_second());
    show("append, 64 async tasks (goal 20, against one)", tasks.per_second(), against_one(&tasks));
    show("append, 64 blocked threads (against one)", threads.per_second(), against_one(&threads));
    let flushed = store.flush_counts();
    println!("  {} steps in {} syncs", flushed.steps, flushed.syncs);
    Ok(())
}

/// Opening against SHA-256 over the same file.
fn opening(path: &Path, value_bytes: usize) -> Outcome<()> {
    fill(path, value_bytes, 256 << 20)?;
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    let mib = bytes.len() as f64 / f64::from(1 << 20);
    let best = |mut measured: Box<dyn FnMut() -> Outcome<()> + '_>| -> Outcome<f64> {
        let mut best = Duration::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            measured()?;
            best = best.min(start.elapsed());
        }
        Ok(mib / best.as_secs_f64())
    };
    let hashed = best(Box::new(|| {
        std::hint::black_box(Sha256::digest(&bytes));
        Ok(())
    }))?;
    let opened = best(Box::new(|| {
        StepStore::open(path, StepLimits::default())?;
        Ok(())
    }))?;
    show(&format!("SHA-256 in memory, file of {value_bytes}-byte values"), hashed, None);
    show(&format!("open, {value_bytes}-byte values (goal 0.5)"), opened, Some(opened / hashed));
    std::fs::remove_file(path)?;
    Ok(())
}

/// The most memory a process needs that does nothing but open a large store.
fn resident(path: &Path, value_bytes: usize, mib: f64) -> Outcome<()> {
    let bytes = fill(path, value_bytes, (mib * f64::from(1 << 20)) as u64)?;
    let output = Command::new(std::env::current_exe()?).arg("open").arg(path).output()?;
    let told = String::from_utf8(output.stdout)?;
    let [steps, kib] = *told.split_whitespace().collect::<Vec<_>>() else {
        return Err(format!(
            "the process that opens said {told:?}, {}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    };
    let peak = kib.parse::<f64>()? / 1024.0;
    let file = bytes >> 20;
    show(
        &format!("peak memory, {file} MiB of {value_bytes}-byte values, {steps} steps (goal 1)"),
        peak,
        Some(peak / MEMORY_GOAL_MIB),
    );
    std::fs::remove_file(path)?;
    Ok(())
}

fn open_and_tell(path: &Path) -> Outcome<()> {
    let store = StepStore::open(path, StepLimits::default())?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    println!("{} {}", store.opening().steps, peak.trim().trim_end_matches(" kB"));
    Ok(())
}

/// Makes a store of about this many bytes.
fn fill(path: &Path, value_bytes: usize, file_bytes: u64) -> Outcome<u64> {
    let store = StepStore::open(path, StepLimits::default())?;
    let mut waiting: Vec<StepAck> = Vec::new();
    let steps = file_bytes / (step(0, 0, value_bytes)?.payload_bytes() + 36);
    for number in 0..steps {
        waiting.push(store.append(step(number / 50_000, number, value_bytes)?));
        if waiting.len() == 128 {
            waiting.drain(..).try_for_each(|ack| ack.wait().map(drop))?;
        }
    }
    waiting.drain(..).try_for_each(|ack| ack.wait().map(drop))?;
    Ok(store.committed_bytes())
}

fn step(run: u64, number: u64, value_bytes: usize) -> Outcome<Step> {
    Ok(Step {
        tenant: TenantId::new("bench")?,
        run: RunId::new(format!("run-{run}"))?,
        key: StepKey::of(&[&number.to_be_bytes()]),
        path: StepPath::new(format!("plan/step-{number}"))?,
        definition: Definition {
            name: DefinitionName::new("bench")?,
            revision: 1,
            input: InputDigest::of(b"bench"),
            steps: u32::MAX,
            codec: CodecId::new("bytes")?,
        },
        value: vec![number.to_be_bytes()[7]; value_bytes],
    })
}

/// Calls in a time, over several turns.
#[derive(Default)]
struct Rate {
    calls: u64,
    time: Duration,
}

impl Rate {
    fn add(&mut self, turn: Duration, mut call: impl FnMut() -> Outcome<()>) -> Outcome<()> {
        let start = Instant::now();
        while start.elapsed() < turn {
            call()?;
            self.calls += 1;
        }
        self.time += start.elapsed();
        Ok(())
    }

    /// Tasks of which each awaits its call before the next.
    fn add_tasks(
        &mut self,
        runtime: &Runtime,
        turn: Duration,
        call: &(impl Fn() -> Outcome<StepAck> + Clone + Send + 'static),
    ) -> Outcome<()> {
        let start = Instant::now();
        self.calls += runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for _ in 0..CALLERS {
                let call = call.clone();
                tasks.spawn(async move {
                    let mut calls = 0;
                    while start.elapsed() < turn {
                        call()?.await?;
                        calls += 1;
                    }
                    Outcome::Ok(calls)
                });
            }
            let mut calls = 0;
            while let Some(of_one) = tasks.join_next().await {
                calls += of_one??;
            }
            Outcome::Ok(calls)
        })?;
        self.time += start.elapsed();
        Ok(())
    }

    /// Threads of which each blocks on its call before the next.
    fn add_threads(&mut self, turn: Duration, call: &(impl Fn() -> Outcome<()> + Sync)) -> Outcome<()> {
        let start = Instant::now();
        let calls: Outcome<Vec<u64>> = std::thread::scope(|scope| {
            let caller = || -> Outcome<u64> {
                let mut calls = 0;
                while start.elapsed() < turn {
                    call()?;
                    calls += 1;
                }
                Ok(calls)
            };
            let threads: Vec<_> = (0..CALLERS).map(|_| scope.spawn(caller)).collect();
            threads.into_iter().map(|thread| thread.join().map_err(|_| "a caller panicked")?).collect()
        });
        self.calls += calls?.iter().sum::<u64>();
        self.time += start.elapsed();
        Ok(())
    }

    fn per_second(&self) -> f64 {
        self.calls as f64 / self.time.as_secs_f64()
    }
}

fn show(name: &str, rate: f64, ratio: Option<f64>) {
    let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    println!("{name:<52} {rate:>12.0} {ratio:>8}");
}

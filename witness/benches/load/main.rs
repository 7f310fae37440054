//! How many checkpoints a second a witness cosigns, against what two cores could do if verifying and
//! signing were all there is to it, and how long a client waits.
//!
//! ```text
//! cargo bench -p runseal-witness --bench load                                our own, both log counts
//! cargo bench -p runseal-witness --bench load -- --litewitness DIR           the same for litewitness
//! cargo bench -p runseal-witness --bench load -- --list logs.list            write the logs' list
//! cargo bench -p runseal-witness --bench load -- --url http://HOST:PORT      a new witness that follows it
//! ```
//!
//! `DIR` holds the programs `litewitness` and `litelogs`, as `go build -o DIR/
//! filippo.io/torchwood/cmd/litewitness ./litelogs` in `witness/interop` makes them; `ssh-agent` and
//! `ssh-add` must be installed.
//!
//! The ceiling is ed25519-dalek's `verify_strict` and `sign`, on two threads at once. The load
//! generator runs on the same two cores and is not deducted; what it takes is printed.
//!
//! Latencies are given twice, and they say different things:
//!
//! - *saturated*: every connection always has a request in flight. The witness is as busy as it can be,
//!   so that by Little's law the mean latency is the connections over the rate, however it is built.
//!   Even one that served at the ceiling would keep 64 connections waiting for ten syncs of a quick disk.
//! - *paced*: requests are due at random moments at a given rate, whether or not earlier ones were
//!   answered, over the same connections. Each one's time runs from the moment it was due, so that a
//!   witness (or a generator) that falls behind is not spared. This is what a client waits for. The goal
//!   stands beside the rate it is set for; a lower rate shows the same where the cores are not fought for.
//!
//! Both again on a disk whose syncs take longer (`--slower-disk`): there the disk is what is waited for.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

mod generator;
mod logs;
mod programs;
mod slower;

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use ed25519_dalek::Signer as _;

use generator::{Connections, Load, Pace};
use logs::{Log, Plan, write_list};
use programs::{Process, start_litewitness, start_ours, start_slower, thread_on_core};

/// The share of the ceiling that the witness is to serve.
const GOAL_SHARE: f64 = 0.5;
/// What 99 of 100 requests that are offered at that rate are to stay under, in syncs of the disk.
const GOAL_SYNCS: f64 = 8.0;
/// A rate that leaves the cores room.
const EASY_SHARE: f64 = 0.2;
/// How long requests are offered.
const PACED_SECONDS: f64 = 4.0;

#[derive(Parser)]
struct Options {
    /// A running witness; ours is started if not given.
    #[arg(long)]
    url: Option<String>,
    /// Write the list of the logs to be used, and end.
    #[arg(long)]
    list: Option<PathBuf>,
    /// Measure litewitness too; the folder of its programs.
    #[arg(long)]
    litewitness: Option<PathBuf>,
    /// Logs, for `--url` and `--list`.
    #[arg(long, default_value_t = 1_000)]
    logs: usize,
    /// Keep-alive connections.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Requests in one measurement.
    #[arg(long, default_value_t = 120_000)]
    requests: usize,
    /// Requests a second where they are paced; a fifth of the ceiling and half of it if not given.
    #[arg(long)]
    rate: Option<f64>,
    /// Measure also on a disk that takes so many seconds longer for each commit.
    #[arg(long, default_value_t = 0.001)]
    slower_disk: f64,
    /// Be the witness on that disk.
    #[arg(long, hide = true)]
    serve: Option<PathBuf>,
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What this machine can do at best.
struct Machine {
    /// Verifications and signatures a second.
    ceiling: f64,
    /// The middle time for making 32 KiB durable.
    sync: Duration,
}

impl Machine {
    fn measure(folder: &Path) -> Self {
        Self { ceiling: ceiling(), sync: sync_time(folder) }
    }

    fn syncs(&self, time: Duration) -> String {
        format!(
            "{:.3} ms = {:.1} syncs",
            time.as_secs_f64() * 1e3,
            time.as_secs_f64() / self.sync.as_secs_f64()
        )
    }

    /// What 99 of 100 requests are to stay under, where anybody can with so many always in flight.
    fn goal(&self, connections: usize) -> String {
        let mean = f64::from(u32::try_from(connections).unwrap()) / self.ceiling / self.sync.as_secs_f64();
        if mean < GOAL_SYNCS {
            format!(" (goal: under {GOAL_SYNCS})")
        } else {
            format!(
                " (not even the mean can be under {GOAL_SYNCS} on this disk: at the ceiling itself it is {mean:.1})"
            )
        }
    }

    fn report(&self, connections: usize) {
        println!(
            "ceiling: {:.0} verifications and signatures a second on two cores; one sync of 32 KiB: {:.3} ms",
            self.ceiling,
            self.sync.as_secs_f64() * 1e3
        );
        // Little's law: what is in flight is the rate times the time that each is in flight.
        let at_once = f64::from(u32::try_from(connections).unwrap());
        for (share, name) in [(1.0, "the ceiling"), (0.5, "half the ceiling")] {
            let mean = Duration::from_secs_f64(at_once / (share * self.ceiling));
            println!(
                "    {connections} requests always in flight, at {name}, take {} each on average, whoever answers",
                self.syncs(mean)
            );
        }
    }
}

/// Verifications and signatures a second on two cores, with nothing around them.
fn ceiling() -> f64 {
    let log = Log::new(0);
    let text = format!("{}\n1\n{}\n", log.origin, "A".repeat(44));
    let signature = log.key.sign(text.as_bytes());
    let verifier = log.key.verifying_key();
    let time = Duration::from_secs(2);
    let worker = || {
        let (started, mut count) = (Instant::now(), 0u32);
        while started.elapsed() < time {
            for _ in 0..50 {
                verifier.verify_strict(text.as_bytes(), &signature).unwrap();
                std::hint::black_box(log.key.sign(std::hint::black_box(text.as_bytes())));
                count += 1;
            }
        }
        count
    };
    let total: u32 = std::thread::scope(|scope| {
        let workers = [scope.spawn(worker), scope.spawn(worker)];
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    f64::from(total) / time.as_secs_f64()
}

/// The disk's own time for making 32 KiB durable.
fn sync_time(folder: &Path) -> Duration {
    let path = folder.join("sync");
    let mut file = std::fs::File::create(&path).unwrap();
    let block = vec![0x5a; 32 * 1024];
    let mut times: Vec<Duration> = (0..400)
        .map(|_| {
            let started = Instant::now();
            file.write_all(&block).unwrap();
            file.sync_data().unwrap();
            started.elapsed()
        })
        .collect();
    std::fs::remove_file(path).unwrap();
    times.sort();
    times[times.len() / 2]
}

/// A witness under load, whosever it is.
struct Subject<'a> {
    address: SocketAddr,
    logs: &'a [Log],
    /// Its processes, where they are ours to look at.
    processes: &'a [Process],
    /// How far every log has come.
    size: usize,
}

impl Subject<'_> {
    fn on_core(&self) -> Duration {
        self.processes.iter().map(Process::on_core).sum()
    }

    /// Takes every log over as many steps as make about `requests` requests, at least one.
    fn plan(&mut self, requests: usize) -> Plan {
        let from = self.size;
        self.size += requests.div_ceil(self.logs.len()).max(1);
        Plan::new(self.logs, from..self.size)
    }

    /// The rate with every connection busy, after a first step that fills the state.
    fn rate(&mut self, machine: &Machine, options: &Options, requests: usize) -> f64 {
        let connections = options.connections;
        let first = self.plan(0);
        Connections::open(self.address, connections).drive(&first, Pace::Closed);
        let plan = self.plan(requests);
        let (load, cores) = self.drive(&plan, connections, Pace::Closed);
        println!(
            "    saturated by {connections} connections: {:.0}/s = {:.2} of the ceiling; p50 {}, p99 {}{}",
            load.rate(),
            load.rate() / machine.ceiling,
            machine.syncs(load.thousandths(500)),
            machine.syncs(load.thousandths(990)),
            machine.goal(connections),
        );
        println!("{cores}");
        load.rate()
    }

    /// How long clients wait that ask at given rates, whatever the witness makes of it.
    fn latencies(&mut self, machine: &Machine, options: &Options) {
        let goal = GOAL_SHARE * machine.ceiling;
        if let Some(rate) = options.rate {
            self.paced(machine, options, rate, "");
        } else {
            self.paced(machine, options, EASY_SHARE * machine.ceiling, "");
            self.paced(machine, options, goal, &format!(" (goal: under {GOAL_SYNCS})"));
        }
    }

    fn paced(&mut self, machine: &Machine, options: &Options, offered: f64, goal: &str) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds of it")]
        let requests = (offered * PACED_SECONDS) as usize;
        let plan = self.plan(requests);
        let (load, cores) = self.drive(&plan, options.connections, Pace::Open(offered));
        println!(
            "    paced at {offered:.0}/s = {:.2} of the ceiling: {:.0}/s served; p50 {}, p99 {}{goal}, p99.9 {}",
            offered / machine.ceiling,
            load.rate(),
            machine.syncs(load.thousandths(500)),
            machine.syncs(load.thousandths(990)),
            machine.syncs(load.thousandths(999)),
        );
        println!("{cores}");
    }

    /// Sends a plan; answers also what the cores were busy with.
    fn drive(&self, plan: &Plan, connections: usize, pace: Pace) -> (Load, String) {
        let own = Path::new("/proc/thread-self");
        let (own_before, theirs_before) = (thread_on_core(own), self.on_core());
        let load = Connections::open(self.address, connections).drive(plan, pace);
        let own = thread_on_core(own).saturating_sub(own_before);
        let theirs = self.on_core().saturating_sub(theirs_before);
        let percent = |time: Duration| 100.0 * time.as_secs_f64() / load.took.as_secs_f64();
        let mut cores = format!("        of the cores' 200 %, the load generator had {:.0} %", percent(own));
        if !self.processes.is_empty() {
            let each = theirs.as_secs_f64() * 1e6 / f64::from(u32::try_from(plan.len()).unwrap());
            // Writing to a string cannot fail.
            let _ = write!(cores, " and the witness {:.0} %, {each:.0} us a request", percent(theirs));
        }
        (load, cores)
    }

    /// What a lone client waits for.
    fn alone(&mut self, machine: &Machine) {
        let first = &self.logs[..1];
        let plan = Plan::new(first, self.size..self.size + 500);
        let load = Connections::open(self.address, 1).drive(&plan, Pace::Closed);
        println!("    one client alone: p50 {}", machine.syncs(load.thousandths(500)));
    }
}

/// The same where a sync takes so much longer that it, and not the cores, is what is waited for.
fn on_slower_disk(machine: &Machine, by: Duration, options: &Options, logs: &[Log], folder: &Path) {
    let place = folder.join("slower");
    std::fs::create_dir(&place).unwrap();
    let (process, address) = start_slower(&place, logs, by);
    let machine = Machine { sync: machine.sync + by, ..*machine };
    println!(
        "runseal-witness, {} logs, on a disk whose syncs take {:.3} ms longer: {:.3} ms",
        logs.len(),
        by.as_secs_f64() * 1e3,
        machine.sync.as_secs_f64() * 1e3
    );
    let processes = [process];
    let mut subject = Subject { address, logs, processes: &processes, size: 0 };
    subject.rate(&machine, options, options.requests);
    subject.latencies(&machine, options);
    subject.alone(&machine);
}

fn main() {
    let options = Options::parse();
    let slower = Duration::from_secs_f64(options.slower_disk);
    if let Some(folder) = &options.serve {
        return slower::serve(folder, slower);
    }
    let logs: Vec<Log> = (0..options.logs).map(Log::new).collect();
    assert!(
        options.logs >= 4 * options.connections,
        "requests of one log follow each other: four logs a connection at least"
    );
    if let Some(path) = options.list {
        write_list(&path, &logs);
        return;
    }
    let folder =
        tempfile::Builder::new().prefix("witness-load").tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let machine = Machine::measure(folder.path());
    machine.report(options.connections);
    if let Some(url) = &options.url {
        let address =
            url.trim_start_matches("http://").trim_end_matches('/').parse().expect("http://ADDRESS:PORT");
        println!("{url}, {} logs", logs.len());
        let mut subject = Subject { address, logs: &logs, processes: &[], size: 0 };
        subject.rate(&machine, &options, options.requests);
        subject.latencies(&machine, &options);
        return;
    }
    let mut rates = Vec::new();
    for count in [options.logs, 40 * options.logs] {
        let place = folder.path().join(format!("ours-{count}"));
        std::fs::create_dir(&place).unwrap();
        let logs: Vec<Log> = (0..count).map(Log::new).collect();
        let (process, address, start) = start_ours(&place, &logs);
        let processes = [process];
        println!("runseal-witness, {count} logs");
        let mut subject = Subject { address, logs: &logs, processes: &processes, size: 0 };
        let rate = subject.rate(&machine, &options, options.requests);
        rates.push(rate);
        subject.latencies(&machine, &options);
        subject.alone(&machine);
        println!(
            "    {:.2} s to listening, at most {:.0} MiB resident",
            start.as_secs_f64(),
            processes[0].resident_mib()
        );
    }
    println!("{} logs at {:.2} of the rate of {}", 40 * options.logs, rates[1] / rates[0], options.logs);
    on_slower_disk(&machine, slower, &options, &logs, folder.path());
    if let Some(programs) = &options.litewitness {
        let place = folder.path().join("lite");
        std::fs::create_dir(&place).unwrap();
        let programs = programs.canonicalize().unwrap();
        let (processes, address) = start_litewitness(&programs, &place, &logs);
        println!("litewitness, {} logs", logs.len());
        let mut subject = Subject { address, logs: &logs, processes: &processes, size: 0 };
        // It closes connections that have nothing to say for a while, so that random moments are not for it.
        let rate = subject.rate(&machine, &options, options.requests / 8);
        println!("runseal-witness cosigns {:.1} times as many a second", rates[0] / rate);
    }
}

//! How many checkpoints a second a witness cosigns, against what two cores could do if verifying and
//! signing were all there is to it.
//!
//! ```text
//! cargo bench -p runseal-witness --bench load                                our own, both log counts
//! cargo bench -p runseal-witness --bench load -- --litewitness DIR           the same for litewitness
//! cargo bench -p runseal-witness --bench load -- --list logs.list            write the logs' list
//! cargo bench -p runseal-witness --bench load -- --url http://HOST:PORT      any witness that follows it
//! ```
//!
//! `DIR` holds the programs `litewitness` and `litelogs`, as `go build -o DIR/
//! filippo.io/torchwood/cmd/litewitness ./litelogs` in `witness/interop` makes them; `ssh-agent` and
//! `ssh-add` must be installed.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use ed25519_dalek::{Signer as _, SigningKey};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

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
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

struct Log {
    origin: String,
    key: SigningKey,
    key_id: [u8; 4],
}

impl Log {
    fn new(number: usize) -> Self {
        let mut seed = [0x10; 32];
        seed[..8].copy_from_slice(&(number as u64).to_be_bytes());
        let key = SigningKey::from_bytes(&seed);
        let origin = format!("load.example/log/{number}");
        let material = [&[1], key.verifying_key().to_bytes().as_slice()].concat();
        let hash = Sha256::digest([origin.as_bytes(), b"\n", &material].concat());
        Self { origin, key, key_id: [hash[0], hash[1], hash[2], hash[3]] }
    }

    fn vkey(&self) -> String {
        let material = [&[1], self.key.verifying_key().to_bytes().as_slice()].concat();
        format!("{}+{}+{}", self.origin, hex::encode(self.key_id), STANDARD.encode(material))
    }

    /// The HTTP request that takes this log from `size` to the next one.
    fn request(&self, tree: &Tree, size: usize) -> Vec<u8> {
        let text = format!("{}\n{}\n{}\n", self.origin, size + 1, STANDARD.encode(tree.root(size + 1)));
        let signature = [&self.key_id[..], &self.key.sign(text.as_bytes()).to_bytes()].concat();
        let mut body = format!("old {size}\n");
        for hash in tree.proof(size, size + 1) {
            let _ = writeln!(body, "{}", STANDARD.encode(hash));
        }
        let _ = write!(body, "\n{text}\n\u{2014} {} {}\n", self.origin, STANDARD.encode(signature));
        format!(
            "POST /add-checkpoint HTTP/1.1\r\nhost: witness\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

/// One small tree, shared by all logs, so that preparing requests costs little.
struct Tree(Vec<[u8; 32]>);

impl Tree {
    fn new(size: usize) -> Self {
        Self(
            (0..size)
                .map(|leaf| Sha256::digest([&[0], leaf.to_string().as_bytes()].concat()).into())
                .collect(),
        )
    }

    fn root(&self, size: usize) -> [u8; 32] {
        mth(&self.0[..size])
    }

    fn proof(&self, old: usize, new: usize) -> Vec<[u8; 32]> {
        if old == 0 { Vec::new() } else { subproof(old, &self.0[..new], true) }
    }
}

fn mth(leaves: &[[u8; 32]]) -> [u8; 32] {
    match leaves {
        [] => Sha256::digest([]).into(),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            Sha256::digest([&[1][..], &mth(left), &mth(right)].concat()).into()
        }
    }
}

fn subproof(m: usize, leaves: &[[u8; 32]], whole: bool) -> Vec<[u8; 32]> {
    if m == leaves.len() {
        return if whole { Vec::new() } else { vec![mth(leaves)] };
    }
    let k = leaves.len().next_power_of_two() / 2;
    let (mut proof, sibling) = if m <= k {
        (subproof(m, &leaves[..k], whole), mth(&leaves[k..]))
    } else {
        (subproof(m - k, &leaves[k..], false), mth(&leaves[..k]))
    };
    proof.push(sibling);
    proof
}

struct Measured {
    rate: f64,
    p50: Duration,
    p99: Duration,
}

/// Sends `requests` over `connections`, each log's in order on one connection.
fn measure(address: SocketAddr, logs: &[Log], connections: usize, requests: usize) -> Measured {
    let steps = requests.div_ceil(logs.len()).max(2);
    let tree = Tree::new(steps + 1);
    // The first step of each log is not measured: it fills the state.
    let prepare = |step: usize| -> Vec<Vec<Vec<u8>>> {
        (0..connections)
            .map(|connection| {
                logs.iter()
                    .skip(connection)
                    .step_by(connections)
                    .map(|log| log.request(&tree, step))
                    .collect()
            })
            .collect()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let warm = prepare(0);
    let all: Vec<Vec<Vec<u8>>> =
        (1..steps).map(prepare).fold(vec![Vec::new(); connections], |mut all, step| {
            for (connection, requests) in all.iter_mut().zip(step) {
                connection.extend(requests);
            }
            all
        });
    runtime.block_on(async {
        let drive = |mut stream: TcpStream, requests: Vec<Vec<u8>>| async move {
            let mut latencies = Vec::with_capacity(requests.len());
            let mut answer = vec![0; 16 * 1024];
            for request in &requests {
                let started = Instant::now();
                stream.write_all(request).await.unwrap();
                let mut filled = 0;
                loop {
                    let read = stream.read(&mut answer[filled..]).await.unwrap();
                    assert!(read > 0, "the witness closed a connection");
                    filled += read;
                    if complete(&answer[..filled]) {
                        break;
                    }
                }
                assert!(
                    answer.starts_with(b"HTTP/1.1 200"),
                    "{}",
                    String::from_utf8_lossy(&answer[..filled])
                );
                latencies.push(started.elapsed());
            }
            (stream, latencies)
        };
        let mut streams = Vec::new();
        for _ in 0..connections {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            streams.push(stream);
        }
        let warmed =
            streams.into_iter().zip(warm).map(|(stream, requests)| tokio::spawn(drive(stream, requests)));
        let streams: Vec<TcpStream> =
            futures_util::future::join_all(warmed).await.into_iter().map(|done| done.unwrap().0).collect();
        let started = Instant::now();
        let driven =
            streams.into_iter().zip(all).map(|(stream, requests)| tokio::spawn(drive(stream, requests)));
        let mut latencies: Vec<Duration> = futures_util::future::join_all(driven)
            .await
            .into_iter()
            .flat_map(|done| done.unwrap().1)
            .collect();
        let took = started.elapsed();
        latencies.sort();
        Measured {
            rate: f64::from(u32::try_from(latencies.len()).unwrap()) / took.as_secs_f64(),
            p50: latencies[latencies.len() / 2],
            p99: latencies[latencies.len() * 99 / 100],
        }
    })
}

fn complete(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let length = answer[..head].split(|byte| *byte == b'\n').find_map(|line| {
        let line = std::str::from_utf8(line).ok()?.trim();
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    length.is_some_and(|length| answer.len() >= head + 4 + length)
}

/// Verifications and signatures a second on two cores, with nothing around them.
fn ceiling() -> f64 {
    let log = Log::new(0);
    let text = format!("{}\n1\n{}\n", log.origin, STANDARD.encode([7; 32]));
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

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn resident_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
        line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
    }
}

fn write_list(path: &Path, logs: &[Log]) {
    let mut list = String::from("logs/v0\n");
    for log in logs {
        let _ = writeln!(list, "vkey {}", log.vkey());
    }
    std::fs::write(path, list).unwrap();
}

fn run(program: &Path, args: &[&str], folder: &Path) {
    let output = Command::new(program).args(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
}

/// Our own witness as a process of its own; answers how long it took to listen.
fn start_ours(folder: &Path, logs: &[Log]) -> (Process, SocketAddr, Duration) {
    let program = Path::new(env!("CARGO_BIN_EXE_runseal-witness"));
    write_list(&folder.join("logs"), logs);
    run(program, &["keygen", "--name", "witness.example/load", "--out", "w.key"], folder);
    run(program, &["init", "--db", "w.redb"], folder);
    let started = Instant::now();
    let mut child = Command::new(program)
        .args(["serve", "--key", "w.key", "--db", "w.redb", "--logs", "logs", "--listen", "127.0.0.1:0"])
        .current_dir(folder)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("listening on")).expect("the witness starts");
    let took = started.elapsed();
    std::thread::spawn(move || lines.for_each(drop));
    (Process(child), line.rsplit('/').next().unwrap().parse().unwrap(), took)
}

/// litewitness with its key in an ssh-agent, as it wants it.
fn start_litewitness(programs: &Path, folder: &Path, logs: &[Log]) -> (Vec<Process>, SocketAddr) {
    write_list(&folder.join("logs"), logs);
    run(&programs.join("litelogs"), &["lite.db", "logs"], folder);
    let agent = Command::new("ssh-agent")
        .args(["-D", "-a", "agent"])
        .current_dir(folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let agent = Process(agent);
    while !folder.join("agent").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    run(Path::new("ssh-keygen"), &["-q", "-t", "ed25519", "-N", "", "-f", "key"], folder);
    let added = Command::new("ssh-add")
        .args(["-q", "key"])
        .env("SSH_AUTH_SOCK", "agent")
        .current_dir(folder)
        .status()
        .unwrap();
    assert!(added.success());
    let listed =
        Command::new("ssh-keygen").args(["-l", "-f", "key.pub"]).current_dir(folder).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let fingerprint = listed.split(' ').nth(1).unwrap();
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let log =
        std::fs::File::options().create(true).append(true).mode(0o600).open(folder.join("log")).unwrap();
    let witness = Command::new(programs.join("litewitness"))
        .args(["-db", "lite.db", "-name", "witness.example/lite", "-ssh-agent", "agent", "-key", fingerprint])
        .args(["-listen", &address.to_string()])
        .current_dir(folder)
        .stderr(log)
        .spawn()
        .unwrap();
    let witness = Process(witness);
    while std::net::TcpStream::connect(address).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    (vec![witness, agent], address)
}

fn report(name: &str, measured: &Measured, ceiling: f64, sync: Duration) {
    println!(
        "{name:<34} {:>9.0}/s   {:>5.2} of the ceiling   p50 {:>8.3} ms   p99 {:>8.3} ms = {:>6.1} syncs",
        measured.rate,
        measured.rate / ceiling,
        measured.p50.as_secs_f64() * 1e3,
        measured.p99.as_secs_f64() * 1e3,
        measured.p99.as_secs_f64() / sync.as_secs_f64(),
    );
}

fn main() {
    let options = Options::parse();
    let logs: Vec<Log> = (0..options.logs).map(Log::new).collect();
    if let Some(path) = options.list {
        write_list(&path, &logs);
        return;
    }
    let folder =
        tempfile::Builder::new().prefix("witness-load").tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let sync = sync_time(folder.path());
    let ceiling = ceiling();
    println!(
        "ceiling: {ceiling:.0} verifications and signatures a second on two cores; one sync of 32 KiB: {:.3} ms",
        sync.as_secs_f64() * 1e3
    );
    if let Some(url) = &options.url {
        let address =
            url.trim_start_matches("http://").trim_end_matches('/').parse().expect("http://ADDRESS:PORT");
        report(url, &measure(address, &logs, options.connections, options.requests), ceiling, sync);
        return;
    }
    let mut rates = Vec::new();
    for count in [options.logs, 40 * options.logs] {
        let place = folder.path().join(format!("ours-{count}"));
        std::fs::create_dir(&place).unwrap();
        let logs: Vec<Log> = (0..count).map(Log::new).collect();
        let (process, address, start) = start_ours(&place, &logs);
        let measured = measure(address, &logs, options.connections, options.requests);
        report(&format!("runseal-witness, {count} logs"), &measured, ceiling, sync);
        println!(
            "    {:.2} s to listening, at most {:.0} MiB resident",
            start.as_secs_f64(),
            process.resident_mib()
        );
        // One request at a time: what a lone client waits for.
        rates.push(measured.rate);
        let lone = measure_again(address, &logs[..1], options.requests / 100);
        println!(
            "    one client alone: p50 {:.3} ms = {:.1} syncs",
            lone.as_secs_f64() * 1e3,
            lone.as_secs_f64() / sync.as_secs_f64()
        );
    }
    println!("{} logs at {:.2} of the rate of {}", 40 * options.logs, rates[1] / rates[0], options.logs);
    if let Some(programs) = options.litewitness {
        let place = folder.path().join("lite");
        std::fs::create_dir(&place).unwrap();
        let programs = programs.canonicalize().unwrap();
        let (_processes, address) = start_litewitness(&programs, &place, &logs);
        let measured = measure(address, &logs, options.connections, options.requests / 8);
        report(&format!("litewitness, {} logs", logs.len()), &measured, ceiling, sync);
        println!("runseal-witness is {:.1} times as fast", rates[0] / measured.rate);
    }
}

/// The middle latency of one client that refreshes one log again and again.
fn measure_again(address: SocketAddr, logs: &[Log], requests: usize) -> Duration {
    use std::io::Read as _;
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut answer = vec![0; 16 * 1024];
    let mut ask = |request: &[u8]| {
        let started = Instant::now();
        stream.write_all(request).unwrap();
        let mut filled = 0;
        while !complete(&answer[..filled]) {
            filled += stream.read(&mut answer[filled..]).unwrap();
        }
        (started.elapsed(), String::from_utf8_lossy(&answer[..filled]).into_owned())
    };
    // Where the log stands, the witness says.
    let tree = Tree::new(4096);
    let (_, conflict) = ask(&logs[0].request(&tree, 0));
    let size: usize = conflict.trim_end().rsplit('\n').next().and_then(|size| size.parse().ok()).unwrap_or(1);
    let mut latencies: Vec<Duration> = (size..4095)
        .take(requests.min(1000))
        .map(|size| {
            let (took, answer) = ask(&logs[0].request(&tree, size));
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            took
        })
        .collect();
    latencies.sort();
    latencies[latencies.len() / 2]
}

//! The witnesses as processes of their own, and what they cost.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::logs::{Log, write_list};

const OURS: &str = env!("CARGO_BIN_EXE_runseal-witness");

pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// The most memory it ever had.
    pub(crate) fn resident_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
        line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
    }

    /// The time its threads have had on a core so far.
    pub(crate) fn on_core(&self) -> Duration {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.0.id())) else {
            return Duration::ZERO;
        };
        threads.flatten().map(|thread| thread_on_core(&thread.path())).sum()
    }
}

/// The time a thread has had on a core so far.
pub(crate) fn thread_on_core(thread: &Path) -> Duration {
    let statistics = std::fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
    let nanoseconds = statistics.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

fn run(program: &Path, args: &[&str], folder: &Path) {
    let output = Command::new(program).args(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
}

/// Makes a key, a state file and a list of logs in `folder`.
pub(crate) fn prepare(folder: &Path, logs: &[Log]) {
    let program = Path::new(OURS);
    write_list(&folder.join("logs"), logs);
    run(program, &["keygen", "--name", "witness.example/load", "--out", "w.key"], folder);
    run(program, &["init", "--db", "w.redb"], folder);
}

/// Our own witness; answers how long it took to listen.
pub(crate) fn start_ours(folder: &Path, logs: &[Log]) -> (Process, SocketAddr, Duration) {
    prepare(folder, logs);
    let mut command = Command::new(OURS);
    command.args(["serve", "--key", "w.key", "--db", "w.redb", "--logs", "logs", "--listen", "127.0.0.1:0"]);
    start(command.current_dir(folder))
}

/// The same on a disk that takes longer by so much, out of this program.
pub(crate) fn start_slower(folder: &Path, logs: &[Log], by: Duration) -> (Process, SocketAddr) {
    prepare(folder, logs);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--serve").arg(folder).arg("--slower-disk").arg(by.as_secs_f64().to_string());
    let (process, address, _) = start(&mut command);
    (process, address)
}

fn start(command: &mut Command) -> (Process, SocketAddr, Duration) {
    let started = Instant::now();
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("listening on")).expect("the witness starts");
    let took = started.elapsed();
    std::thread::spawn(move || lines.for_each(drop));
    (Process(child), line.rsplit('/').next().unwrap().parse().unwrap(), took)
}

/// litewitness with its key in an ssh-agent, as it wants it.
pub(crate) fn start_litewitness(programs: &Path, folder: &Path, logs: &[Log]) -> (Vec<Process>, SocketAddr) {
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

//! A folder with a witness's files in it, and the command run there as a process.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use runseal_witness::about::LogStatus;

use crate::testlog::TestLog;
use crate::wire::{Answer, post};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_runseal-witness");

/// A folder of its own for each test.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// With nothing in it.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// With a key, `w.key`, and a database, `w.redb`.
    pub(crate) fn ready() -> Self {
        let place = Self::new();
        place.ok(&["keygen", "--name", "witness.example/w1", "--out", "w.key"]);
        place.ok(&["init", "--db", "w.redb"]);
        place
    }

    /// The same, with a list of this log, `logs`.
    pub(crate) fn following(log: &TestLog) -> Self {
        let place = Self::ready();
        place.write("logs", &log.list());
        place
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The command with these arguments and none of its variables.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RUNSEAL_")) {
            command.env_remove(name);
        }
        command
    }

    /// What a command that must succeed prints.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Exit code and message of a command that must fail.
    pub(crate) fn fails(&self, args: &[&str]) -> (i32, String) {
        fails(self.command(args))
    }

    /// `serve`, to be completed.
    pub(crate) const fn serving(&self) -> Serve<'_> {
        let key = Some("w.key");
        Serve { place: self, key, db: "w.redb", listen: "127.0.0.1:0", logs: Vec::new(), more: Vec::new() }
    }

    /// `serve` with the list `logs`, running.
    pub(crate) fn serve(&self) -> Running {
        self.serving().logs("logs").start()
    }

    pub(crate) fn vkey(&self) -> String {
        self.ok(&["vkey", "--key", "w.key"]).lines().next().unwrap().to_owned()
    }

    /// What the database says of each log.
    pub(crate) fn logs(&self) -> Vec<LogStatus> {
        let lines = self.ok(&["logs", "--db", "w.redb", "--json"]);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Exit code and message of a command that must fail, and within a time.
pub(crate) fn fails(mut command: Command) -> (i32, String) {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = child.id().to_string();
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(child.wait_with_output().unwrap()));
    let Ok(output) = told.recv_timeout(Duration::from_secs(30)) else {
        let _ = Command::new("kill").arg(id).status();
        panic!("{command:?} does not end");
    };
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains("panicked"), "{command:?}: {said}");
    assert!(!said.is_empty(), "{command:?} said nothing");
    (output.status.code().unwrap(), said)
}

/// The arguments of `serve`: those of [`Place::ready`] on a port that the system chooses, unless said
/// otherwise.
pub(crate) struct Serve<'a> {
    place: &'a Place,
    key: Option<&'a str>,
    db: &'a str,
    listen: &'a str,
    logs: Vec<&'a str>,
    more: Vec<&'a str>,
}

impl<'a> Serve<'a> {
    pub(crate) const fn key(mut self, file: &'a str) -> Self {
        self.key = Some(file);
        self
    }

    pub(crate) const fn without_key_file(mut self) -> Self {
        self.key = None;
        self
    }

    pub(crate) const fn db(mut self, file: &'a str) -> Self {
        self.db = file;
        self
    }

    pub(crate) const fn listen(mut self, address: &'a str) -> Self {
        self.listen = address;
        self
    }

    pub(crate) fn logs(mut self, list: &'a str) -> Self {
        self.logs.push(list);
        self
    }

    pub(crate) fn with(mut self, more: &[&'a str]) -> Self {
        self.more.extend(more);
        self
    }

    fn args(&self) -> Vec<&'a str> {
        let mut args = vec!["serve", "--db", self.db, "--listen", self.listen];
        args.extend(self.key.iter().flat_map(|key| ["--key", key]));
        args.extend(self.logs.iter().flat_map(|list| ["--logs", list]));
        args.extend(&self.more);
        args
    }

    pub(crate) fn command(&self) -> Command {
        self.place.command(&self.args())
    }

    /// Runs it until it listens.
    pub(crate) fn start(&self) -> Running {
        Running::start(self.command())
    }

    /// Exit code and message, where it must not come to listen.
    pub(crate) fn fails(&self) -> (i32, String) {
        self.place.fails(&self.args())
    }
}

/// A witness that listens; killed when dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
    /// What it said before it listened.
    pub(crate) before: String,
    said: Receiver<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let (tell, said) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let mut running =
            Self { child, address: "127.0.0.1:0".parse().unwrap(), before: String::new(), said };
        let (before, line) = running.read_to("listening on http://");
        running.before = before;
        running.address = line.rsplit('/').next().unwrap().parse().unwrap();
        running
    }

    /// The first line that holds `text`.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.read_to(text).1
    }

    /// The lines before the first one that holds `text`, and that one.
    fn read_to(&self, text: &str) -> (String, String) {
        let mut seen = String::new();
        let deadline = Instant::now() + Duration::from_secs(20);
        while let Ok(line) = self.said.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if line.contains(text) {
                return (seen, line);
            }
            seen.push_str(&line);
            seen.push('\n');
        }
        panic!("never said {text:?}, but:\n{seen}")
    }

    /// All it still says, to its end.
    pub(crate) fn rest_of_log(&self) -> String {
        let mut log = String::new();
        while let Ok(line) = self.said.recv_timeout(Duration::from_secs(5)) {
            log.push_str(&line);
        }
        log
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn add_checkpoint(&self, body: &str) -> Answer {
        post(self.address, "/add-checkpoint", body.as_bytes())
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Tells it to stop; its exit code.
    pub(crate) fn stop(self) -> i32 {
        self.signal("-TERM");
        self.wait()
    }

    /// Its exit code, once it ends within the time that a stop may take.
    pub(crate) fn wait(mut self) -> i32 {
        let started = Instant::now();
        let code = self.child.wait().unwrap().code().unwrap();
        assert!(started.elapsed() < Duration::from_secs(11));
        code
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A log of `size` leaves.
pub(crate) fn log_of(size: usize) -> TestLog {
    let mut log = TestLog::new("log.example/process", 1);
    log.grow(size, "");
    log
}

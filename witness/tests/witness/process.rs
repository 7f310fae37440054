//! The command as a process: exit codes, signals, crashes, reloads, keys from elsewhere.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use runseal_witness::about::LogStatus;

use crate::pull::FileServer;
use crate::testlog::{TestLog, cosignature_time};
use crate::wire::{get, post, request};

const PROGRAM: &str = env!("CARGO_BIN_EXE_runseal-witness");

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// With a key and a database.
    fn ready() -> Self {
        let place = Self::new();
        place.ok(&["keygen", "--name", "witness.example/w1", "--out", "w.key"]);
        place.ok(&["init", "--db", "w.redb"]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RUNSEAL_")) {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Exit code and message of a command that must fail.
    fn fails(&self, args: &[&str]) -> (i32, String) {
        let output = self.run(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains("panicked"), "{args:?}: {said}");
        assert!(!said.is_empty(), "{args:?} said nothing");
        (output.status.code().unwrap(), said)
    }

    fn serve(&self, more: &[&str]) -> Running {
        let args = [&["serve", "--key", "w.key", "--db", "w.redb", "--listen", "127.0.0.1:0"], more].concat();
        Running::start(self.command(&args))
    }

    fn vkey(&self) -> String {
        self.ok(&["vkey", "--key", "w.key"]).lines().next().unwrap().to_owned()
    }

    fn logs(&self) -> Vec<LogStatus> {
        let lines = self.ok(&["logs", "--db", "w.redb", "--json"]);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

struct Running {
    child: Child,
    address: SocketAddr,
    said: Receiver<String>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let (tell, said) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let mut running = Self { child, address: "127.0.0.1:0".parse().unwrap(), said };
        let line = running.wait_for("listening on http://");
        running.address = line.rsplit('/').next().unwrap().parse().unwrap();
        running
    }

    /// The first line that holds `text`.
    fn wait_for(&self, text: &str) -> String {
        let mut seen = String::new();
        let deadline = Instant::now() + Duration::from_secs(20);
        while let Ok(line) = self.said.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if line.contains(text) {
                return line;
            }
            seen.push_str(&line);
            seen.push('\n');
        }
        panic!("never said {text:?}, but:\n{seen}")
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    fn stop(mut self) -> i32 {
        self.signal("-TERM");
        self.child.wait().unwrap().code().unwrap()
    }

    fn kill(mut self) {
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

fn log_of(size: usize) -> TestLog {
    let mut log = TestLog::new("log.example/process", 1);
    log.grow(size, "");
    log
}

#[test]
fn commands_refuse_with_the_right_code_and_say_what_to_do() {
    let place = Place::ready();
    let log = log_of(1);
    place.write("logs", &log.list());
    let serve = |more: &[&str]| place.fails(&[&["serve", "--listen", "127.0.0.1:0"], more].concat());
    for (expected, (code, said)) in [
        ((2, "never overwritten"), place.fails(&["keygen", "--name", "x", "--out", "w.key"])),
        ((2, "--name"), place.fails(&["keygen", "--name", "a b", "--out", "other.key"])),
        ((2, "never overwritten"), place.fails(&["init", "--db", "w.redb"])),
        ((2, "keygen"), place.fails(&["vkey", "--key", "none.key"])),
        ((2, "init"), serve(&["--key", "w.key", "--logs", "logs", "--db", "none.redb"])),
        ((2, "not a witness database"), serve(&["--key", "w.key", "--logs", "logs", "--db", "logs"])),
        ((2, "--logs"), serve(&["--key", "w.key", "--db", "w.redb"])),
        ((2, "--key"), serve(&["--logs", "logs", "--db", "w.redb"])),
        ((2, "no list of logs none"), serve(&["--key", "w.key", "--logs", "none", "--db", "w.redb"])),
        ((2, "can be read by others"), serve(&["--key", "logs", "--logs", "logs", "--db", "w.redb"])),
        ((2, "https"), serve(&["--key", "w.key", "--logs", "http://x.example/l", "--db", "w.redb"])),
        (
            (2, "--accept-key-change"),
            serve(&["--key", "w.key", "--logs", "logs", "--db", "w.redb", "--accept-key-change", "x"]),
        ),
        (
            (3, "203.0.113.1:1"),
            place.fails(&[
                "serve",
                "--key",
                "w.key",
                "--logs",
                "logs",
                "--db",
                "w.redb",
                "--listen",
                // An address of no machine of ours (RFC 5737).
                "203.0.113.1:1",
            ]),
        ),
        ((2, "--feed"), serve(&["--key", "w.key", "--logs", "logs", "--db", "w.redb", "--feed", "10"])),
        ((2, "init"), place.fails(&["logs", "--db", "none.redb"])),
        ((2, "--db"), place.fails(&["logs"])),
        ((3, "127.0.0.1:1"), place.fails(&["status", "--url", "http://127.0.0.1:1"])),
        ((2, "subcommand"), place.fails(&["frobnicate"])),
    ] {
        assert_eq!(code, expected.0, "{said}");
        assert!(said.contains(expected.1), "{expected:?}: {said}");
    }
    assert!(!place.path("none.redb").exists() && !place.path("other.key").exists());
    for args in [&["--help"][..], &["--version"], &["serve", "--help"], &["db", "export", "--help"]] {
        assert!(!place.ok(args).is_empty());
    }
}

#[test]
fn a_database_and_an_address_are_used_by_one_witness_at_a_time() {
    let place = Place::ready();
    place.write("logs", &log_of(1).list());
    let running = place.serve(&["--logs", "logs"]);
    let (code, said) = place.fails(&[
        "serve",
        "--key",
        "w.key",
        "--logs",
        "logs",
        "--db",
        "w.redb",
        "--listen",
        "127.0.0.1:0",
    ]);
    assert_eq!(code, 3);
    assert!(said.contains("in use by another process"), "{said}");
    assert_eq!(place.fails(&["logs", "--db", "w.redb"]).0, 3);
    place.ok(&["init", "--db", "second.redb"]);
    let address = running.address.to_string();
    let (code, said) = place.fails(&[
        "serve",
        "--key",
        "w.key",
        "--logs",
        "logs",
        "--db",
        "second.redb",
        "--listen",
        &address,
    ]);
    assert_eq!(code, 3);
    assert!(said.contains(&address), "{said}");
    assert_eq!(running.stop(), 0);
}

#[test]
fn every_option_is_a_variable_too() {
    let place = Place::ready();
    let (mut a, mut b) = (log_of(3), TestLog::new("log.example/b", 2));
    a.grow(3, "");
    b.grow(3, "");
    place.write("a.list", &a.list());
    place.write("b.policy", &format!("log {}\nquorum none\n", b.vkey()));
    let mut command = place.command(&["serve"]);
    command
        .env("RUNSEAL_KEY", "w.key")
        .env("RUNSEAL_DB", "w.redb")
        .env("RUNSEAL_LOGS", "a.list:b.policy")
        .env("RUNSEAL_LISTEN", "127.0.0.1:0")
        .env("RUNSEAL_LOG_FORMAT", "json");
    let running = Running::start(command);
    for log in [&a, &b] {
        assert_eq!(post(running.address, "/add-checkpoint", log.request(0, 3).as_bytes()).status, 200);
    }
    let status = place.ok(&["status", "--json", "--url", &format!("http://{}", running.address)]);
    assert_eq!(running.stop(), 0);
    assert_eq!(status, place.ok(&["logs", "--db", "w.redb", "--json"]));
    assert_eq!(place.logs().len(), 2);
}

#[test]
fn what_was_answered_survives_a_kill_at_any_moment() {
    let place = Place::ready();
    let log = log_of(400);
    place.write("logs", &log.list());
    let vkey = place.vkey();
    let mut acknowledged = 0;
    for round in 0..12u64 {
        let running = place.serve(&["--logs", "logs"]);
        let told = get(running.address, "/").text().contains("log.example/process");
        assert_eq!(told, acknowledged > 0);
        let address = running.address;
        let (tell, answered) = channel();
        let mut at = acknowledged;
        let mut client_log = log_of(400);
        client_log.grow(400, "");
        let client = std::thread::spawn(move || {
            while let Ok(answer) = std::panic::catch_unwind(|| {
                let next = (at + 1).min(400);
                (next, post(address, "/add-checkpoint", client_log.request(at, next).as_bytes()))
            }) {
                at = match answer {
                    (next, answer) if answer.status == 200 => next,
                    (_, answer) => answer.text().trim().parse().unwrap_or(at),
                };
                if tell.send(at).is_err() {
                    return;
                }
            }
        });
        std::thread::sleep(Duration::from_millis(20 + 17 * (round % 5)));
        running.kill();
        let last = answered.iter().last();
        let _ = client.join();
        let before = acknowledged;
        acknowledged = last.unwrap_or(acknowledged);
        let stored = place.logs();
        let size = stored.first().map_or(0, |log| usize::try_from(log.size).unwrap());
        assert!(size >= acknowledged, "round {round}: {size} is stored, {acknowledged} was acknowledged");
        assert!(size <= acknowledged + 1 && size >= before);
        if let Some(stored) = stored.first() {
            assert_eq!(stored.root, crate::testlog::base64(&log.root(size)));
        }
        acknowledged = size;
    }
    assert!(acknowledged > 12, "the witness got through {acknowledged} checkpoints");
    let running = place.serve(&["--logs", "logs"]);
    let answer = post(running.address, "/add-checkpoint", log.request(acknowledged, 400).as_bytes());
    let text = log.checkpoint(400);
    assert!(cosignature_time(&text[..=text.rfind("\n\n").unwrap()], answer.text(), &vkey).is_some());
}

#[test]
fn a_stop_finishes_what_is_in_flight() {
    let place = Place::ready();
    let log = log_of(3);
    place.write("logs", &log.list());
    let running = place.serve(&["--logs", "logs"]);
    let body = log.request(0, 3);
    let (first, rest) = body.split_at(10);
    let mut stream = std::net::TcpStream::connect(running.address).unwrap();
    std::io::Write::write_all(
        &mut stream,
        format!("POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ncontent-length: {}\r\n\r\n{first}", body.len())
            .as_bytes(),
    )
    .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    running.signal("-TERM");
    std::thread::sleep(Duration::from_millis(300));
    assert!(std::net::TcpStream::connect(running.address).is_err(), "nobody new is let in");
    std::io::Write::write_all(&mut stream, rest.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(running.stop_waited(), 0);
    assert_eq!(place.logs()[0].size, 3);
}

impl Running {
    fn stop_waited(mut self) -> i32 {
        let started = Instant::now();
        let code = self.child.wait().unwrap().code().unwrap();
        assert!(started.elapsed() < Duration::from_secs(11));
        code
    }
}

#[test]
fn lists_are_read_again_on_hangup_and_a_bad_one_changes_nothing() {
    let place = Place::ready();
    let (mut a, mut b) = (log_of(4), TestLog::new("log.example/b", 2));
    a.grow(4, "");
    b.grow(4, "");
    place.write("logs", &a.list());
    let running = place.serve(&["--logs", "logs"]);
    let status = |log: &TestLog, old, new| {
        post(running.address, "/add-checkpoint", log.request(old, new).as_bytes()).status
    };
    assert_eq!((status(&a, 0, 2), status(&b, 0, 2)), (200, 404));
    place.write("logs", "logs/v0\nvkey nonsense\n");
    running.signal("-HUP");
    running.wait_for("line 2");
    running.wait_for("read again");
    assert_eq!((status(&a, 2, 3), status(&b, 0, 2)), (200, 404));
    place.write("logs", &format!("{}vkey {}\n", a.list(), b.vkey()));
    running.signal("-HUP");
    running.wait_for("read again");
    assert_eq!((status(&a, 3, 3), status(&b, 0, 2)), (200, 200));
    // A log that would be taken for the witness is refused on this door too.
    place.write("logs", &TestLog::new("witness.example/w1", 5).list());
    running.signal("-HUP");
    running.wait_for("left as they were");
    place.write("logs", &b.list());
    running.signal("-HUP");
    running.wait_for("read again");
    assert_eq!((status(&a, 3, 4), status(&b, 2, 4)), (404, 200));
    let page = get(running.address, "/metrics");
    assert!(page.text().contains("runseal_witness_reload_failures_total 2\n"), "{}", page.text());
    assert_eq!(running.stop(), 0);
    assert_eq!(place.logs().iter().map(|log| log.size).collect::<Vec<_>>(), [4, 3]);
}

#[test]
fn a_changed_key_waits_for_the_operator() {
    let place = Place::ready();
    let (mut old, mut new) = (log_of(5), TestLog::new("log.example/process", 9));
    old.grow(5, "");
    new.grow(5, "");
    place.write("logs", &old.list());
    let running = place.serve(&["--logs", "logs"]);
    assert_eq!(post(running.address, "/add-checkpoint", old.request(0, 2).as_bytes()).status, 200);
    assert_eq!(running.stop(), 0);
    place.write("logs", &new.list());
    let diff = place.ok(&["logs", "diff", "--db", "w.redb", "--logs", "logs"]);
    assert!(diff.starts_with("! the log log.example/process"), "{diff}");
    // The notice comes before the server listens.
    let args = ["serve", "--key", "w.key", "--db", "w.redb", "--listen", "127.0.0.1:0", "--logs", "logs"];
    let mut child = place.command(&args).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("--accept-key-change log.example/process")));
    let address: SocketAddr =
        lines.find(|line| line.contains("listening")).unwrap().rsplit('/').next().unwrap().parse().unwrap();
    assert_eq!(post(address, "/add-checkpoint", new.request(2, 5).as_bytes()).status, 403);
    child.kill().unwrap();
    child.wait().unwrap();
    let running = place.serve(&["--logs", "logs", "--accept-key-change", "log.example/process"]);
    assert_eq!(post(running.address, "/add-checkpoint", new.request(2, 5).as_bytes()).status, 200);
    assert_eq!(running.stop(), 0);
    // Accepted once and for all.
    let running = place.serve(&["--logs", "logs"]);
    assert_eq!(post(running.address, "/add-checkpoint", new.request(5, 5).as_bytes()).status, 200);
}

#[test]
fn a_diff_says_what_would_change() {
    let place = Place::ready();
    let (mut a, b) = (log_of(5), TestLog::new("log.example/b", 2));
    a.grow(5, "");
    place.write("logs", &a.list());
    let running = place.serve(&["--logs", "logs"]);
    assert_eq!(post(running.address, "/add-checkpoint", a.request(0, 5).as_bytes()).status, 200);
    assert_eq!(running.stop(), 0);
    let diff = |list: &str| {
        place.write("other", list);
        place.ok(&["logs", "diff", "--db", "w.redb", "--logs", "other"])
    };
    assert_eq!(diff(&a.list()), "");
    assert_eq!(diff(&b.list()), "+ log.example/b\n- log.example/process (its state at size 5 is kept)\n");
}

#[test]
fn a_witness_with_two_keys_answers_two_lines_and_changing_keys_forgets_nothing() {
    let place = Place::new();
    let log = log_of(6);
    place.write("logs", &log.list());
    let vkeys = place.ok(&["keygen", "--name", "witness.example/w1", "--out", "w.key", "--ml-dsa"]);
    assert_eq!(vkeys.lines().count(), 2);
    assert_eq!(place.ok(&["vkey", "--key", "w.key"]), vkeys);
    place.ok(&["init", "--db", "w.redb"]);
    let running = place.serve(&["--logs", "logs"]);
    let answer = post(running.address, "/add-checkpoint", log.request(0, 4).as_bytes());
    assert_eq!((answer.status, answer.text().lines().count()), (200, 2));
    assert_eq!(running.stop(), 0);
    place.ok(&["keygen", "--name", "witness.example/w2", "--out", "new.key"]);
    let args = ["serve", "--key", "new.key", "--db", "w.redb", "--listen", "127.0.0.1:0", "--logs", "logs"];
    let running = Running::start(place.command(&args));
    assert_eq!(post(running.address, "/add-checkpoint", log.request(0, 6).as_bytes()).text(), "4\n");
    let answer = post(running.address, "/add-checkpoint", log.request(4, 6).as_bytes());
    assert_eq!(answer.text().lines().count(), 1);
    assert!(answer.text().contains("witness.example/w2"));
}

#[test]
fn a_key_can_come_from_the_environment_and_is_shown_to_nobody() {
    let place = Place::ready();
    let log = log_of(2);
    place.write("logs", &log.list());
    let key = std::fs::read_to_string(place.path("w.key")).unwrap();
    let secret = key.trim().splitn(5, '+').last().unwrap();
    let mut command =
        place.command(&["serve", "--db", "w.redb", "--listen", "127.0.0.1:0", "--logs", "logs"]);
    command.env("RUNSEAL_WITNESS_KEY", &key).env("RUNSEAL_LOG", "trace");
    let running = Running::start(command);
    let vkey = place.vkey();
    let answer = post(running.address, "/add-checkpoint", log.request(0, 2).as_bytes());
    let text = log.checkpoint(2);
    assert!(cosignature_time(&text[..=text.rfind("\n\n").unwrap()], answer.text(), &vkey).is_some());
    let mut pages = format!("{answer:?}");
    for path in ["/", "/metrics", "/healthz", "/nothing"] {
        let _ = write!(pages, "{:?}", get(running.address, path));
    }
    let process = running.child.id();
    let arguments = std::fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap();
    running.signal("-TERM");
    let mut log = String::new();
    while let Ok(line) = running.said.recv_timeout(Duration::from_secs(5)) {
        log.push_str(&line);
    }
    for place in [&pages, &arguments, &log] {
        assert!(!place.contains(secret) && !place.contains(&secret[..20]));
    }
    let mut command =
        place.command(&["serve", "--db", "w.redb", "--listen", "127.0.0.1:0", "--logs", "logs"]);
    let broken = command.env("RUNSEAL_WITNESS_KEY", key.trim().replacen('+', "++", 1)).output().unwrap();
    assert_eq!(broken.status.code(), Some(2));
    let said = String::from_utf8(broken.stderr).unwrap();
    assert!(said.contains("RUNSEAL_WITNESS_KEY, line 1") && !said.contains(&secret[..20]), "{said}");
}

/// ssh-agent and ssh-add, where they are installed.
#[test]
fn a_key_in_an_ssh_agent_cosigns() {
    let place = Place::new();
    let installed = |program: &str| Command::new(program).arg("-V").stdin(Stdio::null()).output().is_ok();
    if !["ssh-agent", "ssh-add", "ssh-keygen"].into_iter().all(installed) {
        eprintln!("ssh-agent is not installed: signing through it was not tried");
        return;
    }
    let socket = place.path("agent");
    let mut agent =
        Command::new("ssh-agent").arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()).spawn().unwrap();
    while !socket.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    for name in ["one", "two"] {
        let made =
            place_command(&place, "ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", name]).status();
        assert!(made.unwrap().success());
        let added =
            place_command(&place, "ssh-add").args(["-q", name]).env("SSH_AUTH_SOCK", &socket).status();
        assert!(added.unwrap().success());
    }
    let listed = place_command(&place, "ssh-add").arg("-l").env("SSH_AUTH_SOCK", &socket).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let fingerprint = listed.lines().nth(1).unwrap().split(' ').nth(1).unwrap();
    let log = log_of(5);
    place.write("logs", &log.list());
    place.ok(&["init", "--db", "w.redb"]);
    let base = [
        "serve",
        "--db",
        "w.redb",
        "--listen",
        "127.0.0.1:0",
        "--logs",
        "logs",
        "--ssh-agent",
        "agent",
        "--name",
        "witness.example/agent",
    ];
    let (code, said) = place.fails(&base);
    assert!(code == 3 && said.contains(fingerprint), "several keys and none named: {said}");
    let running = Running::start(place.command(&[&base[..], &["--ssh-key", fingerprint]].concat()));
    let about = request(running.address, "GET", "/", "accept: application/json\r\n", b"");
    let about: runseal_witness::about::About = serde_json::from_str(about.text()).unwrap();
    let vkey = about.vkeys[0].clone();
    let answer = post(running.address, "/add-checkpoint", log.request(0, 4).as_bytes());
    let text = log.checkpoint(4);
    assert!(
        cosignature_time(&text[..=text.rfind("\n\n").unwrap()], answer.text(), &vkey).is_some(),
        "{answer:?}"
    );
    // Without its agent the witness signs nothing and keeps its state.
    agent.kill().unwrap();
    agent.wait().unwrap();
    let answer = post(running.address, "/add-checkpoint", log.request(4, 5).as_bytes());
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(!answer.text().contains("agent at"), "{answer:?}");
    assert_eq!(running.stop(), 0);
    assert_eq!(place.logs()[0].size, 4);
}

fn place_command(place: &Place, program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(place.folder.path()).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn a_state_moves_to_another_machine_and_never_back() {
    let place = Place::ready();
    let log = log_of(9);
    place.write("logs", &log.list());
    let running = place.serve(&["--logs", "logs"]);
    let mut other = log_of(0);
    other.grow(5, "other");
    assert_eq!(post(running.address, "/add-checkpoint", log.request(0, 5).as_bytes()).status, 200);
    assert_eq!(post(running.address, "/add-checkpoint", other.request(5, 5).as_bytes()).status, 422);
    assert_eq!(running.stop(), 0);
    place.ok(&["db", "check", "--db", "w.redb"]);
    place.ok(&["db", "export", "--db", "w.redb", "-o", "early"]);
    let early = std::fs::read_to_string(place.path("early")).unwrap();
    assert_eq!(early, place.ok(&["db", "export", "--db", "w.redb"]));
    place.ok(&["init", "--db", "new.redb"]);
    place.ok(&["db", "import", "--db", "new.redb", "early"]);
    assert_eq!(
        place.ok(&["logs", "--db", "new.redb", "--json"]),
        place.ok(&["logs", "--db", "w.redb", "--json"])
    );
    assert_eq!(place.logs()[0].alarms, 1);
    assert_eq!(early, place.ok(&["db", "export", "--db", "new.redb"]));
    place.ok(&["db", "import", "--db", "new.redb", "early"]);

    let running = place.serve(&["--logs", "logs"]);
    assert_eq!(post(running.address, "/add-checkpoint", log.request(5, 9).as_bytes()).status, 200);
    assert_eq!(running.stop(), 0);
    let (code, said) = place.fails(&["db", "import", "--db", "w.redb", "early"]);
    assert!(code == 2 && said.contains("never goes back"), "{said}");
    assert_eq!(place.logs()[0].size, 9);
    place.ok(&["db", "export", "--db", "w.redb", "-o", "late"]);
    place.ok(&["db", "import", "--db", "new.redb", "late"]);
    assert_eq!(
        place.ok(&["logs", "--db", "new.redb", "--json"]),
        place.ok(&["logs", "--db", "w.redb", "--json"])
    );

    // Cut short, or touched anywhere that matters, an export is refused whole.
    let late = std::fs::read_to_string(place.path("late")).unwrap();
    place.ok(&["init", "--db", "third.redb"]);
    let lines: Vec<&str> = late.lines().collect();
    for cut in 0..lines.len() {
        place.write("cut", &lines[..cut].iter().flat_map(|line| [line, "\n"]).collect::<String>());
        assert_eq!(place.fails(&["db", "import", "--db", "third.redb", "cut"]).0, 2, "{cut} lines");
    }
    for (from, to) in [
        ("\\n9\\n", "\\n8\\n"),
        ("\"version\":1", "\"version\":2"),
        ("\"logs\":1", "\"logs\":2"),
        ("log.example/process\",\"keys", "log.example/x\",\"keys"),
    ] {
        assert!(late.contains(from), "{from}: {late}");
        place.write("touched", &late.replacen(from, to, 1));
        assert_eq!(place.fails(&["db", "import", "--db", "third.redb", "touched"]).0, 2, "{from}");
    }
    assert_eq!(place.ok(&["logs", "--db", "third.redb"]), "");
    // Two databases of one key that hold two roots of one size are a finding, not a mistake.
    let mut fork = log_of(0);
    fork.grow(9, "other");
    let running = Running::start(place.command(&[
        "serve",
        "--key",
        "w.key",
        "--db",
        "third.redb",
        "--listen",
        "127.0.0.1:0",
        "--logs",
        "logs",
    ]));
    assert_eq!(post(running.address, "/add-checkpoint", fork.request(0, 9).as_bytes()).status, 200);
    assert_eq!(running.stop(), 0);
    let (code, said) = place.fails(&["db", "import", "--db", "third.redb", "late"]);
    assert!(code == 1 && said.contains("two roots"), "{said}");
}

#[test]
fn a_witness_started_with_feed_pulls_and_raises_alarms() {
    let place = Place::ready();
    let log = log_of(700);
    let server = FileServer::default();
    let address = server.start();
    server.put("logs", log.list());
    server.publish(&log, 300);
    place.write("policy", &format!("log {} http://{address}/\nquorum none\n", log.vkey()));
    let list = format!("http://{address}/logs");
    let running = place.serve(&["--logs", &list, "--logs", "policy", "--feed", "50ms"]);
    let until = |running: &Running, size: usize| {
        for _ in 0..400 {
            if get(running.address, "/").text().contains(&format!("data-label=\"size\">{size}<")) {
                return;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        panic!("never reached size {size}");
    };
    until(&running, 300);
    server.publish(&log, 700);
    until(&running, 700);
    server.publish(&log, 300);
    running.wait_for("INTEGRITY ALARM");
    assert_eq!(running.stop(), 0);
    assert_eq!((place.logs()[0].size, place.logs()[0].alarms), (700, 1));
    assert_eq!(std::fs::read_dir(place.path("w.redb.evidence")).unwrap().count(), 2);
}

#[test]
fn a_fetched_list_is_used_from_its_copy_when_its_server_is_gone() {
    let place = Place::ready();
    let log = log_of(2);
    let server = FileServer::default();
    let address = server.start();
    let list = format!("http://{address}/logs");
    let (code, said) = place.fails(&[
        "serve",
        "--key",
        "w.key",
        "--db",
        "w.redb",
        "--listen",
        "127.0.0.1:0",
        "--logs",
        &list,
    ]);
    assert!(code == 3 && said.contains("status 404"), "{said}");
    server.put("logs", log.list());
    assert_eq!(place.serve(&["--logs", &list]).stop(), 0);
    server.put("logs", "not a list");
    let (code, said) = place.fails(&[
        "serve",
        "--key",
        "w.key",
        "--db",
        "w.redb",
        "--listen",
        "127.0.0.1:0",
        "--logs",
        &list,
    ]);
    assert!(code == 2 && said.contains("line 1"), "{said}");
    server.take_down("logs");
    let running = place.serve(&["--logs", &list]);
    assert_eq!(post(running.address, "/add-checkpoint", log.request(0, 2).as_bytes()).status, 200);
}

#[test]
fn forty_thousand_logs_load_in_a_second_and_fit_in_memory() {
    use ed25519_dalek::SigningKey;
    let place = Place::ready();
    let mut list = String::from("logs/v0\n");
    for number in 0..40_000u32 {
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&number.to_be_bytes());
        let mut material = vec![1];
        material.extend(SigningKey::from_bytes(&seed).verifying_key().to_bytes());
        let name = format!("log.example/{number}");
        let hash = crate::testlog::sha256(&[name.as_bytes(), b"\n", &material]);
        writeln!(list, "vkey {name}+{}+{}", hex::encode(&hash[..4]), crate::testlog::base64(&material))
            .unwrap();
    }
    place.write("logs", &list);
    let started = Instant::now();
    let running = place.serve(&["--logs", "logs"]);
    let took = started.elapsed();
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.child.id())).unwrap();
    let resident: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap()
        .trim()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    eprintln!("40,000 logs: {took:?} to listening, {resident} KiB resident");
    assert!(resident < 64 * 1024, "{resident} KiB");
    // Unoptimised and beside other tests; the second is held to in the benchmark.
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert!(get(running.address, "/metrics").text().contains("runseal_witness_logs 40000\n"));
}

/// A limit on the size of files stands for a full disk: the system refuses the database's next page.
#[test]
fn a_full_disk_signs_nothing_and_loses_nothing() {
    let place = Place::ready();
    let mut logs: Vec<TestLog> =
        (1..=60).map(|number| TestLog::new(&format!("log.example/{number}"), number)).collect();
    for log in &mut logs {
        log.grow(3, "");
    }
    let vkeys: String =
        logs.iter().flat_map(|log| ["vkey ".to_owned(), log.vkey(), "\n".to_owned()]).collect();
    place.write("logs", &format!("logs/v0\n{vkeys}"));
    let blocks = std::fs::metadata(place.path("w.redb")).unwrap().len() / 512;
    // With the signal ignored, a write beyond the limit is an error.
    let script = format!(
        "trap '' XFSZ; ulimit -S -f {blocks}; exec {PROGRAM} serve --key w.key --db w.redb --logs logs --listen 127.0.0.1:0"
    );
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).current_dir(place.folder.path());
    let running = Running::start(command);
    let mut acknowledged = Vec::new();
    let mut refused = 0;
    for log in &logs {
        let answer = post(running.address, "/add-checkpoint", log.request(0, 3).as_bytes());
        match answer.status {
            200 => acknowledged.push(log.origin.clone()),
            503 => {
                refused += 1;
                assert!(!answer.text().contains('\u{2014}'), "{answer:?}");
                assert_eq!(get(running.address, "/healthz").status, 503);
            }
            other => panic!("{other}: {answer:?}"),
        }
    }
    assert!(refused > 0, "the limit was never reached");
    // Room again: the witness finds out by itself.
    let raised = Command::new("prlimit")
        .args(["--fsize=unlimited:unlimited", "--pid", &running.child.id().to_string()])
        .status();
    if raised.is_ok_and(|status| status.success()) {
        let started = Instant::now();
        while get(running.address, "/healthz").status != 200 {
            assert!(started.elapsed() < Duration::from_secs(10), "never healthy again");
            std::thread::sleep(Duration::from_millis(100));
        }
        let answer = post(running.address, "/add-checkpoint", logs[0].request(3, 3).as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(running.stop(), 0);
    let running = place.serve(&["--logs", "logs"]);
    for log in &logs {
        let known = acknowledged.contains(&log.origin);
        let answer = post(running.address, "/add-checkpoint", log.request(0, 3).as_bytes());
        assert!(answer.status == 409 || (answer.status == 200 && !known), "{}: {answer:?}", log.origin);
    }
    assert_eq!(running.stop(), 0);
    place.ok(&["db", "check", "--db", "w.redb"]);
}

#[test]
fn an_unwritable_folder_is_no_reason_to_panic() {
    let place = Place::ready();
    let missing = Path::new("no/such/folder/w.redb");
    assert_eq!(place.fails(&["init", "--db", missing.to_str().unwrap()]).0, 3);
    assert_eq!(place.fails(&["keygen", "--name", "w", "--out", "no/such/folder/w.key"]).0, 3);
    assert_eq!(place.fails(&["db", "export", "--db", "w.redb", "-o", "no/such/folder/x"]).0, 3);
}

//! The watch command: for ever, and stopped by a signal.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::{text, verifier};
use crate::plane::{Plane, log_key, witness_key};
use crate::server::{Answer, Server};

struct Watching {
    child: Child,
    metrics: String,
}

impl Watching {
    fn start(plane: &Plane, policy: &Path, hook: &Path, more: &[&str]) -> Self {
        let history = plane.path("watch.redb");
        let heartbeat = plane.path("heartbeat.json");
        let mut command = verifier();
        command.args(["watch", "--policy", text(policy), "--history", text(&history), "--interval", "150ms"]);
        command.args(["--silence", "1s", "--listen", "127.0.0.1:0", "--heartbeat", text(&heartbeat)]);
        command.args(["--alert-command", text(hook)]).args(more);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let mut said = String::new();
        while !said.contains("/metrics\n") {
            let mut byte = [0];
            assert_eq!(stderr.read(&mut byte).unwrap(), 1, "{said}");
            said.push(char::from(byte[0]));
        }
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        let metrics = said.rsplit("http://").next().unwrap().trim().trim_end_matches("/metrics").to_owned();
        Self { child, metrics }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.metrics).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let started = Instant::now();
        while !holds(self) {
            assert!(started.elapsed() < Duration::from_secs(20), "{what}\n{}", self.get("/metrics"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn stop(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert_eq!(status.code(), Some(0));
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(10), "it does not stop");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn policy(plane: &Plane, server: &Server) -> PathBuf {
    let path = plane.path("watch-policy.txt");
    let text = format!(
        "log {} {}/log/acme\nwitness w1 {}\nquorum w1\n",
        log_key().verifier(),
        server.url,
        witness_key(1).verifier()
    );
    fs::write(&path, text).unwrap();
    path
}

/// A hook that writes each alert to a file of its own line.
fn hook(plane: &Plane) -> (PathBuf, PathBuf) {
    let (program, told) = (plane.path("hook.sh"), plane.path("told.jsonl"));
    fs::write(&program, format!("#!/bin/sh\nexec cat >> {}\n", told.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&told, "").unwrap();
    (program, told)
}

fn told(path: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(path).unwrap();
    let alerts = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    alerts
        .map(|alert| {
            let kind = alert["finding"]["kind"].as_str().unwrap_or_default().to_owned();
            (alert["event"].as_str().unwrap().to_owned(), kind)
        })
        .collect()
}

fn rounds(watching: &Watching, verdict: &str) -> u64 {
    let metrics = watching.get("/metrics");
    let line = metrics.lines().find(|line| line.contains("audits_total") && line.contains(verdict)).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn findings_and_silence_are_told_once_each_and_so_is_their_end() {
    let mut plane = Plane::sample();
    let server = Server::start();
    server.tree("/log/acme", &plane.publish());
    let policy = policy(&plane, &server);
    let (program, log) = hook(&plane);
    let watching = Watching::start(&plane, &policy, &program, &[]);
    watching.until("audits go on", |watching| rounds(watching, "verified") >= 3);
    assert!(watching.get("/healthz").starts_with("HTTP/1.1 200"));
    assert!(told(&log).is_empty());
    let heartbeat: Value =
        serde_json::from_str(&fs::read_to_string(plane.path("heartbeat.json")).unwrap()).unwrap();
    assert_eq!(heartbeat["logs"]["plane.example/log/acme"]["verdict"], "verified");
    // A quorum that is lost, and comes back.
    server.put("/log/acme/checkpoint", Answer::Plain(200, plane.note_by(9, &[]).to_string().into_bytes()));
    watching.until("the finding", |watching| rounds(watching, "tampered") >= 3);
    assert_eq!(told(&log), [("finding".to_owned(), "quorum-not-met".to_owned())]);
    server.put("/log/acme/checkpoint", Answer::Plain(200, plane.note(9).to_string().into_bytes()));
    watching.until("the recovery", |_| told(&log).len() == 2);
    assert_eq!(told(&log)[1].0, "recovery");
    // A server that is gone for longer than the silence.
    server.put("/log/acme/checkpoint", Answer::Plain(404, Vec::new()));
    watching.until("the silence", |_| told(&log).len() == 3);
    assert_eq!(told(&log)[2].0, "silence");
    assert!(watching.get("/healthz").starts_with("HTTP/1.1 503"));
    server.put("/log/acme/checkpoint", Answer::Plain(200, plane.note(9).to_string().into_bytes()));
    watching.until("the log is back", |_| told(&log).len() == 4);
    // A fork, told once, and not again by a watch that starts anew.
    plane.entries.remove(3);
    plane.sealed("filler", 2);
    server.tree("/log/acme", &plane.publish());
    watching.until("the fork", |_| told(&log).iter().any(|(_, kind)| kind == "fork"));
    watching.until("more rounds", |watching| rounds(watching, "tampered") >= 6);
    let alerts = told(&log);
    watching.stop();
    let again = Watching::start(&plane, &policy, &program, &[]);
    again.until("more rounds", |watching| rounds(watching, "tampered") >= 2);
    assert_eq!(told(&log), alerts);
    again.stop();
}

#[test]
fn an_alert_that_nobody_took_is_told_again() {
    let plane = Plane::sample();
    let server = Server::start();
    server.tree("/log/acme", &plane.publish());
    server.put("/log/acme/checkpoint", Answer::Plain(200, plane.note_by(9, &[]).to_string().into_bytes()));
    let policy = policy(&plane, &server);
    let (program, log) = hook(&plane);
    let honest = fs::read(&program).unwrap();
    fs::write(&program, "#!/bin/sh\nexit 1\n").unwrap();
    let hooked = format!("{}/hook", server.url);
    server.put("/hook", Answer::Plain(503, Vec::new()));
    let watching = Watching::start(&plane, &policy, &program, &["--alert-url", &hooked]);
    let failed = |watching: &Watching| {
        watching.get("/metrics").contains("alerts_failed_total{origin=\"plane.example/log/acme\"} 3")
    };
    watching.until("the hooks fail", failed);
    assert!(told(&log).is_empty());
    let replaced = plane.path("hook.new");
    fs::write(&replaced, honest).unwrap();
    fs::set_permissions(&replaced, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&replaced, &program).unwrap();
    server.put("/hook", Answer::Plain(204, Vec::new()));
    watching.until("it is told", |_| told(&log).len() == 1);
    let before = rounds(&watching, "tampered");
    watching.until("more rounds", |watching| rounds(watching, "tampered") >= before + 3);
    assert_eq!(told(&log).len(), 1);
    watching.stop();
}

#[test]
fn a_test_alert_shows_that_alerts_arrive() {
    let plane = Plane::sample();
    let server = Server::start();
    let policy = policy(&plane, &server);
    let (program, log) = hook(&plane);
    let history = plane.path("watch.redb");
    let args = ["watch", "--policy", text(&policy), "--history", text(&history), "--test-alert"];
    let nobody = verifier().args(args).output().unwrap();
    assert_eq!(nobody.status.code(), Some(2));
    let output = verifier().args(args).args(["--alert-command", text(&program)]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(told(&log), [("test".to_owned(), String::new())]);
}

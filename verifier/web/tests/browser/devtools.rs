//! Chromium, driven over its DevTools pipe: JSON messages, each ended by a zero byte.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest wait for one answer; a loaded machine takes its time.
const PATIENCE: Duration = Duration::from_mins(2);

/// A running browser without a window.
pub(crate) struct Chromium {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    next_id: u64,
    /// Events that nobody took yet.
    pub(crate) events: Vec<Value>,
    _profile: TempDir,
}

impl Chromium {
    /// Starts a browser, with all its traffic sent to a proxy on `proxy_port` where one is given.
    pub(crate) fn launch(proxy_port: Option<u16>) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let program = std::env::var_os("RUNSEAL_CHROMIUM").unwrap_or_else(|| "chromium".into());
        // The pipe is file descriptors 3 and 4, which only a shell can set up without unsafe code.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"]).arg(program);
        command.args([
            "--headless=new",
            "--remote-debugging-pipe",
            // The browser is given this page alone, and a container has no namespaces for the sandbox.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--window-size=1280,900",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        if let Some(port) = proxy_port {
            command.arg(format!("--proxy-server=http://127.0.0.1:{port}"));
            command.arg("--proxy-bypass-list=<-loopback>");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in answers.split(0) {
                let Ok(message) = message else { return };
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { child, commands, messages, next_id: 1, events: Vec::new(), _profile: profile }
    }

    /// Sends a command to a session, or to the browser itself, and does not wait.
    pub(crate) fn send(&mut self, session: Option<&str>, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let mut message = json!({"id": id, "method": method});
        message["params"] = params;
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).unwrap();
        id
    }

    /// Sends a command and answers its result.
    pub(crate) fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Value {
        let id = self.send(session, method, params);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let message = self.message(deadline.saturating_duration_since(Instant::now()));
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.take(message);
        }
    }

    fn message(&mut self, wait: Duration) -> Value {
        self.messages.recv_timeout(wait).unwrap_or_else(|error| panic!("the browser says nothing: {error}"))
    }

    /// Keeps an event. A new worker is held until its requests are watched too.
    fn take(&mut self, message: Value) {
        if message["method"] == "Target.attachedToTarget" && message["params"]["waitingForDebugger"] == true {
            let session = message["params"]["sessionId"].as_str().unwrap().to_owned();
            self.send(Some(&session), "Network.enable", json!({}));
            self.send(Some(&session), "Runtime.runIfWaitingForDebugger", json!({}));
        }
        if !message["method"].is_null() {
            self.events.push(message);
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        self.send(None, "Browser.close", json!({}));
        let _ = self.child.wait();
    }
}

//! The `runseal` command as a shell sees it: a folder, a command line, what comes out and how it ends.
#![allow(dead_code, reason = "each test binary uses the part it needs")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

/// How a command ended.
pub(crate) struct Ran {
    pub(crate) line: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The same, if it ended with `code`.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        let Self { line, stdout, stderr, .. } = &self;
        assert_eq!(self.code, Some(code), "{line}\n{stdout}{stderr}");
        self
    }

    /// The same, if stderr holds `words`.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        assert!(self.stderr.contains(words), "{}: no {words:?} in\n{}", self.line, self.stderr);
        self
    }
}

/// A folder with commands run in it.
pub(crate) struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A desk with a plane called `plane`.
    pub(crate) fn with_plane() -> Self {
        let desk = Self::new();
        desk.run(&["init", "--dir", "plane", "--origin", BASE]).ended(0);
        desk
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, "", &[])
    }

    pub(crate) fn run_with(&self, args: &[&str], stdin: &str, env: &[(&str, &str)]) -> Ran {
        let mut child = self.command(args).envs(env.iter().copied()).stdin(Stdio::piped()).spawn().unwrap();
        // A command that reads nothing closes its end, which is no matter here.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran {
            line: args.join(" "),
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_runseal"));
        command.args(args).current_dir(self.folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("RUNSEAL_"))
        {
            command.env_remove(name);
        }
        command
    }

    /// Starts `serve` on a free port.
    pub(crate) fn serve(&self, args: &[&str]) -> Serving {
        let address: &[&str] = if args.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let args = [&["serve", "--dir", "plane"], address, args].concat();
        let mut child = self.command(&args).stdin(Stdio::null()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("listening on http://") {
            assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "it did not start: {said}");
        }
        let address = said.rsplit_once("http://").unwrap().1.trim().to_owned();
        let said = Arc::new(Mutex::new(String::new()));
        let rest = std::thread::spawn({
            let said = Arc::clone(&said);
            move || {
                for line in stderr.lines().map_while(Result::ok) {
                    said.lock().unwrap().extend([&*line, "\n"]);
                }
            }
        });
        Serving { child, address, said, rest: Some(rest) }
    }
}

/// A running server.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: String,
    said: Arc<Mutex<String>>,
    rest: Option<std::thread::JoinHandle<()>>,
}

impl Serving {
    pub(crate) fn get(&self, path: &str) -> Answer {
        get(&self.address, path, "")
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// What was said on stderr since the start.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Sends a signal and waits; answers the exit code and what was said since the start.
    pub(crate) fn stop(mut self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        let code = self.child.wait().unwrap().code();
        self.rest.take().unwrap().join().unwrap();
        (code, self.said())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An HTTP answer, read to the end of the connection.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.into_iter().find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// One GET with `more` header lines, each ended by CR LF.
pub(crate) fn get(address: &str, path: &str, more: &str) -> Answer {
    request(address, &format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{more}\r\n"))
}

/// Sends bytes and reads whatever comes back until the other end closes.
pub(crate) fn request(address: &str, bytes: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer has a head");
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut answer = Answer { status, head, body: all[end + 4..].to_vec() };
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.body = unchunked(&answer.body);
    }
    answer
}

/// RFC 9112, section 7.1.
fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = bytes.windows(2).position(|window| window == b"\r\n").expect("a chunk has a size");
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&bytes[line + 2..line + 2 + size]);
        bytes = &bytes[line + 2 + size + 2..];
    }
}

pub(crate) const BASE: &str = "test.example/plane";

/// A run of `records` records in the import format; open unless `outcome` is given.
pub(crate) fn run(name: &str, records: usize, outcome: Option<&str>) -> String {
    let mut lines = vec![format!(r#"{{"run":"{name}","kind":"RunAdmitted","payload":{{"goal":"test"}}}}"#)];
    for step in 0..records - 1 - usize::from(outcome.is_some()) {
        lines.push(format!(r#"{{"run":"{name}","kind":"Message","payload":{{"step":{step}}}}}"#));
    }
    if let Some(outcome) = outcome {
        lines
            .push(format!(r#"{{"run":"{name}","kind":"RunConcluded","payload":{{"outcome":"{outcome}"}}}}"#));
    }
    lines.join("\n") + "\n"
}

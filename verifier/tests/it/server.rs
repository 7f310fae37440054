//! A tiny HTTP server that may lie.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What a path answers.
#[derive(Clone)]
pub(crate) enum Answer {
    /// A status and a body.
    Plain(u16, Vec<u8>),
    /// A gzip body.
    Gzip(Vec<u8>),
    /// A redirect.
    Redirect(String),
    /// Claims more bytes than it sends, and closes.
    Short(Vec<u8>, usize),
    /// Sends for ever.
    Endless,
    /// Claims that many bytes, and sends for ever.
    Claims(u64),
    /// Sends the header for ever.
    EndlessHeader,
    /// Sends one byte after the other, slowly, of a body that has no end.
    Drip,
    /// Closes without a word.
    Hangup,
    /// Says nothing and keeps the connection.
    Stall,
}

pub(crate) struct Server {
    pub(crate) url: String,
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    /// What every path answers that contains a text.
    rules: Arc<Mutex<Vec<(String, Answer)>>>,
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers = Arc::new(Mutex::new(HashMap::new()));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let rules = Arc::new(Mutex::new(Vec::new()));
        let (table, special, log) = (Arc::clone(&answers), Arc::clone(&rules), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (table, special, log) = (Arc::clone(&table), Arc::clone(&special), Arc::clone(&log));
                thread::spawn(move || {
                    let answer = |path: &str| {
                        let special = special.lock().unwrap();
                        let rule = special.iter().find(|(part, _): &&(String, Answer)| path.contains(part));
                        rule.map(|(_, answer)| answer.clone())
                            .or_else(|| table.lock().unwrap().get(path).cloned())
                    };
                    serve(stream, &answer, &log);
                });
            }
        });
        Self { url, answers, rules, asked }
    }

    /// Answers alike wherever a path contains `part`.
    pub(crate) fn rule(&self, part: &str, answer: Answer) {
        self.rules.lock().unwrap().push((part.to_owned(), answer));
    }

    pub(crate) fn put(&self, path: &str, answer: Answer) {
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.answers.lock().unwrap().remove(path);
    }

    /// Serves a static tree below `prefix`.
    pub(crate) fn tree(&self, prefix: &str, dir: &Path) {
        fn walk(server: &Server, prefix: &str, dir: &Path) {
            for entry in std::fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                let path = format!("{prefix}/{}", entry.file_name().to_str().unwrap());
                if entry.path().is_dir() {
                    walk(server, &path, &entry.path());
                } else {
                    server.put(&path, Answer::Plain(200, std::fs::read(entry.path()).unwrap()));
                }
            }
        }
        walk(self, prefix, dir);
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.answers.lock().unwrap().keys().cloned().collect();
        paths.sort();
        paths
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.answers.lock().unwrap()[path].clone()
    }
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(&str) -> Option<Answer>, asked: &Mutex<Vec<String>>) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let path = line.split(' ').nth(1).unwrap_or("/").to_owned();
        let mut headers = String::new();
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header).unwrap_or(0) == 0 || header == "\r\n" {
                break;
            }
            headers += &header;
        }
        let token = headers.lines().find(|header| header.starts_with("authorization")).unwrap_or_default();
        asked.lock().unwrap().push(format!("{path} {token}").trim().to_owned());
        let written = match answer(&path).unwrap_or_else(|| Answer::Plain(404, b"no such thing".to_vec())) {
            Answer::Plain(status, body) => {
                let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body))
            }
            Answer::Gzip(body) => {
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body))
            }
            Answer::Redirect(to) => {
                let head = format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(head.as_bytes())
            }
            Answer::Short(body, claimed) => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {claimed}\r\n\r\n");
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
                return;
            }
            Answer::Endless => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                while stream.write_all(&[b'x'; 8_192]).is_ok() {}
                return;
            }
            Answer::Claims(bytes) => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
                let _ = stream.write_all(head.as_bytes());
                while stream.write_all(&[b'x'; 8_192]).is_ok() {}
                return;
            }
            Answer::EndlessHeader => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
                while stream.write_all(b"x-more: and more and more and more\r\n").is_ok() {}
                return;
            }
            Answer::Drip => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                while stream.write_all(b"x").is_ok() {
                    thread::sleep(Duration::from_millis(20));
                }
                return;
            }
            Answer::Hangup => return,
            Answer::Stall => {
                thread::sleep(Duration::from_secs(30));
                return;
            }
        };
        if written.is_err() {
            return;
        }
    }
}

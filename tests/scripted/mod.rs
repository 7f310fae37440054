//! A witness that answers what it is told to, and writes down what it was asked.
//!
//! Its bytes are made from the words of c2sp.org/tlog-witness, c2sp.org/signed-note and
//! c2sp.org/tlog-cosignature alone: nothing of the code under test is used here, so that one misreading cannot
//! be on both sides.
#![allow(dead_code, reason = "each test binary uses the part it needs")]

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ed25519_dalek::{Signer as _, SigningKey};
use sha2::{Digest as _, Sha256};

/// A request as it came over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: String,
}

impl Asked {
    /// The size on the first line of an add-checkpoint body.
    pub(crate) fn old_size(&self) -> u64 {
        self.body.lines().next().unwrap().strip_prefix("old ").unwrap().parse().unwrap()
    }

    /// The lines between the first one and the empty one.
    pub(crate) fn proof(&self) -> Vec<&str> {
        self.body.lines().skip(1).take_while(|line| !line.is_empty()).collect()
    }

    /// The note after the empty line.
    pub(crate) fn note(&self) -> &str {
        self.body.split_once("\n\n").unwrap().1
    }

    /// The note's text, with its final newline.
    pub(crate) fn note_text(&self) -> String {
        format!("{}\n", self.note().split_once("\n\n").unwrap().0)
    }
}

/// What a witness answers.
pub(crate) enum Reply {
    /// Status, content type, body.
    Plain(u16, &'static str, Vec<u8>),
    /// A redirect to this URL.
    Redirect(u16, String),
    /// The head of an answer, and then silence.
    Silence,
}

impl Reply {
    pub(crate) fn size(size: u64) -> Self {
        Self::Plain(409, "text/x.tlog.size", format!("{size}\n").into_bytes())
    }

    pub(crate) fn lines(lines: &[String]) -> Self {
        Self::Plain(200, "text/plain", lines.concat().into_bytes())
    }
}

type Script = dyn FnMut(&Asked) -> Reply + Send;

/// A witness on a loopback port.
pub(crate) struct Scripted {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Scripted {
    /// Answers each request with what `script` says.
    pub(crate) fn new(script: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let stopped = Arc::new(AtomicBool::new(false));
        let script: Arc<Mutex<Box<Script>>> = Arc::new(Mutex::new(Box::new(script)));
        let thread = {
            let (asked, stopped) = (Arc::clone(&asked), Arc::clone(&stopped));
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    if stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    let (asked, script) = (Arc::clone(&asked), Arc::clone(&script));
                    std::thread::spawn(move || converse(stream.unwrap(), &asked, &script));
                }
            })
        };
        Self { url, asked, stopped, thread: Some(thread) }
    }

    /// Every POST so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().iter().filter(|asked| asked.method == "POST").cloned().collect()
    }

    /// Every request so far.
    pub(crate) fn all_asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.url.strip_prefix("http://").unwrap());
        let _ = self.thread.take().unwrap().join();
    }
}

fn converse(mut stream: TcpStream, asked: &Mutex<Vec<Asked>>, script: &Mutex<Box<Script>>) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let length = text
        .lines()
        .find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length: ").map(|n| n.parse().unwrap())
        })
        .unwrap_or(0);
    while bytes.len() < head + length {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
    let mut words = text.split(' ');
    let request = Asked {
        method: words.next().unwrap().to_owned(),
        path: words.next().unwrap().to_owned(),
        body: String::from_utf8(bytes[head..].to_vec()).unwrap(),
    };
    asked.lock().unwrap().push(request.clone());
    let reply = script.lock().unwrap()(&request);
    let (head, body) = match reply {
        Reply::Plain(status, content_type, body) => (
            format!(
                "HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            ),
            body,
        ),
        Reply::Redirect(status, to) => (
            format!(
                "HTTP/1.1 {status} X\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            ),
            Vec::new(),
        ),
        Reply::Silence => {
            std::thread::sleep(Duration::from_secs(20));
            return;
        }
    };
    // Who has read enough hangs up.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

/// An Ed25519 cosigner (c2sp.org/tlog-cosignature).
#[derive(Clone)]
pub(crate) struct Cosigner {
    pub(crate) name: &'static str,
    key: SigningKey,
}

impl Cosigner {
    pub(crate) fn new(name: &'static str, seed: u8) -> Self {
        Self { name, key: SigningKey::from_bytes(&[seed; 32]) }
    }

    /// `SHA-256(name || 0x0A || type || public key)[:4]` (c2sp.org/signed-note).
    fn key_id(&self, kind: u8) -> Vec<u8> {
        let material = [self.name.as_bytes(), b"\n", &[kind], self.key.verifying_key().as_bytes()].concat();
        Sha256::digest(material)[..4].to_vec()
    }

    /// `<name>+<hex key id>+<base64 of type and public key>`.
    pub(crate) fn vkey(&self) -> String {
        let id = hex::encode(self.key_id(4));
        let material = [&[4], self.key.verifying_key().as_bytes().as_slice()].concat();
        format!("{}+{id}+{}", self.name, STANDARD.encode(material))
    }

    /// A signature line over a checkpoint's text at `time`, with its newline.
    pub(crate) fn line(&self, text: &str, time: u64) -> String {
        self.line_with_id_of(4, text, time)
    }

    /// The same with the key ID of another signature type.
    pub(crate) fn line_with_id_of(&self, kind: u8, text: &str, time: u64) -> String {
        let signature = self.key.sign(format!("cosignature/v1\ntime {time}\n{text}").as_bytes());
        let bytes = [&self.key_id(kind), time.to_be_bytes().as_slice(), &signature.to_bytes()].concat();
        format!("\u{2014} {} {}\n", self.name, STANDARD.encode(bytes))
    }
}

//! HTTP as bytes: one request on a connection of its own.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An HTTP answer, as bytes off the wire.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// A header's value; names in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// One request on a connection of its own, read to the end.
pub(crate) fn request(address: SocketAddr, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let length = if method == "POST" || method == "PUT" {
        format!("content-length: {}\r\n", body.len())
    } else {
        String::new()
    };
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: witness\r\nconnection: close\r\n{length}{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    // A server that refuses a long body stops reading it.
    let _ = stream.write_all(body);
    let mut all = Vec::new();
    if let Err(error) = stream.read_to_end(&mut all) {
        assert!(!all.is_empty(), "no answer: {error}");
    }
    parse_answer(&all)
}

pub(crate) fn parse_answer(all: &[u8]) -> Answer {
    let split = all.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a header");
    let head = String::from_utf8(all[..split].to_vec()).unwrap();
    assert_eq!(head.matches("HTTP/1.1").count(), 1, "one status line: {head}");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head, body: all[split + 4..].to_vec() }
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &[u8]) -> Answer {
    request(address, "POST", path, "", body)
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    request(address, "GET", path, "", b"")
}

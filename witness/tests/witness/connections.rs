//! Clients that are slow, long-winded, silent or many.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use runseal_tlog::key::Algorithm;
use runseal_witness::server::Limits;

use crate::harness::{NOW, Served, TestClock, log_set, new_store, witness, witness_keys};
use crate::testlog::TestLog;
use crate::wire::{get, parse_answer, post, request};

fn served() -> (tempfile::TempDir, TestLog, Served) {
    served_within(Limits::SERVED)
}

fn served_within(limits: Limits) -> (tempfile::TempDir, TestLog, Served) {
    let folder = tempfile::tempdir().unwrap();
    let mut log = TestLog::new("log.example/clients", 1);
    log.grow(40, "");
    let keys = witness_keys(&[Algorithm::CosignatureEd25519]);
    let logs = log_set(&log.list(), &keys);
    let store = new_store(&folder.path().join("state.redb"), &keys);
    let served = Served::within(limits, witness(keys, logs, store, TestClock::at(NOW)));
    (folder, log, served)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Reads until the other side closes; answers what came and how long it took.
fn until_closed(stream: &mut TcpStream) -> (Vec<u8>, Duration) {
    let started = Instant::now();
    let mut all = Vec::new();
    // A reset is as good as an end.
    let _ = stream.read_to_end(&mut all);
    (all, started.elapsed())
}

#[test]
fn a_body_over_the_limit_is_refused_however_it_comes() {
    let (_folder, _, served) = served();
    let limit = 128 * 1024;
    for (length, status) in [(limit, 400), (limit + 1, 413), (8 * limit, 413)] {
        let answer = post(served.address, "/add-checkpoint", &vec![b'x'; length]);
        assert_eq!(answer.status, status, "{length}");
        assert_eq!(answer.header("connection"), Some("close"));
    }
    // A gigabyte that is only announced is refused without waiting for it.
    let mut stream = connect(served.address);
    write!(stream, "POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ncontent-length: 1073741824\r\n\r\n").unwrap();
    let (answer, took) = until_closed(&mut stream);
    assert_eq!(parse_answer(&answer).status, 413);
    assert!(took < Duration::from_secs(2), "{took:?}");
    // Chunks without end are cut off at the limit.
    let mut stream = connect(served.address);
    write!(stream, "POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    let chunk = [b"1000\r\n".as_slice(), &[b'x'; 4096], b"\r\n"].concat();
    while stream.write_all(&chunk).is_ok() {}
    let (answer, _) = until_closed(&mut stream);
    if !answer.is_empty() {
        assert_eq!(parse_answer(&answer).status, 413);
    }
    assert_eq!(get(served.address, "/healthz").status, 200);
}

#[test]
fn slow_headers_and_bodies_are_cut_off_while_honest_clients_are_served() {
    let (_folder, log, served) = served();
    let address = served.address;
    let mut slow: Vec<TcpStream> = (0..300)
        .map(|number| {
            let mut stream = connect(address);
            let start: &[u8] = match number % 3 {
                0 => b"",
                1 => b"POST /add-che",
                _ => b"POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ncontent-length: 90\r\n\r\nold ",
            };
            stream.write_all(start).unwrap();
            stream
        })
        .collect();
    let started = Instant::now();
    let mut old = 0;
    while started.elapsed() < Duration::from_secs(6) {
        let asked = Instant::now();
        let new = (old + 1).min(40);
        assert_eq!(post(address, "/add-checkpoint", log.request(old, new).as_bytes()).status, 200);
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        old = new;
        // One more byte now and then must not buy more time.
        for stream in slow.iter_mut().skip(1).step_by(3) {
            let _ = stream.write_all(b"c");
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    for (number, stream) in slow.iter_mut().enumerate().filter(|(number, _)| number % 3 != 2) {
        let (answer, took) = until_closed(stream);
        assert!(took < Duration::from_secs(1), "client {number} was still connected after {took:?}");
        assert!(!answer.starts_with(b"HTTP/1.1 2"));
    }
    for stream in slow.iter_mut().skip(2).step_by(3).take(5) {
        let (answer, _) = until_closed(stream);
        assert_eq!(parse_answer(&answer).status, 408);
        assert!(started.elapsed() < Duration::from_secs(14));
    }
}

#[test]
fn an_idle_connection_is_kept_beyond_the_time_for_a_header() {
    let (_folder, log, served) = served();
    let mut stream = connect(served.address);
    let body = log.request(0, 3);
    let ask =
        format!("POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    for (pause, status) in [(0, "200"), (7, "409"), (0, "409")] {
        std::thread::sleep(Duration::from_secs(pause));
        stream.write_all(ask.as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let read = stream.read(&mut answer).unwrap();
        let head = String::from_utf8_lossy(&answer[..read]).into_owned();
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
    }
}

#[test]
fn requests_one_behind_the_other_on_one_connection_are_answered_in_order() {
    let (_folder, log, served) = served();
    let mut stream = connect(served.address);
    let mut all = String::new();
    for (old, new) in [(0, 2), (2, 9), (2, 9)] {
        let body = log.request(old, new);
        let _ = write!(
            all,
            "POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
    }
    all += "GET /healthz HTTP/1.1\r\nhost: w\r\nconnection: close\r\n\r\n";
    stream.write_all(all.as_bytes()).unwrap();
    let (answers, _) = until_closed(&mut stream);
    let answers = String::from_utf8(answers).unwrap();
    let statuses: Vec<&str> =
        answers.match_indices("HTTP/1.1 ").map(|(at, _)| &answers[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "200", "409", "200"]);
}

#[test]
fn http_2_without_tls_is_spoken_too() {
    let (_folder, log, served) = served();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
        let url = format!("http://{}/add-checkpoint", served.address);
        let answer = client.post(&url).body(log.request(0, 4)).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, reqwest::Version::HTTP_2));
        let answers = (0..20).map(|_| client.post(&url).body(log.request(4, 4)).send());
        for answer in futures_util::future::join_all(answers).await {
            assert_eq!(answer.unwrap().status().as_u16(), 200);
        }
        let answer = client.post(&url).body(vec![b'x'; 200_000]).send().await;
        assert!(answer.is_err() || answer.unwrap().status().as_u16() == 413);
    });
}

#[test]
fn methods_paths_and_invented_names_are_answered_without_new_series() {
    let (_folder, log, served) = served();
    let address = served.address;
    for (method, path, status) in [
        ("GET", "/add-checkpoint", 405),
        ("PUT", "/add-checkpoint", 405),
        ("POST", "/", 405),
        ("POST", "/healthz", 405),
        ("DELETE", "/metrics", 405),
        ("POST", "/sign-subtree", 404),
        ("POST", "/add-checkpoint/", 404),
        ("GET", "/nothing", 404),
        ("GET", "//checkpoint", 404),
        ("GET", "/../../etc/passwd", 404),
        ("HEAD", "/healthz", 200),
    ] {
        let answer = request(address, method, path, "", b"");
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.header("allow").is_some(), status == 405, "{method} {path}");
    }
    let series = || get(address, "/metrics").text().lines().filter(|line| !line.starts_with('#')).count();
    let before = series();
    for number in 0..200 {
        let mut other = TestLog::new(&format!("invented.example/{number}"), 7);
        other.grow(1, "");
        assert_eq!(post(address, "/add-checkpoint", other.request(0, 1).as_bytes()).status, 404);
    }
    assert_eq!(series(), before);
    post(address, "/add-checkpoint", log.request(0, 1).as_bytes());
    let page = get(address, "/metrics");
    for expected in
        ["outcome=\"unknown_origin\"} 200\n", "outcome=\"signed\"} 1\n", "runseal_witness_logs 1\n"]
    {
        assert!(page.text().contains(expected), "{expected}\n{}", page.text());
    }
}

const ASK: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: w\r\n\r\n";

/// Whether an answer to [`ASK`] comes in the time.
fn answered_within(stream: &mut TcpStream, time: Duration) -> bool {
    stream.set_read_timeout(Some(time)).unwrap();
    let mut answer = [0; 1024];
    stream.read(&mut answer).is_ok_and(|read| answer[..read].starts_with(b"HTTP/1.1 200"))
}

#[test]
fn connections_over_the_limit_wait_until_another_one_ends() {
    assert_eq!(Limits::SERVED.connections, 4096);
    let (_folder, _, served) = served_within(Limits { connections: 3, ..Limits::SERVED });
    let mut held: Vec<TcpStream> = (0..3).map(|_| connect(served.address)).collect();
    for stream in &mut held {
        stream.write_all(ASK).unwrap();
        assert!(answered_within(stream, Duration::from_secs(20)));
    }
    let mut over = connect(served.address);
    over.write_all(ASK).unwrap();
    assert!(!answered_within(&mut over, Duration::from_millis(500)), "a fourth one is served");
    // Those that are in are served on.
    held[2].write_all(ASK).unwrap();
    assert!(answered_within(&mut held[2], Duration::from_secs(20)));
    drop(held.remove(0));
    assert!(answered_within(&mut over, Duration::from_secs(20)));
}

#[test]
fn a_client_that_never_reads_its_answers_is_let_go() {
    const ASKED: usize = 8_000;
    let idle = Duration::from_secs(1);
    let (_folder, _, served) = served_within(Limits { idle, ..Limits::SERVED });
    let open = || {
        let page = get(served.address, "/metrics");
        let line = page.text().lines().find(|line| line.starts_with("runseal_witness_connections "));
        line.unwrap().ends_with(" 2")
    };
    let mut silent = connect(served.address);
    // Their answers are more than any socket's buffers hold. Nor does the witness read on for ever.
    silent.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let asked = "GET /metrics HTTP/1.1\r\nhost: w\r\n\r\n".repeat(ASKED);
    let _ = silent.write_all(asked.as_bytes());
    let started = Instant::now();
    assert!(open(), "it is let go before its time");
    while open() {
        assert!(started.elapsed() < Duration::from_secs(15), "it is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (answers, _) = until_closed(&mut silent);
    let answers = answers.windows(12).filter(|bytes| bytes == b"HTTP/1.1 200").count();
    assert!((1..ASKED).contains(&answers), "{answers} answers were sent");
}

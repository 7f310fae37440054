//! Pulling from a log that serves tiles: only what is needed, nothing believed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use runseal_tlog::fraud::FraudProof;
use runseal_tlog::key::{Algorithm, VerifierKey};
use runseal_witness::evidence::Evidence;
use runseal_witness::feed::Feed;
use runseal_witness::fetch::Fetcher;
use runseal_witness::pull::{PullError, Pulled, Puller};
use runseal_witness::witness::Witness;

use crate::harness::{NOW, TestClock, log_set, new_store, witness_keys, witness_with};
use crate::testlog::{TestLog, mth, sha256};

/// Files over HTTP, and what was asked for.
#[derive(Clone, Default)]
pub(crate) struct FileServer {
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    redirects: Arc<Mutex<BTreeMap<String, String>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FileServer {
    pub(crate) fn start(&self) -> SocketAddr {
        self.listen(|server, mut stream| server.answer(&mut stream))
    }

    /// Over TLS; a client that does not like it is not heard.
    pub(crate) fn start_tls(&self, config: Arc<rustls::ServerConfig>) -> SocketAddr {
        self.listen(move |server, stream| {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(session, stream);
            server.answer(&mut stream);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        })
    }

    fn listen(&self, answer: impl Fn(Self, TcpStream) + Clone + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (server, stream, answer) = (server.clone(), stream.unwrap(), answer.clone());
                std::thread::spawn(move || answer(server, stream));
            }
        });
        address
    }

    fn answer(&self, stream: &mut (impl Read + Write)) {
        let mut lines = BufReader::new(&mut *stream).lines().map_while(Result::ok);
        let Some(first) = lines.next() else { return };
        let path = first.split(' ').nth(1).unwrap().trim_start_matches('/').to_owned();
        let tag = lines.take_while(|line| !line.is_empty()).find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("if-none-match").then(|| value.to_owned())
        });
        let body = self.files.lock().unwrap().get(&path).cloned();
        let mut more = String::new();
        let (status, body) = if let Some(to) = self.redirects.lock().unwrap().get(&path) {
            more = format!("location: {to}\r\n");
            ("302 Found", Vec::new())
        } else if let Some(body) = body {
            let etag = format!("\"{}\"", hex::encode(&sha256(&[&body])[..8]));
            more = format!("etag: {etag}\r\n");
            if tag == Some(etag) { ("304 Not Modified", Vec::new()) } else { ("200 OK", body) }
        } else {
            ("404 Not Found", b"no such file".to_vec())
        };
        self.asked.lock().unwrap().push(format!("{} {path}", &status[..3]));
        let head =
            format!("HTTP/1.1 {status}\r\nconnection: close\r\n{more}content-length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
    }

    pub(crate) fn redirect(&self, path: &str, to: &str) {
        self.redirects.lock().unwrap().insert(path.to_owned(), to.to_owned());
    }

    pub(crate) fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.files.lock().unwrap().insert(path.to_owned(), bytes.into());
    }

    pub(crate) fn take_down(&self, path: &str) {
        self.files.lock().unwrap().remove(path);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// Publishes the first `size` leaves of a log, as c2sp.org/tlog-tiles lays them out.
    pub(crate) fn publish(&self, log: &TestLog, size: usize) {
        let mut hashes = log.leaf_hashes()[..size].to_vec();
        for level in 0.. {
            for (index, tile) in hashes.chunks(256).enumerate() {
                let width = if tile.len() == 256 { String::new() } else { format!(".p/{}", tile.len()) };
                // Under a million tiles there are at most two elements.
                let index = if index < 1000 {
                    format!("{index:03}")
                } else {
                    format!("x{:03}/{:03}", index / 1000, index % 1000)
                };
                self.put(&format!("tile/{level}/{index}{width}"), tile.concat());
            }
            hashes = hashes.chunks_exact(256).map(mth).collect();
            if hashes.is_empty() {
                break;
            }
        }
        self.put("checkpoint", log.checkpoint(size));
    }
}

struct Scene {
    folder: tempfile::TempDir,
    clock: Arc<TestClock>,
    witness: Arc<Witness>,
    server: FileServer,
    puller: Puller,
    origin: String,
    runtime: tokio::runtime::Runtime,
}

impl Scene {
    fn of(log: &TestLog) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = TestClock::at(NOW);
        let keys = witness_keys(&[Algorithm::CosignatureEd25519]);
        let logs = log_set(&log.list(), &keys);
        let store = new_store(&folder.path().join("state.redb"), &keys);
        let evidence = Evidence::in_folder(folder.path().join("evidence"));
        let witness = witness_with(keys, logs, store, Arc::clone(&clock) as _, Some(evidence));
        let server = FileServer::default();
        let url = format!("http://{}/", server.start());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let puller = Puller::new(&url, Fetcher::new().unwrap());
        Self { folder, clock, witness, server, puller, origin: log.origin.clone(), runtime }
    }

    fn pull(&mut self) -> Result<Pulled, PullError> {
        let log = self.witness.logs().find(&self.origin).cloned().unwrap();
        self.runtime.block_on(self.puller.pull(&self.witness, &log))
    }

    fn push(&self, body: &str) {
        self.runtime.block_on(self.witness.add_checkpoint(body.as_bytes())).unwrap();
    }

    fn size(&self) -> u64 {
        self.witness.store().head(&self.origin).unwrap().size
    }

    fn alarms(&self) -> u64 {
        self.witness.store().cosigned(None, 10).unwrap().iter().map(|log| log.alarms).sum()
    }

    fn fraud_stands(&self, log: &TestLog) -> bool {
        let key: VerifierKey = log.vkey().parse().unwrap();
        let Ok(files) = std::fs::read_dir(self.folder.path().join("evidence")) else { return false };
        files
            .map(|file| file.unwrap().path())
            .filter(|path| path.extension().is_some_and(|kind| kind == "fraud"))
            .any(|path| FraudProof::parse(&std::fs::read(path).unwrap()).unwrap().verify([&key]).is_ok())
    }
}

fn log_of(size: usize) -> TestLog {
    let mut log = TestLog::new("log.example/pulled", 1);
    log.grow(size, "");
    log
}

#[test]
fn a_growing_log_is_followed_through_tile_edges_with_few_requests() {
    let log = log_of(70_400);
    let mut scene = Scene::of(&log);
    for size in [1, 2, 255, 256, 257, 511, 512, 513, 65_535, 65_536, 65_537, 70_000, 70_400] {
        scene.server.publish(&log, size);
        assert_eq!(scene.pull().unwrap(), Pulled::Cosigned { size: size as u64 });
        assert_eq!(scene.size(), size as u64);
        let asked = scene.server.asked();
        let distinct: BTreeSet<&String> = asked.iter().collect();
        assert_eq!(distinct.len(), asked.len(), "nothing is fetched twice: {asked:?}");
        assert!(asked.len() <= 8, "{size}: {asked:?}");
    }
    assert_eq!(scene.alarms(), 0);
}

#[test]
fn a_log_that_stands_still_costs_one_request_and_a_fresh_time_once_a_minute() {
    let log = log_of(300);
    let mut scene = Scene::of(&log);
    scene.server.publish(&log, 300);
    scene.pull().unwrap();
    scene.server.asked();
    assert_eq!(scene.pull().unwrap(), Pulled::Unchanged);
    assert_eq!(scene.server.asked(), ["304 checkpoint"]);
    scene.clock.set(NOW + 60);
    assert_eq!(scene.pull().unwrap(), Pulled::Refreshed);
    assert_eq!(scene.server.asked(), ["200 checkpoint"]);
    assert_eq!(scene.witness.store().head(&scene.origin).unwrap().time, NOW + 60);
}

#[test]
fn a_partial_tile_that_is_gone_is_cut_from_the_full_one() {
    let log = log_of(1_000);
    let mut scene = Scene::of(&log);
    scene.server.publish(&log, 100);
    scene.pull().unwrap();
    // The log moved on and dropped the partial tiles of the checkpoint that is still served.
    scene.server.publish(&log, 1_000);
    scene.server.put("checkpoint", log.checkpoint(200));
    for size in [100, 200] {
        scene.server.take_down(&format!("tile/0/000.p/{size}"));
    }
    assert_eq!(scene.pull().unwrap(), Pulled::Cosigned { size: 200 });
}

#[test]
fn what_was_pushed_before_it_is_published_is_no_rollback() {
    let log = log_of(50);
    let mut scene = Scene::of(&log);
    scene.server.publish(&log, 10);
    scene.pull().unwrap();
    scene.push(&log.request(10, 30));
    assert_eq!(scene.pull().unwrap(), Pulled::Unchanged);
    scene.server.publish(&log, 30);
    assert_eq!(scene.pull().unwrap(), Pulled::Unchanged);
    scene.server.publish(&log, 50);
    assert_eq!(scene.pull().unwrap(), Pulled::Cosigned { size: 50 });
    assert_eq!(scene.alarms(), 0);
}

#[test]
fn a_rollback_is_one_alarm_and_is_never_followed() {
    let log = log_of(50);
    let mut scene = Scene::of(&log);
    scene.server.publish(&log, 50);
    scene.pull().unwrap();
    scene.server.publish(&log, 20);
    for _ in 0..3 {
        let error = scene.pull().unwrap_err();
        assert!(error.to_string().contains("rollback"), "{error}");
        assert_eq!((scene.alarms(), scene.size()), (1, 50));
    }
    let files = std::fs::read_dir(scene.folder.path().join("evidence")).unwrap().count();
    assert_eq!(files, 2, "both notes");
    scene.server.publish(&log, 50);
    assert_eq!(scene.pull().unwrap(), Pulled::Unchanged);
}

#[test]
fn a_fork_and_a_rewrite_are_alarms_with_a_fraud_proof_that_stands() {
    // Also where the older size is a power of two: the tiles have what a proof leaves out.
    for (old, new) in [(50, 50), (50, 300), (64, 300), (256, 700)] {
        let mut log = log_of(old);
        let mut scene = Scene::of(&log);
        scene.server.publish(&log, old);
        scene.pull().unwrap();
        log.forget(0);
        log.grow(new, "rewritten");
        scene.server.publish(&log, new);
        for _ in 0..2 {
            assert!(matches!(scene.pull().unwrap_err(), PullError::Alarm(_)), "{old} to {new}");
            assert_eq!((scene.alarms(), scene.size()), (1, old as u64));
        }
        assert!(scene.fraud_stands(&log), "{old} to {new}");
    }
}

#[test]
fn a_spoilt_tile_is_an_alarm_and_the_log_itself_is_not_convicted() {
    let log = log_of(70_400);
    let at_69_000 = || {
        let mut scene = Scene::of(&log);
        scene.server.publish(&log, 69_000);
        scene.pull().unwrap();
        scene.server.publish(&log, 70_400);
        scene.server.asked();
        scene
    };
    // Which tiles are needed, the log tells by what it was asked for.
    let mut honest = at_69_000();
    assert_eq!(honest.pull().unwrap(), Pulled::Cosigned { size: 70_400 });
    let asked = honest.server.asked();
    let needed: Vec<&str> = asked.iter().filter_map(|line| line.strip_prefix("200 tile/")).collect();
    assert!(needed.iter().any(|path| !path.contains(".p/")), "a full tile is among them: {needed:?}");

    let mut scene = at_69_000();
    for path in needed.iter().map(|path| format!("tile/{path}")) {
        let right = scene.server.files.lock().unwrap()[&path].clone();
        for at in [0, right.len() / 2, right.len() - 1] {
            let mut spoilt = right.clone();
            spoilt[at] ^= 0x80;
            scene.server.put(&path, spoilt);
            let error = scene.pull().unwrap_err();
            assert!(matches!(error, PullError::BadTile(_)), "{path} at {at}: {error}");
            assert_eq!(scene.size(), 69_000);
        }
        scene.server.put(&path, right);
    }
    assert!(!scene.fraud_stands(&log));
    assert_eq!(scene.alarms(), 1, "one checkpoint, one alarm");
    assert_eq!(scene.pull().unwrap(), Pulled::Cosigned { size: 70_400 });
    assert_eq!(scene.alarms(), 0, "the checkpoint was sound after all");
}

#[test]
fn what_is_not_there_or_not_a_checkpoint_is_no_alarm() {
    let log = log_of(300);
    let mut scene = Scene::of(&log);
    assert!(matches!(scene.pull().unwrap_err(), PullError::Fetch { .. }));
    for nonsense in [&b""[..], b"<html>", b"\n\n", &[0xff; 100]] {
        scene.server.put("checkpoint", nonsense);
        assert!(matches!(scene.pull().unwrap_err(), PullError::Note(_)));
    }
    scene.server.put("checkpoint", vec![b'x'; 100_000]);
    assert!(matches!(scene.pull().unwrap_err(), PullError::Fetch { .. }));
    let mut other = TestLog::new("log.example/pulled", 9);
    other.grow(3, "");
    scene.server.put("checkpoint", other.checkpoint(3));
    assert!(matches!(scene.pull().unwrap_err(), PullError::Open(_)));
    scene.server.publish(&log, 100);
    scene.pull().unwrap();
    scene.server.publish(&log, 300);
    let tile = "tile/0/001.p/44";
    scene.server.put(tile, vec![0; 31]);
    assert!(matches!(scene.pull().unwrap_err(), PullError::Tile { .. }));
    scene.server.take_down(tile);
    assert!(matches!(scene.pull().unwrap_err(), PullError::Fetch { .. }));
    assert_eq!((scene.alarms(), scene.size()), (0, 100));
}

#[test]
fn a_feed_follows_the_logs_of_its_lists_and_lets_go_of_others() {
    let log = log_of(300);
    let scene = Scene::of(&log);
    let server = FileServer::default();
    let url = format!("http://{}", server.start());
    server.publish(&log, 300);
    let keys = witness_keys(&[Algorithm::CosignatureEd25519]);
    let policy = format!("log {} {url}\nquorum none\n", log.vkey());
    let witness = Arc::clone(&scene.witness);
    witness.follow(log_set(&policy, &keys));
    scene.runtime.block_on(async {
        let mut feed = Feed::new(Arc::clone(&witness), Fetcher::new().unwrap(), Duration::from_millis(20));
        feed.follow(&witness.logs());
        for _ in 0..500 {
            if witness.store().head(&log.origin).unwrap().size == 300 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(witness.store().head(&log.origin).unwrap().size, 300);
        witness.follow(runseal_witness::logs::LogSet::default());
        feed.follow(&witness.logs());
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.asked();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(server.asked(), Vec::<String>::new());
    });
}

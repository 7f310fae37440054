//! A witness to test: in this process, over a real socket, with a clock and a store of the test's own.
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use runseal_tlog::key::{Algorithm, KeyName, SignerKey, VerifierKey};
use runseal_witness::clock::Clock;
use runseal_witness::commit::Commits;
use runseal_witness::database::RedbStore;
use runseal_witness::evidence::Evidence;
use runseal_witness::keys::Keys;
use runseal_witness::logs::{self, LogSet};
use runseal_witness::metrics::Metrics;
use runseal_witness::server;
use runseal_witness::state::Store;
use runseal_witness::witness::{Parts, Witness};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// When every test happens unless it says otherwise.
pub(crate) const NOW: u64 = 1_800_000_000;

/// A clock that stands until it is set.
#[derive(Debug)]
pub(crate) struct TestClock(AtomicU64);

impl TestClock {
    pub(crate) fn at(seconds: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(seconds)))
    }

    pub(crate) fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.now())
    }
}

/// A witness of the tests' own name, with Ed25519 and, if asked, ML-DSA-44.
pub(crate) fn witness_keys(algorithms: &[Algorithm]) -> Keys {
    let name = KeyName::new("witness.example/w1").unwrap();
    Keys::new(algorithms.iter().map(|algorithm| SignerKey::from_seed(name.clone(), *algorithm, &[42; 32])))
        .unwrap()
}

/// The logs of a list, checked against `keys`.
pub(crate) fn log_set(list: &str, keys: &Keys) -> LogSet {
    LogSet::new(logs::parse("test", list.as_bytes()).unwrap(), keys.verifiers()).unwrap()
}

/// A new state file that knows `keys`.
pub(crate) fn new_store(path: &Path, keys: &Keys) -> Arc<RedbStore> {
    RedbStore::create(path).unwrap();
    open_store(path, keys)
}

/// An existing state file.
pub(crate) fn open_store(path: &Path, keys: &Keys) -> Arc<RedbStore> {
    let store = RedbStore::open(path).unwrap();
    store.enrol(keys.verifiers()).unwrap();
    Arc::new(store)
}

/// A witness over a store, without HTTP. Evidence goes nowhere.
pub(crate) fn witness(
    keys: Keys,
    logs: LogSet,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> Arc<Witness> {
    witness_with(keys, logs, store, clock, None)
}

/// The same, with a folder for evidence.
pub(crate) fn witness_with(
    keys: Keys,
    logs: LogSet,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    evidence: Option<Evidence>,
) -> Arc<Witness> {
    let metrics = Arc::new(Metrics::default());
    let (commits, _) = Commits::start(Arc::clone(&store), Arc::clone(&metrics)).unwrap();
    Arc::new(Witness::new(Parts { keys, logs, store, commits, clock, metrics, evidence }))
}

/// A witness served on a loopback port until dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub(crate) fn start(witness: Arc<Witness>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                server::serve(listener, witness, async {
                    let _ = stopped.await;
                })
                .await;
            });
        });
        Self { address: told.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

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

/// A log for tests: its tree hashes and its notes are written from the specifications' words.
pub(crate) struct TestLog {
    pub(crate) origin: String,
    key: ed25519_dalek::SigningKey,
    leaves: Vec<[u8; 32]>,
}

impl TestLog {
    pub(crate) fn new(origin: &str, seed: u8) -> Self {
        let key = ed25519_dalek::SigningKey::from_bytes(&[seed; 32]);
        Self { origin: origin.to_owned(), key, leaves: Vec::new() }
    }

    /// `name+hash+base64(0x01 || key)`, hash the first four bytes of SHA-256(name || LF || 0x01 || key).
    pub(crate) fn vkey(&self) -> String {
        let mut material = vec![1];
        material.extend(self.key.verifying_key().to_bytes());
        format!("{}+{}+{}", self.origin, hex::encode(self.key_id()), base64(&material))
    }

    /// A `logs/v0` list of this log.
    pub(crate) fn list(&self) -> String {
        format!("logs/v0\nvkey {}\n", self.vkey())
    }

    fn key_id(&self) -> [u8; 4] {
        let mut material = vec![1];
        material.extend(self.key.verifying_key().to_bytes());
        let hash = sha256(&[self.origin.as_bytes(), b"\n", &material]);
        [hash[0], hash[1], hash[2], hash[3]]
    }

    /// Grows to `size` leaves; `salt` tells one history from another.
    pub(crate) fn grow(&mut self, size: usize, salt: &str) {
        for leaf in self.leaves.len()..size {
            self.leaves.push(sha256(&[&[0], format!("{salt}{leaf}").as_bytes()]));
        }
    }

    pub(crate) fn forget(&mut self, size: usize) {
        self.leaves.truncate(size);
    }

    /// MTH(D[0:size]) of RFC 6962, section 2.1.
    pub(crate) fn root(&self, size: usize) -> [u8; 32] {
        mth(&self.leaves[..size])
    }

    pub(crate) fn leaf_hashes(&self) -> &[[u8; 32]] {
        &self.leaves
    }

    /// PROOF(old, D[0:new]) of RFC 6962, section 2.1.2.
    pub(crate) fn proof(&self, old: usize, new: usize) -> Vec<[u8; 32]> {
        if old == 0 || old == new { Vec::new() } else { subproof(old, &self.leaves[..new], true) }
    }

    pub(crate) fn checkpoint(&self, size: usize) -> String {
        self.checkpoint_of(size, &self.root(size), "")
    }

    pub(crate) fn checkpoint_of(&self, size: usize, root: &[u8; 32], extension: &str) -> String {
        use ed25519_dalek::Signer as _;
        let text = format!("{}\n{size}\n{}\n{extension}", self.origin, base64(root));
        let mut signature = self.key_id().to_vec();
        signature.extend(self.key.sign(text.as_bytes()).to_bytes());
        format!("{text}\n\u{2014} {} {}\n", self.origin, base64(&signature))
    }

    /// An `add-checkpoint` body.
    pub(crate) fn request(&self, old: usize, new: usize) -> String {
        request_body(old, &self.proof(old, new), &self.checkpoint(new))
    }
}

pub(crate) fn request_body(old: usize, proof: &[[u8; 32]], checkpoint: &str) -> String {
    let lines: String = proof.iter().map(|hash| base64(hash) + "\n").collect();
    format!("old {old}\n{lines}\n{checkpoint}")
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

pub(crate) fn unbase64(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    use sha2::Digest as _;
    let mut hasher = sha2::Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

fn split(length: usize) -> usize {
    length.next_power_of_two() / 2
}

pub(crate) fn mth(leaves: &[[u8; 32]]) -> [u8; 32] {
    match leaves {
        [] => sha256(&[]),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(split(leaves.len()));
            sha256(&[&[1], &mth(left), &mth(right)])
        }
    }
}

fn subproof(m: usize, leaves: &[[u8; 32]], whole: bool) -> Vec<[u8; 32]> {
    if m == leaves.len() {
        return if whole { Vec::new() } else { vec![mth(leaves)] };
    }
    let k = split(leaves.len());
    let (mut proof, sibling) = if m <= k {
        (subproof(m, &leaves[..k], whole), mth(&leaves[k..]))
    } else {
        (subproof(m - k, &leaves[k..], false), mth(&leaves[..k]))
    };
    proof.push(sibling);
    proof
}

/// Checks signature lines against the Ed25519 key `vkey` and the checkpoint text, from the words of
/// tlog-cosignature; answers their time.
pub(crate) fn cosignature_time(text: &str, lines: &str, vkey: &VerifierKey) -> Option<u64> {
    let (name, id) = (vkey.name().as_str(), vkey.id().0);
    lines.lines().find_map(|line| {
        let (found, encoded) = line.strip_prefix("\u{2014} ")?.rsplit_once(' ')?;
        let bytes = unbase64(encoded);
        if found != name || bytes.len() != 4 + 8 + 64 || bytes[..4] != id {
            return None;
        }
        let time = u64::from_be_bytes(bytes[4..12].try_into().unwrap());
        let message = format!("cosignature/v1\ntime {time}\n{text}");
        let public: [u8; 32] = vkey.public_key().try_into().unwrap();
        let key = ed25519_dalek::VerifyingKey::from_bytes(&public).unwrap();
        let signature = ed25519_dalek::Signature::from_slice(&bytes[12..]).unwrap();
        key.verify_strict(message.as_bytes(), &signature).ok().map(|()| time)
    })
}

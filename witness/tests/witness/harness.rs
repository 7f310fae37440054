//! A witness to test: in this process, over a real socket, with a clock and a store of the test's own.
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use runseal_tlog::key::{Algorithm, KeyName, SignerKey};
use runseal_witness::clock::Clock;
use runseal_witness::commit::Commits;
use runseal_witness::database::RedbStore;
use runseal_witness::evidence::Evidence;
use runseal_witness::keys::Keys;
use runseal_witness::logs::{self, LogSet};
use runseal_witness::metrics::Metrics;
use runseal_witness::server::{self, Limits};
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
        Self::within(Limits::SERVED, witness)
    }

    pub(crate) fn within(limits: Limits, witness: Arc<Witness>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                server::serve(listener, witness, limits, async {
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

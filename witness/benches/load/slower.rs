//! The witness on a disk that takes longer: the same server, keys, logs and state file, whose every commit ends so
//! much later. What a disk is to be measured on cannot be chosen; this tells how waits go with it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use runseal_witness::clock::SystemClock;
use runseal_witness::commit::Commits;
use runseal_witness::database::RedbStore;
use runseal_witness::keys::{self, Keys};
use runseal_witness::logs::{self, LogSet};
use runseal_witness::metrics::Metrics;
use runseal_witness::server::{self, Limits};
use runseal_witness::state::{Applied, Change, Cosigned, Head, StateError, Store};
use runseal_witness::witness::{Parts, Witness};

struct Slower {
    disk: RedbStore,
    by: Duration,
}

impl Store for Slower {
    fn commit(&self, changes: &[Change]) -> Result<Vec<Applied>, StateError> {
        let applied = self.disk.commit(changes)?;
        std::thread::sleep(self.by);
        Ok(applied)
    }

    fn head(&self, origin: &str) -> Result<Head, StateError> {
        self.disk.head(origin)
    }

    fn note(&self, origin_hash: &[u8; 32]) -> Result<Option<String>, StateError> {
        self.disk.note(origin_hash)
    }

    fn cosigned(&self, after: Option<&str>, limit: usize) -> Result<Vec<Cosigned>, StateError> {
        self.disk.cosigned(after, limit)
    }

    fn published(&self, origin: &str) -> Result<u64, StateError> {
        self.disk.published(origin)
    }

    fn recover(&self) -> Result<(), StateError> {
        self.disk.recover()
    }
}

/// Serves what [`prepare`](crate::programs::prepare) put into `folder`, until it is killed.
pub(crate) fn serve(folder: &Path, by: Duration) {
    let keys = Keys::new(keys::read(&folder.join("w.key")).unwrap()).unwrap();
    let logs = LogSet::new(logs::read_file(&folder.join("logs")).unwrap(), keys.verifiers()).unwrap();
    let disk = RedbStore::open(&folder.join("w.redb")).unwrap();
    disk.enrol(keys.verifiers()).unwrap();
    let store = Arc::new(Slower { disk, by });
    let metrics = Arc::new(Metrics::default());
    let (commits, _) = Commits::start(Arc::clone(&store) as _, Arc::clone(&metrics)).unwrap();
    let clock = Arc::new(SystemClock::new());
    let witness =
        Arc::new(Witness::new(Parts { keys, logs, store, commits, clock, metrics, evidence: None }));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = tokio::net::TcpListener::bind(any).await.unwrap();
        eprintln!("listening on http://{}", listener.local_addr().unwrap());
        server::serve(listener, witness, Limits::SERVED, std::future::pending()).await;
    });
}

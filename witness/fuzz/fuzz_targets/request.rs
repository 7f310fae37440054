//! Whatever is posted is answered or refused, and a refusal changes nothing.
#![no_main]

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use runseal_tlog::key::{Algorithm, KeyName, SignerKey};
use runseal_witness::clock::Clock;
use runseal_witness::commit::Commits;
use runseal_witness::keys::Keys;
use runseal_witness::logs::{self, LogSet};
use runseal_witness::metrics::Metrics;
use runseal_witness::state::{Applied, Change, Cosigned, Head, StateError, Store};
use runseal_witness::witness::{Parts, Witness};

struct Stands;

impl Clock for Stands {
    fn now(&self) -> u64 {
        1_800_000_000
    }
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

/// One log's head; there is one log.
#[derive(Default)]
struct Memory(Mutex<Option<Head>>);

impl Store for Memory {
    fn head(&self, _: &str) -> Result<Head, StateError> {
        Ok(self.0.lock().expect("no panic").unwrap_or(Head::EMPTY))
    }
    fn commit(&self, changes: &[Change]) -> Result<Vec<Applied>, StateError> {
        for change in changes {
            if let Change::Advance(step) = change {
                *self.0.lock().expect("no panic") = Some(step.to);
            }
        }
        Ok(vec![Applied::Written; changes.len()])
    }
    fn note(&self, _: &[u8; 32]) -> Result<Option<String>, StateError> {
        Ok(None)
    }
    fn cosigned(&self, _: Option<&str>, _: usize) -> Result<Vec<Cosigned>, StateError> {
        Ok(Vec::new())
    }
    fn published(&self, _: &str) -> Result<u64, StateError> {
        Ok(0)
    }
    fn recover(&self) -> Result<(), StateError> {
        Ok(())
    }
}

fn key(name: &str, algorithm: Algorithm, seed: u8) -> SignerKey {
    SignerKey::from_seed(KeyName::new(name).expect("a name"), algorithm, &[seed; 32])
}

static WITNESS: LazyLock<(Arc<Memory>, Witness)> = LazyLock::new(|| {
    let signers = [Algorithm::CosignatureEd25519, Algorithm::CosignatureMlDsa44].map(|kind| key("w.example", kind, 1));
    let keys = Keys::new(signers).expect("two keys");
    let list = format!("logs/v0\nvkey {}\n", key("l.example", Algorithm::Ed25519, 2).verifier());
    let listed = logs::parse("list", list.as_bytes()).expect("a list");
    let logs = LogSet::new(listed, keys.verifiers()).expect("a log");
    let store = Arc::new(Memory::default());
    let metrics = Arc::new(Metrics::default());
    let (commits, _) = Commits::start(Arc::clone(&store) as _, Arc::clone(&metrics)).expect("a thread");
    let clock = Arc::new(Stands);
    let parts = Parts { keys, logs, store: Arc::clone(&store) as _, commits, clock, metrics, evidence: None };
    (store, Witness::new(parts))
});

fuzz_target!(|bytes: &[u8]| {
    let (store, witness) = &*WITNESS;
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let before = store.head("l.example").expect("in memory");
    runtime.block_on(async {
        if witness.add_checkpoint(bytes).await.is_err() {
            assert_eq!(store.head("l.example").expect("in memory"), before);
        }
        let _ = witness.sign_subtree(bytes).await;
    });
});

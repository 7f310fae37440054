//! Whatever is posted is answered or refused, a refusal changes nothing, and an answer is for what the
//! log signed. The bytes are tried as they are, and again with the log's own signature and the witness's
//! added to them, so that the checks behind the signature are reached.
#![no_main]

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::cosignature::cosign;
use runseal_tlog::hash::NodeHash;
use runseal_tlog::key::{Algorithm, KeyName, SignerKey};
use runseal_tlog::note::Note;
use runseal_tlog::request::AddCheckpoint;
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

/// The bytes as the first part of a request, with their text signed as the log signs it and cosigned as
/// this witness does.
fn signed(bytes: &[u8]) -> Option<Vec<u8>> {
    let body = std::str::from_utf8(bytes).ok()?;
    let (head, text) = body.split_once("\n\n")?;
    let mut note = Note::sign(text, &key("l.example", Algorithm::Ed25519, 2)).ok()?;
    if let Ok(checkpoint) = Checkpoint::parse(text) {
        let witness = key("w.example", Algorithm::CosignatureEd25519, 1);
        note.add(cosign(&checkpoint, 1_700_000_000, &witness).ok()?).ok()?;
    }
    Some(format!("{head}\n\n{note}").into_bytes())
}

fuzz_target!(|bytes: &[u8]| {
    let (store, witness) = &*WITNESS;
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    // Where the log stands is the input's alone, so that a crash is found again: nowhere, or at five leaves.
    let stands = Head { size: 5, root: NodeHash::from_bytes([7; 32]), time: 1_700_000_000 };
    *store.0.lock().expect("no panic") = (bytes.len() % 2 == 1).then_some(stands);
    runtime.block_on(async {
        for body in [Some(bytes.to_vec()), signed(bytes)].into_iter().flatten() {
            let before = store.head("l.example").expect("in memory");
            let answered = witness.add_checkpoint(&body).await;
            let after = store.head("l.example").expect("in memory");
            match answered {
                Err(_) => assert_eq!(after, before),
                Ok(lines) => {
                    assert_eq!(lines.len(), 2);
                    let note = AddCheckpoint::parse(&body).expect("it was answered").note;
                    let checkpoint = Checkpoint::parse(note.unverified_text()).expect("it was answered");
                    assert_eq!((after.size, after.root), (checkpoint.size(), *checkpoint.root()));
                    assert!(after.size >= before.size && (after.size > before.size || before.root == after.root));
                }
            }
            let _ = witness.sign_subtree(&body).await;
        }
    });
});

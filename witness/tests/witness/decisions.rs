//! What the witness signs and refuses, what it remembers, and what it raises an alarm about.

use std::path::Path;
use std::sync::Arc;

use runseal_tlog::fraud::FraudProof;
use runseal_tlog::key::{Algorithm, KeyName, SignerKey, VerifierKey};
use runseal_witness::clock::ClockFault;
use runseal_witness::evidence::Evidence;
use runseal_witness::keys::Keys;
use runseal_witness::logs::{self, LogSet, LogsError};
use runseal_witness::state::origin_hash;
use runseal_witness::witness::{Refusal, Witness};
use tempfile::TempDir;

use crate::harness::{NOW, TestClock, log_set, new_store, witness_keys, witness_with};
use crate::testlog::{TestLog, cosignature_time, request_body};

struct Scene {
    folder: TempDir,
    clock: Arc<TestClock>,
    witness: Arc<Witness>,
    runtime: tokio::runtime::Runtime,
}

impl Scene {
    fn of(list: &str, algorithms: &[Algorithm]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = TestClock::at(NOW);
        let keys = witness_keys(algorithms);
        let logs = log_set(list, &keys);
        let store = new_store(&folder.path().join("state.redb"), &keys);
        let evidence = Evidence::in_folder(folder.path().join("evidence"));
        let witness = witness_with(keys, logs, store, Arc::clone(&clock) as _, Some(evidence));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { folder, clock, witness, runtime }
    }

    fn log(log: &TestLog) -> Self {
        Self::of(&log.list(), &[Algorithm::CosignatureEd25519])
    }

    /// The answer's lines.
    fn post(&self, body: &str) -> Result<String, Refusal> {
        let lines = self.runtime.block_on(self.witness.add_checkpoint(body.as_bytes()))?;
        Ok(lines.iter().flat_map(|line| [line.to_string(), "\n".to_owned()]).collect())
    }

    fn key(&self) -> VerifierKey {
        self.witness.keys().verifiers()[0].clone()
    }

    fn vkey(&self) -> String {
        self.key().to_string()
    }

    fn alarms(&self, origin: &str) -> u64 {
        let logs = self.witness.store().cosigned(None, 100).unwrap();
        logs.iter().find(|log| log.origin == origin).map_or(0, |log| log.alarms)
    }

    fn evidence(&self) -> Vec<String> {
        let folder = self.folder.path().join("evidence");
        let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
        let mut names: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn extension_lines_are_signed_and_served_again_byte_for_byte() {
    let mut log = TestLog::new("log.example/ext", 1);
    log.grow(3, "");
    let scene = Scene::of(&log.list(), &[Algorithm::CosignatureEd25519, Algorithm::CosignatureMlDsa44]);
    let checkpoint = log.checkpoint_of(3, &log.root(3), "an extension\nanother \u{2014} one\n");
    let text = &checkpoint[..=checkpoint.rfind("\n\n").unwrap()];
    let lines = scene.post(&request_body(0, &[], &checkpoint)).unwrap();
    assert_eq!(lines.lines().count(), 2);
    assert_eq!(cosignature_time(text, &lines, &scene.vkey()), Some(NOW));
    let note = scene.witness.store().note(&origin_hash(&log.origin)).unwrap().unwrap();
    assert_eq!(note, format!("{checkpoint}{lines}"));
}

#[test]
fn only_verified_lines_are_served_again() {
    let mut log = TestLog::new("log.example/lines", 1);
    log.grow(2, "");
    let scene = Scene::log(&log);
    let stranger = "\u{2014} stranger.example/w AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n";
    let checkpoint = log.checkpoint(2);
    let lines = scene.post(&request_body(0, &[], &format!("{checkpoint}{stranger}"))).unwrap();
    let note = scene.witness.store().note(&origin_hash(&log.origin)).unwrap().unwrap();
    assert_eq!(note, format!("{checkpoint}{lines}"));
}

#[test]
fn a_false_line_under_the_witness_s_own_name_wedges_nothing() {
    let mut log = TestLog::new("log.example/wedge", 1);
    log.grow(2, "");
    let scene = Scene::log(&log);
    let mut bytes = scene.key().id().0.to_vec();
    bytes.extend([0x5a; 72]);
    let fake = format!("\u{2014} {} {}\n", scene.key().name(), crate::testlog::base64(&bytes));
    let checkpoint = format!("{}{fake}", log.checkpoint(2));
    let lines = scene.post(&request_body(0, &[], &checkpoint)).unwrap();
    assert!(!lines.contains(&fake));
    let note = scene.witness.store().note(&origin_hash(&log.origin)).unwrap().unwrap();
    assert!(!note.contains(&fake), "{note}");
    log.grow(5, "");
    let next = format!("{}{fake}", log.checkpoint(5));
    assert!(scene.post(&request_body(2, &log.proof(2, 5), &next)).is_ok());
}

#[test]
fn an_unchanged_checkpoint_gets_a_fresh_time_and_time_never_runs_backwards() {
    let mut log = TestLog::new("log.example/time", 1);
    log.grow(4, "");
    let scene = Scene::log(&log);
    let text = log.checkpoint(4);
    let text = &text[..=text.rfind("\n\n").unwrap()];
    let time_at = |now: u64, old: usize| {
        scene.clock.set(now);
        scene.post(&log.request(old, 4)).map(|lines| cosignature_time(text, &lines, &scene.vkey()).unwrap())
    };
    assert_eq!(time_at(NOW, 0).unwrap(), NOW);
    assert_eq!(time_at(NOW + 60, 4).unwrap(), NOW + 60);
    assert_eq!(time_at(NOW, 4).unwrap(), NOW + 60, "sixty seconds behind repeats the last time");
    let behind = time_at(NOW - 1, 4).unwrap_err();
    assert!(matches!(behind, Refusal::Clock(ClockFault::Behind { .. })), "{behind}");
    for implausible in [0, 1_000_000_000, 1 << 63] {
        let refusal = time_at(implausible, 4).unwrap_err();
        assert!(matches!(refusal, Refusal::Clock(ClockFault::Implausible(_))), "{refusal}");
    }
    assert_eq!(time_at(NOW + 61, 4).unwrap(), NOW + 61);
}

#[test]
fn a_log_first_seen_at_size_zero_can_grow() {
    let mut log = TestLog::new("log.example/zero", 1);
    let scene = Scene::log(&log);
    scene.post(&log.request(0, 0)).unwrap();
    scene.post(&log.request(0, 0)).unwrap();
    log.grow(5, "");
    scene.post(&log.request(0, 5)).unwrap();
    let conflict = scene.post(&log.request(0, 5)).unwrap_err();
    assert!(matches!(conflict, Refusal::Conflict { old: 0, cosigned: 5 }), "{conflict}");
}

#[test]
fn two_roots_of_one_size_are_one_alarm_however_often_they_are_sent() {
    let mut log = TestLog::new("log.example/fork", 1);
    log.grow(6, "");
    let scene = Scene::log(&log);
    scene.post(&log.request(0, 6)).unwrap();
    let honest = log.checkpoint(6);
    log.forget(0);
    log.grow(6, "other");
    for old in [6, 0, 6, 3] {
        let refusal = scene.post(&request_body(old, &[], &log.checkpoint(6))).unwrap_err();
        let expected = if old == 6 { "two roots for size 6" } else { "is not 6" };
        assert!(refusal.to_string().contains(expected), "{refusal}");
        assert_eq!(scene.alarms(&log.origin), 1);
    }
    log.forget(0);
    log.grow(6, "third");
    scene.post(&request_body(6, &[], &log.checkpoint(6))).unwrap_err();
    assert_eq!(scene.alarms(&log.origin), 2);
    // What is left on disk convicts the log by itself.
    let frauds: Vec<String> = scene
        .evidence()
        .into_iter()
        .filter(|name| Path::new(name).extension().is_some_and(|kind| kind == "fraud"))
        .collect();
    assert_eq!(frauds.len(), 2, "{:?}", scene.evidence());
    let key: VerifierKey = log.vkey().parse().unwrap();
    for name in frauds {
        let bytes = std::fs::read(scene.folder.path().join("evidence").join(name)).unwrap();
        let fraud = FraudProof::parse(&bytes).unwrap().verify([&key]).unwrap();
        assert_eq!(fraud.older.note().unverified_text(), &honest[..=honest.rfind("\n\n").unwrap()]);
    }
}

#[test]
fn a_rebuilt_history_is_an_alarm_with_proof_where_the_proof_tells() {
    // Six leaves: the proof states the older root, so that it convicts. Eight: it leaves it out.
    for (old, kinds) in
        [(6, &["contradicting", "cosigned", "fraud"][..]), (8, &["contradicting", "cosigned"][..])]
    {
        let mut log = TestLog::new("log.example/rebuilt", 1);
        log.grow(old, "");
        let scene = Scene::log(&log);
        scene.post(&log.request(0, old)).unwrap();
        log.forget(0);
        log.grow(11, "other");
        let refusal = scene.post(&log.request(old, 11)).unwrap_err();
        assert!(matches!(refusal, Refusal::Inconsistent(_)), "{refusal}");
        assert_eq!(scene.alarms(&log.origin), 1);
        let found: Vec<String> =
            scene.evidence().iter().map(|name| name.rsplit('.').next().unwrap().to_owned()).collect();
        assert_eq!(found, kinds, "old size {old}");
        assert_eq!(scene.witness.store().head(&log.origin).unwrap().size, old as u64);
    }
}

#[test]
fn a_proof_that_a_stranger_spoilt_raises_an_alarm_that_the_true_one_withdraws() {
    let mut log = TestLog::new("log.example/spoilt", 1);
    log.grow(11, "");
    let scene = Scene::log(&log);
    scene.post(&log.request(0, 6)).unwrap();
    let mut proof = log.proof(6, 11);
    proof[0][0] ^= 1;
    scene.post(&request_body(6, &proof, &log.checkpoint(11))).unwrap_err();
    assert_eq!(scene.alarms(&log.origin), 1);
    // A proof of another length says nothing about the log at all.
    scene.post(&request_body(6, &proof[1..], &log.checkpoint(11))).unwrap_err();
    assert_eq!(scene.alarms(&log.origin), 1);
    scene.post(&log.request(6, 11)).unwrap();
    assert_eq!(scene.alarms(&log.origin), 0);
}

#[test]
fn an_impossible_empty_tree_is_refused_wherever_it_comes() {
    let log = TestLog::new("log.example/empty", 1);
    let scene = Scene::log(&log);
    for root in [[0; 32], [7; 32]] {
        let body = request_body(0, &[], &log.checkpoint_of(0, &root, ""));
        assert!(matches!(scene.post(&body).unwrap_err(), Refusal::Inconsistent(_)));
    }
    assert_eq!(scene.witness.store().head(&log.origin).unwrap().time, 0);
}

#[test]
fn an_allowance_counts_only_what_the_log_signed() {
    let mut log = TestLog::new("log.example/quota", 1);
    log.grow(3, "");
    let scene = Scene::of(&format!("{}qpd 24\n", log.list()), &[Algorithm::CosignatureEd25519]);
    scene.post(&log.request(0, 3)).unwrap();
    let other = TestLog::new("log.example/quota", 2);
    for _ in 0..50 {
        let forged = request_body(3, &[], &other.checkpoint_of(3, &log.root(3), ""));
        assert!(matches!(scene.post(&forged).unwrap_err(), Refusal::NotSigned(_)));
    }
    for _ in 0..9 {
        scene.post(&log.request(3, 3)).unwrap();
    }
    let refusal = scene.post(&log.request(3, 3)).unwrap_err();
    assert!(matches!(refusal, Refusal::OverQuota { retry_after: 3600 }), "{refusal}");
    scene.clock.set(NOW + 3_600);
    scene.post(&log.request(3, 3)).unwrap();
    // A reload fills no bucket.
    let again = log_set(&format!("{}qpd 24\n", log.list()), scene.witness.keys());
    scene.witness.follow(again);
    assert!(matches!(scene.post(&log.request(3, 3)).unwrap_err(), Refusal::OverQuota { .. }));
}

#[test]
fn a_log_that_leaves_the_lists_keeps_its_state_and_resumes_from_it() {
    let mut log = TestLog::new("log.example/leaves", 1);
    log.grow(9, "");
    let scene = Scene::log(&log);
    scene.post(&log.request(0, 5)).unwrap();
    scene.witness.follow(LogSet::default());
    assert!(matches!(scene.post(&log.request(5, 9)).unwrap_err(), Refusal::UnknownOrigin(_)));
    assert!(scene.witness.store().note(&origin_hash(&log.origin)).unwrap().is_some());
    scene.witness.follow(log_set(&log.list(), scene.witness.keys()));
    assert!(matches!(scene.post(&log.request(0, 9)).unwrap_err(), Refusal::Conflict { cosigned: 5, .. }));
    scene.post(&log.request(5, 9)).unwrap();
}

#[test]
fn roles_that_could_be_confused_are_refused_when_loaded() {
    let keys = witness_keys(&[Algorithm::CosignatureEd25519]);
    let load = |list: &str, keys: &Keys| LogSet::new(logs::parse("list", list.as_bytes())?, keys.verifiers());
    let log = TestLog::new("log.example/a", 1);
    let own_name = TestLog::new("witness.example/w1", 1);
    assert!(matches!(load(&own_name.list(), &keys), Err(LogsError::OwnName { .. })));
    let own_origin = format!("{}origin witness.example/w1\n", log.list());
    assert!(matches!(load(&own_origin, &keys), Err(LogsError::OwnName { .. })));
    // Seed 42 is the witness's own.
    let own_key = TestLog::new("log.example/b", 42);
    assert!(matches!(load(&own_key.list(), &keys), Err(LogsError::OwnKey { .. })));
    let cosigner =
        SignerKey::from_seed(KeyName::new("log.example/c").unwrap(), Algorithm::CosignatureEd25519, &[9; 32]);
    let list = format!("logs/v0\nvkey {}\n", cosigner.verifier());
    assert!(matches!(load(&list, &keys), Err(LogsError::LogKeyType { kind: 4, .. })));
    let long = format!("{}origin {}\n", log.list(), "o".repeat(256));
    assert!(load(&long, &keys).is_ok());
    let both = witness_keys(&[Algorithm::CosignatureEd25519, Algorithm::CosignatureMlDsa44]);
    assert!(matches!(load(&long, &both), Err(LogsError::OriginTooLong { bytes: 256, .. })));
    for list in ["", "nonsense\n", "logs/v0\nvkey x\n", "log x\nquorum none\n"] {
        let error = load(list, &keys).unwrap_err();
        assert!(error.to_string().starts_with("list: "), "{error}");
    }
}

#[test]
fn a_key_that_changes_for_a_known_log_is_held_back_and_others_go_on() {
    let (mut old, mut new) = (TestLog::new("log.example/k", 1), TestLog::new("log.example/k", 2));
    old.grow(4, "");
    new.grow(4, "");
    let keys = witness_keys(&[Algorithm::CosignatureEd25519]);
    let both = format!("{}vkey {}\n", old.list(), new.vkey());
    let known = [(old.origin.clone(), vec![old.vkey()])].into_iter().collect();
    let mut replaced = log_set(&new.list(), &keys);
    let changes = replaced.hold_to(&known);
    assert_eq!((changes.len(), changes[0].refused.clone()), (1, vec![new.vkey()]));
    assert!(changes[0].to_string().contains("--accept-key-change log.example/k"));
    assert!(replaced.find(&old.origin).unwrap().keys().is_empty());
    let mut added = log_set(&both, &keys);
    assert_eq!(added.hold_to(&known).len(), 1);
    assert_eq!(added.find(&old.origin).unwrap().keys().len(), 1);
    assert!(log_set(&old.list(), &keys).hold_to(&known).is_empty());

    let scene = Scene::log(&old);
    scene.witness.follow(replaced);
    let refusal = scene.post(&new.request(0, 4)).unwrap_err();
    assert!(matches!(refusal, Refusal::NotSigned(_)), "{refusal}");
    scene.witness.follow(added);
    scene.post(&old.request(0, 4)).unwrap();
    assert!(matches!(scene.post(&new.request(4, 4)).unwrap_err(), Refusal::NotSigned(_)));
}

#[test]
fn a_log_signed_by_another_log_s_key_changes_nothing_of_either() {
    let (mut a, mut b) = (TestLog::new("log.example/a", 1), TestLog::new("log.example/b", 2));
    a.grow(3, "");
    b.grow(3, "");
    let scene = Scene::of(&format!("{}vkey {}\n", a.list(), b.vkey()), &[Algorithm::CosignatureEd25519]);
    // A's key and line name under B's origin.
    let forged = a.checkpoint(3).replacen("log.example/a", "log.example/b", 1);
    assert!(matches!(scene.post(&request_body(0, &[], &forged)).unwrap_err(), Refusal::NotSigned(_)));
    for log in [&a, &b] {
        assert_eq!(scene.witness.store().head(&log.origin).unwrap().time, 0);
    }
}

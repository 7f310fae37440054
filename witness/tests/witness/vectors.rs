//! The request vectors, decided and over HTTP: this repository's own, and the shared ones where present.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use crate::harness::{self, Served, TestClock};
use crate::testlog::{base64, cosignature_time, unbase64};
use crate::wire::{Answer, get, post, request};
use runseal_tlog::key::{Algorithm, KeyName, SignerKey, VerifierKey};
use runseal_tlog::note::Note;
use runseal_witness::keys::Keys;
use runseal_witness::state::{Head, Store as _};
use runseal_witness::witness::{Refusal, Witness};
use serde::Deserialize;

#[derive(Deserialize)]
struct Vectors {
    logs: Vec<LogKeys>,
    witness: WitnessKey,
    states: BTreeMap<String, State>,
    cases: Vec<Case>,
    sequences: Vec<Sequence>,
    http: Vec<HttpCase>,
}

#[derive(Deserialize)]
struct LogKeys {
    origin: String,
    vkeys: Vec<String>,
}

#[derive(Deserialize)]
struct WitnessKey {
    name: String,
    seed: String,
    vkey: String,
}

#[derive(Deserialize)]
struct State {
    origin: String,
    setup_b64: Vec<String>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    state: String,
    body_b64: Option<String>,
    body_rule: Option<BodyRule>,
    status: Vec<u16>,
    conflict_body: Option<String>,
    conflict_content_type: Option<String>,
    state_after: Option<StateAfter>,
}

#[derive(Deserialize)]
struct BodyRule {
    prefix_b64: String,
    repeat_b64: String,
    count: usize,
    suffix_b64: String,
}

#[derive(Deserialize)]
struct StateAfter {
    origin: String,
    size: String,
    root: String,
}

#[derive(Deserialize)]
struct Sequence {
    id: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    body_b64: String,
    status: u16,
    conflict_body: Option<String>,
}

#[derive(Deserialize)]
struct HttpCase {
    method: String,
    path: String,
    body: Option<String>,
    state: Option<String>,
    status: Vec<u16>,
    why: String,
}

impl Case {
    fn body(&self) -> Vec<u8> {
        match (&self.body_b64, &self.body_rule) {
            (Some(body), _) => unbase64(body),
            (None, Some(rule)) => {
                let mut body = unbase64(&rule.prefix_b64);
                body.extend(unbase64(&rule.repeat_b64).repeat(rule.count));
                body.extend(unbase64(&rule.suffix_b64));
                body
            }
            (None, None) => panic!("{} has no body", self.id),
        }
    }
}

fn files() -> Vec<Vectors> {
    let own = include_str!("../data/requests.json").to_owned();
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/vectors/witness_requests.json");
    let mut texts = vec![own];
    match std::fs::read_to_string(shared) {
        Ok(text) => texts.push(text),
        Err(error) => eprintln!("only the repository's own request vectors are used: {shared}: {error}"),
    }
    let files: Vec<Vectors> = texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert!(files.iter().all(|file| !file.cases.is_empty() && !file.http.is_empty()));
    files
}

fn keys(vectors: &Vectors) -> Keys {
    let seed: [u8; 32] = hex::decode(&vectors.witness.seed).unwrap().try_into().unwrap();
    let name = KeyName::new(vectors.witness.name.clone()).unwrap();
    let keys = Keys::new([SignerKey::from_seed(name, Algorithm::CosignatureEd25519, &seed)]).unwrap();
    assert_eq!(keys.verifiers()[0].to_string(), vectors.witness.vkey);
    keys
}

/// A fresh witness that followed the state's set-up.
fn witness_in(
    vectors: &Vectors,
    state: &str,
    folder: &Path,
    runtime: &tokio::runtime::Runtime,
) -> Arc<Witness> {
    let keys = keys(vectors);
    let mut list = String::from("logs/v0\n");
    for log in &vectors.logs {
        for vkey in &log.vkeys {
            writeln!(list, "vkey {vkey}\norigin {}", log.origin).unwrap();
        }
    }
    let logs = harness::log_set(&list, &keys);
    let store = harness::new_store(&folder.join("state.redb"), &keys);
    let witness = harness::witness(keys, logs, store, TestClock::at(harness::NOW));
    for body in &vectors.states[state].setup_b64 {
        runtime.block_on(witness.add_checkpoint(&unbase64(body))).unwrap();
    }
    witness
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The status each refusal stands for, written down a second time on purpose.
fn status_of(refusal: &Refusal) -> u16 {
    match refusal {
        Refusal::Malformed(runseal_tlog::request::RequestError::TooLong(_)) => 413,
        Refusal::Malformed(_) | Refusal::NotACheckpoint(_) | Refusal::OldSizeAboveNew { .. } => 400,
        Refusal::NotSigned(_) => 403,
        Refusal::UnknownOrigin(_) => 404,
        Refusal::Conflict { .. } => 409,
        Refusal::Inconsistent(_) => 422,
        other => panic!("no request may be answered with {other}"),
    }
}

/// The text of the checkpoint in a request.
fn checkpoint_text(body: &[u8]) -> String {
    let body = std::str::from_utf8(body).unwrap();
    let note = &body[body.find("\n\n").unwrap() + 2..];
    note[..=note.rfind("\n\n").unwrap()].to_owned()
}

#[test]
fn every_request_vector_is_decided_as_the_specification_says() {
    let runtime = runtime();
    for vectors in files() {
        for case in &vectors.cases {
            let folder = tempfile::tempdir().unwrap();
            let witness = witness_in(&vectors, &case.state, folder.path(), &runtime);
            let origin =
                case.state_after.as_ref().map_or(&vectors.states[&case.state].origin, |after| &after.origin);
            let before = witness.store().head(origin).unwrap();
            let body = case.body();
            let outcome = runtime.block_on(witness.add_checkpoint(&body));
            let after = witness.store().head(origin).unwrap();
            let status = outcome.as_ref().map_or_else(status_of, |_| 200);
            assert!(case.status.contains(&status), "{}: {status}, {outcome:?}", case.id);
            if let Some(expected) = case.state_after.as_ref().filter(|_| status == 200) {
                assert_eq!(after.size.to_string(), expected.size, "{}", case.id);
                assert_eq!(hex::encode(after.root.as_bytes()), expected.root, "{}", case.id);
            }
            if status != 200 {
                assert_eq!(before, after, "{}: a refusal changes nothing", case.id);
            }
            if let (Err(Refusal::Conflict { cosigned, .. }), Some(expected)) = (&outcome, &case.conflict_body)
            {
                assert_eq!(&format!("{cosigned}\n"), expected, "{}", case.id);
            }
        }
    }
}

#[test]
fn every_request_vector_is_answered_over_http() {
    let runtime = runtime();
    for vectors in files() {
        for case in &vectors.cases {
            let folder = tempfile::tempdir().unwrap();
            let witness = witness_in(&vectors, &case.state, folder.path(), &runtime);
            let served = Served::start(witness);
            let body = case.body();
            let answer = post(served.address, "/add-checkpoint", &body);
            assert!(case.status.contains(&answer.status), "{}: {answer:?}", case.id);
            match answer.status {
                200 => {
                    let text = checkpoint_text(&body);
                    let time = cosignature_time(&text, answer.text(), &vectors.witness.vkey);
                    assert_eq!(time, Some(harness::NOW), "{}", case.id);
                }
                409 => {
                    assert_eq!(Some(answer.text()), case.conflict_body.as_deref(), "{}", case.id);
                    assert_eq!(
                        answer.header("content-type"),
                        case.conflict_content_type.as_deref(),
                        "{}",
                        case.id
                    );
                }
                _ => assert!(answer.text().ends_with('\n') && answer.body.len() > 10, "{answer:?}"),
            }
        }
    }
}

#[test]
fn every_sequence_vector_is_answered_step_by_step() {
    let runtime = runtime();
    for vectors in files() {
        for sequence in &vectors.sequences {
            let folder = tempfile::tempdir().unwrap();
            let served = Served::start(witness_in(&vectors, "empty", folder.path(), &runtime));
            for (number, step) in sequence.steps.iter().enumerate() {
                let answer = post(served.address, "/add-checkpoint", &unbase64(&step.body_b64));
                assert_eq!(answer.status, step.status, "{} step {number}: {answer:?}", sequence.id);
                if let Some(expected) = step.conflict_body.as_ref().filter(|_| answer.status == 409) {
                    assert_eq!(answer.text(), expected, "{} step {number}", sequence.id);
                }
            }
        }
    }
}

#[test]
fn every_http_vector_is_answered() {
    let runtime = runtime();
    for vectors in files() {
        for case in &vectors.http {
            let state = case.state.as_deref().unwrap_or("empty");
            let folder = tempfile::tempdir().unwrap();
            let witness = witness_in(&vectors, state, folder.path(), &runtime);
            let body = case
                .body
                .as_ref()
                .map_or_else(Vec::new, |id| vectors.cases.iter().find(|case| case.id == *id).unwrap().body());
            let served = Served::start(witness);
            let answer = request(served.address, &case.method, &case.path, "", &body);
            assert!(case.status.contains(&answer.status), "{}: {answer:?}", case.why);
            if answer.status == 200 {
                assert_monitors_can_use(&vectors, state, &answer);
            }
        }
    }
}

/// The re-served note is the posted checkpoint with the log's line and this witness's.
fn assert_monitors_can_use(vectors: &Vectors, state: &str, answer: &Answer) {
    let posted = unbase64(vectors.states[state].setup_b64.last().unwrap());
    let text = checkpoint_text(&posted);
    let note = answer.text();
    assert!(note.starts_with(&format!("{text}\n")), "{note}");
    assert_eq!(cosignature_time(&text, note, &vectors.witness.vkey), Some(harness::NOW));
    let log = vectors.logs.iter().find(|log| log.origin == vectors.states[state].origin).unwrap();
    let log_keys: Vec<VerifierKey> = log.vkeys.iter().map(|vkey| vkey.parse().unwrap()).collect();
    let parsed = Note::parse(note.as_bytes()).unwrap();
    assert!(parsed.verify(&log_keys).is_ok());
    assert_eq!(parsed.signatures().len(), 2);
}

#[test]
fn the_witness_of_the_vectors_never_forgets_across_a_reopened_file() {
    let runtime = runtime();
    for vectors in files() {
        for (name, state) in &vectors.states {
            let folder = tempfile::tempdir().unwrap();
            let before = {
                let witness = witness_in(&vectors, name, folder.path(), &runtime);
                witness.store().head(&state.origin).unwrap()
            };
            let path = folder.path().join("state.redb");
            // The writing thread lets go of the file in its own time.
            let store = (0..100)
                .find_map(|_| {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    runseal_witness::database::RedbStore::open(&path).ok()
                })
                .expect("the file opens once its writer is gone");
            assert_eq!(store.head(&state.origin).unwrap(), before, "{name}");
            if state.setup_b64.is_empty() {
                assert_eq!(before, Head::EMPTY);
            }
        }
    }
}

#[test]
fn the_about_page_and_health_answer() {
    let runtime = runtime();
    let vectors = files().remove(0);
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(witness_in(&vectors, "s8", folder.path(), &runtime));
    assert_eq!(get(served.address, "/healthz").text(), "ok\n");
    let page = get(served.address, "/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.text().contains(&vectors.witness.vkey) && page.text().contains("log.example/vectors"));
    let json = request(served.address, "GET", "/", "accept: application/json\r\n", b"");
    assert_eq!(json.header("content-type"), Some("application/json"));
    let about: runseal_witness::about::About = serde_json::from_str(json.text()).unwrap();
    assert_eq!(about.vkeys, std::slice::from_ref(&vectors.witness.vkey));
    assert_eq!((about.logs.len(), about.logs[0].size, about.logs[0].time), (1, 8, harness::NOW));
    assert_eq!(
        about.logs[0].root,
        base64(&hex::decode("3b85a9626c1ccb64c6b95ec7fa64888defe2cf12e39e77e10812ce5fcb9cb58e").unwrap())
    );
}

#[derive(Deserialize)]
struct SubtreeVectors {
    log: SubtreeLog,
    witness_keys: Vec<SubtreeKey>,
    cases: Vec<SubtreeCase>,
}

#[derive(Deserialize)]
struct SubtreeLog {
    vkey: String,
}

#[derive(Deserialize)]
struct SubtreeKey {
    #[serde(rename = "type")]
    kind: u8,
    name: String,
    seed: String,
    vkey: String,
}

#[derive(Deserialize)]
struct SubtreeCase {
    id: String,
    body_b64: String,
    status: Vec<u16>,
    answer_message_b64: Option<String>,
    answer_timestamp: Option<String>,
}

fn subtree_files() -> Vec<SubtreeVectors> {
    let own = include_str!("../data/subtree_requests.json").to_owned();
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/vectors/sign_subtree.json");
    let mut texts = vec![own];
    match std::fs::read_to_string(shared) {
        Ok(text) => texts.push(text),
        Err(error) => eprintln!("only the repository's own sign-subtree vectors are used: {shared}: {error}"),
    }
    texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

#[test]
fn every_sign_subtree_vector_is_answered_over_http() {
    for vectors in subtree_files() {
        let signers = vectors.witness_keys.iter().map(|key| {
            let seed: [u8; 32] = hex::decode(&key.seed).unwrap().try_into().unwrap();
            let algorithm = Algorithm::from_byte(key.kind).unwrap();
            let signer = SignerKey::from_seed(KeyName::new(key.name.clone()).unwrap(), algorithm, &seed);
            assert_eq!(signer.verifier().to_string(), key.vkey);
            signer
        });
        let keys = Keys::new(signers).unwrap();
        let verifiers = keys.verifiers().to_vec();
        let logs = harness::log_set(&format!("logs/v0\nvkey {}\n", vectors.log.vkey), &keys);
        let folder = tempfile::tempdir().unwrap();
        let store = harness::new_store(&folder.path().join("state.redb"), &keys);
        let served = Served::start(harness::witness(keys, logs, store, TestClock::at(harness::NOW)));
        assert!(!vectors.cases.is_empty());
        for case in &vectors.cases {
            let answer = post(served.address, "/sign-subtree", &unbase64(&case.body_b64));
            assert!(case.status.contains(&answer.status), "{}: {answer:?}", case.id);
            if let (200, Some(message)) = (answer.status, &case.answer_message_b64) {
                let message = unbase64(message);
                let signed = answer.text().lines().any(|line| {
                    let line = runseal_tlog::note::SignatureLine::parse(line).unwrap();
                    let key = verifiers.iter().find(|key| line.is_of(key)).unwrap();
                    let (time, signature) = line.signature().split_at(8);
                    let time = u64::from_be_bytes(time.try_into().unwrap()).to_string();
                    assert_eq!(Some(&time), case.answer_timestamp.as_ref());
                    mldsa44_verifies(&key.public_key(), &message, signature)
                });
                assert!(signed, "{}: {}", case.id, answer.text());
            }
        }
    }
}

fn mldsa44_verifies(public_key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let key = ml_dsa::VerifyingKey::<ml_dsa::MlDsa44>::decode(public_key.try_into().unwrap());
    let signature = ml_dsa::Signature::<ml_dsa::MlDsa44>::try_from(signature).unwrap();
    key.verify_with_context(message, &[], &signature)
}

#[test]
fn a_witness_without_an_ml_dsa_key_has_no_sign_subtree() {
    let vectors = subtree_files().remove(0);
    let keys = harness::witness_keys(&[Algorithm::CosignatureEd25519]);
    let logs = harness::log_set(&format!("logs/v0\nvkey {}\n", vectors.log.vkey), &keys);
    let folder = tempfile::tempdir().unwrap();
    let store = harness::new_store(&folder.path().join("state.redb"), &keys);
    let served = Served::start(harness::witness(keys, logs, store, TestClock::at(harness::NOW)));
    assert_eq!(post(served.address, "/sign-subtree", &unbase64(&vectors.cases[0].body_b64)).status, 404);
}

//! witness_requests.json and sign_subtree.json, as far as reading a request decides: malformed bodies
//! are refused, all others read and printed unchanged (c2sp.org/tlog-witness).

use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::cosignature::{cosign_subtree, verify_subtree};
use runseal_tlog::key::{Algorithm, KeyName, SignerKey};
use runseal_tlog::request::{AddCheckpoint, REQUEST_BYTES_MAX, RequestError, SignSubtree};
use runseal_tlog::subtree::{SubtreeError, verify_consistency};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::own;
use crate::shared::{Base64, Cases, Hex, load, number};

const OK: u16 = 200;
const BAD_REQUEST: u16 = 400;
const UNPROCESSABLE: u16 = 422;

#[derive(Deserialize)]
struct Requests {
    cases: Cases<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    status: Vec<u16>,
    body_b64: Option<Base64>,
    body_rule: Option<Rule>,
    body_sha256: Option<Hex>,
}

#[derive(Deserialize)]
struct Rule {
    prefix_b64: Base64,
    repeat_b64: Base64,
    count: usize,
    suffix_b64: Base64,
}

impl Case {
    fn body(&self) -> Vec<u8> {
        if let Some(body) = &self.body_b64 {
            return body.0.clone();
        }
        let rule = self.body_rule.as_ref().expect("a body or a rule for it");
        let body = [&*rule.prefix_b64.0, &rule.repeat_b64.0.repeat(rule.count), &rule.suffix_b64.0].concat();
        let hash = &self.body_sha256.as_ref().expect("the hash of a body given by rule").0;
        assert_eq!(Sha256::digest(&body)[..], hash[..], "{}", self.id);
        body
    }

    /// Holds what reading says against the statuses allowed.
    fn judge(&self, read: &Result<(), String>) -> Result<(), String> {
        let refusable = self.status.contains(&BAD_REQUEST) || self.status.contains(&413);
        match read {
            Err(error) if !refusable => Err(format!("{}: refused: {error}", self.id)),
            Ok(()) if self.status == [BAD_REQUEST] => Err(format!("{}: accepted", self.id)),
            _ => Ok(()),
        }
    }
}

fn add_checkpoint(id: &str, body: &[u8]) -> Result<(), String> {
    let request = AddCheckpoint::parse(body).map_err(|error| error.to_string())?;
    assert_eq!(request.to_string().as_bytes(), body, "{id}: prints otherwise");
    let checkpoint = Checkpoint::parse(request.note.unverified_text()).map_err(|error| error.to_string())?;
    if request.old_size > checkpoint.size() {
        Err("old size above the checkpoint's".to_owned())
    } else {
        Ok(())
    }
}

#[test]
fn shared_add_checkpoint_bodies_read_or_not_as_stated() {
    let Some(file) = load::<Requests>("witness_requests.json") else { return };
    file.cases.check("add-checkpoint", |case| case.judge(&add_checkpoint(&case.id, &case.body())));
}

#[test]
fn shared_oversized_bodies_are_refused_for_their_length() {
    let Some(file) = load::<Requests>("witness_requests.json") else { return };
    let oversized: Vec<_> = file.cases.0.iter().filter(|case| case.body_rule.is_some()).collect();
    assert!(!oversized.is_empty());
    for case in oversized {
        let body = case.body();
        assert!(body.len() > REQUEST_BYTES_MAX);
        assert_eq!(AddCheckpoint::parse(&body), Err(RequestError::TooLong(body.len())), "{}", case.id);
    }
}

#[derive(Deserialize)]
struct Subtrees {
    witness_keys: Cases<WitnessKey>,
    cases: Cases<Case>,
}

#[derive(Deserialize)]
struct WitnessKey {
    #[serde(rename = "type")]
    kind: u8,
    name: String,
    seed: Hex,
}

#[test]
fn shared_sign_subtree_bodies_read_and_prove_or_not_as_stated() {
    let Some(file) = load::<Subtrees>("sign_subtree.json") else { return };
    let key = file.witness_keys.0.iter().find(|key| key.kind == Algorithm::CosignatureMlDsa44 as u8).unwrap();
    let name = KeyName::new(&*key.name).unwrap();
    let signer = SignerKey::from_seed(name, Algorithm::CosignatureMlDsa44, &key.seed.seed());
    file.cases.check("sign-subtree", |case| {
        let body = case.body();
        let read = SignSubtree::parse(&body).map_err(|error| error.to_string()).and_then(|request| {
            assert_eq!(request.to_string().as_bytes(), body, "{}: prints otherwise", case.id);
            let checkpoint =
                Checkpoint::parse(request.note.unverified_text()).map_err(|error| error.to_string())?;
            Ok((request, checkpoint))
        });
        let Ok((request, checkpoint)) = read else { return case.judge(&read.map(drop)) };
        let proven =
            verify_consistency(&request.subtree, checkpoint.size(), checkpoint.root(), &request.proof);
        match proven {
            Err(error @ SubtreeError::BeyondTree { .. }) => case.judge(&Err(error.to_string())),
            Err(error) if case.status == [OK] => Err(format!("{}: {error}", case.id)),
            Ok(()) if case.status == [UNPROCESSABLE] => Err(format!("{}: proven", case.id)),
            Ok(()) if case.status == [OK] => {
                let line = cosign_subtree(checkpoint.origin(), &request.subtree, &signer).unwrap();
                let key = signer.verifier();
                let time = verify_subtree(checkpoint.origin(), &request.subtree, line.signature(), key);
                if time == Ok(0) { case.judge(&Ok(())) } else { Err(format!("{}: {time:?}", case.id)) }
            }
            Ok(()) | Err(_) => case.judge(&Ok(())),
        }
    });
}

#[test]
fn own_add_checkpoint_bodies_read_or_fail_with_this_error() {
    own::walk("add-checkpoint", |case| {
        let request = AddCheckpoint::parse(&case.body).map_err(|error| error.to_string())?;
        assert_eq!(request.to_string().as_bytes(), case.body);
        assert_eq!(Some(request.old_size), case.value("old").map(number));
        assert_eq!(Some(request.proof.len() as u64), case.value("hashes").map(number));
        Ok(())
    });
}

#[test]
fn own_sign_subtree_bodies_read_and_prove_or_fail_with_this_error() {
    own::walk("sign-subtree", |case| {
        let request = SignSubtree::parse(&case.body).map_err(|error| error.to_string())?;
        assert_eq!(request.to_string().as_bytes(), case.body);
        let checkpoint = Checkpoint::parse(request.note.unverified_text()).unwrap();
        verify_consistency(&request.subtree, checkpoint.size(), checkpoint.root(), &request.proof)
            .map_err(|error| error.to_string())?;
        assert_eq!(Some(request.subtree.range.to_string().as_str()), case.value("range"));
        assert_eq!(Some(request.proof.len() as u64), case.value("hashes").map(number));
        Ok(())
    });
}

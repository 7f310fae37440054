//! cosignatures.json: Ed25519 cosignature/v1 and ML-DSA-44 subtree/v1 (c2sp.org/tlog-cosignature).

use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::cosignature::{self, cosign, cosign_subtree, verify_subtree};
use runseal_tlog::key::{Algorithm, KeyName, SignerKey, VerifierKey};
use runseal_tlog::note::{Note, VerifyError};
use runseal_tlog::subtree::{Subtree, SubtreeRange};
use serde::Deserialize;

use crate::own;
use crate::shared::{Answer, Base64, Cases, Expect, Hex, load, number};

#[derive(Deserialize)]
struct File {
    cosigners: Cases<Cosigner>,
    ed25519: Cases<Cosigned>,
    mldsa44_checkpoint: Cases<Cosigned>,
    mldsa44_subtree: Cases<CosignedSubtree>,
    vkeys: Cases<Vkey>,
}

#[derive(Deserialize)]
struct Cosigner {
    #[serde(rename = "type")]
    kind: u8,
    name: String,
    seed: Hex,
    key_id: String,
    vkey: String,
}

#[derive(Deserialize)]
struct Cosigned {
    id: String,
    note_b64: Base64,
    vkey: String,
    expect: Expect,
    timestamp: Option<String>,
}

#[derive(Deserialize)]
struct CosignedSubtree {
    id: String,
    vkey: String,
    origin: String,
    start: u64,
    end: u64,
    hash: Hex,
    timestamp: String,
    signature_b64: Base64,
    expect: Expect,
}

#[derive(Deserialize)]
struct Vkey {
    vkey: String,
    expect: Expect,
    why: String,
}

const DECIDED: &[(&str, Answer)] = &[
    // A space or plus in an origin is a SHOULD NOT of checkpoints, and readers must not assume more.
    ("ed-should-origin-plus-space", Answer::Accept),
    ("ml-should-origin-plus-space", Answer::Accept),
    // cosignature/v1 states a time, and zero is nobody's clock.
    ("ed-open-time-0", Answer::Refuse),
    // tlog-witness cosigns the empty tree.
    ("ml-open-size-0", Answer::Accept),
    // Another key ID is another key.
    ("ed-open-vkey-type-01", Answer::Refuse),
    // What is no subtree cannot be stated here.
    ("sub-open-invalid-range", Answer::Refuse),
];

fn signers(file: &File) -> Vec<SignerKey> {
    let signer = |case: &Cosigner| {
        let algorithm = Algorithm::from_byte(case.kind).unwrap();
        SignerKey::from_seed(KeyName::new(&*case.name).unwrap(), algorithm, &case.seed.seed())
    };
    file.cosigners.0.iter().map(signer).collect()
}

/// The time of the one valid cosignature of the case's key, and its text and line.
fn verify(case: &Cosigned) -> Result<(u64, Note), String> {
    let key: VerifierKey = case.vkey.parse().unwrap_or_else(|error| panic!("{}: {error}", case.id));
    let note = Note::parse(&case.note_b64.0).map_err(|error| error.to_string())?;
    let verified = note.verify([&key]).map_err(|error: VerifyError| error.to_string())?;
    let [verified] = verified.as_slice() else { return Err("several signatures".to_owned()) };
    Ok((verified.time.ok_or("a signature without a time")?, note))
}

fn checkpoints(cases: &Cases<Cosigned>, signers: &[SignerKey]) {
    let mut reproduced = 0;
    for case in &cases.0 {
        let Ok((time, note)) = verify(case) else { continue };
        if let Some(timestamp) = &case.timestamp {
            assert_eq!(time, number(timestamp), "{}", case.id);
        }
        // Both algorithms sign deterministically here: the genuine line is the line we would write.
        let signer = signers.iter().find(|signer| signer.verifier().to_string() == case.vkey);
        let checkpoint = Checkpoint::parse(note.unverified_text()).unwrap();
        if let Some(signer) = signer
            && let Ok(line) = cosign(&checkpoint, time, signer)
        {
            let genuine = note.signatures().iter().find(|line| line.is_of(signer.verifier()));
            assert_eq!(Some(&line), genuine, "{}", case.id);
            reproduced += 1;
        }
    }
    assert!(reproduced > 0, "no genuine cosignature was made again");
}

#[test]
fn shared_cosignatures_of_checkpoints_hold_or_not_as_stated() {
    let Some(file) = load::<File>("cosignatures.json") else { return };
    let signers = signers(&file);
    for (what, cases) in [("ed25519", &file.ed25519), ("mldsa44_checkpoint", &file.mldsa44_checkpoint)] {
        cases.check(what, |case| case.expect.judge(&case.id, DECIDED, &verify(case).map(drop)));
        checkpoints(cases, &signers);
    }
}

#[test]
fn shared_cosignatures_of_subtrees_hold_or_not_as_stated() {
    let Some(file) = load::<File>("cosignatures.json") else { return };
    let signers = signers(&file);
    file.mldsa44_subtree.check("mldsa44_subtree", |case| {
        let key: VerifierKey = case.vkey.parse().unwrap();
        let verified =
            SubtreeRange::new(case.start, case.end).map_err(|error| error.to_string()).and_then(|range| {
                let subtree = Subtree { range, hash: case.hash.hash() };
                verify_subtree(&case.origin, &subtree, &case.signature_b64.0, &key)
                    .map(|time| (time, subtree))
                    .map_err(|error| error.to_string())
            });
        if let Ok((time, subtree)) = verified {
            assert_eq!(time, number(&case.timestamp), "{}", case.id);
            let signer = signers.iter().find(|signer| *signer.verifier() == key).unwrap();
            let line = cosign_subtree(&case.origin, &subtree, signer).unwrap();
            assert_eq!(line.signature() == case.signature_b64.0, time == 0, "{}", case.id);
        }
        case.expect.judge(&case.id, DECIDED, &verified.map(drop))
    });
}

#[test]
fn shared_cosigner_keys_are_read_or_not_as_stated() {
    let Some(file) = load::<File>("cosignatures.json") else { return };
    file.vkeys.check("vkeys", |case| {
        let parsed = case.vkey.parse::<VerifierKey>();
        let printed = parsed.map(|key| assert_eq!(key.to_string(), case.vkey));
        case.expect.judge(&case.why, &[], &printed.map_err(|error| error.to_string()))
    });
    for (case, signer) in file.cosigners.0.iter().zip(signers(&file)) {
        assert_eq!(signer.verifier().to_string(), case.vkey);
        assert_eq!(signer.verifier().id().to_string(), case.key_id);
    }
}

#[test]
fn shared_genuine_time_limits_are_ours() {
    // The vectors state the largest time; the crate's constant is that time.
    let Some(file) = load::<File>("cosignatures.json") else { return };
    let largest = file.ed25519.0.iter().filter(|case| case.expect == Expect::Accept);
    let largest = largest.filter_map(|case| case.timestamp.as_deref()).map(number).max();
    assert_eq!(largest, Some(cosignature::TIME_MAX));
}

#[test]
fn own_cosignatures_hold_or_fail_with_this_error() {
    own::walk("cosignature", |case| {
        let key: VerifierKey = case.value("key").unwrap().parse().unwrap();
        let note = Note::parse(&case.body).unwrap();
        let verified = note.verify([&key]).map_err(|error| error.to_string())?;
        let time = case.value("time").map(number);
        assert_eq!(verified.iter().map(|line| line.time).collect::<Vec<_>>(), [time]);
        if let Some(seed) = case.value("seed") {
            let seed = hex::decode(seed).unwrap().try_into().unwrap();
            let signer = SignerKey::from_seed(key.name().clone(), key.algorithm(), &seed);
            let checkpoint = Checkpoint::parse(note.unverified_text()).unwrap();
            let line = cosign(&checkpoint, time.unwrap(), &signer).unwrap();
            assert_eq!(Some(&line), note.signatures().last());
        }
        Ok(())
    });
}

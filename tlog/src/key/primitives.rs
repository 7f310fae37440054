//! Published vectors of the two signature algorithms, held against what this crate signs and verifies.
//!
//! The vectors of RFC 8032 and the accumulated ML-DSA-44 digest always run. Wycheproof's and CCTV's are
//! read from `../shared/vectors` of the workspace, where present.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use shake::Shake128;
use shake::digest::{ExtendableOutput as _, Update as _, XofReader as _};

use super::*;

fn name() -> KeyName {
    KeyName::new("vectors.example").unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    hex::decode(hex).unwrap()
}

fn seed(hex: &str) -> [u8; SEED_BYTES] {
    bytes(hex).try_into().unwrap()
}

/// A shared file, or `None`, said aloud, where there is no shared collection.
fn load<T: DeserializeOwned>(file: &str) -> Option<T> {
    let collection = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors");
    if !collection.is_dir() {
        eprintln!("not run: {file}, for the shared vectors are absent");
        return None;
    }
    Some(serde_json::from_str(&fs::read_to_string(collection.join(file)).unwrap()).unwrap())
}

#[test]
fn the_rfc_8032_examples_sign_and_verify() {
    // Section 7.1, tests 1 to 3: seed, public key, message, signature.
    for [secret, public, message, signature] in [
        [
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ],
        [
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ],
        [
            "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        ],
    ] {
        let key = SignerKey::from_seed(name(), Algorithm::Ed25519, &seed(secret));
        assert_eq!(key.verifier().public_key(), bytes(public));
        assert_eq!(key.sign(&bytes(message)), bytes(signature));
        assert!(key.verifier().verifies(&bytes(message), &bytes(signature)));
        assert!(!key.verifier().verifies(b"another message", &bytes(signature)));
    }
}

#[test]
fn a_signature_with_a_small_order_r_is_refused() {
    // R is the neutral element and S = k * a: RFC 8032's equation holds, and only the owner of the key
    // can have made it, yet no signer ever does.
    let key = SignerKey::from_seed(name(), Algorithm::Ed25519, &[7; SEED_BYTES]);
    let signature = "0100000000000000000000000000000000000000000000000000000000000000\
                     d4c5323131ff9683cfb3d30197c786c9043f1052d6c2d5293f19d6f36b911104";
    assert!(!key.verifier().verifies(b"message", &bytes(signature)));
}

/// `s` and `a` are SHAKE128; N times: seed = the next 32 bytes of `s`; `a` takes up the ML-DSA-44 public
/// key of the seed, then its deterministic signature of the empty message. The result is `a`'s first 32
/// bytes (C2SP/CCTV, ML-DSA accumulated vectors).
fn accumulated(iterations: usize) -> String {
    let mut seeds = Shake128::default().finalize_xof();
    let mut all = Shake128::default();
    for _ in 0..iterations {
        let mut seed = [0; SEED_BYTES];
        seeds.read(&mut seed);
        let key = SignerKey::from_seed(name(), Algorithm::CosignatureMlDsa44, &seed);
        all.update(&key.verifier().public_key());
        all.update(&key.sign(b""));
    }
    let mut result = [0; 32];
    all.finalize_xof().read(&mut result);
    hex::encode(result)
}

#[test]
fn a_hundred_mldsa44_keys_and_signatures_have_the_published_digest() {
    assert_eq!(accumulated(100), "d51148e1f9f4fa1a723a6cf42e25f2a99eb5c1b378b3d2dbbd561b1203beeae4");
}

#[derive(Deserialize)]
struct Accumulated {
    results: Vec<AccumulatedResult>,
}

#[derive(Deserialize)]
struct AccumulatedResult {
    iterations: usize,
    hex: String,
}

#[test]
#[ignore = "ten thousand keys and signatures: half a minute unoptimised, for releases"]
fn shared_accumulated_digests_agree() {
    let Some(file) = load::<Accumulated>("mldsa44_accumulated.json") else { return };
    assert!(!file.results.is_empty());
    for case in file.results {
        assert_eq!(accumulated(case.iterations), case.hex, "{} iterations", case.iterations);
    }
}

#[derive(Deserialize)]
struct Edge {
    number: u32,
    key: String,
    sig: String,
    msg: String,
    flags: Option<Vec<Flag>>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
enum Flag {
    #[serde(rename = "low_order_A")]
    LowOrderA,
    #[serde(rename = "low_order_R")]
    LowOrderR,
    #[serde(rename = "non_canonical_A")]
    NonCanonicalA,
    #[serde(rename = "non_canonical_R")]
    NonCanonicalR,
    #[serde(rename = "low_order_component_A")]
    LowOrderComponentA,
    #[serde(rename = "low_order_component_R")]
    LowOrderComponentR,
    LowOrderResidue,
    ReencodedK,
}

/// The one answer of this crate on CCTV's edge cases: stricter than RFC 8032 must be. A public key of low
/// order or in a non-canonical encoding cannot be had; an R like that, and an equation that only holds
/// up to a point of low order, are refused. Components of low order alone do no harm and are accepted,
/// as RFC 8032's equation without cofactor has it.
#[test]
fn shared_edge_cases_are_answered_alike() {
    let Some(cases) = load::<Vec<Edge>>("c2sp-cctv/ed25519vectors.json") else { return };
    assert!(!cases.is_empty());
    for case in cases {
        let has = |flags: &[Flag]| case.flags.iter().flatten().any(|flag| flags.contains(flag));
        let key = VerifierKey::new(name(), Algorithm::Ed25519, &bytes(&case.key));
        if has(&[Flag::LowOrderA, Flag::NonCanonicalA]) {
            assert_eq!(key.unwrap_err(), KeyError::WeakKey, "{}", case.number);
            continue;
        }
        let refused = has(&[Flag::LowOrderR, Flag::NonCanonicalR, Flag::LowOrderResidue]);
        let verified = key.unwrap().verifies(case.msg.as_bytes(), &bytes(&case.sig));
        assert_eq!(verified, !refused, "{}: {:?}", case.number, case.flags);
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wycheproof<G> {
    test_groups: Vec<G>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EddsaGroup {
    public_key: EddsaKey,
    tests: Vec<Case>,
}

#[derive(Deserialize)]
struct EddsaKey {
    pk: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VerifyGroup {
    public_key: String,
    tests: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignGroup {
    private_seed: String,
    public_key: Option<String>,
    tests: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    tc_id: u32,
    comment: String,
    /// Absent where only the inner hash is given.
    msg: Option<String>,
    #[serde(default)]
    ctx: String,
    sig: String,
    result: Verdict,
    #[serde(default)]
    flags: Vec<String>,
}

#[derive(Deserialize, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Valid,
    Invalid,
}

impl Case {
    /// Whether this crate must accept: subtree/v1 names no context, so that a signature made in one is
    /// not a signature here.
    fn valid_here(&self) -> bool {
        self.result == Verdict::Valid && self.ctx.is_empty()
    }
}

#[test]
fn shared_wycheproof_ed25519_verdicts_are_ours() {
    let Some(file) = load::<Wycheproof<EddsaGroup>>("c2sp-wycheproof/ed25519_test.json") else { return };
    assert!(!file.test_groups.is_empty());
    for group in file.test_groups {
        let key = VerifierKey::new(name(), Algorithm::Ed25519, &bytes(&group.public_key.pk)).unwrap();
        for case in group.tests {
            let message = bytes(case.msg.as_deref().unwrap());
            let verified = key.verifies(&message, &bytes(&case.sig));
            assert_eq!(verified, case.valid_here(), "{} {}", case.tc_id, case.comment);
        }
    }
}

#[test]
fn shared_wycheproof_mldsa44_verdicts_are_ours() {
    let Some(file) = load::<Wycheproof<VerifyGroup>>("c2sp-wycheproof/mldsa_44_verify_test.json") else {
        return;
    };
    assert!(!file.test_groups.is_empty());
    for group in file.test_groups {
        let key = VerifierKey::new(name(), Algorithm::CosignatureMlDsa44, &bytes(&group.public_key));
        for case in group.tests {
            let message = bytes(case.msg.as_deref().unwrap());
            let verified = key.as_ref().is_ok_and(|key| key.verifies(&message, &bytes(&case.sig)));
            assert_eq!(verified, case.valid_here(), "{} {}", case.tc_id, case.comment);
        }
    }
}

#[test]
fn shared_wycheproof_mldsa44_signatures_are_ours() {
    let Some(file) = load::<Wycheproof<SignGroup>>("c2sp-wycheproof/mldsa_44_sign_seed_test.json") else {
        return;
    };
    let mut reproduced = 0;
    for group in file.test_groups {
        let Ok(seed) = <[u8; SEED_BYTES]>::try_from(bytes(&group.private_seed)) else {
            // A seed of another length does not fit a key here, and a line that holds one is refused.
            assert!(group.tests.iter().all(|case| case.result == Verdict::Invalid));
            let material = [&[Algorithm::CosignatureMlDsa44 as u8][..], &bytes(&group.private_seed)].concat();
            let line = format!("PRIVATE+KEY+vectors.example+00000000+{}", text::base64(&material));
            assert!(matches!(SignerKey::parse(&line), Err(KeyError::Length { expected: 32, .. })));
            continue;
        };
        let key = SignerKey::from_seed(name(), Algorithm::CosignatureMlDsa44, &seed);
        if let Some(public_key) = group.public_key {
            assert_eq!(key.verifier().public_key(), bytes(&public_key));
        }
        for case in group.tests {
            // Only the outer interface is offered: cases that hand in the inner hash have no message.
            let Some(message) = case.msg.as_deref().map(bytes) else { continue };
            let ours = key.sign(&message);
            let hedged = case.flags.iter().any(|flag| flag == "Randomized");
            let same = case.valid_here() && !hedged;
            assert_eq!(ours == bytes(&case.sig), same, "{} {}", case.tc_id, case.comment);
            assert_eq!(
                key.verifier().verifies(&message, &bytes(&case.sig)),
                case.valid_here(),
                "{} {}",
                case.tc_id,
                case.comment
            );
            reproduced += usize::from(same);
        }
    }
    assert!(reproduced > 0, "no signature was made again");
}

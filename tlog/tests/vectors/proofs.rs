//! proofs.json: offline proofs, read and verified (c2sp.org/tlog-proof).

use runseal_tlog::hash::LeafHash;
use runseal_tlog::inclusion;
use runseal_tlog::policy::Policy;
use runseal_tlog::proof::TlogProof;
use serde::Deserialize;

use crate::own;
use crate::shared::{Answer, Base64, Cases, Expect, Hex, load, number};

#[derive(Deserialize)]
struct File {
    cases: Cases<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    proof_b64: Base64,
    origin: String,
    log_vkeys: Vec<String>,
    witnesses: Vec<String>,
    quorum: usize,
    leaf_b64: Base64,
    expect: Expect,
    parsed: Option<Parsed>,
}

#[derive(Deserialize)]
struct Parsed {
    index: String,
    extra_b64: Option<Base64>,
    hashes: Vec<Hex>,
    size: String,
    root: Hex,
}

const DECIDED: &[(&str, Answer)] = &[
    // No extra data has one spelling: no line.
    ("open-extra-empty", Answer::Refuse),
    ("open-extra-keyword-only", Answer::Refuse),
    // One proof, one spelling.
    ("open-hash-trailing-bits", Answer::Refuse),
];

impl Case {
    /// The trust that the case configures, as a policy file.
    fn policy(&self) -> Policy {
        let names: Vec<String> = (1..=self.witnesses.len()).map(|number| format!("W{number}")).collect();
        let logs = self.log_vkeys.iter().map(|vkey| format!("log {vkey}"));
        let witnesses =
            names.iter().zip(&self.witnesses).map(|(name, vkey)| format!("witness {name} {vkey}"));
        let mut lines: Vec<String> = logs.chain(witnesses).collect();
        if self.quorum == 0 {
            lines.push("quorum none".to_owned());
        } else {
            lines.push(format!("group Q {} {}", self.quorum, names.join(" ")));
            lines.push("quorum Q".to_owned());
        }
        let text = lines.join("\n") + "\n";
        Policy::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", self.id))
    }

    /// The steps of "Verifying a tlog proof".
    fn verify(&self) -> Result<(), String> {
        let proof = TlogProof::parse(&self.proof_b64.0).map_err(|error| error.to_string())?;
        assert_eq!(proof.to_string().as_bytes(), self.proof_b64.0, "{}: prints otherwise", self.id);
        let signed = self.policy().accept(&proof.note).map_err(|error| error.to_string())?;
        let checkpoint = signed.checkpoint();
        if checkpoint.origin() != self.origin {
            return Err(format!("origin {}", checkpoint.origin()));
        }
        let leaf = LeafHash::of(&self.leaf_b64.0);
        inclusion::verify(proof.index, checkpoint.size(), leaf, &proof.hashes, checkpoint.root())
            .map_err(|error| error.to_string())?;
        if let Some(parsed) = &self.parsed {
            let hashes: Vec<_> = parsed.hashes.iter().map(Hex::hash).collect();
            assert_eq!(proof.index, number(&parsed.index), "{}", self.id);
            assert_eq!(proof.hashes, hashes, "{}", self.id);
            assert_eq!(proof.extra.as_ref(), parsed.extra_b64.as_ref().map(|extra| &extra.0), "{}", self.id);
            assert_eq!(checkpoint.size(), number(&parsed.size), "{}", self.id);
            assert_eq!(*checkpoint.root(), parsed.root.hash(), "{}", self.id);
        }
        Ok(())
    }
}

#[test]
fn shared_proofs_hold_or_not_as_stated() {
    let Some(file) = load::<File>("proofs.json") else { return };
    file.cases.check("proofs", |case| case.expect.judge(&case.id, DECIDED, &case.verify()));
}

#[test]
fn own_proofs_hold_or_fail_with_this_error() {
    own::walk("proof", |case| {
        let policy: String = case.values("policy-line").flat_map(|line| [line, "\n"]).collect();
        let policy = Policy::parse(policy.as_bytes()).unwrap();
        let leaf = LeafHash::of(case.value("leaf").unwrap().as_bytes());
        let proof = TlogProof::parse(&case.body).map_err(|error| error.to_string())?;
        assert_eq!(proof.to_string().as_bytes(), case.body);
        let signed = policy.accept(&proof.note).map_err(|error| error.to_string())?;
        let checkpoint = signed.checkpoint();
        inclusion::verify(proof.index, checkpoint.size(), leaf, &proof.hashes, checkpoint.root())
            .map_err(|error| error.to_string())
    });
}

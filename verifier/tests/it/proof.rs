//! Proof files and fraud proofs.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runseal_evidence::finding::FindingKind::*;
use runseal_evidence::report::{Scope, Verdict};
use serde_json::Value;

use crate::command::{run, text, verifier};
use crate::plane::{Plane, log_key};

#[test]
fn a_proof_holds_and_each_broken_part_is_named() {
    let plane = Plane::sample();
    let (file, policy) = (plane.path("proof"), plane.policy());
    let check = |proof: &str| {
        fs::write(&file, proof).unwrap();
        run(&plane, &["proof", text(&file), "--policy", text(&policy)])
    };
    for index in 0..9 {
        let result = check(&plane.proof(index));
        assert_eq!(result.code, 0, "{index}: {}", result.show());
    }
    let proof = plane.proof(4);
    let path = check(&proof.replacen("index 4", "index 5", 1));
    assert_eq!((path.code, path.kinds()), (1, vec![EntryMismatch]), "{}", path.show());
    assert!(path.stdout.contains("ok   quorum"), "the root is trusted, the path is not: {}", path.stdout);
    let note = plane.note(9).to_string();
    let quorum = check(&proof.replacen(&note, &plane.note_by(9, &[2]).to_string(), 1));
    assert_eq!((quorum.code, quorum.kinds()), (1, vec![QuorumNotMet]), "{}", quorum.show());
    assert!(quorum.stdout.contains("ok   inclusion"), "{}", quorum.stdout);
    let signature = check(&proof.replacen("plane.example/log/acme\n9\n", "plane.example/log/acme\n8\n", 1));
    assert_eq!((signature.code, signature.kinds()), (1, vec![CheckpointSignature]), "{}", signature.show());
    let malformed = check(&proof.replacen("index 4", "index 04", 1));
    assert_eq!((malformed.code, malformed.kinds()), (1, vec![Malformed]), "{}", malformed.show());
    for (content, expected) in [
        ("hello\n".to_owned(), "not a tlog-proof file"),
        (
            proof.lines().filter(|line| !line.starts_with("extra")).map(|line| format!("{line}\n")).collect(),
            "--entry",
        ),
        (proof.replacen("plane.example/log/acme\n", "elsewhere.example\n", 1), "lists no log"),
    ] {
        let result = check(&content);
        assert_eq!(result.code, 2, "{}", result.show());
        assert!(result.stderr.contains(expected), "{}", result.show());
    }
}

#[test]
fn a_fraud_proof_convicts_only_where_it_holds() {
    let plane = Plane::sample();
    let (file, policy) = (plane.path("fraud"), plane.policy());
    let check = |proof: &str| {
        fs::write(&file, proof).unwrap();
        run(&plane, &["fraud", text(&file), "--policy", text(&policy)])
    };
    let mut other = Plane::sample();
    other.entries.swap(0, 1);
    let split = format!("runseal/fraud-proof@v1\n\n{}\n{}", plane.note(9), other.note(9));
    let proven = check(&split);
    assert_eq!(proven.code, 1, "{}", proven.show());
    assert!(proven.stdout.contains("signed two histories"), "{}", proven.stdout);
    assert_eq!(proven.kinds(), [Fork]);
    let report = proven.report();
    assert_eq!((report.verdict(), report.scope), (Verdict::Tampered, Scope::FraudProof));
    assert_eq!(report.log.as_ref().map(|log| log.checkpoint.clone()), Some(other.note(9).to_string()));
    for (what, proof) in [
        ("one history", format!("runseal/fraud-proof@v1\n\n{}\n{}", plane.note(9), plane.note(9))),
        ("growth", format!("runseal/fraud-proof@v1\n\n{}\n{}", plane.note(5), plane.note(9))),
        ("the empty tree", format!("runseal/fraud-proof@v1\n\n{}\n{}", plane.note(0), plane.note(9))),
        ("reversed", format!("runseal/fraud-proof@v1\n\n{}\n{}", other.note(9), plane.note(5))),
        (
            "an unsigned note",
            split
                .replacen(&log_key().verifier().id().to_string(), "00000000", 1)
                .replacen("\n9\n", "\n7\n", 1),
        ),
        ("another log", split.replace("plane.example/log/acme", "plane.example/log/evil")),
        ("no proof", "hello\n".to_owned()),
        ("nothing", String::new()),
        ("one note", format!("runseal/fraud-proof@v1\n\n{}", plane.note(9))),
    ] {
        let result = check(&proof);
        assert_eq!(result.code, 2, "{what}: {}", result.show());
        assert!(result.stderr.contains("proves nothing"), "{what}: {}", result.show());
        assert!(result.report.is_none(), "{what}: what proves nothing gets no report");
    }
}

#[test]
fn the_published_proof_vectors_get_their_verdicts() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/vectors/proofs.json");
    let Ok(bytes) = fs::read(path) else {
        eprintln!("{path} is absent: the published vectors are not run");
        return;
    };
    let vectors: Value = serde_json::from_slice(&bytes).unwrap();
    let plane = Plane::new();
    let mut checked = 0;
    for case in vectors["cases"].as_array().unwrap() {
        let id = case["id"].as_str().unwrap();
        let Some(verdict) = proof_vector(&plane, case) else { continue };
        checked += 1;
        match case["expect"].as_str().unwrap() {
            "accept" => assert_eq!(verdict, 0, "{id}: {}", case["stage"]),
            "reject" => assert!(verdict == 1 || verdict == 2, "{id}: {verdict}"),
            _ => assert!((0..=2).contains(&verdict), "{id}: {verdict}"),
        }
    }
    assert!(checked > 100, "{checked}");
}

fn proof_vector(plane: &Plane, case: &Value) -> Option<i32> {
    let decode = |field: &str| STANDARD.decode(case[field].as_str()?).ok();
    let mut policy = String::new();
    for vkey in case["log_vkeys"].as_array()? {
        policy += &format!("log {}\n", vkey.as_str()?);
    }
    let witnesses = case["witnesses"].as_array()?;
    for (at, vkey) in witnesses.iter().enumerate() {
        policy += &format!("witness w{at} {}\n", vkey.as_str()?);
    }
    let k = case["quorum"].as_u64()?;
    if k == 0 {
        policy += "quorum none\n";
    } else {
        let names: Vec<String> = (0..witnesses.len()).map(|at| format!("w{at}")).collect();
        policy += &format!("group g {k} {}\nquorum g\n", names.join(" "));
    }
    let (policy_file, proof, leaf) = (plane.path("policy"), plane.path("proof"), plane.path("leaf"));
    fs::write(&policy_file, policy).unwrap();
    fs::write(&proof, decode("proof_b64")?).unwrap();
    fs::write(&leaf, decode("leaf_b64")?).unwrap();
    let origin = case["origin"].as_str()?;
    code(&[
        "proof",
        text(&proof),
        "--log",
        origin,
        "--policy",
        text(&policy_file),
        "--entry",
        text(&leaf),
        "--quiet",
    ])
}

#[test]
fn the_published_policy_vectors_get_their_verdicts() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/vectors/policies.json");
    let Ok(bytes) = fs::read(path) else {
        eprintln!("{path} is absent: the published vectors are not run");
        return;
    };
    let vectors: Value = serde_json::from_slice(&bytes).unwrap();
    let plane = Plane::new();
    let (policy, dir) = (plane.path("policy"), plane.path("log"));
    fs::create_dir_all(&dir).unwrap();
    for case in vectors["checkpoints"].as_array().unwrap() {
        let id = case["id"].as_str().unwrap();
        let of = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
        fs::write(&policy, of(&vectors["policies"][case["policy"].as_str().unwrap()])).unwrap();
        fs::write(dir.join("checkpoint"), of(&case["note_b64"])).unwrap();
        let note = String::from_utf8_lossy(&of(&case["note_b64"])).into_owned();
        let origin = note.lines().next().unwrap_or_default().to_owned();
        let json = plane.path("report.json");
        let _ = fs::remove_file(&json);
        let args = [
            "audit",
            "--policy",
            text(&policy),
            "--url",
            text(&dir),
            "--log",
            &origin,
            "--json",
            text(&json),
        ];
        let output = verifier().args(args).output().unwrap();
        let report: Option<Value> = fs::read(&json).ok().map(|json| serde_json::from_slice(&json).unwrap());
        let accepted =
            report.as_ref().is_some_and(|report| report["findings"].as_array().unwrap().is_empty());
        match case["expect"].as_str().unwrap() {
            // The tree behind these checkpoints is not published, so an accepted one ends as incomplete.
            "accept" => assert!(accepted, "{id}: {}", String::from_utf8_lossy(&output.stdout)),
            "reject" => assert!(
                !accepted && output.status.code() != Some(0),
                "{id}: {}",
                String::from_utf8_lossy(&output.stdout)
            ),
            _ => {}
        }
    }
}

fn code(args: &[&str]) -> Option<i32> {
    verifier().args(args).output().unwrap().status.code()
}

#[test]
fn an_entry_may_come_from_a_file_or_from_stdin() {
    let plane = Plane::sample();
    let (file, entry, policy) = (plane.path("proof"), plane.path("entry"), plane.policy());
    let bare: String = plane
        .proof(3)
        .lines()
        .filter(|line| !line.starts_with("extra"))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&file, bare).unwrap();
    fs::write(&entry, &plane.entries[3]).unwrap();
    let args = |from: &Path| {
        vec![
            "proof".to_owned(),
            text(&file).to_owned(),
            "--policy".to_owned(),
            text(&policy).to_owned(),
            "--entry".to_owned(),
            text(from).to_owned(),
        ]
    };
    assert_eq!(verifier().args(args(&entry)).output().unwrap().status.code(), Some(0));
    let stdin = fs::File::open(&entry).unwrap();
    assert_eq!(verifier().args(args(Path::new("-"))).stdin(stdin).output().unwrap().status.code(), Some(0));
    let wrong = fs::File::open(&file).unwrap();
    assert_eq!(verifier().args(args(Path::new("-"))).stdin(wrong).output().unwrap().status.code(), Some(1));
}

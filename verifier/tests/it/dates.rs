//! Dated policies: keys that are trusted from a day on and until another.

use std::fs;

use runseal_evidence::finding::FindingKind::*;
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::cosignature::cosign;
use runseal_tlog::key::{Algorithm, SignerKey};
use runseal_tlog::policy::Policy;

use crate::command::{run, text};
use crate::plane::{NOON, Plane, log_key, witness_key};

fn day(offset: i64) -> String {
    jiff::Timestamp::from_second(i64::try_from(NOON).unwrap() + offset * 86_400).unwrap().to_string()
}

#[test]
fn a_proof_verifies_as_of_its_time_and_a_retired_key_signs_nothing_new() {
    let mut plane = Plane::sample();
    let (file, policy) = (plane.path("proof"), plane.path("dated.txt"));
    let new = SignerKey::from_seed(log_key().verifier().name().clone(), Algorithm::Ed25519, &[8; 32]);
    let dated = format!(
        "# valid-from {}\n# valid-until {}\nlog {}\n# valid-from {}\nlog {}\nwitness w1 {}\nwitness w2 {}\ngroup g all w1 w2\nquorum g\n",
        day(-10),
        day(0),
        log_key().verifier(),
        day(0),
        new.verifier(),
        witness_key(1).verifier(),
        witness_key(2).verifier(),
    );
    fs::write(&policy, &dated).unwrap();
    // A plain reader sees the same policy without dates.
    let plain: String =
        dated.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    assert_eq!(Policy::parse(dated.as_bytes()), Policy::parse(plain.as_bytes()));
    for (offset, code) in [(-11, 1), (-10, 0), (-5, 0), (0, 0), (1, 1)] {
        plane.time = NOON.checked_add_signed(offset * 86_400).unwrap();
        fs::write(&file, plane.proof(3)).unwrap();
        let result = run(&plane, &["proof", text(&file), "--policy", text(&policy)]);
        assert_eq!(result.code, code, "day {offset}: {}", result.show());
        if code == 1 {
            assert_eq!(result.kinds(), [CheckpointSignature], "{}", result.show());
            assert!(result.stdout.contains("was not trusted when"), "{}", result.stdout);
        }
    }
    // The time is the one by which the quorum had cosigned, not the one a single witness claims.
    let checkpoint = Checkpoint::parse(plane.note(9).unverified_text()).unwrap();
    let mut note = checkpoint.sign(&log_key()).unwrap();
    note.add(cosign(&checkpoint, NOON - 86_400, &witness_key(1)).unwrap()).unwrap();
    note.add(cosign(&checkpoint, NOON + 86_400, &witness_key(2)).unwrap()).unwrap();
    let honest = plane.proof(3);
    let head = honest.split("\n\n").next().unwrap();
    fs::write(&file, format!("{head}\n\n{note}")).unwrap();
    let late = run(&plane, &["proof", text(&file), "--policy", text(&policy)]);
    assert_eq!((late.code, late.kinds()), (1, vec![CheckpointSignature]), "{}", late.show());
    // The new key, for new checkpoints.
    let mut note = checkpoint.sign(&new).unwrap();
    for seed in [1, 2] {
        note.add(cosign(&checkpoint, NOON + 86_400, &witness_key(seed)).unwrap()).unwrap();
    }
    fs::write(&file, format!("{head}\n\n{note}")).unwrap();
    let rotated = run(&plane, &["proof", text(&file), "--policy", text(&policy)]);
    assert_eq!(rotated.code, 0, "{}", rotated.show());
}

#[test]
fn a_witness_counts_within_its_dates() {
    let plane = Plane::sample();
    let (file, policy) = (plane.path("proof"), plane.path("dated.txt"));
    fs::write(&file, plane.proof(3)).unwrap();
    for (from, until, code) in [(-1, 1, 0), (0, 0, 0), (1, 2, 1), (-2, -1, 1)] {
        let dated = format!(
            "log {}\n# valid-from {}\n# valid-until {}\nwitness w1 {}\nwitness w2 {}\ngroup g all w1 w2\nquorum g\n",
            log_key().verifier(),
            day(from),
            day(until),
            witness_key(1).verifier(),
            witness_key(2).verifier(),
        );
        fs::write(&policy, dated).unwrap();
        let result = run(&plane, &["proof", text(&file), "--policy", text(&policy)]);
        assert_eq!(result.code, code, "{from} to {until}: {}", result.show());
        if code == 1 {
            assert_eq!(result.kinds(), [QuorumNotMet], "{}", result.show());
        }
    }
    let without_time = format!("# valid-until {}\nlog {}\nquorum none\n", day(1), log_key().verifier());
    fs::write(&policy, without_time).unwrap();
    let unknown = run(&plane, &["proof", text(&file), "--policy", text(&policy)]);
    assert_eq!((unknown.code, unknown.kinds()), (3, vec![]), "{}", unknown.show());
    fs::write(&policy, format!("# valid-untill {}\nlog {}\nquorum none\n", day(1), log_key().verifier()))
        .unwrap();
    let typo = run(&plane, &["proof", text(&file), "--policy", text(&policy)]);
    assert_eq!(typo.code, 2, "{}", typo.show());
    assert!(typo.stderr.contains("line 1") && typo.stderr.contains("valid-until"), "{}", typo.stderr);
}

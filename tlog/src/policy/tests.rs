use super::*;
use crate::key::{Algorithm, SignerKey};

fn vkey(seed: u8, algorithm: Algorithm) -> String {
    let name = KeyName::new(format!("k{seed}.example")).unwrap();
    SignerKey::from_seed(name, algorithm, &[seed; 32]).verifier().to_string()
}

fn cosigner(seed: u8) -> String {
    vkey(seed, Algorithm::CosignatureEd25519)
}

#[test]
fn the_specification_example_counts_as_it_says() {
    let mut text = format!("log {}\n", vkey(1, Algorithm::Ed25519));
    for (seed, name) in (10..).zip(["X1", "X2", "X3", "Y1", "Y2", "Y3"]) {
        text += "\twitness ";
        text += name;
        text += "  ";
        text += &cosigner(seed);
        text += "\n";
    }
    text += "group X-witnesses 2 X1 X2 X3\ngroup Y-witnesses any Y1 Y2 Y3\n\
        group X-and-Y all X-witnesses Y-witnesses\nquorum X-and-Y\n";
    let policy = Policy::parse(text.as_bytes()).unwrap();
    let met = |set: &[usize]| policy.quorum_met(|witness| set.contains(&witness));
    assert!(met(&[0, 1, 3]) && met(&[1, 2, 5]));
    assert!(!met(&[0, 1]) && !met(&[0, 3, 4, 5]) && !met(&[]));
}

#[test]
fn each_line_of_a_checkpoint_is_examined_and_a_witness_counts_once() {
    let signer = |seed: u8, algorithm| {
        SignerKey::from_seed(KeyName::new(format!("k{seed}.example")).unwrap(), algorithm, &[seed; 32])
    };
    let log = signer(1, Algorithm::Ed25519);
    let [a, b, stranger] = [2, 3, 4].map(|seed| signer(seed, Algorithm::CosignatureEd25519));
    let text = format!(
        "log {}\nwitness A {}\nwitness B {}\ngroup G all A B\nquorum G\n",
        log.verifier(),
        a.verifier(),
        b.verifier()
    );
    let policy = Policy::parse(text.as_bytes()).unwrap();
    let checkpoint = Checkpoint::new("k1.example", 0, crate::hash::NodeHash::EMPTY_ROOT).unwrap();
    let other = Checkpoint::new("other.example", 0, crate::hash::NodeHash::EMPTY_ROOT).unwrap();
    let mut note = checkpoint.sign(&log).unwrap();
    for (cosigned, time, key) in
        [(&checkpoint, 5, &a), (&checkpoint, 6, &a), (&checkpoint, 7, &stranger), (&other, 8, &b)]
    {
        note.add(crate::cosignature::cosign(cosigned, time, key).unwrap()).unwrap();
    }
    let examination = policy.examine(&note).unwrap();
    assert_eq!(examination.log, LogStatus::Signed);
    let lines: Vec<_> =
        examination.cosignatures.iter().map(|line| (line.witness, line.time, line.status)).collect();
    assert_eq!(
        lines,
        [
            (Some(0), Some(5), CosignatureStatus::Valid),
            (Some(0), Some(6), CosignatureStatus::Invalid),
            (None, None, CosignatureStatus::Unknown),
            (Some(1), Some(8), CosignatureStatus::Invalid),
        ]
    );
    assert!(!examination.quorum_met);
    assert!(policy.accept(&note).is_err());
}

#[test]
fn faults_name_their_line() {
    let (a, b) = (cosigner(1), cosigner(2));
    let twice = format!("witness A {a}\nwitness B {a}\nquorum A\n");
    assert_eq!(
        Policy::parse(twice.as_bytes()),
        Err(PolicyError { line: 2, fault: PolicyFault::DuplicateWitness(1) })
    );
    let forward = format!("group G any B\nwitness B {b}\nquorum G\n");
    assert_eq!(Policy::parse(forward.as_bytes()).unwrap_err().line, 1);
    let none = format!("witness A {a}\n");
    assert_eq!(Policy::parse(none.as_bytes()), Err(PolicyError { line: 1, fault: PolicyFault::NoQuorum }));
}

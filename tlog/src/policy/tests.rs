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

#[test]
fn a_policy_says_what_its_file_says() {
    let logs = [vkey(1, Algorithm::Ed25519), vkey(2, Algorithm::Ed25519)];
    let witnesses = [cosigner(3), cosigner(4)];
    let text = format!(
        "# two of each\n\nlog {}\nlog {} https://log.example/\nwitness A {}\nwitness \u{e4} {} https://\u{e4}.example\n\
         group G any A\ngroup H all G \u{e4}\nquorum H\n",
        logs[0], logs[1], witnesses[0], witnesses[1]
    );
    let policy = Policy::parse(text.as_bytes()).unwrap();
    let listed: Vec<_> =
        policy.logs().iter().map(|log| (log.origin(), log.key.to_string(), log.url())).collect();
    assert_eq!(
        listed,
        [
            ("k1.example", logs[0].clone(), None),
            ("k2.example", logs[1].clone(), Some("https://log.example/")),
        ]
    );
    let listed: Vec<_> = policy
        .witnesses()
        .iter()
        .map(|witness| (witness.name.to_string(), witness.key.to_string(), witness.url()))
        .collect();
    assert_eq!(
        listed,
        [
            ("A".to_owned(), witnesses[0].clone(), None),
            ("\u{e4}".to_owned(), witnesses[1].clone(), Some("https://\u{e4}.example")),
        ]
    );
    assert_eq!(policy.group_count(), 2);
    assert_eq!(policy.quorum_name().as_bytes(), b"H");
    assert_eq!(format!("{:?}", policy.quorum_name()), "\"H\"");
    assert!(!policy.quorum_is_none() && !policy.quorum_met(|_| false));
    assert_eq!(policy.log_keys("k2.example").map(ToString::to_string).collect::<Vec<_>>(), [logs[1].clone()]);

    let none = Policy::parse(b"quorum none\n").unwrap();
    assert!(none.quorum_is_none() && none.quorum_met(|_| false));
    assert_eq!((none.logs().len(), none.witnesses().len(), none.group_count()), (0, 0, 0));
}

#[test]
fn a_name_or_url_that_is_no_text_is_kept_apart_from_one_that_is() {
    let mut text = format!("witness A {} ", cosigner(1)).into_bytes();
    text.extend_from_slice(b"\xff\nwitness \xff ");
    text.extend_from_slice(cosigner(2).as_bytes());
    text.extend_from_slice(b"\nquorum \xff\n");
    let policy = Policy::parse(&text).unwrap();
    assert_eq!(policy.witnesses()[0].url(), None);
    assert_eq!(policy.quorum_name().as_bytes(), b"\xff");
    assert_eq!(policy.quorum_name().to_string(), "\u{fffd}");
    assert!(policy.quorum_met(|witness| witness == 1) && !policy.quorum_met(|witness| witness == 0));
}

#[test]
fn every_fault_is_told_from_the_others() {
    use PolicyFault::*;

    let [log, a, b] = [vkey(1, Algorithm::Ed25519), cosigner(2), cosigner(3)];
    let witnesses = format!("witness A {a}\nwitness B {b}\n");
    let name = |name: &str| PolicyName(name.as_bytes().to_vec());
    let threshold = |text: &str| Threshold { threshold: text.to_owned(), members: 2 };
    for (text, line, fault) in [
        (String::new(), 1, NoQuorum),
        ("\n".to_owned(), 1, NoQuorum),
        ("quorum none".to_owned(), 1, NoFinalNewline),
        ("# one\nquorum none".to_owned(), 2, NoFinalNewline),
        ("quorum none\r\n".to_owned(), 1, Control(b'\r')),
        ("#\u{1f}\n".to_owned(), 1, Control(0x1f)),
        ("#\u{7f}\n".to_owned(), 1, Control(0x7f)),
        ("\nlogs\n".to_owned(), 2, Keyword("logs".to_owned())),
        ("log\n".to_owned(), 1, Items("log <vkey> [<url>]")),
        (format!("log {log} one two\n"), 1, Items("log <vkey> [<url>]")),
        ("witness A\n".to_owned(), 1, Items("witness <name> <vkey> [<url>]")),
        (format!("witness A {a} one two\n"), 1, Items("witness <name> <vkey> [<url>]")),
        ("group G\n".to_owned(), 1, Items("group <name> <any|all|k> <name>...")),
        (
            "group G any\n".to_owned(),
            1,
            Items("group <name> <any|all|k> <name>..., with at least one member"),
        ),
        ("quorum\n".to_owned(), 1, Items("quorum <name>")),
        ("quorum none none\n".to_owned(), 1, Items("quorum <name>")),
        (format!("witness A {log}\n"), 1, NotACosigner(1)),
        (format!("log {log}\n#\nlog {log}\n"), 3, DuplicateLog(1)),
        (format!("#\nwitness A {a}\nwitness B {a}\n"), 3, DuplicateWitness(2)),
        (format!("witness A {a}\nwitness A {b}\n"), 2, DuplicateName(name("A"))),
        (format!("{witnesses}group A all B\n"), 3, DuplicateName(name("A"))),
        (format!("witness none {a}\n"), 1, None),
        (format!("{witnesses}group none all A\n"), 3, None),
        (format!("{witnesses}group G all A none\n"), 3, None),
        (format!("{witnesses}group G all A G\n"), 3, Undefined(name("G"))),
        ("quorum A\n".to_owned(), 1, Undefined(name("A"))),
        (format!("{witnesses}group G all A A\n"), 3, AlreadyMember(name("A"))),
        (format!("{witnesses}group G any A\ngroup H any A\n"), 4, AlreadyMember(name("A"))),
        (format!("{witnesses}group G 0 A B\n"), 3, threshold("0")),
        (format!("{witnesses}group G 3 A B\n"), 3, threshold("3")),
        (format!("{witnesses}group G 01 A B\n"), 3, threshold("01")),
        (format!("{witnesses}group G some A B\n"), 3, threshold("some")),
        ("\nquorum none\nquorum none\n".to_owned(), 3, SecondQuorum(2)),
    ] {
        assert_eq!(Policy::parse(text.as_bytes()), Err(PolicyError { line, fault }), "{text:?}");
    }
    assert_eq!(Policy::parse(b"log \xff\n"), Err(PolicyError { line: 1, fault: KeyText }));
    let wrong = Policy::parse(b"log k1.example\n").unwrap_err();
    assert!(matches!(wrong, PolicyError { line: 1, fault: Key(_) }), "{wrong:?}");
    // Both ends of what a threshold may be.
    for (threshold, needed) in [("1", 1), ("any", 1), ("2", 2), ("all", 2)] {
        let policy =
            Policy::parse(format!("{witnesses}group G {threshold} A B\nquorum G\n").as_bytes()).unwrap();
        for cosigned in 0..=2 {
            assert_eq!(policy.quorum_met(|witness| witness < cosigned), cosigned >= needed, "{threshold}");
        }
    }
}

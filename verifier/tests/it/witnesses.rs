//! Witnesses against each other, the log and the history: late, or forked.

use std::fs;
use std::path::PathBuf;

use runseal_evidence::finding::FindingKind::*;
use runseal_tlog::note::Note;
use sha2::{Digest as _, Sha256};

use crate::command::{Run, auditor, run, text};
use crate::plane::{ORIGIN, Plane, log_key, witness_key};
use crate::server::{Answer, Server};

fn policy(plane: &Plane, servers: &[&Server], log: Option<&Server>) -> PathBuf {
    let at = log.map_or(String::new(), |log| format!(" {}/log/acme", log.url));
    let mut text = format!("log {}{at}\n", log_key().verifier());
    for (server, seed) in servers.iter().zip(1u8..) {
        text += &format!("witness w{seed} {} {}/w/\n", witness_key(seed).verifier(), server.url);
    }
    text += "group both all w1 w2\nquorum both\n";
    let path = plane.path("witnesses.txt");
    fs::write(&path, text).unwrap();
    path
}

fn latest() -> String {
    format!("/w/{}/checkpoint", hex::encode(Sha256::digest(ORIGIN)))
}

fn show(server: &Server, note: &Note) {
    server.put(&latest(), Answer::Plain(200, note.to_string().into_bytes()));
}

fn compare(plane: &Plane, policy: &std::path::Path, more: &[&str]) -> Run {
    let mut args = vec!["witnesses", "--policy", text(policy), "--log", ORIGIN];
    args.extend(more);
    run(plane, &args)
}

#[test]
fn witnesses_that_agree_or_are_late_are_told_from_a_fork() {
    let plane = Plane::sample();
    let (one, two, log) = (Server::start(), Server::start(), Server::start());
    log.tree("/log/acme", &plane.publish());
    let policy = policy(&plane, &[&one, &two], Some(&log));
    show(&one, &plane.note_by(9, &[1]));
    show(&two, &plane.note_by(9, &[2]));
    let agreed = compare(&plane, &policy, &[]);
    assert_eq!(agreed.code, 0, "{}", agreed.show());
    assert_eq!(agreed.report().cosignatures.len(), 2);
    for size in [1, 4, 5, 8] {
        show(&two, &plane.note_by(size, &[2]));
        let late = compare(&plane, &policy, &[]);
        assert_eq!(late.code, 0, "{size}: {}", late.show());
        assert!(late.stdout.contains(&format!("late by {}", 9 - size)), "{}", late.stdout);
    }
    let mut other = Plane::sample();
    other.entries.swap(0, 1);
    let fraud = plane.path("fraud.txt");
    for size in [1, 4, 5, 8, 9] {
        let _ = fs::remove_file(&fraud);
        show(&two, &other.note_by(size, &[2]));
        let fork = compare(&plane, &policy, &["--fraud-proof", text(&fraud)]);
        let forked =
            size == 1 || size > 1 && other.note(size).unverified_text() != plane.note(size).unverified_text();
        assert_eq!(
            (fork.code, fork.kinds().contains(&Fork)),
            (i32::from(forked), forked),
            "{size}: {}",
            fork.show()
        );
        assert_eq!(fraud.exists(), forked, "{size}");
        if forked {
            assert_eq!(run(&plane, &["fraud", text(&fraud), "--policy", text(&policy)]).code, 1, "{size}");
        }
    }
}

#[test]
fn a_split_view_between_the_log_and_its_witnesses_is_a_fork() {
    let plane = Plane::sample();
    let mut other = Plane::sample();
    other.entries.swap(2, 3);
    let (one, two, log) = (Server::start(), Server::start(), Server::start());
    log.tree("/log/acme", &other.publish());
    let policy = policy(&plane, &[&one, &two], Some(&log));
    show(&one, &plane.note_by(9, &[1]));
    show(&two, &plane.note_by(9, &[2]));
    let split = compare(&plane, &policy, &[]);
    assert_eq!((split.code, split.kinds().first()), (1, Some(&Fork)), "{}", split.show());
}

#[test]
fn the_history_takes_part_and_stands_in_for_the_tiles() {
    let plane = Plane::sample();
    auditor(&plane).audit(&[]);
    let history = plane.path("history.redb");
    let (one, two) = (Server::start(), Server::start());
    let policy = policy(&plane, &[&one, &two], None);
    show(&one, &plane.note_by(9, &[1]));
    show(&two, &plane.note_by(6, &[2]));
    let late = compare(&plane, &policy, &["--history", text(&history)]);
    assert_eq!(late.code, 0, "{}", late.show());
    let blind = compare(&plane, &policy, &[]);
    assert_eq!((blind.code, blind.kinds()), (3, vec![]), "{}", blind.show());
    let mut other = Plane::sample();
    other.entries.swap(2, 3);
    show(&two, &other.note_by(6, &[2]));
    let fork = compare(&plane, &policy, &["--history", text(&history)]);
    assert_eq!((fork.code, fork.kinds()), (1, vec![Fork]), "{}", fork.show());
    assert!(fork.stdout.contains("fraud-proof"), "{}", fork.stdout);
}

#[test]
fn a_witness_that_cannot_be_believed_is_not_checked() {
    let plane = Plane::sample();
    let (one, two, log) = (Server::start(), Server::start(), Server::start());
    log.tree("/log/acme", &plane.publish());
    let policy = policy(&plane, &[&one, &two], Some(&log));
    show(&one, &plane.note_by(9, &[1]));
    for (name, answer) in [
        ("an error", Answer::Plain(500, Vec::new())),
        ("a hang-up", Answer::Hangup),
        ("no note", Answer::Plain(200, b"hello\n".to_vec())),
        ("another's cosignature alone", Answer::Plain(200, plane.note_by(9, &[1]).to_string().into_bytes())),
        ("an endless body", Answer::Endless),
    ] {
        two.put(&latest(), answer);
        let result = compare(&plane, &policy, &[]);
        assert_eq!((result.code, result.kinds()), (3, vec![]), "{name}: {}", result.show());
        let gaps = &result.report().not_checked;
        assert!(gaps.iter().any(|gap| gap.what.contains("witness.example/w2")), "{name}: {}", result.show());
    }
    two.remove(&latest());
    let never = compare(&plane, &policy, &[]);
    assert_eq!((never.code, never.kinds()), (1, vec![QuorumNotMet]), "{}", never.show());
    assert!(never.stdout.contains("never cosigned"), "{}", never.stdout);
}

//! The directory of a plane: what it lists, against the policy and what is remembered.

use std::fs;
use std::path::PathBuf;

use runseal_evidence::finding::{Class, FindingKind};
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::key::{Algorithm, KeyName, SignerKey};
use runseal_tlog::tree::root_of;

use crate::command::{Run, run, text, verifier};
use crate::plane::{ORIGIN, Plane, log_key};
use crate::server::Server;

const DIRECTORY: &str = "plane.example/log/_directory";

fn key(origin: &str, seed: u8) -> SignerKey {
    SignerKey::from_seed(KeyName::new(origin).unwrap(), Algorithm::Ed25519, &[seed; 32])
}

/// The entry of a tenant whose log is at `origin`.
fn entry(tenant: &str, origin: &str, seed: u8) -> Vec<u8> {
    let key = key(origin, seed);
    let vkey = key.verifier();
    format!(r#"{{"kind":"tenant","origin":"{origin}","tenant":"{tenant}","v":1,"vkey":"{vkey}"}}"#)
        .into_bytes()
}

fn default() -> Vec<u8> {
    entry("default", "plane.example", 3)
}

/// The log that [`Plane`] is about.
fn acme() -> Vec<u8> {
    entry("acme", ORIGIN, 7)
}

fn beta() -> Vec<u8> {
    entry("beta", "plane.example/log/beta", 5)
}

/// A directory log beside a plane's.
struct Directory {
    plane: Plane,
    policy: String,
}

impl Directory {
    fn of(entries: Vec<Vec<u8>>) -> Self {
        let mut plane = Plane::new();
        plane.entries = entries;
        let keys = [key(DIRECTORY, 9), key("plane.example", 3), log_key()];
        let logs: String = keys.iter().map(|key| format!("log {}\n", key.verifier())).collect();
        Self { plane, policy: logs + "quorum none\n" }
    }

    fn publish(&self) -> PathBuf {
        let dir = self.plane.path("directory");
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        self.plane.write_tiles(&dir);
        let leaves = self.plane.leaves();
        let checkpoint = Checkpoint::new(DIRECTORY, leaves.len() as u64, root_of(&leaves)).unwrap();
        fs::write(dir.join("checkpoint"), checkpoint.sign(&key(DIRECTORY, 9)).unwrap().to_string()).unwrap();
        dir
    }

    fn audit_at(&self, url: &str, more: &[&str]) -> Run {
        let policy = self.plane.path("policy.txt");
        fs::write(&policy, &self.policy).unwrap();
        let args = ["audit", "--directory", "--policy", text(&policy), "--url", url];
        run(&self.plane, &[&args[..], more].concat())
    }

    fn audit(&self, more: &[&str]) -> Run {
        self.audit_at(text(&self.publish()), more)
    }

    fn audit_remembered(&self) -> Run {
        self.audit(&["--history", text(&self.plane.path("history.redb"))])
    }
}

fn check_detail(run: &Run) -> String {
    let checks = &run.report().checks;
    checks
        .iter()
        .find(|check| check.check == "directory")
        .map(|check| check.detail.clone())
        .unwrap_or_default()
}

/// Findings of a kind: where, and what.
fn found(run: &Run, kind: FindingKind) -> Vec<(Option<u64>, String)> {
    let findings = run.report().findings.iter().filter(|finding| finding.kind == kind);
    findings.map(|finding| (finding.index, finding.detail.clone())).collect()
}

fn not_checked(run: &Run) -> Vec<&str> {
    run.report().not_checked.iter().map(|gap| gap.what.as_str()).collect()
}

#[test]
fn every_tenant_is_named_and_the_one_that_the_policy_does_not_list_is_not_checked() {
    let directory = Directory::of(vec![default(), acme(), beta()]);
    let server = Server::start();
    server.tree("/directory", &directory.publish());
    for result in [
        directory.audit(&[]),
        directory.audit_at(&format!("{}/directory", server.url), &[]),
        directory.audit_remembered(),
        directory.audit_remembered(),
    ] {
        assert_eq!((result.code, result.kinds()), (0, vec![]), "{}", result.show());
        assert_eq!(check_detail(&result), "3 tenants: acme, beta, default");
        assert!(not_checked(&result).contains(&"the log of tenant beta"), "{}", result.show());
        assert!(!not_checked(&result).iter().any(|what| what.contains("acme")), "{}", result.show());
    }
}

#[test]
fn more_tenants_than_a_tile_holds_are_all_read() {
    let mut entries = vec![default(), acme()];
    entries.extend((0..600).map(|at| entry(&format!("t{at}"), &format!("plane.example/log/t{at}"), 5)));
    let mut directory = Directory::of(entries);
    assert!(
        check_detail(&directory.audit_remembered()).starts_with("602 tenants: acme, default, t0, t1, t10,")
    );
    // What is known is read from the history, what is new from the log.
    directory.plane.entries.push(beta());
    let grown = directory.audit_remembered();
    assert_eq!(grown.code, 0, "{}", grown.show());
    assert!(check_detail(&grown).starts_with("603 tenants: acme, beta, default,"), "{}", grown.show());
}

#[test]
fn another_key_than_the_policy_trusts_is_a_finding_that_names_both() {
    let directory = Directory::of(vec![default(), entry("acme", ORIGIN, 8)]);
    let result = directory.audit(&[]);
    assert_eq!((result.code, result.kinds()), (1, vec![FindingKind::TenantKey]), "{}", result.show());
    assert_eq!(result.report().classes(), [Class::Untrusted]);
    let (index, detail) = found(&result, FindingKind::TenantKey).remove(0);
    assert_eq!(index, Some(1));
    assert!(detail.contains("tenant acme"), "{detail}");
    for trusted in [key(ORIGIN, 8), log_key()] {
        assert!(detail.contains(&trusted.verifier().to_string()), "{detail}");
    }
}

#[test]
fn a_tenant_that_the_history_remembers_and_the_directory_no_longer_lists_is_named() {
    let mut directory = Directory::of(vec![default(), acme(), beta()]);
    assert_eq!(directory.audit_remembered().code, 0);
    // The log is rebuilt without the tenant, and signed.
    directory.plane.entries = vec![default(), beta(), entry("gamma", "plane.example/log/gamma", 6)];
    let rebuilt = directory.audit_remembered();
    assert_eq!(rebuilt.code, 1, "{}", rebuilt.show());
    assert!(rebuilt.kinds().contains(&FindingKind::Fork), "{}", rebuilt.show());
    let gone = found(&rebuilt, FindingKind::TenantDeleted);
    assert_eq!(
        gone,
        [(Some(1), "tenant acme was listed, and is no longer".to_owned())],
        "{}",
        rebuilt.show()
    );
    // The same in a log that grew meanwhile.
    directory.plane.entries.push(entry("delta", "plane.example/log/delta", 6));
    let grown = directory.audit_remembered();
    assert_eq!(found(&grown, FindingKind::TenantDeleted), gone, "{}", grown.show());
    // The log goes back to before it.
    directory.plane.entries = vec![default()];
    let back = directory.audit_remembered();
    assert!(back.kinds().contains(&FindingKind::Rollback), "{}", back.show());
    let gone: Vec<_> = found(&back, FindingKind::TenantDeleted).into_iter().map(|(index, _)| index).collect();
    assert_eq!(gone, [Some(1), Some(2)], "{}", back.show());
    // The tenant is there, under another key.
    directory.plane.entries = vec![default(), entry("acme", ORIGIN, 8), beta()];
    let swapped = directory.audit_remembered();
    let swapped_keys = found(&swapped, FindingKind::TenantKey);
    assert!(swapped_keys[0].1.contains("was listed with the key"), "{}", swapped.show());
    assert_eq!(found(&swapped, FindingKind::TenantDeleted), [], "{}", swapped.show());
}

#[test]
fn a_log_known_for_a_moment_need_not_be_listed_yet_and_the_verdict_says_so() {
    let directory = Directory::of(vec![default()]);
    let history = directory.plane.path("history.redb");
    let plane = Plane::sample();
    let log = plane.publish();
    let args = ["audit", "--policy", text(&plane.policy()), "--url", text(&log), "--history", text(&history)]
        .map(str::to_owned);
    assert_eq!(run(&plane, &args.each_ref().map(String::as_str)).code, 0);
    let result = directory.audit_remembered();
    assert_eq!((result.code, result.kinds()), (3, vec![]), "{}", result.show());
    assert!(not_checked(&result).contains(&"that tenant acme is listed"), "{}", result.show());
}

#[test]
fn what_a_directory_cannot_hold_is_found() {
    let foreign = entry("acme", "other.example/log/acme", 7);
    let mut plane = Plane::new();
    plane.sealed("r0", 2);
    let seal = plane.entries.remove(0);
    for (more, kind) in [
        (foreign, FindingKind::TenantMismatch),
        (entry("acme", ORIGIN, 8), FindingKind::TenantKey),
        (acme(), FindingKind::Malformed),
        (seal, FindingKind::TenantMismatch),
    ] {
        let directory = Directory::of(vec![default(), acme(), more.clone()]);
        let result = directory.audit(&[]);
        let shown = String::from_utf8_lossy(&more);
        assert_eq!((result.code, result.kinds()), (1, vec![kind]), "{shown}: {}", result.show());
        assert_eq!(result.report().findings[0].index, Some(2), "{shown}");
    }
}

#[test]
fn a_directory_is_asked_for_where_the_policy_lists_one_and_nothing_else_is_to_be_checked() {
    let mut directory = Directory::of(vec![default()]);
    for more in [["--records", "export.jsonl"], ["--history-light", "--history=h"], ["--log", ORIGIN]] {
        assert_eq!(directory.audit(&more).code, 2, "{more:?}");
    }
    directory.policy = format!("log {}\nquorum none\n", log_key().verifier());
    let result = directory.audit(&[]);
    assert_eq!(result.code, 2);
    assert!(result.stderr.contains("<base>/log/_directory"), "{}", result.stderr);
    let help = verifier().args(["audit", "--help"]).output().unwrap();
    assert!(String::from_utf8_lossy(&help.stdout).contains("--directory"));
}

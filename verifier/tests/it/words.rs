//! What reports say to a reader who knows nothing else.

use std::fs;

use runseal_evidence::finding::FindingKind::*;
use runseal_evidence::report::{CheckStatus, NotChecked, Report};
use runseal_tlog::key::{Algorithm, KeyName, SignerKey};

use crate::command::{Run, auditor, run, text};
use crate::plane::{ORIGIN, Plane, log_key};

const DELETION: &str = "deletion by the operator";
const VIEWS: &str = "other views of the log";

fn left_open<'r>(report: &'r Report, what: &str) -> Option<&'r NotChecked> {
    report.not_checked.iter().find(|item| item.what == what)
}

fn check_named<'r>(report: &'r Report, name: &str) -> (CheckStatus, &'r str) {
    let check = report.checks.iter().find(|check| check.check == name);
    check.map_or_else(|| panic!("no check {name}"), |check| (check.status, check.detail.as_str()))
}

/// The reasons given for both, which stand in the text, the JSON and the page alike.
fn reasons(run: &Run, page: Option<&str>) -> Option<(String, String)> {
    let report = run.report();
    let (deletion, views) = (left_open(report, DELETION)?, left_open(report, VIEWS)?);
    assert!(!deletion.is_gap && !views.is_gap, "the verdict stays");
    for item in [deletion, views] {
        assert!(run.stdout.contains(&format!("{}: {}", item.what, item.why)), "{}", run.show());
        assert!(page.is_none_or(|page| page.contains(&item.why)), "{page:?}");
    }
    Some((deletion.why.clone(), views.why.clone()))
}

#[test]
fn without_witnesses_deletion_and_other_views_are_said_not_to_be_checked() {
    let mut plane = Plane::sample();
    let policy = plane.policy_with("all", &[]);
    let (log, page) = (plane.publish(), plane.path("report.html"));
    let args = ["audit", "--policy", text(&policy), "--url", text(&log), "--html", text(&page)];
    let audit = |plane: &Plane, more: &[&str]| {
        let audit = run(plane, &[&args[..], more].concat());
        assert_eq!(audit.code, 0, "{}", audit.show());
        let page = fs::read_to_string(&page).unwrap();
        assert!(!page.contains("Nothing in scope was left out"));
        reasons(&audit, Some(&page)).unwrap_or_else(|| panic!("{}", audit.show())).0
    };
    assert!(audit(&plane, &[]).contains("without --history nothing is remembered"));
    let history = plane.path("history.redb");
    let remembered = ["--history", text(&history)];
    assert!(audit(&plane, &remembered).contains("its first audit with this history"));
    plane.sealed("later", 2);
    plane.publish();
    // The first audit is what counts, however many there were since.
    for _ in 0..2 {
        assert!(audit(&plane, &remembered).contains("since it was first audited, at size 9 on "));
    }
    for (name, content) in [("export", plane.export()), ("export", plane.export_of(&["r2"]))] {
        let file = plane.path("file");
        fs::write(&file, content).unwrap();
        let checked = run(&plane, &[name, text(&file), "--policy", text(&policy)]);
        assert_eq!(checked.code, 0, "{}", checked.show());
        assert!(reasons(&checked, None).unwrap().0.contains("--checkpoint"), "{}", checked.show());
    }
    let file = plane.path("proof");
    fs::write(&file, plane.proof(2)).unwrap();
    let proof = run(&plane, &["proof", text(&file), "--policy", text(&policy)]);
    assert!(left_open(proof.report(), VIEWS).is_some(), "{}", proof.show());
    assert!(left_open(proof.report(), DELETION).is_none(), "one entry is there: {}", proof.show());
}

#[test]
fn a_quorum_covers_deletion_and_other_views_and_says_what_it_rests_on() {
    let plane = Plane::sample();
    for more in [&["--no-history"][..], &[]] {
        let audit = auditor(&plane).audit(more);
        assert_eq!(audit.code, 0, "{}", audit.show());
        assert!(left_open(audit.report(), DELETION).is_none(), "{}", audit.show());
        assert!(left_open(audit.report(), VIEWS).is_none(), "{}", audit.show());
        let (status, detail) = check_named(audit.report(), "quorum");
        assert_eq!(status, CheckStatus::Passed);
        assert!(detail.contains("2 valid cosignatures: what these witnesses cosigned before is still in"));
    }
}

/// The line that counts one thing in the plural.
fn miscounts(text: &str) -> Option<&str> {
    const PLURALS: [&str; 9] =
        ["entries", "runs", "records", "tenants", "cosignatures", "findings", "proofs", "bytes", "steps"];
    let plural = |word: &str| PLURALS.contains(&word.trim_end_matches(|c: char| !c.is_alphabetic()));
    text.lines().find(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (1..words.len()).any(|at| words[at - 1] == "1" && words[at..].iter().take(2).any(|word| plural(word)))
    })
}

#[test]
fn one_of_anything_is_counted_in_the_singular() {
    let mut plane = Plane::new();
    plane.open("only", 1);
    plane.head("only");
    plane.open("only", 2);
    let (policy, log) = (plane.policy_with("all", &[1]), plane.publish());
    let export = plane.path("export.jsonl");
    fs::write(&export, plane.export()).unwrap();
    let page = plane.path("report.html");
    let (policy, export, page) = (text(&policy), text(&export), text(&page));
    for args in [
        vec!["audit", "--policy", policy, "--url", text(&log), "--records", export, "--html", page],
        vec!["export", export, "--policy", policy, "--html", page],
    ] {
        let checked = run(&plane, &args);
        assert!(checked.stdout.contains("1 open run"), "{}", checked.show());
        for text in [checked.stdout.clone(), fs::read_to_string(page).unwrap()] {
            assert_eq!(miscounts(&text), None, "{text}");
        }
    }
    assert_eq!(miscounts("found 1 open runs: 2"), Some("found 1 open runs: 2"));
}

fn forked() -> (Plane, Run) {
    let mut plane = Plane::sample();
    assert_eq!(auditor(&plane).audit(&[]).code, 0);
    plane.entries.remove(2);
    let audit = auditor(&plane).audit(&[]);
    assert_eq!(audit.code, 1, "{}", audit.show());
    (plane, audit)
}

#[test]
fn a_fork_says_how_to_get_the_proof_and_does_not_call_it_good_news() {
    let (_, audit) = forked();
    let (status, detail) = check_named(audit.report(), "one-history");
    assert_eq!(status, CheckStatus::Failed);
    assert!(detail.contains("--fraud-proof FILE"), "{detail}");
    assert!(!audit.stdout.contains("ok   fraud"), "{}", audit.show());
}

#[test]
fn the_history_of_a_fork_counts_the_proof_and_not_a_contradiction_between_entries() {
    let (plane, _) = forked();
    let history = plane.path("history.redb");
    let listed = run(&plane, &["history", "--history", text(&history)]);
    assert!(listed.stdout.contains("9 entries verified, no contradiction between them"), "{}", listed.show());
    assert!(listed.stdout.contains("the log signed two histories: 1 fraud proof kept"), "{}", listed.show());
    let json = run(&plane, &["history", "--history", text(&history), "--json"]);
    assert!(json.stdout.contains("runseal/fraud-proof@v1"), "{}", json.show());
}

#[test]
fn a_fraud_proof_is_kept_even_where_the_new_tree_cannot_be_had() {
    let mut plane = Plane::sample();
    let log = plane.publish();
    assert_eq!(auditor(&plane).audit(&[]).code, 0);
    // Two roots for one size are enough to convict.
    plane.entries.swap(1, 2);
    fs::remove_dir_all(log.join("tile")).unwrap();
    fs::write(log.join("checkpoint"), plane.note(plane.entries.len()).to_string()).unwrap();
    let (policy, history) = (plane.policy(), plane.path("history.redb"));
    let args = ["audit", "--policy", text(&policy), "--url", text(&log), "--history", text(&history)];
    let audit = run(&plane, &args);
    assert!(audit.kinds().contains(&Fork), "{}", audit.show());
    let listed = run(&plane, &["history", "--history", text(&history)]);
    assert!(listed.stdout.contains("1 fraud proof kept"), "{}", listed.show());
}

#[test]
fn a_file_that_does_not_claim_to_be_a_proof_is_wrong_input_and_a_broken_one_malformed_evidence() {
    let plane = Plane::sample();
    let (policy, file) = (plane.policy(), plane.path("file.proof"));
    for (content, code) in [("", 2), ("hello\n", 2), ("c2sp.org/tlog-proof@v1\nindex two\n", 1)] {
        fs::write(&file, content).unwrap();
        let proof = run(&plane, &["proof", text(&file), "--policy", text(&policy)]);
        assert_eq!(proof.code, code, "{content:?}: {}", proof.show());
        if code == 1 {
            assert_eq!(proof.kinds(), [Malformed]);
        } else {
            assert!(proof.stderr.contains("is not a tlog-proof file"), "{}", proof.show());
        }
    }
}

#[test]
fn under_the_wrong_policy_a_report_says_which_key_was_expected_and_which_one_signed() {
    let plane = Plane::sample();
    let other = SignerKey::from_seed(KeyName::new(ORIGIN).unwrap(), Algorithm::Ed25519, &[8; 32]);
    let (policy, file) = (plane.path("other-policy.txt"), plane.path("export.jsonl"));
    fs::write(&policy, format!("log {}\nquorum none\n", other.verifier())).unwrap();
    let (expected, found) = (other.verifier().id().to_string(), log_key().verifier().id().to_string());
    for (export, unheld) in [(plane.export(), "root"), (plane.export_of(&["r2"]), "inclusion")] {
        fs::write(&file, export).unwrap();
        let checked = run(&plane, &["export", text(&file), "--policy", text(&policy)]);
        assert_eq!(checked.code, 1, "{}", checked.show());
        assert!(checked.stdout.starts_with("NOT TRUSTED"), "{}", checked.show());
        let detail = &checked.report().findings[0].detail;
        assert!(detail.contains(&expected) && detail.contains(&found), "{detail}");
        for name in [unheld, "records"] {
            assert_eq!(check_named(checked.report(), name).0, CheckStatus::Skipped);
        }
        let own = checked.report().cosignatures.iter().any(|line| line.witness == ORIGIN);
        assert!(!own, "the log is no witness: {}", checked.show());
    }
}

#[test]
fn a_run_block_under_another_name_is_found_and_not_called_too_new_to_check() {
    let plane = Plane::sample();
    let honest = plane.export();
    let edited = honest
        .replace(r#""kind":"runseal.export.run","run":"r2""#, r#""kind":"runseal.export.run","run":"x2""#);
    assert_ne!(edited, honest);
    let (policy, file) = (plane.policy(), plane.path("export.jsonl"));
    fs::write(&file, edited).unwrap();
    let checked = run(&plane, &["export", text(&file), "--policy", text(&policy)]);
    assert_eq!(checked.code, 1, "{}", checked.show());
    assert_eq!(checked.runs(ExportIncomplete), ["r2"]);
    assert_eq!(checked.report().not_checked, [], "{}", checked.show());
}

#[test]
fn a_log_that_is_down_fails_no_check() {
    let plane = Plane::sample();
    let policy = plane.policy();
    // A port that nobody listens on.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}/log/acme");
    let audit = run(&plane, &["audit", "--policy", text(&policy), "--url", &url, "--timeout", "20s"]);
    assert_eq!(audit.code, 3, "{}", audit.show());
    assert_eq!(check_named(audit.report(), "checkpoint").0, CheckStatus::Skipped);
    assert!(!audit.stdout.contains("FAIL"), "{}", audit.show());
    // The same where its checkpoint is there and its tiles are not.
    let log = plane.publish();
    fs::remove_dir_all(log.join("tile")).unwrap();
    let audit = run(&plane, &["audit", "--policy", text(&policy), "--url", text(&log)]);
    assert_eq!(audit.code, 3, "{}", audit.show());
    assert!(!audit.stdout.contains("FAIL"), "{}", audit.show());
}

#[cfg(unix)]
#[test]
fn a_history_is_readable_by_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let plane = Plane::sample();
    assert_eq!(auditor(&plane).audit(&[]).code, 0);
    let mode = fs::metadata(plane.path("history.redb")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

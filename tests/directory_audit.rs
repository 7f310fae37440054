//! An auditor reads the directory of a plane, from a running server and from the files it publishes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod console;

use std::fs;
use std::time::{Duration, Instant};

use console::{Desk, run};
use runseal::evidence::finding::FindingKind;
use runseal::evidence::report::{Report, Verdict};

fn vkey(desk: &Desk, of: &[&str]) -> String {
    let args = [&["vkey", "--dir", "plane"], of].concat();
    desk.run(&args).ended(0).stdout.trim().to_owned()
}

/// A plane with a run of each of these tenants.
fn with_tenants(tenants: &[&str]) -> Desk {
    let desk = Desk::with_plane();
    for tenant in tenants {
        desk.write("run.jsonl", run("run-1", 3, Some("done")));
        desk.run(&["import", "--dir", "plane", "--tenant", tenant, "run.jsonl"]).ended(0);
    }
    desk
}

fn audit(desk: &Desk, url: &str, keys: &[&str]) -> Report {
    let lines = keys.iter().map(|key| format!("log {key}\n")).collect::<Vec<_>>().concat();
    desk.write("policy", lines + "quorum none\n");
    let path = |name: &str| desk.path(name).to_str().unwrap().to_owned();
    let args =
        ["runseal-verifier", "audit", "--directory", "--quiet", "--policy", &path("policy"), "--url", url]
            .map(str::to_owned);
    let more = ["--history", &path("history"), "--json", &path("report.json")].map(str::to_owned);
    let _ = runseal_verifier::cli::run(args.into_iter().chain(more).map(Into::into));
    serde_json::from_slice(&fs::read(desk.path("report.json")).unwrap()).unwrap()
}

fn tenants(report: &Report) -> &str {
    report.checks.iter().find(|check| check.check == "directory").map_or("", |check| &check.detail)
}

#[test]
fn the_directory_of_a_plane_names_its_tenants_and_their_keys() {
    let desk = with_tenants(&["acme", "beta"]);
    let (directory, acme) = (vkey(&desk, &["--directory"]), vkey(&desk, &["--tenant", "acme"]));
    let serving = desk.serve(&["--checkpoint-interval", "50ms"]);
    let started = Instant::now();
    while serving.get("/log/_directory/checkpoint").text().lines().nth(1) != Some("2") {
        assert!(started.elapsed() < Duration::from_secs(10), "no checkpoint of both tenants was published");
        std::thread::sleep(Duration::from_millis(20));
    }
    let url = format!("http://{}/log/_directory", serving.address);
    let report = audit(&desk, &url, &[&directory, &acme]);
    assert_eq!(report.verdict(), Verdict::Verified, "{report:?}");
    assert_eq!(tenants(&report), "2 tenants: acme, beta");
    assert!(report.not_checked.iter().any(|gap| gap.what == "the log of tenant beta"), "{report:?}");
    // The key of another plane that bears the same name.
    let other = with_tenants(&[]);
    let forged = vkey(&other, &["--tenant", "acme"]);
    assert_ne!(forged, acme);
    let report = audit(&desk, &url, &[&directory, &forged]);
    let [finding] = report.findings.as_slice() else { panic!("{report:?}") };
    assert_eq!(finding.kind, FindingKind::TenantKey);
    assert!(finding.detail.contains(&acme) && finding.detail.contains(&forged), "{}", finding.detail);
    assert_eq!(serving.stop("-TERM").0, Some(0));
    // The same tree as files, once there is a third tenant.
    desk.write("run.jsonl", run("run-1", 3, Some("done")));
    desk.run(&["import", "--dir", "plane", "--tenant", "gamma", "run.jsonl"]).ended(0);
    desk.run(&["checkpoint", "--dir", "plane", "--directory"]).ended(0);
    desk.run(&["publish", "--dir", "plane", "--to", "files"]).ended(0);
    let files = desk.path("files/_directory");
    let report = audit(&desk, files.to_str().unwrap(), &[&directory, &acme]);
    assert_eq!(report.verdict(), Verdict::Verified, "{report:?}");
    assert_eq!(tenants(&report), "3 tenants: acme, beta, gamma");
}

//! Importing files: what comes in comes in whole, and what is refused leaves nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod console;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use console::{Desk, run};
use serde_json::{Value, json};

fn imported(desk: &Desk) -> String {
    desk.run(&["runs", "--dir", "plane", "--limit", "1000"]).ended(0).stdout
}

#[test]
fn a_refused_file_leaves_nothing_and_the_files_before_it_stay() {
    let good = run("good", 3, Some("done"));
    let line = |line: &str| format!("{}{line}\n", run("bad", 2, None));
    let effect = "a".repeat(64);
    let started = format!(r#"{{"run":"bad","kind":"EffectStarted","effect":"{effect}","payload":{{}}}}"#);
    let admitted = r#"{"run":"bad","kind":"RunAdmitted","payload":{"admission_key":"k"}}"#;
    for (name, text, words) in [
        ("bad.jsonl", line("nonsense"), "bad.jsonl: line 3: "),
        (
            "bad.jsonl",
            line(r#"{"run":"bad","kind":"A"}"#),
            "bad.jsonl: line 3: member \"payload\" is missing",
        ),
        (
            "bad.jsonl",
            line(r#"{"run":"bad","kind":"A","payload":1,"note":2}"#),
            "line 3: unknown member \"note\"",
        ),
        (
            "bad.jsonl",
            line(r#"{"run":"bad","kind":"A","payload":{"x":1,"x":2}}"#),
            "line 3: member \"x\" occurs twice",
        ),
        (
            "bad.jsonl",
            line(r#"{"run":"bad","kind":"A","payload":1,"effect":"AB"}"#),
            "line 3: \"AB\" is not a valid effect",
        ),
        ("bad.jsonl", line(r#"{"run":"bad","kind":"A","payload":"\udead"}"#), "line 3: a lone surrogate"),
        (
            "bad.jsonl",
            line(r#"{"run":"Bad Name","kind":"A","payload":1}"#),
            "line 3: \"Bad Name\" is not a valid run",
        ),
        (
            "bad.jsonl",
            line(r#"{"run":"bad","kind":"RunConcluded","payload":{}}"#),
            "line 3: the payload of RunConcluded",
        ),
        ("bad.jsonl", line(&format!("{started}\n{started}")), "bad.jsonl: line 4: effect aaaa"),
        ("bad.jsonl", line(&format!("{admitted}\n{admitted}")), "bad.jsonl: line 4: admission key \"k\""),
        ("bad.jsonl", run("good", 2, None), "bad.jsonl: line 1: run good exists"),
        ("bad.jsonl", format!("\u{feff}{}", run("bad", 2, None)), "bad.jsonl: line 1: a byte order mark"),
        ("bad.jsonl", String::new(), "bad.jsonl: the file: it holds no run"),
        ("bad.jsonl", "\n \n".to_owned(), "bad.jsonl: the file: it holds no run"),
        ("bad.traj", String::new(), "bad.traj: the file: it holds no run"),
        ("bad.traj", "{\n\"history\": [1,]\n}".to_owned(), "bad.traj: line 2, byte 15: "),
        (
            "bad.traj",
            r#"{"history":[1],"history":[2]}"#.to_owned(),
            "bad.traj: line 1, byte 16: member \"history\" occurs twice",
        ),
        ("bad.traj", r#"{"trajectory":[1]}"#.to_owned(), "bad.traj: trajectory[0]: it is not an object"),
        ("bad.traj", "{}".to_owned(), "bad.traj: the top level: it has neither"),
        (
            "_bad.traj",
            r#"{"history":[1]}"#.to_owned(),
            "_bad.traj: the file: the run is named by the file's stem",
        ),
        ("good.traj", r#"{"history":[1]}"#.to_owned(), "good.traj: the top level: run good exists"),
    ] {
        let desk = Desk::with_plane();
        desk.write("first.jsonl", &good);
        desk.write(name, &text);
        desk.write("last.jsonl", run("last", 2, None));
        let ran = desk.run(&["import", "--dir", "plane", "first.jsonl", name, "last.jsonl"]).ended(2);
        assert!(ran.stderr.contains(words), "{words:?} is not said:\n{}", ran.stderr);
        assert_eq!(ran.stdout, "good\t3\tdone\t0\n", "{words}");
        assert_eq!(imported(&desk).lines().count(), 1, "{words}");
        desk.run(&["check", "--dir", "plane"]).ended(0);
    }
}

#[test]
fn the_format_follows_from_the_name_unless_it_is_given() {
    let desk = Desk::with_plane();
    desk.write("A Run.traj", r#"{"history":["hello"],"info":{"exit_status":"well"}}"#);
    desk.write("conversation.json", r#"{"history":["hello"]}"#);
    desk.write("records.traj", run("from-traj", 2, None));
    assert_eq!(desk.run(&["import", "--dir", "plane", "A Run.traj"]).ended(0).stdout, "a-run\t3\twell\t0\n");
    desk.run(&["import", "--dir", "plane", "conversation.json"]).ended(2);
    let as_trajectory =
        &["import", "--dir", "plane", "--format", "trajectory", "--open", "conversation.json"];
    assert_eq!(desk.run(as_trajectory).ended(0).stdout, "conversation\t2\t-\t-\n");
    let as_jsonl = &["import", "--dir", "plane", "--format", "jsonl", "records.traj"];
    assert_eq!(desk.run(as_jsonl).ended(0).stdout, "from-traj\t2\t-\t-\n");
}

/// The example runs come out as their README counts them.
#[test]
fn the_example_runs_come_in() {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/runs");
    let readme = std::fs::read_to_string(runs.join("README.md")).unwrap();
    for (tenant, expected) in [("acme", 9), ("globex", 10)] {
        let desk = Desk::with_plane();
        let files = files(&runs.join(tenant));
        let mut args = vec!["import", "--dir", "plane", "--tenant", tenant];
        args.extend(files.iter().map(|file| file.to_str().unwrap()));
        let listed = desk.run(&args).ended(0).stdout;
        assert_eq!(listed.lines().count(), expected);
        for line in listed.lines() {
            let [run, records, outcome, index] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let outcome = if index == "-" { "open" } else { outcome };
            assert!(readme.contains(&format!("`{run}` ({records}, {outcome})")), "{line}");
        }
    }
}

/// Real recorded runs: every member of every step and message is found again in the records.
#[test]
fn recorded_trajectories_come_in_without_loss() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/trajectories");
    let mut trajectories = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/runs/acme"));
    trajectories.extend(files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/runs/globex")));
    if shared.is_dir() {
        trajectories.extend(files(&shared));
    } else {
        eprintln!("not checked: {} is absent", shared.display());
    }
    trajectories.retain(|file| file.extension().is_some_and(|extension| extension == "traj"));
    assert!(trajectories.len() >= 5);
    let desk = Desk::with_plane();
    for file in trajectories {
        let listed = desk.run(&["import", "--dir", "plane", file.to_str().unwrap()]).ended(0).stdout;
        let run = listed.split('\t').next().unwrap();
        let shown = desk.run(&["show", "--dir", "plane", run]).ended(0).stdout;
        let records: Vec<Value> = shown
            .lines()
            .map(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                serde_json::from_str(line["raw"].as_str().unwrap()).unwrap()
            })
            .collect();
        let original: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!(reassembled(&records), original, "{}", file.display());
        let effects: BTreeMap<&str, usize> = records
            .iter()
            .filter_map(|record| record["effect"].as_str())
            .fold(BTreeMap::default(), |mut seen, effect| {
                *seen.entry(effect).or_default() += 1;
                seen
            });
        assert!(effects.values().all(|count| *count == 2), "each step has one effect of its own");
    }
}

/// The trajectory file that the records say they came from.
fn reassembled(records: &[Value]) -> Value {
    let mut file = records[0]["payload"].clone();
    let (mut history, mut trajectory) = (Vec::new(), Vec::new());
    for record in &records[1..] {
        match record["kind"].as_str().unwrap() {
            "Message" => history.push(record["payload"].clone()),
            "EffectStarted" => trajectory.push(record["payload"].clone()),
            "EffectDone" => {
                let step = trajectory.last_mut().unwrap().as_object_mut().unwrap();
                step.extend(record["payload"].as_object().unwrap().clone());
            }
            "RunConcluded" => {
                let status = file.pointer("/info/exit_status").filter(|status| !status.is_null());
                assert_eq!(record["payload"]["outcome"], status.cloned().unwrap_or(json!("succeeded")));
            }
            other => panic!("{other}"),
        }
    }
    file["history"] = history.into();
    if !trajectory.is_empty() {
        file["trajectory"] = trajectory.into();
    }
    file
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files
        .retain(|file| file.extension().is_some_and(|extension| extension == "traj" || extension == "jsonl"));
    files.sort();
    files
}

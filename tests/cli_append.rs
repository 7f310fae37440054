//! Appending from stdin: one atomic batch under a lease of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod console;

use console::Desk;

const APPEND: &[&str] = &["append", "--dir", "plane", "--run", "r"];

#[test]
fn each_record_is_answered_with_its_number_and_hash() {
    let desk = Desk::with_plane();
    let lines = "{\"kind\":\"A\",\"payload\":1}\n\n {\"kind\":\"B\",\"payload\":{\"n\":12345678901234567890},\"case\":\"c\"} \r\n";
    let first = desk.run_with(APPEND, lines, &[]).ended(0).stdout;
    let second = desk.run_with(&[APPEND, &["--conclude", "done"]].concat(), "", &[]).ended(0).stdout;
    let answered: Vec<(String, String)> = first
        .lines()
        .chain(second.lines())
        .map(|line| line.split_once('\t').map(|(seq, hash)| (seq.to_owned(), hash.to_owned())).unwrap())
        .collect();
    let shown = desk.run(&["show", "--dir", "plane", "r"]).ended(0).stdout;
    let stored: Vec<(String, String)> = shown
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| (line["seq"].to_string(), line["hash"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(answered, stored);
    assert_eq!(stored.len(), 3);
    assert!(shown.contains("12345678901234567890"));
    let listed = desk.run(&["runs", "--dir", "plane"]).ended(0).stdout;
    assert!(listed.starts_with("r\tsealed\t3\tdone\t0\t"), "{listed}");
}

#[test]
fn one_bad_line_refuses_the_whole_batch() {
    let desk = Desk::with_plane();
    let effect = "b".repeat(64);
    let started = format!("{{\"kind\":\"EffectStarted\",\"effect\":\"{effect}\",\"payload\":1}}\n");
    for (lines, words) in [
        ("{\"kind\":\"A\",\"payload\":1}\nnonsense\n".to_owned(), "stdin: line 2: "),
        (
            "{\"kind\":\"A\",\"payload\":1,\"run\":\"r\"}\n".to_owned(),
            "stdin: line 1: unknown member \"run\"",
        ),
        (
            "{\"kind\":\"A\",\"payload\":1}\n{\"kind\":\"RunConcluded\",\"payload\":1}\n".to_owned(),
            "stdin: line 2: the payload",
        ),
        (format!("{started}{started}"), "was started before"),
        (String::new(), "stdin: the file: it holds no record"),
        ("\u{feff}{\"kind\":\"A\",\"payload\":1}\n".to_owned(), "stdin: line 1: a byte order mark"),
    ] {
        let ran = desk.run_with(APPEND, &lines, &[]).ended(2).says(words);
        assert_eq!(ran.stdout, "");
        assert_eq!(desk.run(&["runs", "--dir", "plane"]).ended(0).stdout, "", "{words}");
    }
    // The lease was returned every time, so the run is free.
    desk.run_with(APPEND, &started, &[]).ended(0);
    desk.run_with(APPEND, &started, &[]).ended(2).says("was started before, as record 1");
    desk.run_with(APPEND, "{\"kind\":\"A\",\"payload\":1}\n", &[]).ended(0);
}

//! Deliberate damage leaves exactly the traces it should: each action is found by what promises to find it,
//! and by nothing that cannot.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod console;

use console::{Desk, run};
use serde_json::Value;

/// Entries 0 to 2 are seals of a, b and c; 3 is a head of `open`.
fn desk() -> Desk {
    let desk = Desk::with_plane();
    let runs = [
        run("a", 4, Some("done")),
        run("b", 5, Some("failed")),
        run("c", 3, Some("done")),
        run("open", 6, None),
    ];
    desk.write("runs.jsonl", runs.concat());
    desk.run(&["import", "--dir", "plane", "runs.jsonl"]).ended(0);
    desk.run(&["checkpoint", "--dir", "plane"]).ended(0);
    desk.run(&["check", "--dir", "plane"]).ended(0);
    desk
}

fn tamper(desk: &Desk, action: &[&str]) {
    desk.run(&[&["tamper", "--dir", "plane", "--tenant", "default"], action].concat()).ended(0);
}

fn records(desk: &Desk, run: &str) -> Vec<Value> {
    let shown = desk.run(&["show", "--dir", "plane", run]).ended(0).stdout;
    shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn checkpoint_size(desk: &Desk) -> String {
    desk.run(&["checkpoint", "--dir", "plane"]).ended(0).stdout.lines().nth(1).unwrap().to_owned()
}

#[test]
fn an_edit_changes_the_bytes_and_no_hash() {
    let desk = desk();
    let before = records(&desk, "b");
    tamper(&desk, &["edit", "b", "3"]);
    let after = records(&desk, "b");
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before["hash"], after["hash"]);
        assert_eq!(before["raw"] == after["raw"], before["seq"] != 3);
    }
    desk.run(&["check", "--dir", "plane"]).ended(1).says("contradict");
}

#[test]
fn a_rehash_leaves_a_chain_that_holds_together_under_another_head() {
    let desk = desk();
    let before = records(&desk, "open");
    tamper(&desk, &["rehash", "open", "3"]);
    let after = records(&desk, "open");
    let (old, new) = (before.last().unwrap(), after.last().unwrap());
    assert_eq!(old["raw"], new["raw"]);
    assert_ne!(old["hash"], new["hash"]);
    for pair in after.windows(2) {
        assert_eq!(pair[0]["hash"], pair[1]["prev"]);
    }
    // The head entry in the log is what tells.
    desk.run(&["check", "--dir", "plane"]).ended(1);
}

#[test]
fn a_rehash_of_signed_records_signs_them_again() {
    let desk = Desk::new();
    desk.run(&["init", "--dir", "plane", "--origin", console::BASE, "--sign-records"]).ended(0);
    desk.write("runs.jsonl", run("open", 4, None));
    desk.run(&["import", "--dir", "plane", "runs.jsonl"]).ended(0);
    tamper(&desk, &["rehash", "open", "2"]);
    // No head pins the run yet, so nothing in the plane itself can tell.
    desk.run(&["check", "--dir", "plane"]).ended(0);
}

#[test]
fn a_deletion_leaves_the_tree_and_takes_the_run() {
    let desk = desk();
    tamper(&desk, &["delete", "b"]);
    desk.run(&["show", "--dir", "plane", "b"]).ended(2);
    assert_eq!(desk.run(&["runs", "--dir", "plane"]).ended(0).stdout.lines().count(), 3);
    assert_eq!(desk.run(&["runs", "--dir", "plane", "--outcome", "failed"]).ended(0).stdout, "");
    desk.run(&["check", "--dir", "plane"]).ended(1);
    // The tree is the one that was signed.
    assert_eq!(checkpoint_size(&desk), "4");
}

#[test]
fn a_cut_tail_leaves_a_shorter_run_that_can_go_on() {
    let desk = desk();
    tamper(&desk, &["truncate", "open", "2"]);
    assert_eq!(records(&desk, "open").len(), 2);
    desk.run(&["check", "--dir", "plane"]).ended(1);
    let append = &["append", "--dir", "plane", "--run", "open"];
    let answer = desk.run_with(append, "{\"kind\":\"A\",\"payload\":1}\n", &[]).ended(0).stdout;
    assert!(answer.starts_with("3\t"), "{answer}");
    desk.run(&["tamper", "--dir", "plane", "--tenant", "default", "truncate", "a", "1"])
        .ended(2)
        .says("sealed");
    desk.run(&["tamper", "--dir", "plane", "--tenant", "default", "truncate", "open", "9"])
        .ended(2)
        .says("3 records");
}

#[test]
fn a_rebuilt_tree_holds_together_and_is_not_signed_before_the_plane_forgets() {
    for (action, size) in
        [(&["rebuild", "a"][..], "3"), (&["rebuild", "open"], "3"), (&["swap", "0", "2"], "4")]
    {
        let desk = desk();
        tamper(&desk, action);
        desk.run(&["checkpoint", "--dir", "plane"]).ended(1).says("nothing was signed");
        tamper(&desk, &["forget"]);
        assert_eq!(checkpoint_size(&desk), size, "{action:?}");
        // Indexes and proofs follow the new tree: only what was published before contradicts it.
        let ran = desk.run(&["check", "--dir", "plane"]).ended(1);
        assert!(ran.stdout.contains("checkpoint 4"), "{action:?}: {}", ran.stdout);
        let proof = desk.run(&["prove", "--dir", "plane", "c"]).ended(0).stdout;
        let extra = proof.lines().nth(1).unwrap().strip_prefix("extra ").unwrap();
        let entry = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, extra).unwrap();
        assert!(String::from_utf8(entry).unwrap().contains("\"run\":\"c\""), "{action:?}");
        desk.write("more.jsonl", run("more", 2, Some("done")));
        desk.run(&["import", "--dir", "plane", "more.jsonl"]).ended(0);
        desk.run(&["checkpoint", "--dir", "plane"]).ended(0);
        desk.run(&["export", "--dir", "plane", "-o", "export.jsonl"]).ended(0);
    }
}

#[test]
fn a_dropped_tile_is_missed() {
    let desk = desk();
    tamper(&desk, &["drop-tile", "0", "0"]);
    desk.run(&["check", "--dir", "plane"]).ended(1);
    desk.run(&["tamper", "--dir", "plane", "--tenant", "default", "drop-tile", "0", "0"])
        .ended(2)
        .says("no tile 0/0");
    desk.write("more.jsonl", run("more", 2, Some("done")));
    desk.run(&["import", "--dir", "plane", "more.jsonl"]).ended(1);
}

#[test]
fn what_is_not_there_cannot_be_damaged() {
    let desk = desk();
    for (action, words) in [
        (&["edit", "nobody", "1"][..], "no run nobody"),
        (&["edit", "a", "5"], "4 records"),
        (&["edit", "a", "0"], "4 records"),
        (&["delete", "nobody"], "no run nobody"),
        (&["swap", "0", "4"], "4 entries"),
    ] {
        let all = [&["tamper", "--dir", "plane", "--tenant", "default"], action].concat();
        desk.run(&all).ended(2).says(words);
    }
    desk.run(&["check", "--dir", "plane"]).ended(0);
    let serving = desk.serve(&[]);
    desk.run(&["tamper", "--dir", "plane", "--tenant", "default", "forget"]).ended(3).says("in use");
    drop(serving);
}

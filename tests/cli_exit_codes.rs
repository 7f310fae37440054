//! How each command ends: the exit codes that scripts rely on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod console;

use std::{process::Stdio, time::Duration};

use console::{Desk, run};
use runseal::{
    Journal,
    evidence::name::{RunId, TenantId},
};

/// A plane with a sealed run, an open one, and one that is concluded but not sealed.
fn desk() -> Desk {
    let desk = Desk::with_plane();
    desk.write("sealed.jsonl", run("sealed", 3, Some("done")));
    desk.write("open.jsonl", run("open", 2, None));
    desk.write("concluded.jsonl", run("concluded", 2, Some("done")));
    desk.run(&["import", "--dir", "plane", "sealed.jsonl", "open.jsonl"]).ended(0);
    desk.run(&["import", "--dir", "plane", "--open", "concluded.jsonl"]).ended(0);
    desk
}

#[test]
fn every_command_explains_itself_and_says_its_version() {
    let desk = Desk::new();
    let help = desk.run(&["--help"]).ended(0).stdout;
    desk.run(&["--version"]).ended(0);
    for command in [
        "init",
        "vkey",
        "import",
        "append",
        "seal",
        "runs",
        "show",
        "checkpoint",
        "prove",
        "export",
        "serve",
        "token",
        "publish",
        "check",
    ] {
        assert!(help.contains(&format!("  {command}")), "{command} is not listed");
        let explained = desk.run(&[command, "--help"]).ended(0).stdout;
        assert!(explained.contains("Example"), "{command} has no example");
        assert!(desk.run(&[command, "--version"]).ended(0).stdout.starts_with("runseal"));
    }
}

#[test]
fn wrong_usage_and_wrong_input_end_with_2() {
    let desk = desk();
    desk.write("tokens", "log acme nothex\n");
    desk.write("policy", "quorum nobody\n");
    desk.write("exists.jsonl", run("sealed", 2, None));
    for (args, words) in [
        (&[][..], "Usage"),
        (&["nonsense"], "unrecognized"),
        (&["runs"], "--dir"),
        (&["runs", "--dir", "plane", "--limit", "0"], "--limit"),
        (&["runs", "--dir", "plane", "--outcome", "done", "--after", "a"], "cannot be used with"),
        (&["runs", "--dir", "nowhere"], "nowhere holds no journal"),
        (&["init", "--dir", "plane", "--origin", "b.example"], "exists"),
        (&["init", "--dir", "new", "--origin", "https://b.example/"], "base"),
        (&["vkey", "--dir", "plane", "--tenant", "ACME"], "tenant"),
        (&["import", "--dir", "plane", "missing.jsonl"], "missing.jsonl"),
        (&["import", "--dir", "plane", "exists.jsonl"], "exists.jsonl: line 1: run sealed exists"),
        (&["seal", "--dir", "plane", "open"], "has not concluded"),
        (&["seal", "--dir", "plane", "nobody"], "no run nobody"),
        (&["append", "--dir", "plane", "--run", "sealed", "--conclude", "done"], "is sealed"),
        (&["append", "--dir", "plane", "--run", "open"], "holds no record"),
        (&["show", "--dir", "plane", "nobody"], "no run nobody"),
        (&["prove", "--dir", "plane", "open"], "is not sealed"),
        (&["prove", "--dir", "plane", "nobody"], "no run nobody"),
        (&["check", "--dir", "plane", "--tenant", "nobody"], "no tenant nobody"),
        (&["checkpoint", "--dir", "plane", "--policy", "policy"], "policy: policy line 1"),
        (&["checkpoint", "--dir", "plane", "--policy", "nowhere"], "nowhere"),
        (&["checkpoint", "--dir", "plane", "--on-shortfall", "maybe"], "--on-shortfall"),
        (&["serve", "--dir", "plane", "--listen", "0.0.0.0:0"], "--tokens"),
        (&["serve", "--dir", "plane", "--listen", "nonsense"], "--listen"),
        (&["serve", "--dir", "plane", "--tokens", "tokens"], "tokens: line 1"),
        (&["serve", "--dir", "plane", "--checkpoint-interval", "10"], "500ms, 30s, 5m or 24h"),
        (&["token", "--tenant", "*", "--scope", "everything"], "unknown scope"),
    ] {
        let ran = desk.run(args).ended(2);
        assert!(ran.stderr.contains(words), "{args:?}: no {words:?} in\n{}", ran.stderr);
        assert_eq!(ran.stdout, "", "{args:?} has no data to give");
    }
}

#[test]
fn what_cannot_be_finished_ends_with_3() {
    let desk = desk();
    desk.run(&["prove", "--dir", "plane", "sealed"]).ended(3).says("take a checkpoint");
    desk.run(&["export", "--dir", "plane"]).ended(3).says("take one");
    desk.run(&["publish", "--dir", "plane", "--to", "tree"]).ended(3).says("runseal checkpoint");
    desk.run(&["serve", "--dir", "plane", "--public-log", "--listen", "198.51.100.7:9"])
        .ended(3)
        .says("198.51.100.7:9");
    let serving = desk.serve(&[]);
    desk.run(&["runs", "--dir", "plane"]).ended(3).says("in use");
    drop(serving);
    desk.run(&["runs", "--dir", "plane"]).ended(0);
}

#[test]
fn a_tenant_that_may_be_mistyped_is_said() {
    let desk = desk();
    for (command, code) in [("runs", 0), ("export", 3), ("checkpoint", 0)] {
        let ran = desk.run(&[command, "--dir", "plane", "--tenant", "defualt"]).ended(code);
        ran.says("nothing is here of tenant defualt; --tenant may be default");
    }
    // Its log has a checkpoint now.
    let listed = desk.run(&["runs", "--dir", "plane", "--tenant", "defualt"]).ended(0);
    assert_eq!((listed.stdout.as_str(), listed.stderr.as_str()), ("", ""));
    assert_eq!(desk.run(&["runs", "--dir", "plane"]).ended(0).stderr, "");

    desk.run(&["init", "--dir", "new", "--origin", "log.example/new"]).ended(0);
    assert_eq!(desk.run(&["runs", "--dir", "new", "--tenant", "acme"]).ended(0).stderr, "");
}

#[test]
fn a_run_that_somebody_else_leases_is_left_alone() {
    let desk = desk();
    let journal = Journal::open(&desk.path("plane")).unwrap();
    let open = RunId::new("open").unwrap();
    journal.tenant(&TenantId::default()).acquire(&open, "the agent", Duration::from_hours(1)).unwrap();
    drop(journal);
    let append = &["append", "--dir", "plane", "--run", "open", "--conclude", "done"];
    desk.run(append).ended(3).says("the agent");
    desk.run(&["seal", "--dir", "plane", "concluded"]).ended(0);
}

#[test]
fn doing_it_again_changes_nothing_where_it_is_allowed() {
    let desk = desk();
    let first = desk.run(&["seal", "--dir", "plane", "concluded"]).ended(0).stdout;
    assert_eq!(first, "concluded\t2\tdone\t1\n");
    assert_eq!(desk.run(&["seal", "--dir", "plane", "concluded"]).ended(0).stdout, first);
    let note = desk.run(&["checkpoint", "--dir", "plane"]).ended(0).stdout;
    assert_eq!(desk.run(&["checkpoint", "--dir", "plane"]).ended(0).stdout, note);
    desk.run(&["check", "--dir", "plane"]).ended(0);
}

#[test]
fn an_empty_log_has_a_checkpoint() {
    let desk = Desk::with_plane();
    let note = desk.run(&["checkpoint", "--dir", "plane", "--tenant", "fresh"]).ended(0).stdout;
    // SHA-256 of nothing.
    let text = "test.example/plane/log/fresh\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n\n";
    assert!(note.starts_with(text), "{note}");
}

#[test]
fn every_flag_may_come_from_the_environment() {
    let desk = desk();
    let env = [("RUNSEAL_DIR", "plane"), ("RUNSEAL_LIMIT", "1"), ("RUNSEAL_JSON", "true")];
    let listed = desk.run_with(&["runs"], "", &env).ended(0).stdout;
    assert_eq!(listed.lines().count(), 1);
    let line: serde_json::Value = serde_json::from_str(listed.trim()).unwrap();
    assert_eq!(line["run"], "concluded");
    assert_eq!((&line["state"], &line["outcome"]), (&"open".into(), &"done".into()));
    assert_eq!(line["index"], serde_json::Value::Null);
    let members: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members.len(), 6, "{members:?}");
    // The command line wins.
    assert_eq!(desk.run_with(&["runs", "--limit", "2"], "", &env).ended(0).stdout.lines().count(), 2);
    desk.run_with(&["runs"], "", &[("RUNSEAL_DIR", "plane"), ("RUNSEAL_JSON", "maybe")]).ended(2);
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::new();
    desk.run(&["init", "--dir", "plane", "--origin", "b.example", "--sign-records"]).ended(0);
    for key in ["plane/master.key", "plane/record.key"] {
        let key = desk.path(key);
        assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
        let ran = desk.run(&["runs", "--dir", "plane"]).ended(2).says("chmod 600");
        let secret = std::fs::read_to_string(&key).unwrap();
        // Behind a space, or as the fifth part; base64 may itself hold a plus.
        let secret =
            secret.trim().rsplit_once(' ').map_or_else(|| secret.splitn(5, '+').last(), |last| Some(last.1));
        let secret = secret.map(str::trim).filter(|secret| secret.len() > 40).unwrap();
        assert!(!ran.stderr.contains(secret), "a secret is never shown");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    desk.run(&["runs", "--dir", "plane"]).ended(0);
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let desk = Desk::with_plane();
    desk.write("large.jsonl", run("large", 5000, None));
    desk.run(&["import", "--dir", "plane", "large.jsonl"]).ended(0);
    let mut child = desk.command(&["show", "--dir", "plane", "large"]).stdin(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn quiet_leaves_only_errors() {
    let desk = desk();
    let ran = desk.run(&["--quiet", "checkpoint", "--dir", "plane"]).ended(0);
    assert_eq!(ran.stderr, "");
    assert_eq!(desk.run(&["export", "-q", "--dir", "plane"]).ended(0).stderr, "");
    desk.run(&["-q", "show", "--dir", "plane", "nobody"]).ended(2).says("no run nobody");
}

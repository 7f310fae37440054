//! The commands: exit codes, what a refusal says, and options as variables.

use crate::place::{Place, Running, log_of};
use crate::testlog::TestLog;

#[test]
fn commands_refuse_with_the_right_code_and_say_what_to_do() {
    let place = Place::following(&log_of(1));
    let serving = || place.serving().logs("logs");
    for (expected, (code, said)) in [
        ((2, "never overwritten"), place.fails(&["keygen", "--name", "x", "--out", "w.key"])),
        ((2, "--name"), place.fails(&["keygen", "--name", "a b", "--out", "other.key"])),
        ((2, "never overwritten"), place.fails(&["init", "--db", "w.redb"])),
        ((2, "keygen"), place.fails(&["vkey", "--key", "none.key"])),
        ((2, "init"), serving().db("none.redb").fails()),
        ((2, "not a witness database"), serving().db("logs").fails()),
        ((2, "--logs"), place.serving().fails()),
        ((2, "--key"), serving().without_key_file().fails()),
        ((2, "no list of logs none"), place.serving().logs("none").fails()),
        ((2, "can be read by others"), serving().key("logs").fails()),
        ((2, "https"), place.serving().logs("http://x.example/l").fails()),
        ((2, "--accept-key-change"), serving().with(&["--accept-key-change", "x"]).fails()),
        // An address of no machine of ours (RFC 5737).
        ((3, "203.0.113.1:1"), serving().listen("203.0.113.1:1").fails()),
        ((2, "--feed"), serving().with(&["--feed", "10"]).fails()),
        ((2, "init"), place.fails(&["logs", "--db", "none.redb"])),
        ((2, "--db"), place.fails(&["logs"])),
        ((3, "127.0.0.1:1"), place.fails(&["status", "--url", "http://127.0.0.1:1"])),
        ((2, "subcommand"), place.fails(&["frobnicate"])),
    ] {
        assert_eq!(code, expected.0, "{said}");
        assert!(said.contains(expected.1), "{expected:?}: {said}");
    }
    assert!(!place.path("none.redb").exists() && !place.path("other.key").exists());
    for args in [&["--help"][..], &["--version"], &["serve", "--help"], &["db", "export", "--help"]] {
        assert!(!place.ok(args).is_empty());
    }
}

#[test]
fn every_option_is_a_variable_too() {
    let place = Place::ready();
    let (a, mut b) = (log_of(3), TestLog::new("log.example/b", 2));
    b.grow(3, "");
    place.write("a.list", &a.list());
    place.write("b.policy", &format!("log {}\nquorum none\n", b.vkey()));
    let mut command = place.command(&["serve"]);
    command
        .env("RUNSEAL_KEY", "w.key")
        .env("RUNSEAL_DB", "w.redb")
        .env("RUNSEAL_LOGS", "a.list:b.policy")
        .env("RUNSEAL_LISTEN", "127.0.0.1:0")
        .env("RUNSEAL_LOG_FORMAT", "json");
    let running = Running::start(command);
    for log in [&a, &b] {
        assert_eq!(running.add_checkpoint(&log.request(0, 3)).status, 200);
    }
    let status = place.ok(&["status", "--json", "--url", &format!("http://{}", running.address)]);
    assert_eq!(running.stop(), 0);
    assert_eq!(status, place.ok(&["logs", "--db", "w.redb", "--json"]));
    assert_eq!(place.logs().len(), 2);
}

#[test]
fn an_unwritable_folder_is_no_reason_to_panic() {
    let place = Place::ready();
    assert_eq!(place.fails(&["init", "--db", "no/such/folder/w.redb"]).0, 3);
    assert_eq!(place.fails(&["keygen", "--name", "w", "--out", "no/such/folder/w.key"]).0, 3);
    assert_eq!(place.fails(&["db", "export", "--db", "w.redb", "-o", "no/such/folder/x"]).0, 3);
}

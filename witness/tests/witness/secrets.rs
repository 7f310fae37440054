//! The witness's own keys: several at once, from the environment, in an ssh-agent, and shown to nobody.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::place::{Place, Running, fails, log_of};
use crate::testlog::cosignature_time;
use crate::wire::{get, request};

#[test]
fn a_witness_with_two_keys_answers_two_lines_and_changing_keys_forgets_nothing() {
    let place = Place::new();
    let log = log_of(6);
    place.write("logs", &log.list());
    let vkeys = place.ok(&["keygen", "--name", "witness.example/w1", "--out", "w.key", "--ml-dsa"]);
    assert_eq!(vkeys.lines().count(), 2);
    assert_eq!(place.ok(&["vkey", "--key", "w.key"]), vkeys);
    place.ok(&["init", "--db", "w.redb"]);
    let running = place.serve();
    let answer = running.add_checkpoint(&log.request(0, 4));
    assert_eq!((answer.status, answer.text().lines().count()), (200, 2));
    assert_eq!(running.stop(), 0);
    place.ok(&["keygen", "--name", "witness.example/w2", "--out", "new.key"]);
    let running = place.serving().key("new.key").logs("logs").start();
    assert_eq!(running.add_checkpoint(&log.request(0, 6)).text(), "4\n");
    let answer = running.add_checkpoint(&log.request(4, 6));
    assert_eq!(answer.text().lines().count(), 1);
    assert!(answer.text().contains("witness.example/w2"));
}

#[test]
fn a_key_can_come_from_the_environment_and_is_shown_to_nobody() {
    let log = log_of(2);
    let place = Place::following(&log);
    let key = place.read("w.key");
    let secret = key.trim().splitn(5, '+').last().unwrap();
    let from_environment = place.serving().without_key_file().logs("logs");
    let mut command = from_environment.command();
    command.env("RUNSEAL_WITNESS_KEY", &key).env("RUNSEAL_LOG", "trace");
    let running = Running::start(command);
    let answer = running.add_checkpoint(&log.request(0, 2));
    assert!(cosignature_time(&log.text(2), answer.text(), &place.vkey()).is_some());
    let mut pages = format!("{answer:?}");
    for path in ["/", "/metrics", "/healthz", "/nothing"] {
        let _ = write!(pages, "{:?}", get(running.address, path));
    }
    let arguments = std::fs::read_to_string(format!("/proc/{}/cmdline", running.id())).unwrap();
    running.signal("-TERM");
    let said = format!("{}{}", running.before, running.rest_of_log());
    for place in [&pages, &arguments, &said] {
        assert!(!place.contains(secret) && !place.contains(&secret[..20]));
    }
    let mut command = from_environment.command();
    command.env("RUNSEAL_WITNESS_KEY", key.trim().replacen('+', "++", 1));
    let (code, said) = fails(command);
    assert_eq!(code, 2);
    assert!(said.contains("RUNSEAL_WITNESS_KEY, line 1") && !said.contains(&secret[..20]), "{said}");
}

/// ssh-agent and ssh-add, where they are installed.
#[test]
fn a_key_in_an_ssh_agent_cosigns() {
    let place = Place::new();
    let installed = |program: &str| Command::new(program).arg("-V").stdin(Stdio::null()).output().is_ok();
    if !["ssh-agent", "ssh-add", "ssh-keygen"].into_iter().all(installed) {
        eprintln!("NOT RUN: signing through an ssh-agent: it is not installed");
        return;
    }
    let socket = place.path("agent");
    let mut agent =
        Command::new("ssh-agent").arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()).spawn().unwrap();
    while !socket.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let ssh = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).env("SSH_AUTH_SOCK", &socket).current_dir(place.folder()).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for name in ["one", "two"] {
        ssh("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", name]);
        ssh("ssh-add", &["-q", name]);
    }
    let listed = ssh("ssh-add", &["-l"]);
    let fingerprint = listed.lines().nth(1).unwrap().split(' ').nth(1).unwrap();
    let log = log_of(5);
    place.write("logs", &log.list());
    place.ok(&["init", "--db", "w.redb"]);
    let by_agent = ["--ssh-agent", "agent", "--name", "witness.example/agent"];
    let serving = || place.serving().without_key_file().logs("logs").with(&by_agent);
    let (code, said) = serving().fails();
    assert!(code == 3 && said.contains(fingerprint), "several keys and none named: {said}");
    let running = serving().with(&["--ssh-key", fingerprint]).start();
    let about = request(running.address, "GET", "/", "accept: application/json\r\n", b"");
    let about: runseal_witness::about::About = serde_json::from_str(about.text()).unwrap();
    let answer = running.add_checkpoint(&log.request(0, 4));
    assert!(cosignature_time(&log.text(4), answer.text(), &about.vkeys[0]).is_some(), "{answer:?}");
    // Without its agent the witness signs nothing and keeps its state.
    agent.kill().unwrap();
    agent.wait().unwrap();
    let answer = running.add_checkpoint(&log.request(4, 5));
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(!answer.text().contains("agent at"), "{answer:?}");
    assert_eq!(running.stop(), 0);
    assert_eq!(place.logs()[0].size, 4);
}

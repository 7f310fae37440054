//! A process that is killed: what it was told is durable is there when the next one opens the journal.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use super::world::{base, concluded, note, run, tenant};
use crate::{CreateOptions, Journal};

/// Names the directory to the process that is to be killed.
const DIR: &str = "RUNSEAL_TEST_KILL_DIR";
const ROUNDS: u64 = 12;

/// What the killed process does: it appends and seals, and says so after each acknowledgement.
#[test]
fn the_process_that_is_killed() {
    // Run by itself this is no test: the next one starts it with the variable set.
    let Ok(dir) = std::env::var(DIR) else { return };
    let journal = Journal::open(dir.as_ref()).unwrap();
    let acme = journal.tenant(&tenant("acme"));
    let mut out = std::io::stderr().lock();
    let start = acme.tree_size().unwrap();
    for number in start.. {
        let name = run(&format!("r{number:06}"));
        acme.append_once(&name, "w", vec![note("1")], false).unwrap();
        acme.append_once(&name, "w", vec![note("2"), concluded("succeeded")], true).unwrap();
        if number % 8 == 0 {
            let note = acme.sign_checkpoint().unwrap();
            acme.publish(&note).unwrap();
        }
        writeln!(out, "sealed {number}").unwrap();
    }
}

#[test]
fn everything_acknowledged_survives_being_killed() {
    let dir = tempfile::tempdir().unwrap();
    let plane = dir.path().join("plane");
    drop(Journal::create(&plane, &base(), &CreateOptions::default()).unwrap());
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::kill::the_process_that_is_killed", "--nocapture", "--test-threads=1"])
            .env(DIR, &plane)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let sealed =
            lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("sealed ")?.parse::<u64>().ok());
        // At another place each round, some of them right after an acknowledgement.
        for last in sealed.take(1 + usize::try_from(round * 7 % 20).unwrap()) {
            acknowledged = last + 1;
        }
        std::thread::sleep(std::time::Duration::from_micros(round * 700));
        child.kill().unwrap();
        child.wait().unwrap();
        let journal = Journal::open(&plane).unwrap();
        let acme = journal.tenant(&tenant("acme"));
        let size = acme.tree_size().unwrap();
        assert!(size >= acknowledged, "{acknowledged} seals were acknowledged, {size} are there");
        assert_eq!(acme.check(&mut |_| {}).unwrap().contradiction, None);
        acme.sign_checkpoint().unwrap();
    }
    println!("{ROUNDS} kills survived, {acknowledged} seals acknowledged");
}

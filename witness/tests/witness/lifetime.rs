//! A witness from start to stop: what it has to itself, what survives a kill or a full disk, and what
//! a stop still finishes.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::place::{PROGRAM, Place, Running, log_of};
use crate::testlog::{TestLog, cosignature_time};
use crate::wire::{get, post};

#[test]
fn a_database_and_an_address_are_used_by_one_witness_at_a_time() {
    let place = Place::following(&log_of(1));
    let running = place.serve();
    let (code, said) = place.serving().logs("logs").fails();
    assert_eq!(code, 3);
    assert!(said.contains("in use by another process"), "{said}");
    assert_eq!(place.fails(&["logs", "--db", "w.redb"]).0, 3);
    place.ok(&["init", "--db", "second.redb"]);
    let address = running.address.to_string();
    let (code, said) = place.serving().logs("logs").db("second.redb").listen(&address).fails();
    assert_eq!(code, 3);
    assert!(said.contains(&address), "{said}");
    assert_eq!(running.stop(), 0);
}

#[test]
fn what_was_answered_survives_a_kill_at_any_moment() {
    let log = log_of(400);
    let place = Place::following(&log);
    let vkey = place.vkey();
    let mut acknowledged = 0;
    for round in 0..12u64 {
        let running = place.serve();
        let told = get(running.address, "/").text().contains("log.example/process");
        assert_eq!(told, acknowledged > 0);
        let address = running.address;
        let (tell, answered) = channel();
        let mut at = acknowledged;
        let client_log = log_of(400);
        let client = std::thread::spawn(move || {
            while let Ok(answer) = std::panic::catch_unwind(|| {
                let next = (at + 1).min(400);
                (next, post(address, "/add-checkpoint", client_log.request(at, next).as_bytes()))
            }) {
                at = match answer {
                    (next, answer) if answer.status == 200 => next,
                    (_, answer) => answer.text().trim().parse().unwrap_or(at),
                };
                if tell.send(at).is_err() {
                    return;
                }
            }
        });
        std::thread::sleep(Duration::from_millis(20 + 17 * (round % 5)));
        running.kill();
        let last = answered.iter().last();
        let _ = client.join();
        let before = acknowledged;
        acknowledged = last.unwrap_or(acknowledged);
        let stored = place.logs();
        let size = stored.first().map_or(0, |log| usize::try_from(log.size).unwrap());
        assert!(size >= acknowledged, "round {round}: {size} is stored, {acknowledged} was acknowledged");
        assert!(size <= acknowledged + 1 && size >= before);
        if let Some(stored) = stored.first() {
            assert_eq!(stored.root, crate::testlog::base64(&log.root(size)));
        }
        acknowledged = size;
    }
    assert!(acknowledged > 12, "the witness got through {acknowledged} checkpoints");
    let running = place.serve();
    let answer = running.add_checkpoint(&log.request(acknowledged, 400));
    assert!(cosignature_time(&log.text(400), answer.text(), &vkey).is_some());
}

#[test]
fn a_stop_finishes_what_is_in_flight() {
    let log = log_of(3);
    let place = Place::following(&log);
    let running = place.serve();
    let body = log.request(0, 3);
    let (first, rest) = body.split_at(10);
    let mut stream = TcpStream::connect(running.address).unwrap();
    let head = format!("POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{first}").as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    running.signal("-TERM");
    std::thread::sleep(Duration::from_millis(300));
    assert!(TcpStream::connect(running.address).is_err(), "nobody new is let in");
    stream.write_all(rest.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(running.wait(), 0);
    assert_eq!(place.logs()[0].size, 3);
}

/// A limit on the size of files stands for a full disk: the system refuses the database's next page.
#[test]
fn a_full_disk_signs_nothing_and_loses_nothing() {
    let place = Place::ready();
    let mut logs: Vec<TestLog> =
        (1..=60).map(|number| TestLog::new(&format!("log.example/{number}"), number)).collect();
    for log in &mut logs {
        log.grow(3, "");
    }
    let vkeys: String =
        logs.iter().flat_map(|log| ["vkey ".to_owned(), log.vkey(), "\n".to_owned()]).collect();
    place.write("logs", &format!("logs/v0\n{vkeys}"));
    let blocks = std::fs::metadata(place.path("w.redb")).unwrap().len() / 512;
    // With the signal ignored, a write beyond the limit is an error.
    let script = format!(
        "trap '' XFSZ; ulimit -S -f {blocks}; exec {PROGRAM} serve --key w.key --db w.redb --logs logs --listen 127.0.0.1:0"
    );
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).current_dir(place.folder());
    let running = Running::start(command);
    let mut acknowledged = Vec::new();
    let mut refused = 0;
    for log in &logs {
        let answer = running.add_checkpoint(&log.request(0, 3));
        match answer.status {
            200 => acknowledged.push(log.origin.clone()),
            503 => {
                refused += 1;
                assert!(!answer.text().contains('\u{2014}'), "{answer:?}");
                assert_eq!(get(running.address, "/healthz").status, 503);
            }
            other => panic!("{other}: {answer:?}"),
        }
    }
    assert!(refused > 0, "the limit was never reached");
    // Room again: the witness finds out by itself.
    let raised = Command::new("prlimit")
        .args(["--fsize=unlimited:unlimited", "--pid", &running.id().to_string()])
        .status();
    if raised.is_ok_and(|status| status.success()) {
        let started = Instant::now();
        while get(running.address, "/healthz").status != 200 {
            assert!(started.elapsed() < Duration::from_secs(10), "never healthy again");
            std::thread::sleep(Duration::from_millis(100));
        }
        // What was refused while the disk was full was not taken for cosigned either.
        for log in &logs {
            let known = acknowledged.contains(&log.origin);
            let old = if known { 3 } else { 0 };
            let answer = running.add_checkpoint(&log.request(old, 3));
            assert!(answer.status == 200 || (answer.status == 409 && !known), "{}: {answer:?}", log.origin);
        }
    } else {
        eprintln!("NOT RUN: the end of a full disk: prlimit is not installed");
    }
    assert_eq!(running.stop(), 0);
    let running = place.serve();
    for log in &logs {
        let known = acknowledged.contains(&log.origin);
        let answer = running.add_checkpoint(&log.request(0, 3));
        assert!(answer.status == 409 || (answer.status == 200 && !known), "{}: {answer:?}", log.origin);
    }
    assert_eq!(running.stop(), 0);
    place.ok(&["db", "check", "--db", "w.redb"]);
}

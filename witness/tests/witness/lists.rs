//! Lists of logs: read at the start, again on SIGHUP, compared, and held against the keys known.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::place::{Place, log_of};
use crate::testlog::TestLog;
use crate::wire::get;

#[test]
fn lists_are_read_again_on_hangup_and_a_bad_one_changes_nothing() {
    let (a, mut b) = (log_of(4), TestLog::new("log.example/b", 2));
    b.grow(4, "");
    let place = Place::following(&a);
    let running = place.serve();
    let status = |log: &TestLog, old, new| running.add_checkpoint(&log.request(old, new)).status;
    assert_eq!((status(&a, 0, 2), status(&b, 0, 2)), (200, 404));
    place.write("logs", "logs/v0\nvkey nonsense\n");
    running.signal("-HUP");
    running.wait_for("line 2");
    running.wait_for("read again");
    assert_eq!((status(&a, 2, 3), status(&b, 0, 2)), (200, 404));
    place.write("logs", &format!("{}vkey {}\n", a.list(), b.vkey()));
    running.signal("-HUP");
    running.wait_for("read again");
    assert_eq!((status(&a, 3, 3), status(&b, 0, 2)), (200, 200));
    // A log that would be taken for the witness is refused on this door too.
    place.write("logs", &TestLog::new("witness.example/w1", 5).list());
    running.signal("-HUP");
    running.wait_for("left as they were");
    place.write("logs", &b.list());
    running.signal("-HUP");
    running.wait_for("read again");
    assert_eq!((status(&a, 3, 4), status(&b, 2, 4)), (404, 200));
    let page = get(running.address, "/metrics");
    assert!(page.text().contains("runseal_witness_reload_failures_total 2\n"), "{}", page.text());
    assert_eq!(running.stop(), 0);
    assert_eq!(place.logs().iter().map(|log| log.size).collect::<Vec<_>>(), [4, 3]);
}

#[test]
fn a_changed_key_waits_for_the_operator() {
    let (old, mut new) = (log_of(5), TestLog::new("log.example/process", 9));
    new.grow(5, "");
    let place = Place::following(&old);
    let running = place.serve();
    assert_eq!(running.add_checkpoint(&old.request(0, 2)).status, 200);
    assert_eq!(running.stop(), 0);
    place.write("logs", &new.list());
    let diff = place.ok(&["logs", "diff", "--db", "w.redb", "--logs", "logs"]);
    assert!(diff.starts_with("! the log log.example/process"), "{diff}");
    let running = place.serve();
    assert!(running.before.contains("--accept-key-change log.example/process"), "{}", running.before);
    assert_eq!(running.add_checkpoint(&new.request(2, 5)).status, 403);
    assert_eq!(running.stop(), 0);
    let accepting = place.serving().logs("logs").with(&["--accept-key-change", "log.example/process"]);
    let running = accepting.start();
    assert_eq!(running.add_checkpoint(&new.request(2, 5)).status, 200);
    assert_eq!(running.stop(), 0);
    // Accepted once and for all.
    let running = place.serve();
    assert_eq!(running.add_checkpoint(&new.request(5, 5)).status, 200);
}

#[test]
fn a_key_that_changes_on_a_reload_waits_for_the_operator_too() {
    let (old, mut new) = (log_of(5), TestLog::new("log.example/process", 9));
    new.grow(5, "");
    let place = Place::following(&old);
    let running = place.serve();
    assert_eq!(running.add_checkpoint(&old.request(0, 2)).status, 200);
    place.write("logs", &new.list());
    running.signal("-HUP");
    running.wait_for("--accept-key-change log.example/process");
    running.wait_for("read again");
    assert_eq!(running.add_checkpoint(&new.request(2, 5)).status, 403);
    assert_eq!(running.stop(), 0);
    assert_eq!(place.logs()[0].size, 2);
}

#[test]
fn a_diff_says_what_would_change() {
    let (a, b) = (log_of(5), TestLog::new("log.example/b", 2));
    let place = Place::following(&a);
    let running = place.serve();
    assert_eq!(running.add_checkpoint(&a.request(0, 5)).status, 200);
    assert_eq!(running.stop(), 0);
    let diff = |list: &str| {
        place.write("other", list);
        place.ok(&["logs", "diff", "--db", "w.redb", "--logs", "other"])
    };
    assert_eq!(diff(&a.list()), "");
    assert_eq!(diff(&b.list()), "+ log.example/b\n- log.example/process (its state at size 5 is kept)\n");
}

#[test]
fn forty_thousand_logs_load_in_a_second_and_fit_in_memory() {
    use ed25519_dalek::SigningKey;
    let place = Place::ready();
    let mut list = String::from("logs/v0\n");
    for number in 0..40_000u32 {
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&number.to_be_bytes());
        let mut material = vec![1];
        material.extend(SigningKey::from_bytes(&seed).verifying_key().to_bytes());
        let name = format!("log.example/{number}");
        let hash = crate::testlog::sha256(&[name.as_bytes(), b"\n", &material]);
        writeln!(list, "vkey {name}+{}+{}", hex::encode(&hash[..4]), crate::testlog::base64(&material))
            .unwrap();
    }
    place.write("logs", &list);
    let started = Instant::now();
    let running = place.serve();
    let took = started.elapsed();
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
    let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let anonymous: u64 = anonymous.split_whitespace().next().unwrap().parse().unwrap();
    // The program's code takes 9 MiB where it is optimised, and more here.
    let resident = anonymous + 9 * 1024;
    eprintln!("40,000 logs: {took:?} to listening, {resident} KiB resident");
    assert!(resident < 64 * 1024, "{resident} KiB");
    // Unoptimised and beside other tests; the second is held to in the benchmark.
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert!(get(running.address, "/metrics").text().contains("runseal_witness_logs 40000\n"));
}

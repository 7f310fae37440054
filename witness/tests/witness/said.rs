//! What the operator is told of logs and clients that do not go on from where the witness stands.

use crate::place::{Place, log_of};
use crate::testlog::TestLog;

const ALARM: &str = "INTEGRITY ALARM";

/// The same log with another history.
fn rewritten(size: usize) -> TestLog {
    let mut log = log_of(0);
    log.grow(size, "rewritten");
    log
}

#[test]
fn a_client_that_is_behind_is_told_of_and_is_no_alarm() {
    let place = Place::following(&log_of(1));
    let running = place.serve();
    let log = log_of(8);
    assert_eq!(running.add_checkpoint(&log.request(0, 5)).status, 200);
    assert_eq!(running.add_checkpoint(&log.request(0, 8)).status, 409);
    let line = running.wait_for("stale_client");
    for part in ["INFO", "log.example/process", "old_size=0", "size=8", "cosigned=5"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert_eq!(running.add_checkpoint(&log.request(5, 8)).status, 200);
    assert_eq!(running.stop(), 0);
    assert_eq!(place.logs()[0].alarms, 0);
}

#[test]
fn a_log_that_is_smaller_than_it_was_is_warned_of_whatever_size_it_starts_from() {
    let place = Place::following(&log_of(1));
    for (old, status) in [(0, 409), (2, 409), (5, 400)] {
        let running = place.serve();
        running.add_checkpoint(&log_of(5).request(0, 5));
        let body = rewritten(3).request(0, 3).replacen("old 0", &format!("old {old}"), 1);
        assert_eq!(running.add_checkpoint(&body).status, status, "old {old}");
        let line = running.wait_for("smaller than the one cosigned");
        for part in ["WARN", "stale_client", "log.example/process", "size=3", "cosigned=5"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert_eq!(running.stop(), 0);
    }
}

#[test]
fn a_rewritten_log_raises_an_alarm_as_soon_as_it_says_what_contradicts() {
    let place = Place::following(&log_of(1));
    for (start, old, new, status) in [
        // From the size that a conflict tells it, with the best proof that its new history has.
        (5, 5, 9, 422),
        // Of the same size, whatever it starts from.
        (5, 5, 5, 422),
        (5, 0, 5, 409),
    ] {
        std::fs::remove_file(place.path("w.redb")).unwrap();
        place.ok(&["init", "--db", "w.redb"]);
        let running = place.serve();
        assert_eq!(running.add_checkpoint(&log_of(start).request(0, start)).status, 200);
        assert_eq!(running.add_checkpoint(&rewritten(new).request(old, new)).status, status);
        let line = running.wait_for(ALARM);
        for part in ["ERROR", "alarm", "log.example/process"] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
}

//! The server over real HTTP.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod console;
mod scripted;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use console::{Answer, Desk, Serving, get, request, run};
use scripted::{Cosigner, Reply, Scripted};
use sha2::{Digest as _, Sha256};

const IMMUTABLE: &str = "immutable";

fn with_runs(count: usize) -> Desk {
    let desk = Desk::with_plane();
    import(&desk, "runs", 0, count);
    desk
}

fn import(desk: &Desk, name: &str, from: usize, to: usize) {
    let runs: String = (from..to).map(|number| run(&format!("run-{number:04}"), 2, Some("done"))).collect();
    desk.write(&format!("{name}.jsonl"), runs);
    desk.run(&["import", "--dir", "plane", "--tenant", "acme", &format!("{name}.jsonl")]).ended(0);
}

fn checkpoint(desk: &Desk) {
    desk.run(&["checkpoint", "--dir", "plane", "--tenant", "acme"]).ended(0);
}

/// Waits until `condition` holds, for at most ten seconds.
#[track_caller]
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(10), "{what} did not come about");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn published_size(serving: &Serving, tenant: &str) -> Option<u64> {
    let answer = serving.get(&format!("/log/{tenant}/checkpoint"));
    (answer.status == 200).then(|| answer.text().lines().nth(1).unwrap().parse().unwrap())
}

#[test]
fn each_kind_of_answer_says_what_it_is_and_how_long_it_may_be_kept() {
    let desk = with_runs(300);
    checkpoint(&desk);
    let serving = desk.serve(&[]);
    let acme = |path: &str| serving.get(&format!("/log/acme/{path}"));
    let expect = |answer: &Answer, content_type: &str, keep: &str| {
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some(content_type));
        assert_eq!(answer.header("cache-control"), Some(keep));
    };
    expect(&acme("checkpoint"), "text/plain; charset=utf-8", "public, max-age=2");
    expect(&acme("tile/0/000"), "application/octet-stream", "public, max-age=31536000, immutable");
    expect(&acme("tile/0/001.p/44"), "application/octet-stream", "public, max-age=31536000, immutable");
    expect(&acme("tile/entries/000"), "application/octet-stream", "public, max-age=31536000, immutable");
    expect(&acme("tile/entries/001.p/44"), "application/octet-stream", "public, max-age=31536000, immutable");
    expect(&serving.get("/audit/acme/runs"), "application/json", "no-store");
    expect(&serving.get("/audit/acme/runs/run-0001/records"), "application/jsonl; charset=utf-8", "no-store");
    expect(&serving.get("/healthz"), "application/json", "no-store");
    assert_eq!(acme("tile/0/000").body.len(), 8192);
    let head = request(
        &serving.address,
        "HEAD /log/acme/tile/0/000 HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
    );
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("8192"), 0));
}

#[test]
fn bundles_are_compressed_for_those_who_ask() {
    let desk = with_runs(300);
    checkpoint(&desk);
    let serving = desk.serve(&[]);
    let path = "/log/acme/tile/entries/000";
    let plain = serving.get(path);
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(plain.header("vary"), Some("accept-encoding"));
    let gzip = get(&serving.address, path, "Accept-Encoding: gzip\r\n");
    assert_eq!(
        (gzip.header("content-encoding"), gzip.header("vary")),
        (Some("gzip"), Some("accept-encoding"))
    );
    assert!(gzip.body.len() < plain.body.len());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&gzip.body[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
    // Hashes do not compress, and errors are no gzip.
    assert_eq!(
        get(&serving.address, "/log/acme/tile/0/000", "Accept-Encoding: gzip\r\n").header("content-encoding"),
        None
    );
    let error = get(&serving.address, "/log/acme/tile/entries/009", "Accept-Encoding: gzip\r\n");
    assert_eq!((error.status, error.header("content-encoding")), (404, None));
}

#[test]
fn what_is_not_served_is_404_and_is_never_kept() {
    let desk = with_runs(3);
    checkpoint(&desk);
    let serving = desk.serve(&[]);
    for path in [
        "/",
        "/log",
        "/log/",
        "/log/acme",
        "/log/acme/",
        "/log/nobody/checkpoint",
        "/log/ACME/checkpoint",
        "/log/acme/checkpoint/",
        "/log/acme/tile/0/000",
        "/log/acme/tile/0/000.p/4",
        "/log/acme/tile/0/000.p/0",
        "/log/acme/tile/0/000.p/03",
        "/log/acme/tile/0/000.p/256",
        "/log/acme/tile/0/0",
        "/log/acme/tile/0/x000/000",
        "/log/acme/tile/00/000.p/3",
        "/log/acme/tile/64/000.p/1",
        "/log/acme/tile/1/000.p/1",
        "/log/acme/tile/entries/000.p/3/",
        "/log/acme/tile/entries/001.p/1",
        "/log/acme/tile/0/%30%30%30.p/3",
        "/log//acme/checkpoint",
        "/log/acme/../acme/checkpoint",
        "/log/globex/%2e%2e/acme/checkpoint",
        "/audit/nobody/runs",
        "/audit/acme/runs/nobody/records",
        "/audit/acme/runs/run-0001",
        "/audit/acme/runs/..%2Frun-0001/records",
        "/audit/_directory/runs",
        "/healthz/",
    ] {
        let answer = serving.get(path);
        assert_eq!((answer.status, answer.text().as_str()), (404, "not found\n"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
    }
    for (line, status) in [
        ("POST /log/acme/checkpoint HTTP/1.1\r\nContent-Length: 2\r\n", 405),
        ("DELETE /audit/acme/runs HTTP/1.1\r\n", 405),
        ("GET /healthz HTTP/1.1\r\nContent-Length: 2\r\n", 405),
        ("GET /audit/acme/runs?limit=0 HTTP/1.1\r\n", 400),
        ("GET /audit/acme/runs?offset=5 HTTP/1.1\r\n", 400),
        ("GET /audit/acme/runs?after=NO HTTP/1.1\r\n", 400),
    ] {
        let answer = request(&serving.address, &format!("{line}Host: t\r\nConnection: close\r\n\r\nab"));
        assert_eq!(answer.status, status, "{line}");
        assert!(!answer.header("cache-control").unwrap_or_default().contains(IMMUTABLE));
    }
}

#[test]
fn every_path_that_a_checkpoint_implies_is_there_also_of_earlier_checkpoints() {
    let desk = Desk::with_plane();
    let mut implied: Vec<(String, Vec<u8>)> = Vec::new();
    let mut before = 0;
    for size in [1, 255, 256, 257, 520] {
        import(&desk, "more", before, size);
        before = size;
        checkpoint(&desk);
        let serving = desk.serve(&[]);
        for (width, index) in
            [(size.min(256), 0), (size.saturating_sub(256).min(256), 1), (size.saturating_sub(512), 2)]
        {
            for kind in ["0", "entries"] {
                if width > 0 {
                    let partial = if width == 256 { String::new() } else { format!(".p/{width}") };
                    let path = format!("/log/acme/tile/{kind}/{index:03}{partial}");
                    implied.push((path.clone(), serving.get(&path).body));
                }
            }
        }
        for (path, body) in &implied {
            let answer = serving.get(path);
            assert_eq!((answer.status, &answer.body), (200, body), "{path} at size {size}");
        }
    }
    let (path, tile) = &implied.iter().rev().find(|(path, _)| path.contains("tile/0/001")).unwrap();
    assert_eq!((path.as_str(), tile.len()), ("/log/acme/tile/0/001", 8192));
}

#[test]
fn runs_are_listed_page_by_page_and_records_streamed_as_stored() {
    let desk = with_runs(25);
    desk.write("long.jsonl", run("long", 3000, None));
    desk.run(&["import", "--dir", "plane", "--tenant", "acme", "long.jsonl"]).ended(0);
    let shown = desk.run(&["show", "--dir", "plane", "--tenant", "acme", "long"]).ended(0).stdout;
    let listed = desk.run(&["runs", "--dir", "plane", "--tenant", "acme", "--json"]).ended(0).stdout;
    let serving = desk.serve(&[]);
    assert_eq!(serving.get("/audit/acme/runs/long/records").text(), shown);
    assert_eq!(shown.lines().count(), 3000);
    let (mut collected, mut after) = (Vec::new(), String::new());
    loop {
        let page: serde_json::Value =
            serde_json::from_slice(&serving.get(&format!("/audit/acme/runs?limit=7{after}")).body).unwrap();
        let runs = page["runs"].as_array().unwrap();
        assert!(runs.len() <= 7 && !runs.is_empty());
        collected.extend(runs.clone());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let expected: Vec<serde_json::Value> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(collected, expected);
    assert_eq!(collected.len(), 26);
}

#[test]
fn a_checkpoint_is_published_when_there_is_something_new_and_heads_pin_open_runs() {
    let desk = with_runs(3);
    desk.write("open.jsonl", run("open", 2, None));
    desk.run(&["import", "--dir", "plane", "--tenant", "acme", "open.jsonl"]).ended(0);
    let serving = desk.serve(&["--checkpoint-interval", "100ms", "--head-interval", "1h"]);
    // Three seals, and a head of the open run since heads are due at the start.
    eventually("the first checkpoint", || published_size(&serving, "acme") == Some(4));
    eventually("the directory", || published_size(&serving, "_directory") == Some(1));
    let entries = serving.get("/log/_directory/tile/entries/000.p/1").body;
    assert!(String::from_utf8_lossy(&entries).contains(r#""tenant":"acme""#));
    let health: serde_json::Value = serde_json::from_slice(&serving.get("/healthz").body).unwrap();
    assert_eq!((&health["status"], &health["logs"]["acme"]["size"]), (&"ok".into(), &4.into()));
    let (code, _) = serving.stop("-TERM");
    assert_eq!(code, Some(0));
    let note = std::fs::read_to_string(desk.path("plane/signed/acme")).unwrap();
    let serving = desk.serve(&["--checkpoint-interval", "100ms"]);
    assert_eq!(serving.get("/log/acme/checkpoint").text(), note, "what is unchanged is not published again");
    assert_eq!(serving.stop("-INT").0, Some(0));
}

/// A plane with a policy of one scripted witness.
fn policy(desk: &Desk, witness: &Scripted) {
    let vkey = desk.run(&["vkey", "--dir", "plane", "--tenant", "acme"]).ended(0).stdout;
    let cosigner = cosigner().vkey();
    desk.write("policy", format!("log {vkey}witness w {cosigner} {}\nquorum w\n", witness.url));
}

fn cosigner() -> Cosigner {
    Cosigner::new("north.example/w", 1)
}

const FAST: &[&str] = &["--policy", "policy", "--checkpoint-interval", "100ms"];

#[test]
fn a_checkpoint_is_shown_once_its_quorum_is_met_and_nothing_beyond_it_before() {
    let desk = with_runs(3);
    let witness = Scripted::new({
        let mut asked_for = 0;
        move |asked| {
            if asked.method == "GET" {
                return Reply::Plain(404, "text/plain", Vec::new());
            }
            asked_for += 1;
            // Twice it is out of order.
            if asked_for <= 2 {
                Reply::Plain(503, "text/plain", Vec::new())
            } else {
                Reply::lines(&[cosigner().line(&asked.note_text(), 1_760_000_000)])
            }
        }
    });
    policy(&desk, &witness);
    let serving = desk.serve(FAST);
    eventually("the first request", || !witness.asked().is_empty());
    assert_eq!(serving.get("/log/acme/tile/0/000.p/3").status, 404, "no checkpoint covers it yet");
    eventually("the checkpoint", || published_size(&serving, "acme") == Some(3));
    let note = serving.get("/log/acme/checkpoint").text();
    assert!(note.contains("\n\u{2014} north.example/w "), "{note}");
    assert_eq!(serving.get("/log/acme/tile/0/000.p/3").status, 200);
    let metrics = serving.get("/metrics").text();
    assert!(metrics.contains("runseal_publications_total{tenant=\"acme\"} 1\n"), "{metrics}");
    assert!(metrics.contains("runseal_publications_held_total{tenant=\"acme\"} 2\n"), "{metrics}");
    assert_eq!(serving.get("/log/_directory/checkpoint").status, 404, "the policy does not list it");
}

#[test]
fn an_integrity_alarm_stops_publication_and_shows_everywhere() {
    let desk = with_runs(3);
    let witness = Scripted::new(|_| Reply::Plain(422, "text/plain", Vec::new()));
    policy(&desk, &witness);
    let serving = desk.serve(FAST);
    eventually("the alarm", || serving.get("/healthz").status == 503);
    let health: serde_json::Value = serde_json::from_slice(&serving.get("/healthz").body).unwrap();
    assert_eq!(health["status"], "integrity-alarm");
    assert!(health["logs"]["acme"]["alarm"].as_str().unwrap().contains("INTEGRITY ALARM"));
    assert!(serving.get("/metrics").text().contains("runseal_integrity_alarm{tenant=\"acme\"} 1\n"));
    assert_eq!(serving.get("/log/acme/checkpoint").status, 404);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(witness.asked().len(), 1, "it is not asked again");
    let (code, said) = serving.stop("-TERM");
    assert_eq!(code, Some(0));
    assert!(said.contains("INTEGRITY ALARM"), "{said}");
}

#[cfg(feature = "testkit")]
#[test]
fn the_self_check_finds_an_edit_on_disk_within_its_interval() {
    let desk = with_runs(3);
    checkpoint(&desk);
    let serving = desk.serve(&["--check-interval", "100ms"]);
    eventually("a check", || {
        serving.get("/metrics").text().contains("runseal_check_contradiction{tenant=\"acme\"} 0\n")
    });
    assert_eq!(serving.get("/healthz").status, 200);
    drop(serving);
    desk.run(&["tamper", "--dir", "plane", "--tenant", "acme", "edit", "run-0001", "1"]).ended(0);
    let serving = desk.serve(&["--check-interval", "100ms"]);
    eventually("the finding", || serving.get("/healthz").status == 503);
    let health: serde_json::Value = serde_json::from_slice(&serving.get("/healthz").body).unwrap();
    assert!(health["logs"]["acme"]["contradiction"].as_str().unwrap().contains("run-0001"), "{health}");
    assert!(serving.get("/metrics").text().contains("runseal_check_contradiction{tenant=\"acme\"} 1\n"));
    // It is found, not hidden: the log and the damaged record stay there for an auditor.
    assert_eq!(serving.get("/log/acme/checkpoint").status, 200);
    assert_eq!(serving.get("/audit/acme/runs/run-0001/records").status, 200);
}

#[test]
fn stopping_does_not_wait_for_a_witness_that_hangs() {
    let desk = with_runs(3);
    let witness = Scripted::new(|_| Reply::Silence);
    policy(&desk, &witness);
    let serving = desk.serve(FAST);
    eventually("a request", || !witness.all_asked().is_empty());
    let started = Instant::now();
    assert_eq!(serving.stop("-TERM").0, Some(0));
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    desk.run(&["check", "--dir", "plane"]).ended(0);
}

#[test]
fn tokens_open_what_they_name_and_tell_nothing_else() {
    let desk = with_runs(2);
    checkpoint(&desk);
    let mut tokens = String::from("# tokens\n");
    let mut token = |tenant: &str, scope: &str| {
        let made = desk.run(&["token", "--tenant", tenant, "--scope", scope]).ended(0).stdout;
        let (token, line) = made.trim_end().split_once('\n').unwrap();
        assert!(!line.contains(token));
        let hash = hex::encode(Sha256::digest(token));
        assert_eq!(line, format!("{scope} {tenant} {hash}"));
        tokens.push_str(line);
        tokens.push('\n');
        format!("Authorization: Bearer {token}\r\n")
    };
    let (log, audit, all) = (token("acme", "log"), token("acme", "audit"), token("*", "log,audit"));
    desk.write("tokens", &tokens);
    let serving = desk.serve(&["--tokens", "tokens"]);
    let status = |path: &str, more: &str| {
        let answer = get(&serving.address, path, more);
        assert!(!answer.header("cache-control").unwrap().contains("public"), "{path}");
        (answer.status, answer.body.len())
    };
    for path in [
        "/log/acme/checkpoint",
        "/log/nobody/checkpoint",
        "/log/acme/nothing",
        "/audit/acme/runs",
        "/audit/nobody/runs",
        "/metrics",
    ] {
        assert_eq!(status(path, "").0, 401, "{path}");
        assert_eq!(status(path, "Authorization: Bearer rs_nonsense\r\n").0, 401, "{path}");
        assert_eq!(status(path, "Authorization: Basic cnM6cnM=\r\n").0, 401, "{path}");
    }
    assert_eq!(status("/log/acme/checkpoint", &log).0, 200);
    assert_eq!(status("/audit/acme/runs", &audit).0, 200);
    // What exists and what does not are refused alike.
    assert_eq!(
        status("/audit/acme/runs/run-0001/records", &log),
        status("/audit/acme/runs/nobody/records", &log)
    );
    assert_eq!(status("/log/acme/checkpoint", &audit), status("/log/nobody/checkpoint", &log));
    assert_eq!(status("/log/nobody/checkpoint", &log).0, 403);
    assert_eq!(status("/metrics", &audit).0, 403);
    for (path, expected) in [
        ("/log/acme/checkpoint", 200),
        ("/log/nobody/checkpoint", 404),
        ("/audit/acme/runs", 200),
        ("/metrics", 200),
    ] {
        assert_eq!(status(path, &all).0, expected, "{path}");
    }
    let health = serving.get("/healthz");
    assert_eq!(
        (health.status, health.text().as_str()),
        (200, "{\"status\":\"ok\"}"),
        "no tenant is named to strangers"
    );
}

#[test]
fn tokens_are_read_again_while_it_serves_and_a_file_with_a_fault_changes_nothing() {
    let desk = with_runs(1);
    checkpoint(&desk);
    let token = || {
        let made = desk.run(&["token", "--tenant", "acme", "--scope", "log"]).ended(0).stdout;
        let (token, line) = made.trim_end().split_once('\n').unwrap();
        (format!("Authorization: Bearer {token}\r\n"), line.to_owned())
    };
    let ((old, old_line), (new, new_line)) = (token(), token());
    desk.write("tokens", &old_line);
    let serving = desk.serve(&["--tokens", "tokens"]);
    let status = |token: &str| get(&serving.address, "/log/acme/checkpoint", token).status;
    assert_eq!((status(&old), status(&new)), (200, 401));

    desk.write("tokens", &new_line);
    assert_eq!((status(&old), status(&new)), (200, 401), "nobody said to read it");
    serving.signal("-HUP");
    eventually("the new token is admitted and the old one is not", || {
        (status(&old), status(&new)) == (401, 200)
    });

    for (fault, text) in ["", "log acme", &format!("{old_line}\n{new_line} more")].into_iter().enumerate() {
        desk.write("tokens", text);
        serving.signal("-HUP");
        eventually("the fault is said", || serving.said().matches("stay as they were").count() == fault + 1);
        assert_eq!((status(&old), status(&new)), (401, 200), "{text}");
    }
    desk.write("tokens", format!("{new_line}\n{old_line}"));
    serving.signal("-HUP");
    eventually("both are admitted", || (status(&old), status(&new)) == (200, 200));
    assert_eq!(serving.stop("-TERM").0, Some(0));
}

#[test]
fn without_tokens_there_is_nothing_to_read_again() {
    let desk = with_runs(1);
    checkpoint(&desk);
    let serving = desk.serve(&[]);
    serving.signal("-HUP");
    eventually("it is said", || serving.said().contains("no tokens file"));
    assert_eq!(serving.get("/log/acme/checkpoint").status, 200);
}

#[test]
fn a_public_log_opens_the_log_alone() {
    let desk = with_runs(2);
    checkpoint(&desk);
    let serving = desk.serve(&["--listen", "0.0.0.0:0", "--public-log"]);
    let address = format!("127.0.0.1:{}", serving.address.rsplit_once(':').unwrap().1);
    let status = |path: &str| get(&address, path, "").status;
    assert_eq!(status("/log/acme/checkpoint"), 200);
    assert_eq!(status("/log/nobody/checkpoint"), 404);
    for path in ["/audit/acme/runs", "/audit/nobody/runs", "/metrics"] {
        assert_eq!(status(path), 401, "{path}");
    }
}

/// Connections that dawdle are dropped, and nobody waits for them.
#[test]
fn a_slow_header_is_cut_off_and_holds_nobody_up() {
    let desk = with_runs(2);
    checkpoint(&desk);
    let serving = desk.serve(&[]);
    let mut dawdlers: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(&serving.address).unwrap()).collect();
    let started = Instant::now();
    for dawdler in &mut dawdlers {
        dawdler.write_all(b"GET /healthz HTTP/1.1\r\nHost:").unwrap();
    }
    assert_eq!(serving.get("/log/acme/checkpoint").status, 200);
    assert!(started.elapsed() < Duration::from_secs(1));
    // An idle connection after an answer is cut off as well.
    let mut idle = TcpStream::connect(&serving.address).unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    dawdlers.push(idle);
    for mut dawdler in dawdlers {
        dawdler.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        dawdler.read_to_end(&mut Vec::new()).unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(18), "{:?}", started.elapsed());
}

#[test]
fn a_header_that_is_too_long_is_refused() {
    let desk = with_runs(1);
    let serving = desk.serve(&[]);
    let long = format!("GET /healthz HTTP/1.1\r\nHost: t\r\nX: {}\r\n\r\n", "x".repeat(64 << 10));
    let answer = request_or_close(&serving.address, &long);
    assert!(matches!(answer, None | Some(431)), "{answer:?}");
    assert_eq!(serving.get("/healthz").status, 200);
}

fn request_or_close(address: &str, bytes: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(address).unwrap();
    let _ = stream.write_all(bytes.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).split(' ').nth(1).map(|status| status.parse().unwrap())
}

//! Logs served by servers that are slow, broken or lying.

use std::io::Write as _;
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::command::{Run, run, text};
use crate::plane::{Plane, bundle};
use crate::server::{Answer, Server};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn big() -> Plane {
    let mut plane = Plane::new();
    for run in 0..600 {
        plane.sealed(&format!("r{run}"), 2);
    }
    plane
}

fn audit(plane: &Plane, server: &Server, more: &[&str]) -> Run {
    let policy = plane.policy();
    let url = format!("{}/log/acme", server.url);
    let mut args = vec!["audit", "--policy", text(&policy), "--url", &url];
    args.extend(more);
    run(plane, &args)
}

#[test]
fn a_log_is_audited_over_http_plain_and_gzipped() {
    let plane = big();
    let server = Server::start();
    server.tree("/log/acme", &plane.publish());
    assert_eq!(audit(&plane, &server, &[]).code, 0);
    for path in server.paths().iter().filter(|path| path.contains("/entries/")) {
        if let Answer::Plain(_, body) = server.get(path) {
            server.put(path, Answer::Gzip(gzip(&body)));
        }
    }
    let gzipped = audit(&plane, &server, &[]);
    assert_eq!(gzipped.code, 0, "{}", gzipped.show());
    assert_eq!(gzipped.report().counts.entries, 600);
}

#[test]
fn a_partial_tile_that_is_gone_is_cut_from_the_full_one() {
    let mut plane = big();
    let server = Server::start();
    let old = plane.note(600);
    while plane.entries.len() < 800 {
        let run = format!("r{}", plane.entries.len());
        plane.sealed(&run, 2);
    }
    // The log has moved on and dropped its partial tiles; an older checkpoint is still served.
    server.tree("/log/acme", &plane.publish());
    server.put("/log/acme/checkpoint", Answer::Plain(200, old.to_string().into_bytes()));
    let result = audit(&plane, &server, &[]);
    assert_eq!(result.code, 3, "level 1 has no full tile yet: {}", result.show());
    let narrow: Vec<u8> = match server.get("/log/acme/tile/1/000.p/3") {
        Answer::Plain(_, body) => body[..64].to_vec(),
        _ => unreachable!(),
    };
    server.put("/log/acme/tile/1/000.p/2", Answer::Plain(200, narrow));
    let result = audit(&plane, &server, &[]);
    assert_eq!((result.code, result.report().counts.entries), (0, 600), "{}", result.show());
}

#[test]
fn an_unreliable_server_leaves_the_audit_incomplete_and_accuses_nobody() {
    let plane = big();
    let server = Server::start();
    let log = plane.publish();
    let bomb = gzip(&vec![0; 40 << 20]);
    let nine = 9usize;
    for path in ["checkpoint", "tile/0/001", "tile/1/000.p/2", "tile/entries/001", "tile/entries/002.p/88"] {
        for (name, answer) in [
            ("an error", Answer::Plain(500, Vec::new())),
            ("a hang-up", Answer::Hangup),
            ("a redirect", Answer::Redirect("http://127.0.0.1:1/".to_owned())),
            ("a body cut short", Answer::Short(vec![1; nine], 8_192)),
            ("an endless body", Answer::Endless),
        ] {
            server.tree("/log/acme", &log);
            server.put(&format!("/log/acme/{path}"), answer);
            let started = Instant::now();
            let result = audit(&plane, &server, &[]);
            assert_eq!(result.code, 3, "{path}, {name}: {}", result.show());
            assert!(result.kinds().is_empty(), "{path}, {name}: {}", result.show());
            assert!(started.elapsed().as_secs() < 15, "{path}, {name} took {:?}", started.elapsed());
        }
    }
    server.tree("/log/acme", &log);
    server.put("/log/acme/tile/entries/001", Answer::Gzip(bomb));
    let bombed = audit(&plane, &server, &[]);
    assert_eq!((bombed.code, bombed.kinds()), (3, vec![]), "{}", bombed.show());
    assert!(bombed.stdout.contains("longer than"), "{}", bombed.stdout);
}

#[test]
fn a_server_that_is_down_is_no_finding() {
    let plane = big();
    let policy = plane.policy();
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}/log");
    let result = run(&plane, &["audit", "--policy", text(&policy), "--url", &url]);
    assert_eq!((result.code, result.kinds()), (3, vec![]), "{}", result.show());
    assert!(result.stdout.contains("refused"), "{}", result.stdout);
}

#[test]
fn a_bundle_with_other_entries_of_the_right_length_is_found() {
    let plane = big();
    let server = Server::start();
    server.tree("/log/acme", &plane.publish());
    let mut entries = plane.entries[256..512].to_vec();
    entries.swap(3, 7);
    server.put("/log/acme/tile/entries/001", Answer::Plain(200, bundle(&entries)));
    let result = audit(&plane, &server, &[]);
    let indexes: Vec<u64> = result.report().findings.iter().filter_map(|finding| finding.index).collect();
    assert_eq!((result.code, indexes), (1, vec![259, 263]), "{}", result.show());
}

#[test]
fn a_server_that_says_nothing_does_not_hold_the_audit_up_for_ever() {
    let plane = big();
    let server = Server::start();
    server.tree("/log/acme", &plane.publish());
    server.put("/log/acme/tile/entries/001", Answer::Stall);
    let started = Instant::now();
    let result = audit(&plane, &server, &["--timeout", "2s"]);
    assert_eq!((result.code, result.kinds()), (3, vec![]), "{}", result.show());
    assert!(result.stdout.contains("did not end within 2s"), "{}", result.stdout);
    assert!(started.elapsed().as_secs() < 15, "{:?}", started.elapsed());
}

#[test]
fn bundles_of_the_longest_entries_are_audited_one_at_a_time() {
    let mut plane = Plane::new();
    for entry in 0..300u32 {
        // As long as a bundle can say, and nothing that compresses.
        let seed = entry.to_be_bytes();
        plane.entries.push(
            (0..65_535u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[1] ^ seed[3]).collect(),
        );
    }
    let server = Server::start();
    server.tree("/log/acme", &plane.publish());
    let plain = audit(&plane, &server, &[]);
    assert_eq!((plain.code, plain.report().counts.entries), (0, 300), "{}", plain.show());
    if let Answer::Plain(_, body) = server.get("/log/acme/tile/entries/000") {
        server.put("/log/acme/tile/entries/000", Answer::Gzip(gzip(&body)));
    }
    let gzipped = audit(&plane, &server, &[]);
    assert_eq!(gzipped.code, 0, "{}", gzipped.show());
    if let Answer::Plain(_, mut body) = server.get("/log/acme/tile/entries/001.p/44") {
        body[100] ^= 1;
        server.put("/log/acme/tile/entries/001.p/44", Answer::Plain(200, body));
    }
    let damaged = audit(&plane, &server, &[]);
    assert_eq!((damaged.code, damaged.report().findings[0].index), (1, Some(256)), "{}", damaged.show());
}

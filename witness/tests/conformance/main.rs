//! Conformance with c2sp.org/tlog-witness, checked over HTTP against any witness.
//!
//! ```text
//! cargo test -p runseal-witness --test conformance                     our own
//! RUNSEAL_CONFORMANCE_LIST=logs.list cargo test … --test conformance   write the logs that it uses, and end
//! RUNSEAL_CONFORMANCE_URL=http://HOST:PORT RUNSEAL_CONFORMANCE_VKEY=… cargo test … --test conformance
//! ```
//!
//! The logs are the same in every run, and a witness forgets nothing: a run starts where the last one
//! ended, and checks that need a log never seen are then left out, and said to be.
#![expect(clippy::unwrap_used, reason = "a suite that cannot go on ends")]

use std::fmt::Write as _;
use std::io::BufRead as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Barrier;

#[expect(dead_code, reason = "this suite uses a part of it")]
#[path = "../witness/testlog.rs"]
mod testlog;
#[path = "../witness/wire.rs"]
mod wire;

use testlog::{TestLog, base64, cosignature_time, request_body, sha256, unbase64};
use wire::{Answer, get, post, request};

/// Every log has its own checks, so that a fault in one leaves the others' states alone.
const LOGS: [&str; 10] =
    ["growth", "zero", "fresh", "conflict", "signature", "malformed", "proof", "lines", "race", "monitor"];
/// No run takes a log further than this many leaves beyond where it stood.
const ROOM: usize = 64;

struct Suite {
    address: SocketAddr,
    vkey: String,
    passed: usize,
    failed: Vec<String>,
    left_out: Vec<String>,
}

struct Subject {
    log: TestLog,
    /// Where the witness says the log stands.
    size: usize,
}

fn log(name: &str) -> TestLog {
    let seed = u8::try_from(LOGS.iter().position(|known| *known == name).unwrap() + 1).unwrap();
    TestLog::new(&format!("conformance.example/{name}"), seed)
}

/// The text of a checkpoint: what a cosignature covers.
fn text_of(checkpoint: &str) -> &str {
    &checkpoint[..=checkpoint.find("\n\n").unwrap()]
}

impl Suite {
    fn add(&self, body: &str) -> Answer {
        self.add_bytes(body.as_bytes())
    }

    fn add_bytes(&self, body: &[u8]) -> Answer {
        post(self.address, "/add-checkpoint", body)
    }

    fn check(&mut self, what: &str, holds: bool, seen: &Answer) {
        if holds {
            self.passed += 1;
        } else {
            self.failed.push(format!("{what}: {} {:?}", seen.status, String::from_utf8_lossy(&seen.body)));
        }
    }

    fn expect(&mut self, what: &str, answer: &Answer, statuses: &[u16]) {
        self.check(&format!("{what}: expected {statuses:?}"), statuses.contains(&answer.status), answer);
    }

    /// A 200 with a valid cosignature of the checkpoint.
    fn expect_cosigned(&mut self, what: &str, answer: &Answer, checkpoint: &str) -> u64 {
        let lines = String::from_utf8_lossy(&answer.body).into_owned();
        let shaped = lines.ends_with('\n') && lines.lines().all(|line| line.starts_with("\u{2014} "));
        let time = cosignature_time(text_of(checkpoint), &lines, &self.vkey);
        self.check(what, answer.status == 200 && shaped && time.is_some_and(|time| time > 0), answer);
        time.unwrap_or(0)
    }

    fn expect_conflict(&mut self, what: &str, answer: &Answer, size: usize) {
        let told = answer.body == format!("{size}\n").as_bytes();
        let kind = answer.header("content-type") == Some("text/x.tlog.size");
        self.check(what, answer.status == 409 && told && kind, answer);
    }

    /// A log at the size that the witness has for it, with room to grow.
    fn subject(&mut self, name: &str) -> Subject {
        let mut log = log(name);
        log.grow(1, "");
        // Size one with an old size that no log has: the conflict tells where the log stands.
        let probe = request_body(1, &[], &log.checkpoint(1));
        let answer = self.add(&probe);
        let size = match answer.status {
            409 => answer.text().trim().parse().unwrap(),
            200 | 422 => 1,
            _ => {
                self.check(&format!("{name}: the witness follows the log"), false, &answer);
                0
            }
        };
        log.grow(size + ROOM, "");
        Subject { log, size }
    }

    fn growth(&mut self) {
        let Subject { log, mut size } = self.subject("growth");
        for step in [1, 2, 5, 8, 13] {
            let checkpoint = log.checkpoint(size + step);
            let answer = self.add(&log.request(size, size + step));
            self.expect_cosigned(&format!("growth by {step} from {size}"), &answer, &checkpoint);
            size += step;
        }
        let first = self.add(&log.request(size, size));
        let time =
            self.expect_cosigned("an unchanged checkpoint is cosigned again", &first, &log.checkpoint(size));
        let second = self.add(&log.request(size, size));
        let later = self.expect_cosigned("and again", &second, &log.checkpoint(size));
        self.check("time does not run backwards", later >= time, &second);
        for (old, new) in [(size + 1, size), (size + 30, 0), (usize::MAX, size)] {
            let answer = self.add(&request_body(old, &[], &log.checkpoint(new)));
            self.expect(&format!("old size {old} above the checkpoint's {new}"), &answer, &[400, 409]);
        }
        let answer = self.add(&request_body(size, &[], &log.checkpoint(size - 1)));
        self.expect("the cosigned size above the checkpoint's", &answer, &[400]);
    }

    fn zero(&mut self) {
        let Subject { log, size } = self.subject("zero");
        if size > 0 {
            self.left_out.push("a log first seen at size zero: this witness has seen it before".to_owned());
            return;
        }
        for root in [[0; 32], sha256(&[&[0]])] {
            let answer = self.add(&request_body(0, &[], &log.checkpoint_of(0, &root, "")));
            self.expect("size zero with another root", &answer, &[422]);
        }
        let empty = log.checkpoint(0);
        for _ in 0..2 {
            let answer = self.add(&request_body(0, &[], &empty));
            self.expect_cosigned("size zero with the root of the empty tree", &answer, &empty);
        }
        let answer = self.add(&request_body(0, &[log.root(1)], &log.checkpoint(3)));
        self.expect("a proof from size zero", &answer, &[422]);
        let answer = self.add(&log.request(0, 3));
        self.expect_cosigned("growth from size zero", &answer, &log.checkpoint(3));
    }

    fn fresh(&mut self) {
        let Subject { log, size } = self.subject("fresh");
        if size > 0 {
            self.left_out.push("a log never seen: this witness has seen it before".to_owned());
            return;
        }
        let hash = hex::encode(sha256(&[log.origin.as_bytes()]));
        let answer = get(self.address, &format!("/{hash}/checkpoint"));
        self.expect("a known log never cosigned has no checkpoint", &answer, &[404]);
        let answer = self.add(&log.request(5, 5));
        self.expect_conflict("an old size for a log never seen", &answer, 0);
        let answer = self.add(&request_body(0, &[log.root(1)], &log.checkpoint(5)));
        self.expect("a proof for a log never seen", &answer, &[422]);
        let answer = self.add(&log.request(0, 5));
        self.expect_cosigned("first contact", &answer, &log.checkpoint(5));
    }

    fn conflict(&mut self) {
        let Subject { log, size } = self.subject("conflict");
        let base = size + 9;
        let answer = self.add(&log.request(size, base));
        self.expect_cosigned("growth", &answer, &log.checkpoint(base));
        for (old, new) in
            [(0, base), (0, base + 4), (base - 1, base), (base - 3, base + 2), (base + 1, base + 2), (0, 1)]
        {
            let answer = self.add(&log.request(old, new));
            self.expect_conflict(&format!("from {old} to {new} at {base}"), &answer, base);
        }
        let mut other = self::log("conflict");
        other.grow(base + 4, "another history");
        let answer = self.add(&request_body(base, &[], &other.checkpoint(base)));
        self.expect("two roots for one size", &answer, &[422]);
        let answer = self.add(&request_body(base, &[log.root(1)], &log.checkpoint(base)));
        self.expect("equal sizes with a proof", &answer, &[422]);
        let answer = self.add(&other.request(base, base + 4));
        self.expect("a rewritten history", &answer, &[422]);
        let answer = self.add(&log.request(base, base + 4));
        self.expect_cosigned("the true history after all that", &answer, &log.checkpoint(base + 4));
    }

    fn signature(&mut self) {
        let Subject { log, size } = self.subject("signature");
        let new = size + 3;
        let proof = log.proof(size, new);
        let good = log.checkpoint(new);
        let line = good.lines().last().unwrap().to_owned();
        let stranger = TestLog::new(&log.origin, 99).checkpoint_of(new, &log.root(new), "");
        let spoilt = |at: usize| {
            let (head, encoded) = line.rsplit_once(' ').unwrap();
            let mut bytes = unbase64(encoded);
            bytes[at] ^= 1;
            format!("{head} {}", base64(&bytes))
        };
        let unknown = "\u{2014} nobody.example/x AAAAAAEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==";
        for (what, lines, statuses) in [
            ("a signature bit", spoilt(20), &[403][..]),
            ("the last signature bit", spoilt(67), &[403]),
            ("another key of that name", stranger.lines().last().unwrap().to_owned(), &[403]),
            ("unknown keys alone", unknown.to_owned(), &[403]),
            ("a false line after the true one", format!("{line}\n{}", spoilt(30)), &[403]),
            ("a false line before the true one", format!("{}\n{line}", spoilt(30)), &[403]),
        ] {
            let body = request_body(size, &proof, &format!("{}\n{lines}\n", text_of(&good)));
            let answer = self.add(&body);
            self.expect(what, &answer, statuses);
        }
        for (what, changed) in [
            (
                "another root under the signature",
                good.replacen(&base64(&log.root(new)), &base64(&log.root(1)), 1),
            ),
            ("an extension line added under the signature", good.replacen("\n\n", "\nextra\n\n", 1)),
        ] {
            let answer = self.add(&request_body(size, &proof, &changed));
            self.expect(what, &answer, &[403]);
        }
        let nobody = TestLog::new("conformance.example/nobody-follows-this", 50);
        for (what, checkpoint) in [
            ("an unknown origin", nobody.checkpoint_of(1, &log.root(1), "")),
            (
                "an unknown origin under a known key",
                good.replacen(&log.origin, "conformance.example/other", 1),
            ),
        ] {
            let answer = self.add(&request_body(0, &[], &checkpoint));
            self.expect(what, &answer, &[404]);
        }
        let answer = self.add(&request_body(size, &proof, &good));
        self.expect_cosigned("the true checkpoint after all that", &answer, &good);
    }

    fn malformed(&mut self) {
        let Subject { log, size } = self.subject("malformed");
        let new = size.max(1) + 6;
        if size == 0 {
            // A proof is needed to spoil one.
            let answer = self.add(&log.request(0, 1));
            self.expect_cosigned("growth", &answer, &log.checkpoint(1));
        }
        let size = size.max(1);
        let good = log.request(size, new);
        let (_, rest) = good.split_once('\n').unwrap();
        let hash = rest.lines().next().unwrap();
        let mut bodies: Vec<(String, Vec<u8>, &[u16])> = Vec::new();
        let mut body = |what: &str, body: String, statuses: &'static [u16]| {
            bodies.push((what.to_owned(), body.into_bytes(), statuses));
        };
        for old in [
            "",
            " ",
            "+1",
            "-1",
            "01",
            "00",
            "0x1",
            "1.0",
            "1e1",
            "1_0",
            " 1",
            "1 ",
            "\u{661}",
            "18446744073709551616",
        ] {
            body(&format!("old size {old:?}"), format!("old {old}\n{rest}"), &[400]);
        }
        for first in ["Old 1", "OLD 1", "old", "old\t1", "old  1", " old 1", "size 1", "1", "\u{feff}old 1"] {
            body(&format!("first line {first:?}"), format!("{first}\n{rest}"), &[400]);
        }
        let short = base64(&[1; 31]);
        let long = base64(&[1; 33]);
        for line in [
            short.as_str(),
            &long,
            "not base64",
            &format!("{hash} "),
            &format!(" {hash}"),
            &hash[..43],
            &format!("{hash}{hash}"),
            &"ab".repeat(32),
        ] {
            body(&format!("proof line {line:?}"), good.replacen(hash, line, 1), &[400]);
        }
        body("nothing", String::new(), &[400]);
        body("a newline", "\n".to_owned(), &[400]);
        body("an old line alone", "old 0\n".to_owned(), &[400]);
        body("no checkpoint", format!("old {size}\n{hash}\n\n"), &[400]);
        body("no blank line", good.replacen("\n\n", "\n", 1), &[400, 403, 404, 422]);
        body("no final newline", good.trim_end().to_owned(), &[400, 403]);
        body("a blank line at the end", format!("{good}\n"), &[400, 403]);
        body("text at the end", format!("{good}text\n"), &[400, 403]);
        body("carriage returns", good.replace('\n', "\r\n"), &[400]);
        body("no signature", format!("old {size}\n\n{}\n", text_of(&log.checkpoint(new))), &[400, 403]);
        body("a hyphen for the em dash", good.replace('\u{2014}', "-"), &[400, 403]);
        body("a control character", good.replacen("conformance", "con\u{1}formance", 1), &[400, 403, 404]);
        for spelled in ["+9", "09", "-9", "nine", "18446744073709551616"] {
            let checkpoint =
                log.checkpoint(new).replacen(&format!("\n{new}\n"), &format!("\n{spelled}\n"), 1);
            body(&format!("checkpoint size {spelled}"), request_body(size, &[], &checkpoint), &[400, 403]);
        }
        for root in [short.as_str(), &long, "", "root"] {
            let checkpoint = log.checkpoint(new).replacen(&base64(&log.root(new)), root, 1);
            body(&format!("checkpoint root {root:?}"), request_body(size, &[], &checkpoint), &[400, 403]);
        }
        let mut many = String::new();
        for _ in 0..64 {
            let _ = writeln!(many, "{hash}");
        }
        body("64 proof lines", format!("old {size}\n{many}\n{}", log.checkpoint(new)), &[400, 422]);
        bodies.push((
            "invalid UTF-8".to_owned(),
            [b"old 0\n\n\xff\xfe\n1\n".as_slice(), hash.as_bytes(), b"\n\n"].concat(),
            &[400, 403, 404],
        ));
        bodies.push((
            "a line of four megabytes".to_owned(),
            [b"old 0\n".as_slice(), &vec![b'A'; 4 << 20]].concat(),
            &[400, 413],
        ));
        for (what, body, statuses) in bodies {
            let answer = self.add_bytes(&body);
            self.expect(&what, &answer, statuses);
        }
        let answer = self.add(&good);
        self.expect_cosigned("the true request after all that", &answer, &log.checkpoint(new));
    }

    fn proof(&mut self) {
        let Subject { log, size } = self.subject("proof");
        // An old size that is no power of two, so that both roots are in the proof.
        let base = if (size + 7).is_power_of_two() { size + 8 } else { size + 7 };
        let answer = self.add(&log.request(size, base));
        self.expect_cosigned("growth", &answer, &log.checkpoint(base));
        let new = base + 20;
        let checkpoint = log.checkpoint(new);
        let proof = log.proof(base, new);
        let other_root = log.root(2);
        let mut wrong: Vec<(String, Vec<[u8; 32]>)> = vec![
            ("no proof".to_owned(), Vec::new()),
            ("a hash too many".to_owned(), [proof.clone(), vec![other_root]].concat()),
            ("a hash too many at the start".to_owned(), [vec![other_root], proof.clone()].concat()),
            ("the last hash missing".to_owned(), proof[..proof.len() - 1].to_vec()),
            ("the first hash missing".to_owned(), proof[1..].to_vec()),
            ("the hashes reversed".to_owned(), proof.iter().rev().copied().collect()),
            ("a proof from another size".to_owned(), log.proof(base - 1, new)),
            ("a proof to another size".to_owned(), log.proof(base, new - 1)),
            ("63 hashes".to_owned(), vec![other_root; 63]),
        ];
        for at in 0..proof.len() {
            let mut spoilt = proof.clone();
            spoilt[at][31] ^= 0x80;
            wrong.push((format!("a bit of hash {at}"), spoilt));
        }
        for (what, proof) in wrong {
            let answer = self.add(&request_body(base, &proof, &checkpoint));
            self.expect(&what, &answer, &[422]);
        }
        let answer = self.add(&request_body(base, &proof, &checkpoint));
        self.expect_cosigned("the true proof after all that", &answer, &checkpoint);
    }

    fn lines(&mut self) {
        let Subject { log, size } = self.subject("lines");
        let mut size = size;
        let (name, rest) =
            self.vkey.clone().split_once('+').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let id = hex::decode(&rest[..8]).unwrap();
        let own = format!("\u{2014} {name} {}\n", base64(&[&id[..], &[7; 72]].concat()));
        let unknown = |number: u8| format!("\u{2014} nobody.example/{number} {}\n", base64(&[number; 40]));
        let sixteen: String = (0..15).map(unknown).collect();
        let large = format!("\u{2014} nobody.example/large {}\n", base64(&[9; 5000]));
        for (what, extension, more) in [
            ("lines of unknown keys are passed over", "", unknown(1)),
            ("sixteen signatures", "", sixteen),
            ("a signature of another kind and length", "", large),
            ("a false line under the witness's own name", "", own.clone()),
            (
                "extension lines are covered by the cosignature",
                "an extension\nanother \u{e9}\n",
                String::new(),
            ),
        ] {
            let new = size + 2;
            let checkpoint = format!("{}{more}", log.checkpoint_of(new, &log.root(new), extension));
            let answer = self.add(&request_body(size, &log.proof(size, new), &checkpoint));
            self.expect_cosigned(what, &answer, &checkpoint);
            self.check("the false line is not answered", !answer.text().contains(own.trim_end()), &answer);
            size = new;
        }
        let hash = hex::encode(sha256(&[log.origin.as_bytes()]));
        let served = get(self.address, &format!("/{hash}/checkpoint"));
        let text =
            text_of(&log.checkpoint_of(size, &log.root(size), "an extension\nanother \u{e9}\n")).to_owned();
        let whole = String::from_utf8_lossy(&served.body).starts_with(&format!("{text}\n"));
        self.check("extension lines are served to monitors", served.status == 200 && whole, &served);
    }

    fn race(&mut self) {
        let Subject { log, mut size } = self.subject("race");
        for round in 0..8 {
            let barrier = Barrier::new(2);
            let answers: Vec<(usize, Answer)> = std::thread::scope(|scope| {
                let (log, barrier, address) = (&log, &barrier, self.address);
                let racers = [size + 1, size + 3].map(|new| {
                    scope.spawn(move || {
                        barrier.wait();
                        (new, post(address, "/add-checkpoint", log.request(size, new).as_bytes()))
                    })
                });
                racers.into_iter().map(|racer| racer.join().unwrap()).collect()
            });
            let winners: Vec<usize> =
                answers.iter().filter(|(_, answer)| answer.status == 200).map(|(new, _)| *new).collect();
            let loser =
                answers.iter().find(|(_, answer)| answer.status != 200).map(|(_, answer)| answer.clone());
            let ([won], Some(loser)) = (winners.as_slice(), loser) else {
                self.check(&format!("race {round}: one of two wins"), false, &answers[0].1);
                return;
            };
            self.expect_conflict(&format!("race {round}: the loser learns the new size"), &loser, *won);
            size = *won;
        }
    }

    fn monitor(&mut self) {
        let Subject { log, size } = self.subject("monitor");
        let new = size + 1;
        let checkpoint = log.checkpoint(new);
        let answer = self.add(&log.request(size, new));
        self.expect_cosigned("growth", &answer, &checkpoint);
        let hash = hex::encode(sha256(&[log.origin.as_bytes()]));
        let served = get(self.address, &format!("/{hash}/checkpoint"));
        let note = String::from_utf8_lossy(&served.body).into_owned();
        self.check("a cosigned checkpoint is served", served.status == 200, &served);
        self.check("with the log's own line", note.starts_with(&checkpoint), &served);
        let cosigned = cosignature_time(text_of(&checkpoint), &note, &self.vkey).is_some();
        self.check("and with the witness's", cosigned && note.contains(answer.text()), &served);
        let unknown = get(self.address, &format!("/{}/checkpoint", hex::encode([7; 32])));
        self.expect("the checkpoint of an unknown log", &unknown, &[404]);
        for (method, path, statuses) in [
            ("GET", "/add-checkpoint", &[404, 405, 400][..]),
            ("PUT", "/add-checkpoint", &[404, 405, 400, 501]),
            ("POST", "/add-checkpoints", &[404, 405]),
        ] {
            let answer = request(self.address, method, path, "", log.request(new, new).as_bytes());
            self.expect(&format!("{method} {path}"), &answer, statuses);
        }
    }
}

/// Our own witness, started for this run.
struct Own {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start_own() -> (Own, SocketAddr, String) {
    let program = Path::new(env!("CARGO_BIN_EXE_runseal-witness"));
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = Command::new(program).args(args).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let vkeys = run(&["keygen", "--name", "witness.example/conformance", "--out", "w.key", "--ml-dsa"]);
    run(&["init", "--db", "w.redb"]);
    std::fs::write(folder.path().join("logs"), list()).unwrap();
    let mut child = Command::new(program)
        .args(["serve", "--key", "w.key", "--db", "w.redb", "--logs", "logs", "--listen", "127.0.0.1:0"])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("listening on")).expect("the witness starts");
    std::thread::spawn(move || lines.for_each(drop));
    let address = line.rsplit('/').next().unwrap().parse().unwrap();
    (Own { child, _folder: folder }, address, vkeys.lines().next().unwrap().to_owned())
}

fn list() -> String {
    let vkeys: String =
        LOGS.iter().flat_map(|name| ["vkey ".to_owned(), log(name).vkey(), "\n".to_owned()]).collect();
    format!("logs/v0\n{vkeys}")
}

fn main() -> ExitCode {
    // `cargo test` asks every test program what it holds; this one holds one suite.
    if std::env::args().any(|argument| argument == "--list") {
        println!("conformance: test");
        return ExitCode::SUCCESS;
    }
    if let Ok(path) = std::env::var("RUNSEAL_CONFORMANCE_LIST") {
        std::fs::write(&path, list()).unwrap();
        println!("the logs of this suite are in {path}");
        return ExitCode::SUCCESS;
    }
    let (_own, address, vkey) = if let Ok(url) = std::env::var("RUNSEAL_CONFORMANCE_URL") {
        let vkey = std::env::var("RUNSEAL_CONFORMANCE_VKEY");
        let vkey = vkey.expect("RUNSEAL_CONFORMANCE_VKEY is the witness's Ed25519 vkey");
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        let address = std::net::ToSocketAddrs::to_socket_addrs(address).unwrap().next().unwrap();
        (None, address, vkey)
    } else {
        let (own, address, vkey) = start_own();
        (Some(own), address, vkey)
    };
    let mut suite = Suite { address, vkey, passed: 0, failed: Vec::new(), left_out: Vec::new() };
    suite.growth();
    suite.zero();
    suite.fresh();
    suite.conflict();
    suite.signature();
    suite.malformed();
    suite.proof();
    suite.lines();
    suite.race();
    suite.monitor();
    for left_out in &suite.left_out {
        println!("left out: {left_out}");
    }
    for failed in &suite.failed {
        println!("FAILED: {failed}");
    }
    println!(
        "conformance: {} checks passed, {} failed, {} left out",
        suite.passed,
        suite.failed.len(),
        suite.left_out.len()
    );
    if suite.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

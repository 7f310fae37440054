//! The page in a real browser: what it says is what the command says, and it says it to nobody else.
//!
//! `RUNSEAL_CHROMIUM` names the browser; else it is `chromium`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod devtools;
#[path = "../../../tests/it/plane.rs"]
#[allow(
    dead_code,
    clippy::format_push_string,
    clippy::format_collect,
    reason = "the tests of the command use all of it"
)]
mod plane;
mod visit;

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use runseal_tlog::key::{Algorithm, KeyName, SignerKey};

use crate::devtools::Chromium;
use crate::plane::{ORIGIN, Plane, end_line, witness_key};
use crate::visit::Visit;

/// The command's exit code and its report, as it writes it.
fn command(plane: &Plane, verb: &str, file: &Path, policy: &Path) -> (ExitCode, Option<String>) {
    let json = plane.path("report.json");
    let _ = fs::remove_file(&json);
    let words = ["runseal-verifier", "--quiet", verb].map(OsString::from);
    let options: [&std::ffi::OsStr; 5] =
        [file.as_ref(), "--policy".as_ref(), policy.as_ref(), "--json".as_ref(), json.as_ref()];
    let code = runseal_verifier::cli::run(words.into_iter().chain(options.map(OsString::from)));
    (code, fs::read_to_string(json).ok())
}

/// A policy for a log under a key that signed nothing here.
fn foreign_policy(plane: &Plane, origin: &str) -> PathBuf {
    let key = SignerKey::from_seed(KeyName::new(origin).unwrap(), Algorithm::Ed25519, &[9; 32]);
    let path = plane.path(&format!("{}.policy", origin.replace('/', "-")));
    fs::write(&path, format!("log {}\nquorum none\n", key.verifier())).unwrap();
    path
}

struct Case {
    what: &'static str,
    verb: &'static str,
    file: String,
    policy: PathBuf,
    word: &'static str,
    tone: &'static str,
    exit: u8,
}

fn cases(plane: &Plane) -> Vec<Case> {
    let (policy, alone) = (plane.policy(), plane.path("alone.txt"));
    fs::copy(plane.policy_with("all", &[]), &alone).unwrap();
    let mut other = Plane::sample();
    other.entries.swap(0, 1);
    let split = format!("runseal/fraud-proof@v1\n\n{}\n{}", plane.note(9), other.note(9));
    let growth = format!("runseal/fraud-proof@v1\n\n{}\n{}", plane.note(5), plane.note(9));
    let (proof, export) = (plane.proof(4), plane.export());
    let case = |what, verb, file: &str, policy: &Path, word, tone, exit| Case {
        what,
        verb,
        file: file.to_owned(),
        policy: policy.to_owned(),
        word,
        tone,
        exit,
    };
    vec![
        case("a sound proof", "proof", &proof, &policy, "VERIFIED", "good", 0),
        case(
            "a proof of another place",
            "proof",
            &proof.replacen("index 4", "index 5", 1),
            &policy,
            "TAMPERED",
            "bad",
            1,
        ),
        case(
            "a proof that does not read",
            "proof",
            &proof.replacen("index 4", "index 04", 1),
            &policy,
            "MALFORMED",
            "bad",
            1,
        ),
        case(
            "a proof under another key",
            "proof",
            &proof,
            &foreign_policy(plane, ORIGIN),
            "NOT TRUSTED",
            "bad",
            1,
        ),
        case(
            "a proof under a policy of other logs",
            "proof",
            &proof,
            &foreign_policy(plane, "elsewhere.example"),
            "NOT CHECKED",
            "open",
            2,
        ),
        case(
            "a policy that is none",
            "proof",
            &proof,
            &plane.path("no-policy.txt"),
            "NOT CHECKED",
            "open",
            2,
        ),
        case("a sound export", "export", &export, &policy, "VERIFIED", "good", 0),
        case("an export that no witness saw", "export", &export, &alone, "VERIFIED", "good", 0),
        case(
            "an export of chosen runs",
            "export",
            &plane.export_of(&["r2", "open"]),
            &policy,
            "VERIFIED",
            "good",
            0,
        ),
        case("an export cut short", "export", &export[..export.len() - 2], &policy, "INCOMPLETE", "open", 3),
        case(
            "an export cut in the middle",
            "export",
            &export[..export.len() / 2],
            &policy,
            "INCOMPLETE",
            "open",
            3,
        ),
        case(
            "an edited record",
            "export",
            &export.replacen("step 2", "step X", 1),
            &policy,
            "TAMPERED",
            "bad",
            1,
        ),
        case("two histories", "fraud", &split, &policy, "TAMPERED", "bad", 1),
        case("one history, grown", "fraud", &growth, &policy, "PROVES NOTHING", "open", 2),
    ]
}

#[test]
#[ignore = "needs chromium and the target wasm32-unknown-unknown; ./check runs it"]
fn the_page_says_what_the_command_says() {
    let plane = Plane::sample();
    let mut visit = Visit::new(Chromium::launch(None));
    fs::write(plane.path("no-policy.txt"), "log nonsense\n").unwrap();
    for case in cases(&plane) {
        let Case { what, verb, file, policy, word, tone, exit } = case;
        let path = plane.path("evidence.file");
        fs::write(&path, file).unwrap();
        let (code, json) = command(&plane, verb, &path, &policy);
        assert_eq!(code, ExitCode::from(exit), "{what}");
        visit.open();
        visit.choose("policy", &policy);
        visit.choose("evidence", &path);
        let seen = visit.seen();
        assert_eq!((seen.word.as_str(), seen.tone.as_str()), (word, tone), "{what}: {seen:#?}");
        assert_eq!(seen.json.map(|json| json + "\n"), json, "{what}");
        assert_eq!(seen.title, format!("{word}: runseal verifier"), "{what}");
    }
}

#[test]
#[ignore = "needs chromium and the target wasm32-unknown-unknown; ./check runs it"]
fn what_was_not_checked_is_said_and_nothing_is_green_before_it_is_sound() {
    let plane = Plane::sample();
    let mut visit = Visit::new(Chromium::launch(None));
    let (export, alone) = (plane.path("acme.jsonl"), plane.path("alone.txt"));
    fs::write(&export, plane.export()).unwrap();
    fs::copy(plane.policy_with("all", &[]), &alone).unwrap();

    visit.open();
    visit.choose("evidence", &export);
    let seen = visit.seen();
    assert_eq!((seen.word.as_str(), seen.tone.as_str()), ("NOT CHECKED", "open"), "{seen:#?}");
    assert!(seen.text.contains("There is no policy yet"), "{}", seen.text);

    visit.choose("policy", &alone);
    let seen = visit.seen_after(&seen);
    assert_eq!(seen.tone, "good");
    assert!(seen.verdict.contains("2 things were not checked: see below."), "{}", seen.verdict);
    for what in ["deletion by the operator", "other views of the log"] {
        assert!(seen.text.contains(what), "{}", seen.text);
    }

    // A checkpoint of another history, from elsewhere.
    let mut other = Plane::sample();
    other.entries.swap(0, 1);
    let note = plane.path("elsewhere.note");
    fs::write(&note, other.note(9).to_string()).unwrap();
    visit.choose("checkpoint", &note);
    let seen = visit.seen_after(&seen);
    assert_eq!((seen.word.as_str(), seen.tone.as_str()), ("TAMPERED", "bad"), "{seen:#?}");
    assert!(seen.text.contains("the checkpoint from elsewhere has root"), "{}", seen.text);
}

#[test]
#[ignore = "needs chromium and the target wasm32-unknown-unknown; ./check runs it"]
fn dropped_files_find_their_places_and_a_pasted_policy_is_a_policy() {
    let plane = Plane::sample();
    let mut visit = Visit::new(Chromium::launch(None));
    let (proof, policy) = (plane.path("r4.proof"), plane.policy());
    fs::write(&proof, plane.proof(4)).unwrap();
    visit.open();
    visit.drop(&[&policy, &proof]);
    let seen = visit.seen();
    assert_eq!((seen.word.as_str(), seen.tone.as_str()), ("VERIFIED", "good"), "{seen:#?}");
    assert!(seen.text.contains("runseal-verifier proof r4.proof --policy policy.txt"), "{}", seen.text);

    visit.open();
    visit.choose("evidence", &proof);
    let nothing = visit.seen();
    visit.paste(&fs::read_to_string(&policy).unwrap());
    assert_eq!(visit.seen_after(&nothing).word, "VERIFIED");
}

#[test]
#[ignore = "needs chromium and the target wasm32-unknown-unknown; ./check runs it"]
fn hostile_names_are_text() {
    const MARKUP: &str = "<img src=x onerror=hit=1>";
    let plane = Plane::sample();
    let mut visit = Visit::new(Chromium::launch(None));
    let records: usize = plane.runs.values().map(Vec::len).sum();
    let reason = format!(r#"{{"run":"r9","reason":"{MARKUP} \u202egnp"}}"#);
    let export = plane.export().replacen(&end_line(9, 9, records, ""), &end_line(9, 9, records, &reason), 1);
    // A cosignature by somebody whom the policy does not know.
    let stranger = format!("\\n\u{2014} <img/src=x/onerror=hit=1> {}", "AAAA".repeat(26));
    let name = witness_key(2).verifier().name().to_string();
    let line = format!("\\n\u{2014} {name} ");
    let export = export.replacen(&line, &format!("{stranger}{line}"), 1);
    let file = plane.path(&format!("{MARKUP}.jsonl"));
    fs::write(&file, export).unwrap();
    visit.open();
    visit.choose("policy", &plane.policy());
    visit.choose("evidence", &file);
    let seen = visit.seen();
    assert_eq!(seen.tone, "open", "{seen:#?}");
    assert!(seen.verdict.contains(MARKUP), "the file's name: {}", seen.verdict);
    assert!(seen.text.contains(&format!("{MARKUP} \\u{{202e}}gnp")), "the reason: {}", seen.text);
    assert!(seen.text.contains("<img/src=x/onerror=hit=1>"), "the witness: {}", seen.text);
    assert_eq!(visit.evaluate("document.images.length + ' ' + typeof hit"), "0 undefined");
    // Even a careless script could not turn a string into markup.
    let refused =
        visit.evaluate("try { document.body.innerHTML = '<b>'; 'taken' } catch (error) { error.name }");
    assert_eq!(refused, "TypeError");
}

/// A server that writes down the first line of every request. It serves `page` to whoever asks for it.
fn listener(page: &'static str) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let ears = Arc::clone(&heard);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let ears = Arc::clone(&ears);
            thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                let (mut first, mut line) = (String::new(), String::new());
                let _ = reader.read_line(&mut first);
                while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
                    line.clear();
                }
                let answer = if first.starts_with("GET /page.html ") {
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
                    format!("{head}\r\nContent-Length: {}\r\n\r\n{page}", page.len())
                } else {
                    "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned()
                };
                ears.lock().unwrap().push(first);
                let _ = reader.get_mut().write_all(answer.as_bytes());
            });
        }
    });
    (port, heard)
}

#[test]
#[ignore = "needs chromium and the target wasm32-unknown-unknown; ./check runs it"]
fn a_plain_server_serves_the_page_and_hears_nothing_more() {
    let plane = Plane::sample();
    let page = fs::read_to_string(&visit::page().path).unwrap();
    let (port, heard) = listener(page.leak());
    let mut visit = Visit::new(Chromium::launch(None));
    let file = plane.path("r4.proof");
    fs::write(&file, plane.proof(4)).unwrap();
    visit.go_to(&format!("http://127.0.0.1:{port}/page.html"));
    visit.choose("policy", &plane.policy());
    visit.choose("evidence", &file);
    assert_eq!(visit.seen().word, "VERIFIED");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(*heard.lock().unwrap(), ["GET /page.html HTTP/1.1\r\n"]);
}

#[test]
#[ignore = "needs chromium and the target wasm32-unknown-unknown; ./check runs it"]
fn nothing_leaves_the_page() {
    const CALL: &str =
        "fetch('http://leak.example/', { mode: 'no-cors' }).then(() => 'sent', () => 'refused')";
    let plane = Plane::sample();
    let (port, heard) = listener("");
    let called = || heard.lock().unwrap().iter().any(|line| line.contains("leak.example"));
    let mut visit = Visit::new(Chromium::launch(Some(port)));
    let file = plane.path("acme.jsonl");
    fs::write(&file, plane.export()).unwrap();
    visit.open();
    visit.choose("policy", &plane.policy());
    visit.choose("evidence", &file);
    assert_eq!(visit.seen().word, "VERIFIED");
    let requests = visit.requests();
    assert!(requests.iter().any(|url| url.starts_with("file:")), "the page itself is seen: {requests:?}");
    let strange = |url: &&String| !["file:", "blob:", "data:"].iter().any(|scheme| url.starts_with(scheme));
    assert_eq!(requests.iter().filter(strange).collect::<Vec<_>>(), Vec::<&String>::new());

    assert_eq!(visit.evaluate(CALL), "refused");
    assert_eq!(visit.evaluate_in_worker(CALL), "refused");
    thread::sleep(Duration::from_millis(300));
    assert!(!called(), "the page called out: {heard:?}");

    // The same call of a page without a policy is heard, so that hearing nothing means something.
    let open = plane.path("open.html");
    fs::write(&open, "<!doctype html><title>open</title>").unwrap();
    visit.go(&open);
    visit.evaluate(&format!("{CALL}; 'called'"));
    let mut waits = 0;
    while !called() {
        waits += 1;
        assert!(waits < 100, "the listener hears nothing at all");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
#[ignore = "needs chromium and the target wasm32-unknown-unknown; ./check runs it"]
fn the_page_is_the_same_bytes_each_time_it_is_built() {
    let again = tempfile::tempdir().unwrap();
    let built = runseal_verifier_web::page::build(Some(again.path().join("again.html"))).unwrap();
    assert_eq!(built.digest, visit::page().digest);
    let page = fs::read_to_string(built.path).unwrap();
    for trace in [env!("CARGO_MANIFEST_DIR"), "/.cargo/registry"] {
        assert!(!page.contains(trace), "{trace} of the building machine is in the page");
    }
}

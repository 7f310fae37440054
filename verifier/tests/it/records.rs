//! Audits that look at records, from a journal's routes and from an export file.

use std::fs;

use runseal_evidence::finding::FindingKind::{self, *};
use runseal_evidence::signature::RecordSigner;

use crate::command::{Run, auditor, run, text};
use crate::plane::{Plane, chain, record};
use crate::server::{Answer, Server};

fn serve(plane: &Plane, server: &Server) {
    for path in server.paths() {
        server.remove(&path);
    }
    for run in plane.runs.keys() {
        let path = format!("/audit/acme/runs/{run}/records");
        server.put(&path, Answer::Plain(200, plane.record_lines(run).into_bytes()));
    }
}

/// What is done to the records behind an honest log, what is found, and the exit code.
type Attack = (&'static str, fn(&mut Plane), &'static [(FindingKind, &'static str)], i32);

const ATTACKS: &[Attack] = &[
    ("nothing", |_| {}, &[], 0),
    ("a record of a sealed run is edited", |plane| edit(plane, "r4", 1), &[(RunEdited, "r4")], 1),
    ("a record of an open run is edited", |plane| edit(plane, "open", 2), &[(RunEdited, "open")], 1),
    ("a record is edited and re-hashed, sealed run", |plane| rehash(plane, "r4", 1), &[(RunEdited, "r4")], 1),
    (
        "a record is edited and re-hashed, open run",
        |plane| rehash(plane, "open", 1),
        &[(RunEdited, "open")],
        1,
    ),
    (
        "the tail of an open run is cut",
        |plane| plane.runs.get_mut("open").unwrap().truncate(2),
        &[(RunTruncated, "open")],
        1,
    ),
    (
        "the tail of a sealed run is cut",
        |plane| plane.runs.get_mut("r4").unwrap().truncate(2),
        &[(RunTruncated, "r4")],
        1,
    ),
    (
        "a sealed run is deleted, the tree left alone",
        |plane| drop(plane.runs.remove("r4")),
        &[(RunDeleted, "r4")],
        1,
    ),
    ("an open run is deleted", |plane| drop(plane.runs.remove("open")), &[(RunDeleted, "open")], 1),
    (
        "a record is taken out of the middle",
        |plane| drop(plane.runs.get_mut("r5").unwrap().remove(1)),
        &[(RunEdited, "r5"), (ChainBroken, "r5")],
        1,
    ),
    (
        "a record follows the seal",
        |plane| {
            let mut raws: Vec<String> = plane.runs["r4"].iter().map(|stored| stored.raw.clone()).collect();
            raws.push(record("r4", raws.len() as u64 + 1, "Message", "{}"));
            plane.runs.insert("r4".to_owned(), chain("r4", &raws));
        },
        &[(RunEdited, "r4")],
        1,
    ),
    (
        "one run's records are shown as another's",
        |plane| {
            let records = plane.runs["r0"].clone();
            plane.runs.insert("r3".to_owned(), records);
        },
        &[(RunEdited, "r3"), (ChainBroken, "r3")],
        1,
    ),
    (
        "records of another tenant",
        |plane| {
            for stored in plane.runs.get_mut("r4").unwrap() {
                stored.raw = stored.raw.replace("\"acme\"", "\"evil\"");
            }
        },
        &[(RunEdited, "r4"), (TenantMismatch, "r4")],
        1,
    ),
    (
        "the open run went on",
        |plane| {
            let mut raws: Vec<String> = plane.runs["open"].iter().map(|stored| stored.raw.clone()).collect();
            raws.push(record("open", raws.len() as u64 + 1, "Message", "{}"));
            plane.runs.insert("open".to_owned(), chain("open", &raws));
        },
        &[],
        0,
    ),
    ("a run that the log does not know yet", |plane| plane.open("new", 2), &[], 0),
    (
        "a record of a later version",
        |plane| {
            let mut raws: Vec<String> = plane.runs["open"].iter().map(|stored| stored.raw.clone()).collect();
            raws.push(record("open", raws.len() as u64 + 1, "Message", "{}").replace("\"v\":1", "\"v\":2"));
            plane.runs.insert("open".to_owned(), chain("open", &raws));
        },
        &[],
        3,
    ),
];

fn edit(plane: &mut Plane, run: &str, at: usize) {
    let stored = &mut plane.runs.get_mut(run).unwrap()[at];
    stored.raw = stored.raw.replace("step", "STEP");
}

fn rehash(plane: &mut Plane, run: &str, at: usize) {
    edit(plane, run, at);
    let raws: Vec<String> = plane.runs[run].iter().map(|stored| stored.raw.clone()).collect();
    plane.runs.insert(run.to_owned(), chain(run, &raws));
}

fn judged(name: &str, result: &Run, expected: &[(FindingKind, &str)], code: i32) {
    assert_eq!(result.code, code, "{name}: {}", result.show());
    for (kind, run) in expected {
        assert!(result.runs(*kind).iter().all(|named| named == run), "{name}: {}", result.show());
    }
    if let Some((kind, _)) = expected.first() {
        assert!(result.kinds().contains(kind), "{name}: {}", result.show());
    }
    for kind in result.kinds() {
        assert!(expected.iter().any(|(expected, _)| *expected == kind), "{name}: {}", result.show());
    }
}

#[test]
fn each_attack_on_records_is_found_over_http_and_in_an_export() {
    let server = Server::start();
    let prefix = format!("{}/audit/acme", server.url);
    println!("{:<50} {:<10} findings", "attack on records", "verdict");
    for (name, attack, expected, code) in ATTACKS {
        let mut plane = Plane::sample();
        attack(&mut plane);
        serve(&plane, &server);
        let result = auditor(&plane).audit(&["--records", &prefix]);
        let kinds: Vec<String> = result.kinds().iter().map(ToString::to_string).collect();
        println!("{name:<50} {:<10} {}", result.report().verdict(), kinds.join(" "));
        judged(name, &result, expected, *code);
        // The same evidence as an export file, against the same audited log.
        let export = plane.path("export.jsonl");
        fs::write(&export, plane.export()).unwrap();
        let from_file = auditor(&plane).audit(&["--no-history", "--records", text(&export)]);
        judged(name, &from_file, expected, *code);
    }
}

#[test]
fn records_that_are_withheld_are_not_checked_by_name() {
    let server = Server::start();
    let prefix = format!("{}/audit/acme", server.url);
    let plane = Plane::sample();
    let honest = plane.record_lines("r4").into_bytes();
    let half = honest.len() / 2;
    for (name, answer) in [
        ("an error", Answer::Plain(500, Vec::new())),
        ("a refusal", Answer::Plain(403, Vec::new())),
        ("a redirect", Answer::Redirect("/elsewhere".to_owned())),
        ("a hang-up", Answer::Hangup),
        ("a body cut short", Answer::Short(honest[..half].to_vec(), honest.len())),
        ("a last line cut short", Answer::Plain(200, honest[..half].to_vec())),
        ("an endless line", Answer::Endless),
        ("no record lines", Answer::Plain(200, b"<html>\n".to_vec())),
    ] {
        serve(&plane, &server);
        server.put("/audit/acme/runs/r4/records", answer);
        let result = auditor(&plane).audit(&["--records", &prefix]);
        assert_eq!((result.code, result.kinds()), (3, vec![]), "{name}: {}", result.show());
        let gaps = &result.report().not_checked;
        assert!(gaps.iter().any(|gap| gap.what.contains("r4")), "{name}: {}", result.show());
        assert_eq!(result.report().counts.runs, 9, "{name}");
    }
}

#[test]
fn a_run_pinned_many_times_is_held_against_every_pin() {
    let server = Server::start();
    let prefix = format!("{}/audit/acme", server.url);
    let mut plane = Plane::sample();
    plane.open("long", 40);
    let all = plane.runs["long"].clone();
    for records in [1, 5, 5, 20, 40] {
        plane.runs.insert("long".to_owned(), all[..records].to_vec());
        plane.head("long");
        plane.sealed(&format!("between-{records}-{}", plane.entries.len()), 2);
    }
    serve(&plane, &server);
    let honest = auditor(&plane).audit(&["--records", &prefix]);
    assert_eq!(honest.code, 0, "{}", honest.show());
    for (edited, after) in [(0usize, None), (3, Some(1)), (10, Some(5)), (30, Some(20))] {
        let mut attacked = Plane::sample();
        attacked.entries.clone_from(&plane.entries);
        attacked.runs = plane.runs.clone();
        rehash(&mut attacked, "long", edited);
        serve(&attacked, &server);
        let result = auditor(&attacked).audit(&["--records", &prefix]);
        assert_eq!((result.code, result.runs(RunEdited)), (1, vec!["long".to_owned()]), "{}", result.show());
        if let Some(after) = after {
            assert!(
                result.stdout.contains(&format!("up to record {after} all is as pinned")),
                "{}",
                result.stdout
            );
        }
    }
}

#[test]
fn the_audit_needs_no_history_to_check_records_and_remembers_them_with_a_light_one() {
    let server = Server::start();
    let prefix = format!("{}/audit/acme", server.url);
    let mut plane = Plane::sample();
    rehash(&mut plane, "r4", 1);
    serve(&plane, &server);
    for more in [&["--no-history"][..], &["--history-light"], &[]] {
        let args: Vec<&str> = more.iter().copied().chain(["--records", &prefix]).collect();
        for _ in 0..2 {
            let result = auditor(&plane).audit(&args);
            assert_eq!(
                (result.code, result.runs(RunEdited)),
                (1, vec!["r4".to_owned()]),
                "{more:?}: {}",
                result.show()
            );
        }
    }
}

#[test]
fn an_older_export_leaves_later_runs_unchecked_and_accuses_nobody() {
    let mut plane = Plane::sample();
    let export = plane.path("export.jsonl");
    fs::write(&export, plane.export()).unwrap();
    plane.sealed("later", 2);
    let raws: Vec<String> = plane.runs["open"].iter().map(|stored| stored.raw.clone()).collect();
    let mut more = raws.clone();
    more.push(record("open", 5, "Message", "{}"));
    plane.runs.insert("open".to_owned(), chain("open", &more));
    plane.head("open");
    let result = auditor(&plane).audit(&["--records", text(&export)]);
    assert_eq!((result.code, result.kinds()), (3, vec![]), "{}", result.show());
    let gaps: Vec<&str> = result.report().not_checked.iter().map(|gap| gap.what.as_str()).collect();
    assert!(
        gaps.iter().any(|gap| gap.contains("later")) && gaps.iter().any(|gap| gap.contains("open")),
        "{gaps:?}"
    );
}

#[test]
fn record_signatures_are_checked_where_a_key_is_given() {
    let mut plane = Plane::sample();
    let name = "plane.example/records";
    let signer = RecordSigner::new(name, &[5; 32]);
    let vkey = runseal_tlog::key::SignerKey::from_seed(
        runseal_tlog::key::KeyName::new(name).unwrap(),
        runseal_tlog::key::Algorithm::Ed25519,
        &[5; 32],
    );
    let vkey = vkey.verifier().to_string();
    let policy = plane.policy();
    let export = plane.path("export.jsonl");
    let signed = |plane: &Plane| -> String {
        let mut out = String::new();
        let mut records = plane.runs.values().flatten();
        for line in plane.export().split_inclusive('\n') {
            if line.contains("\"signature\":null") {
                let signature = signer.sign(&records.next().unwrap().hash);
                let json = serde_json::to_string(&signature).unwrap();
                out += &line.replace("\"signature\":null", &format!("\"signature\":{json}"));
            } else {
                out += line;
            }
        }
        out
    };
    let check = |content: String, keys: &[&str]| {
        fs::write(&export, content).unwrap();
        let mut args = vec!["export", text(&export), "--policy", text(&policy)];
        for key in keys {
            args.extend(["--record-key", key]);
        }
        run(&plane, &args)
    };
    let honest = signed(&plane);
    let good = check(honest.clone(), &[&vkey]);
    assert_eq!(good.code, 0, "{}", good.show());
    let unasked = check(honest.clone(), &[]);
    assert_eq!(unasked.code, 0, "{}", unasked.show());
    assert!(unasked.stdout.contains("no --record-key was given"), "{}", unasked.stdout);
    let bare = check(plane.export(), &[&vkey]);
    assert_eq!((bare.code, bare.kinds().first()), (1, Some(&SignatureInvalid)), "{}", bare.show());
    let at = honest.find("\"signature\":\"").unwrap() + 14;
    let mut damaged = honest.into_bytes();
    damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
    let invalid = check(String::from_utf8(damaged).unwrap(), &[&vkey]);
    assert_eq!((invalid.code, invalid.kinds()), (1, vec![SignatureInvalid]), "{}", invalid.show());
    plane.time += 1;
}

#[test]
fn the_bearer_token_goes_out_and_its_file_must_be_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let server = Server::start();
    let prefix = format!("{}/audit/acme", server.url);
    let plane = Plane::sample();
    serve(&plane, &server);
    let token = plane.path("token");
    fs::write(&token, "s3cret\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    let open = auditor(&plane).audit(&["--records", &prefix, "--token", text(&token)]);
    assert_eq!(open.code, 2, "{}", open.show());
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let result = auditor(&plane).audit(&["--records", &prefix, "--token", text(&token)]);
    assert_eq!(result.code, 0, "{}", result.show());
    let asked = server.asked.lock().unwrap();
    assert!(asked.iter().all(|line| line.to_lowercase().contains("bearer s3cret")), "{asked:?}");
    assert!(!result.stdout.contains("s3cret") && !result.stderr.contains("s3cret"));
}

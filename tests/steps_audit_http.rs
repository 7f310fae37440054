//! An auditor holds a tenant's file of steps against the conclusions of its runs, which a running server gives him.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod console;
#[path = "../evidence/tests/step_file/mod.rs"]
mod step_file;

use std::fs;
use std::time::{Duration, Instant};

use console::{Desk, Serving};
use runseal::Journal;
use runseal::evidence::finding::FindingKind;
use runseal::evidence::json::Json;
use runseal::evidence::name::{CodecId, DefinitionName, Kind, RunId, StepPath, TenantId};
use runseal::evidence::record::RecordDraft;
use runseal::evidence::report::{Report, Scope, Verdict};
use runseal::steps::{Definition, InputDigest, StepLimits, StepStore};
use step_file::{File, ID};

const STEPS: [&str; 3] = ["look up", "charge", "mail"];

/// A plane with two concluded runs of three steps, and the file of these.
fn concluded() -> Desk {
    let desk = Desk::with_plane();
    let tenant = TenantId::new("acme").unwrap();
    let store = StepStore::open_in(desk.path("."), &tenant, StepLimits::default()).unwrap();
    let journal = Journal::open(&desk.path("plane")).unwrap();
    let definition = Definition {
        name: DefinitionName::new("refund").unwrap(),
        revision: 3,
        input: InputDigest::of(b"order 4471"),
        steps: 3,
        codec: CodecId::new("json").unwrap(),
    };
    for name in ["refund-1", "refund-2"] {
        let run_id = RunId::new(name).unwrap();
        let run = store.run(tenant.clone(), run_id.clone(), definition.clone()).unwrap();
        for path in STEPS {
            run.step(StepPath::new(path).unwrap(), |_| Ok::<_, ()>(format!("{name}: {path}").into()))
                .unwrap();
        }
        let outcome = Json::parse(br#"{"outcome":"succeeded"}"#).unwrap();
        let payloads = [
            ("RunAdmitted", Json::parse(b"{}").unwrap()),
            ("RunConcluded", run.conclusion(&outcome).unwrap()),
        ];
        let drafts = payloads.map(|(kind, payload)| RecordDraft {
            kind: Kind::new(kind).unwrap(),
            payload,
            effect: None,
            case: None,
        });
        journal.tenant(&tenant).import(&run_id, drafts.into(), true).unwrap();
    }
    drop((store, journal));
    let key = desk.run(&["vkey", "--dir", "plane", "--tenant", "acme"]).ended(0).stdout;
    desk.write("policy", format!("log {}\nquorum none\n", key.trim()));
    desk
}

/// Waits until the server shows both seals.
fn published(serving: &Serving) {
    let started = Instant::now();
    while serving.get("/log/acme/checkpoint").text().lines().nth(1) != Some("2") {
        assert!(started.elapsed() < Duration::from_secs(10), "no checkpoint of both runs was published");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn audit(desk: &Desk, serving: &Serving, steps: Option<&str>) -> Report {
    let (log, records) =
        (format!("http://{}/log/acme", serving.address), format!("http://{}/audit/acme", serving.address));
    let path = |name: &str| desk.path(name).to_str().unwrap().to_owned();
    let mut args = ["runseal-verifier", "audit", "--quiet", "--policy", &path("policy"), "--url", &log]
        .map(str::to_owned)
        .to_vec();
    args.extend(["--records", &records, "--json", &path("report.json")].map(str::to_owned));
    if let Some(steps) = steps {
        args.extend(["--steps".to_owned(), path(steps)]);
    }
    let _ = runseal_verifier::cli::run(args.into_iter().map(Into::into));
    serde_json::from_slice(&fs::read(desk.path("report.json")).unwrap()).unwrap()
}

/// The payloads of a file's frames, in order.
fn payloads(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut payloads) = (&bytes[32..], Vec::new());
    while let Some((prefix, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*prefix)).unwrap();
        payloads.push(after[..length].to_vec());
        rest = &after[length + 32..];
    }
    payloads
}

#[test]
fn steps_are_held_against_the_conclusions_that_a_server_gives() {
    let desk = concluded();
    let serving = desk.serve(&["--checkpoint-interval", "50ms"]);
    published(&serving);
    let report = audit(&desk, &serving, Some("acme.steps"));
    assert_eq!((report.verdict(), report.scope), (Verdict::Verified, Scope::LogAndRecords), "{report:?}");
    let check = report.checks.iter().find(|check| check.check == "steps").unwrap();
    assert_eq!(check.detail, "6 steps of 2 runs, as the runs concluded");
    // Without the file nothing of it is claimed.
    let report = audit(&desk, &serving, None);
    assert_eq!(report.verdict(), Verdict::Verified, "{report:?}");
    assert!(report.not_checked.iter().any(|gap| gap.what == "the steps of 2 runs"), "{report:?}");
    // A step that was changed, or taken out, with every head of the file made to fit.
    let whole = payloads(&fs::read(desk.path("acme.steps")).unwrap());
    assert_eq!(whole.len(), 6);
    let mut changed = whole.clone();
    *changed[1].last_mut().unwrap() ^= 1;
    let mut removed = whole.clone();
    removed.remove(5);
    for (name, payloads, run, named) in [
        ("changed", changed, "refund-1", r#"step 2 of 3 was changed ("charge")"#),
        ("removed", removed, "refund-2", "step 3 of 3 was removed"),
    ] {
        let file = payloads.iter().fold(File::new(ID), |file, payload| file.with(payload));
        desk.write(name, file.bytes);
        let report = audit(&desk, &serving, Some(name));
        assert_eq!(report.verdict(), Verdict::Tampered, "{name}: {report:?}");
        let [finding] = report.findings.as_slice() else { panic!("{name}: {report:?}") };
        assert_eq!(finding.kind, FindingKind::RunEdited, "{name}");
        assert_eq!(finding.run.as_ref().map(RunId::as_str), Some(run), "{name}");
        assert!(finding.detail.contains(named), "{name}: {}", finding.detail);
    }
}

//! A run's leaf commits to its step results: what is changed in the file of steps is named by the operator's own
//! check and by an auditor, also where every head was made to fit.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod console;
#[path = "../evidence/tests/step_file/mod.rs"]
mod step_file;

use std::fs;
use std::path::Path;

use console::Desk;
use runseal::Journal;
use runseal::evidence::finding::FindingKind;
use runseal::evidence::json::Json;
use runseal::evidence::name::{CodecId, DefinitionName, Kind, RunId, StepPath, TenantId};
use runseal::evidence::record::RecordDraft;
use runseal::evidence::report::{Report, Verdict};
use runseal::steps::{Definition, InputDigest, StepLimits, StepStore};
use runseal_verifier::online::progress::Progress;
use runseal_verifier::steps::{Against, StepsFile};
use runseal_verifier::trust::Trust;
use step_file::{File, ID};

const STEPS: [&str; 4] = ["look up", "charge", "mail", "close"];

fn tenant() -> TenantId {
    TenantId::new("acme").unwrap()
}

fn definition() -> Definition {
    Definition {
        name: DefinitionName::new("refund").unwrap(),
        revision: 3,
        input: InputDigest::of(b"order 4471"),
        steps: 4,
        codec: CodecId::new("json").unwrap(),
    }
}

fn draft(kind: &str, payload: Json) -> RecordDraft {
    RecordDraft { kind: Kind::new(kind).unwrap(), payload, effect: None, case: None }
}

/// A plane with a concluded run of four steps, one that concluded without saying so, and its export.
fn concluded() -> Desk {
    let desk = Desk::with_plane();
    let store = StepStore::open_in(desk.path("."), &tenant(), StepLimits::default()).unwrap();
    let journal = Journal::open(&desk.path("plane")).unwrap();
    for name in ["refund-1", "silent-1"] {
        let run_id = RunId::new(name).unwrap();
        let run = store.run(tenant(), run_id.clone(), definition()).unwrap();
        for path in STEPS {
            run.step(StepPath::new(path).unwrap(), |_| Ok::<_, ()>(format!("{path} done").into())).unwrap();
        }
        let payload = Json::parse(br#"{"outcome":"succeeded"}"#).unwrap();
        let payload = if name == "refund-1" { run.conclusion(&payload).unwrap() } else { payload };
        let admitted = draft("RunAdmitted", Json::parse(b"{}").unwrap());
        journal
            .tenant(&tenant())
            .import(&run_id, vec![admitted, draft("RunConcluded", payload)], true)
            .unwrap();
    }
    drop((store, journal));
    desk.run(&["checkpoint", "--dir", "plane", "--tenant", "acme"]).ended(0);
    desk.run(&["export", "--dir", "plane", "--tenant", "acme", "-o", "acme.jsonl"]).ended(0);
    let key = desk.run(&["vkey", "--dir", "plane", "--tenant", "acme"]).ended(0).stdout;
    desk.write("policy", format!("log {}\nquorum none\n", key.trim()));
    desk
}

fn audit(desk: &Desk, steps: Option<&str>) -> Report {
    let steps = steps.map(|name| StepsFile::read(&desk.path(name)).unwrap().into());
    let against = Against { steps, ..Against::default() };
    let trust = Trust::load(&desk.path("policy")).unwrap();
    let export = desk.path("acme.jsonl");
    runseal_verifier::export::check(&export, &trust, None, &against, Progress::new(true)).unwrap()
}

/// The payloads of a file's frames, in order.
fn payloads(file: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(file).unwrap();
    let (mut rest, mut payloads) = (&bytes[32..], Vec::new());
    while let Some((prefix, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*prefix)).unwrap();
        payloads.push(after[..length].to_vec());
        rest = &after[length + 32..];
    }
    payloads
}

/// A file of these payloads in which every head fits.
fn rebuilt(payloads: &[Vec<u8>]) -> Vec<u8> {
    payloads.iter().fold(File::new(ID), |file, payload| file.with(payload)).bytes
}

#[test]
fn steps_that_a_run_concluded_with_are_borne_out() {
    let desk = concluded();
    let before = fs::read(desk.path("acme.steps")).unwrap();
    let said =
        desk.run(&["check", "--dir", "plane", "--tenant", "acme", "--steps", "acme.steps"]).ended(0).stdout;
    assert!(said.contains("acme.steps: sound; 4 steps of 1 run borne out"), "{said}");
    assert!(said.contains("not checked: 4 steps of 1 run that no conclusion commits to"), "{said}");
    let report = audit(&desk, Some("acme.steps"));
    assert_eq!(report.verdict(), Verdict::Verified, "{report:?}");
    assert!(report.not_checked.iter().any(|gap| gap.what == "the steps of 1 run"), "{report:?}");
    assert_eq!(fs::read(desk.path("acme.steps")).unwrap(), before);
    // Without the file the report says what it did not look at, and is verified all the same.
    let report = audit(&desk, None);
    assert_eq!(report.verdict(), Verdict::Verified);
    let why = report.not_checked.iter().find(|gap| gap.what == "the steps of 1 run").unwrap();
    assert_eq!(why.why, "no --steps was given");
}

#[test]
fn a_step_changed_removed_or_moved_is_named_by_operator_and_auditor() {
    let desk = concluded();
    let (whole, all) = (fs::read(desk.path("acme.steps")).unwrap(), payloads(&desk.path("acme.steps")));
    assert_eq!(all.len(), 8);
    let with = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut payloads = all.clone();
        change(&mut payloads);
        rebuilt(&payloads)
    };
    let mut flipped = whole.clone();
    let at = flipped.windows(11).position(|bytes| bytes == b"charge done").unwrap();
    flipped[at] = b'C';
    let attacks: [(&str, Vec<u8>, &str); 5] = [
        ("bytes changed", flipped, r#"step 2 of 4 was changed ("charge")"#),
        (
            "a value changed, heads made to fit",
            with(&|all| *all[1].last_mut().unwrap() = b'!'),
            "step 2 of 4 was changed",
        ),
        ("a step removed, heads made to fit", with(&|all| drop(all.remove(2))), "step 3 of 4 was removed"),
        (
            "steps swapped, heads made to fit",
            with(&|all| all.swap(0, 1)),
            "steps 1 to 2 of 4 stand in another order",
        ),
        ("the run removed, heads made to fit", with(&|all| drop(all.drain(..4))), "step 4 of 4 was removed"),
    ];
    for (attack, bytes, named) in attacks {
        desk.write("attacked.steps", &bytes);
        let ran =
            desk.run(&["check", "--dir", "plane", "--tenant", "acme", "--steps", "attacked.steps"]).ended(1);
        assert!(ran.stdout.contains("run refund-1, concluded by record 2"), "{attack}: {}", ran.stdout);
        assert!(ran.stdout.contains(named), "{attack}: {}", ran.stdout);
        let report = audit(&desk, Some("attacked.steps"));
        assert_eq!(report.verdict(), Verdict::Tampered, "{attack}: {report:?}");
        let of_run = report.findings.iter().filter(|finding| finding.kind == FindingKind::RunEdited);
        let found =
            of_run.filter(|finding| finding.run.as_ref().is_some_and(|run| run.as_str() == "refund-1"));
        assert!(found.clone().any(|finding| finding.detail.contains(named)), "{attack}: {report:?}");
        assert!(
            found.clone().all(|finding| finding.seq == Some(2) && finding.index.is_some()),
            "{attack}: {report:?}"
        );
    }
    // The heads that were made to fit satisfy the store itself: it is the conclusion that convicts.
    desk.write("fits.steps", with(&|all| drop(all.remove(2))));
    StepStore::open(desk.path("fits.steps"), StepLimits::default()).unwrap();
}

#[test]
fn what_is_no_file_of_steps_is_refused_by_name() {
    let desk = concluded();
    let ran = desk.run(&["check", "--dir", "plane", "--tenant", "acme", "--steps", "policy"]).ended(2);
    assert!(ran.stderr.contains("it is not a file of steps"), "{}", ran.stderr);
    assert!(StepsFile::read(&desk.path("policy")).is_err());
    desk.run(&["check", "--dir", "plane", "--steps", "acme.steps"]).ended(2).says("--tenant");
}

//! Recorded agent trajectories: one JSON document is one run.
//!
//! | of the file | becomes |
//! |---|---|
//! | every top-level member but `trajectory` and `history` | the payload of `RunAdmitted` |
//! | each element of `history` | a `Message` |
//! | each element of `trajectory` | an `EffectStarted` with its `thought`, `action` and `state`, and an `EffectDone` with all the rest |
//! | `info.exit_status` | the outcome of `RunConcluded`; `succeeded` where it is absent or null |
//!
//! Both records of a step carry one effect, `SHA-256("runseal/trajectory-step/v1\n" || run || "\n" || index)`.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use runseal_evidence::{
    json::{Json, JsonError, JsonFault, Object},
    name::{EffectKey, Kind, Outcome, RunId, TenantId},
    payload::Meaning,
    record::RecordDraft,
};
use sha2::{Digest, Sha256};

use super::{Ending, ImportFault, ImportedRun, Place, Refused, TRAJECTORY_BYTES_MAX};

pub(super) fn read_file(file: &Path, tenant: &TenantId, ending: Ending) -> Result<ImportedRun, Refused> {
    let run = run_of(file)?;
    let text = read_text(file).map_err(|error| (Place::File, error.into()))?;
    if text.len() as u64 > TRAJECTORY_BYTES_MAX {
        return Err((Place::File, ImportFault::FileTooLong));
    }
    read(&text, run, tenant, ending)
}

fn read_text(file: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(file)?.take(TRAJECTORY_BYTES_MAX + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// The run a file is: its stem in lower case, with `-` for every character that a run's name cannot hold.
fn run_of(file: &Path) -> Result<RunId, Refused> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name: String = stem
        .chars()
        .map(|c| match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9' | '.' | '_' | '-') => c,
            _ => '-',
        })
        .collect();
    RunId::new(name).map_err(|error| (Place::File, ImportFault::Stem(error)))
}

fn read(text: &[u8], run: RunId, tenant: &TenantId, ending: Ending) -> Result<ImportedRun, Refused> {
    if text.trim_ascii().is_empty() {
        return Err((Place::File, ImportFault::Empty));
    }
    let mut top = Object::parse(text).map_err(|error| refused_json(text, error))?;
    let steps = top.remove("trajectory");
    let messages = top.remove("history");
    if steps.is_none() && messages.is_none() {
        return Err((Place::Top, ImportFault::NoTrajectory));
    }
    let (steps, messages) = (elements(steps, "trajectory")?, elements(messages, "history")?);
    if steps.is_empty() && messages.is_empty() && top.members.is_empty() {
        return Err((Place::File, ImportFault::Empty));
    }
    let conclusion = match ending {
        Ending::Seal => Some(outcome(&top)?),
        Ending::LeaveOpen => None,
    };

    let mut records = Records { imported: ImportedRun::empty(run), tenant };
    records.push(Place::Top, "RunAdmitted", object(&top, Place::Top)?, None)?;
    for (index, message) in messages.into_iter().enumerate() {
        records.push(Place::History(index), "Message", message, None)?;
    }
    for (index, step) in steps.into_iter().enumerate() {
        let here = Place::Step(index);
        let step = step.object().ok_or((here, ImportFault::NotAnObject))?;
        let effect = step_effect(&records.imported.run, index);
        let (started, done) =
            step.members.into_iter().partition(|(name, _)| STARTED.contains(&name.as_str()));
        records.push(
            here,
            "EffectStarted",
            object(&Object { members: started }, here)?,
            Some(effect.clone()),
        )?;
        records.push(here, "EffectDone", object(&Object { members: done }, here)?, Some(effect))?;
    }
    if let Some(outcome) = conclusion {
        let payload = Object { members: vec![("outcome".to_owned(), Json::string(outcome.as_str()))] };
        let payload = object(&payload, Place::ExitStatus)?;
        records.push(Place::ExitStatus, Meaning::RUN_CONCLUDED, payload, None)?;
        records.imported.seal = true;
    }
    Ok(records.imported)
}

/// The members of a step that say what was about to be done.
const STARTED: [&str; 3] = ["thought", "action", "state"];

struct Records<'a> {
    imported: ImportedRun,
    tenant: &'a TenantId,
}

impl Records<'_> {
    fn push(
        &mut self,
        place: Place,
        kind: &str,
        payload: Json,
        effect: Option<EffectKey>,
    ) -> Result<(), Refused> {
        let here = |fault: ImportFault| (place, fault);
        let kind = Kind::new(kind).map_err(|error| here(error.into()))?;
        let draft = RecordDraft { kind, payload, effect, case: None };
        self.imported.push(place, draft, self.tenant).map(drop).map_err(here)
    }
}

fn elements(value: Option<Json>, member: &'static str) -> Result<Vec<Json>, Refused> {
    match value {
        None => Ok(Vec::new()),
        Some(value) => {
            value.elements().ok_or((Place::Top, ImportFault::Type { member, expected: "an array" }))
        }
    }
}

fn object(object: &Object, place: Place) -> Result<Json, Refused> {
    object.to_json().map_err(|error| (place, ImportFault::Json(error)))
}

/// The outcome of the run: `info.exit_status`, or `succeeded` where there is none.
fn outcome(top: &Object) -> Result<Outcome, Refused> {
    let refused = |fault| (Place::ExitStatus, fault);
    let status = top.get("info").and_then(Json::object).and_then(|mut info| info.remove("exit_status"));
    let outcome = match status.filter(|status| !status.is_null()) {
        None => "succeeded".to_owned(),
        Some(status) => status.text().ok_or(refused(ImportFault::OutcomeType))?,
    };
    Outcome::new(outcome).map_err(|error| refused(ImportFault::Outcome(error)))
}

fn step_effect(run: &RunId, index: usize) -> EffectKey {
    let mut hasher = Sha256::new_with_prefix("runseal/trajectory-step/v1\n");
    hasher.update(format!("{run}\n{index}"));
    EffectKey::new(hex::encode(hasher.finalize())).expect("a SHA-256 in hex has 64 lower-case digits")
}

/// Places a JSON error by line and byte: trajectories are written over many lines.
fn refused_json(text: &[u8], error: JsonError) -> Refused {
    let before = &text[..error.offset.min(text.len())];
    let line = before.split(|byte| *byte == b'\n').count() as u64;
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let place = Place::Byte { line, byte: (before.len() - start) as u64 + 1 };
    match error.fault {
        JsonFault::ByteOrderMark => (place, ImportFault::ByteOrderMark),
        JsonFault::NotAnObject => (place, ImportFault::NotAnObject),
        fault => (place, ImportFault::Fault(fault)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> Result<ImportedRun, Refused> {
        read(text.as_bytes(), RunId::new("r").unwrap(), &TenantId::default(), Ending::Seal)
    }

    fn refusal(text: &str) -> String {
        let (place, fault) = run(text).unwrap_err();
        format!("{place}: {fault}")
    }

    fn shown(imported: &ImportedRun) -> Vec<(String, String)> {
        imported.drafts.iter().map(|d| (d.kind.to_string(), d.payload.to_string())).collect()
    }

    #[test]
    fn nothing_of_a_trajectory_is_lost() {
        let text = r#"{ "environment":"e", "trajectory":[
            {"observation":"o","action":"a","x":1.50,"thought":"t","state":{"s":1}}, {"action":"b"}],
            "history":[{"role":"user"}, "text"], "info":{"exit_status":"submitted","n":1e3} }"#;
        let imported = run(text).unwrap();
        let expected = [
            ("RunAdmitted", r#"{"environment":"e","info":{"exit_status":"submitted","n":1e3}}"#),
            ("Message", r#"{"role":"user"}"#),
            ("Message", r#""text""#),
            ("EffectStarted", r#"{"action":"a","thought":"t","state":{"s":1}}"#),
            ("EffectDone", r#"{"observation":"o","x":1.50}"#),
            ("EffectStarted", r#"{"action":"b"}"#),
            ("EffectDone", "{}"),
            ("RunConcluded", r#"{"outcome":"submitted"}"#),
        ];
        assert_eq!(shown(&imported), expected.map(|(kind, payload)| (kind.to_owned(), payload.to_owned())));
        assert!(imported.seal);
        let effects: Vec<_> = imported.drafts.iter().filter_map(|draft| draft.effect.clone()).collect();
        assert_eq!(effects.len(), 4);
        assert_eq!((&effects[0], &effects[2]), (&effects[1], &effects[3]));
        assert_ne!(effects[0], effects[2]);
        let open =
            read(text.as_bytes(), RunId::new("r").unwrap(), &TenantId::default(), Ending::LeaveOpen).unwrap();
        assert_eq!((open.drafts.len(), open.seal), (7, false));
    }

    #[test]
    fn a_conversation_alone_is_a_run_that_succeeded() {
        for text in [
            r#"{"history":[1]}"#,
            r#"{"history":[1],"info":{"exit_status":null}}"#,
            r#"{"history":[1],"info":7}"#,
        ] {
            let imported = run(text).unwrap();
            assert_eq!(shown(&imported).last().unwrap().1, r#"{"outcome":"succeeded"}"#, "{text}");
        }
    }

    #[test]
    fn each_refusal_names_place_and_reason() {
        for (text, expected) in [
            ("", "the file: it holds no run"),
            (" \n", "the file: it holds no run"),
            (r#"{"trajectory":[],"history":[]}"#, "the file: it holds no run"),
            ("{}", "the top level: it has neither"),
            ("[]", "line 1, byte 1: it is not an object"),
            ("\u{feff}{}", "line 1, byte 1: a byte order mark"),
            ("{\n \"a\":1,\n \"a\":2}", "line 3, byte 2: member \"a\" occurs twice"),
            ("{\"history\":[1,]}", "line 1, byte 15: found ']'"),
            (r#"{"history":{}}"#, "the top level: member \"history\" is not an array"),
            (r#"{"trajectory":null}"#, "the top level: member \"trajectory\" is not an array"),
            (r#"{"trajectory":[{},7]}"#, "trajectory[1]: it is not an object"),
            (r#"{"trajectory":[{}],"source":7}"#, "the top level: the payload of RunAdmitted does not fit"),
            (r#"{"trajectory":[{}],"info":{"exit_status":7}}"#, "info.exit_status: it is not a string"),
            (
                r#"{"trajectory":[{}],"info":{"exit_status":""}}"#,
                "info.exit_status: \"\" is not a valid outcome",
            ),
        ] {
            let found = refusal(text);
            assert!(found.starts_with(expected), "{found} for {text}");
        }
        let large = format!(r#"{{"history":["{}"]}}"#, "x".repeat(1 << 20));
        assert!(refusal(&large).starts_with("history[0]: the record has"), "{}", refusal(&large));
    }

    #[test]
    fn a_file_names_its_run() {
        for (file, expected) in [
            ("dir/Pydicom 1458.traj", "pydicom-1458"),
            ("a.b.traj", "a.b"),
            ("Ärger.traj", "-rger"),
            ("x\u{e4}.traj", "x-"),
        ] {
            match run_of(Path::new(file)) {
                Ok(run) => assert_eq!(run.as_str(), expected),
                Err((_, fault)) => {
                    assert_eq!(expected, "-rger");
                    assert!(fault.to_string().contains("rename the file"), "{fault}");
                }
            }
        }
    }
}

//! policies.json: policy files, their quorums, and checkpoints under them (c2sp.org/tlog-policy).

use std::collections::HashMap;

use runseal_tlog::note::Note;
use runseal_tlog::policy::Policy;
use serde::Deserialize;

use crate::own;
use crate::shared::{Answer, Base64, Cases, Expect, load};

#[derive(Deserialize)]
struct File {
    cases: Cases<Case>,
    policies: HashMap<String, Base64>,
    checkpoints: Cases<Checkpoint>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    policy_b64: Base64,
    expect: Expect,
    logs: Option<usize>,
    groups: Option<usize>,
    #[serde(default)]
    witnesses: Vec<Witness>,
    #[serde(default)]
    evaluations: Vec<Evaluation>,
}

#[derive(Deserialize)]
struct Witness {
    name_b64: Base64,
    vkey: String,
}

#[derive(Deserialize)]
struct Evaluation {
    cosigned_b64: Vec<Base64>,
    met: bool,
}

#[derive(Deserialize)]
struct Checkpoint {
    id: String,
    policy: String,
    note_b64: Base64,
    expect: Expect,
}

const DECIDED: &[(&str, Answer)] = &[
    // Each line is terminated by a newline; a file cut short must not read as a policy.
    ("open-no-final-newline", Answer::Refuse),
    // Decimals have one spelling here.
    ("open-k-leading-zero", Answer::Refuse),
    // Names are opaque; the grammar tells them from keywords by their place.
    ("open-name-any", Answer::Accept),
    ("open-name-keyword", Answer::Accept),
    ("open-name-comment", Answer::Accept),
    // No limits.
    ("open-33-logs", Answer::Accept),
    ("open-33-witnesses", Answer::Accept),
    // A log may sign with any note signature type.
    ("open-log-type-04", Answer::Accept),
];

#[test]
fn shared_policies_parse_and_count_as_stated() {
    let Some(file) = load::<File>("policies.json") else { return };
    let mut evaluations = 0;
    for case in &file.cases.0 {
        let Ok(policy) = Policy::parse(&case.policy_b64.0) else { continue };
        let Some(logs) = case.logs else { continue };
        assert_eq!(policy.logs().len(), logs, "{}", case.id);
        assert_eq!(Some(policy.group_count()), case.groups, "{}", case.id);
        let witnesses = policy.witnesses();
        assert_eq!(witnesses.len(), case.witnesses.len(), "{}", case.id);
        for (ours, stated) in witnesses.iter().zip(&case.witnesses) {
            assert_eq!(ours.name.as_bytes(), stated.name_b64.0, "{}", case.id);
            assert_eq!(ours.key.to_string(), stated.vkey, "{}", case.id);
        }
        for Evaluation { cosigned_b64, met } in &case.evaluations {
            let cosigned =
                |at: usize| cosigned_b64.iter().any(|name| name.0 == witnesses[at].name.as_bytes());
            assert_eq!(policy.quorum_met(cosigned), *met, "{} with {cosigned_b64:?}", case.id);
            evaluations += 1;
        }
    }
    assert!(evaluations > 0, "no quorum was evaluated");
    file.cases.check("policies", |case| {
        let parsed = Policy::parse(&case.policy_b64.0).map(drop).map_err(|error| error.to_string());
        case.expect.judge(&case.id, DECIDED, &parsed)
    });
}

#[test]
fn shared_checkpoints_are_valid_under_their_policy_or_not_as_stated() {
    let Some(file) = load::<File>("policies.json") else { return };
    file.checkpoints.check("checkpoints", |case| {
        let policy = Policy::parse(&file.policies[&case.policy].0).unwrap();
        let accepted = Note::parse(&case.note_b64.0)
            .map_err(|error| error.to_string())
            .and_then(|note| policy.accept(&note).map(drop).map_err(|error| error.to_string()));
        case.expect.judge(&case.id, &[], &accepted)
    });
}

#[test]
fn own_policies_count_or_fail_with_this_error() {
    own::walk("policy", |case| {
        let policy = Policy::parse(&case.body).map_err(|error| error.to_string())?;
        for (kind, expected) in [("met", true), ("unmet", false)] {
            for set in case.values(kind) {
                let cosigned = |at: usize| {
                    let name = policy.witnesses()[at].name.as_bytes();
                    set.split(' ').any(|cosigned| cosigned.as_bytes() == name)
                };
                assert_eq!(policy.quorum_met(cosigned), expected, "{set:?}");
            }
        }
        Ok(())
    });
}

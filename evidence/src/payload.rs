//! What the payloads of some kinds mean to a journal.
//!
//! Kinds are open and most payloads are opaque. Those of [`Meaning`] carry what a journal acts on; a payload
//! that does not fit its kind is refused when it is appended. Members that mean nothing here are kept and
//! ignored, and `null` is the same as absent.

use std::borrow::Cow;

use crate::{
    json::{self, Envelope, Json},
    name::{Kind, NameError, Outcome},
    record::RecordView,
    timestamp::{Timestamp, TimestampError},
};

/// Most bytes an admission key may have.
pub const ADMISSION_KEY_BYTES_MAX: usize = 512;

/// Most bytes the source of a run may have.
pub const SOURCE_BYTES_MAX: usize = 256;

/// What a record means to a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// `RunAdmitted`: a run was let in.
    RunAdmitted(RunAdmitted),
    /// `EffectStarted`: an effect is about to happen, once in a run for each effect key.
    EffectStarted,
    /// `EffectDone`: an effect has happened.
    EffectDone,
    /// `EffectFailed`: an effect did not happen.
    EffectFailed,
    /// `RunSuspended`: the run waits.
    RunSuspended(RunSuspended),
    /// `RunConcluded`: the run is over.
    RunConcluded(RunConcluded),
    /// Any other kind.
    Opaque,
}

/// The payload of `RunAdmitted`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunAdmitted {
    /// Admits one run only: 1 to [`ADMISSION_KEY_BYTES_MAX`] bytes of any characters.
    pub admission_key: Option<String>,
    /// Who asked for the run: 1 to [`SOURCE_BYTES_MAX`] bytes without control characters.
    pub source: Option<String>,
}

/// The payload of `RunSuspended`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunSuspended {
    /// When the wait is due, where it ends by time: RFC 3339 UTC in seconds or milliseconds.
    pub until: Option<Timestamp>,
    /// What it waits for, as given.
    pub reason: Option<Json>,
}

/// The payload of `RunConcluded`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunConcluded {
    /// How the run ended.
    pub outcome: Outcome,
    /// Why it ended so, as given.
    pub reason: Option<Json>,
}

/// Why a payload does not fit its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the payload of {kind} does not fit: {fault}")]
pub struct PayloadError {
    /// The record's kind.
    pub kind: Kind,
    /// What is wrong.
    pub fault: PayloadFault,
}

/// What is wrong with a payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadFault {
    /// The payload is not an object.
    #[error("it is not an object")]
    NotAnObject,
    /// A member is needed and absent, or null.
    #[error("member {0:?} is missing")]
    Missing(&'static str),
    /// A member that is to be a string is not.
    #[error("member {0:?} is not a string")]
    NotAString(&'static str),
    /// A member's length is outside its bounds.
    #[error("member {member:?} has {bytes} bytes; it must have 1 to {max}")]
    Length {
        /// The member.
        member: &'static str,
        /// Its length.
        bytes: usize,
        /// The most it may have.
        max: usize,
    },
    /// A member holds a control character.
    #[error("member {0:?} holds a control character")]
    Control(&'static str),
    /// The outcome breaks its rule.
    #[error(transparent)]
    Outcome(#[from] NameError),
    /// `until` is not an instant.
    #[error("member \"until\": {0}")]
    Until(#[from] TimestampError),
}

impl Meaning {
    /// The kind that concludes a run.
    pub const RUN_CONCLUDED: &'static str = "RunConcluded";

    /// What a record of this kind and payload means.
    pub fn of(kind: &Kind, payload: &Json) -> Result<Self, PayloadError> {
        read(kind.as_str(), payload.as_str()).map_err(|fault| PayloadError { kind: kind.clone(), fault })
    }

    /// What a record means, read where it stands.
    pub fn of_record(record: &RecordView<'_>) -> Result<Self, PayloadError> {
        let fault = |fault| PayloadError { kind: Kind::checked(record.kind()), fault };
        read(record.kind(), record.payload()).map_err(fault)
    }
}

fn read(kind: &str, payload: &str) -> Result<Meaning, PayloadFault> {
    Ok(match kind {
        "RunAdmitted" => {
            let members = members(payload)?;
            let admission_key = text(&members, "admission_key", ADMISSION_KEY_BYTES_MAX)?;
            let source = text(&members, "source", SOURCE_BYTES_MAX)?;
            if source.as_ref().is_some_and(|source| source.contains(char::is_control)) {
                return Err(PayloadFault::Control("source"));
            }
            Meaning::RunAdmitted(RunAdmitted { admission_key, source })
        }
        "EffectStarted" => Meaning::EffectStarted,
        "EffectDone" => Meaning::EffectDone,
        "EffectFailed" => Meaning::EffectFailed,
        "RunSuspended" => {
            let members = members(payload)?;
            let until =
                string(&members, "until")?.map(|until| Timestamp::parse_seconds_or_ms(&until)).transpose()?;
            Meaning::RunSuspended(RunSuspended {
                until,
                reason: present(&members, "reason").map(Json::from_compact),
            })
        }
        Meaning::RUN_CONCLUDED => {
            if let Some(outcome) = sole_text(payload, "outcome") {
                return Ok(Meaning::RunConcluded(RunConcluded {
                    outcome: Outcome::new(outcome)?,
                    reason: None,
                }));
            }
            let members = members(payload)?;
            let outcome = string(&members, "outcome")?.ok_or(PayloadFault::Missing("outcome"))?;
            let reason = present(&members, "reason").map(Json::from_compact);
            Meaning::RunConcluded(RunConcluded { outcome: Outcome::new(outcome)?, reason })
        }
        _ => Meaning::Opaque,
    })
}

/// Names and values, both as the payload's compact text has them.
type Members<'a> = Vec<(Cow<'a, str>, &'a str)>;

fn members(payload: &str) -> Result<Members<'_>, PayloadFault> {
    json::compact_members(payload.as_bytes()).map_err(|_| PayloadFault::NotAnObject)
}

/// The text that is an object's only member, where that is called `name`.
fn sole_text<'a>(payload: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let mut members = Envelope::of(payload);
    let text = members.text(name).ok()??;
    members.is_at_end().then_some(text)
}

fn present<'a>(members: &Members<'a>, member: &str) -> Option<&'a str> {
    members.iter().find(|(name, _)| name == member).map(|(_, value)| *value).filter(|value| *value != "null")
}

fn string(members: &Members<'_>, member: &'static str) -> Result<Option<String>, PayloadFault> {
    let text = |value| json::text_of(value).map(Cow::into_owned).ok_or(PayloadFault::NotAString(member));
    present(members, member).map(text).transpose()
}

fn text(members: &Members<'_>, member: &'static str, max: usize) -> Result<Option<String>, PayloadFault> {
    let text = string(members, member)?;
    match &text {
        Some(text) if text.is_empty() || text.len() > max => {
            Err(PayloadFault::Length { member, bytes: text.len(), max })
        }
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(kind: &str, payload: &str) -> Result<Meaning, PayloadFault> {
        let payload = Json::parse(payload.as_bytes()).unwrap();
        Meaning::of(&Kind::new(kind).unwrap(), &payload).map_err(|error| error.fault)
    }

    #[test]
    fn an_admission_may_carry_a_key_and_a_source() {
        for payload in ["{}", r#"{"admission_key":null,"source":null,"info":{"cost":1.0}}"#] {
            assert_eq!(meaning("RunAdmitted", payload), Ok(Meaning::RunAdmitted(RunAdmitted::default())));
        }
        let admitted =
            RunAdmitted { admission_key: Some("a\u{1f}b".to_owned()), source: Some("mail".to_owned()) };
        assert_eq!(
            meaning("RunAdmitted", r#"{"admission_key":"a\u001fb","source":"mail"}"#),
            Ok(Meaning::RunAdmitted(admitted))
        );
        for (payload, fault) in [
            ("[]".to_owned(), PayloadFault::NotAnObject),
            (r#"{"admission_key":7}"#.to_owned(), PayloadFault::NotAString("admission_key")),
            (
                r#"{"admission_key":""}"#.to_owned(),
                PayloadFault::Length { member: "admission_key", bytes: 0, max: 512 },
            ),
            (
                format!("{{\"source\":\"{}\"}}", "s".repeat(257)),
                PayloadFault::Length { member: "source", bytes: 257, max: 256 },
            ),
            (r#"{"source":"a\nb"}"#.to_owned(), PayloadFault::Control("source")),
        ] {
            assert_eq!(meaning("RunAdmitted", &payload), Err(fault), "{payload}");
        }
    }

    #[test]
    fn a_suspension_may_be_due_and_have_a_reason() {
        assert_eq!(meaning("RunSuspended", "{}"), Ok(Meaning::RunSuspended(RunSuspended::default())));
        let suspended = RunSuspended {
            until: Some("2026-11-30T15:51:19.000Z".parse().unwrap()),
            reason: Some(Json::parse(br#"{"wait":"timer"}"#).unwrap()),
        };
        assert_eq!(
            meaning("RunSuspended", r#"{"until":"2026-11-30T15:51:19Z","reason":{"wait":"timer"}}"#),
            Ok(Meaning::RunSuspended(suspended))
        );
        assert!(matches!(meaning("RunSuspended", r#"{"until":"soon"}"#), Err(PayloadFault::Until(_))));
        assert_eq!(
            meaning("RunSuspended", r#"{"until":1796053879}"#),
            Err(PayloadFault::NotAString("until"))
        );
    }

    #[test]
    fn a_conclusion_needs_an_outcome() {
        let concluded = RunConcluded {
            outcome: Outcome::new("exit_cost").unwrap(),
            reason: Some(Json::string("budget")),
        };
        assert_eq!(
            meaning("RunConcluded", r#"{"reason":"budget","outcome":"exit_cost"}"#),
            Ok(Meaning::RunConcluded(concluded))
        );
        for payload in ["{}", r#"{"outcome":null}"#] {
            assert_eq!(meaning("RunConcluded", payload), Err(PayloadFault::Missing("outcome")));
        }
        assert_eq!(meaning("RunConcluded", r#"{"outcome":0}"#), Err(PayloadFault::NotAString("outcome")));
        assert_eq!(meaning("RunConcluded", "null"), Err(PayloadFault::NotAnObject));
        for payload in [r#"{"outcome":""}"#, r#"{"outcome":"a\u0000"}"#] {
            assert!(matches!(meaning("RunConcluded", payload), Err(PayloadFault::Outcome(_))), "{payload}");
        }
        let error =
            Meaning::of(&Kind::new("RunConcluded").unwrap(), &Json::parse(b"{}").unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the payload of RunConcluded does not fit: member \"outcome\" is missing"
        );
    }

    #[test]
    fn other_kinds_are_opaque() {
        for (kind, expected) in [
            ("EffectStarted", Meaning::EffectStarted),
            ("EffectDone", Meaning::EffectDone),
            ("EffectFailed", Meaning::EffectFailed),
            ("Message", Meaning::Opaque),
            ("runconcluded", Meaning::Opaque),
        ] {
            assert_eq!(meaning(kind, "null"), Ok(expected), "{kind}");
        }
    }
}

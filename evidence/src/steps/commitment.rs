//! What the conclusion of a run says of its steps.
//!
//! A `RunConcluded` record of a run that used steps carries, in its payload,
//!
//! ```json
//! "steps": {"count": 7, "head": "<64 hex digits>", "marks": "<8 hex digits a step>"}
//! ```
//!
//! `head` commits to every step and their order. `marks`, the first four bytes of each step's digest, commit to
//! nothing beyond that: they are there to say *which* step differs once the head says that one does. A run of
//! more than 65,536 steps carries none.

use std::collections::BTreeMap;
use std::ops::Range;

use super::digest::{DigestError, RunHead, StepDigest};
use crate::{
    json::{Json, JsonError},
    name::{RunId, TenantId},
    record::RecordView,
};

/// The first four bytes of a step's digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark([u8; 4]);

impl Mark {
    /// The mark of a step.
    pub fn of(digest: &StepDigest) -> Self {
        let [a, b, c, d, ..] = *digest.as_bytes();
        Self([a, b, c, d])
    }

    /// The mark of a step whose digest starts with these bytes.
    pub fn of_start(digest: &[u8; 16]) -> Self {
        let [a, b, c, d, ..] = *digest;
        Self([a, b, c, d])
    }
}

/// The steps of one run as they stand in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSteps {
    head: RunHead,
    marks: Vec<Mark>,
}

impl RunSteps {
    /// A run before its first step.
    pub fn new(tenant: &TenantId, run: &RunId) -> Self {
        Self { head: RunHead::genesis(tenant, run), marks: Vec::new() }
    }

    /// Takes the run's next step.
    pub fn push(&mut self, digest: &StepDigest) {
        self.head = self.head.link(digest);
        self.marks.push(Mark::of(digest));
    }

    /// The head at the last step, or the genesis.
    pub fn head(&self) -> RunHead {
        self.head
    }

    /// How many steps there are.
    pub fn count(&self) -> u64 {
        self.marks.len() as u64
    }
}

/// What a conclusion says of its run's steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepsCommitment {
    /// How many steps the run had.
    pub count: u64,
    /// The head at its last step.
    pub head: RunHead,
    /// A mark for each step, where the run had no more than 65,536.
    pub marks: Option<Vec<Mark>>,
}

/// Why the member `steps` of a conclusion is no commitment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitmentFault {
    /// `count` is not a whole number below 2^64.
    #[error("member \"count\" of \"steps\" is not a whole number")]
    Count,
    /// `head` is no digest.
    #[error("member \"head\" of \"steps\": {0}")]
    Head(#[from] DigestError),
    /// `marks` is not eight hexadecimal digits for each step.
    #[error("member \"marks\" of \"steps\" is not 8 lower-case hexadecimal digits for each of its steps")]
    Marks,
    /// The payload to be completed is not an object.
    #[error("the payload is not an object")]
    NotAnObject,
    /// The payload to be completed has a member `steps`.
    #[error("the payload has a member \"steps\" already")]
    Taken,
    /// The completed payload cannot be read.
    #[error(transparent)]
    Json(#[from] JsonError),
}

/// How the steps of a run differ from what its conclusion says. Steps are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepDifference {
    /// A step is not the one that was there.
    #[error("step {position} of {count} was changed")]
    Changed {
        /// Its place among the steps found.
        position: u64,
        /// How many steps the run had.
        count: u64,
    },
    /// A step is gone.
    #[error("step {position} of {count} was removed")]
    Removed {
        /// Its place among the steps the run had.
        position: u64,
        /// How many steps the run had.
        count: u64,
    },
    /// A step is there that was not.
    #[error("step {position} as found was not among the {count} steps of the run")]
    Added {
        /// Its place among the steps found.
        position: u64,
        /// How many steps the run had.
        count: u64,
    },
    /// Steps stand in another order.
    #[error("steps {first} to {last} of {count} stand in another order")]
    Reordered {
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
        /// How many steps the run had.
        count: u64,
    },
    /// Several steps are changed, removed and added between two that are not.
    #[error("steps {recorded:?} of {count} were replaced by steps {found:?} as found")]
    Replaced {
        /// The steps the run had there.
        recorded: Range<u64>,
        /// The steps found there.
        found: Range<u64>,
        /// How many steps the run had.
        count: u64,
    },
    /// The head differs, and nothing says at which step.
    #[error(
        "the {found} steps found do not give the head of the run's {count} steps; which one differs cannot be told"
    )]
    Somewhere {
        /// How many steps were found.
        found: u64,
        /// How many steps the run had.
        count: u64,
    },
}

/// Most steps whose marks a conclusion carries: 512 KiB of a record's 1 MiB.
const MARKED_STEPS_MAX: usize = 65_536;

const MEMBER: &str = "steps";

impl From<&RunSteps> for StepsCommitment {
    fn from(steps: &RunSteps) -> Self {
        Self::new(steps.head, steps.marks.clone())
    }
}

impl StepDifference {
    /// The step among those found that the difference is about, where it is about one.
    pub fn found_at(&self) -> Option<u64> {
        match self {
            Self::Changed { position, .. } | Self::Added { position, .. } => Some(*position),
            Self::Removed { .. }
            | Self::Reordered { .. }
            | Self::Replaced { .. }
            | Self::Somewhere { .. } => None,
        }
    }
}

impl StepsCommitment {
    /// The commitment to the steps with these marks, in their order, and this head.
    pub fn new(head: RunHead, marks: Vec<Mark>) -> Self {
        let count = marks.len() as u64;
        Self { count, head, marks: (marks.len() <= MARKED_STEPS_MAX).then_some(marks) }
    }

    /// The payload of a conclusion with this commitment as its last member.
    ///
    /// # Errors
    /// A payload that is not an object, or has a member `steps`.
    pub fn complete(&self, payload: &Json) -> Result<Json, CommitmentFault> {
        let members = payload.object().ok_or(CommitmentFault::NotAnObject)?;
        if members.get(MEMBER).is_some() {
            return Err(CommitmentFault::Taken);
        }
        let open = payload.as_str().strip_suffix('}').unwrap_or_default();
        let comma = if open == "{" { "" } else { "," };
        Ok(Json::parse(format!("{open}{comma}\"{MEMBER}\":{}}}", self.to_json()).as_bytes())?)
    }

    /// The commitment that the payload of a conclusion carries. A member `steps` that is no object with a
    /// `head` is the caller's own, and none.
    ///
    /// # Errors
    /// A commitment that cannot be read.
    pub fn of_conclusion(payload: &Json) -> Result<Option<Self>, CommitmentFault> {
        if !may_commit(payload.as_str()) {
            return Ok(None);
        }
        let steps = payload.object().and_then(|members| members.get(MEMBER).and_then(Json::object));
        let Some((steps, head)) =
            steps.and_then(|steps| steps.get("head").cloned().map(|head| (steps, head)))
        else {
            return Ok(None);
        };
        let head = head.text().ok_or(DigestError)?.parse()?;
        let count = steps.get("count").map_or("", Json::as_str);
        let count: u64 = count.parse().map_err(|_| CommitmentFault::Count)?;
        let marks = match steps.get("marks") {
            None => None,
            Some(marks) => Some(read_marks(marks, count).ok_or(CommitmentFault::Marks)?),
        };
        Ok(Some(Self { count, head, marks }))
    }

    /// [`Self::of_conclusion`] of a record that concludes its run, read where it stands.
    ///
    /// # Errors
    /// A commitment that cannot be read.
    pub fn of_record(record: &RecordView<'_>) -> Result<Option<Self>, CommitmentFault> {
        if may_commit(record.payload()) { Self::of_conclusion(&record.to_payload()) } else { Ok(None) }
    }

    /// How `found` differs from what was committed to; empty where it does not.
    pub fn differences(&self, found: &RunSteps) -> Vec<StepDifference> {
        if self.head == found.head && self.count == found.count() {
            return Vec::new();
        }
        let named = self.marks.as_ref().map(|marks| compare(marks, &found.marks)).unwrap_or_default();
        if named.is_empty() {
            return vec![StepDifference::Somewhere { found: found.count(), count: self.count }];
        }
        named
    }

    fn to_json(&self) -> String {
        let marks = self.marks.iter().map(|marks| {
            let bytes: Vec<u8> = marks.iter().flat_map(|mark| mark.0).collect();
            format!(",\"marks\":\"{}\"", hex::encode(bytes))
        });
        format!("{{\"count\":{},\"head\":\"{}\"{}}}", self.count, self.head, marks.collect::<String>())
    }
}

/// Whether a compact payload may have the member: `false` is certain, and true of most conclusions.
fn may_commit(payload: &str) -> bool {
    // A compact text spells the name in one way only.
    payload.contains(concat!('"', "steps", '"'))
}

fn read_marks(marks: &Json, count: u64) -> Option<Vec<Mark>> {
    let text = marks.text()?;
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let bytes = hex::decode(text).ok()?;
    let (marks, rest) = bytes.as_chunks::<4>();
    (rest.is_empty() && marks.len() as u64 == count).then(|| marks.iter().copied().map(Mark).collect())
}

/// Names what became of the steps between the first and the last that differ.
fn compare(recorded: &[Mark], found: &[Mark]) -> Vec<StepDifference> {
    let count = recorded.len() as u64;
    let first = recorded.iter().zip(found).take_while(|(a, b)| a == b).count();
    let (recorded, found) = (&recorded[first..], &found[first..]);
    let same = recorded.iter().rev().zip(found.iter().rev()).take_while(|(a, b)| a == b).count();
    let (recorded, found) = (&recorded[..recorded.len() - same], &found[..found.len() - same]);
    let position = |offset: usize| (first + offset + 1) as u64;
    if recorded.len() == found.len() {
        if tally(recorded) == tally(found) && !recorded.is_empty() {
            let last = position(recorded.len() - 1);
            return vec![StepDifference::Reordered { first: position(0), last, count }];
        }
        let pairs = recorded.iter().zip(found).enumerate().filter(|(_, (a, b))| a != b);
        return pairs
            .map(|(offset, _)| StepDifference::Changed { position: position(offset), count })
            .collect();
    }
    if let Some(removed) = missing(recorded, found) {
        let removed = removed.into_iter();
        return removed.map(|at| StepDifference::Removed { position: position(at), count }).collect();
    }
    if let Some(added) = missing(found, recorded) {
        let added = added.into_iter();
        return added.map(|at| StepDifference::Added { position: position(at), count }).collect();
    }
    vec![StepDifference::Replaced {
        recorded: position(0)..position(recorded.len()),
        found: position(0)..position(found.len()),
        count,
    }]
}

fn tally(marks: &[Mark]) -> BTreeMap<Mark, usize> {
    marks.iter().fold(BTreeMap::new(), |mut tally, mark| {
        *tally.entry(*mark).or_default() += 1;
        tally
    })
}

/// The places in `all` to leave out so that `some` remains, if that is all the difference.
fn missing(all: &[Mark], some: &[Mark]) -> Option<Vec<usize>> {
    let mut rest = some.iter().peekable();
    let left_out: Vec<usize> = all
        .iter()
        .enumerate()
        .filter_map(|(at, mark)| rest.next_if_eq(&mark).is_none().then_some(at))
        .collect();
    rest.peek().is_none().then_some(left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(values: &[&str]) -> RunSteps {
        let mut steps = RunSteps::new(&TenantId::new("acme").unwrap(), &RunId::new("run-1").unwrap());
        for value in values {
            steps.push(&StepDigest::of(value.as_bytes()));
        }
        steps
    }

    fn differences(recorded: &[&str], found: &[&str]) -> Vec<StepDifference> {
        StepsCommitment::from(&steps(recorded)).differences(&steps(found))
    }

    const FIVE: [&str; 5] = ["a", "b", "c", "d", "e"];

    #[test]
    fn the_same_steps_do_not_differ() {
        assert_eq!(differences(&FIVE, &FIVE), []);
        assert_eq!(differences(&[], &[]), []);
    }

    #[test]
    fn a_changed_step_is_named() {
        assert_eq!(
            differences(&FIVE, &["a", "b", "X", "d", "Y"]),
            [3, 5].map(|position| StepDifference::Changed { position, count: 5 })
        );
    }

    #[test]
    fn a_removed_step_is_named() {
        assert_eq!(
            differences(&FIVE, &["a", "c", "e"]),
            [2, 4].map(|position| StepDifference::Removed { position, count: 5 })
        );
        assert_eq!(differences(&FIVE, &FIVE[..4]), [StepDifference::Removed { position: 5, count: 5 }]);
        assert_eq!(differences(&FIVE, &[]).len(), 5);
    }

    #[test]
    fn an_added_step_is_named() {
        assert_eq!(differences(&FIVE[..4], &FIVE), [StepDifference::Added { position: 5, count: 4 }]);
        assert_eq!(
            differences(&["a", "c"], &["a", "b", "c"]),
            [StepDifference::Added { position: 2, count: 2 }]
        );
    }

    #[test]
    fn reordered_steps_are_named() {
        assert_eq!(
            differences(&FIVE, &["a", "d", "c", "b", "e"]),
            [StepDifference::Reordered { first: 2, last: 4, count: 5 }]
        );
    }

    #[test]
    fn what_is_neither_is_named_as_a_range() {
        assert_eq!(
            differences(&FIVE, &["a", "X", "Y", "e"]),
            [StepDifference::Replaced { recorded: 2..5, found: 2..4, count: 5 }]
        );
    }

    #[test]
    fn without_marks_only_the_run_is_named() {
        let bare = StepsCommitment { marks: None, ..StepsCommitment::from(&steps(&FIVE)) };
        assert_eq!(bare.differences(&steps(&FIVE)), []);
        let somewhere = StepDifference::Somewhere { found: 4, count: 5 };
        assert_eq!(bare.differences(&steps(&FIVE[..4])), std::slice::from_ref(&somewhere));
        // Marks that were chosen to agree hide nothing: the head decides.
        let lying = StepsCommitment { marks: Some(steps(&FIVE[..4]).marks), ..bare };
        assert_eq!(lying.differences(&steps(&FIVE[..4])), [somewhere]);
    }

    #[test]
    fn a_conclusion_carries_its_commitment() {
        let commitment = StepsCommitment::from(&steps(&["a", "b"]));
        for (payload, prefix) in [
            (
                r#"{"outcome":"succeeded","cost":1.50}"#,
                r#"{"outcome":"succeeded","cost":1.50,"steps":{"count":2,"#,
            ),
            ("{}", r#"{"steps":{"count":2,"#),
        ] {
            let completed = commitment.complete(&Json::parse(payload.as_bytes()).unwrap()).unwrap();
            assert!(completed.as_str().starts_with(prefix), "{completed:?}");
            assert_eq!(StepsCommitment::of_conclusion(&completed), Ok(Some(commitment.clone())));
            assert_eq!(commitment.complete(&completed), Err(CommitmentFault::Taken));
        }
        assert_eq!(commitment.complete(&Json::string("x")), Err(CommitmentFault::NotAnObject));
    }

    #[test]
    fn only_an_object_with_a_head_is_a_commitment() {
        let of = |payload: &str| StepsCommitment::of_conclusion(&Json::parse(payload.as_bytes()).unwrap());
        for own in ["{}", "null", r#"{"steps":12}"#, r#"{"steps":["a"]}"#, r#"{"steps":{"count":1}}"#] {
            assert_eq!(of(own), Ok(None), "{own}");
        }
        let head = "ab".repeat(32);
        let bare = of(&format!(r#"{{"steps":{{"head":"{head}","count":2}}}}"#)).unwrap().unwrap();
        assert_eq!((bare.count, bare.marks), (2, None));
        for (members, fault) in [
            (r#""head":1,"count":2"#.to_owned(), CommitmentFault::Head(DigestError)),
            (format!(r#""head":"{head}""#), CommitmentFault::Count),
            (format!(r#""head":"{head}","count":-1"#), CommitmentFault::Count),
            (format!(r#""head":"{head}","count":"2""#), CommitmentFault::Count),
            (format!(r#""head":"{head}","count":2,"marks":"00112233""#), CommitmentFault::Marks),
            (format!(r#""head":"{head}","count":1,"marks":"0011223G""#), CommitmentFault::Marks),
            (format!(r#""head":"{head}","count":1,"marks":"AABBCCDD""#), CommitmentFault::Marks),
        ] {
            assert_eq!(of(&format!(r#"{{"steps":{{{members}}}}}"#)), Err(fault), "{members}");
        }
    }
}

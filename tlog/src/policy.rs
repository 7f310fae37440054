//! Trust policies (c2sp.org/tlog-policy): logs, witnesses, groups, and the quorum a checkpoint needs.

mod reader;

use std::collections::{HashMap, HashSet};
use std::fmt;

use thiserror::Error;

use self::reader::Reader;
use crate::checkpoint::{Checkpoint, CheckpointError, OpenError, SignedCheckpoint};
use crate::key::{KeyError, KeyId, KeyName, VerifierKey};
use crate::note::{Note, VerifyError};

/// A policy-internal name of a witness or group: opaque octets, compared byte for byte.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyName(Vec<u8>);

impl PolicyName {
    /// The octets.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}", self = self.to_string())
    }
}

/// Why a policy is refused: the line, from 1, and the fault.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[error("policy line {line}: {fault}")]
pub struct PolicyError {
    /// Line number from 1; the last line for faults of the whole file.
    pub line: usize,
    /// What is wrong there.
    pub fault: PolicyFault,
}

/// What is wrong with a policy line.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum PolicyFault {
    /// A control character other than tab and newline.
    #[error("control character 0x{0:02x} is not allowed (line ends are a single newline)")]
    Control(u8),
    /// The last line has no newline.
    #[error("the last line does not end in a newline")]
    NoFinalNewline,
    /// A line that starts with no keyword.
    #[error("unknown keyword {0:?}; expected log, witness, group or quorum")]
    Keyword(String),
    /// Too few or too many items.
    #[error("expected {0}")]
    Items(&'static str),
    /// A vkey that is refused.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// A vkey whose bytes are no text.
    #[error("the key is not valid UTF-8")]
    KeyText,
    /// A witness needs a cosignature key.
    #[error("a witness key has type 0x04 or 0x06, not 0x{0:02x}")]
    NotACosigner(u8),
    /// One public key in two log lines.
    #[error("the public key of this log is already listed on line {0}")]
    DuplicateLog(usize),
    /// One public key in two witness lines: one party could fill a quorum.
    #[error("the public key of this witness is already listed on line {0}")]
    DuplicateWitness(usize),
    /// A name given twice.
    #[error("the name {0} is already defined")]
    DuplicateName(PolicyName),
    /// `none` names nothing but the absence of a quorum.
    #[error("\"none\" is predefined and can only stand on the quorum line")]
    None,
    /// A name not defined on a line before.
    #[error("the name {0} is not defined on a line before")]
    Undefined(PolicyName),
    /// A name that is a member already.
    #[error("{0} is already a member of a group; each name may be listed once")]
    AlreadyMember(PolicyName),
    /// A threshold that is not `any`, `all` or a decimal from 1 to the number of members.
    #[error("the threshold {threshold:?} is not any, all or a decimal from 1 to {members}")]
    Threshold {
        /// As written.
        threshold: String,
        /// Members listed.
        members: usize,
    },
    /// No quorum line.
    #[error("there is no quorum line")]
    NoQuorum,
    /// A second quorum line.
    #[error("there is a quorum line already, line {0}")]
    SecondQuorum(usize),
}

/// A log whose checkpoints the policy accepts. Its key's name is the log's origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyLog {
    /// The log's key.
    pub key: VerifierKey,
    url: Option<Vec<u8>>,
}

/// A witness.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyWitness {
    /// The name used in groups and the quorum.
    pub name: PolicyName,
    /// The witness's cosignature key.
    pub key: VerifierKey,
    url: Option<Vec<u8>>,
}

impl PolicyLog {
    /// The URL, where one is given and is text.
    pub fn url(&self) -> Option<&str> {
        std::str::from_utf8(self.url.as_deref()?).ok()
    }

    /// The origin: the key's name.
    pub fn origin(&self) -> &str {
        self.key.name().as_str()
    }
}

impl PolicyWitness {
    /// The URL (submission prefix), where one is given and is text.
    pub fn url(&self) -> Option<&str> {
        std::str::from_utf8(self.url.as_deref()?).ok()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Member {
    Witness(usize),
    Group(usize),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Group {
    threshold: usize,
    members: Vec<Member>,
}

/// A policy as read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    logs: Vec<PolicyLog>,
    witnesses: Vec<PolicyWitness>,
    groups: Vec<Group>,
    quorum: Option<Member>,
    quorum_name: PolicyName,
}

impl Policy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// [`PolicyError`], naming the first line at fault.
    pub fn parse(bytes: &[u8]) -> Result<Self, PolicyError> {
        let mut reader = Reader::default();
        let body = match bytes {
            [] => &[][..],
            [body @ .., b'\n'] => body,
            _ => {
                let line = bytes.split(|byte| *byte == b'\n').count();
                return Err(PolicyError { line, fault: PolicyFault::NoFinalNewline });
            }
        };
        let mut line = 1;
        for (number, text) in body.split(|byte| *byte == b'\n').enumerate() {
            line = number + 1;
            reader.line(line, text).map_err(|fault| PolicyError { line, fault })?;
        }
        reader.finish().map_err(|fault| PolicyError { line, fault })
    }

    /// The logs, in file order.
    pub fn logs(&self) -> &[PolicyLog] {
        &self.logs
    }

    /// The witnesses, in file order.
    pub fn witnesses(&self) -> &[PolicyWitness] {
        &self.witnesses
    }

    /// The number of groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The name on the quorum line.
    pub const fn quorum_name(&self) -> &PolicyName {
        &self.quorum_name
    }

    /// Whether no cosignature is needed at all.
    pub const fn quorum_is_none(&self) -> bool {
        self.quorum.is_none()
    }

    /// The keys listed for a log.
    pub fn log_keys<'p>(&'p self, origin: &'p str) -> impl Iterator<Item = &'p VerifierKey> {
        self.logs.iter().map(|log| &log.key).filter(move |key| key.name().as_str() == origin)
    }

    /// Whether the witnesses for which `cosigned` holds (by position in [`Policy::witnesses`]) meet
    /// the quorum. Each witness counts once, whatever it signed.
    pub fn quorum_met(&self, cosigned: impl Fn(usize) -> bool) -> bool {
        let Some(quorum) = self.quorum else { return true };
        // Groups refer to earlier ones only, so one pass in file order decides them all.
        let mut groups: Vec<bool> = Vec::with_capacity(self.groups.len());
        let holds = |member: &Member, groups: &[bool]| match *member {
            Member::Witness(witness) => cosigned(witness),
            Member::Group(group) => groups.get(group) == Some(&true),
        };
        for group in &self.groups {
            let count = group.members.iter().filter(|member| holds(member, &groups)).count();
            groups.push(count >= group.threshold);
        }
        holds(&quorum, &groups)
    }

    /// Looks at every signature line of a checkpoint under this policy, without deciding.
    ///
    /// # Errors
    /// [`CheckpointError`] when the note's text is no checkpoint.
    pub fn examine(&self, note: &Note) -> Result<Examination, CheckpointError> {
        let checkpoint = Checkpoint::parse(note.unverified_text())?;
        let log_keys: Vec<&VerifierKey> = self.log_keys(checkpoint.origin()).collect();
        let log = if log_keys.is_empty() {
            LogStatus::Unknown
        } else {
            match note.verify(log_keys.iter().copied()) {
                Ok(_) => LogStatus::Signed,
                Err(VerifyError::NoKnownKey) => LogStatus::NotSigned,
                Err(error) => LogStatus::Invalid(error),
            }
        };
        let witnesses: HashMap<(&KeyName, KeyId), (usize, &VerifierKey)> = self
            .witnesses
            .iter()
            .enumerate()
            .map(|(at, PolicyWitness { key, .. })| ((key.name(), key.id()), (at, key)))
            .collect();
        let mut cosigned = HashSet::new();
        let mut cosignatures: Vec<Cosignature> = Vec::new();
        for line in note.signatures() {
            if log_keys.iter().any(|key| line.is_of(key)) {
                continue;
            }
            let witness = witnesses.get(&(line.name(), line.key_id())).copied();
            let (status, time) = match witness {
                None => (CosignatureStatus::Unknown, None),
                Some((at, key)) => {
                    let repeated = cosignatures.iter().any(|seen| seen.witness == Some(at));
                    match line.verify(note.unverified_text(), key) {
                        Ok(verified) if !repeated => {
                            cosigned.insert(at);
                            (CosignatureStatus::Valid, verified.time)
                        }
                        _ => (CosignatureStatus::Invalid, line.claimed_time(key)),
                    }
                }
            };
            let (name, key_id) = (line.name().clone(), line.key_id());
            let witness = witness.map(|(at, _)| at);
            cosignatures.push(Cosignature { witness, name, key_id, time, status });
        }
        let quorum_met = self.quorum_met(|witness| cosigned.contains(&witness));
        Ok(Examination { checkpoint, log, cosignatures, quorum_met })
    }

    /// Accepts a checkpoint under this policy: signed by a listed log under its own origin, every
    /// signature of a known key valid, quorum met.
    ///
    /// # Errors
    /// [`AcceptError`].
    pub fn accept(&self, note: &Note) -> Result<SignedCheckpoint, AcceptError> {
        let examination = self.examine(note).map_err(OpenError::from)?;
        let origin = examination.checkpoint.origin();
        if examination.log == LogStatus::Unknown {
            return Err(AcceptError::UnknownLog { origin: origin.to_owned() });
        }
        let signed = SignedCheckpoint::open(
            note.clone(),
            self.log_keys(origin),
            self.witnesses.iter().map(|witness| &witness.key),
        )?;
        if !examination.quorum_met {
            return Err(AcceptError::QuorumNotMet {
                quorum: self.quorum_name.clone(),
                cosigned: signed.cosignatures().len(),
            });
        }
        Ok(signed)
    }
}

/// What the log's own signature on a checkpoint is worth.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogStatus {
    /// A listed key of the origin signed.
    Signed,
    /// The origin is listed, but none of its keys signed.
    NotSigned,
    /// A line of a listed key of the origin does not verify, or one key signed twice.
    Invalid(VerifyError),
    /// The policy lists no log of that origin.
    Unknown,
}

/// What a cosignature line is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CosignatureStatus {
    /// It verifies under a listed witness's key.
    Valid,
    /// It bears a listed witness's name and key ID but does not verify, or repeats that witness.
    Invalid,
    /// It is of no listed witness.
    Unknown,
}

/// One signature line of a checkpoint that is not the log's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cosignature {
    /// Position of the witness in [`Policy::witnesses`], if it is listed.
    pub witness: Option<usize>,
    /// The key name on the line.
    pub name: KeyName,
    /// The key ID on the line.
    pub key_id: KeyId,
    /// POSIX seconds, as verified for valid lines and as claimed for invalid ones.
    pub time: Option<u64>,
    /// What the line is worth.
    pub status: CosignatureStatus,
}

/// A checkpoint looked at under a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Examination {
    /// What the text says.
    pub checkpoint: Checkpoint,
    /// The log's signature.
    pub log: LogStatus,
    /// All other lines, in order.
    pub cosignatures: Vec<Cosignature>,
    /// Whether valid lines of distinct witnesses meet the quorum.
    pub quorum_met: bool,
}

/// Why a checkpoint is not accepted under a policy.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum AcceptError {
    /// The policy lists no log of that origin.
    #[error("the policy lists no log with origin {origin:?}")]
    UnknownLog {
        /// The checkpoint's origin.
        origin: String,
    },
    /// No checkpoint, not signed by the log, or a signature of a known key fails.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Too few witnesses, or not the right ones.
    #[error("the quorum {quorum} is not met by the {cosigned} valid cosignature(s)")]
    QuorumNotMet {
        /// The quorum's name.
        quorum: PolicyName,
        /// Valid cosignatures of listed witnesses.
        cosigned: usize,
    },
}

#[cfg(test)]
mod tests;

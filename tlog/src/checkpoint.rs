//! Checkpoints (c2sp.org/tlog-checkpoint): a log's statement of its size and root.

use std::fmt;

use thiserror::Error;

use crate::TREE_SIZE_MAX;
use crate::hash::NodeHash;
use crate::key::{SignerKey, VerifierKey};
use crate::note::{Note, NoteError, SignatureLine, Verified, VerifyError};
use crate::text;

/// Why a note's text is not a checkpoint.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The text does not end in a newline.
    #[error("the checkpoint does not end in a newline")]
    NoFinalNewline,
    /// Fewer than three lines.
    #[error("the checkpoint has {0} lines where origin, size and root are needed")]
    TooFewLines(usize),
    /// An empty line.
    #[error("line {0} of the checkpoint is empty")]
    EmptyLine(usize),
    /// A control character.
    #[error("line {0} of the checkpoint holds a control character")]
    Control(usize),
    /// The size is not a canonical decimal.
    #[error("line 2: {0:?} is not a tree size (decimal, no sign, no leading zero)")]
    Size(String),
    /// The size is above 2^63 - 1.
    #[error("line 2: tree size {0} is above 2^63 - 1")]
    SizeTooLarge(u64),
    /// The root is not base64 of 32 bytes.
    #[error("line 3: {0:?} is not a root hash (base64 of 32 bytes)")]
    Root(String),
}

/// What a checkpoint says. That it is well formed does not mean that anybody signed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    origin: String,
    size: u64,
    root: NodeHash,
    extensions: Vec<String>,
}

impl Checkpoint {
    /// A checkpoint without extension lines.
    ///
    /// # Errors
    /// [`CheckpointError`] when the origin is empty or holds a control character, or the size is
    /// above 2^63 - 1.
    pub fn new(origin: impl Into<String>, size: u64, root: NodeHash) -> Result<Self, CheckpointError> {
        let origin = origin.into();
        if origin.is_empty() {
            return Err(CheckpointError::EmptyLine(1));
        }
        if origin.chars().any(|c| c < ' ') {
            return Err(CheckpointError::Control(1));
        }
        if size > TREE_SIZE_MAX {
            return Err(CheckpointError::SizeTooLarge(size));
        }
        Ok(Self { origin, size, root, extensions: Vec::new() })
    }

    /// Reads a note text. Exactly the bytes that `Display` writes are accepted.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn parse(text: &str) -> Result<Self, CheckpointError> {
        let body = text.strip_suffix('\n').ok_or(CheckpointError::NoFinalNewline)?;
        let lines: Vec<&str> = body.split('\n').collect();
        for (number, line) in lines.iter().enumerate() {
            if line.is_empty() {
                return Err(CheckpointError::EmptyLine(number + 1));
            }
            if line.chars().any(|c| c < ' ') {
                return Err(CheckpointError::Control(number + 1));
            }
        }
        let [origin, size, root, extensions @ ..] = lines.as_slice() else {
            return Err(CheckpointError::TooFewLines(lines.len()));
        };
        let size = text::parse_decimal(size).ok_or_else(|| CheckpointError::Size((*size).to_owned()))?;
        let root = NodeHash::from_base64(root).ok_or_else(|| CheckpointError::Root((*root).to_owned()))?;
        let mut checkpoint = Self::new(*origin, size, root)?;
        checkpoint.extensions = extensions.iter().map(|line| (*line).to_owned()).collect();
        Ok(checkpoint)
    }

    /// The log's identity.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Leaves in the tree.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The tree's root.
    pub const fn root(&self) -> &NodeHash {
        &self.root
    }

    /// Extension lines, opaque.
    pub fn extensions(&self) -> &[String] {
        &self.extensions
    }

    /// Signs this checkpoint as the log.
    ///
    /// # Errors
    /// [`NoteError`]; not for a checkpoint made or read here.
    ///
    /// # Panics
    /// When `key` is a cosignature key.
    pub fn sign(&self, key: &SignerKey) -> Result<Note, NoteError> {
        Note::sign(&self.to_string(), key)
    }
}

/// The note text.
impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}\n{}\n", self.origin, self.size, self.root)?;
        self.extensions.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Why a note is not a checkpoint signed by the log.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum OpenError {
    /// The bytes are no note.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// The text is no checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A signature fails, or a key signed twice.
    #[error(transparent)]
    Signature(#[from] VerifyError),
    /// None of the log's keys signed.
    #[error("the checkpoint of {origin} carries no signature of a trusted key of that log")]
    NotSignedByLog {
        /// The checkpoint's origin.
        origin: String,
    },
}

/// A checkpoint that the log was seen to have signed, with the cosignatures seen to be valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignedCheckpoint {
    note: Note,
    checkpoint: Checkpoint,
    log: Vec<Verified>,
    cosignatures: Vec<Verified>,
}

impl SignedCheckpoint {
    /// Opens a note with the keys trusted for its log, and those of known cosigners.
    ///
    /// The caller chooses `log_keys` by the origin it expects; this compares no names with origins.
    ///
    /// # Errors
    /// [`OpenError`]. An invalid signature under any known key refuses the whole note.
    pub fn open<'k>(
        note: Note,
        log_keys: impl IntoIterator<Item = &'k VerifierKey>,
        cosigners: impl IntoIterator<Item = &'k VerifierKey>,
    ) -> Result<Self, OpenError> {
        let checkpoint = Checkpoint::parse(note.unverified_text())?;
        let log = match note.verify(log_keys) {
            Err(VerifyError::NoKnownKey) => {
                return Err(OpenError::NotSignedByLog { origin: checkpoint.origin });
            }
            other => other?,
        };
        let cosignatures = match note.verify(cosigners) {
            Err(VerifyError::NoKnownKey) => Vec::new(),
            other => other?,
        };
        Ok(Self { note, checkpoint, log, cosignatures })
    }

    /// What the log signed.
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The whole note, with lines of unknown keys.
    pub const fn note(&self) -> &Note {
        &self.note
    }

    /// The log's own signatures.
    pub fn log_signatures(&self) -> &[Verified] {
        &self.log
    }

    /// The known cosigners' valid signatures.
    pub fn cosignatures(&self) -> &[Verified] {
        &self.cosignatures
    }

    /// The lines seen to be valid, in the note's order: what may be stored and served again.
    pub fn verified_lines(&self) -> impl Iterator<Item = &SignatureLine> {
        self.note.signatures().iter().filter(|line| {
            self.log
                .iter()
                .chain(&self.cosignatures)
                .any(|seen| seen.key_id == line.key_id() && seen.name == *line.name())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Algorithm, KeyName};

    /// The example of c2sp.org/tlog-checkpoint.
    const EXAMPLE: &str = "example.com/behind-the-sofa\n20852163\n\
        CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";

    #[test]
    fn the_specification_example_reads_and_prints_unchanged() {
        let checkpoint = Checkpoint::parse(EXAMPLE).unwrap();
        assert_eq!((checkpoint.origin(), checkpoint.size()), ("example.com/behind-the-sofa", 20_852_163));
        assert_eq!(checkpoint.to_string(), EXAMPLE);
        let extended = format!("{EXAMPLE}an extension\nanother\n");
        assert_eq!(Checkpoint::parse(&extended).unwrap().to_string(), extended);
    }

    #[test]
    fn only_the_logs_key_opens_a_checkpoint() {
        let key =
            SignerKey::from_seed(KeyName::new("example.com/log").unwrap(), Algorithm::Ed25519, &[1; 32]);
        let other =
            SignerKey::from_seed(KeyName::new("example.com/log").unwrap(), Algorithm::Ed25519, &[2; 32]);
        let note = Checkpoint::new("example.com/log", 0, NodeHash::EMPTY_ROOT).unwrap().sign(&key).unwrap();
        assert!(SignedCheckpoint::open(note.clone(), [key.verifier()], []).is_ok());
        assert!(matches!(
            SignedCheckpoint::open(note, [other.verifier()], []),
            Err(OpenError::NotSignedByLog { .. })
        ));
    }

    #[test]
    fn only_lines_that_were_seen_to_verify_count_as_verified() {
        let name = |name: &str| KeyName::new(name).unwrap();
        let log = SignerKey::from_seed(name("example.com/log"), Algorithm::Ed25519, &[1; 32]);
        let witness =
            |seed| SignerKey::from_seed(name("w.example"), Algorithm::CosignatureEd25519, &[seed; 32]);
        let (known, namesake) = (witness(3), witness(4));
        let other_log = SignerKey::from_seed(name("example.com/log"), Algorithm::Ed25519, &[2; 32]);
        let checkpoint = Checkpoint::new("example.com/log", 1, NodeHash::EMPTY_ROOT).unwrap();
        let mut note = checkpoint.sign(&log).unwrap();
        for key in [&known, &namesake] {
            note.add(crate::cosignature::cosign(&checkpoint, 7, key).unwrap()).unwrap();
        }
        note.add(checkpoint.sign(&other_log).unwrap().signatures()[0].clone()).unwrap();
        let opened = SignedCheckpoint::open(note, [log.verifier()], [known.verifier()]).unwrap();
        let ids = |seen: &[Verified]| seen.iter().map(|seen| seen.key_id).collect::<Vec<_>>();
        assert_eq!(ids(opened.log_signatures()), [log.verifier().id()]);
        assert_eq!(ids(opened.cosignatures()), [known.verifier().id()]);
        let lines: Vec<_> = opened.verified_lines().map(SignatureLine::key_id).collect();
        assert_eq!(lines, [log.verifier().id(), known.verifier().id()]);
    }
}

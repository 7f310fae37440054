//! Offline proofs (c2sp.org/tlog-proof): one entry's inclusion, with the checkpoint it is in.

use std::fmt;

use thiserror::Error;

use crate::hash::NodeHash;
use crate::note::{Note, NoteError};
use crate::text;

/// First line of a proof file.
pub const HEADER: &str = "c2sp.org/tlog-proof@v1";
/// Most hash lines accepted; a path in a tree below 2^63 leaves has at most 63.
pub const HASHES_MAX: usize = 63;

/// Why text is not a proof file.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum ProofError {
    /// Not UTF-8.
    #[error("the proof is not valid UTF-8")]
    Utf8,
    /// The first line is another one.
    #[error("line 1 is not {HEADER:?}")]
    Header,
    /// The `extra` line does not hold canonical base64.
    #[error("line 2: the extra data is not standard base64 with padding")]
    Extra,
    /// No `index` line where it belongs.
    #[error("line {line}: expected \"index\" and a decimal")]
    Index {
        /// Line number from 1.
        line: usize,
    },
    /// A line that is no hash.
    #[error("line {line}: not a hash (base64 of 32 bytes)")]
    Hash {
        /// Line number from 1.
        line: usize,
    },
    /// More hashes than any tree can need.
    #[error("more than {HASHES_MAX} hashes")]
    TooManyHashes,
    /// The file ends before the blank line.
    #[error("there is no blank line followed by a checkpoint")]
    NoCheckpoint,
    /// What follows the blank line is no signed note.
    #[error("the checkpoint: {0}")]
    Note(#[from] NoteError),
}

/// A proof file as read. Path and signatures are unverified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlogProof {
    /// Opaque extra data; authenticated by nothing.
    pub extra: Option<Vec<u8>>,
    /// The entry's index.
    pub index: u64,
    /// The inclusion proof, leaf's sibling first.
    pub hashes: Vec<NodeHash>,
    /// The checkpoint.
    pub note: Note,
}

impl TlogProof {
    /// Reads a proof file. Exactly the bytes that `Display` writes are accepted.
    ///
    /// # Errors
    /// [`ProofError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ProofError> {
        let all = std::str::from_utf8(bytes).map_err(|_| ProofError::Utf8)?;
        let (head, note) = all.split_once("\n\n").ok_or(ProofError::NoCheckpoint)?;
        let mut lines = head.split('\n').enumerate().map(|(number, line)| (number + 1, line)).peekable();
        if lines.next().map(|(_, line)| line) != Some(HEADER) {
            return Err(ProofError::Header);
        }
        let extra = match lines.next_if(|(_, line)| line.starts_with("extra")) {
            None => None,
            Some((_, line)) => {
                let data = line.strip_prefix("extra ").and_then(text::parse_base64);
                // An empty line of extra data is never written: "no data" has one spelling.
                Some(data.filter(|data| !data.is_empty()).ok_or(ProofError::Extra)?)
            }
        };
        let (line, text) = lines.next().ok_or(ProofError::Index { line: 2 })?;
        let index = text.strip_prefix("index ").and_then(text::parse_decimal);
        let index = index.ok_or(ProofError::Index { line })?;
        let mut hashes = Vec::new();
        for (line, text) in lines {
            if hashes.len() == HASHES_MAX {
                return Err(ProofError::TooManyHashes);
            }
            hashes.push(NodeHash::from_base64(text).ok_or(ProofError::Hash { line })?);
        }
        Ok(Self { extra, index, hashes, note: Note::parse(note.as_bytes())? })
    }
}

impl fmt::Display for TlogProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        if let Some(extra) = self.extra.as_ref().filter(|extra| !extra.is_empty()) {
            writeln!(f, "extra {}", text::base64(extra))?;
        }
        writeln!(f, "index {}", self.index)?;
        self.hashes.iter().try_for_each(|hash| writeln!(f, "{hash}"))?;
        write!(f, "\n{}", self.note)
    }
}

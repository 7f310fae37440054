//! The witness protocol's bodies (c2sp.org/tlog-witness): `add-checkpoint` requests and answers.

use std::fmt;

use thiserror::Error;

use crate::consistency::PROOF_HASHES_MAX;
use crate::hash::NodeHash;
use crate::note::{Note, NoteError, SignatureLine};
use crate::text;

/// Longest request body accepted.
pub const REQUEST_BYTES_MAX: usize = 128 * 1024;
/// Content type of a 409 answer, whose body is the size last cosigned and a newline.
pub const SIZE_CONTENT_TYPE: &str = "text/x.tlog.size";

/// Why bytes are not an `add-checkpoint` request.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum RequestError {
    /// Over [`REQUEST_BYTES_MAX`].
    #[error("the request has {0} bytes; at most {REQUEST_BYTES_MAX} are accepted")]
    TooLong(usize),
    /// Not UTF-8.
    #[error("the request is not valid UTF-8")]
    Utf8,
    /// The first line is not `old` and a size.
    #[error("line 1 is not \"old\" and a decimal size")]
    OldSize,
    /// No blank line between the proof and the checkpoint.
    #[error("there is no blank line followed by a checkpoint")]
    NoCheckpoint,
    /// A proof line that is no hash.
    #[error("line {line} is not a hash (base64 of 32 bytes)")]
    Hash {
        /// Line number from 1.
        line: usize,
    },
    /// More proof lines than any tree can need.
    #[error("more than {PROOF_HASHES_MAX} consistency proof lines")]
    TooManyHashes,
    /// What follows the blank line is no signed note.
    #[error("the checkpoint: {0}")]
    Note(#[from] NoteError),
}

/// An `add-checkpoint` request as read. Nothing about it is verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddCheckpoint {
    /// The size the client believes was last cosigned.
    pub old_size: u64,
    /// Consistency proof from there to the checkpoint.
    pub proof: Vec<NodeHash>,
    /// The checkpoint.
    pub note: Note,
}

impl AddCheckpoint {
    /// Reads a request body.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn parse(body: &[u8]) -> Result<Self, RequestError> {
        if body.len() > REQUEST_BYTES_MAX {
            return Err(RequestError::TooLong(body.len()));
        }
        let all = std::str::from_utf8(body).map_err(|_| RequestError::Utf8)?;
        let (first, rest) = all.split_once('\n').ok_or(RequestError::OldSize)?;
        let old_size = first.strip_prefix("old ").and_then(text::parse_decimal);
        let old_size = old_size.ok_or(RequestError::OldSize)?;
        let mut proof = Vec::new();
        let mut rest = rest;
        loop {
            let (line, after) = rest.split_once('\n').ok_or(RequestError::NoCheckpoint)?;
            rest = after;
            if line.is_empty() {
                break;
            }
            if proof.len() == PROOF_HASHES_MAX {
                return Err(RequestError::TooManyHashes);
            }
            let number = proof.len() + 2;
            proof.push(NodeHash::from_base64(line).ok_or(RequestError::Hash { line: number })?);
        }
        Ok(Self { old_size, proof, note: Note::parse(rest.as_bytes())? })
    }
}

/// The request body.
impl fmt::Display for AddCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "old {}", self.old_size)?;
        self.proof.iter().try_for_each(|hash| writeln!(f, "{hash}"))?;
        write!(f, "\n{}", self.note)
    }
}

/// The signature lines of an answer. Lines that are none are passed over: a witness is not trusted,
/// and only what verifies under a key configured for it is kept by the caller.
pub fn answer_lines(body: &str) -> Vec<SignatureLine> {
    body.split_terminator('\n').filter_map(|line| SignatureLine::parse(line).ok()).collect()
}

/// The size in the body of a 409 answer: a canonical decimal and a newline, nothing else.
pub fn conflict_size(body: &[u8]) -> Option<u64> {
    text::parse_decimal(std::str::from_utf8(body).ok()?.strip_suffix('\n')?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specification_example_reads_and_prints_unchanged() {
        let example = "old 20852014\n\
            PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=\n\
            jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=\n\
            5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=\n\
            /6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=\n\
            \n\
            example.com/behind-the-sofa\n\
            20852163\n\
            CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\
            \n\
            \u{2014} example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n\
            \u{2014} example.com/behind-the-sofa opLqBQsREYCgu6xQkYQwJr9fo45a62DN9EdmHXnZdXNqlcVGlCum2Wks+49/V6267UEjw6QUXTS5Rovnzv++qbSzm9Q=\n";
        let request = AddCheckpoint::parse(example.as_bytes()).unwrap();
        assert_eq!((request.old_size, request.proof.len()), (20_852_014, 4));
        assert_eq!(request.to_string(), example);
    }

    #[test]
    fn a_conflict_body_is_a_size_or_nothing() {
        assert_eq!(conflict_size(b"20852014\n"), Some(20_852_014));
        for body in [
            &b""[..],
            b"5",
            b"-1\n",
            b"12abc\n",
            b"<html>\n",
            b"5\n\n",
            b"05\n",
            b"999999999999999999999999999999\n",
        ] {
            assert_eq!(conflict_size(body), None);
        }
    }
}

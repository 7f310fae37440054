//! The witness protocol's bodies (c2sp.org/tlog-witness): `add-checkpoint` and `sign-subtree` requests,
//! and answers.

use std::fmt;

use thiserror::Error;

use crate::consistency::PROOF_HASHES_MAX;
use crate::hash::NodeHash;
use crate::note::{Note, NoteError, SignatureLine};
use crate::subtree::{NotASubtree, Subtree, SubtreeRange};
use crate::text;

/// Longest request body accepted.
pub const REQUEST_BYTES_MAX: usize = 128 * 1024;
/// Content type of a 409 answer, whose body is the size last cosigned and a newline.
pub const SIZE_CONTENT_TYPE: &str = "text/x.tlog.size";

/// Why bytes are not an `add-checkpoint` or `sign-subtree` request.
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
    /// The first line is not `subtree` and two sizes.
    #[error("line 1 is not \"subtree\", a decimal start and a decimal end")]
    Range,
    /// The range is no subtree.
    #[error("line 1: {0}")]
    NotASubtree(#[from] NotASubtree),
    /// No blank line between the proof and the checkpoint.
    #[error("there is no blank line followed by a checkpoint")]
    NoCheckpoint,
    /// A subtree hash or proof line that is no hash.
    #[error("line {line} is not a hash (base64 of 32 bytes)")]
    Hash {
        /// Line number from 1.
        line: usize,
    },
    /// More proof lines than a client may send.
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
        let (first, rest) = first_line(body)?.ok_or(RequestError::OldSize)?;
        let old_size = first.strip_prefix("old ").and_then(text::parse_decimal);
        let old_size = old_size.ok_or(RequestError::OldSize)?;
        let (proof, note) = proof_and_note(rest, 2)?;
        Ok(Self { old_size, proof, note })
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

/// A `sign-subtree` request as read. Nothing about it is verified but that the range is a subtree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignSubtree {
    /// The subtree to cosign.
    pub subtree: Subtree,
    /// Subtree consistency proof from there to the checkpoint.
    pub proof: Vec<NodeHash>,
    /// The checkpoint, which the witness must have cosigned.
    pub note: Note,
}

impl SignSubtree {
    /// Reads a request body. That the subtree ends within the checkpoint is for the caller to check:
    /// [`subtree::verify_consistency`](crate::subtree::verify_consistency) does.
    ///
    /// # Errors
    /// [`RequestError`]; also for an empty or misaligned range.
    pub fn parse(body: &[u8]) -> Result<Self, RequestError> {
        let (first, rest) = first_line(body)?.ok_or(RequestError::Range)?;
        let (start, end) = first
            .strip_prefix("subtree ")
            .and_then(|range| range.split_once(' '))
            .and_then(|(start, end)| text::parse_decimal(start).zip(text::parse_decimal(end)))
            .ok_or(RequestError::Range)?;
        let range = SubtreeRange::new(start, end)?;
        let (hash, rest) = rest.split_once('\n').ok_or(RequestError::NoCheckpoint)?;
        let hash = NodeHash::from_base64(hash).ok_or(RequestError::Hash { line: 2 })?;
        let (proof, note) = proof_and_note(rest, 3)?;
        Ok(Self { subtree: Subtree { range, hash }, proof, note })
    }
}

/// The request body.
impl fmt::Display for SignSubtree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subtree { range, hash } = self.subtree;
        writeln!(f, "subtree {} {}\n{hash}", range.start(), range.end())?;
        self.proof.iter().try_for_each(|hash| writeln!(f, "{hash}"))?;
        write!(f, "\n{}", self.note)
    }
}

fn first_line(body: &[u8]) -> Result<Option<(&str, &str)>, RequestError> {
    if body.len() > REQUEST_BYTES_MAX {
        return Err(RequestError::TooLong(body.len()));
    }
    let body = std::str::from_utf8(body).map_err(|_| RequestError::Utf8)?;
    Ok(body.split_once('\n'))
}

/// Proof lines from line `number` on, the empty line after them, and the checkpoint.
fn proof_and_note(mut rest: &str, mut number: usize) -> Result<(Vec<NodeHash>, Note), RequestError> {
    let mut proof = Vec::new();
    loop {
        let (line, after) = rest.split_once('\n').ok_or(RequestError::NoCheckpoint)?;
        rest = after;
        if line.is_empty() {
            return Ok((proof, Note::parse(rest.as_bytes())?));
        }
        if proof.len() == PROOF_HASHES_MAX {
            return Err(RequestError::TooManyHashes);
        }
        proof.push(NodeHash::from_base64(line).ok_or(RequestError::Hash { line: number })?);
        number += 1;
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

    /// The sign-subtree example of tlog-witness, with a signature in place of the elided one.
    const SUBTREE: &str = "subtree 8 13\n\
        mbsQCg+dEIMGlpqeGgk94JutQwKKS2Lo5IuDhKmDjiU=\n\
        CD82D2LDm0phY0+xKbHyZfq3Hw21lVkuV7Zis5EFg0k=\n\
        h/ghL5nyaXTIBAklqDnisM+SFdbA3izoGZ5oRYMZzc0=\n\
        8qtnAAU9sTKQx/zt3E4v8Jt2a9IMQUf0QUawvePF9y0=\n\
        KuO5BNOmginG34Lm5G3e2GuiWliGo3K0ebzGpvI0fEg=\n\
        \n\
        example.com/behind-the-sofa\n\
        14\n\
        /CcKVZM9n65aH7jLaIZuUB4/MSlEFQ4+ldwUC21rDHM=\n\
        \n\
        \u{2014} witness.example/w1 LijDAFSpKvDUj+Y=\n";

    #[test]
    fn the_subtree_example_reads_and_prints_unchanged() {
        let request = SignSubtree::parse(SUBTREE.as_bytes()).unwrap();
        assert_eq!((request.subtree.range.to_string().as_str(), request.proof.len()), ("[8, 13)", 4));
        assert_eq!(request.to_string(), SUBTREE);
    }

    #[test]
    fn a_faulty_subtree_request_names_its_line() {
        let range_fault = |line: &str| {
            SignSubtree::parse(SUBTREE.replacen("subtree 8 13", line, 1).as_bytes()).unwrap_err()
        };
        for line in
            ["subtree 8", "subtree 8  13", "subtree 08 13", "subtree 8 13 ", "old 8", "", "subtree8 13"]
        {
            assert_eq!(range_fault(line), RequestError::Range, "{line:?}");
        }
        for (line, start, end) in [("subtree 8 8", 8, 8), ("subtree 9 11", 9, 11), ("subtree 13 8", 13, 8)] {
            assert_eq!(range_fault(line), RequestError::NotASubtree(NotASubtree { start, end }));
        }
        let no_hash = SUBTREE.replacen("mbsQCg+dEIMGlpqeGgk94JutQwKKS2Lo5IuDhKmDjiU=", "", 1);
        assert_eq!(SignSubtree::parse(no_hash.as_bytes()), Err(RequestError::Hash { line: 2 }));
        let bad_proof = SUBTREE.replacen("CD82", "CD8", 1);
        assert_eq!(SignSubtree::parse(bad_proof.as_bytes()), Err(RequestError::Hash { line: 3 }));
        assert_eq!(SignSubtree::parse(b""), Err(RequestError::Range));
        assert_eq!(SignSubtree::parse(b"subtree 8 13\n"), Err(RequestError::NoCheckpoint));
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

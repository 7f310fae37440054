//! Which kind of file this is, by how it begins. It only says whom to ask: the reader of that kind decides.

use runseal_tlog::fraud;
use runseal_tlog::note::Note;
use runseal_tlog::proof;
use serde::Serialize;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A tlog-proof file.
    Proof,
    /// An export, JSON lines.
    Export,
    /// A fraud proof.
    FraudProof,
    /// A tlog-policy file.
    Policy,
    /// A signed checkpoint.
    Checkpoint,
    /// None of these.
    Unknown,
}

/// First words of a policy's lines.
const POLICY_WORDS: [&[u8]; 4] = [b"log", b"witness", b"group", b"quorum"];

/// Bytes by which any kind is told; a policy or a checkpoint is never longer.
pub const START_BYTES: u64 = 4 << 20;

impl Kind {
    /// The kind of a file that begins with `start`: all of it, or its first [`START_BYTES`].
    pub fn of(start: &[u8]) -> Self {
        if start.starts_with(proof::HEADER.as_bytes()) {
            Self::Proof
        } else if start.starts_with(fraud::HEADER.as_bytes()) {
            Self::FraudProof
        } else if start.starts_with(b"{") {
            Self::Export
        } else if Note::parse(start).is_ok() {
            Self::Checkpoint
        } else if start.split(|byte| *byte == b'\n').any(is_of_policy) {
            Self::Policy
        } else {
            Self::Unknown
        }
    }
}

fn is_of_policy(line: &[u8]) -> bool {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.next().is_some_and(|word| POLICY_WORDS.contains(&word)) && words.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_file_is_told_by_how_it_begins() {
        let key = "plane.example+0f1e2d3c+AQ==";
        let note = format!(
            "plane.example\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n\n\u{2014} plane.example {}\n",
            "AAAA".repeat(23)
        );
        for (start, kind) in [
            ("c2sp.org/tlog-proof@v1\nindex 0\n", Kind::Proof),
            ("runseal/fraud-proof@v1\n\n", Kind::FraudProof),
            ("{\"kind\":\"runseal.export\",", Kind::Export),
            (&note, Kind::Checkpoint),
            (&format!("# ours\nlog {key}\n"), Kind::Policy),
            ("\tquorum none", Kind::Policy),
            ("", Kind::Unknown),
            ("log\nquorum\n", Kind::Unknown),
            ("logs of the ship\n", Kind::Unknown),
            ("\u{0}\u{1}\u{2}", Kind::Unknown),
        ] {
            assert_eq!(Kind::of(start.as_bytes()), kind, "{start:?}");
        }
    }
}

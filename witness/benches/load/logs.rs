//! The logs of a measurement and the requests that move them on, all made before the clock starts.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer as _, SigningKey};
use sha2::{Digest as _, Sha256};

pub(crate) struct Log {
    pub(crate) origin: String,
    pub(crate) key: SigningKey,
    key_id: [u8; 4],
}

impl Log {
    pub(crate) fn new(number: usize) -> Self {
        let mut seed = [0x10; 32];
        seed[..8].copy_from_slice(&(number as u64).to_be_bytes());
        let key = SigningKey::from_bytes(&seed);
        let origin = format!("load.example/log/{number}");
        let material = [&[1], key.verifying_key().to_bytes().as_slice()].concat();
        let hash = Sha256::digest([origin.as_bytes(), b"\n", &material].concat());
        Self { origin, key, key_id: [hash[0], hash[1], hash[2], hash[3]] }
    }

    fn vkey(&self) -> String {
        let material = [&[1], self.key.verifying_key().to_bytes().as_slice()].concat();
        format!("{}+{}+{}", self.origin, hex::encode(self.key_id), STANDARD.encode(material))
    }

    /// The HTTP request that takes this log over a step.
    fn request(&self, step: &Step) -> Vec<u8> {
        let text = format!("{}\n{}\n{}\n", self.origin, step.old + 1, step.root);
        let signature = [&self.key_id[..], &self.key.sign(text.as_bytes()).to_bytes()].concat();
        let mut body = format!("old {}\n{}\n{text}\n", step.old, step.proof);
        let _ = writeln!(body, "\u{2014} {} {}", self.origin, STANDARD.encode(signature));
        format!(
            "POST /add-checkpoint HTTP/1.1\r\nhost: witness\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

/// A `logs/v0` list.
pub(crate) fn write_list(path: &Path, logs: &[Log]) {
    let mut list = String::from("logs/v0\n");
    for log in logs {
        let _ = writeln!(list, "vkey {}", log.vkey());
    }
    std::fs::write(path, list).unwrap();
}

/// From `old` leaves to one more, in a tree that all logs share: preparing requests costs little then.
struct Step {
    old: usize,
    root: String,
    /// The proof's lines, each with its newline.
    proof: String,
}

impl Step {
    fn from(old: usize) -> Self {
        let leaves: Vec<[u8; 32]> = (0..=old)
            .map(|leaf| Sha256::digest([&[0], leaf.to_string().as_bytes()].concat()).into())
            .collect();
        let hashes = if old == 0 { Vec::new() } else { subproof(old, &leaves, true) };
        let proof = hashes.iter().map(|hash| STANDARD.encode(hash) + "\n").collect();
        Self { old, root: STANDARD.encode(mth(&leaves)), proof }
    }
}

/// Requests in the order they are sent: every log's first step, every log's second one, and so on.
pub(crate) struct Plan {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Plan {
    /// Each log from the first size to the last, one leaf at a time.
    pub(crate) fn new(logs: &[Log], sizes: Range<usize>) -> Self {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for old in sizes {
            let step = Step::from(old);
            for log in logs {
                bytes.extend(log.request(&step));
                ends.push(bytes.len());
            }
        }
        Self { bytes, ends }
    }

    pub(crate) const fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn request(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[number]]
    }
}

fn mth(leaves: &[[u8; 32]]) -> [u8; 32] {
    match leaves {
        [] => Sha256::digest([]).into(),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            Sha256::digest([&[1][..], &mth(left), &mth(right)].concat()).into()
        }
    }
}

fn subproof(m: usize, leaves: &[[u8; 32]], whole: bool) -> Vec<[u8; 32]> {
    if m == leaves.len() {
        return if whole { Vec::new() } else { vec![mth(leaves)] };
    }
    let k = leaves.len().next_power_of_two() / 2;
    let (mut proof, sibling) = if m <= k {
        (subproof(m, &leaves[..k], whole), mth(&leaves[k..]))
    } else {
        (subproof(m - k, &leaves[k..], false), mth(&leaves[..k]))
    };
    proof.push(sibling);
    proof
}

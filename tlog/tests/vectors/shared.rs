//! Reading the shared collection: JSON files, raw bytes in base64, hashes in hex.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use runseal_tlog::hash::NodeHash;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

/// Where the shared collection would be.
fn collection() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors")
}

/// The path of a shared file or folder, or `None`, said aloud, when there is no shared collection.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    let collection = collection();
    if !collection.is_dir() {
        eprintln!("not run: {name}, for the shared vectors are absent");
        return None;
    }
    Some(collection.join(name))
}

/// A shared JSON file, or `None`, said aloud, when there is no shared collection.
pub(crate) fn load<T: DeserializeOwned>(name: &str) -> Option<T> {
    path(name).map(|path| read(&path))
}

pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> T {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Cases of a file, which must hold some.
pub(crate) struct Cases<T>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Cases<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let cases = Vec::deserialize(deserializer)?;
        if cases.is_empty() { Err(D::Error::custom("a list of cases is empty")) } else { Ok(Self(cases)) }
    }
}

impl<T> Cases<T> {
    /// Holds every case against `check`, which says what is wrong, and reports all that fail at once.
    pub(crate) fn check(&self, what: &str, check: impl Fn(&T) -> Result<(), String>) {
        let faults: Vec<String> = self.0.iter().filter_map(|case| check(case).err()).collect();
        assert!(faults.is_empty(), "{what}: {} of {}:\n{}", faults.len(), self.0.len(), faults.join("\n"));
    }
}

/// What a case expects.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Expect {
    Accept,
    Reject,
    /// An open question of the specification; the module that walks the case holds our answer.
    Either,
}

impl Expect {
    /// Whether `accepted` is what the case expects. Open questions are answered in `decided`, which must
    /// know each of them.
    pub(crate) fn judge(
        self,
        id: &str,
        decided: &[(&str, Answer)],
        accepted: &Result<(), String>,
    ) -> Result<(), String> {
        let ours = decided.iter().find(|(case, _)| *case == id).map(|(_, answer)| *answer);
        let expected = match (self, ours) {
            (Self::Accept, None) => Answer::Accept,
            (Self::Reject, None) => Answer::Refuse,
            (Self::Either, Some(answer)) => answer,
            (Self::Either, None) => return Err(format!("{id}: an open question without our answer")),
            (_, Some(_)) => return Err(format!("{id}: answered here, but not an open question")),
        };
        match (expected, accepted) {
            (Answer::Accept, Ok(())) | (Answer::Refuse, Err(_)) => Ok(()),
            (Answer::Accept, Err(error)) => Err(format!("{id}: refused: {error}")),
            (Answer::Refuse, Ok(())) => Err(format!("{id}: accepted")),
        }
    }
}

/// Our answer to an open question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Accept,
    Refuse,
}

/// Bytes written in base64.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Base64(pub(crate) Vec<u8>);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Self).map_err(D::Error::custom)
    }
}

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// Bytes written in hex.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hex(pub(crate) Vec<u8>);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        hex::decode(text).map(Self).map_err(D::Error::custom)
    }
}

impl Hex {
    /// A hash; panics for another length than 32 bytes.
    pub(crate) fn hash(&self) -> NodeHash {
        NodeHash::from_slice(&self.0).unwrap_or_else(|| panic!("{} bytes are no hash", self.0.len()))
    }

    /// A seed; panics for another length than 32 bytes.
    pub(crate) fn seed(&self) -> [u8; 32] {
        self.0.as_slice().try_into().unwrap_or_else(|_| panic!("{} bytes are no seed", self.0.len()))
    }
}

/// Hashes as a verifier takes them, if each has 32 bytes: another length is no hash to this crate.
pub(crate) fn hashes<'h>(hashes: impl IntoIterator<Item = &'h [u8]>) -> Result<Vec<NodeHash>, String> {
    hashes.into_iter().map(|hash| NodeHash::from_slice(hash).ok_or("not 32 bytes".to_owned())).collect()
}

/// An integer written as a string.
pub(crate) fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The entry of `leaf_rule`: the index in ASCII decimal.
pub(crate) fn entry(index: u64) -> Vec<u8> {
    index.to_string().into_bytes()
}

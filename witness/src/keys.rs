//! The witness's own keys: making them, keeping them from others' eyes, signing with them.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::cosignature::{self, CosignatureError, SUBTREE_NAME_BYTES_MAX};
use runseal_tlog::key::{Algorithm, KeyError, KeyName, SEED_BYTES, SignerKey, VerifierKey};
use runseal_tlog::note::SignatureLine;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::failure::Exit;

/// Longest key file read.
const KEY_FILE_BYTES_MAX: u64 = 64 * 1024;
/// Permission bits that let others at a key.
const OTHERS: u32 = 0o077;

/// Why a key file cannot be used or made. No message holds key material.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// There is no such file.
    #[error("there is no key file {path}; make one with `runseal-witness keygen --name NAME --out {path}`", path = .0.display())]
    Missing(PathBuf),
    /// Something is there already.
    #[error("{path} exists and is never overwritten; choose another file with --out", path = .0.display())]
    Exists(PathBuf),
    /// Others can read it.
    #[error("{path} can be read by others (mode {mode:04o}); run `chmod 600 {path}`, and make a new key if others may have read it", path = .path.display())]
    Permissions {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A line that is no private key.
    #[error("{path}, line {line}: {fault}", path = .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        fault: KeyError,
    },
    /// Not text, or far too long for keys.
    #[error("{path} is not a key file: expected lines PRIVATE+KEY+<name>+<key ID>+<base64>", path = .0.display())]
    NotText(PathBuf),
    /// No key in it.
    #[error("{path} holds no key: expected a line PRIVATE+KEY+<name>+<key ID>+<base64>", path = .0.display())]
    Empty(PathBuf),
    /// A name that no key can have.
    #[error("--name: {0}")]
    Name(KeyError),
    /// A name that an ML-DSA-44 cosignature cannot carry.
    #[error("--name has {0} bytes; an ML-DSA-44 cosignature can carry 1 to {SUBTREE_NAME_BYTES_MAX}")]
    NameTooLong(usize),
    /// The file system refuses.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The system has no randomness to give.
    #[error("the system's random number generator failed: {0}")]
    Random(getrandom::Error),
    /// What was written did not read back as the same key.
    #[error("{path} did not read back as the key that was written; do not use it", path = .0.display())]
    SelfTest(PathBuf),
}

impl KeyFileError {
    /// The exit code for this error.
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Missing(_)
            | Self::Exists(_)
            | Self::Permissions { .. }
            | Self::Line { .. }
            | Self::NotText(_)
            | Self::Empty(_)
            | Self::Name(_)
            | Self::NameTooLong(_) => Exit::Usage,
            Self::Io { .. } => Exit::Unfinished,
            Self::Random(_) | Self::SelfTest(_) => Exit::Fault,
        }
    }
}

/// Makes a new key file with one key for each algorithm and answers their public halves.
///
/// # Errors
/// [`KeyFileError`]; an existing file is never touched.
pub fn create(path: &Path, name: &str, algorithms: &[Algorithm]) -> Result<Vec<VerifierKey>, KeyFileError> {
    let name = KeyName::new(name).map_err(KeyFileError::Name)?;
    let subtree = algorithms.contains(&Algorithm::CosignatureMlDsa44);
    if subtree && name.as_str().len() > SUBTREE_NAME_BYTES_MAX {
        return Err(KeyFileError::NameTooLong(name.as_str().len()));
    }
    let mut text = Zeroizing::new(String::new());
    let mut verifiers = Vec::new();
    for algorithm in algorithms {
        let mut seed = Zeroizing::new([0u8; SEED_BYTES]);
        getrandom::fill(seed.as_mut_slice()).map_err(KeyFileError::Random)?;
        let key = SignerKey::from_seed(name.clone(), *algorithm, &seed);
        text.push_str(&key.to_line());
        text.push('\n');
        verifiers.push(key.verifier().clone());
    }
    write_new(path, text.as_bytes())?;
    let again = read(path)?;
    if again.iter().map(SignerKey::verifier).eq(&verifiers) {
        Ok(verifiers)
    } else {
        Err(KeyFileError::SelfTest(path.to_owned()))
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), KeyFileError> {
    let io = |source| KeyFileError::Io { path: path.to_owned(), source };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(
        |error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => KeyFileError::Exists(path.to_owned()),
            _ => io(error),
        },
    )?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(io)?;
    // The name is durable once its folder is.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()).map_err(io)
}

/// Reads a key file: one `PRIVATE+KEY` line a key, empty lines and `#` comments aside.
///
/// # Errors
/// [`KeyFileError`]; also when anybody but its owner may read or write the file.
pub fn read(path: &Path) -> Result<Vec<SignerKey>, KeyFileError> {
    let io = |source| KeyFileError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => KeyFileError::Missing(path.to_owned()),
        _ => io(error),
    })?;
    let mode = file.metadata().map_err(io)?.mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(KeyFileError::Permissions { path: path.to_owned(), mode });
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(8 * 1024));
    file.take(KEY_FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > KEY_FILE_BYTES_MAX {
        return Err(KeyFileError::NotText(path.to_owned()));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| KeyFileError::NotText(path.to_owned()))?;
    parse(path, text)
}

/// Reads key lines; `path` names where they came from in errors.
///
/// # Errors
/// [`KeyFileError::Line`] and [`KeyFileError::Empty`].
pub fn parse(path: &Path, text: &str) -> Result<Vec<SignerKey>, KeyFileError> {
    let mut keys = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = SignerKey::parse(line).map_err(|fault| KeyFileError::Line {
            path: path.to_owned(),
            line: number + 1,
            fault,
        })?;
        keys.push(key);
    }
    if keys.is_empty() { Err(KeyFileError::Empty(path.to_owned())) } else { Ok(keys) }
}

/// Why keys cannot serve one witness together.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeysError {
    /// No key.
    #[error("no witness key is given; use --key FILE")]
    None,
    /// The same key twice.
    #[error("the witness key {0} is given twice")]
    Repeated(String),
    /// One public key under two names: its cosignatures would count for two witnesses.
    #[error(
        "one public key is given under two witness names, {first} and {second}; make a key of its own for each"
    )]
    TwoNames {
        /// One name.
        first: KeyName,
        /// The other.
        second: KeyName,
    },
    /// The name does not fit an ML-DSA-44 cosignature.
    #[error(
        "the witness name {0} is longer than the {SUBTREE_NAME_BYTES_MAX} bytes that an ML-DSA-44 cosignature can carry"
    )]
    NameTooLong(KeyName),
}

/// The keys that one witness cosigns with; a cosignature line each.
#[derive(Debug)]
pub struct Keys {
    signers: Vec<SignerKey>,
}

impl Keys {
    /// Puts keys together. Plain Ed25519 keys, as other tools write them, become cosignature/v1 keys.
    ///
    /// # Errors
    /// [`KeysError`].
    pub fn new(signers: impl IntoIterator<Item = SignerKey>) -> Result<Self, KeysError> {
        let signers: Vec<SignerKey> = signers.into_iter().map(SignerKey::into_cosigner).collect();
        let mut seen: HashMap<Vec<u8>, KeyName> = HashMap::new();
        for signer in &signers {
            let verifier = signer.verifier();
            let name = verifier.name();
            if verifier.algorithm() == Algorithm::CosignatureMlDsa44
                && name.as_str().len() > SUBTREE_NAME_BYTES_MAX
            {
                return Err(KeysError::NameTooLong(name.clone()));
            }
            match seen.insert(verifier.public_key(), name.clone()) {
                None => {}
                Some(first) if first == *name => return Err(KeysError::Repeated(verifier.to_string())),
                Some(first) => return Err(KeysError::TwoNames { first, second: name.clone() }),
            }
        }
        if signers.is_empty() { Err(KeysError::None) } else { Ok(Self { signers }) }
    }

    /// The public halves, in the order given.
    pub fn verifiers(&self) -> impl ExactSizeIterator<Item = &VerifierKey> {
        self.signers.iter().map(SignerKey::verifier)
    }

    /// The witness's name: that of the first key.
    pub fn name(&self) -> &KeyName {
        self.signers[0].verifier().name()
    }

    /// The keys that cosign subtrees.
    pub fn subtree_signers(&self) -> impl Iterator<Item = &SignerKey> {
        self.signers.iter().filter(|key| key.verifier().algorithm() == Algorithm::CosignatureMlDsa44)
    }

    /// Cosigns a checkpoint at `time` with every key.
    ///
    /// # Errors
    /// [`CosignatureError`] for a time or an origin that cannot be signed.
    pub fn cosign(&self, checkpoint: &Checkpoint, time: u64) -> Result<Vec<SignatureLine>, CosignatureError> {
        self.signers.iter().map(|key| cosignature::cosign(checkpoint, time, key)).collect()
    }
}

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
use runseal_tlog::subtree::Subtree;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::agent::{AgentError, AgentKey};
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

/// One key to cosign with, wherever its secret is.
#[derive(Debug)]
pub enum Cosigner {
    /// In this process.
    Local(SignerKey),
    /// In an ssh-agent.
    Agent(AgentKey),
}

impl Cosigner {
    /// The public half.
    pub const fn verifier(&self) -> &VerifierKey {
        match self {
            Self::Local(key) => key.verifier(),
            Self::Agent(key) => key.verifier(),
        }
    }
}

impl From<SignerKey> for Cosigner {
    /// Plain Ed25519 keys, as other tools write them, become cosignature/v1 keys.
    fn from(key: SignerKey) -> Self {
        Self::Local(key.into_cosigner())
    }
}

impl From<AgentKey> for Cosigner {
    fn from(key: AgentKey) -> Self {
        Self::Agent(key)
    }
}

/// Why a checkpoint or subtree could not be signed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SignError {
    /// It cannot be signed with such a key.
    #[error("{0}")]
    Cosignature(#[from] CosignatureError),
    /// The agent failed. What it said is for the operator alone.
    #[error("the witness's key is not available")]
    Agent(#[from] AgentError),
}

/// The keys that one witness cosigns with; a cosignature line each.
#[derive(Debug)]
pub struct Keys {
    cosigners: Vec<Cosigner>,
    verifiers: Vec<VerifierKey>,
}

impl Keys {
    /// Puts keys together.
    ///
    /// # Errors
    /// [`KeysError`].
    pub fn new<K: Into<Cosigner>>(keys: impl IntoIterator<Item = K>) -> Result<Self, KeysError> {
        let cosigners: Vec<Cosigner> = keys.into_iter().map(Into::into).collect();
        let mut seen: HashMap<Vec<u8>, KeyName> = HashMap::new();
        for cosigner in &cosigners {
            let verifier = cosigner.verifier();
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
        if cosigners.is_empty() {
            return Err(KeysError::None);
        }
        let verifiers = cosigners.iter().map(|cosigner| cosigner.verifier().clone()).collect();
        Ok(Self { cosigners, verifiers })
    }

    /// The public halves, in the order given.
    pub fn verifiers(&self) -> &[VerifierKey] {
        &self.verifiers
    }

    /// The witness's name: that of the first key.
    pub fn name(&self) -> &KeyName {
        self.verifiers[0].name()
    }

    /// Whether signing may block on another process.
    pub fn may_block(&self) -> bool {
        self.cosigners.iter().any(|cosigner| matches!(cosigner, Cosigner::Agent(_)))
    }

    /// Whether a key can cosign subtrees.
    pub fn signs_subtrees(&self) -> bool {
        self.subtree_signers().next().is_some()
    }

    /// The keys that cosign subtrees.
    fn subtree_signers(&self) -> impl Iterator<Item = &SignerKey> {
        self.cosigners.iter().filter_map(|cosigner| match cosigner {
            Cosigner::Local(key) if key.verifier().algorithm() == Algorithm::CosignatureMlDsa44 => Some(key),
            Cosigner::Local(_) | Cosigner::Agent(_) => None,
        })
    }

    /// Cosigns a checkpoint at `time` with every key.
    ///
    /// # Errors
    /// [`SignError`]; then no key's line is answered.
    pub fn cosign(&self, checkpoint: &Checkpoint, time: u64) -> Result<Vec<SignatureLine>, SignError> {
        let sign = |cosigner: &Cosigner| match cosigner {
            Cosigner::Local(key) => cosignature::cosign(checkpoint, time, key).map_err(SignError::from),
            Cosigner::Agent(key) => key.cosign(checkpoint, time).map_err(SignError::from),
        };
        self.cosigners.iter().map(sign).collect()
    }

    /// Cosigns a subtree with every key that can.
    ///
    /// # Errors
    /// [`SignError`].
    pub fn cosign_subtree(&self, origin: &str, subtree: &Subtree) -> Result<Vec<SignatureLine>, SignError> {
        let sign = |key| cosignature::cosign_subtree(origin, subtree, key).map_err(SignError::from);
        self.subtree_signers().map(sign).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, algorithm: Algorithm, seed: u8) -> SignerKey {
        SignerKey::from_seed(KeyName::new(name).unwrap(), algorithm, &[seed; SEED_BYTES])
    }

    #[test]
    fn keys_are_made_once_for_their_owner_alone_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("witness.key");
        let both = [Algorithm::CosignatureEd25519, Algorithm::CosignatureMlDsa44];
        let made = create(&path, "witness.example/w1", &both).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        let read_back = read(&path).unwrap();
        assert!(read_back.iter().map(SignerKey::verifier).eq(&made));
        assert!(made[0].to_string().starts_with("witness.example/w1+") && made[0] != made[1]);
        let before = std::fs::read(&path).unwrap();
        assert!(matches!(create(&path, "other", &both), Err(KeyFileError::Exists(_))));
        assert_eq!(std::fs::read(&path).unwrap(), before);
        let long = "n".repeat(256);
        let other = folder.path().join("other.key");
        assert!(matches!(create(&other, &long, &both), Err(KeyFileError::NameTooLong(256))));
        assert!(matches!(create(&other, "a b", &both), Err(KeyFileError::Name(_))));
        assert!(!other.exists());
    }

    #[test]
    fn a_key_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("witness.key");
        create(&path, "w.example", &[Algorithm::CosignatureEd25519]).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601, 0o644] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let refused = read(&path).unwrap_err();
            assert!(matches!(refused, KeyFileError::Permissions { mode: found, .. } if found == mode));
            assert_eq!(refused.exit(), Exit::Usage);
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).unwrap();
        assert!(read(&path).is_ok());
    }

    #[test]
    fn a_bad_line_is_named_without_what_it_holds() {
        let path = Path::new("witness.key");
        let line = key("w.example", Algorithm::CosignatureEd25519, 1).to_line();
        let broken = format!("# comment\n\n{}x\n", *line);
        let error = parse(path, &broken).unwrap_err().to_string();
        assert!(error.contains("witness.key, line 3"), "{error}");
        let secret = line.splitn(5, '+').last().unwrap();
        assert!(!error.contains(&secret[..16]), "{error}");
        assert!(matches!(parse(path, "# nothing\n"), Err(KeyFileError::Empty(_))));
        assert_eq!(parse(path, &format!(" {} \r\n", *line)).unwrap().len(), 1);
    }

    #[test]
    fn a_plain_ed25519_key_of_other_tools_cosigns() {
        let plain = key("w.example", Algorithm::Ed25519, 1);
        let keys = Keys::new([plain]).unwrap();
        assert_eq!(keys.verifiers()[0].algorithm(), Algorithm::CosignatureEd25519);
    }

    #[test]
    fn one_key_in_two_roles_is_refused() {
        let ed = Algorithm::CosignatureEd25519;
        assert!(matches!(Keys::new([key("a", ed, 1), key("b", ed, 1)]), Err(KeysError::TwoNames { .. })));
        assert!(matches!(Keys::new([key("a", ed, 1), key("a", ed, 1)]), Err(KeysError::Repeated(_))));
        assert!(matches!(
            Keys::new([key("a", ed, 1), key("a", Algorithm::Ed25519, 1)]),
            Err(KeysError::Repeated(_))
        ));
        assert!(matches!(Keys::new(Vec::<SignerKey>::new()), Err(KeysError::None)));
        assert!(Keys::new([key("a", ed, 1), key("a", Algorithm::CosignatureMlDsa44, 1)]).is_ok());
    }
}

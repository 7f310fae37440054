//! The directory of a plane: the database, the keys, and the memory of what was signed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use zeroize::Zeroizing;

use crate::store::{Scope, StoreError};

/// Longest file read here. Key lines and notes are far shorter.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The files of a plane, all in one directory.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    dir: PathBuf,
}

/// Why a key file is not used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// It cannot be read.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Others than its owner can read or write it.
    #[error("{path} has mode {mode:04o}, so others can read it; run: chmod 600 {path}")]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It holds no key of its kind. What it holds is not repeated.
    #[error("{path} does not hold a {expected}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
}

/// A file that remembers the last checkpoint signed by one log.
#[derive(Debug, Clone)]
pub(crate) struct SignedFile {
    pub(crate) path: PathBuf,
}

impl Files {
    pub(crate) fn in_dir(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.dir.join("journal.redb")
    }

    /// The commits that the database does not hold yet; there only while the journal is at work.
    pub(crate) fn write_ahead_log(&self) -> PathBuf {
        self.dir.join("journal.wal")
    }

    /// Where the database is made, before it gets its name.
    pub(crate) fn unfinished_database(&self) -> PathBuf {
        self.dir.join("journal.redb.new")
    }

    pub(crate) fn master_key(&self) -> PathBuf {
        self.dir.join("master.key")
    }

    pub(crate) fn record_key(&self) -> PathBuf {
        self.dir.join("record.key")
    }

    /// Where logs remember what they signed.
    pub(crate) fn signed_dir(&self) -> PathBuf {
        self.dir.join("signed")
    }

    /// The memory of a log. A tenant's name is safe as a file's: lower-case letters, digits and `._-`, not
    /// starting with a dot.
    pub(crate) fn signed(&self, scope: &Scope) -> SignedFile {
        SignedFile { path: self.signed_dir().join(scope.name()) }
    }

    /// Makes what was created, renamed or removed in the directory last.
    pub(crate) fn sync(&self) -> io::Result<()> {
        sync_dir(&self.dir)
    }
}

impl SignedFile {
    /// What is remembered.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, StoreError> {
        match read_bounded(&self.path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Remembers `note`, whole or not at all, before it returns.
    pub(crate) fn write(&self, note: &[u8]) -> Result<(), StoreError> {
        self.replace(note).map_err(|error| self.failed(error))
    }

    fn replace(&self, note: &[u8]) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        if !folder.exists() {
            fs::create_dir_all(folder)?;
            sync_dir(folder.parent().unwrap_or(Path::new(".")))?;
        }
        // No log is called like this: a tenant's name starts with a letter or digit.
        let unfinished = folder.join(".unfinished");
        let mut file = File::create(&unfinished)?;
        file.write_all(note)?;
        file.sync_all()?;
        fs::rename(&unfinished, &self.path)?;
        sync_dir(folder)
    }

    fn failed(&self, error: io::Error) -> StoreError {
        StoreError::File { path: self.path.clone(), error: Arc::new(error) }
    }
}

/// Writes a new file that only its owner can read. Never over an existing one.
pub(crate) fn write_secret(path: &Path, content: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

/// Reads a file that nobody but its owner may read.
pub(crate) fn read_secret(path: &Path) -> Result<Zeroizing<String>, KeyFileError> {
    let io = |error| KeyFileError::Io { path: path.to_owned(), error };
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).map_err(io)?.permissions());
        if mode & 0o077 != 0 {
            return Err(KeyFileError::Exposed { path: path.to_owned(), mode: mode & 0o7777 });
        }
    }
    let bytes = read_bounded(path).map_err(io)?;
    String::from_utf8(bytes)
        .map(Zeroizing::new)
        .map_err(|_| KeyFileError::Malformed { path: path.to_owned(), expected: "line of text" })
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(File::open(path)?, FILE_BYTES_MAX), &mut bytes)?;
    Ok(bytes)
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    File::open(dir)?.sync_all()
}

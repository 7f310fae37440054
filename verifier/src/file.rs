//! Files named on the command line: read whole and bounded, written whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use crate::error::Failure;

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// [`Failure::Read`] and [`Failure::TooLong`].
pub fn read(path: &Path, what: &'static str, limit: u64) -> Result<Vec<u8>, Failure> {
    let fault = |source| Failure::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(path).map_err(fault)?.take(limit + 1).read_to_end(&mut bytes).map_err(fault)?;
    if bytes.len() as u64 > limit {
        return Err(Failure::TooLong { path: path.to_owned(), what, limit });
    }
    Ok(bytes)
}

/// Reads a secret, which nobody else may be able to read.
///
/// # Errors
/// As [`read`], and [`Failure::NotA`] where group or others have access.
pub fn read_secret(path: &Path, what: &'static str, limit: u64) -> Result<String, Failure> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let meta = fs::metadata(path).map_err(|source| Failure::Read { path: path.to_owned(), source })?;
        if meta.permissions().mode() & 0o077 != 0 {
            return Err(Failure::NotA {
                path: path.to_owned(),
                what,
                reason: "others can read it; run chmod 600 on it".to_owned(),
            });
        }
    }
    let bytes = read(path, what, limit)?;
    String::from_utf8(bytes).map_err(|_| Failure::NotA {
        path: path.to_owned(),
        what,
        reason: "it is not UTF-8".to_owned(),
    })
}

/// Writes a file whole: a reader sees the old content or the new, never a part.
///
/// # Errors
/// [`Failure::Write`].
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let written = || -> io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let part = folder.map_or_else(|| name.clone().into(), |folder| folder.join(&name));
        let mut file = File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    // A device or pipe cannot be replaced by a rename.
    let special = fs::metadata(path).is_ok_and(|meta| !meta.is_file());
    let result = if special { fs::write(path, bytes) } else { written() };
    result.map_err(|source| Failure::Write { path: path.to_owned(), source })
}

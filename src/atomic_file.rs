//! Files that appear whole or not at all.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Why a file could not be written.
#[derive(Debug, Error)]
#[error("{}: {error}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What went wrong.
    #[source]
    pub error: io::Error,
}

/// A file being written beside its place, which it takes when finished; dropped unfinished, it is removed.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    path: PathBuf,
    temporary: PathBuf,
    /// Present until finished.
    file: Option<io::BufWriter<File>>,
}

impl AtomicFile {
    /// Starts a file that will be at `path`.
    ///
    /// # Errors
    /// When no file can be made in its folder.
    pub(crate) fn create(path: &Path) -> Result<Self, FileError> {
        let failed = |error| FileError { path: path.to_owned(), error };
        let name = path.file_name().ok_or_else(|| failed(io::Error::other("the path names no file")))?;
        let mut temporary_name = OsString::from(".");
        temporary_name.push(name);
        temporary_name.push(format!(".{}.tmp", std::process::id()));
        let temporary = path.with_file_name(temporary_name);
        // What a process of the same id left behind when it was killed is nobody's.
        let file = match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => File::create(&temporary),
            other => other,
        };
        let file = Some(io::BufWriter::new(file.map_err(failed)?));
        Ok(Self { path: path.to_owned(), temporary, file })
    }

    /// Makes what was written durable and puts it in its place.
    ///
    /// # Errors
    /// When it cannot be written, synced or renamed; then nothing is in its place that was not before.
    pub(crate) fn finish(mut self) -> Result<(), FileError> {
        let finished = self.file.take().map_or(Ok(()), |file| {
            let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.sync_all()?;
            fs::rename(&self.temporary, &self.path)?;
            sync_folder(&self.path)
        });
        if finished.is_err() {
            drop(fs::remove_file(&self.temporary));
        }
        finished.map_err(|error| FileError { path: self.path.clone(), error })
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file
            .as_mut()
            .map_or_else(|| Err(io::Error::other("the file is finished")), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            drop(fs::remove_file(&self.temporary));
        }
    }
}

/// Makes the name of a file durable, where folders can be synced.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_and_an_unfinished_one_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note");
        fs::write(&path, "before").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before");
        drop(file);
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"after").unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"after");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = AtomicFile::create(Path::new("/nonexistent/folder/note")).unwrap_err();
        assert!(error.to_string().starts_with("/nonexistent/folder/note: "), "{error}");
    }
}

//! Where the file of the write-ahead log is.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::disk::{Disk, FileDisk, owner_only, sync_parent};

/// The place of one file, which is there or not.
pub(crate) trait AheadPlace: Send + Sync {
    /// The file, where there is one.
    fn open(&self) -> io::Result<Option<Box<dyn Disk>>>;

    /// Makes a file of `size` bytes that starts with `start`, with zeros behind. It is durable and whole when this
    /// returns, and not there at all before.
    fn create(&self, start: &[u8], size: u64) -> io::Result<Box<dyn Disk>>;

    /// Removes the file. A crash may bring it back.
    fn remove(&self) -> io::Result<()>;

    /// What it is called.
    fn path(&self) -> &Path;
}

/// A file in a directory.
pub(crate) struct AheadFile {
    path: PathBuf,
    unfinished: PathBuf,
}

impl AheadFile {
    pub(crate) fn at(path: PathBuf) -> Self {
        let mut unfinished = path.clone().into_os_string();
        unfinished.push(".new");
        Self { path, unfinished: unfinished.into() }
    }
}

impl AheadPlace for AheadFile {
    fn open(&self) -> io::Result<Option<Box<dyn Disk>>> {
        match OpenOptions::new().read(true).write(true).open(&self.path) {
            Ok(file) => Ok(Some(Box::new(FileDisk::new(file)))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, start: &[u8], size: u64) -> io::Result<Box<dyn Disk>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = owner_only(&mut options).open(&self.unfinished)?;
        file.set_len(size)?;
        let disk = FileDisk::new(file);
        disk.write_at(start, 0)?;
        disk.sync()?;
        fs::rename(&self.unfinished, &self.path)?;
        sync_parent(&self.path)?;
        Ok(Box::new(disk))
    }

    fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

//! A file for a history that lives as long as this process: nothing in it has to survive, so nothing is synced.

use std::fs::File;
use std::io;

use redb::backends::FileBackend;
use redb::{DatabaseError, StorageBackend};

/// A [`FileBackend`] that never waits for the disk.
#[derive(Debug)]
pub struct ScratchFile(FileBackend);

impl ScratchFile {
    /// Keeps a database in `file`.
    ///
    /// # Errors
    /// As [`FileBackend::new`].
    pub fn new(file: File) -> Result<Self, DatabaseError> {
        FileBackend::new(file).map(Self)
    }
}

impl StorageBackend for ScratchFile {
    fn len(&self) -> Result<u64, io::Error> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.write(offset, data)
    }

    fn close(&self) -> Result<(), io::Error> {
        self.0.close()
    }
}

//! What files that are written in place ask of storage, and a file that gives it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// Bytes on a device. Only one handle uses them at a time.
///
/// Places are given with each call, so that no position can be left behind by a call that failed.
pub trait Disk: Send + Sync + 'static {
    /// How many bytes there are.
    fn size(&self) -> io::Result<u64>;

    /// Reads bytes from offset `at` on, as many as are there and fit; none only at the end.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at offset `at`. After an error any part of them may have been written.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Cuts off everything from offset `size` on.
    fn truncate(&self, size: u64) -> io::Result<()>;

    /// Returns once everything written or cut so far outlasts a loss of power.
    fn sync(&self) -> io::Result<()>;
}

/// A file.
#[derive(Debug)]
pub struct FileDisk(File);

/// Why a file is not opened as a disk.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Another handle, in this process or another, has it open.
    InUse,
    /// It cannot be opened or locked.
    Io(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl FileDisk {
    /// A file that its caller keeps others from using.
    pub(crate) fn new(file: File) -> Self {
        Self(file)
    }

    /// Opens the file at `path`, made empty (and readable by its owner alone) where there is none, and locks it.
    ///
    /// The name is durable when this returns.
    pub(crate) fn open_locked(path: &Path) -> Result<Self, LockError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = owner_only(&mut options).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::InUse),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        // Also where the file was there: its maker may have died before this.
        sync_parent(path)?;
        Ok(Self(file))
    }
}

/// A file that these options make is readable and writable by its owner alone.
pub(crate) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Makes a name in the directory of `path` durable.
#[cfg(unix)]
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Elsewhere a directory cannot be opened as a file; its entries are durable with the file.
#[cfg(not(unix))]
pub(crate) fn sync_parent(_: &Path) -> io::Result<()> {
    Ok(())
}

impl Disk for FileDisk {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.0, buffer, at)
    }

    #[cfg(windows)]
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&self.0, buffer, at)
    }

    #[cfg(unix)]
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.0, bytes, at)
    }

    #[cfg(windows)]
    fn write_at(&self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = std::os::windows::fs::FileExt::seek_write(&self.0, bytes, at)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[written..];
            at += written as u64;
        }
        Ok(())
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn sync(&self) -> io::Result<()> {
        // The size is data here: it is written with the rest where it changed.
        self.0.sync_data()
    }
}

/// Fills `buffer` from offset `at` on.
///
/// # Errors
/// Those of the disk; `UnexpectedEof` where it ends before.
pub(crate) fn read_exact_at(disk: &dyn Disk, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match disk.read_at(buffer, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                buffer = &mut buffer[read..];
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

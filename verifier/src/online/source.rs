//! Where a log comes from: a tlog-tiles server, or the same tree as files.
//!
//! Nothing that comes from here is believed. Lengths are exact or bounded; whether the bytes are the
//! log's is for whoever holds them against a signed root.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::stream::{self, StreamExt as _};
use runseal_tlog::hash::HASH_BYTES;
use runseal_tlog::tile::{TileKind, TilePath};
use thiserror::Error;
use url::Url;

use crate::checkpoint::NOTE_BYTES_MAX;
use crate::online::http::{Body, Client, FetchError, Token};

/// Longest bundle fetched beside others: 256 entries of 4,096 bytes, the most that ours have, and some room.
/// Longer ones are fetched one at a time, so that no log decides how much memory an audit takes.
pub const BUNDLE_BYTES_USUAL: usize = 5 << 18;
/// Most requests of one [`LogSource::fetch`] that wait for their answers: each keeps up to half a MiB of the connection's
/// besides the body.
const FETCHES_AT_ONCE: usize = 8;

/// Why a part of a log could not be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// Not a URL, or one that is not HTTP.
    #[error("{url:?} is neither an http(s) URL nor a directory: {reason}")]
    Url {
        /// As given.
        url: String,
        /// Why.
        reason: String,
    },
    /// The directory does not exist.
    #[error("{path} is not a directory that can be read: {source}")]
    NotADirectory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of a static tree cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of a static tree is too long.
    #[error("{path} is longer than {limit} bytes")]
    FileTooLong {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// The server.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A task of ours died.
    #[error("internal fault: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl SourceError {
    /// Whether there were more bytes than asked for.
    pub const fn is_too_long(&self) -> bool {
        matches!(self, Self::Fetch(FetchError::TooLong { .. }) | Self::FileTooLong { .. })
    }

    /// Whether the source says that it has no such thing.
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::Fetch(error) => error.is_not_found(),
            Self::File { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

/// A tile or bundle as it came, with the width it was asked in. Not authenticated.
#[derive(Debug)]
pub struct Fetched {
    /// What was asked for.
    pub path: TilePath,
    body: Body,
    bundle_limit: usize,
}

impl Fetched {
    /// The content of a hash tile cut to the width asked for, or of a bundle whole: a bundle fetched in
    /// place of a narrower one is longer, see [`runseal_tlog::bundle::prefix`].
    ///
    /// # Errors
    /// [`FetchError`] for an undecodable or oversized body.
    pub fn open(self) -> Result<Vec<u8>, FetchError> {
        match self.path.kind() {
            TileKind::Entries => self.body.open(self.bundle_limit),
            TileKind::Hashes { .. } => {
                let mut bytes = self.body.open(tile_limit(self.path.full()))?;
                bytes.truncate(tile_limit(self.path));
                Ok(bytes)
            }
        }
    }
}

fn tile_limit(path: TilePath) -> usize {
    usize::from(path.width()) * HASH_BYTES
}

/// A log's tiles and checkpoints.
#[derive(Debug)]
pub struct LogSource {
    place: Place,
    bytes: AtomicU64,
}

#[derive(Debug)]
enum Place {
    Http { client: Client, prefix: Url },
    Directory(PathBuf),
}

impl LogSource {
    /// An `http(s)` prefix, or a directory.
    ///
    /// # Errors
    /// [`SourceError::Url`] and [`SourceError::NotADirectory`].
    pub fn open(location: &str, token: Option<Token>) -> Result<Self, SourceError> {
        let place = if location.starts_with("http://") || location.starts_with("https://") {
            Place::Http { client: Client::new(token)?, prefix: http_prefix(location)? }
        } else {
            let path = PathBuf::from(location);
            std::fs::read_dir(&path)
                .map_err(|source| SourceError::NotADirectory { path: path.clone(), source })?;
            Place::Directory(path)
        };
        Ok(Self { place, bytes: AtomicU64::new(0) })
    }

    /// The directory, where the log is one.
    pub fn directory(&self) -> Option<&Path> {
        match &self.place {
            Place::Directory(root) => Some(root),
            Place::Http { .. } => None,
        }
    }

    /// Counts bytes read from [`Self::directory`].
    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The latest checkpoint, as a note nobody verified.
    ///
    /// # Errors
    /// [`SourceError`].
    pub async fn checkpoint(&self) -> Result<Vec<u8>, SourceError> {
        let body = match &self.place {
            Place::Http { client, prefix } => {
                client.get(&join(prefix, "checkpoint"), NOTE_BYTES_MAX, false).await?
            }
            Place::Directory(path) => {
                let file = path.join("checkpoint");
                tokio::task::spawn_blocking(move || read_file(&file, NOTE_BYTES_MAX)).await??
            }
        };
        self.count(&body);
        Ok(body.open(NOTE_BYTES_MAX)?)
    }

    /// Several tiles or bundles at once, each for itself: one that is missing does not hide the others.
    ///
    /// A partial tile that is gone is cut from the full one that has replaced it (tlog-tiles lets a log
    /// delete partial tiles). Bundles may have `bundle_limit` bytes.
    pub async fn fetch(&self, paths: &[TilePath], bundle_limit: usize) -> Vec<Result<Fetched, SourceError>> {
        let results = match &self.place {
            Place::Http { client, prefix } => {
                let fetches = paths.iter().map(|path| fetch_http(client, prefix, *path, bundle_limit));
                stream::iter(fetches).buffered(FETCHES_AT_ONCE).collect().await
            }
            Place::Directory(root) => {
                let (root, paths) = (root.clone(), paths.to_vec());
                let reads = tokio::task::spawn_blocking(move || {
                    paths.iter().map(|path| read_tile(&root, *path, bundle_limit)).collect::<Vec<_>>()
                });
                match reads.await {
                    Ok(reads) => reads,
                    Err(error) => vec![Err(error.into())],
                }
            }
        };
        for fetched in results.iter().flatten() {
            self.count(&fetched.body);
        }
        results
    }

    fn count(&self, body: &Body) {
        self.bytes.fetch_add(body.wire_bytes(), Ordering::Relaxed);
    }
}

async fn fetch_http(
    client: &Client,
    prefix: &Url,
    path: TilePath,
    bundle_limit: usize,
) -> Result<Fetched, SourceError> {
    let (limit, gzip) = match path.kind() {
        TileKind::Entries => (bundle_limit, true),
        TileKind::Hashes { .. } => (tile_limit(path), false),
    };
    let body = match client.get(&join(prefix, &path.to_string()), limit, gzip).await {
        Err(error) if path.is_partial() && error.is_not_found() => {
            let full = path.full();
            let limit = if gzip { limit } else { tile_limit(full) };
            match client.get(&join(prefix, &full.to_string()), limit, gzip).await {
                // Neither is there: the tile asked for is what is missing.
                Err(second) if second.is_not_found() => return Err(error.into()),
                body => body?,
            }
        }
        body => body?,
    };
    Ok(Fetched { path, body, bundle_limit })
}

fn read_tile(root: &Path, path: TilePath, bundle_limit: usize) -> Result<Fetched, SourceError> {
    let limit = match path.kind() {
        TileKind::Entries => bundle_limit,
        TileKind::Hashes { .. } => tile_limit(path.full()),
    };
    let body = match read_file(&root.join(path.to_string()), limit) {
        Err(error) if path.is_partial() && error.is_not_found() => {
            read_file(&root.join(path.full().to_string()), limit).map_err(|_| error)?
        }
        body => body?,
    };
    Ok(Fetched { path, body, bundle_limit })
}

/// Opens a file of a static tree. Of what is no file, a pipe for example, nobody knows whether it ever ends.
fn regular(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path)?.is_file() {
        File::open(path)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
    }
}

fn read_file(path: &Path, limit: usize) -> Result<Body, SourceError> {
    let fault = |source| SourceError::File { path: path.to_owned(), source };
    let file = regular(path).map_err(fault)?;
    let length = file.metadata().map_or(0, |meta| meta.len().min(limit as u64));
    // One byte of room lets the read notice the end without growing.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(limit) + 1);
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(fault)?;
    if bytes.len() > limit {
        return Err(SourceError::FileTooLong { path: path.to_owned(), limit });
    }
    Ok(Body::plain(bytes))
}

/// Memory that files of a static tree are read into, one after the other.
#[derive(Debug, Default)]
pub struct FileBuffer(Vec<u8>);

impl FileBuffer {
    /// A tile or bundle; see [`Fetched::open`] for what it may be longer than.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn read(&mut self, root: &Path, path: TilePath, bundle_limit: usize) -> Result<&[u8], SourceError> {
        let limit = match path.kind() {
            TileKind::Entries => bundle_limit,
            TileKind::Hashes { .. } => tile_limit(path.full()),
        };
        let length = match self.fill(&root.join(path.to_string()), limit) {
            Err(error) if path.is_partial() && error.is_not_found() => {
                self.fill(&root.join(path.full().to_string()), limit).map_err(|_| error)?
            }
            length => length?,
        };
        let wanted = match path.kind() {
            TileKind::Entries => length,
            TileKind::Hashes { .. } => length.min(tile_limit(path)),
        };
        Ok(&self.0[..wanted])
    }

    fn fill(&mut self, path: &Path, limit: usize) -> Result<usize, SourceError> {
        let fault = |source| SourceError::File { path: path.to_owned(), source };
        let mut file = regular(path).map_err(fault)?;
        let mut length = 0;
        loop {
            if length > limit {
                return Err(SourceError::FileTooLong { path: path.to_owned(), limit });
            }
            if length == self.0.len() {
                // One byte beyond the limit is enough to see that there is one.
                self.0.resize((length * 2).max(BUFFER_BYTES_MIN).min(limit + 1).max(length + 1), 0);
            }
            match file.read(&mut self.0[length..]) {
                Ok(0) => return Ok(length),
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(fault(error)),
            }
        }
    }
}

/// Least memory of a [`FileBuffer`].
const BUFFER_BYTES_MIN: usize = 1 << 16;

/// A URL that names a folder: with a path that ends in a slash, without query or fragment.
///
/// # Errors
/// [`SourceError::Url`].
pub fn http_prefix(location: &str) -> Result<Url, SourceError> {
    let refuse = |reason: String| SourceError::Url { url: location.to_owned(), reason };
    let mut url = Url::parse(location).map_err(|error| refuse(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse(format!("the scheme is {}", url.scheme())));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refuse("a prefix has no query and no fragment".to_owned()));
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

/// `prefix` and a relative path of ours, which holds nothing that a URL would read otherwise.
pub fn join(prefix: &Url, path: &str) -> Url {
    let mut url = prefix.clone();
    url.set_path(&format!("{}{path}", prefix.path()));
    url
}

//! Where the lists of logs come from: files and URLs, read again when asked.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderValue;
use sha2::{Digest, Sha256};

use crate::fetch::{Fetched, Fetcher, Freshness};
use crate::logs::{self, LIST_BYTES_MAX, Listed, LogsError};

const FETCH_TIME: Duration = Duration::from_secs(30);

/// One list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    Url(String),
}

#[derive(Debug)]
struct Followed {
    source: Source,
    last: Option<Vec<Listed>>,
    etag: Option<HeaderValue>,
}

/// Every list that the witness was started with.
#[derive(Debug)]
pub struct Sources {
    followed: Vec<Followed>,
    fetcher: Fetcher,
    /// Copies of fetched lists, so that a restart does not depend on their servers.
    copies: PathBuf,
}

/// Splits `RUNSEAL_LOGS` at its colons, but for those of URLs.
pub fn split_variable(value: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut in_url = false;
    for piece in value.split(':') {
        let starts_url =
            matches!(parts.last().map(String::as_str), Some("http" | "https")) && piece.starts_with("//");
        // After `https://host` a number is its port.
        let port = in_url
            && piece
                .split('/')
                .next()
                .is_some_and(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
        match parts.last_mut() {
            Some(last) if starts_url || port => {
                last.push(':');
                last.push_str(piece);
                in_url = starts_url && !piece.get(2..).is_some_and(|rest| rest.contains('/'));
            }
            _ => {
                parts.push(piece.to_owned());
                in_url = false;
            }
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

impl Sources {
    /// Files and URLs as named on the command line; `copies` is a path that names of copies start with.
    ///
    /// # Errors
    /// [`LogsError::Url`].
    pub fn new(names: &[String], fetcher: Fetcher, copies: PathBuf) -> Result<Self, LogsError> {
        let followed =
            names.iter().map(|name| source(name).map(|source| Followed { source, last: None, etag: None }));
        Ok(Self { followed: followed.collect::<Result<_, _>>()?, fetcher, copies })
    }

    /// Reads every list for the first time. A list that cannot be fetched is taken from its copy.
    ///
    /// # Errors
    /// [`LogsError`] of the first list that cannot be had.
    pub async fn load(&mut self) -> Result<Vec<Listed>, LogsError> {
        for followed in &mut self.followed {
            let copy = copy_path(&self.copies, &followed.source);
            match followed.read(&self.fetcher, &copy).await {
                Ok(()) => {}
                Err(LogsError::Fetch { url, reason }) if copy.exists() => {
                    tracing::warn!(target: "logs", %url, %reason, "cannot fetch the list; using the copy of last time");
                    followed.last = Some(logs::read_file(&copy)?);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.listed())
    }

    /// Reads every list again. One that cannot be read, or has a fault, stays as it was.
    pub async fn refresh(&mut self) -> (Vec<Listed>, Vec<LogsError>) {
        let mut errors = Vec::new();
        for followed in &mut self.followed {
            let copy = copy_path(&self.copies, &followed.source);
            errors.extend(followed.read(&self.fetcher, &copy).await.err());
        }
        (self.listed(), errors)
    }

    fn listed(&self) -> Vec<Listed> {
        self.followed.iter().flat_map(|followed| followed.last.iter().flatten().cloned()).collect()
    }
}

impl Followed {
    async fn read(&mut self, fetcher: &Fetcher, copy: &Path) -> Result<(), LogsError> {
        let url = match &self.source {
            Source::File(path) => {
                self.last = Some(logs::read_file(path)?);
                return Ok(());
            }
            Source::Url(url) => url,
        };
        let freshness = match &self.etag {
            Some(etag) if self.last.is_some() => Freshness::Unless(etag),
            _ => Freshness::Any,
        };
        let fetched = fetcher.get(url, LIST_BYTES_MAX, FETCH_TIME, freshness, None).await;
        match fetched.map_err(|reason| LogsError::Fetch { url: url.clone(), reason })? {
            Fetched::NotModified => Ok(()),
            Fetched::Body { bytes, etag } => {
                self.last = Some(logs::parse(url, &bytes)?);
                self.etag = etag;
                if let Err(error) = write_copy(copy, &bytes) {
                    tracing::warn!(target: "logs", copy = %copy.display(), %error, "cannot keep a copy of the list");
                }
                Ok(())
            }
        }
    }
}

fn source(name: &str) -> Result<Source, LogsError> {
    if !name.starts_with("https://") && !name.starts_with("http://") {
        return Ok(Source::File(PathBuf::from(name)));
    }
    let url = Url::parse(name).map_err(|_| LogsError::Url(name.to_owned()))?;
    let loopback = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    if url.scheme() == "https" || loopback {
        Ok(Source::Url(name.to_owned()))
    } else {
        Err(LogsError::Url(name.to_owned()))
    }
}

fn copy_path(copies: &Path, source: &Source) -> PathBuf {
    let name = match source {
        Source::File(path) => path.to_string_lossy().into_owned(),
        Source::Url(url) => url.clone(),
    };
    let mut path = copies.as_os_str().to_owned();
    path.push(format!("-{}", hex::encode(&Sha256::digest(name)[..8])));
    PathBuf::from(path)
}

fn write_copy(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let mut file = std::fs::File::create(&aside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&aside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colons_split_files_and_leave_urls_whole() {
        let cases: [(&str, &[&str]); 6] = [
            ("a.policy", &["a.policy"]),
            ("a.policy:b.list", &["a.policy", "b.list"]),
            ("a:https://x.example/logs:b", &["a", "https://x.example/logs", "b"]),
            ("https://x.example:8443/logs:7", &["https://x.example:8443/logs", "7"]),
            ("http://127.0.0.1:9/l:https://y.example/m", &["http://127.0.0.1:9/l", "https://y.example/m"]),
            ("", &[]),
        ];
        for (value, expected) in cases {
            assert_eq!(split_variable(value), expected, "{value}");
        }
    }

    #[test]
    fn only_https_and_loopback_are_fetched_from() {
        assert!(matches!(source("https://x.example/l"), Ok(Source::Url(_))));
        assert!(matches!(source("http://127.0.0.1:80/l"), Ok(Source::Url(_))));
        assert!(matches!(source("http://x.example/l"), Err(LogsError::Url(_))));
        assert!(matches!(source("http://127.0.0.1.x.example/l"), Err(LogsError::Url(_))));
        assert!(matches!(source("logs.policy"), Ok(Source::File(_))));
    }
}

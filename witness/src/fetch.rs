//! Fetching from others, who are not trusted: bounded bytes, bounded time, no downgrade from https.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH};
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};
use thiserror::Error;

const REDIRECTS_MAX: usize = 3;
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Why nothing was fetched.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchError {
    /// Not a URL, or one of another scheme.
    #[error("{0:?} is not an http or https URL")]
    Url(String),
    /// An answer other than 200.
    #[error("answered with status {0}")]
    Status(u16),
    /// More bytes than there can be.
    #[error("answered with more than {0} bytes")]
    TooLong(u64),
    /// No answer in time.
    #[error("did not answer in time")]
    TimedOut,
    /// Anything else of the network's.
    #[error("{0}")]
    Network(String),
}

impl From<reqwest::Error> for FetchError {
    fn from(error: reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::TimedOut;
        }
        // The innermost cause says most: "connection refused", "certificate expired".
        let mut cause: &dyn std::error::Error = &error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        Self::Network(cause.to_string())
    }
}

/// What a fetch gave.
#[derive(Debug, Clone)]
pub enum Fetched {
    /// The body, and the tag to ask with next time.
    Body {
        /// The bytes.
        bytes: Bytes,
        /// The server's `ETag`.
        etag: Option<HeaderValue>,
    },
    /// What was fetched before still stands.
    NotModified,
}

/// How a cached copy on the way may be used.
#[derive(Debug, Clone, Copy)]
pub enum Freshness<'a> {
    /// Any copy that caches deem fresh.
    Any,
    /// Only if it differs from the one with this tag.
    Unless(&'a HeaderValue),
    /// Straight from the origin server.
    FromOrigin,
}

/// A client for fetching.
#[derive(Debug, Clone)]
pub struct Fetcher {
    client: Client,
}

impl Fetcher {
    /// A client with the system's certificate authorities.
    ///
    /// # Errors
    /// [`FetchError::Network`] when there is no TLS to be had.
    pub fn new() -> Result<Self, FetchError> {
        install_tls();
        let policy = Policy::custom(|attempt| {
            let downgraded = attempt.previous().iter().any(|url| url.scheme() == "https")
                && attempt.url().scheme() != "https";
            if downgraded || attempt.previous().len() > REDIRECTS_MAX {
                attempt.stop()
            } else {
                attempt.follow()
            }
        });
        let client = Client::builder()
            .user_agent(concat!("runseal-witness/", env!("CARGO_PKG_VERSION")))
            .redirect(policy)
            .connect_timeout(CONNECT_TIME)
            .build()?;
        Ok(Self { client })
    }

    /// Fetches at most `limit` bytes within `time`.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn get(
        &self,
        url: &str,
        limit: u64,
        time: Duration,
        freshness: Freshness<'_>,
        accept: Option<&'static str>,
    ) -> Result<Fetched, FetchError> {
        let parsed = Url::parse(url).map_err(|_| FetchError::Url(url.to_owned()))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(FetchError::Url(url.to_owned()));
        }
        let mut request = self.client.get(parsed).timeout(time);
        request = match freshness {
            Freshness::Any => request,
            Freshness::Unless(etag) => request.header(IF_NONE_MATCH, etag),
            Freshness::FromOrigin => request.header(CACHE_CONTROL, "no-cache"),
        };
        if let Some(accept) = accept {
            request = request.header(ACCEPT, accept);
        }
        let mut answer = request.send().await?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if matches!(freshness, Freshness::Unless(_)) => {
                return Ok(Fetched::NotModified);
            }
            other => return Err(FetchError::Status(other.as_u16())),
        }
        if answer.content_length().is_some_and(|length| length > limit) {
            return Err(FetchError::TooLong(limit));
        }
        let etag = answer.headers().get(ETAG).cloned();
        let mut bytes = BytesMut::new();
        while let Some(chunk) = answer.chunk().await? {
            if (bytes.len() + chunk.len()) as u64 > limit {
                return Err(FetchError::TooLong(limit));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Fetched::Body { bytes: bytes.freeze(), etag })
    }
}

/// Chooses the process's TLS implementation, once.
pub(crate) fn install_tls() {
    // An error means that one is chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

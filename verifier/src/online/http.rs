//! Bounded HTTP GETs from servers that nobody trusts.
//!
//! Every body has a limit and every wait an end. Redirects are not followed: evidence comes from where
//! the auditor said, or not at all.

use std::fmt;
use std::io::Read as _;
use std::sync::Once;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::{Response, StatusCode, redirect};
use thiserror::Error;
use url::Url;

/// Time to reach a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest silence of a server in the middle of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time for one tile, bundle or checkpoint.
const FETCH_TIMEOUT: Duration = Duration::from_mins(2);
/// Tries for one body, and the wait after the first; it doubles.
const TRIES: u32 = 3;
const RETRY_WAIT: Duration = Duration::from_millis(200);

/// Why a body could not be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The server does not have it.
    #[error("{url}: not found ({status})")]
    NotFound {
        /// What was asked for.
        url: String,
        /// 404, 410, or the 403 of object stores.
        status: u16,
    },
    /// Another answer than 200.
    #[error("{url}: the server answered {status}")]
    Status {
        /// What was asked for.
        url: String,
        /// The status.
        status: u16,
    },
    /// A redirect, which is never followed.
    #[error("{url}: the server redirects elsewhere ({status}); name the final address instead")]
    Redirect {
        /// What was asked for.
        url: String,
        /// The status.
        status: u16,
    },
    /// No answer, or one that broke off.
    #[error("{url}: {source}")]
    Network {
        /// What was asked for.
        url: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The whole fetch took too long.
    #[error("{url}: no complete answer within {} s", FETCH_TIMEOUT.as_secs())]
    Timeout {
        /// What was asked for.
        url: String,
    },
    /// More bytes than there can be.
    #[error("{url}: the body is longer than {limit} bytes")]
    TooLong {
        /// What was asked for.
        url: String,
        /// The limit.
        limit: usize,
    },
    /// An encoding that was not asked for, or gzip that is damaged.
    #[error("{url}: {fault}")]
    Encoding {
        /// What was asked for.
        url: String,
        /// What is wrong.
        fault: String,
    },
    /// A token that cannot stand in a header.
    #[error("the token holds characters that no HTTP header can carry")]
    Token,
    /// The client cannot be set up.
    #[error("no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
}

impl FetchError {
    /// Whether the server says that it has no such thing.
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    fn is_transient(&self) -> bool {
        match self {
            Self::Network { .. } => true,
            Self::Status { status, .. } => *status == 429 || *status >= 500,
            _ => false,
        }
    }
}

/// A bearer token. Never shown.
#[derive(Clone)]
pub struct Token(HeaderValue);

impl Token {
    /// A token as its file holds it; white space around it does not belong to it.
    ///
    /// # Errors
    /// [`FetchError::Token`].
    pub fn new(token: &str) -> Result<Self, FetchError> {
        let mut value =
            HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(|_| FetchError::Token)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A body as it came over the wire.
#[derive(Debug)]
pub struct Body {
    bytes: Vec<u8>,
    gzip: bool,
    url: String,
}

impl Body {
    /// A body that was read from a file.
    pub const fn plain(bytes: Vec<u8>) -> Self {
        Self { bytes, gzip: false, url: String::new() }
    }

    /// Bytes that were read from the wire.
    pub fn wire_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The content, at most `limit` bytes: a gzip bomb is stopped there. Decompressing takes a while, so
    /// call this off the async threads.
    ///
    /// # Errors
    /// [`FetchError::TooLong`] and [`FetchError::Encoding`].
    pub fn open(self, limit: usize) -> Result<Vec<u8>, FetchError> {
        let Self { bytes, gzip, url } = self;
        if !gzip {
            return if bytes.len() > limit { Err(FetchError::TooLong { url, limit }) } else { Ok(bytes) };
        }
        let mut content = Vec::new();
        let read = MultiGzDecoder::new(bytes.as_slice()).take(limit as u64 + 1).read_to_end(&mut content);
        match read {
            Err(error) => Err(FetchError::Encoding { url, fault: format!("damaged gzip: {error}") }),
            Ok(_) if content.len() > limit => Err(FetchError::TooLong { url, limit }),
            Ok(_) => Ok(content),
        }
    }
}

/// An HTTP client with our bounds.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    token: Option<Token>,
}

impl Client {
    /// A client that sends `token` with every request.
    ///
    /// # Errors
    /// [`FetchError::Client`] when the machine has no usable TLS roots.
    pub fn new(token: Option<Token>) -> Result<Self, FetchError> {
        install_tls();
        let http = reqwest::Client::builder()
            .user_agent(concat!("runseal-verifier/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .referer(false)
            .build()?;
        Ok(Self { http, token })
    }

    /// A whole body of at most `limit` bytes after decoding. Network faults and 5xx are tried again.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn get(&self, url: &Url, limit: usize, gzip: bool) -> Result<Body, FetchError> {
        let mut wait = RETRY_WAIT;
        let mut tried = 1;
        loop {
            let fetch = tokio::time::timeout(FETCH_TIMEOUT, self.get_once(url, limit, gzip)).await;
            match fetch.unwrap_or_else(|_| Err(FetchError::Timeout { url: url.to_string() })) {
                Err(error) if error.is_transient() && tried < TRIES => {
                    tracing::debug!(%error, tried, "trying again");
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                    tried += 1;
                }
                result => return result,
            }
        }
    }

    async fn get_once(&self, url: &Url, limit: usize, gzip: bool) -> Result<Body, FetchError> {
        let mut response = self.request(url, gzip).await?;
        let encoding = response.headers().get(CONTENT_ENCODING).map(|value| value.as_bytes().to_vec());
        let gzip = match encoding.as_deref() {
            None | Some(b"identity") => false,
            Some(b"gzip") if gzip => true,
            Some(other) => {
                let fault = format!("unexpected content encoding {:?}", String::from_utf8_lossy(other));
                return Err(FetchError::Encoding { url: url.to_string(), fault });
            }
        };
        // Compressed bytes that exceed the limit could only be padding.
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| network(url, error))? {
            let length = bytes.len() + chunk.len();
            if length > limit {
                return Err(FetchError::TooLong { url: url.to_string(), limit });
            }
            if length > bytes.capacity() {
                // Twice as much as before, but never more than may come: many bodies come at a time.
                let capacity = (2 * bytes.capacity()).clamp(length, limit);
                bytes.reserve_exact(capacity - bytes.len());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Body { bytes, gzip, url: url.to_string() })
    }

    /// A response whose body the caller reads piece by piece; its length is the caller's to bound.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn stream(&self, url: &Url) -> Result<Response, FetchError> {
        let response = self.request(url, false).await?;
        match response.headers().get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
            None | Some(b"identity") => Ok(response),
            Some(other) => {
                let fault = format!("unexpected content encoding {:?}", String::from_utf8_lossy(other));
                Err(FetchError::Encoding { url: url.to_string(), fault })
            }
        }
    }

    /// Sends `body` as JSON; any answer of success will do.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn post(&self, url: &Url, body: Vec<u8>) -> Result<(), FetchError> {
        let mut request =
            self.http.post(url.clone()).header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(Token(token)) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        let response = request.body(body).send().await.map_err(|error| network(url, error))?;
        let status = response.status();
        if status.is_success() {
            Ok(())
        } else {
            Err(FetchError::Status { url: url.to_string(), status: status.as_u16() })
        }
    }

    async fn request(&self, url: &Url, gzip: bool) -> Result<Response, FetchError> {
        let encoding = HeaderValue::from_static(if gzip { "gzip" } else { "identity" });
        let mut request = self.http.get(url.clone()).header(ACCEPT_ENCODING, encoding);
        request = request.header(ACCEPT, HeaderValue::from_static("*/*"));
        if let Some(Token(token)) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        let response = request.send().await.map_err(|error| network(url, error))?;
        let (status, url) = (response.status(), url.to_string());
        match status {
            StatusCode::OK => Ok(response),
            // Object stores answer 403 for what is not there; with a token it means what it says.
            StatusCode::FORBIDDEN if self.token.is_none() => {
                Err(FetchError::NotFound { url, status: status.as_u16() })
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                Err(FetchError::NotFound { url, status: status.as_u16() })
            }
            _ if status.is_redirection() => Err(FetchError::Redirect { url, status: status.as_u16() }),
            _ => Err(FetchError::Status { url, status: status.as_u16() }),
        }
    }
}

/// A network fault with its causes spelled out, without repeating the URL.
pub fn network(url: &Url, error: reqwest::Error) -> FetchError {
    FetchError::Network { url: url.to_string(), source: Box::new(Causes(error.without_url())) }
}

/// An error that prints its whole chain of causes: the outermost of an HTTP client says nothing.
#[derive(Debug)]
struct Causes(reqwest::Error);

impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = std::error::Error::source(&self.0);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for Causes {}

fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Somebody else's choice, made earlier in this process, is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

//! The HTTP side: one bounded POST, no redirects, plain or TLS.

use std::{sync::OnceLock, time::Duration};

use thiserror::Error;

/// How long one request may take, from connecting to the last byte of the answer.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer read: room for a dozen ML-DSA-44 cosignatures, each some 3.3 KiB.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Why a request brought no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The URL is not one to post to.
    #[error("{0:?} is not an http:// or https:// URL")]
    Url(String),
    /// TLS cannot be used on this machine.
    #[error("https cannot be used here: {0}")]
    Tls(String),
    /// No answer in time.
    #[error("no answer within {} seconds", .0.as_secs_f32())]
    Timeout(Duration),
    /// Connecting, sending or receiving failed.
    #[error("{0}")]
    Transport(String),
    /// An answer longer than any witness needs.
    #[error("its answer is longer than {ANSWER_BYTES_MAX} bytes")]
    TooLong,
}

/// An answer, read whole.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The content type without parameters; empty where none is given.
    pub(super) media_type: String,
    pub(super) body: Vec<u8>,
}

/// Posts to witnesses. Connections are kept and reused between rounds.
#[derive(Debug)]
pub struct Client {
    timeout: Duration,
    plain: reqwest::Client,
    /// Made when the first https URL is met, since it needs the machine's certificate authorities.
    secure: OnceLock<Result<reqwest::Client, String>>,
}

impl Client {
    /// A client whose requests take at most `timeout` each.
    ///
    /// # Errors
    /// [`ClientError::Tls`] where no HTTP client can be made at all.
    pub fn new(timeout: Duration) -> Result<Self, ClientError> {
        // Another part of the process may have installed a provider first; either serves.
        drop(rustls::crypto::ring::default_provider().install_default());
        // Plain http trusts no certificate authority, so it needs none to be found; and a witness that is
        // reached without TLS is on this machine or network, where a proxy has no business.
        let plain = builder(timeout).tls_certs_only([]).no_proxy().build();
        let plain = plain.map_err(|error| ClientError::Tls(chain(&error)))?;
        Ok(Self { timeout, plain, secure: OnceLock::new() })
    }

    /// Posts one `add-checkpoint` body below the submission prefix `url`.
    pub(super) async fn add_checkpoint(&self, url: &str, body: String) -> Result<Answer, ClientError> {
        let (client, url) = self.resolve(url, "add-checkpoint")?;
        self.answer(client.post(url).body(body)).await
    }

    /// Gets a page below the monitoring prefix `url`.
    pub(super) async fn get(&self, url: &str, path: &str) -> Result<Answer, ClientError> {
        let (client, url) = self.resolve(url, path)?;
        self.answer(client.get(url)).await
    }

    fn resolve(&self, prefix: &str, path: &str) -> Result<(&reqwest::Client, reqwest::Url), ClientError> {
        let refused = || ClientError::Url(prefix.to_owned());
        let url = reqwest::Url::parse(&format!("{prefix}/{path}")).map_err(|_| refused())?;
        match url.scheme() {
            "http" => Ok((&self.plain, url)),
            "https" => Ok((self.secure()?, url)),
            _ => Err(refused()),
        }
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> Result<Answer, ClientError> {
        let mut response = request.send().await.map_err(|error| self.failed(&error))?;
        let media_type = response
            .headers()
            .get(reqwest::header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .map(|value| value.split(';').next().unwrap_or_default().trim().to_owned())
            .unwrap_or_default();
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(&error))? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(ClientError::TooLong);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, media_type, body })
    }

    fn secure(&self) -> Result<&reqwest::Client, ClientError> {
        let made = self.secure.get_or_init(|| builder(self.timeout).build().map_err(|error| chain(&error)));
        made.as_ref().map_err(|error| ClientError::Tls(error.clone()))
    }

    fn failed(&self, error: &reqwest::Error) -> ClientError {
        if error.is_timeout() {
            ClientError::Timeout(self.timeout)
        } else {
            ClientError::Transport(chain(error))
        }
    }
}

fn builder(timeout: Duration) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("runseal/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .timeout(timeout)
}

/// What went wrong: the causes of an error, since reqwest itself only says that a request failed, and where.
fn chain(error: &dyn std::error::Error) -> String {
    let Some(mut cause) = error.source() else { return error.to_string() };
    let mut text = cause.to_string();
    while let Some(next) = cause.source() {
        text = format!("{text}: {next}");
        cause = next;
    }
    text
}

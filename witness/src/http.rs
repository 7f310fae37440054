//! The witness over HTTP: routes, bodies, and what each refusal is answered with.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER,
};
use hyper::{Method, Request, Response, StatusCode, Version};
use runseal_tlog::request::{REQUEST_BYTES_MAX, SIZE_CONTENT_TYPE};

use crate::about;
use crate::witness::{Refusal, Witness};

/// How long a body may take.
pub const BODY_TIME: Duration = Duration::from_secs(10);
/// Seconds after which a client is told to come back.
const RETRY_SECONDS: u64 = 1;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// What is answered.
pub type Answer = Response<Full<Bytes>>;

/// Answers one request.
pub async fn answer(witness: Arc<Witness>, request: Request<Incoming>) -> Answer {
    let version = request.version();
    let mut answer = route(&witness, request).await;
    if answer.status() == StatusCode::PAYLOAD_TOO_LARGE || answer.status() == StatusCode::REQUEST_TIMEOUT {
        // The rest of the body is not read; HTTP/2 resets the stream instead.
        if version < Version::HTTP_2 {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
    answer
}

async fn route(witness: &Witness, request: Request<Incoming>) -> Answer {
    let path = request.uri().path();
    let readable = matches!(*request.method(), Method::GET | Method::HEAD);
    match path {
        "/add-checkpoint" if request.method() == Method::POST => match body(request.into_body()).await {
            Ok(body) => add_checkpoint(witness, &body).await,
            Err(answer) => answer,
        },
        "/add-checkpoint" => not_allowed("POST"),
        "/" | "/healthz" if !readable => not_allowed("GET, HEAD"),
        "/" => about::answer(witness, request.headers().get(ACCEPT), request.uri().query()),
        "/healthz" => text(StatusCode::OK, "ok\n"),
        _ => match origin_hash(path) {
            Some(hash) if readable => checkpoint(witness, &hash),
            Some(_) => not_allowed("GET, HEAD"),
            None => text(StatusCode::NOT_FOUND, "there is nothing here\n"),
        },
    }
}

/// The hash in `/<64 lower-case hex digits>/checkpoint`.
fn origin_hash(path: &str) -> Option<[u8; 32]> {
    let digits = path.strip_prefix('/')?.strip_suffix("/checkpoint")?;
    let lower = digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let mut hash = [0; 32];
    (lower && hex::decode_to_slice(digits, &mut hash).is_ok()).then_some(hash)
}

async fn body(body: Incoming) -> Result<Bytes, Answer> {
    let too_long = || text(StatusCode::PAYLOAD_TOO_LARGE, "the request body is over 128 KiB\n");
    // A length that is said to be too long is believed at once.
    if body.size_hint().lower() > REQUEST_BYTES_MAX as u64 {
        return Err(too_long());
    }
    match tokio::time::timeout(BODY_TIME, Limited::new(body, REQUEST_BYTES_MAX).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_long()),
        Ok(Err(_)) => Err(text(StatusCode::BAD_REQUEST, "the request body was cut short\n")),
        Err(_) => Err(text(StatusCode::REQUEST_TIMEOUT, "the request body did not arrive in time\n")),
    }
}

async fn add_checkpoint(witness: &Witness, body: &[u8]) -> Answer {
    match witness.add_checkpoint(body).await {
        Ok(lines) => {
            let body = lines.iter().fold(String::with_capacity(256 * lines.len()), |mut body, line| {
                // Writing to a string cannot fail.
                let _ = writeln!(body, "{line}");
                body
            });
            tracing::debug!(target: "cosigned", lines = lines.len());
            text(StatusCode::OK, body)
        }
        Err(refusal) => refuse(&refusal),
    }
}

/// The one place where refusals become statuses.
const fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::Malformed(_) | Refusal::NotACheckpoint(_) | Refusal::OldSizeAboveNew { .. } => {
            StatusCode::BAD_REQUEST
        }
        Refusal::UnknownOrigin(_) => StatusCode::NOT_FOUND,
        Refusal::NotSigned(_) => StatusCode::FORBIDDEN,
        Refusal::Conflict { .. } => StatusCode::CONFLICT,
        Refusal::Inconsistent(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Refusal::Clock(_)
        | Refusal::Cosign(_)
        | Refusal::State(_)
        | Refusal::NotDurable(_)
        | Refusal::Busy => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn refuse(refusal: &Refusal) -> Answer {
    let status = status(refusal);
    tracing::debug!(target: "refused", status = status.as_u16(), reason = %refusal);
    if let Refusal::Conflict { cosigned, .. } = refusal {
        let mut answer = text(status, format!("{cosigned}\n"));
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(SIZE_CONTENT_TYPE));
        return answer;
    }
    let mut answer = text(status, format!("{refusal}\n"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
    }
    answer
}

fn checkpoint(witness: &Witness, origin_hash: &[u8; 32]) -> Answer {
    match witness.store().note(origin_hash) {
        Ok(Some(note)) => {
            let mut answer = text(StatusCode::OK, note);
            answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            answer
        }
        Ok(None) => text(StatusCode::NOT_FOUND, "this witness has cosigned no checkpoint of such a log\n"),
        Err(error) => {
            tracing::error!(target: "state", %error, "cannot read a checkpoint");
            text(StatusCode::SERVICE_UNAVAILABLE, "the witness could not read its state\n")
        }
    }
}

fn not_allowed(methods: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, format!("the method must be {methods}\n"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}

/// A plain text answer.
pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let body = body.into();
    let mut answer = Response::new(Full::new(body.clone()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, TEXT);
    answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    answer
}

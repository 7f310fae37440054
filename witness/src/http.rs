//! The witness over HTTP: routes, bodies, and what each refusal is answered with.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER,
};
use hyper::{Method, Request, Response, StatusCode, Version};
use runseal_tlog::note::SignatureLine;
use runseal_tlog::request::{REQUEST_BYTES_MAX, SIZE_CONTENT_TYPE};

use crate::about;
use crate::clock;
use crate::metrics::{Call, Outcome};
use crate::witness::{Blame, Refusal, Witness};

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
    let cut = [StatusCode::PAYLOAD_TOO_LARGE, StatusCode::REQUEST_TIMEOUT].contains(&answer.status());
    // The rest of such a body is not read; HTTP/2 resets the stream instead.
    if cut && version < Version::HTTP_2 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

async fn route(witness: &Witness, request: Request<Incoming>) -> Answer {
    let path = request.uri().path();
    let readable = matches!(*request.method(), Method::GET | Method::HEAD);
    let call = match path {
        "/add-checkpoint" => Some(Call::AddCheckpoint),
        "/sign-subtree" if witness.keys().signs_subtrees() => Some(Call::SignSubtree),
        _ => None,
    };
    if let Some(call) = call {
        return if request.method() == Method::POST {
            sign(witness, call, request.into_body()).await
        } else {
            not_allowed("POST")
        };
    }
    match path {
        "/" | "/healthz" | "/metrics" if !readable => not_allowed("GET, HEAD"),
        "/" => about::answer(witness, request.headers().get(ACCEPT), request.uri().query()),
        "/healthz" => health(witness),
        "/metrics" => metrics(witness),
        _ => match origin_hash(path) {
            Some(hash) if readable => checkpoint(witness, &hash),
            Some(_) => not_allowed("GET, HEAD"),
            None => text(StatusCode::NOT_FOUND, "there is nothing here\n"),
        },
    }
}

fn health(witness: &Witness) -> Answer {
    if witness.metrics().state_failed.load(Ordering::Relaxed) {
        return text(StatusCode::SERVICE_UNAVAILABLE, "the last write of the state failed\n");
    }
    match clock::time_after(witness.clock().now(), 0) {
        Ok(_) => text(StatusCode::OK, "ok\n"),
        Err(fault) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{fault}\n")),
    }
}

fn metrics(witness: &Witness) -> Answer {
    let mut answer = text(StatusCode::OK, witness.metrics().page());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4"));
    answer
}

/// The hash in `/<64 lower-case hex digits>/checkpoint`.
fn origin_hash(path: &str) -> Option<[u8; 32]> {
    let digits = path.strip_prefix('/')?.strip_suffix("/checkpoint")?;
    let lower = digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let mut hash = [0; 32];
    (lower && hex::decode_to_slice(digits, &mut hash).is_ok()).then_some(hash)
}

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoBody {
    TooLong,
    CutShort,
    TimedOut,
}

async fn read(body: Incoming) -> Result<Bytes, NoBody> {
    // A length that is said to be too long is believed at once.
    if body.size_hint().lower() > REQUEST_BYTES_MAX as u64 {
        return Err(NoBody::TooLong);
    }
    match tokio::time::timeout(BODY_TIME, Limited::new(body, REQUEST_BYTES_MAX).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(NoBody::TooLong),
        Ok(Err(_)) => Err(NoBody::CutShort),
        Err(_) => Err(NoBody::TimedOut),
    }
}

async fn sign(witness: &Witness, call: Call, body: Incoming) -> Answer {
    let started = Instant::now();
    let (outcome, answer) = match read(body).await {
        Ok(body) => {
            let signed = match call {
                Call::AddCheckpoint => witness.add_checkpoint(&body).await,
                Call::SignSubtree => witness.sign_subtree(&body).await,
            };
            match signed {
                Ok(lines) => (Outcome::Signed, signature_lines(&lines)),
                Err(refusal) => {
                    report(witness, call, &refusal);
                    (refusal.outcome(), refuse(&refusal))
                }
            }
        }
        Err(NoBody::TooLong) => {
            (Outcome::TooLong, text(StatusCode::PAYLOAD_TOO_LARGE, "the request body is over 128 KiB\n"))
        }
        Err(NoBody::CutShort) => {
            (Outcome::Malformed, text(StatusCode::BAD_REQUEST, "the request body was cut short\n"))
        }
        Err(NoBody::TimedOut) => (
            Outcome::TimedOut,
            text(StatusCode::REQUEST_TIMEOUT, "the request body did not arrive in time\n"),
        ),
    };
    witness.metrics().request(call, outcome, started.elapsed());
    answer
}

fn signature_lines(lines: &[SignatureLine]) -> Answer {
    let body = lines.iter().fold(String::with_capacity(256 * lines.len()), |mut body, line| {
        // Writing to a string cannot fail.
        let _ = writeln!(body, "{line}");
        body
    });
    text(StatusCode::OK, body)
}

/// Says what was refused, by whose fault it was. Alarms are said where they are raised, and stale clients
/// where it is seen what they brought.
fn report(witness: &Witness, call: Call, refusal: &Refusal) {
    let outcome = refusal.outcome().name();
    let budget = witness.log_budget();
    match refusal.blame() {
        Blame::Client => tracing::debug!(target: "client_error", ?call, outcome, reason = %refusal),
        Blame::StaleClient => {}
        Blame::Witness => {
            let Some(left_out) = budget.line(witness.clock().elapsed()) else { return };
            let cause = std::error::Error::source(refusal).map(ToString::to_string);
            tracing::warn!(target: "witness_error", ?call, outcome, reason = %refusal, cause, left_out);
        }
    }
}

/// The one place where refusals become statuses.
const fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::Malformed(_)
        | Refusal::NotACheckpoint(_)
        | Refusal::OldSizeAboveNew { .. }
        | Refusal::SubtreeBeyondCheckpoint { .. } => StatusCode::BAD_REQUEST,
        Refusal::UnknownOrigin(_) | Refusal::NoSubtrees => StatusCode::NOT_FOUND,
        Refusal::NotSigned(_) | Refusal::NotCosigned(_) => StatusCode::FORBIDDEN,
        Refusal::Conflict { .. } => StatusCode::CONFLICT,
        Refusal::Inconsistent(_) | Refusal::SubtreeInconsistent(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Refusal::OverQuota { .. } => StatusCode::TOO_MANY_REQUESTS,
        Refusal::Clock(_) | Refusal::Sign(_) | Refusal::State(_) | Refusal::NotDurable(_) | Refusal::Busy => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}

fn refuse(refusal: &Refusal) -> Answer {
    let status = status(refusal);
    if let Refusal::Conflict { cosigned, .. } = refusal {
        let mut answer = text(status, format!("{cosigned}\n"));
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(SIZE_CONTENT_TYPE));
        return answer;
    }
    let mut answer = text(status, format!("{refusal}\n"));
    let retry_after = match refusal {
        Refusal::OverQuota { retry_after } => Some(*retry_after),
        _ if status == StatusCode::SERVICE_UNAVAILABLE => Some(RETRY_SECONDS),
        _ => None,
    };
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
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

//! Answers: content types, how long they may be kept, and what a refusal looks like.

use std::{convert::Infallible, io};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{
    Response, StatusCode,
    header::{
        ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY,
        WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    },
};

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;
pub(super) type Answer = Response<Body>;

/// How long an answer may be kept, and by whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keep {
    /// Not at all.
    Never,
    /// A few seconds: a checkpoint is replaced all the time.
    Seconds(Audience),
    /// For ever: a tile of a given width never changes (c2sp.org/tlog-tiles).
    Forever(Audience),
}

/// Whether an answer may be kept by caches that many share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Audience {
    Anyone,
    Asker,
}

impl Keep {
    fn header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Never => "no-store",
            Self::Seconds(Audience::Anyone) => "public, max-age=2",
            Self::Seconds(Audience::Asker) => "private, max-age=2",
            Self::Forever(Audience::Anyone) => "public, max-age=31536000, immutable",
            Self::Forever(Audience::Asker) => "private, max-age=31536000, immutable",
        })
    }
}

pub(super) const OCTETS: &str = "application/octet-stream";
pub(super) const NOTE: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";
pub(super) const JSON_LINES: &str = "application/jsonl; charset=utf-8";
pub(super) const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A whole body.
pub(super) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// 200.
pub(super) fn found(content_type: &'static str, keep: Keep, body: Body) -> Answer {
    let mut answer = Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, keep.header());
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// The body is gzip where it was asked for; caches have to tell the two apart either way.
pub(super) fn encoded(mut answer: Answer, gzip: bool) -> Answer {
    answer.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    if gzip {
        answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    answer
}

/// Any refusal: a line of text, not to be kept.
pub(super) fn refused(status: StatusCode, why: &str) -> Answer {
    let mut answer = found(NOTE, Keep::Never, whole(format!("{why}\n")));
    *answer.status_mut() = status;
    answer
}

/// 404, the same whatever it is that is not there.
pub(super) fn not_found() -> Answer {
    refused(StatusCode::NOT_FOUND, "not found")
}

/// 401.
pub(super) fn unauthorized() -> Answer {
    let mut answer = refused(StatusCode::UNAUTHORIZED, "a bearer token is needed");
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

/// 403.
pub(super) fn forbidden() -> Answer {
    refused(StatusCode::FORBIDDEN, "the token does not reach so far")
}

/// 405. The connection ends, since a body that nobody reads may follow.
pub(super) fn only_get() -> Answer {
    let mut answer = refused(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// 503.
pub(super) fn busy() -> Answer {
    let mut answer = refused(StatusCode::SERVICE_UNAVAILABLE, "too many requests at once");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

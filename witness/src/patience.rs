//! A connection that runs out of patience: with a client that sends a header too slowly, and with one
//! that says nothing for long.
//!
//! The HTTP implementation can time a header, but it starts when it begins to wait for one, so that a
//! short limit would cut off every client that asks once a minute. Here the time for a header starts
//! with its first byte.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// How many requests of a connection were begun and ended; shared with its service.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Activity {
    /// A request begins now and ends when the answer is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> InRequest {
        self.begun.fetch_add(1, Ordering::Relaxed);
        InRequest(Arc::clone(self))
    }
}

/// A request in work.
#[derive(Debug)]
pub(crate) struct InRequest(Arc<Activity>);

impl Drop for InRequest {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// What the client is expected to do before the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// Send the first byte of a header.
    Idle,
    /// Send the rest of it.
    Header,
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Between requests.
    pub(crate) idle: Duration,
    /// From a header's first byte to its last; `None` where requests overlap and bytes tell nothing.
    pub(crate) header: Option<Duration>,
}

/// A stream that fails with [`ErrorKind::TimedOut`] when a limit is passed.
#[derive(Debug)]
pub(crate) struct Patient<S> {
    stream: S,
    limits: Limits,
    activity: Arc<Activity>,
    /// Requests begun when `waiting` was last set.
    seen: u64,
    waiting: Waiting,
    deadline: Instant,
    /// Set for some deadline of the past; moved on only when it fires too early.
    timer: Pin<Box<Sleep>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, limits: Limits, activity: Arc<Activity>) -> Self {
        // A client opens a connection to ask something: the first header is due at once.
        let first = limits.header.unwrap_or(limits.idle);
        let deadline = Instant::now() + first;
        let timer = Box::pin(sleep_until(deadline));
        Self { stream, limits, activity, seen: 0, waiting: Waiting::Header, deadline, timer }
    }

    /// Fails once the client is past its deadline; otherwise leaves a wake-up for it.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let begun = self.activity.begun.load(Ordering::Relaxed);
        if begun != self.activity.ended.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        if begun != self.seen {
            self.seen = begun;
            self.waiting = Waiting::Idle;
            self.deadline = Instant::now() + self.limits.idle;
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= self.deadline {
                return Poll::Ready(Error::new(ErrorKind::TimedOut, "the client was too slow"));
            }
            self.timer.as_mut().reset(self.deadline);
        }
        // A timer set for a later moment than the deadline would fire too late.
        if self.timer.deadline() > self.deadline {
            self.timer.as_mut().reset(self.deadline);
            return self.poll_deadline(cx);
        }
        Poll::Pending
    }

    fn bytes_arrived(&mut self) {
        let Some(header) = self.limits.header else { return };
        let begun = self.activity.begun.load(Ordering::Relaxed);
        if begun != self.activity.ended.load(Ordering::Relaxed) {
            return;
        }
        if self.waiting == Waiting::Idle || begun != self.seen {
            self.seen = begun;
            self.waiting = Waiting::Header;
            self.deadline = Instant::now() + header;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Ready(read) => {
                if read.is_ok() && buffer.filled().len() > before {
                    self.bytes_arrived();
                }
                Poll::Ready(read)
            }
            Poll::Pending => self.poll_deadline(cx).map(Err),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(cx, bytes) {
            // An answer that nobody reads must not hold the connection for ever.
            Poll::Pending => self.poll_deadline(cx).map(Err),
            ready @ Poll::Ready(_) => ready,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[std::io::IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        match Pin::new(&mut self.stream).poll_write_vectored(cx, bytes) {
            Poll::Pending => self.poll_deadline(cx).map(Err),
            ready @ Poll::Ready(_) => ready,
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

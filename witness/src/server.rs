//! Connections: how many, how long, and how they end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http;
use crate::patience::{self, Activity, Patient};
use crate::witness::Witness;

/// What clients may take up.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most connections at once; more wait to be accepted.
    pub connections: usize,
    /// How long a request's header may take, from its first byte.
    pub header: Duration,
    /// How long a connection may say nothing between requests, or leave an answer unread.
    pub idle: Duration,
}

impl Limits {
    /// Those that a witness serves within.
    pub const SERVED: Self =
        Self { connections: 4096, header: Duration::from_secs(5), idle: Duration::from_secs(75) };
}

/// How long what is in flight may take to finish once the server is told to stop.
pub const DRAIN_TIME: Duration = Duration::from_secs(10);
/// No limit, within what a clock can add.
const FOR_EVER: Duration = Duration::from_hours(100 * 365 * 24);
/// How long a client may leave an answer unread before the connection is given up (HTTP/2 pings).
const PING_TIME: Duration = Duration::from_secs(20);
/// Requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 32;
/// What a header may weigh.
const HEADER_BYTES_MAX: u32 = 16 * 1024;
/// How long to wait after the system refused a connection, which it does when files run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves within `limits` until `stop` resolves, then finishes what is in flight.
pub async fn serve(
    listener: TcpListener,
    witness: Arc<Witness>,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let (stream, peer, slot) = tokio::select! {
            accepted = accept(&listener, &slots) => accepted,
            () = &mut stop => break,
        };
        let watcher = graceful.watcher();
        let witness = Arc::clone(&witness);
        tokio::spawn(async move {
            // The slot is free again when the connection has ended.
            let _slot = slot;
            let connections = &witness.metrics().connections;
            connections.fetch_add(1, Ordering::Relaxed);
            connection(stream, peer, Arc::clone(&witness), limits, watcher).await;
            connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIME, graceful.shutdown()).await.is_err() {
        tracing::warn!(target: "server", "some requests did not finish in time and were cut off");
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    let slot = Arc::clone(slots).acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, slot),
            Err(error) => {
                tracing::warn!(target: "server", %error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    witness: Arc<Witness>,
    limits: Limits,
    watcher: Watcher,
) {
    // Answers are small and complete; waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let ended = match speaks_http2(&stream, limits.header).await {
        Some(true) => serve_http2(stream, witness, watcher, Some(limits.idle)).await,
        Some(false) => serve_http1(stream, witness, limits, watcher).await,
        None => return,
    };
    if let Err(error) = ended {
        tracing::debug!(target: "server", %peer, %error, "connection ended");
    }
}

async fn serve_http1(
    stream: TcpStream,
    witness: Arc<Witness>,
    limits: Limits,
    watcher: Watcher,
) -> hyper::Result<()> {
    let activity = Arc::new(Activity::default());
    let limits = patience::Limits { idle: limits.idle, header: Some(limits.header) };
    let io = TokioIo::new(Patient::new(stream, limits, Arc::clone(&activity)));
    let service = service_fn(move |request| {
        let (witness, in_request) = (Arc::clone(&witness), activity.begin());
        async move {
            let answer = http::answer(witness, request).await;
            drop(in_request);
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_header_size(HEADER_BYTES_MAX as usize)
        .serve_connection(io, service);
    watcher.watch(connection).await
}

/// Serves HTTP/2 on a stream, whoever opened it. Without `idle` it may say nothing as long as it
/// answers pings.
pub(crate) async fn serve_http2<S>(
    stream: S,
    witness: Arc<Witness>,
    watcher: Watcher,
    idle: Option<Duration>,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let activity = Arc::new(Activity::default());
    let limits = patience::Limits { idle: idle.unwrap_or(FOR_EVER), header: None };
    let io = TokioIo::new(Patient::new(stream, limits, Arc::clone(&activity)));
    let service = service_fn(move |request| {
        let (witness, in_request) = (Arc::clone(&witness), activity.begin());
        async move {
            let answer = http::answer(witness, request).await;
            drop(in_request);
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(Some(PING_TIME))
        .keep_alive_timeout(PING_TIME)
        .serve_connection(io, service);
    watcher.watch(connection).await
}

/// Whether a client starts with HTTP/2's preface; `None` when it says nothing in time.
async fn speaks_http2(stream: &TcpStream, time: Duration) -> Option<bool> {
    /// No HTTP/1 method starts like this one.
    const PREFACE: &[u8] = b"PRI";
    let peek = async {
        let mut start = [0; PREFACE.len()];
        loop {
            let seen = stream.peek(&mut start).await.ok().filter(|seen| *seen > 0)?;
            let seen = &start[..seen];
            if seen == PREFACE || !PREFACE.starts_with(seen) {
                return Some(seen == PREFACE);
            }
            // Peeking again answers at once; give the rest of the preface time to arrive.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(time, peek).await.ok().flatten()
}

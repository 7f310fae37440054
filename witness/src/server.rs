//! Connections: how many, how long, and how they end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http;
use crate::witness::Witness;

/// Most connections at once; more wait to be accepted.
pub const CONNECTIONS_MAX: usize = 4096;
/// How long a request's header may take, from the first waiting for it.
pub const HEADER_TIME: Duration = Duration::from_secs(5);
/// How long what is in flight may take to finish once the server is told to stop.
pub const DRAIN_TIME: Duration = Duration::from_secs(10);
/// Requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 32;
/// What a header may weigh.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// How long to wait after the system refused a connection, which it does when files run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` resolves, then finishes what is in flight.
///
/// # Errors
/// When the listener's address cannot be told.
pub async fn serve(listener: TcpListener, witness: Arc<Witness>, stop: impl Future<Output = ()>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &slots) => accepted,
            () = &mut stop => break,
        };
        let (stream, peer, slot) = accepted;
        let watcher = graceful.watcher();
        let witness = Arc::clone(&witness);
        tokio::spawn(async move {
            // The slot is free again when the connection has ended.
            let _slot = slot;
            connection(stream, peer, witness, watcher).await;
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
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Answers are small and complete; waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let Some(http2) = speaks_http2(&stream).await else { return };
    let service = service_fn(move |request| {
        let witness = Arc::clone(&witness);
        async move { Ok::<_, std::convert::Infallible>(http::answer(witness, request).await) }
    });
    let io = TokioIo::new(stream);
    let outcome = if http2 {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(16 * 1024)
            .keep_alive_interval(Some(Duration::from_secs(20)))
            .keep_alive_timeout(Duration::from_secs(10))
            .serve_connection(io, service);
        watcher.watch(connection).await
    } else {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIME)
            .max_buf_size(HEADER_BYTES_MAX)
            .serve_connection(io, service);
        watcher.watch(connection).await
    };
    if let Err(error) = outcome {
        tracing::debug!(target: "server", %peer, %error, "connection ended");
    }
}

/// Whether a client starts with HTTP/2's preface; `None` when it says nothing in time.
async fn speaks_http2(stream: &TcpStream) -> Option<bool> {
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
    tokio::time::timeout(HEADER_TIME, peek).await.ok().flatten()
}

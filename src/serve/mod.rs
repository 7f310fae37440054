//! The HTTP server: logs as c2sp.org/tlog-tiles has them, runs for auditors, health, and the publisher.
//!
//! Everything served under `/log` is bounded by the published checkpoint: what the journal has sealed since
//! is not shown before a checkpoint covers it. Reads of the journal run on threads made for blocking, at most
//! [`CALLS_MAX`] at once; a connection has a header to send within [`HEADER_TIMEOUT`] and has to read what it
//! asked for.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use hyper::{
    Method, Request, StatusCode,
    body::{Body as _, Incoming},
    header::{AUTHORIZATION, CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tracing::{error, warn};

use crate::{Journal, listing::RecordsError};

mod access;
mod audit;
mod health;
mod log;
mod publisher;
mod respond;
mod route;
mod selfcheck;
mod served;
mod stall;

pub use access::{Access, AccessError, Scopes, Tenants, Token, TokenFault, Tokens, TokensError};
pub use publisher::{Publishing, SetupError};

use access::{Need, Scope, Verdict};
use health::Health;
use respond::{Answer, JSON, Keep, METRICS};
pub(crate) use served::{DIRECTORY, Served};

use route::Route;
use stall::StallLimit;

/// Most connections at once; one more is closed at once.
pub const CONNECTIONS_MAX: usize = 4096;
/// Most reads of the journal at once.
pub const CALLS_MAX: usize = 64;
/// How long a request waits for its turn to read the journal.
pub const CALL_WAIT: Duration = Duration::from_secs(5);
/// How long a client may take to send a request's header, or stay silent between requests.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may leave an answer unread.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long what is under way may take once the server was told to stop.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A bound server.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    plane: Arc<Plane>,
    publishing: Publishing,
    check_interval: Duration,
}

/// What every request and the publisher share.
struct Plane {
    journal: Arc<Journal>,
    access: Arc<Access>,
    health: Health,
    calls: Arc<Semaphore>,
}

impl Server {
    /// Binds `listen`. The journal is checked against itself every `check_interval`.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(
        journal: Arc<Journal>,
        listen: SocketAddr,
        access: Access,
        publishing: Publishing,
        check_interval: Duration,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let calls = Arc::new(Semaphore::new(CALLS_MAX));
        let access = Arc::new(access);
        let plane = Arc::new(Plane { journal, access, health: Health::new(), calls });
        Ok(Self { listener, address, plane, publishing, check_interval })
    }

    /// The address bound, with its port.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who may read what, to change it while it serves.
    pub fn access(&self) -> Arc<Access> {
        Arc::clone(&self.plane.access)
    }

    /// Serves and publishes until `stopped` ends, then lets what is under way finish.
    ///
    /// # Errors
    /// When the publisher cannot be set up.
    pub async fn run(self, stopped: impl Future<Output = ()>) -> Result<(), SetupError> {
        let Self { listener, plane, publishing, check_interval, .. } = self;
        let publisher = publisher::Publisher::new(Arc::clone(&plane), publishing)?;
        let publisher = tokio::spawn(publisher.run());
        let checks = tokio::spawn(selfcheck::run(Arc::clone(&plane), check_interval));
        let graceful = GracefulShutdown::new();
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        tokio::pin!(stopped);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut stopped => break,
            };
            match accepted {
                Ok((stream, _)) => connect(&plane, &graceful, &slots, stream),
                Err(error) => {
                    // Out of descriptors, most likely: an accept loop that spins makes it worse.
                    warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(listener);
        // A round with a witness that does not answer would hold the process up. Nothing is lost by leaving
        // it: the checkpoint is signed again, and published, after the next start.
        publisher.abort();
        checks.abort();
        drop(tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await);
        Ok(())
    }
}

fn connect(plane: &Arc<Plane>, graceful: &GracefulShutdown, slots: &Arc<Semaphore>, stream: TcpStream) {
    let Ok(slot) = Arc::clone(slots).try_acquire_owned() else {
        plane.health.refused_connections.fetch_add(1, Ordering::Relaxed);
        return;
    };
    drop(stream.set_nodelay(true));
    let service = {
        let plane = Arc::clone(plane);
        service_fn(move |request| {
            let plane = Arc::clone(&plane);
            async move { Ok::<_, std::convert::Infallible>(plane.answer(request).await) }
        })
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(StallLimit::new(stream, STALL_TIMEOUT)), service);
    let connection = graceful.watch(connection);
    let plane = Arc::clone(plane);
    tokio::spawn(async move {
        plane.health.connections.fetch_add(1, Ordering::Relaxed);
        // A connection that breaks concerns its peer alone, who knows.
        drop(connection.await);
        plane.health.connections.fetch_sub(1, Ordering::Relaxed);
        drop(slot);
    });
}

/// Longest request header.
const HEADER_BYTES_MAX: usize = 16 << 10;

impl Plane {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let route = Route::of(request.uri().path(), request.uri().query());
        let label = route.label();
        let answer = if !matches!(*request.method(), Method::GET | Method::HEAD) || has_body(&request) {
            respond::only_get()
        } else {
            self.serve(route, &request).await
        };
        self.health.count(label, answer.status().as_u16());
        answer
    }

    async fn serve(self: &Arc<Self>, route: Route<'_>, request: &Request<Incoming>) -> Answer {
        let authorization = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let judge = |scope, tenant| self.access.judge(Need { scope, tenant }, authorization);
        let verdict = match route {
            Route::Health | Route::Nothing => Verdict::Allowed,
            Route::Metrics => judge(Scope::Audit, None),
            Route::Checkpoint { tenant } | Route::Tile { tenant, .. } | Route::NothingInLog { tenant } => {
                judge(Scope::Log, Some(tenant))
            }
            Route::Runs { tenant, .. } | Route::Records { tenant, .. } | Route::NothingInAudit { tenant } => {
                judge(Scope::Audit, Some(tenant))
            }
        };
        match verdict {
            Verdict::Unauthorized => return respond::unauthorized(),
            Verdict::Forbidden => return respond::forbidden(),
            Verdict::Allowed => {}
        }
        match route {
            Route::Health => {
                let knows = judge(Scope::Audit, None) == Verdict::Allowed;
                let body = respond::whole(self.health.to_json(knows));
                let mut answer = respond::found(JSON, Keep::Never, body);
                if self.health.is_alarmed() {
                    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                }
                answer
            }
            Route::Metrics => respond::found(METRICS, Keep::Never, respond::whole(self.health.to_metrics())),
            Route::Checkpoint { tenant } => log::checkpoint(self, tenant).await,
            Route::Tile { tenant, tile } => log::tile(self, tenant, tile, request.headers()).await,
            Route::Runs { tenant, query } => audit::runs(self, tenant, query).await,
            Route::Records { tenant, run } => audit::records(self, tenant, run).await,
            Route::NothingInLog { .. } | Route::NothingInAudit { .. } | Route::Nothing => {
                respond::not_found()
            }
        }
    }

    /// Reads the journal on a thread made for blocking, when it is this request's turn.
    async fn call<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Journal) -> Result<T, RecordsError> + Send + 'static,
    ) -> Result<T, Failed> {
        let turn = tokio::time::timeout(CALL_WAIT, Arc::clone(&self.calls).acquire_owned()).await;
        let turn = turn.map_err(|_| Failed::Busy)?.map_err(|_| Failed::Busy)?;
        let plane = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || {
            // The turn lasts as long as the read, also when the client is gone before it ends.
            let _turn = turn;
            read(&plane.journal)
        });
        match read.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Failed::Journal(error)),
            Err(panicked) => Err(Failed::Panicked(panicked)),
        }
    }
}

/// Why the journal could not be read for a request.
enum Failed {
    Busy,
    Journal(RecordsError),
    Panicked(tokio::task::JoinError),
}

impl Failed {
    /// What the client is told: not the reason, which may name what is none of its business.
    fn answer(&self) -> Answer {
        match self {
            Self::Busy => return respond::busy(),
            Self::Journal(reason) => error!(%reason, "the journal cannot answer"),
            Self::Panicked(reason) => error!(%reason, "reading the journal failed"),
        }
        respond::refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the journal cannot answer; its operator is told why",
        )
    }
}

/// Whether a request comes with a body, which no route takes.
fn has_body(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    headers.contains_key(TRANSFER_ENCODING)
        || headers.get(CONTENT_LENGTH).is_some_and(|length| length.as_bytes() != b"0")
        || !request.body().is_end_stream()
}

//! Running a witness: its parts put together, started, reloaded and stopped.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use runseal_tlog::key::{Algorithm, KeyName, SignerKey};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::agent::AgentKey;
use crate::bastion::{Bastion, BastionError};
use crate::cli::{LogFormat, Serve};
use crate::clock::SystemClock;
use crate::commit::Commits;
use crate::database::RedbStore;
use crate::evidence::Evidence;
use crate::failure::Failure;
use crate::feed::Feed;
use crate::fetch::Fetcher;
use crate::keys::{self, Cosigner, Keys};
use crate::logs::LogSet;
use crate::metrics::Metrics;
use crate::server::{self, Limits};
use crate::sources::{self, Sources};
use crate::witness::{Parts, Witness};

/// Where private key lines may be instead of in a file.
pub const KEY_VARIABLE: &str = "RUNSEAL_WITNESS_KEY";
/// Where lists of logs may be named instead of on the command line.
pub const LOGS_VARIABLE: &str = "RUNSEAL_LOGS";

/// Threads that wait for an ssh-agent or write evidence. An agent signs one thing at a time, and the
/// service is held to a number of threads.
const BLOCKING_THREADS: usize = 16;

/// Runs `serve` to its end.
pub(crate) fn serve(args: &Serve, quiet: bool) -> Result<(), Failure> {
    start_logging(quiet, args.log_format);
    let local = local_keys(&args.key)?;
    let bastions = bastions(args, &local)?;
    let keys = Keys::new(agent_key(args)?.into_iter().chain(local.into_iter().map(Cosigner::from)))?;
    let names = names_of_lists(&args.logs)?;
    allow_connections();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .map_err(Failure::Start)?;
    let fetcher = Fetcher::new()?;
    let mut sources = Sources::new(&names, fetcher.clone(), beside(&args.db, ".list"))?;
    let listed = runtime.block_on(sources.load())?;
    let mut logs = LogSet::new(listed, keys.verifiers())?;
    let store = Arc::new(RedbStore::open(&args.db)?);
    store.enrol(keys.verifiers())?;
    accept_keys(&store, &logs, &args.accept_key_change)?;
    for change in logs.hold_to(&store.known_keys()?) {
        tracing::error!(target: "logs", "{change}");
    }
    tracing::info!(target: "logs", followed = logs.len(), "lists of logs read");
    let metrics = Arc::new(Metrics::default());
    let (commits, writer) =
        Commits::start(Arc::clone(&store) as _, Arc::clone(&metrics)).map_err(Failure::Start)?;
    let evidence = args.evidence.clone().unwrap_or_else(|| beside(&args.db, ".evidence"));
    let witness = Arc::new(Witness::new(Parts {
        keys,
        logs,
        store: Arc::clone(&store) as _,
        commits,
        clock: Arc::new(SystemClock::new()),
        metrics,
        evidence: Some(Evidence::in_folder(evidence)),
    }));
    let outcome = runtime.block_on(async {
        let bound = TcpListener::bind(&args.listen).await;
        let listener = bound.map_err(|source| Failure::Listen { address: args.listen.clone(), source })?;
        let address = listener.local_addr().map_err(Failure::Start)?;
        let stop = stop_signal().map_err(Failure::Start)?;
        let hangup = signal(SignalKind::hangup()).map_err(Failure::Start)?;
        let feed = args.feed.map(|interval| Feed::new(Arc::clone(&witness), fetcher, interval));
        let reloading = tokio::spawn(reload(Arc::clone(&witness), store, sources, args.reload, hangup, feed));
        let (tell, told) = watch::channel(false);
        let bastions: Vec<_> = bastions
            .into_iter()
            .map(|bastion| tokio::spawn(bastion.serve(Arc::clone(&witness), told.clone())))
            .collect();
        eprintln!("listening on http://{address}");
        let stop = async move {
            stop.await;
            // Every bastion connection drains at the same time as the listener's.
            let _ = tell.send(true);
        };
        server::serve(listener, witness, Limits::SERVED, stop).await;
        for bastion in bastions {
            let _ = bastion.await;
        }
        reloading.abort();
        Ok(())
    });
    // With the runtime the last ways to the queue are gone; the writer finishes what is in it and ends.
    drop(runtime);
    let _ = writer.join();
    outcome
}

/// `path` with `suffix` added to its whole file name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The lists named on the command line, else in the environment.
pub(crate) fn names_of_lists(given: &[String]) -> Result<Vec<String>, Failure> {
    let names = if given.is_empty() {
        sources::split_variable(&std::env::var(LOGS_VARIABLE).unwrap_or_default())
    } else {
        given.to_vec()
    };
    if names.is_empty() { Err(Failure::NoLists) } else { Ok(names) }
}

fn local_keys(files: &[PathBuf]) -> Result<Vec<SignerKey>, Failure> {
    let mut local = Vec::new();
    for path in files {
        local.extend(keys::read(path)?);
    }
    if let Ok(lines) = std::env::var(KEY_VARIABLE) {
        let lines = zeroize::Zeroizing::new(lines);
        // No name in a key line holds a blank, so any white space may separate the lines.
        let lines = zeroize::Zeroizing::new(lines.split_whitespace().collect::<Vec<_>>().join("\n"));
        local.extend(keys::parse(Path::new(KEY_VARIABLE), &lines)?);
    }
    Ok(local)
}

fn agent_key(args: &Serve) -> Result<Option<Cosigner>, Failure> {
    let (Some(socket), Some(name)) = (&args.ssh_agent, &args.name) else { return Ok(None) };
    let name = KeyName::new(name.clone()).map_err(keys::KeyFileError::Name)?;
    Ok(Some(AgentKey::find(socket, args.ssh_key.as_deref(), name)?.into()))
}

fn bastions(args: &Serve, local: &[SignerKey]) -> Result<Vec<Bastion>, Failure> {
    if args.bastion.is_empty() {
        return Ok(Vec::new());
    }
    let own = args.bastion_key.as_deref().map(keys::read).transpose()?;
    let candidates = own.as_deref().unwrap_or(local);
    let key = candidates
        .iter()
        .find(|key| key.verifier().algorithm() != Algorithm::CosignatureMlDsa44)
        .ok_or(BastionError::NoKey)?;
    let ca = args.bastion_ca.as_deref();
    Ok(args.bastion.iter().map(|address| Bastion::new(address, key, ca)).collect::<Result<_, _>>()?)
}

fn accept_keys(store: &RedbStore, logs: &LogSet, origins: &[String]) -> Result<(), Failure> {
    let known = store.known_keys()?;
    for origin in origins {
        let log = logs.find(origin).ok_or_else(|| Failure::UnknownLog(origin.clone()))?;
        // A log that was never cosigned has no keys to change.
        if known.contains_key(origin) {
            store.accept_keys(log)?;
            tracing::warn!(target: "logs", origin, "the listed keys are accepted in place of those known");
        }
    }
    Ok(())
}

/// Reads the lists again on SIGHUP and once an interval. A list with a fault changes nothing.
async fn reload(
    witness: Arc<Witness>,
    store: Arc<RedbStore>,
    mut sources: Sources,
    interval: std::time::Duration,
    mut hangup: Signal,
    mut feed: Option<Feed>,
) {
    if let Some(feed) = &mut feed {
        feed.follow(&witness.logs());
    }
    loop {
        tokio::select! {
            _ = hangup.recv() => {}
            () = tokio::time::sleep(interval) => {}
        }
        let (listed, errors) = sources.refresh().await;
        witness.metrics().reload_failures.fetch_add(errors.len() as u64, Ordering::Relaxed);
        for error in errors {
            tracing::error!(target: "logs", %error, "a list of logs is left as it was");
        }
        let put_together =
            LogSet::new(listed, witness.keys().verifiers()).map_err(Failure::from).and_then(|mut logs| {
                let changes = logs.hold_to(&store.known_keys()?);
                Ok((logs, changes))
            });
        match put_together {
            Ok((logs, changes)) => {
                for change in changes {
                    tracing::error!(target: "logs", "{change}");
                }
                tracing::info!(target: "logs", followed = logs.len(), "lists of logs read again");
                witness.follow(logs);
            }
            Err(error) => {
                witness.metrics().reload_failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!(target: "logs", %error, "the lists of logs are left as they were");
            }
        }
        if let Some(feed) = &mut feed {
            feed.follow(&witness.logs());
        }
    }
}

fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Asks for as many open files as there may be connections.
fn allow_connections() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// Listener, database, runtime, and files being read.
    const OTHERS: u64 = 256;
    let wanted = Limits::SERVED.connections as u64 + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        let raised = setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum });
        if raised.is_err() || current < Some(wanted) {
            tracing::warn!(target: "server", ?current, wanted, "few open files are allowed; fewer connections will be accepted at once");
        }
    }
}

fn start_logging(quiet: bool, format: LogFormat) {
    let level = if quiet { "error" } else { "info" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("RUNSEAL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second command in one process keeps the first one's log.
    let _ = match format {
        LogFormat::Text => log.with_ansi(false).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
}

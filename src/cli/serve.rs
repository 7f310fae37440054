use std::{
    net::{SocketAddr, ToSocketAddrs as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::builder::BoolishValueParser;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info};
use tracing_subscriber::EnvFilter;

use super::{
    CliError, Exit,
    checkpoint::{WitnessArgs, check_log_key},
    duration,
    output::Output,
    plane::PlaneArgs,
};
use crate::serve::{Access, Publishing, Server, Tokens};

/// Serve the plane's logs and runs over HTTP, and publish a checkpoint whenever there is something new.
///
/// Serves /log/<tenant>/checkpoint and /log/<tenant>/tile/... (c2sp.org/tlog-tiles), /audit/<tenant>/runs,
/// /audit/<tenant>/runs/<run>/records, /healthz and /metrics. On a loopback address everything is open; on
/// any other bearer tokens are needed, or the logs declared public. Prints "listening on http://ADDR" on
/// stderr once it listens; SIGHUP reads the tokens again; SIGTERM and SIGINT end it with exit code 0. RUST_LOG
/// says how much is logged.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  runseal serve --dir plane --policy trust.policy\n  \
    runseal serve --dir plane --listen 0.0.0.0:7070 --tokens tokens.txt --public-log")]
pub(super) struct Args {
    #[command(flatten)]
    plane: PlaneArgs,

    /// The address to listen on; port 0 takes a free one.
    #[arg(long, env = "RUNSEAL_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:7070")]
    listen: String,

    #[command(flatten)]
    witnesses: WitnessArgs,

    /// Publish a checkpoint at most this often, when there is something new.
    #[arg(long, env = "RUNSEAL_CHECKPOINT_INTERVAL", value_name = "DUR", default_value = "1s",
        value_parser = duration::parse)]
    checkpoint_interval: Duration,

    /// Pin open runs that grew at most this often.
    #[arg(long, env = "RUNSEAL_HEAD_INTERVAL", value_name = "DUR", default_value = "60s",
        value_parser = duration::parse)]
    head_interval: Duration,

    /// Have an unchanged checkpoint cosigned again this often, so that it does not look stale.
    #[arg(long, env = "RUNSEAL_REFRESH_INTERVAL", value_name = "DUR", default_value = "1h",
        value_parser = duration::parse)]
    refresh_interval: Duration,

    /// Check the whole journal against itself this often, as "runseal check" does.
    #[arg(long, env = "RUNSEAL_CHECK_INTERVAL", value_name = "DUR", default_value = "24h",
        value_parser = duration::parse)]
    check_interval: Duration,

    /// The bearer tokens that are admitted: a file of lines that "runseal token" prints.
    #[arg(long, env = "RUNSEAL_TOKENS", value_name = "FILE")]
    tokens: Option<PathBuf>,

    /// Let everybody read the logs (never the runs) without a token.
    #[arg(long, env = "RUNSEAL_PUBLIC_LOG", value_parser = BoolishValueParser::new())]
    public_log: bool,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let listen = resolve(&args.listen)?;
    let tokens = args.tokens.as_deref().map(read_tokens).transpose()?;
    let access = Access::new(listen.ip().is_loopback(), tokens, args.public_log)
        .map_err(|error| CliError::Access { listen, error })?;
    let policy = args.witnesses.read()?;
    let journal = Arc::new(args.plane.open()?);
    if let Some(policy) = &policy {
        for name in journal.tenants()? {
            let tenant = journal.tenant(&name);
            check_log_key(policy, &tenant.origin(), &tenant.vkey().to_string())?;
        }
    }
    let publishing = Publishing {
        policy,
        on_shortfall: args.witnesses.on_shortfall.into(),
        checkpoint_interval: args.checkpoint_interval,
        head_interval: args.head_interval,
        refresh_interval: args.refresh_interval,
    };
    log_to_stderr(output);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::Runtime)?;
    let served = runtime.block_on(async {
        let server = Server::bind(journal, listen, access, publishing, args.check_interval)
            .await
            .map_err(|error| CliError::Bind { listen, error })?;
        serve(server, args.tokens.clone(), output).await
    });
    // Journal calls under way end in their own time; they are bounded, and nothing waits for their answers.
    runtime.shutdown_timeout(Duration::from_secs(5));
    served.map(|()| Exit::Done)
}

async fn serve(server: Server, tokens: Option<PathBuf>, output: &Output) -> Result<(), CliError> {
    let stopped = stop_signal()?;
    let reloading = tokio::spawn(reload_tokens(server.access(), tokens, hangup()?));
    // Said also when quiet: with port 0 there is no other way to know.
    output.tell(format_args!("listening on http://{}", server.address()));
    let served = server.run(stopped).await;
    reloading.abort();
    Ok(served?)
}

/// Reads the tokens again whenever the process is told to. A file with a fault changes nothing.
async fn reload_tokens(access: Arc<Access>, file: Option<PathBuf>, mut hangup: Signal) {
    while hangup.recv().await.is_some() {
        let Some(file) = &file else {
            info!("there is no tokens file to read again");
            continue;
        };
        match read_tokens(file) {
            Ok(tokens) => {
                access.replace_tokens(tokens);
                info!(file = %file.display(), "the tokens are read again");
            }
            Err(error) => error!(%error, "the tokens that are admitted stay as they were"),
        }
    }
}

fn resolve(listen: &str) -> Result<SocketAddr, CliError> {
    let failed = |reason: String| CliError::Listen { listen: listen.to_owned(), reason };
    let mut addresses = listen.to_socket_addrs().map_err(|error| failed(error.to_string()))?;
    addresses.next().ok_or_else(|| failed("it names no address".to_owned()))
}

fn read_tokens(path: &Path) -> Result<Tokens, CliError> {
    let text =
        std::fs::read_to_string(path).map_err(|error| CliError::Input { path: path.to_owned(), error })?;
    text.parse().map_err(|error| CliError::Tokens { path: path.to_owned(), error })
}

/// Ends when the process is told to stop.
fn stop_signal() -> Result<impl Future<Output = ()>, CliError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(CliError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CliError::Runtime)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn hangup() -> Result<Signal, CliError> {
    signal(SignalKind::hangup()).map_err(CliError::Runtime)
}

fn log_to_stderr(output: &Output) {
    let level = if output.is_quiet() { "error" } else { "info" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // A process that embeds the command may log in its own way already.
    drop(subscriber.try_init());
}

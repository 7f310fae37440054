//! The command line: `keygen`, `vkey`, `init`, `serve`, `logs`, `status`.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use runseal_tlog::key::Algorithm;
use tokio::net::TcpListener;

use crate::about::LogStatus;
use crate::clock::SystemClock;
use crate::commit::Commits;
use crate::failure::{Exit, Failure};
use crate::keys::{self, Keys};
use crate::logs::{self, LogSet};
use crate::server;
use crate::state::{RedbStore, Store as _};
use crate::witness::Witness;

#[derive(Debug, Parser)]
#[command(
    name = "runseal-witness",
    version,
    about = "A witness for transparency logs: cosigns only what provably extends the last checkpoint it saw",
    after_help = "Example:\n  runseal-witness keygen --name witness.example/w1 --out witness.key\n  runseal-witness init --db witness.redb\n  runseal-witness serve --key witness.key --logs logs.policy --db witness.redb\n\nExit codes: 0 done, 1 integrity finding, 2 wrong usage or input, 3 could not finish, 4 internal fault."
)]
struct Cli {
    /// Say nothing but results and errors.
    #[arg(short, long, global = true, env = "RUNSEAL_QUIET")]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a new key file and print its verifier key(s).
    #[command(
        after_help = "Example:\n  runseal-witness keygen --name witness.example/w1 --out witness.key --ml-dsa"
    )]
    Keygen(Keygen),
    /// Print the verifier key(s) of a key file.
    #[command(after_help = "Example:\n  runseal-witness vkey --key witness.key")]
    Vkey(Vkey),
    /// Make a new, empty state database.
    #[command(after_help = "Example:\n  runseal-witness init --db witness.redb")]
    Init(Database),
    /// Run the witness.
    #[command(
        after_help = "Example:\n  runseal-witness serve --key witness.key --logs logs.policy --db witness.redb --listen 127.0.0.1:7380"
    )]
    Serve(Serve),
    /// List every log ever cosigned, from the database of a witness that is not running.
    #[command(after_help = "Example:\n  runseal-witness logs --db witness.redb --json")]
    Logs(Logs),
}

#[derive(Debug, Args)]
struct Keygen {
    /// The witness's name, like a URL without its scheme.
    #[arg(long, env = "RUNSEAL_NAME")]
    name: String,
    /// The key file to make; it must not exist.
    #[arg(long, env = "RUNSEAL_OUT", value_name = "FILE")]
    out: PathBuf,
    /// Make an ML-DSA-44 key too.
    #[arg(long, env = "RUNSEAL_ML_DSA")]
    ml_dsa: bool,
}

#[derive(Debug, Args)]
struct Vkey {
    /// The key file.
    #[arg(long, env = "RUNSEAL_KEY", value_name = "FILE")]
    key: PathBuf,
}

#[derive(Debug, Args)]
struct Database {
    /// The state database.
    #[arg(long, env = "RUNSEAL_DB", value_name = "FILE")]
    db: PathBuf,
}

#[derive(Debug, Args)]
struct Logs {
    #[command(flatten)]
    database: Database,
    /// A JSON object a line.
    #[arg(long, env = "RUNSEAL_JSON")]
    json: bool,
}

#[derive(Debug, Args)]
struct Serve {
    /// A key file; several may be given, and a file may hold several keys.
    #[arg(long, env = "RUNSEAL_KEY", value_name = "FILE", required = true)]
    key: Vec<PathBuf>,
    /// A logs/v0 list or a tlog-policy file of logs to follow; several may be given.
    #[arg(long, env = "RUNSEAL_LOGS", value_name = "FILE", value_delimiter = ':', required = true)]
    logs: Vec<PathBuf>,
    #[command(flatten)]
    database: Database,
    /// The address to listen on.
    #[arg(long, env = "RUNSEAL_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:7380")]
    listen: String,
}

/// Runs the command given to this process.
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

/// Runs a command. The first argument is the program's name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, not errors; if they cannot be printed, nothing can.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    let outcome = match cli.command {
        Command::Keygen(args) => keygen(&args),
        Command::Vkey(args) => vkey(&args),
        Command::Init(args) => RedbStore::create(&args.db).map_err(Failure::from),
        Command::Serve(args) => serve(&args, cli.quiet),
        Command::Logs(args) => list(&args),
    };
    match outcome {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            eprintln!("runseal-witness: {failure}");
            failure.exit().into()
        }
    }
}

fn print(lines: impl IntoIterator<Item = String>) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    lines
        .into_iter()
        .try_for_each(|line| writeln!(out, "{line}"))
        .and_then(|()| out.flush())
        .map_err(Failure::Output)
}

fn keygen(args: &Keygen) -> Result<(), Failure> {
    let algorithms: &[Algorithm] = if args.ml_dsa {
        &[Algorithm::CosignatureEd25519, Algorithm::CosignatureMlDsa44]
    } else {
        &[Algorithm::CosignatureEd25519]
    };
    let keys = keys::create(&args.out, &args.name, algorithms)?;
    print(keys.iter().map(ToString::to_string))
}

fn vkey(args: &Vkey) -> Result<(), Failure> {
    let keys = Keys::new(keys::read(&args.key)?)?;
    print(keys.verifiers().map(ToString::to_string))
}

fn list(args: &Logs) -> Result<(), Failure> {
    let store = RedbStore::open(&args.database.db)?;
    let mut after: Option<String> = None;
    loop {
        let page = store.cosigned(after.as_deref(), 1000)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.origin.clone());
        print(page.iter().map(LogStatus::from).map(|log| status_line(&log, args.json)))?;
    }
}

fn status_line(log: &LogStatus, json: bool) -> String {
    if json {
        serde_json::to_string(log).expect("strings and numbers always serialise")
    } else {
        format!("{}\t{}\t{}\t{}\t{}", log.origin, log.size, log.root, log.time, log.alarms)
    }
}

fn serve(args: &Serve, quiet: bool) -> Result<(), Failure> {
    start_logging(quiet);
    let mut signers = Vec::new();
    for path in &args.key {
        signers.extend(keys::read(path)?);
    }
    let keys = Keys::new(signers)?;
    let mut listed = Vec::new();
    for path in &args.logs {
        listed.extend(logs::read_file(path)?);
    }
    let logs = LogSet::new(listed, &keys)?;
    let store = RedbStore::open(&args.database.db)?;
    store.enrol(keys.verifiers())?;
    let store = Arc::new(store);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::Start)?;
    let (commits, writer) = Commits::start(Arc::clone(&store) as _).map_err(Failure::Start)?;
    let witness = Arc::new(Witness::new(keys, logs, store, commits, Arc::new(SystemClock::new())));
    let outcome = runtime.block_on(async {
        let bound = TcpListener::bind(&args.listen).await;
        let listener = bound.map_err(|source| Failure::Listen { address: args.listen.clone(), source })?;
        let address = listener.local_addr().map_err(Failure::Start)?;
        let stop = stop_signal().map_err(Failure::Start)?;
        eprintln!("listening on http://{address}");
        server::serve(listener, witness, stop).await;
        Ok(())
    });
    // Connections still open hold the queue; with the runtime they are gone, and the writer ends.
    drop(runtime);
    let _ = writer.join();
    outcome
}

fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn start_logging(quiet: bool) {
    let level = if quiet { "error" } else { "info" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("RUNSEAL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    // A second command in one process keeps the first one's log.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}

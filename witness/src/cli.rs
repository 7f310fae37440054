//! The command line.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use runseal_tlog::key::Algorithm;

use crate::about::{self, About, LogStatus};
use crate::database::RedbStore;
use crate::diff;
use crate::failure::{Exit, Failure};
use crate::fetch::{FetchError, Fetched, Fetcher, Freshness};
use crate::keys::{self, Keys};
use crate::run;
use crate::state::Store as _;
use crate::transfer;

const EXIT_CODES: &str =
    "Exit codes: 0 done, 1 integrity finding, 2 wrong usage or input, 3 could not finish, 4 internal fault.";

#[derive(Debug, Parser)]
#[command(
    name = "runseal-witness",
    version,
    about = "A witness for transparency logs: cosigns only what provably extends the last checkpoint it saw",
    after_help = format!("Example:\n  runseal-witness keygen --name witness.example/w1 --out witness.key\n  runseal-witness init --db witness.redb\n  runseal-witness serve --key witness.key --logs logs.policy --db witness.redb\n\n{EXIT_CODES}")
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
        after_help = "Example:\n  runseal-witness serve --key witness.key --logs logs.policy --db witness.redb --listen 127.0.0.1:7380\n\nSignals: SIGHUP reads the lists of logs again; SIGTERM and SIGINT finish what is in flight and end."
    )]
    Serve(Box<Serve>),
    /// List every log ever cosigned, from the database of a witness that is not running.
    #[command(
        after_help = "Example:\n  runseal-witness logs --db witness.redb --json\n  runseal-witness logs diff --db witness.redb --logs new.list"
    )]
    Logs(Logs),
    /// List every log that a running witness cosigned.
    #[command(after_help = "Example:\n  runseal-witness status --url http://127.0.0.1:7380")]
    Status(Status),
    /// Check a state database, or move it to another machine.
    #[command(
        after_help = "Example:\n  runseal-witness db export --db witness.redb > witness.jsonl\n  runseal-witness db import --db new.redb witness.jsonl"
    )]
    Db(Db),
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
    #[command(subcommand)]
    command: Option<LogsCommand>,
    /// The state database.
    #[arg(long, env = "RUNSEAL_DB", value_name = "FILE")]
    db: Option<PathBuf>,
    /// A JSON object a line.
    #[arg(long, env = "RUNSEAL_JSON")]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum LogsCommand {
    /// Say what serving other lists of logs would change, and change nothing.
    Diff(Diff),
}

#[derive(Debug, Args)]
struct Diff {
    #[command(flatten)]
    database: Database,
    /// A list of logs, as for `serve`; several may be given.
    #[arg(long, value_name = "FILE|URL")]
    logs: Vec<String>,
}

#[derive(Debug, Args)]
struct Status {
    /// The witness's URL.
    #[arg(long, env = "RUNSEAL_URL")]
    url: String,
    /// A JSON object a line.
    #[arg(long, env = "RUNSEAL_JSON")]
    json: bool,
}

#[derive(Debug, Args)]
struct Db {
    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Debug, Subcommand)]
enum DbCommand {
    /// Verify the file and every checkpoint stored in it.
    Check(Database),
    /// Write the whole state as JSON Lines.
    Export {
        #[command(flatten)]
        database: Database,
        /// Where to; standard output if not given.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Take up an export; anything in it that is older than what the database holds is refused.
    Import {
        #[command(flatten)]
        database: Database,
        /// The export; `-` is standard input.
        file: PathBuf,
    },
}

/// Options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// A key file; several may be given, and a file may hold several keys. Private key lines may also
    /// be in RUNSEAL_WITNESS_KEY.
    #[arg(long, env = "RUNSEAL_KEY", value_name = "FILE")]
    pub(crate) key: Vec<PathBuf>,
    /// An ssh-agent that holds an Ed25519 key to cosign with.
    #[arg(long, env = "RUNSEAL_SSH_AGENT", value_name = "SOCKET", requires = "name")]
    pub(crate) ssh_agent: Option<PathBuf>,
    /// Which of the agent's keys, as `ssh-add -l` prints it.
    #[arg(long, env = "RUNSEAL_SSH_KEY", value_name = "SHA256:…", requires = "ssh_agent")]
    pub(crate) ssh_key: Option<String>,
    /// The witness's name, for a key in an ssh-agent.
    #[arg(long, env = "RUNSEAL_NAME")]
    pub(crate) name: Option<String>,
    /// A logs/v0 list or a tlog-policy file of logs to follow; several may be given, or in
    /// RUNSEAL_LOGS, separated by colons.
    #[arg(long, value_name = "FILE|URL")]
    pub(crate) logs: Vec<String>,
    /// How often the lists of logs are read again.
    #[arg(long, env = "RUNSEAL_RELOAD", value_name = "DURATION", default_value = "5m", value_parser = humantime::parse_duration)]
    pub(crate) reload: Duration,
    /// Accept the keys that a list now gives for this log in place of those known; several may be given.
    #[arg(long, env = "RUNSEAL_ACCEPT_KEY_CHANGE", value_name = "ORIGIN")]
    pub(crate) accept_key_change: Vec<String>,
    /// The state database.
    #[arg(long, env = "RUNSEAL_DB", value_name = "FILE")]
    pub(crate) db: PathBuf,
    /// The address to listen on.
    #[arg(long, env = "RUNSEAL_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:7380")]
    pub(crate) listen: String,
    /// Pull from every log that has a URL, this often.
    #[arg(long, env = "RUNSEAL_FEED", value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) feed: Option<Duration>,
    /// Where evidence of a log's misbehaviour is kept; the database's name with `.evidence` added if
    /// not given.
    #[arg(long, env = "RUNSEAL_EVIDENCE", value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Serve through this https-bastion as well; several may be given.
    #[arg(long, env = "RUNSEAL_BASTION", value_name = "HOST:PORT")]
    pub(crate) bastion: Vec<String>,
    /// The key that the bastion knows this witness by, if not the witness's own.
    #[arg(long, env = "RUNSEAL_BASTION_KEY", value_name = "FILE", requires = "bastion")]
    pub(crate) bastion_key: Option<PathBuf>,
    /// Certificates to trust for the bastion (PEM) in place of the system's.
    #[arg(long, env = "RUNSEAL_BASTION_CA", value_name = "FILE", requires = "bastion")]
    pub(crate) bastion_ca: Option<PathBuf>,
    /// How the log on standard error is written.
    #[arg(long, env = "RUNSEAL_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// A JSON object a line.
    Json,
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
    let outcome = catch_unwind(AssertUnwindSafe(|| match cli.command {
        Command::Keygen(args) => keygen(&args),
        Command::Vkey(args) => vkey(&args),
        Command::Init(args) => RedbStore::create(&args.db).map_err(Failure::from),
        Command::Serve(args) => run::serve(&args, cli.quiet),
        Command::Logs(args) => logs(args),
        Command::Status(args) => status(&args),
        Command::Db(args) => db(args.command, cli.quiet),
    }));
    match outcome {
        Ok(Ok(())) => Exit::Done.into(),
        // The panic hook has said what and where.
        Err(_) => Exit::Fault.into(),
        Ok(Err(failure)) => {
            eprintln!("runseal-witness: {failure}");
            failure.exit().into()
        }
    }
}

fn print(lines: impl IntoIterator<Item = String>) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = lines.into_iter().try_for_each(|line| writeln!(out, "{line}"));
    written.and_then(|()| out.flush()).map_err(Failure::Output)
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
    print(keys.verifiers().iter().map(ToString::to_string))
}

fn logs(args: Logs) -> Result<(), Failure> {
    match (args.command, args.db) {
        (Some(LogsCommand::Diff(args)), _) => {
            let names = run::names_of_lists(&args.logs)?;
            print(diff::of(&RedbStore::open(&args.database.db)?, &names, &args.database.db)?)
        }
        (None, Some(database)) => list(&database, args.json),
        (None, None) => Err(Failure::NoDatabase),
    }
}

fn list(database: &Path, json: bool) -> Result<(), Failure> {
    let store = RedbStore::open(database)?;
    let mut after: Option<String> = None;
    loop {
        let page = store.cosigned(after.as_deref(), about::PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.origin.clone());
        print(page.iter().map(LogStatus::from).map(|log| status_line(&log, json)))?;
    }
}

fn status_line(log: &LogStatus, json: bool) -> String {
    if json {
        serde_json::to_string(log).expect("strings and numbers always serialise")
    } else {
        format!("{}\t{}\t{}\t{}\t{}", log.origin, log.size, log.root, log.time, log.alarms)
    }
}

/// Longest page of a witness read.
const PAGE_BYTES_MAX: u64 = 16 * 1024 * 1024;
const STATUS_TIME: Duration = Duration::from_secs(10);

fn status(args: &Status) -> Result<(), Failure> {
    let failed = |reason: &dyn std::fmt::Display| Failure::Status {
        url: args.url.clone(),
        reason: reason.to_string(),
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Start)?;
    let base = args.url.trim_end_matches('/');
    runtime.block_on(async {
        let fetcher = Fetcher::new().map_err(|error| failed(&error))?;
        let mut url = format!("{base}/");
        loop {
            let accept = Some("application/json");
            let fetched = fetcher.get(&url, PAGE_BYTES_MAX, STATUS_TIME, Freshness::Any, accept).await;
            let bytes = match fetched {
                Ok(Fetched::Body { bytes, .. }) => bytes,
                Ok(Fetched::NotModified) => return Err(failed(&FetchError::Status(304))),
                Err(error) => return Err(failed(&error)),
            };
            let about: About = serde_json::from_slice(&bytes)
                .map_err(|error| failed(&format!("this is no witness's about page: {error}")))?;
            print(about.logs.iter().map(|log| status_line(log, args.json)))?;
            // A page that leads nowhere new must not be followed for ever.
            match about.next.filter(|_| !about.logs.is_empty()) {
                Some(next) => url = format!("{base}/?after={}", about::percent_encoded(&next)),
                None => return Ok(()),
            }
        }
    })
}

fn db(command: DbCommand, quiet: bool) -> Result<(), Failure> {
    let say = |what: &str, moved: transfer::Moved| {
        if !quiet {
            eprintln!("{what} {} log(s) and {} alarm(s)", moved.logs, moved.alarms);
        }
    };
    match command {
        DbCommand::Check(args) => {
            let logs = RedbStore::check(&args.db)?;
            if !quiet {
                eprintln!("{}: sound, {logs} log(s)", args.db.display());
            }
            Ok(())
        }
        DbCommand::Export { database, output } => {
            let store = RedbStore::open(&database.db)?;
            let moved = match output {
                None => transfer::export(&store, &mut std::io::stdout().lock())?,
                Some(path) => {
                    let write = |source| Failure::Write { path: path.clone(), source };
                    let file = File::create_new(&path).map_err(write)?;
                    let mut out = BufWriter::new(file);
                    let moved = transfer::export(&store, &mut out)?;
                    let file = out.into_inner().map_err(|error| write(error.into_error()))?;
                    file.sync_all().map_err(write)?;
                    moved
                }
            };
            say("exported", moved);
            Ok(())
        }
        DbCommand::Import { database, file } => {
            let store = RedbStore::open(&database.db)?;
            let moved = if file.as_os_str() == "-" {
                transfer::import(&store, &mut std::io::stdin().lock())?
            } else {
                let input =
                    File::open(&file).map_err(|source| Failure::Read { path: file.clone(), source })?;
                transfer::import(&store, &mut BufReader::new(input))?
            };
            say("imported", moved);
            Ok(())
        }
    }
}

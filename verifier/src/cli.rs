//! The command line.

mod args;
mod output;
mod watch;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::builder::FalseyValueParser;
use clap::{Parser, Subcommand};
use runseal_evidence::report::Verdict;
use runseal_evidence::signature::RecordVerifier;

use self::args::{AuditArgs, ExportArgs, FraudArgs, HistoryArgs, ProofArgs, WatchArgs, WitnessesArgs};
use self::output::{hand_out, print, to_people, to_stdout, write_out};
use crate::checkpoint::NOTE_BYTES_MAX;
use crate::clock::SystemClock;
use crate::error::{EXIT_USAGE, Failure};
use crate::history::{History, HistoryError};
use crate::online::audit::{Audit, Records};
use crate::online::directory;
use crate::online::http::Token;
use crate::online::listing;
use crate::online::progress::Progress;
use crate::online::records::RecordSource;
use crate::online::source::LogSource;
use crate::online::witnesses::Witnesses;
use crate::report_text;
use crate::steps::{Against, StepsFile};
use crate::timeline;
use crate::trust::Trust;
use crate::{export, file, fraud, proof};

const EXIT_CODES: &str = "Exit codes: 0 verified, 1 an integrity finding, 2 wrong usage or input, \
    3 could not finish or could not check, 4 an internal fault.";

/// Checks a transparency log and the runs in it, trusting nobody but the keys in a policy file.
#[derive(Debug, Parser)]
#[command(name = "runseal-verifier", version, after_help = EXIT_CODES)]
struct Cli {
    /// Print no report and no progress; the exit code tells.
    #[arg(short, long, global = true, env = "RUNSEAL_QUIET", value_parser = FalseyValueParser::new())]
    quiet: bool,
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Audit a log: signatures, quorum, history, every entry, and the records where they can be had.
    #[command(after_help = "Example: runseal-verifier audit --policy policy.txt --history acme.history \
        --url https://plane.example/log/acme --records https://plane.example/audit/acme")]
    Audit(AuditArgs),
    /// Check an export file offline.
    #[command(after_help = "Example: runseal-verifier export acme.jsonl --policy policy.txt")]
    Export(ExportArgs),
    /// Check a tlog-proof file: that one entry is in a tree that was signed and witnessed.
    #[command(after_help = "Example: runseal-verifier proof refund-4471.proof --policy policy.txt")]
    Proof(ProofArgs),
    /// Ask every witness of the policy for its latest checkpoint of a log, and compare.
    #[command(
        after_help = "Example: runseal-verifier witnesses --policy policy.txt --log plane.example/log/acme"
    )]
    Witnesses(WitnessesArgs),
    /// Audit the logs of a policy for ever, and tell what is found.
    #[command(after_help = "Example: runseal-verifier watch --policy policy.txt --history watch.history \
        --interval 5m --max-age 1h --listen 127.0.0.1:9464 --alert-command /usr/local/bin/page-me")]
    Watch(WatchArgs),
    /// Check a fraud proof: exit 1 when it stands, 2 when it proves nothing.
    #[command(after_help = "Example: runseal-verifier fraud fork.txt --policy policy.txt")]
    Fraud(FraudArgs),
    /// List what is remembered.
    #[command(after_help = "Example: runseal-verifier history --history acme.history")]
    History(HistoryArgs),
}

impl Verb {
    /// The history that it uses.
    fn history(&self) -> Option<&Path> {
        match self {
            Self::Audit(args) => args.history.as_deref(),
            Self::Witnesses(args) => args.history.as_deref(),
            Self::Watch(args) => Some(&args.history),
            Self::History(args) => Some(&args.history),
            Self::Export(_) | Self::Proof(_) | Self::Fraud(_) => None,
        }
    }
}

/// Runs the command of this process.
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

/// Runs one command.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, not errors.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(EXIT_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    trace();
    // The panic hook has said what and where.
    let panicked = |_| Err(Failure::Internal("it ended by a panic".to_owned()));
    let mut ended = catch_unwind(AssertUnwindSafe(|| dispatch(&cli))).unwrap_or_else(panicked);
    if let (Err(Failure::Internal(_)), Some(path)) = (&ended, cli.command.history())
        && let Err(damage) = vouched(Some(path))
    {
        ended = Err(damage);
    }
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            let text = report_text::harmless(&failure.to_string());
            let _ = writeln!(io::stderr(), "runseal-verifier: {text}");
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Diagnostics go to stderr and are off unless asked for with `RUST_LOG`.
fn trace() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error"));
    let layer = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // A process that runs several commands sets this up once.
    let _ = layer.try_init();
}

fn dispatch(cli: &Cli) -> Result<u8, Failure> {
    let progress = Progress::new(cli.quiet);
    match &cli.command {
        Verb::Audit(args) => audit(args, cli.quiet, progress),
        Verb::Export(args) => {
            let trust = Trust::load(&args.trust.policy)?;
            let outside = args.checkpoint.as_deref();
            let outside =
                outside.map(|path| file::read(path, "checkpoint", NOTE_BYTES_MAX as u64)).transpose()?;
            let against = against(&args.record_key, args.steps.as_deref())?;
            let report = export::check(&args.file, &trust, outside.as_deref(), &against, progress)?;
            print(&report, &[], &args.output, cli.quiet)
        }
        Verb::Proof(args) => {
            let trust = Trust::load(&args.trust.policy)?;
            let bytes = file::read(&args.file, "tlog-proof file", proof::PROOF_BYTES_MAX)?;
            let entry = args.entry.as_deref().map(read_entry).transpose()?;
            let report = proof::check(&bytes, entry.as_deref(), args.log.as_deref(), &trust)
                .map_err(|error| error.into_failure(&args.file))?;
            print(&report, &[], &args.output, cli.quiet)
        }
        Verb::Watch(args) => watch::watch(args, cli.quiet),
        Verb::Witnesses(args) => witnesses(args, cli.quiet),
        Verb::Fraud(args) => prove_fraud(args, cli.quiet),
        Verb::History(args) => {
            let history = Arc::new(History::open(&args.history, true)?);
            let read = |source| Failure::Read { path: args.history.clone(), source };
            let bytes = std::fs::metadata(&args.history).map_err(read)?.len();
            let text = listing::render(&history, bytes, args.log.as_deref(), args.json)?;
            to_stdout(text.as_bytes())?;
            Ok(0)
        }
    }
}

fn audit(args: &AuditArgs, quiet: bool, progress: Progress) -> Result<u8, Failure> {
    let trust = Trust::load(&args.trust.policy)?;
    let origin = if args.directory {
        trust.choose_directory(args.log.as_deref())?.to_owned()
    } else {
        trust.choose(args.log.as_deref())?.to_owned()
    };
    let directory = directory::base_of(&origin).filter(|_| args.directory);
    let location = match &args.url {
        Some(url) => url.clone(),
        None => trust.url(&origin)?.to_owned(),
    };
    let token = token(args.token.as_deref())?;
    let records = match args.records.as_deref() {
        None => None,
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
            Some(Records::Http(RecordSource::open(url, token.clone())?))
        }
        Some(path) => {
            let path = PathBuf::from(path);
            // Better now than after an hour of fetching.
            std::fs::File::open(&path).map_err(|source| Failure::Read { path: path.clone(), source })?;
            Some(Records::Export(path))
        }
    };
    let history = args.history.as_deref().map(|path| History::open_or_create(path, args.history_light));
    let audit = Audit {
        trust,
        origin,
        source: LogSource::open(&location, token)?,
        history: history.transpose()?.map(Arc::new),
        records,
        directory,
        against: against(&args.record_key, args.steps.as_deref())?,
        max_age: args.max_age,
        jobs: usize::from(args.jobs),
        timeout: args.timeout,
    };
    let audited = runtime()?.block_on(audit.run(&SystemClock, progress))?;
    let timeline = match &audit.history {
        Some(history) => timeline::remembered(&history.log(&audit.origin)?, &audit.trust.policy)?,
        None => Vec::new(),
    };
    drop(audit);
    if audited.report.verdict() == Verdict::Tampered {
        vouched(args.history.as_deref())?;
    }
    hand_out(args.fraud_proof.as_deref(), &audited, quiet)?;
    print(&audited.report, &timeline, &args.output, quiet)
}

fn witnesses(args: &WitnessesArgs, quiet: bool) -> Result<u8, Failure> {
    let trust = Trust::load(&args.trust.policy)?;
    let origin = trust.choose(args.log.as_deref())?.to_owned();
    let location = args.url.as_deref().or_else(|| trust.url(&origin).ok());
    let token = token(args.token.as_deref())?;
    let source = location.map(|location| LogSource::open(location, token)).transpose()?;
    let history = args.history.as_deref().map(|path| History::open(path, true)).transpose()?.map(Arc::new);
    let audited = runtime()?.block_on(Witnesses { trust, origin, source, history }.compare())?;
    if audited.report.verdict() == Verdict::Tampered {
        vouched(args.history.as_deref())?;
    }
    hand_out(args.fraud_proof.as_deref(), &audited, quiet)?;
    print(&audited.report, &[], &args.output, quiet)
}

/// Nobody is accused on what a damaged history says. What was found stands where there is no room to check it.
fn vouched(history: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = history.filter(|path| path.exists()) else { return Ok(()) };
    match History::check(path) {
        Err(error @ HistoryError::Access { .. }) => {
            eprintln!("runseal-verifier: not checked whether the history is damaged: {error}");
            Ok(())
        }
        checked => Ok(checked?),
    }
}

fn token(path: Option<&Path>) -> Result<Option<Token>, Failure> {
    let token = path.map(|path| Ok::<_, Failure>(Token::new(&file::read_secret(path, "token file", 4096)?)?));
    token.transpose()
}

fn prove_fraud(args: &FraudArgs, quiet: bool) -> Result<u8, Failure> {
    let trust = Trust::load(&args.trust.policy)?;
    let bytes = file::read(&args.file, "fraud proof", fraud::FRAUD_BYTES_MAX)?;
    match fraud::check(&bytes, &trust.policy) {
        Ok(fraud) => {
            let (older, newer) = (fraud.older.checkpoint(), fraud.newer.checkpoint());
            let text = format!(
                "FRAUD PROVEN  {} signed two histories\n  size {} with root {}\n  size {} with root {}, whose first {} entries have root {}\n",
                report_text::harmless(older.origin()),
                older.size(),
                older.root(),
                newer.size(),
                newer.root(),
                older.size(),
                fraud.implied_older_root
            );
            let report = fraud::report(&fraud, bytes.len() as u64);
            let taken = write_out(&report, &[], &args.output)?;
            if !quiet {
                to_people(&text, taken)?;
            }
            Ok(report.verdict().exit_code())
        }
        Err(error) => {
            if !quiet {
                let text = report_text::harmless(&error.to_string());
                eprintln!("runseal-verifier: {} proves nothing: {text}", args.file.display());
            }
            Ok(EXIT_USAGE)
        }
    }
}

fn read_entry(path: &Path) -> Result<Vec<u8>, Failure> {
    let limit = runseal_tlog::bundle::ENTRY_BYTES_MAX as u64;
    if path == Path::new("-") {
        file::read(Path::new("/dev/stdin"), "log entry", limit)
    } else {
        file::read(path, "log entry", limit)
    }
}

fn against(record_keys: &[RecordVerifier], steps: Option<&Path>) -> Result<Against, Failure> {
    let steps = steps.map(StepsFile::read).transpose()?.map(Arc::new);
    Ok(Against { record_keys: record_keys.to_vec(), steps })
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Internal(format!("no async runtime: {error}")))
}

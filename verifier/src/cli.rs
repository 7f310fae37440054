//! The command line.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, Parser, Subcommand};
use runseal_evidence::name::Base;
use runseal_evidence::report::Report;
use runseal_evidence::signature::RecordVerifier;
use runseal_tlog::policy::PolicyLog;
use tokio::signal::unix::{SignalKind, signal};

use crate::alert::{Alert, Event, Hook};
use crate::audit::{Audit, Audited, Records};
use crate::checkpoint::NOTE_BYTES_MAX;
use crate::clock::{Clock, SystemClock};
use crate::directory;
use crate::error::{EXIT_USAGE, Failure};
use crate::history::History;
use crate::http::{Client, Token};
use crate::listing;
use crate::metrics::{self, Status};
use crate::progress::Progress;
use crate::records::RecordSource;
use crate::report_html;
use crate::report_text::{self, Colour};
use crate::source::{LogSource, SourceError};
use crate::steps::{Against, StepsFile, record_key};
use crate::timeline::{self, Point};
use crate::trust::Trust;
use crate::watch::Watch;
use crate::witnesses::Witnesses;
use crate::{export, file, fraud, proof};

const EXIT_CODES: &str = "Exit codes: 0 verified, 1 an integrity finding, 2 wrong usage or input, \
    3 could not finish or could not check, 4 an internal fault.";

/// Shortest interval between audits of one log.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

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

#[derive(Debug, Args)]
struct AuditArgs {
    #[command(flatten)]
    trust: TrustArgs,
    /// The log's origin; needed when the policy lists several logs.
    #[arg(long, env = "RUNSEAL_LOG")]
    log: Option<String>,
    /// Audit the directory of a plane, the policy's log <base>/log/_directory, and hold the tenants and keys it
    /// lists against the policy's logs and those that the history remembers.
    #[arg(
        long,
        env = "RUNSEAL_DIRECTORY",
        value_parser = FalseyValueParser::new(),
        conflicts_with_all = ["records", "record_key", "steps", "history_light"],
    )]
    directory: bool,
    /// Where the log is: a tlog-tiles prefix, or a directory. Else the URL on the policy's log line.
    #[arg(long, env = "RUNSEAL_URL")]
    url: Option<String>,
    /// What is remembered from audit to audit; made where it does not exist.
    #[arg(long, env = "RUNSEAL_HISTORY")]
    history: Option<PathBuf>,
    /// Keep no entries in the history: half the size or less, but vanished runs have no names.
    #[arg(long, env = "RUNSEAL_HISTORY_LIGHT", value_parser = FalseyValueParser::new(), requires = "history")]
    history_light: bool,
    /// Where records are: an audit prefix (http(s)://…/audit/<tenant>) or an export file.
    #[arg(long, env = "RUNSEAL_RECORDS")]
    records: Option<String>,
    /// The vkey of a key that signs records; repeatable. With any, every record must carry a signature.
    #[arg(long, env = "RUNSEAL_RECORD_KEY", value_parser = record_key)]
    record_key: Vec<RecordVerifier>,
    /// The file of the tenant's steps, to be held against what its runs concluded with.
    #[arg(long, env = "RUNSEAL_STEPS", value_name = "FILE", requires = "records")]
    steps: Option<PathBuf>,
    /// A file with the bearer token for the log and the records.
    #[arg(long, env = "RUNSEAL_TOKEN")]
    token: Option<PathBuf>,
    /// The oldest that the newest cosignature may be.
    #[arg(long, env = "RUNSEAL_MAX_AGE", value_parser = humantime::parse_duration)]
    max_age: Option<Duration>,
    /// Write a fraud proof here when the log is caught with two histories.
    #[arg(long, env = "RUNSEAL_FRAUD_PROOF")]
    fraud_proof: Option<PathBuf>,
    /// Fetches at a time.
    #[arg(long, env = "RUNSEAL_JOBS", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Longest time for one audit; what was verified by then is kept.
    #[arg(long, env = "RUNSEAL_TIMEOUT", default_value = "6h", value_parser = humantime::parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct ExportArgs {
    /// The export file.
    file: PathBuf,
    #[command(flatten)]
    trust: TrustArgs,
    /// A checkpoint note from elsewhere: a witness, another auditor, an earlier day.
    #[arg(long, env = "RUNSEAL_CHECKPOINT")]
    checkpoint: Option<PathBuf>,
    /// The vkey of a key that signs records; repeatable. With any, every record must carry a signature.
    #[arg(long, env = "RUNSEAL_RECORD_KEY", value_parser = record_key)]
    record_key: Vec<RecordVerifier>,
    /// The file of the tenant's steps, to be held against what its runs concluded with.
    #[arg(long, env = "RUNSEAL_STEPS", value_name = "FILE")]
    steps: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct ProofArgs {
    /// The proof file.
    file: PathBuf,
    #[command(flatten)]
    trust: TrustArgs,
    /// The origin of the log that the entry must be in; else any that the policy lists.
    #[arg(long, env = "RUNSEAL_LOG")]
    log: Option<String>,
    /// The entry, a file or - for stdin; else the proof's extra line holds it.
    #[arg(long, env = "RUNSEAL_ENTRY")]
    entry: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct WitnessesArgs {
    #[command(flatten)]
    trust: TrustArgs,
    /// The log's origin; needed when the policy lists several logs.
    #[arg(long, env = "RUNSEAL_LOG")]
    log: Option<String>,
    /// Where the log is: a tlog-tiles prefix, or a directory. Else the URL on the policy's log line.
    #[arg(long, env = "RUNSEAL_URL")]
    url: Option<String>,
    /// What is remembered of the log.
    #[arg(long, env = "RUNSEAL_HISTORY")]
    history: Option<PathBuf>,
    /// A file with the bearer token for the log.
    #[arg(long, env = "RUNSEAL_TOKEN")]
    token: Option<PathBuf>,
    /// Write a fraud proof here when the log is caught with two histories.
    #[arg(long, env = "RUNSEAL_FRAUD_PROOF")]
    fraud_proof: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct WatchArgs {
    #[command(flatten)]
    trust: TrustArgs,
    /// What is remembered from audit to audit; made where it does not exist.
    #[arg(long, env = "RUNSEAL_HISTORY")]
    history: PathBuf,
    /// Keep no entries in the history.
    #[arg(long, env = "RUNSEAL_HISTORY_LIGHT", value_parser = FalseyValueParser::new())]
    history_light: bool,
    /// Watch only this log; repeatable. Else every log of the policy that has a URL.
    #[arg(long, env = "RUNSEAL_LOG")]
    log: Vec<String>,
    /// Where the records of all tenants are: http(s)://…/audit, to which each log's tenant is added.
    #[arg(long, env = "RUNSEAL_RECORDS_BASE")]
    records_base: Option<String>,
    /// The vkey of a key that signs records; repeatable.
    #[arg(long, env = "RUNSEAL_RECORD_KEY", value_parser = record_key)]
    record_key: Vec<RecordVerifier>,
    /// A file with the bearer token for the logs and the records.
    #[arg(long, env = "RUNSEAL_TOKEN")]
    token: Option<PathBuf>,
    /// From the end of one audit to the start of the next.
    #[arg(long, env = "RUNSEAL_INTERVAL", default_value = "1m", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// Without a complete audit for this long a log is silent. Ten intervals where it is not given.
    #[arg(long, env = "RUNSEAL_SILENCE", value_parser = humantime::parse_duration)]
    silence: Option<Duration>,
    /// The oldest that the newest cosignature may be.
    #[arg(long, env = "RUNSEAL_MAX_AGE", value_parser = humantime::parse_duration)]
    max_age: Option<Duration>,
    /// Serve /metrics and /healthz here.
    #[arg(long, env = "RUNSEAL_LISTEN")]
    listen: Option<std::net::SocketAddr>,
    /// Rewrite this file after every audit.
    #[arg(long, env = "RUNSEAL_HEARTBEAT")]
    heartbeat: Option<PathBuf>,
    /// Run this program for each alert, with the alert as JSON on its stdin.
    #[arg(long, env = "RUNSEAL_ALERT_COMMAND")]
    alert_command: Option<String>,
    /// POST each alert as JSON to this address.
    #[arg(long, env = "RUNSEAL_ALERT_URL")]
    alert_url: Option<String>,
    /// Send one marked test alert and stop.
    #[arg(long, env = "RUNSEAL_TEST_ALERT", value_parser = FalseyValueParser::new())]
    test_alert: bool,
    /// Write fraud proofs into this folder.
    #[arg(long, env = "RUNSEAL_FRAUD_PROOFS")]
    fraud_proofs: Option<PathBuf>,
    /// Fetches at a time, for each log.
    #[arg(long, env = "RUNSEAL_JOBS", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Longest time for one audit; what was verified by then is kept.
    #[arg(long, env = "RUNSEAL_TIMEOUT", default_value = "6h", value_parser = humantime::parse_duration)]
    timeout: Duration,
}

#[derive(Debug, Args)]
struct FraudArgs {
    /// The fraud proof file.
    file: PathBuf,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct HistoryArgs {
    /// The history file.
    #[arg(long, env = "RUNSEAL_HISTORY")]
    history: PathBuf,
    /// Only this log.
    #[arg(long, env = "RUNSEAL_LOG")]
    log: Option<String>,
    /// One JSON object a line.
    #[arg(long, env = "RUNSEAL_JSON", value_parser = FalseyValueParser::new())]
    json: bool,
}

#[derive(Debug, Args)]
struct TrustArgs {
    /// The tlog-policy file: log keys, witnesses, quorum.
    #[arg(long, env = "RUNSEAL_POLICY")]
    policy: PathBuf,
}

#[derive(Debug, Args)]
struct OutputArgs {
    /// Write the report as JSON to a file, or - for stdout.
    #[arg(long, env = "RUNSEAL_JSON")]
    json: Option<PathBuf>,
    /// Write the report as one self-contained page.
    #[arg(long, env = "RUNSEAL_HTML")]
    html: Option<PathBuf>,
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
    match dispatch(&cli) {
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
        Verb::Watch(args) => watch(args, cli.quiet),
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
    let token = args
        .token
        .as_deref()
        .map(|path| Ok::<_, Failure>(Token::new(&file::read_secret(path, "token file", 4096)?)?));
    let token = token.transpose()?;
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
    hand_out(args.fraud_proof.as_deref(), &audited, quiet)?;
    let timeline = match &audit.history {
        Some(history) => timeline::remembered(&history.log(&audit.origin)?, &audit.trust.policy)?,
        None => Vec::new(),
    };
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
    hand_out(args.fraud_proof.as_deref(), &audited, quiet)?;
    print(&audited.report, &[], &args.output, quiet)
}

fn watch(args: &WatchArgs, quiet: bool) -> Result<u8, Failure> {
    if args.interval < INTERVAL_MIN {
        return Err(Failure::Usage("--interval is shorter than 10ms; no log can be audited that often"));
    }
    let trust = Trust::load(&args.trust.policy)?;
    let token = token(args.token.as_deref())?;
    let mut hooks: Vec<Hook> = args.alert_command.iter().cloned().map(Hook::Command).collect();
    if let Some(location) = &args.alert_url {
        let refuse =
            |reason: url::ParseError| SourceError::Url { url: location.clone(), reason: reason.to_string() };
        let url = url::Url::parse(location).map_err(refuse)?;
        hooks.push(Hook::Post(Box::new(Client::new(None)?), url));
    }
    let history = Arc::new(History::open_or_create(&args.history, args.history_light)?);
    let audits = watched(args, &trust, token.as_ref(), &history)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let silence = args.silence.unwrap_or(args.interval.saturating_mul(10));
    let origins = audits.iter().map(|audit| audit.origin.clone());
    let status = Arc::new(Status::new(origins, silence, clock.now()));
    let (heartbeat, fraud_proofs) = (args.heartbeat.clone(), args.fraud_proofs.clone());
    let watch = Watch { audits, history, interval: args.interval, hooks, heartbeat, fraud_proofs };
    runtime()?.block_on(async {
        if args.test_alert {
            return test_alert(&watch, clock.now()).await;
        }
        // Asked for before anything else, so that no signal is missed.
        let mut terminate =
            signal(SignalKind::terminate()).map_err(|error| Failure::Internal(error.to_string()))?;
        let mut interrupt =
            signal(SignalKind::interrupt()).map_err(|error| Failure::Internal(error.to_string()))?;
        let (say_stop, stop) = tokio::sync::watch::channel(false);
        if let Some(address) = args.listen {
            let (local, _) = metrics::serve(address, Arc::clone(&status), Arc::clone(&clock)).await?;
            if !quiet {
                eprintln!("metrics at http://{local}/metrics");
            }
        }
        if !quiet {
            let origins: Vec<&str> = watch.audits.iter().map(|audit| audit.origin.as_str()).collect();
            eprintln!("watching {} every {}", origins.join(", "), humantime::format_duration(args.interval));
        }
        let watching = watch.run(&status, &clock, stop);
        tokio::pin!(watching);
        tokio::select! {
            ended = &mut watching => return ended.map(|()| 0),
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = say_stop.send(true);
        watching.await.map(|()| 0)
    })
}

/// One audit for each watched log.
fn watched(
    args: &WatchArgs,
    trust: &Trust,
    token: Option<&Token>,
    history: &Arc<History>,
) -> Result<Vec<Audit>, Failure> {
    let mut origins: Vec<&str> = if args.log.is_empty() {
        trust.policy.logs().iter().filter(|log| log.url().is_some()).map(PolicyLog::origin).collect()
    } else {
        args.log.iter().map(|log| trust.choose(Some(log))).collect::<Result<_, _>>()?
    };
    origins.sort_unstable();
    origins.dedup();
    if origins.is_empty() {
        return Err(Failure::Usage("no log of the policy has a URL, so there is nothing to watch"));
    }
    let audit = |origin: &str| {
        // Without its entries a directory can be audited like any other log, but not read.
        let directory = directory::base_of(origin).filter(|_| !args.history_light);
        let records = args.records_base.as_deref().filter(|_| directory.is_none()).map(|base| {
            let tenant = Base::tenant_of(origin);
            let tenant = tenant
                .ok_or(Failure::Usage("--records-base serves logs of planes, and one of these is none"))?;
            let prefix = format!("{}/{tenant}", base.trim_end_matches('/'));
            Ok::<_, Failure>(Records::Http(RecordSource::open(&prefix, token.cloned())?))
        });
        Ok(Audit {
            trust: trust.clone(),
            origin: origin.to_owned(),
            source: LogSource::open(trust.url(origin)?, token.cloned())?,
            history: Some(Arc::clone(history)),
            records: records.transpose()?,
            directory,
            against: against(&args.record_key, None)?,
            max_age: args.max_age,
            jobs: usize::from(args.jobs),
            timeout: args.timeout,
        })
    };
    origins.into_iter().map(audit).collect()
}

async fn test_alert(watch: &Watch, time: u64) -> Result<u8, Failure> {
    if watch.hooks.is_empty() {
        return Err(Failure::Usage("there is nobody to tell: give --alert-command or --alert-url"));
    }
    let origin = watch.audits.iter().map(|audit| audit.origin.clone()).collect::<Vec<_>>().join(", ");
    let detail = "this is a test: alerts of runseal-verifier arrive here".to_owned();
    let alert = Alert { alert: 1, event: Event::Test, origin, time, finding: None, detail };
    for hook in &watch.hooks {
        hook.tell(&alert).await?;
    }
    Ok(0)
}

fn token(path: Option<&Path>) -> Result<Option<Token>, Failure> {
    let token = path.map(|path| Ok::<_, Failure>(Token::new(&file::read_secret(path, "token file", 4096)?)?));
    token.transpose()
}

/// Writes the fraud proof, if there is one and it was asked for.
fn hand_out(path: Option<&Path>, audited: &Audited, quiet: bool) -> Result<(), Failure> {
    if let (Some(path), Some(fraud)) = (path, &audited.fraud) {
        file::write(path, fraud.to_string().as_bytes())?;
        if !quiet {
            eprintln!("the fraud proof is in {}", path.display());
        }
    }
    Ok(())
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

/// Writes the report where it was asked for, and answers the exit code of its verdict.
fn print(report: &Report, timeline: &[Point], output: &OutputArgs, quiet: bool) -> Result<u8, Failure> {
    let taken = write_out(report, timeline, output)?;
    if !quiet {
        let terminal = match taken {
            Stdout::Taken => io::stderr().is_terminal(),
            Stdout::Free => io::stdout().is_terminal(),
        };
        let colour = if terminal { Colour::On } else { Colour::Off };
        to_people(&report_text::render(report, colour), taken)?;
    }
    Ok(report.verdict().exit_code())
}

/// Whether a report for scripts went to stdout.
#[derive(Clone, Copy)]
enum Stdout {
    Free,
    Taken,
}

fn to_people(text: &str, stdout: Stdout) -> Result<(), Failure> {
    match stdout {
        Stdout::Free => to_stdout(text.as_bytes()),
        Stdout::Taken => {
            let _ = io::stderr().write_all(text.as_bytes());
            Ok(())
        }
    }
}

fn write_out(report: &Report, timeline: &[Point], output: &OutputArgs) -> Result<Stdout, Failure> {
    if let Some(path) = &output.html {
        let now = SystemClock.now();
        let alone = timeline::of_report(report, now);
        let timeline = if timeline.is_empty() { &alone } else { timeline };
        file::write(path, report_html::render(report, timeline, now).as_bytes())?;
    }
    let mut stdout = Stdout::Free;
    if let Some(path) = &output.json {
        let mut json = serde_json::to_vec(report)
            .map_err(|error| Failure::Internal(format!("the report does not serialise: {error}")))?;
        json.push(b'\n');
        if path == Path::new("-") {
            stdout = Stdout::Taken;
            to_stdout(&json)?;
        } else {
            file::write(path, &json)?;
        }
    }
    Ok(stdout)
}

fn to_stdout(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        // A reader who has seen enough is no failure of ours.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|source| Failure::Write { path: PathBuf::from("stdout"), source }),
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

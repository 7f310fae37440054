//! What each command takes.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;
use runseal_evidence::signature::RecordVerifier;

use crate::steps::record_key;

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    pub(super) trust: TrustArgs,
    /// The log's origin; needed when the policy lists several logs.
    #[arg(long, env = "RUNSEAL_LOG")]
    pub(super) log: Option<String>,
    /// Audit the directory of a plane, the policy's log <base>/log/_directory, and hold the tenants and keys it
    /// lists against the policy's logs and those that the history remembers.
    #[arg(
        long,
        env = "RUNSEAL_DIRECTORY",
        value_parser = FalseyValueParser::new(),
        conflicts_with_all = ["records", "record_key", "steps", "history_light"],
    )]
    pub(super) directory: bool,
    /// Where the log is: a tlog-tiles prefix, or a directory. Else the URL on the policy's log line.
    #[arg(long, env = "RUNSEAL_URL")]
    pub(super) url: Option<String>,
    /// What is remembered from audit to audit; made where it does not exist.
    #[arg(long, env = "RUNSEAL_HISTORY")]
    pub(super) history: Option<PathBuf>,
    /// Keep no entries in the history: half the size or less, but vanished runs have no names.
    #[arg(long, env = "RUNSEAL_HISTORY_LIGHT", value_parser = FalseyValueParser::new(), requires = "history")]
    pub(super) history_light: bool,
    /// Where records are: an audit prefix (http(s)://…/audit/<tenant>) or an export file.
    #[arg(long, env = "RUNSEAL_RECORDS")]
    pub(super) records: Option<String>,
    /// The vkey of a key that signs records; repeatable. With any, every record must carry a signature.
    #[arg(long, env = "RUNSEAL_RECORD_KEY", value_parser = record_key)]
    pub(super) record_key: Vec<RecordVerifier>,
    /// The file of the tenant's steps, to be held against what its runs concluded with.
    #[arg(long, env = "RUNSEAL_STEPS", value_name = "FILE", requires = "records")]
    pub(super) steps: Option<PathBuf>,
    /// A file with the bearer token for the log and the records.
    #[arg(long, env = "RUNSEAL_TOKEN")]
    pub(super) token: Option<PathBuf>,
    /// The oldest that the newest cosignature may be.
    #[arg(long, env = "RUNSEAL_MAX_AGE", value_parser = humantime::parse_duration)]
    pub(super) max_age: Option<Duration>,
    /// Write a fraud proof here when the log is caught with two histories.
    #[arg(long, env = "RUNSEAL_FRAUD_PROOF")]
    pub(super) fraud_proof: Option<PathBuf>,
    /// Pieces of the log fetched at a time, each by up to 8 requests.
    #[arg(long, env = "RUNSEAL_JOBS", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) jobs: u16,
    /// Longest time for one audit; what was verified by then is kept.
    #[arg(long, env = "RUNSEAL_TIMEOUT", default_value = "6h", value_parser = humantime::parse_duration)]
    pub(super) timeout: Duration,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The export file.
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) trust: TrustArgs,
    /// A checkpoint note from elsewhere: a witness, another auditor, an earlier day.
    #[arg(long, env = "RUNSEAL_CHECKPOINT")]
    pub(super) checkpoint: Option<PathBuf>,
    /// The vkey of a key that signs records; repeatable. With any, every record must carry a signature.
    #[arg(long, env = "RUNSEAL_RECORD_KEY", value_parser = record_key)]
    pub(super) record_key: Vec<RecordVerifier>,
    /// The file of the tenant's steps, to be held against what its runs concluded with.
    #[arg(long, env = "RUNSEAL_STEPS", value_name = "FILE")]
    pub(super) steps: Option<PathBuf>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(super) struct ProofArgs {
    /// The proof file.
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) trust: TrustArgs,
    /// The origin of the log that the entry must be in; else any that the policy lists.
    #[arg(long, env = "RUNSEAL_LOG")]
    pub(super) log: Option<String>,
    /// The entry, a file or - for stdin; else the proof's extra line holds it.
    #[arg(long, env = "RUNSEAL_ENTRY")]
    pub(super) entry: Option<PathBuf>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(super) struct WitnessesArgs {
    #[command(flatten)]
    pub(super) trust: TrustArgs,
    /// The log's origin; needed when the policy lists several logs.
    #[arg(long, env = "RUNSEAL_LOG")]
    pub(super) log: Option<String>,
    /// Where the log is: a tlog-tiles prefix, or a directory. Else the URL on the policy's log line.
    #[arg(long, env = "RUNSEAL_URL")]
    pub(super) url: Option<String>,
    /// What is remembered of the log.
    #[arg(long, env = "RUNSEAL_HISTORY")]
    pub(super) history: Option<PathBuf>,
    /// A file with the bearer token for the log.
    #[arg(long, env = "RUNSEAL_TOKEN")]
    pub(super) token: Option<PathBuf>,
    /// Write a fraud proof here when the log is caught with two histories.
    #[arg(long, env = "RUNSEAL_FRAUD_PROOF")]
    pub(super) fraud_proof: Option<PathBuf>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    #[command(flatten)]
    pub(super) trust: TrustArgs,
    /// What is remembered from audit to audit; made where it does not exist.
    #[arg(long, env = "RUNSEAL_HISTORY")]
    pub(super) history: PathBuf,
    /// Keep no entries in the history.
    #[arg(long, env = "RUNSEAL_HISTORY_LIGHT", value_parser = FalseyValueParser::new())]
    pub(super) history_light: bool,
    /// Watch only this log; repeatable. Else every log of the policy that has a URL.
    #[arg(long, env = "RUNSEAL_LOG")]
    pub(super) log: Vec<String>,
    /// Where the records of all tenants are: http(s)://…/audit, to which each log's tenant is added.
    #[arg(long, env = "RUNSEAL_RECORDS_BASE")]
    pub(super) records_base: Option<String>,
    /// The vkey of a key that signs records; repeatable.
    #[arg(long, env = "RUNSEAL_RECORD_KEY", value_parser = record_key)]
    pub(super) record_key: Vec<RecordVerifier>,
    /// A file with the bearer token for the logs and the records.
    #[arg(long, env = "RUNSEAL_TOKEN")]
    pub(super) token: Option<PathBuf>,
    /// From the end of one audit to the start of the next.
    #[arg(long, env = "RUNSEAL_INTERVAL", default_value = "1m", value_parser = humantime::parse_duration)]
    pub(super) interval: Duration,
    /// Without a complete audit for this long a log is silent. Ten intervals where it is not given.
    #[arg(long, env = "RUNSEAL_SILENCE", value_parser = humantime::parse_duration)]
    pub(super) silence: Option<Duration>,
    /// The oldest that the newest cosignature may be.
    #[arg(long, env = "RUNSEAL_MAX_AGE", value_parser = humantime::parse_duration)]
    pub(super) max_age: Option<Duration>,
    /// Serve /metrics and /healthz here.
    #[arg(long, env = "RUNSEAL_LISTEN")]
    pub(super) listen: Option<std::net::SocketAddr>,
    /// Rewrite this file after every audit.
    #[arg(long, env = "RUNSEAL_HEARTBEAT")]
    pub(super) heartbeat: Option<PathBuf>,
    /// Run this program for each alert, with the alert as JSON on its stdin.
    #[arg(long, env = "RUNSEAL_ALERT_COMMAND")]
    pub(super) alert_command: Option<String>,
    /// POST each alert as JSON to this address.
    #[arg(long, env = "RUNSEAL_ALERT_URL")]
    pub(super) alert_url: Option<String>,
    /// Send one marked test alert and stop.
    #[arg(long, env = "RUNSEAL_TEST_ALERT", value_parser = FalseyValueParser::new())]
    pub(super) test_alert: bool,
    /// Write fraud proofs into this folder.
    #[arg(long, env = "RUNSEAL_FRAUD_PROOFS")]
    pub(super) fraud_proofs: Option<PathBuf>,
    /// Pieces of a log fetched at a time, each by up to 8 requests.
    #[arg(long, env = "RUNSEAL_JOBS", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) jobs: u16,
    /// Longest time for one audit; what was verified by then is kept.
    #[arg(long, env = "RUNSEAL_TIMEOUT", default_value = "6h", value_parser = humantime::parse_duration)]
    pub(super) timeout: Duration,
}

#[derive(Debug, Args)]
pub(super) struct FraudArgs {
    /// The fraud proof file.
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) trust: TrustArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(super) struct HistoryArgs {
    /// The history file.
    #[arg(long, env = "RUNSEAL_HISTORY")]
    pub(super) history: PathBuf,
    /// Only this log.
    #[arg(long, env = "RUNSEAL_LOG")]
    pub(super) log: Option<String>,
    /// One JSON object a line.
    #[arg(long, env = "RUNSEAL_JSON", value_parser = FalseyValueParser::new())]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct TrustArgs {
    /// The tlog-policy file: log keys, witnesses, quorum.
    #[arg(long, env = "RUNSEAL_POLICY")]
    pub(super) policy: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    /// Write the report as JSON to a file, or - for stdout.
    #[arg(long, env = "RUNSEAL_JSON")]
    pub(super) json: Option<PathBuf>,
    /// Write the report as one self-contained page.
    #[arg(long, env = "RUNSEAL_HTML")]
    pub(super) html: Option<PathBuf>,
}

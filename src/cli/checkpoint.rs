use std::{path::PathBuf, sync::Arc};

use runseal_tlog::policy::Policy;

use super::{CliError, Exit, output::Output, plane::LogArgs};
use crate::{
    Log,
    witnessing::{
        self, Alarm, Client, Failure, OnShortfall, Patience, Publication, Quorum, REQUEST_TIMEOUT, Terms,
        compare_with_witnesses,
    },
};

/// Take a checkpoint of a tenant's log: sign it, have it cosigned, publish it and print it.
///
/// Every open run that grew since its last head is pinned first. A tree that does not extend the last
/// checkpoint signed is never signed, and where a witness says that the log contradicts itself nothing is
/// published, whatever the other witnesses say; both end with exit code 1.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  runseal checkpoint --dir plane --tenant acme --policy trust.policy")]
pub(super) struct Args {
    #[command(flatten)]
    log: LogArgs,

    #[command(flatten)]
    witnesses: WitnessArgs,
}

/// Who cosigns, and what happens when too few do.
#[derive(Debug, clap::Args)]
pub(super) struct WitnessArgs {
    /// The witnesses to ask and the quorum to reach: a c2sp.org/tlog-policy file.
    #[arg(long, env = "RUNSEAL_POLICY", value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,

    /// What to do with a checkpoint whose quorum is not met.
    #[arg(long, env = "RUNSEAL_ON_SHORTFALL", value_enum, default_value_t = Shortfall::Hold)]
    pub(super) on_shortfall: Shortfall,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Shortfall {
    /// Publish nothing.
    Hold,
    /// Publish it with the cosignatures there are.
    Publish,
}

impl From<Shortfall> for OnShortfall {
    fn from(shortfall: Shortfall) -> Self {
        match shortfall {
            Shortfall::Hold => Self::Hold,
            Shortfall::Publish => Self::Publish,
        }
    }
}

impl WitnessArgs {
    /// Reads the policy, where one is named.
    pub(super) fn read(&self) -> Result<Option<Policy>, CliError> {
        let Some(path) = &self.policy else { return Ok(None) };
        let text = std::fs::read(path).map_err(|error| CliError::Input { path: path.clone(), error })?;
        let policy = Policy::parse(&text).map_err(|error| CliError::Policy { path: path.clone(), error })?;
        Ok(Some(policy))
    }
}

/// A policy that lists this log under another key is not the policy of this log.
pub(super) fn check_log_key(policy: &Policy, origin: &str, vkey: &str) -> Result<(), CliError> {
    let listed: Vec<String> = policy.log_keys(origin).map(ToString::to_string).collect();
    if listed.is_empty() || listed.iter().any(|key| key == vkey) {
        return Ok(());
    }
    Err(CliError::PolicyKey { listed: listed.join(" and "), own: vkey.to_owned() })
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let policy = args.witnesses.read()?;
    let journal = args.log.tenant.plane.open()?;
    let served = args.log.of(&journal);
    if !args.log.directory {
        args.log.tenant.warn_if_unknown(&journal, output)?;
    }
    let log = Arc::new(served.log().clone());
    if let Some(policy) = &policy {
        check_log_key(policy, &log.origin(), &log.vkey().to_string())?;
    }
    // The plane's own memory first: what it contradicts needs no witness to be wrong.
    log.compare_with_memory()?;
    let client = Client::new(REQUEST_TIMEOUT)?;
    let runtime = runtime()?;
    if let Some(policy) = &policy {
        let alarms = runtime.block_on(compare_with_witnesses(&client, policy, &log))?;
        if !alarms.is_empty() {
            return conclude(Publication::Alarmed { alarms, failures: Vec::new() }, &log, output);
        }
    }
    served.pin_heads()?;
    let signed = log.sign_checkpoint()?;
    let terms = policy.as_ref().map(|policy| Terms {
        policy,
        on_shortfall: args.witnesses.on_shortfall.into(),
        patience: Patience::All,
    });
    conclude(runtime.block_on(witnessing::publish(&client, terms, &log, signed))?, &log, output)
}

fn conclude(publication: Publication, log: &Log, output: &Output) -> Result<Exit, CliError> {
    match publication {
        Publication::Published { note, quorum, failures } => {
            tell_failures(&failures, output);
            if quorum == Quorum::Missed {
                output.tell("warning: published without the quorum the policy asks for");
            }
            output.data(|out| {
                std::io::Write::write_all(out, note.to_string().as_bytes()).map_err(CliError::Stdout)
            })?;
            Ok(Exit::Done)
        }
        Publication::Held { cosigned, failures } => {
            tell_failures(&failures, output);
            Err(CliError::QuorumMissed { cosigned })
        }
        Publication::Alarmed { alarms, failures } => {
            tell_failures(&failures, output);
            tell_alarms(&alarms, output);
            Err(CliError::Alarmed { origin: log.origin() })
        }
    }
}

fn tell_failures(failures: &[Failure], output: &Output) {
    for failure in failures {
        output.tell(format_args!("warning: {failure}"));
    }
}

fn tell_alarms(alarms: &[Alarm], output: &Output) {
    for alarm in alarms {
        output.tell(alarm);
    }
}

/// What a one-shot command runs its requests on.
fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)
}

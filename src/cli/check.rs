use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use runseal_evidence::amount::amount;

use super::{CliError, Exit, check_steps::check_steps, output::Output, plane::PlaneArgs};
use crate::{
    CheckPart, CheckProgress, CheckReport, Corruption, Journal, OpenOptions, RebuildError, RebuildReport,
    evidence::name::TenantId, serve::DIRECTORY,
};

/// Check everything the journal holds against itself.
///
/// Every chain, index, tile and counter is recomputed and compared; the first contradiction of each tenant is
/// located, and ends with exit code 1. This is the operator's own check: it finds damage and careless
/// tampering. Whether the history is the one that was promised is for an auditor and the witnesses to say.
///
/// Where an index or a tile is damaged and the records and entries are not, --rebuild-indexes makes it anew.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  runseal check --dir plane\n  runseal check --dir plane --tenant acme --steps acme.steps\n  runseal check --dir plane --rebuild-indexes"
)]
pub(super) struct Args {
    #[command(flatten)]
    plane: PlaneArgs,

    /// Check this tenant alone.
    #[arg(long, env = "RUNSEAL_TENANT", value_name = "TENANT")]
    tenant: Option<TenantId>,

    /// Also hold the tenant's concluded runs against this file of their steps, which is not changed.
    #[arg(long, env = "RUNSEAL_STEPS", value_name = "FILE", requires = "tenant")]
    steps: Option<PathBuf>,

    /// Of a tenant that contradicts itself, make all indexes, tiles and counters anew from its records and entries,
    /// and check it again. These are verified first; where they are damaged, nothing is changed.
    #[arg(long, env = "RUNSEAL_REBUILD_INDEXES", value_parser = BoolishValueParser::new())]
    rebuild_indexes: bool,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let mut journal = args.plane.open_as(OpenOptions::for_check())?;
    let mut logs: Vec<Option<TenantId>> = match &args.tenant {
        Some(tenant) if !journal.tenants()?.contains(tenant) => {
            return Err(CliError::UnknownTenant { tenant: tenant.clone() });
        }
        Some(tenant) => vec![Some(tenant.clone())],
        None => journal.tenants()?.into_iter().map(Some).collect(),
    };
    // The directory is the plane's, not a tenant's.
    if args.tenant.is_none() {
        logs.push(None);
    }
    let mut ended = Vec::new();
    for log in &logs {
        let mut contradiction = check(&journal, log.as_ref(), output)?;
        if args.rebuild_indexes && contradiction.is_some() {
            // Nobody else may use the journal while it is rebuilt, this process included.
            drop(journal);
            let rebuilt = rebuild(args, log.as_ref(), output)?;
            journal = args.plane.open_as(OpenOptions::for_check())?;
            if rebuilt {
                contradiction = check(&journal, log.as_ref(), output)?;
            }
        }
        ended.push(match contradiction {
            None => remembers(&journal, log.as_ref(), output)?,
            Some(newer) if newer.fault.is_skew() => Exit::Unfinished,
            Some(_) => Exit::Finding,
        });
        if let (Some(tenant), Some(file)) = (log, &args.steps) {
            let sound = check_steps(&journal.tenant(tenant), file, output)?;
            ended.push(if sound { Exit::Done } else { Exit::Finding });
        }
    }
    let checked = ended.len();
    let [unsound, unread] =
        [Exit::Finding, Exit::Unfinished].map(|as_this| ended.iter().filter(|end| **end == as_this).count());
    if unsound > 0 {
        Err(CliError::CheckFailed { unsound, checked })
    } else if unread > 0 {
        Err(CliError::CheckUnfinished { unread, checked })
    } else {
        Ok(Exit::Done)
    }
}

/// Holds a log that is sound in itself against what the plane remembers of having signed: it may be an older one.
fn remembers(journal: &Journal, log: Option<&TenantId>, output: &Output) -> Result<Exit, CliError> {
    let compared = match log {
        Some(tenant) => journal.tenant(tenant).compare_with_memory(),
        None => journal.directory().compare_with_memory(),
    };
    let Err(error) = compared.map_err(CliError::from) else { return Ok(Exit::Done) };
    match error.exit() {
        end @ (Exit::Finding | Exit::Unfinished) => {
            output.line(format_args!("{}: {error}", name(log)))?;
            Ok(end)
        }
        _ => Err(error),
    }
}

fn name(log: Option<&TenantId>) -> &str {
    log.map_or(DIRECTORY, TenantId::as_str)
}

/// Checks one tenant, or without one the directory, and answers the first contradiction.
fn check(journal: &Journal, log: Option<&TenantId>, output: &Output) -> Result<Option<Corruption>, CliError> {
    let name = name(log);
    let report = with_bar(name, output, |progress| match log {
        Some(tenant) => journal.tenant(tenant).check(progress),
        None => journal.check_directory(progress),
    });
    let CheckReport { entries, runs, records, bytes, contradiction, .. } = report?;
    let counts = format!("{}, {} hashed", amounts(entries, runs, records), HumanBytes(bytes));
    match &contradiction {
        None => output.line(format_args!("{name}: sound; {counts}"))?,
        Some(contradiction) => {
            output.line(format_args!("{name}: {contradiction}; checked until then: {counts}"))?;
        }
    }
    Ok(contradiction)
}

fn amounts(entries: u64, runs: u64, records: u64) -> String {
    [amount(entries, "entry"), amount(runs, "run"), amount(records, "record")].join(", ")
}

/// Makes anew what is derived, and answers whether it could: from damaged evidence nothing is made.
fn rebuild(args: &Args, log: Option<&TenantId>, output: &Output) -> Result<bool, CliError> {
    let (dir, name) = (&args.plane.dir, name(log));
    let options = args.plane.options(OpenOptions::default());
    let report = with_bar(name, output, |progress| match log {
        Some(tenant) => Journal::rebuild_indexes(dir, &options, tenant, progress),
        None => Journal::rebuild_directory(dir, &options),
    });
    let RebuildReport { entries, runs, records, claims_dropped } = match report {
        Ok(report) => report,
        Err(RebuildError::Open(error)) => return Err(error.into()),
        Err(RebuildError::Store(error)) => return Err(error.into()),
        Err(refused @ (RebuildError::Damaged(_) | RebuildError::Newer(_))) => {
            output.line(format_args!("{name}: indexes not made anew: {refused}"))?;
            return Ok(false);
        }
    };
    output.line(format_args!("{name}: indexes made anew from {}", amounts(entries, runs, records)))?;
    if claims_dropped > 0 {
        let dropped = amount(claims_dropped, "admission key");
        output.line(format_args!("{name}: dropped {dropped} that no record bears out"))?;
    }
    Ok(true)
}

/// Runs something that tells how far it is, with a bar on a terminal.
fn with_bar<T>(name: &str, output: &Output, work: impl FnOnce(&mut dyn FnMut(CheckProgress)) -> T) -> T {
    let bar = if output.draws_progress() { ProgressBar::no_length() } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{prefix} {spinner} {msg} {wide_bar} {bytes} {bytes_per_sec}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(name.to_owned());
    let (mut entries, mut records) = (String::new(), String::new());
    let done = work(&mut |progress: CheckProgress| {
        let CheckProgress { part, done, total, bytes } = progress;
        match part {
            CheckPart::Entries => {
                entries = total.map_or_else(|| format!("{done}"), |total| format!("{done}/{total}"));
            }
            CheckPart::Records => records = done.to_string(),
            CheckPart::Indexes => {}
        }
        bar.set_message(format!("entries {entries} records {records}"));
        bar.set_position(bytes);
    });
    bar.finish_and_clear();
    done
}

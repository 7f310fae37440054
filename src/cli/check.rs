use std::path::PathBuf;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use super::{CliError, Exit, check_steps::check_steps, output::Output, plane::PlaneArgs};
use crate::{CheckProgress, CheckReport, StoreError, evidence::name::TenantId, serve::DIRECTORY};

/// Check everything the journal holds against itself.
///
/// Every chain, index, tile and counter is recomputed and compared; the first contradiction of each tenant is
/// located, and ends with exit code 1. This is the operator's own check: it finds damage and careless
/// tampering. Whether the history is the one that was promised is for an auditor and the witnesses to say.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  runseal check --dir plane\n  runseal check --dir plane --tenant acme --steps acme.steps"
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
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let journal = args.plane.open()?;
    let tenants = match &args.tenant {
        Some(tenant) if !journal.tenants()?.contains(tenant) => {
            return Err(CliError::UnknownTenant { tenant: tenant.clone() });
        }
        Some(tenant) => vec![tenant.clone()],
        None => journal.tenants()?,
    };
    let mut sound = Vec::new();
    for name in &tenants {
        let tenant = journal.tenant(name);
        sound.push(check(name.as_str(), output, |progress| tenant.check(progress))?);
        if let Some(file) = &args.steps {
            sound.push(check_steps(&tenant, file, output)?);
        }
    }
    // The directory is the plane's, not a tenant's.
    if args.tenant.is_none() {
        sound.push(check(DIRECTORY, output, |progress| journal.check_directory(progress))?);
    }
    match sound.iter().filter(|sound| !**sound).count() {
        0 => Ok(Exit::Done),
        unsound => Err(CliError::CheckFailed { unsound, checked: sound.len() }),
    }
}

/// Checks one tenant or the directory, and answers whether it is sound.
fn check(
    name: &str,
    output: &Output,
    check: impl FnOnce(&mut dyn FnMut(CheckProgress)) -> Result<CheckReport, StoreError>,
) -> Result<bool, CliError> {
    let bar = if output.draws_progress() { ProgressBar::no_length() } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{prefix} {msg} {pos}/{len} {wide_bar} {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(name.to_owned());
    let report = check(&mut |progress: CheckProgress| {
        bar.set_message(format!("{:?}", progress.part).to_lowercase());
        if let Some(total) = progress.total {
            bar.set_length(total);
        }
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    let CheckReport { entries, runs, records, bytes, contradiction } = report?;
    let counts = format!("{entries} entries, {runs} runs, {records} records, {} hashed", HumanBytes(bytes));
    match &contradiction {
        None => output.line(format_args!("{name}: sound; {counts}"))?,
        Some(contradiction) => {
            output.line(format_args!("{name}: {contradiction}; checked until then: {counts}"))?;
        }
    }
    Ok(contradiction.is_none())
}

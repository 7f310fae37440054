use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use super::{CliError, Exit, output::Output, plane::PlaneArgs};
use crate::{CheckProgress, Tenant, evidence::name::TenantId};

/// Check everything the journal holds against itself.
///
/// Every chain, index, tile and counter is recomputed and compared; the first contradiction of each tenant is
/// located, and ends with exit code 1. This is the operator's own check: it finds damage and careless
/// tampering. Whether the history is the one that was promised is for an auditor and the witnesses to say.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  runseal check --dir plane")]
pub(super) struct Args {
    #[command(flatten)]
    plane: PlaneArgs,

    /// Check this tenant alone.
    #[arg(long, env = "RUNSEAL_TENANT", value_name = "TENANT")]
    tenant: Option<TenantId>,
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
    let mut unsound = 0;
    for tenant in &tenants {
        let sound = check(&journal.tenant(tenant), output)?;
        unsound += usize::from(!sound);
    }
    match unsound {
        0 => Ok(Exit::Done),
        _ => Err(CliError::CheckFailed { unsound, tenants: tenants.len() }),
    }
}

fn check(tenant: &Tenant, output: &Output) -> Result<bool, CliError> {
    let bar = if output.draws_progress() { ProgressBar::no_length() } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{prefix} {msg} {pos}/{len} {wide_bar} {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(tenant.id().to_string());
    let report = tenant.check(&mut |progress: CheckProgress| {
        bar.set_message(format!("{:?}", progress.part).to_lowercase());
        if let Some(total) = progress.total {
            bar.set_length(total);
        }
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    let report = report?;
    let counts = format!(
        "{} entries, {} runs, {} records, {} hashed",
        report.entries,
        report.runs,
        report.records,
        HumanBytes(report.bytes)
    );
    match &report.contradiction {
        None => output.line(format_args!("{}: sound; {counts}", tenant.id()))?,
        Some(contradiction) => {
            output.line(format_args!("{}: {contradiction}; checked until then: {counts}", tenant.id()))?;
        }
    }
    Ok(report.is_sound())
}

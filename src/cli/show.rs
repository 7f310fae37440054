use std::io::Write as _;

use runseal_evidence::name::RunId;

use super::{CliError, Exit, output::Output, plane::TenantArgs};
use crate::listing::RecordPages;

/// Print a run's records as export lines, as they are stored.
///
/// Nothing is verified here, so that a damaged record can be looked at; "runseal check" and an auditor verify.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  runseal show --dir plane --tenant acme refund-4471")]
pub(super) struct Args {
    #[command(flatten)]
    tenant: TenantArgs,

    /// The run.
    #[arg(value_name = "RUN")]
    run: RunId,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let journal = args.tenant.plane.open()?;
    let tenant = journal.tenant(&args.tenant.tenant);
    let mut pages = RecordPages::of(args.run.clone());
    output.data(|out| {
        while let Some(page) = pages.next_page(&tenant)? {
            out.write_all(&page).map_err(CliError::Stdout)?;
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

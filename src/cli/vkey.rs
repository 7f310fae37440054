use super::{CliError, Exit, output::Output, plane::TenantArgs};

/// Print the verifier key of a tenant's log.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  runseal vkey --dir plane --tenant acme")]
pub(super) struct Args {
    #[command(flatten)]
    tenant: TenantArgs,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let journal = args.tenant.plane.open()?;
    output.line(journal.tenant(&args.tenant.tenant).vkey())?;
    Ok(Exit::Done)
}

use runseal_evidence::name::RunId;

use super::{CliError, Exit, append::owner, output::Output, plane::TenantArgs, runs::RunRow};

/// Seal a concluded run: freeze it and enter it in the log.
///
/// Prints run, records, outcome and log index, with tabs between. Sealing a sealed run changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  runseal seal --dir plane --tenant acme refund-4471")]
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
    let sealed = tenant.seal_once(&args.run, &owner())?;
    output.line(RunRow::from(&sealed))?;
    Ok(Exit::Done)
}

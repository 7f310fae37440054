use super::{CliError, Exit, output::Output, plane::LogArgs};

/// Print the verifier key of a tenant's log.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  runseal vkey --dir plane --tenant acme")]
pub(super) struct Args {
    #[command(flatten)]
    log: LogArgs,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let journal = args.log.tenant.plane.open()?;
    output.line(args.log.of(&journal).log().vkey())?;
    Ok(Exit::Done)
}

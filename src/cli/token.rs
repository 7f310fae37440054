use super::{CliError, Exit, output::Output};
use crate::serve::{Scopes, Tenants, Token};

/// Make a bearer token for a server.
///
/// Prints the token, which is not kept anywhere, and on the next line what to add to the file that
/// "runseal serve --tokens" reads. That line holds a hash of the token, not the token.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  runseal token --tenant acme --scope log,audit")]
pub(super) struct Args {
    /// The tenant it is good for, or * for all.
    #[arg(long, env = "RUNSEAL_TENANT", value_name = "TENANT|*")]
    tenant: Tenants,

    /// What it is good for: log (checkpoints, tiles, entries), audit (runs and records), write; with commas
    /// between.
    #[arg(long, env = "RUNSEAL_SCOPE", value_name = "SCOPES")]
    scope: Scopes,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let (token, line) = Token::generate(args.scope.clone(), args.tenant.clone())?;
    output.line(format_args!("{}\n{line}", *token))?;
    output.say("the first line is the token, shown only now; the second belongs in the tokens file");
    Ok(Exit::Done)
}

use super::{CliError, Exit, output::Output, plane::TenantArgs};
use crate::tamper::{Action, tamper};

/// Damage a plane on purpose, as somebody who owns the disk can. For tests and demonstrations.
///
/// Nothing is signed or published by any of this.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Example:\n  runseal tamper --dir copy-of-plane --tenant acme rehash refund-4471 3"
)]
pub(super) struct Args {
    #[command(flatten)]
    tenant: TenantArgs,

    #[command(subcommand)]
    action: Action,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    tamper(&args.tenant.plane.dir, &args.tenant.tenant, &args.action)?;
    output.say("done; nothing was signed or published");
    Ok(Exit::Done)
}

use runseal_evidence::name::RunId;

use super::{CliError, Exit, output::Output, plane::TenantArgs};

/// Print a proof that a run is in the log: a c2sp.org/tlog-proof file.
///
/// It holds the run's last entry, the path from it to the root, and the last published checkpoint with its
/// cosignatures; "runseal-verifier proof" or any tlog-proof reader checks it offline.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Example:\n  runseal prove --dir plane --tenant acme refund-4471 > refund-4471.tlog-proof"
)]
pub(super) struct Args {
    #[command(flatten)]
    tenant: TenantArgs,

    /// The run.
    #[arg(value_name = "RUN")]
    run: RunId,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let journal = args.tenant.plane.open()?;
    let proof = journal.tenant(&args.tenant.tenant).prove(&args.run)?;
    output
        .data(|out| std::io::Write::write_all(out, proof.to_string().as_bytes()).map_err(CliError::Stdout))?;
    Ok(Exit::Done)
}

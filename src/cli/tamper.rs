use clap::Subcommand;
use runseal_evidence::name::RunId;

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
    action: ActionArgs,
}

#[derive(Debug, Subcommand)]
enum ActionArgs {
    /// Change a record's payload and keep its hash.
    Edit {
        /// The run.
        run: RunId,
        /// The record, from 1.
        seq: u64,
    },
    /// Change a record's payload and hash it and all after it anew.
    Rehash {
        /// The run.
        run: RunId,
        /// The record, from 1.
        seq: u64,
    },
    /// Remove a run's records and its seal; its entries stay in the log.
    Delete {
        /// The run.
        run: RunId,
    },
    /// Remove the records of an open run after the first KEEP.
    Truncate {
        /// The run.
        run: RunId,
        /// Records kept, from 1.
        keep: u64,
    },
    /// Remove a run and its entries, and build the tree anew without them.
    Rebuild {
        /// The run.
        run: RunId,
    },
    /// Exchange two entries, and build the tree anew.
    Swap {
        /// One entry, from 0.
        i: u64,
        /// The other, from 0.
        j: u64,
    },
    /// Remove a tile of hashes.
    DropTile {
        /// Its level.
        level: u8,
        /// Its index.
        index: u64,
    },
    /// Remove the memory of what was signed, in the database and beside it.
    Forget,
}

impl From<&ActionArgs> for Action {
    fn from(args: &ActionArgs) -> Self {
        match args {
            ActionArgs::Edit { run, seq } => Self::Edit { run: run.clone(), seq: *seq },
            ActionArgs::Rehash { run, seq } => Self::Rehash { run: run.clone(), seq: *seq },
            ActionArgs::Delete { run } => Self::Delete { run: run.clone() },
            ActionArgs::Truncate { run, keep } => Self::Truncate { run: run.clone(), keep: *keep },
            ActionArgs::Rebuild { run } => Self::Rebuild { run: run.clone() },
            ActionArgs::Swap { i, j } => Self::Swap { left: *i, right: *j },
            ActionArgs::DropTile { level, index } => Self::DropTile { level: *level, index: *index },
            ActionArgs::Forget => Self::Forget,
        }
    }
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    tamper(&args.tenant.plane.dir, &args.tenant.tenant, &Action::from(&args.action))?;
    output.say("done; nothing was signed or published");
    Ok(Exit::Done)
}

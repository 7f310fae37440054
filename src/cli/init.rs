use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use runseal_evidence::name::{Base, TenantId};

use super::{CliError, Exit, output::Output};
use crate::{CreateOptions, Journal};

/// Make a new plane: its database and its master key.
///
/// Prints the vkey of the default tenant's log. The origin is for good: it names the plane's logs in every
/// checkpoint, and each tenant's log key is derived from it and the master key.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  runseal init --dir plane --origin log.example.com/plane")]
pub(super) struct Args {
    /// The folder to make the plane in; it may exist, but hold no plane.
    #[arg(long, env = "RUNSEAL_DIR", value_name = "DIR")]
    dir: PathBuf,

    /// The base of the logs' origins, such as log.example.com/plane: the log's URL without its scheme.
    #[arg(long, env = "RUNSEAL_ORIGIN", value_name = "ORIGIN")]
    origin: Base,

    /// Also make a record key and sign every record with it.
    #[arg(long, env = "RUNSEAL_SIGN_RECORDS", value_parser = BoolishValueParser::new())]
    sign_records: bool,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let options = CreateOptions { sign_records: args.sign_records };
    let journal = Journal::create(&args.dir, &args.origin, &options)?;
    output.line(journal.tenant(&TenantId::default()).vkey())?;
    let key = args.dir.join("master.key");
    output.say(format_args!(
        "made; whoever reads {} can sign for every log of this plane: back it up apart",
        key.display()
    ));
    Ok(Exit::Done)
}

use std::{io::Write as _, path::PathBuf};

use clap::builder::BoolishValueParser;

use super::{CliError, Exit, output::Output, plane::TenantArgs, runs::RunRow};
use crate::{
    ImportError, Imported,
    importer::{self, Claims, Ending, Format, ImportedRun},
};

/// Import runs from files.
///
/// Prints a line for each run: run, records, outcome and log index, with tabs between and "-" where there is
/// none. Each file is taken or refused whole, in the order given; the files before a refused one stay
/// imported. A run that exists already is refused, not merged.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Example:\n  runseal import --dir plane --tenant acme runs.jsonl bugfix.traj\n\n\
    A jsonl file has one JSON object a line:\n  \
    {\"run\":\"r-1\",\"kind\":\"Message\",\"payload\":{\"text\":\"hello\"}}\n  \
    {\"run\":\"r-1\",\"kind\":\"RunConcluded\",\"payload\":{\"outcome\":\"succeeded\"}}\n\
    with \"effect\" (64 hex digits) and \"case\" where there are any."
)]
pub(super) struct Args {
    #[command(flatten)]
    tenant: TenantArgs,

    /// The files' format. By default .traj files are trajectories and all others jsonl.
    #[arg(long, env = "RUNSEAL_FORMAT", value_enum)]
    format: Option<FormatName>,

    /// Leave every run open: seal none, and add no conclusion to a trajectory.
    #[arg(long, env = "RUNSEAL_OPEN", value_parser = BoolishValueParser::new())]
    open: bool,

    /// The files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum FormatName {
    /// One record a line, any number of runs.
    Jsonl,
    /// One JSON document, one run.
    Trajectory,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Jsonl => Self::Jsonl,
            FormatName::Trajectory => Self::Trajectory,
        }
    }
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let journal = args.tenant.plane.open()?;
    let tenant = journal.tenant(&args.tenant.tenant);
    let ending = if args.open { Ending::LeaveOpen } else { Ending::Seal };
    for file in &args.files {
        let format = args.format.map_or_else(|| Format::of(file), Format::from);
        let imported = importer::read_file(file, format, tenant.id(), ending)?;
        let claims = Claims::of(&imported);
        let runs =
            imported.into_iter().map(|ImportedRun { run, drafts, seal, .. }| (run, drafts, seal)).collect();
        let stored = tenant.import_all(runs).map_err(|refused| match refused {
            ImportError::Run { run, error } => {
                CliError::ImportRefused { file: file.clone(), place: claims.place(&run, &error), error }
            }
            ImportError::Store(error) => CliError::Store(error),
        })?;
        output.data(|out| {
            let mut line = |run: &Imported| writeln!(out, "{}", RunRow::from(run)).map_err(CliError::Stdout);
            stored.iter().try_for_each(&mut line)
        })?;
    }
    Ok(Exit::Done)
}

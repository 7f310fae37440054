use std::path::PathBuf;

use runseal_evidence::name::RunId;

use super::{CliError, Exit, output::Output, plane::TenantArgs};
use crate::{ExportError, ExportSummary, atomic_file::AtomicFile};

/// Export a tenant's evidence under the last published checkpoint, as JSON Lines.
///
/// The whole log with all runs, or, with --run, the chosen runs with inclusion proofs. Records go out as they
/// are stored; an auditor verifies them. A run that cannot be read is named in the last line with the reason.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  runseal export --dir plane --tenant acme -o acme.jsonl\n  \
    runseal export --dir plane --tenant acme --run refund-4471 > refund-4471.jsonl")]
pub(super) struct Args {
    #[command(flatten)]
    tenant: TenantArgs,

    /// Export this run alone; may be given more than once, or with commas between.
    #[arg(long = "run", env = "RUNSEAL_RUN", value_name = "RUN", value_delimiter = ',')]
    runs: Vec<RunId>,

    /// Write to this file, whole or not at all, instead of stdout.
    #[arg(short, long, env = "RUNSEAL_OUTPUT", value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let journal = args.tenant.plane.open()?;
    args.tenant.warn_if_unknown(&journal, output)?;
    let tenant = journal.tenant(&args.tenant.tenant);
    let runs = (!args.runs.is_empty()).then_some(args.runs.as_slice());
    let summary = match &args.output {
        None => output.data(|out| match tenant.export(runs, out) {
            Err(ExportError::Io(error)) => Err(CliError::Stdout(error)),
            other => Ok(other?),
        })?,
        Some(path) => {
            let mut file = AtomicFile::create(path)?;
            let summary = tenant.export(runs, &mut file)?;
            file.finish()?;
            summary
        }
    };
    for (run, reason) in &summary.unreadable {
        output.tell(format_args!("warning: run {run} cannot be read, and the export says so: {reason}"));
    }
    let ExportSummary { entries, runs, records, .. } = summary;
    output.say(format_args!("{entries} entries, {runs} runs, {records} records"));
    Ok(Exit::Done)
}

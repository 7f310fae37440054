use std::{fmt, io::Write as _};

use clap::builder::BoolishValueParser;
use runseal_evidence::name::{Outcome, RunId};

use super::{CliError, Exit, output::Output, plane::TenantArgs};
use crate::{Imported, RunSummary, Sealed, listing::RunLine};

/// List a tenant's runs by id, or those of one outcome, newest first.
///
/// Prints a line for each run: run, state, records, outcome, log index and time of the last change, with tabs
/// between and "-" where there is none; with --json the same as an object.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  runseal runs --dir plane --tenant acme --limit 20 --json\n  \
    runseal runs --dir plane --tenant acme --outcome failed")]
pub(super) struct Args {
    #[command(flatten)]
    tenant: TenantArgs,

    /// Only runs whose last conclusion has this outcome, newest first.
    #[arg(long, env = "RUNSEAL_OUTCOME", value_name = "OUTCOME", conflicts_with = "after")]
    outcome: Option<Outcome>,

    /// At most so many.
    #[arg(long, env = "RUNSEAL_LIMIT", value_name = "N", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// Only runs after this one, by id.
    #[arg(long, env = "RUNSEAL_AFTER", value_name = "RUN")]
    after: Option<RunId>,

    /// Print JSON objects.
    #[arg(long, env = "RUNSEAL_JSON", value_parser = BoolishValueParser::new())]
    json: bool,
}

/// Runs read at once.
const PAGE_RUNS: usize = 1000;

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let journal = args.tenant.plane.open()?;
    args.tenant.warn_if_unknown(&journal, output)?;
    let tenant = journal.tenant(&args.tenant.tenant);
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    output.data(|out| {
        let mut write = |summary: &RunSummary| {
            if args.json {
                serde_json::to_writer(&mut *out, &RunLine::from(summary))
                    .map_err(|error| CliError::Stdout(error.into()))?;
                writeln!(out).map_err(CliError::Stdout)
            } else {
                writeln!(out, "{}", RunListed(summary)).map_err(CliError::Stdout)
            }
        };
        if let Some(outcome) = &args.outcome {
            return tenant.runs_by_outcome(outcome, limit)?.iter().try_for_each(write);
        }
        let (mut after, mut left) = (args.after.clone(), limit);
        while left > 0 {
            let page = tenant.runs(after.as_ref(), left.min(PAGE_RUNS))?;
            page.iter().try_for_each(&mut write)?;
            let Some(last) = page.last() else { break };
            after = Some(last.run.clone());
            left -= page.len();
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

/// Run, records, outcome and log index of a run just imported or sealed; without the last two it is open.
pub(super) struct RunRow<'r> {
    run: &'r RunId,
    records: u64,
    outcome: Option<&'r Outcome>,
    index: Option<u64>,
}

impl<'r> From<&'r Imported> for RunRow<'r> {
    fn from(imported: &'r Imported) -> Self {
        let Imported { run, records, outcome, index } = imported;
        Self { run, records: *records, outcome: outcome.as_ref(), index: *index }
    }
}

impl<'r> From<&'r Sealed> for RunRow<'r> {
    fn from(sealed: &'r Sealed) -> Self {
        let Sealed { run, records, outcome, index, .. } = sealed;
        Self { run, records: *records, outcome: Some(outcome), index: Some(*index) }
    }
}

impl fmt::Display for RunRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, records, outcome, index } = self;
        write!(f, "{run}\t{records}\t{}\t{}", or_dash(*outcome), or_dash(index.as_ref()))
    }
}

/// Everything a listing says of a run.
struct RunListed<'r>(&'r RunSummary);

impl fmt::Display for RunListed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunLine { run, state, records, outcome, index, updated } = RunLine::from(self.0);
        let state = match state {
            runseal_evidence::export::RunState::Open => "open",
            runseal_evidence::export::RunState::Sealed => "sealed",
        };
        let (outcome, index) = (or_dash(outcome.as_ref()), or_dash(index.as_ref()));
        write!(f, "{run}\t{state}\t{records}\t{outcome}\t{index}\t{updated}")
    }
}

fn or_dash(value: Option<&impl fmt::Display>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

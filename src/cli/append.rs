use std::io::{self, BufReader, Write as _};

use runseal_evidence::{
    json::{Json, Object},
    name::{Kind, Outcome, RunId},
    payload::Meaning,
    record::RecordDraft,
};

use super::{CliError, Exit, output::Output, plane::TenantArgs};
use crate::importer::{
    ImportError, ImportFault, Place,
    jsonl::{Line, Lines, Members, read_record},
};

/// Append records from stdin to a run, as one atomic batch.
///
/// Each line is a JSON object with members kind, payload and, where there are any, effect (64 hex digits) and
/// case. The run's lease is taken for the batch and released after it. Once everything is durable, a line is
/// printed for each record: its number and its hash, with a tab between.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  \
    echo '{\"kind\":\"Message\",\"payload\":{\"text\":\"hello\"}}' | runseal append --dir plane --run r-1\n  \
    runseal append --dir plane --run r-1 --conclude succeeded < last.jsonl")]
pub(super) struct Args {
    #[command(flatten)]
    tenant: TenantArgs,

    /// The run; a new one starts with its first record.
    #[arg(long, env = "RUNSEAL_RUN", value_name = "RUN")]
    run: RunId,

    /// Conclude the run with this outcome after the records, and seal it.
    #[arg(long, env = "RUNSEAL_CONCLUDE", value_name = "OUTCOME")]
    conclude: Option<Outcome>,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let mut drafts = read_drafts()?;
    if let Some(outcome) = &args.conclude {
        drafts.push(conclusion(outcome));
    }
    if drafts.is_empty() {
        return Err(refused(Place::File, ImportFault::NoRecords));
    }
    let journal = args.tenant.plane.open()?;
    let tenant = journal.tenant(&args.tenant.tenant);
    let (appended, _) = tenant.append_once(&args.run, &owner(), drafts, args.conclude.is_some())?;
    output.data(|out| {
        appended
            .iter()
            .try_for_each(|record| writeln!(out, "{}\t{}", record.seq, record.hash).map_err(CliError::Stdout))
    })?;
    Ok(Exit::Done)
}

/// Who holds the lease while the command runs.
pub(super) fn owner() -> String {
    format!("runseal command, process {}", std::process::id())
}

fn read_drafts() -> Result<Vec<RecordDraft>, CliError> {
    let mut lines = Lines::new(BufReader::new(io::stdin().lock()));
    let mut drafts = Vec::new();
    while let Some(Line { number, text }) =
        lines.next_line().map_err(|(place, fault)| refused(place, fault))?
    {
        let (_, draft) =
            read_record(&text, Members::WithoutRun).map_err(|fault| refused(Place::Line(number), fault))?;
        Meaning::of(&draft.kind, &draft.payload)
            .map_err(|error| refused(Place::Line(number), error.into()))?;
        drafts.push(draft);
    }
    Ok(drafts)
}

fn conclusion(outcome: &Outcome) -> RecordDraft {
    let members = vec![("outcome".to_owned(), Json::string(outcome.as_str()))];
    let payload =
        Object { members }.to_json().expect("one member cannot repeat a name or be nested too deep");
    let kind = Kind::new(Meaning::RUN_CONCLUDED).expect("the kind that concludes a run is a kind");
    RecordDraft { kind, payload, effect: None, case: None }
}

fn refused(place: Place, fault: ImportFault) -> CliError {
    ImportError { file: "stdin".into(), place, fault: Box::new(fault) }.into()
}

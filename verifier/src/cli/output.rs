//! Where reports go.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use runseal_evidence::report::Report;

use super::args::OutputArgs;
use crate::clock::{Clock as _, SystemClock};
use crate::error::Failure;
use crate::file;
use crate::online::audit::Audited;
use crate::report_html;
use crate::report_text::{self, Colour};
use crate::timeline::{self, Point};

/// Writes the fraud proof, if there is one and it was asked for.
pub(super) fn hand_out(path: Option<&Path>, audited: &Audited, quiet: bool) -> Result<(), Failure> {
    if let (Some(path), Some(fraud)) = (path, &audited.fraud) {
        file::write(path, fraud.to_string().as_bytes())?;
        if !quiet {
            eprintln!("the fraud proof is in {}", path.display());
        }
    }
    Ok(())
}

/// Writes the report where it was asked for, and answers the exit code of its verdict.
pub(super) fn print(
    report: &Report,
    timeline: &[Point],
    output: &OutputArgs,
    quiet: bool,
) -> Result<u8, Failure> {
    let taken = write_out(report, timeline, output)?;
    if !quiet {
        let terminal = match taken {
            Stdout::Taken => io::stderr().is_terminal(),
            Stdout::Free => io::stdout().is_terminal(),
        };
        let colour = if terminal { Colour::On } else { Colour::Off };
        to_people(&report_text::render(report, colour), taken)?;
    }
    Ok(report.verdict().exit_code())
}

/// Whether a report for scripts went to stdout.
#[derive(Clone, Copy)]
pub(super) enum Stdout {
    Free,
    Taken,
}

pub(super) fn to_people(text: &str, stdout: Stdout) -> Result<(), Failure> {
    match stdout {
        Stdout::Free => to_stdout(text.as_bytes()),
        Stdout::Taken => {
            let _ = io::stderr().write_all(text.as_bytes());
            Ok(())
        }
    }
}

pub(super) fn write_out(report: &Report, timeline: &[Point], output: &OutputArgs) -> Result<Stdout, Failure> {
    if let Some(path) = &output.html {
        let now = SystemClock.now();
        let alone = timeline::of_report(report, now);
        let timeline = if timeline.is_empty() { &alone } else { timeline };
        file::write(path, report_html::render(report, timeline, now).as_bytes())?;
    }
    let mut stdout = Stdout::Free;
    if let Some(path) = &output.json {
        let mut json = serde_json::to_vec(report)
            .map_err(|error| Failure::Internal(format!("the report does not serialise: {error}")))?;
        json.push(b'\n');
        if path == Path::new("-") {
            stdout = Stdout::Taken;
            to_stdout(&json)?;
        } else {
            file::write(path, &json)?;
        }
    }
    Ok(stdout)
}

pub(super) fn to_stdout(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        // A reader who has seen enough is no failure of ours.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|source| Failure::Write { path: PathBuf::from("stdout"), source }),
    }
}

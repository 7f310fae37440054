//! An export file, checked offline: streamed once, in bounded memory.

mod check;
mod crew;
mod end;
pub mod entries;
mod lines;
#[cfg(feature = "cli")]
mod records;
mod run_judge;
mod runs;

#[cfg(feature = "cli")]
use std::fs::File;
#[cfg(feature = "cli")]
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::Path;

use runseal_evidence::export::{ExportError, ExportLine};
use runseal_evidence::report::{Command, NotChecked, Report, Scope};

use self::check::ExportCheck;
use self::entries::{ExportEntries, Spill};
#[cfg(feature = "cli")]
pub use self::records::check_records;
use self::run_judge::RunJudge;
use crate::agentplane;
use crate::error::Failure;
use crate::ledger::RunEntries as _;
#[cfg(feature = "cli")]
use crate::lines::BUFFER_BYTES;
use crate::lines::LineReader;
#[cfg(feature = "cli")]
use crate::online::progress::Progress;
use crate::steps::Against;
use crate::trust::Trust;

/// Findings about lines; a file with more is not worth listing.
const FAULTS_MAX: usize = 100;

/// Checks an export file.
///
/// # Errors
/// [`Failure`] when the file cannot be read or is no export, or trust is not configured for its log.
#[cfg(feature = "cli")]
pub fn check(
    path: &Path,
    trust: &Trust,
    outside: Option<&[u8]>,
    against: &Against,
    progress: Progress,
) -> Result<Report, Failure> {
    let file = File::open(path).map_err(|source| Failure::Read { path: path.to_owned(), source })?;
    let length = file.metadata().map_or(0, |meta| meta.len());
    let bar = progress.bytes("export", length);
    let mut lines = LineReader::new(BufReader::with_capacity(BUFFER_BYTES, file), path);
    let spill = Spill::to_file();
    check_lines(&mut lines, path, trust, outside, against, spill, &|bytes| bar.advance(bytes))
}

/// Checks the lines of an export, whatever they come from. `path` is what failures call it, `spill` where entries
/// go that are too many for memory, and `advance` is told of bytes done.
///
/// # Errors
/// As [`check`].
pub fn check_lines(
    reader: &mut LineReader<'_>,
    path: &Path,
    trust: &Trust,
    outside: Option<&[u8]>,
    against: &Against,
    spill: Spill,
    advance: &(dyn Fn(u64) + Sync),
) -> Result<Report, Failure> {
    let Some(first) = reader.next_line()?.map(<[u8]>::to_vec) else {
        return Err(not_an_export(path, "it is empty"));
    };
    if agentplane::claims(&first) {
        return agentplane::check(&first, reader, path, trust, outside, advance);
    }
    let header = match ExportLine::parse(&first) {
        Ok(ExportLine::Header(header)) => header,
        Ok(_) => return Err(not_an_export(path, "its first line is not a header")),
        Err(error) if error.is_skew() => return Ok(skewed(&error)),
        Err(error) => return Err(not_an_export(path, &error.to_string())),
    };
    trust.choose(Some(&header.origin))?;
    let log = ExportEntries::new(spill, &header.origin);
    let judge = RunJudge::new(header.tenant.clone(), u64::MAX, *log.run_key(), against);
    let mut check = ExportCheck::new(header, trust, log, &judge, against);
    if let Some(outside) = outside {
        check.outside(trust, outside);
    }
    lines::for_each(reader, &judge, |(number, length, line)| {
        advance(length as u64 + 1);
        check.line(number, line)?;
        if check.line_faults <= FAULTS_MAX {
            return Ok(ControlFlow::Continue(()));
        }
        let gap = NotChecked::gap("the rest of the file", "too much is wrong to go on");
        check.report.not_checked.push(gap);
        Ok(ControlFlow::Break(()))
    })?;
    check.finish(reader)
}

fn not_an_export(path: &Path, reason: &str) -> Failure {
    Failure::NotA { path: path.to_owned(), what: "runseal export", reason: reason.to_owned() }
}

fn skewed(error: &ExportError) -> Report {
    let mut report = Report::new(Command::Export, Scope::Export);
    let why = format!("{error}: use a newer runseal-verifier");
    report.skipped("version", why.clone());
    report.not_checked.push(NotChecked::gap("the export", why));
    report
}

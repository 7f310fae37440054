//! JSON Lines: one record a line, `{"run","kind","payload","effect"?,"case"?}`, any number of runs.
//!
//! Lines of one run keep their order. A `RunConcluded` line ends its run. White space around a line is ignored
//! and an empty line skipped; a byte order mark, an unknown or repeated member and anything else that is not
//! such a line refuse the file.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use runseal_evidence::{
    json::{JsonFault, Object},
    name::{CaseId, EffectKey, Kind, RunId, TenantId},
    payload::Meaning,
    record::{RECORD_BYTES_MAX, RecordDraft},
};

use super::{Ending, ImportFault, ImportedRun, Place, Refused, text};

/// Longest line read, 8 MiB: a record of the largest size with every character escaped, and white space.
pub const LINE_BYTES_MAX: usize = 8 << 20;

const _: () = assert!(LINE_BYTES_MAX > 6 * RECORD_BYTES_MAX);

/// A line that holds something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its number in the text, from 1.
    pub number: u64,
    /// What it holds, without white space around.
    pub text: Vec<u8>,
}

/// Lines of a reader, each with its number from 1, without white space around; empty ones left out.
pub struct Lines<R> {
    reader: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `reader`.
    pub fn new(reader: R) -> Self {
        Self { reader, number: 0 }
    }

    /// The next line that holds something; `None` at the end.
    ///
    /// # Errors
    /// Reading fails, the line is over [`LINE_BYTES_MAX`], or the text starts with a byte order mark.
    pub fn next_line(&mut self) -> Result<Option<Line>, (Place, ImportFault)> {
        loop {
            let mut line = Vec::new();
            let limit = LINE_BYTES_MAX as u64 + 1;
            let read = (&mut self.reader).take(limit).read_until(b'\n', &mut line);
            self.number += 1;
            let here = Place::Line(self.number);
            if read.map_err(|error| (here, error.into()))? == 0 {
                return Ok(None);
            }
            if line.len() > LINE_BYTES_MAX && line.last() != Some(&b'\n') {
                return Err((here, ImportFault::LineTooLong));
            }
            if self.number == 1 && line.starts_with(BYTE_ORDER_MARK) {
                return Err((here, ImportFault::ByteOrderMark));
            }
            let line = line.trim_ascii();
            if !line.is_empty() {
                return Ok(Some(Line { number: self.number, text: line.to_vec() }));
            }
        }
    }
}

/// Reads one record line. `run` is asked for in files and refused where the caller names the run.
///
/// # Errors
/// [`ImportFault`].
pub fn read_record(line: &[u8], members: Members) -> Result<(Option<RunId>, RecordDraft), ImportFault> {
    let mut object = Object::parse(line).map_err(|error| match error.fault {
        JsonFault::ByteOrderMark => ImportFault::ByteOrderMark,
        JsonFault::NotAnObject => ImportFault::NotAnObject,
        _ => ImportFault::Json(error),
    })?;
    let mut take = |name: &'static str| object.remove(name);
    let run = match members {
        Members::WithRun => Some(RunId::new(text(&take("run").ok_or(ImportFault::Missing("run"))?, "run")?)?),
        Members::WithoutRun => None,
    };
    let kind = Kind::new(text(&take("kind").ok_or(ImportFault::Missing("kind"))?, "kind")?)?;
    let payload = take("payload").ok_or(ImportFault::Missing("payload"))?;
    let effect = take("effect").map(|value| Ok::<_, ImportFault>(EffectKey::new(text(&value, "effect")?)?));
    let case = take("case").map(|value| Ok::<_, ImportFault>(CaseId::new(text(&value, "case")?)?));
    let (effect, case) = (effect.transpose()?, case.transpose()?);
    match object.members.into_iter().next() {
        None => Ok((run, RecordDraft { kind, payload, effect, case })),
        Some((name, _)) => Err(ImportFault::Unknown { name, allowed: members.allowed() }),
    }
}

/// Which members a record line has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Members {
    /// A line of a file, which names its run.
    WithRun,
    /// A line of a batch for one run.
    WithoutRun,
}

impl Members {
    const fn allowed(self) -> &'static str {
        match self {
            Self::WithRun => "run, kind, payload, effect and case",
            Self::WithoutRun => "kind, payload, effect and case",
        }
    }
}

pub(super) fn read_file(file: &Path, tenant: &TenantId, ending: Ending) -> Result<Vec<ImportedRun>, Refused> {
    let opened = open(file).map_err(|error| (Place::File, error.into()))?;
    read(opened, tenant, ending)
}

fn open(file: &Path) -> io::Result<BufReader<File>> {
    let opened = File::open(file)?;
    // A directory opens but cannot be read, which would be blamed on its first line.
    if opened.metadata()?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    Ok(BufReader::new(opened))
}

/// Reads the runs of a whole JSON Lines text.
pub(super) fn read(
    reader: impl BufRead,
    tenant: &TenantId,
    ending: Ending,
) -> Result<Vec<ImportedRun>, Refused> {
    let mut lines = Lines::new(reader);
    let mut runs: Vec<ImportedRun> = Vec::new();
    let mut started: HashMap<RunId, Progress> = HashMap::new();
    while let Some(Line { number, text }) = lines.next_line()? {
        let here = |fault| (Place::Line(number), fault);
        let (run, draft) = read_record(&text, Members::WithRun).map_err(here)?;
        let run = run.ok_or_else(|| here(ImportFault::Missing("run")))?;
        let progress = started.entry(run.clone()).or_insert_with(|| {
            runs.push(ImportedRun::empty(run.clone()));
            Progress { at: runs.len() - 1, concluded: None }
        });
        if let Some(line) = progress.concluded {
            return Err(here(ImportFault::Concluded { run, line }));
        }
        let imported = &mut runs[progress.at];
        if let Meaning::RunConcluded(_) = imported.push(Place::Line(number), draft, tenant).map_err(here)? {
            progress.concluded = Some(number);
            imported.seal = ending == Ending::Seal;
        }
    }
    if runs.is_empty() { Err((Place::File, ImportFault::Empty)) } else { Ok(runs) }
}

struct Progress {
    /// Position among the runs of the file.
    at: usize,
    /// The line that concluded it.
    concluded: Option<u64>,
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(text: &str) -> Result<Vec<ImportedRun>, Refused> {
        read(text.as_bytes(), &TenantId::default(), Ending::Seal)
    }

    fn refusal(text: &str) -> String {
        let (place, fault) = runs(text).unwrap_err();
        format!("{place}: {fault}")
    }

    const FIRST: &str = r#"{"run":"r-1","kind":"Message","payload":1}"#;

    #[test]
    fn interleaved_runs_keep_their_own_order_and_the_concluded_one_is_sealed() {
        let text = concat!(
            "\n \t{\"run\":\"b\",\"kind\":\"A\",\"payload\":{\"z\":1.0,\"a\":12345678901234567890}} \r\n",
            "{\"run\":\"a\",\"kind\":\"B\",\"payload\":null,\"case\":\"c 1\"}\n\n",
            "{\"payload\":{\"outcome\":\"done\"},\"kind\":\"RunConcluded\",\"run\":\"b\"}"
        );
        let read = runs(text).unwrap();
        assert_eq!(read.iter().map(|run| run.run.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(read[0].drafts[0].payload.as_str(), r#"{"z":1.0,"a":12345678901234567890}"#);
        assert_eq!((read[0].seal, read[1].seal), (true, false));
        assert_eq!(read[1].drafts[0].case.as_ref().map(CaseId::as_str), Some("c 1"));
        let open = read_open(text);
        assert_eq!((open[0].seal, open[0].drafts.len()), (false, 2), "left open, but nothing is lost");
    }

    fn read_open(text: &str) -> Vec<ImportedRun> {
        read(text.as_bytes(), &TenantId::default(), Ending::LeaveOpen).unwrap()
    }

    #[test]
    fn each_refusal_names_line_and_reason() {
        let effect = "e".repeat(63);
        for (line, expected) in [
            (r#"{"kind":"A","payload":1}"#.to_owned(), "line 2: member \"run\" is missing"),
            (r#"{"run":"r","payload":1}"#.to_owned(), "line 2: member \"kind\" is missing"),
            (r#"{"run":"r","kind":"A"}"#.to_owned(), "line 2: member \"payload\" is missing"),
            (r#"{"run":7,"kind":"A","payload":1}"#.to_owned(), "line 2: member \"run\" is not a string"),
            (r#"{"run":"r","kind":"A","payload":1,"x":2}"#.to_owned(), "line 2: unknown member \"x\""),
            (
                r#"{"run":"r","run":"r","kind":"A","payload":1}"#.to_owned(),
                "line 2: member \"run\" occurs twice",
            ),
            (
                r#"{"run":"r","kind":"A","payload":{"a":1,"a":1}}"#.to_owned(),
                "line 2: member \"a\" occurs twice",
            ),
            (r#"{"run":"R","kind":"A","payload":1}"#.to_owned(), "line 2: \"R\" is not a valid run"),
            (r#"{"run":"r","kind":"9","payload":1}"#.to_owned(), "line 2: \"9\" is not a valid kind"),
            (
                r#"{"run":"r","kind":"A","payload":1,"effect":null}"#.to_owned(),
                "line 2: member \"effect\" is not a string",
            ),
            (format!(r#"{{"run":"r","kind":"A","payload":1,"effect":"{effect}"}}"#), "line 2: \"eeee"),
            (
                r#"{"run":"r","kind":"A","payload":1,"case":""}"#.to_owned(),
                "line 2: \"\" is not a valid case",
            ),
            (r#"{"run":"r","kind":"A","payload":"\ud800"}"#.to_owned(), "line 2: a lone surrogate"),
            (
                r#"{"run":"r","kind":"RunConcluded","payload":{}}"#.to_owned(),
                "line 2: the payload of RunConcluded",
            ),
            (r#"{"run":"r","kind":"A","payload":1} {"#.to_owned(), "line 2: something follows the value"),
            ("[1]".to_owned(), "line 2: it is not an object"),
            ("\u{feff}{}".to_owned(), "line 2: a byte order mark"),
            (
                format!(r#"{{"run":"r","kind":"A","payload":"{}"}}"#, "x".repeat(RECORD_BYTES_MAX)),
                "line 2: the record has 10",
            ),
            (" ".repeat(LINE_BYTES_MAX + 1), "line 2: it is longer than"),
        ] {
            let found = refusal(&format!("{FIRST}\n{line}\n"));
            assert!(found.starts_with(expected), "{found} for {expected}");
        }
        assert!(refusal(&format!("\u{feff}{FIRST}")).starts_with("line 1: a byte order mark"));
        for nothing in ["", "\n\n", " \t\n"] {
            assert_eq!(refusal(nothing), "the file: it holds no run");
        }
        let invalid = [FIRST.as_bytes(), b"\n{\"run\":\"\xff\"}"].concat();
        let (place, fault) = read(&invalid[..], &TenantId::default(), Ending::Seal).unwrap_err();
        assert_eq!((place, fault.to_string().as_str()), (Place::Line(2), "invalid UTF-8 at byte 8"));
    }

    #[test]
    fn nothing_may_follow_a_conclusion() {
        let concluded = r#"{"run":"r-1","kind":"RunConcluded","payload":{"outcome":"done"}}"#;
        assert_eq!(
            refusal(&format!("{FIRST}\n{concluded}\n{FIRST}")),
            "line 3: run r-1 was concluded on line 2; nothing may follow"
        );
    }

    #[test]
    fn the_largest_record_still_fits() {
        // {"at":"…24…","epoch":1,"kind":"A","payload":"…","run":"r","seq":1,"tenant":"default","v":1}
        let around = r#"{"at":"0001-01-01T00:00:00.000Z","epoch":1,"kind":"A","payload":"","run":"r","seq":1,"tenant":"default","v":1}"#;
        let line = |fill: usize| format!(r#"{{"run":"r","kind":"A","payload":"{}"}}"#, "x".repeat(fill));
        let most = RECORD_BYTES_MAX - around.len();
        assert!(runs(&line(most)).is_ok());
        assert!(refusal(&line(most + 1)).contains("more than the 1048576 allowed"));
    }
}

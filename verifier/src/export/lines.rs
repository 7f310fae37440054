//! Export lines, read and parsed ahead on every core where there are threads.

use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use runseal_evidence::chain::Ahead;
use runseal_evidence::entry::{Entry, Recognised};
use runseal_evidence::export::{ExportEntry, ExportError, ExportLine, ReadLine, RecordAccount};
use runseal_tlog::hash::LeafHash;

use crate::error::Failure;
use crate::lines::{BLOCK_BYTES, LineReader, line_length};

/// Most threads that parse; one that checks keeps up with no more.
const PARSERS_MAX: usize = 8;
/// Blocks beyond one for each thread that parses: one being read, one being checked, and some for whoever is kept
/// from its core for a moment.
const SPARE_BLOCKS: usize = 6;

/// One line: its number, its length, and what it says.
pub(super) type Parsed<'l> = (u64, usize, Result<Line<'l>, &'l ExportError>);

/// What a line says, with as much of the checking done as needs no other line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line<'l> {
    /// A record: its wire bytes, what the line says of it, and its hash as that of the record after `prev`.
    Record(&'l [u8], &'l RecordAccount, Ahead),
    /// An entry.
    Entry(&'l EntryLine),
    /// Any other line.
    Other(&'l ExportLine),
}

/// An entry of the log, hashed and read.
#[derive(Debug)]
pub(super) struct EntryLine {
    /// The line.
    pub(super) line: ExportEntry,
    /// The entry's leaf hash.
    pub(super) leaf: LeafHash,
    /// What the entry is.
    pub(super) recognised: Recognised,
}

/// Lines on their way from the file to the checker.
#[derive(Default)]
struct Block {
    text: Vec<u8>,
    lines: Vec<(usize, Result<Kept, ExportError>)>,
    /// The wire bytes of the records, one after the other.
    raws: Vec<u8>,
    /// For each record where it ends in `raws`, and what a [`Line`] has of it.
    records: Vec<(usize, RecordAccount, Ahead)>,
}

/// A [`Line`], of a record the next of [`Block::records`].
enum Kept {
    Record,
    Entry(Box<EntryLine>),
    Other(Box<ExportLine>),
}

impl Block {
    fn parse(&mut self) {
        self.raws.clear();
        self.records.clear();
        self.lines.clear();
        let mut rest = self.text.as_slice();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(line_length(rest));
            rest = after;
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let start = self.raws.len();
            let kept = ReadLine::parse(line, &mut self.raws).map(|read| match read {
                ReadLine::Record(account) => {
                    let ahead = Ahead::of(account.prev, &self.raws[start..]);
                    self.records.push((self.raws.len(), account, ahead));
                    Kept::Record
                }
                ReadLine::Other(ExportLine::Entry(line)) => {
                    let leaf = LeafHash::of(line.entry.as_bytes());
                    let recognised = Entry::recognise(line.entry.as_bytes());
                    Kept::Entry(Box::new(EntryLine { line, leaf, recognised }))
                }
                ReadLine::Other(line) => Kept::Other(Box::new(line)),
            });
            self.lines.push((line.len(), kept));
        }
    }

    fn hand_over(
        &mut self,
        number: &mut u64,
        take: &mut impl FnMut(Parsed<'_>) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<ControlFlow<()>, Failure> {
        let (mut start, mut records) = (0, self.records.iter());
        for (length, kept) in &self.lines {
            *number += 1;
            let line = kept.as_ref().map(|kept| match kept {
                Kept::Record => {
                    let (end, account, ahead) = records.next().expect("each record was put there");
                    let raw = &self.raws[start..*end];
                    start = *end;
                    Line::Record(raw, account, *ahead)
                }
                Kept::Entry(entry) => Line::Entry(entry),
                Kept::Other(line) => Line::Other(line),
            });
            if take((*number, *length, line))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        // One very long line is no reason to keep that much memory.
        for buffer in [&mut self.text, &mut self.raws] {
            buffer.truncate(BLOCK_BYTES);
            buffer.shrink_to(2 * BLOCK_BYTES);
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Hands each further line to `take`, in order, until the file ends or `take` has seen enough. While one line
/// is checked the next ones are parsed and hashed; memory holds a few blocks whatever the file's length.
///
/// # Errors
/// [`Failure`] of the file, or of `take`.
pub(super) fn for_each(
    lines: &mut LineReader<'_>,
    mut take: impl FnMut(Parsed<'_>) -> Result<ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
    let mut number = lines.number;
    let read = if cfg!(target_family = "wasm") {
        in_turn(lines, &mut number, &mut take)
    } else {
        ahead(lines, &mut number, &mut take)
    };
    lines.number = number;
    read
}

/// On threads: one reads the file, some parse, this one checks. Blocks go round the parsers in turn, so that they
/// come back in order, and back to the reader when they are done with.
fn ahead(
    lines: &mut LineReader<'_>,
    number: &mut u64,
    take: &mut impl FnMut(Parsed<'_>) -> Result<ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
    let parsers = thread::available_parallelism().map_or(1, usize::from).min(PARSERS_MAX);
    thread::scope(|scope| {
        let (free, spare) = mpsc::channel();
        for _ in 0..parsers + SPARE_BLOCKS {
            // The other end lives in this function.
            let _ = free.send(Block::default());
        }
        let (mut unparsed, mut parsed) = (Vec::new(), Vec::new());
        for _ in 0..parsers {
            let ((to, blocks), (done, from)) = (mpsc::channel::<Block>(), mpsc::channel());
            scope.spawn(move || {
                for mut block in blocks {
                    block.parse();
                    // Nobody takes it any more where the checker has seen enough.
                    if done.send(block).is_err() {
                        break;
                    }
                }
            });
            unparsed.push(to);
            parsed.push(from);
        }
        let reader = scope.spawn(move || read(lines, &spare, &unparsed));
        for from in parsed.iter().cycle() {
            let Ok(mut block) = from.recv() else { break };
            if block.hand_over(number, take)?.is_break() {
                // The others find nobody to hand over to, and stop.
                return Ok(());
            }
            let _ = free.send(block);
        }
        reader.join().unwrap_or_else(|_| Err(Failure::Internal("the reader of lines panicked".to_owned())))
    })
}

fn read(
    lines: &mut LineReader<'_>,
    spare: &Receiver<Block>,
    parsers: &[Sender<Block>],
) -> Result<(), Failure> {
    for parser in parsers.iter().cycle() {
        let Ok(mut block) = spare.recv() else { break };
        if !lines.next_block(&mut block.text)? || parser.send(block).is_err() {
            break;
        }
    }
    Ok(())
}

/// The same on one thread.
fn in_turn(
    lines: &mut LineReader<'_>,
    number: &mut u64,
    take: &mut impl FnMut(Parsed<'_>) -> Result<ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
    let mut block = Block::default();
    while lines.next_block(&mut block.text)? {
        block.parse();
        if block.hand_over(number, take)?.is_break() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use std::path::Path;

    #[test]
    fn one_thread_and_many_hand_over_the_same_lines_and_stop_where_enough_is_seen() {
        let end =
            "{\"kind\":\"runseal.export.end\",\"entries\":0,\"runs\":0,\"records\":0,\"unreadable\":[]}";
        let hash = "0".repeat(64);
        let record = |raw: &str| {
            format!(
                r#"{{"kind":"runseal.export.record","seq":1,"raw":"{raw}","prev":"{hash}","hash":"{hash}","signature":null}}"#
            )
        };
        let long = "x".repeat(BLOCK_BYTES);
        let some = format!("{end}\n\nno line\n{}\n{}\n", record("a\\nb"), record(""));
        let text = format!("{}{}\n{some}cut", some.repeat(9), record(&long));
        let path = Path::new("lines");
        for enough in [1, 20, usize::MAX] {
            let collect = |found: &mut Vec<String>, line: Parsed<'_>| {
                found.push(format!("{line:?}"));
                Ok(if found.len() == enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            };
            let (mut one, mut many) = (Vec::new(), Vec::new());
            let open = || LineReader::new(Cursor::new(&text), path);
            let (mut first, mut other) = (open(), open());
            for_each(&mut first, |line| collect(&mut many, line)).unwrap();
            in_turn(&mut other, &mut 0, &mut |line| collect(&mut one, line)).unwrap();
            assert_eq!(many.len(), enough.min(51));
            assert_eq!(first.number, many.len() as u64);
            assert_eq!(many, one);
            if enough > 51 {
                assert!(first.cut && other.cut);
                let records = many.iter().filter(|line| line.contains("Record([97, 10, 98],"));
                assert_eq!(records.count(), 10);
            }
        }
    }
}

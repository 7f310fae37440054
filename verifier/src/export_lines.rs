//! Export lines, read and parsed ahead on a thread of their own where there are threads.

use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;

use runseal_evidence::export::{ExportError, ExportLine};

use crate::error::Failure;
use crate::lines::LineReader;

/// Bytes of lines handed over at a time.
const BATCH_BYTES: usize = 1 << 20;
/// Batches read ahead.
const AHEAD: usize = 2;

/// One line: its number, its length, and what it says.
pub type Parsed = (u64, usize, Result<ExportLine, ExportError>);

/// Hands each further line to `take`, in order, until the file ends or `take` has seen enough. While one line
/// is checked the next ones are parsed; memory holds a few batches whatever the file's length.
///
/// # Errors
/// [`Failure`] of the file, or of `take`.
pub fn for_each(
    lines: &mut LineReader<'_>,
    mut take: impl FnMut(Parsed) -> Result<ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
    if cfg!(target_family = "wasm") {
        return in_turn(lines, take);
    }
    thread::scope(|scope| {
        let (batches, parsed) = mpsc::sync_channel::<Vec<Parsed>>(AHEAD);
        let reader = scope.spawn(move || read(lines, &batches));
        for line in parsed.into_iter().flatten() {
            if take(line)?.is_break() {
                // The reader finds nobody to hand over to, and stops.
                return Ok(());
            }
        }
        reader.join().unwrap_or_else(|_| Err(Failure::Internal("the reader of lines panicked".to_owned())))
    })
}

/// The same on one thread.
fn in_turn(
    lines: &mut LineReader<'_>,
    mut take: impl FnMut(Parsed) -> Result<ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
    while let Some(line) = lines.next_line()? {
        let (length, parsed) = (line.len(), ExportLine::parse(line));
        if take((lines.number, length, parsed))?.is_break() {
            break;
        }
    }
    Ok(())
}

fn read(lines: &mut LineReader<'_>, batches: &mpsc::SyncSender<Vec<Parsed>>) -> Result<(), Failure> {
    loop {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES {
            let Some(line) = lines.next_line()? else { break };
            let (length, parsed) = (line.len(), ExportLine::parse(line));
            bytes += length;
            batch.push((lines.number, length, parsed));
        }
        if batch.is_empty() || batches.send(batch).is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use std::path::Path;

    #[test]
    fn one_thread_and_two_hand_over_the_same_lines_and_stop_where_enough_is_seen() {
        let end =
            "{\"kind\":\"runseal.export.end\",\"entries\":0,\"runs\":0,\"records\":0,\"unreadable\":[]}";
        let text = format!("{end}\n\nno line\n{end}\n").repeat(9) + "cut";
        let path = Path::new("lines");
        for enough in [1, 20, usize::MAX] {
            let collect = |found: &mut Vec<String>, line: Parsed| {
                found.push(format!("{line:?}"));
                Ok(if found.len() == enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            };
            let (mut ahead, mut inline) = (Vec::new(), Vec::new());
            for_each(&mut LineReader::new(Cursor::new(&text), path), |line| collect(&mut ahead, line))
                .unwrap();
            in_turn(&mut LineReader::new(Cursor::new(&text), path), |line| collect(&mut inline, line))
                .unwrap();
            assert_eq!(ahead.len(), enough.min(36));
            assert_eq!(ahead, inline);
        }
    }
}

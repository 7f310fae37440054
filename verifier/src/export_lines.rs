//! Export lines, read and parsed ahead on a thread of their own.

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

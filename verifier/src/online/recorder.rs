//! Writes verified tiles into the history on a thread of its own, in order and without a gap.

use redb::{Durability, ReadableTable as _, Table, WriteTransaction};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::history::{HistoryError, LogHistory, PIECES, PROGRESS, Progress, TILES};
use crate::ledger::add_segment;
use crate::mark::MarkSorter;
use crate::online::entries::{Examined, VerifiedTile};

/// Entries in one transaction. An interrupted audit loses at most the work on these.
const COMMIT_ENTRIES: u64 = 1 << 20;
/// Bytes that the store is given before it writes them: more than it holds in memory it would write, read again for
/// their checksums, and write again.
const STEP_BYTES: usize = 6 << 20;
/// Batches waiting for the disk.
const QUEUE: usize = 4;
/// The same where they are marks alone, so that nobody waits while a transaction ends.
const QUEUE_OF_MARKS: usize = 24;

/// A recorder at work.
#[derive(Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Examined>,
    task: JoinHandle<Result<MarkSorter, HistoryError>>,
}

impl Recorder {
    /// Records into `history` from its present end on, up to `size` entries.
    pub fn start(history: LogHistory, size: u64) -> Self {
        let queue = if history.keeps_tiles() { QUEUE } else { QUEUE_OF_MARKS };
        let (queue, batches) = mpsc::channel(queue);
        let task = tokio::task::spawn_blocking(move || record(&history, size, batches));
        Self { queue, task }
    }

    /// Hands over the next batch, which starts where the last one ended.
    pub async fn push(&self, batch: Examined) {
        // A recorder that failed says why when it is finished.
        let _ = self.queue.send(batch).await;
    }

    /// Waits until everything is on disk. A scratch history that keeps no tiles need not store its last marks
    /// either: they come back.
    ///
    /// # Errors
    /// [`HistoryError`], or a task that died.
    pub async fn finish(self) -> Result<Result<MarkSorter, HistoryError>, tokio::task::JoinError> {
        drop(self.queue);
        self.task.await
    }
}

fn record(
    history: &LogHistory,
    size: u64,
    mut batches: mpsc::Receiver<Examined>,
) -> Result<MarkSorter, HistoryError> {
    let mut recording =
        Recording { history, progress: history.progress()?, next: batches.blocking_recv(), batches };
    while recording.next.is_some() {
        let start = recording.progress.entries;
        let mut marks = MarkSorter::with_room(size.saturating_sub(start).min(COMMIT_ENTRIES));
        let mut write = history.history.begin_write()?;
        while !recording.take(&write, start + COMMIT_ENTRIES, &mut marks)? {
            // What no progress covers yet nothing relies on: it need not be safe from a power cut.
            write.set_durability(Durability::None)?;
            write.commit()?;
            write = history.history.begin_write()?;
        }
        let progress = recording.progress;
        let mut unstored = None;
        if recording.next.is_none() && !history.keeps_tiles() {
            unstored = Some(marks);
        } else {
            add_segment(&write, history.number, marks.sorted().iter())?;
        }
        {
            let mut table = write.open_table(PROGRESS)?;
            let row = (progress.entries, progress.foreign, progress.unjudged_segment);
            table.insert(history.number, row)?;
        }
        write.commit()?;
        if let Some(unstored) = unstored {
            return Ok(unstored);
        }
    }
    Ok(MarkSorter::default())
}

/// Where a recorder has got to.
struct Recording<'h> {
    history: &'h LogHistory,
    progress: Progress,
    next: Option<Examined>,
    batches: mpsc::Receiver<Examined>,
}

impl Recording<'_> {
    /// Takes in batches until the store has as much to write as it holds in memory. Whether that was the last, or
    /// reached entry `end`.
    fn take(
        &mut self,
        write: &WriteTransaction,
        end: u64,
        marks: &mut MarkSorter,
    ) -> Result<bool, HistoryError> {
        let (mut tiles, mut pieces) = (write.open_table(TILES)?, write.open_table(PIECES)?);
        let mut bytes = 0;
        while let Some(batch) = self.next.take() {
            for tile in &batch.tiles {
                bytes += keep(self.history, tile, &mut tiles, &mut pieces)?;
                self.progress.entries = self.progress.entries.max(tile.end());
            }
            self.progress.foreign += batch.foreign;
            for mark in &batch.marks {
                marks.add(mark);
            }
            self.next = self.batches.blocking_recv();
            if self.progress.entries >= end {
                return Ok(true);
            }
            if bytes >= STEP_BYTES {
                return Ok(self.next.is_none());
            }
        }
        Ok(true)
    }
}

/// Keeps a verified tile: the bundle of its entries where they are kept, else its hashes. How many bytes that took.
fn keep(
    history: &LogHistory,
    tile: &VerifiedTile,
    tiles: &mut Table<'_, (u32, u8, u64), &'static [u8]>,
    pieces: &mut Table<'_, (u32, u64, u32), &'static [u8]>,
) -> Result<usize, HistoryError> {
    let log = history.number;
    if !history.keeps_tiles() {
        return Ok(0);
    }
    if !history.keeps_entries() {
        tiles.insert((log, 0, tile.index), tile.hashes.as_slice())?;
        return Ok(tile.hashes.len());
    }
    if pieces.get((log, tile.index, 0))?.is_some() {
        // It was kept before, maybe narrower.
        pieces.retain_in((log, tile.index, 0)..=(log, tile.index, u32::MAX), |_, _| false)?;
    }
    for (piece, number) in pieces_of(&tile.bundle).zip(0..) {
        pieces.insert((log, tile.index, number), piece)?;
    }
    Ok(tile.bundle.len())
}

/// The smallest page of the store, the largest that a piece fills, and what a page needs besides one piece.
const PAGE_BYTES: usize = 1 << 12;
const PIECE_PAGE_BYTES: usize = 1 << 17;
const PAGE_OVERHEAD: usize = 64;

/// A bundle in pieces of which all but the last fill their page.
fn pieces_of(mut bundle: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let mut page = PIECE_PAGE_BYTES;
        while page > PAGE_BYTES && page - PAGE_OVERHEAD > bundle.len() {
            page /= 2;
        }
        let (piece, rest) = bundle.split_at((page - PAGE_OVERHEAD).min(bundle.len()));
        bundle = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::history::History;
    use crate::ledger::Ledger;
    use crate::mark::{Mark, MarkKind};

    /// A tile whose entries all have `length` bytes.
    fn tile(index: u64, width: u16, length: u16) -> VerifiedTile {
        let entry = [length.to_be_bytes().to_vec(), vec![b'e'; usize::from(length)]].concat();
        VerifiedTile { index, width, hashes: Vec::new(), bundle: entry.repeat(usize::from(width)) }
    }

    fn recorded(history: &LogHistory, tiles: &[(u64, u16, u16)]) {
        let (queue, batches) = mpsc::channel(tiles.len());
        for &(index, width, length) in tiles {
            let marks = vec![Mark::new(index, index * 256, MarkKind::Seal, 1)];
            let tiles = vec![tile(index, width, length)];
            queue.try_send(Examined { tiles, marks, ..Examined::default() }).unwrap();
        }
        drop(queue);
        record(history, 1 << 20, batches).unwrap();
    }

    #[test]
    fn all_is_kept_however_many_steps_it_takes_to_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.redb");
        let history = Arc::new(History::open_or_create(&path, false).unwrap()).log("log").unwrap();
        let tiles: Vec<(u64, u16, u16)> = (0..20).map(|index| (index, 256, 4_000)).collect();
        assert!(tiles.len() * 256 * 4_002 > 3 * STEP_BYTES);
        recorded(&history, &tiles);
        drop(history);
        let history = Arc::new(History::open(&path, false).unwrap()).log("log").unwrap();
        assert_eq!(history.progress().unwrap().entries, 20 * 256);
        for (index, width, length) in tiles {
            assert_eq!(history.bundle(index).unwrap(), Some(tile(index, width, length).bundle));
            assert_eq!(Ledger::new(&history).marks(index).unwrap().len(), 1);
        }
    }

    #[test]
    fn a_tile_that_is_kept_again_leaves_nothing_of_its_pieces_behind() {
        let history = Arc::new(History::in_memory([7; 16]).unwrap()).log("log").unwrap();
        // Three pieces, then one that fills a page.
        for (width, length) in [(10, 4_273), (16, 4_080), (255, 2)] {
            recorded(&history, &[(0, width, length)]);
            assert_eq!(history.bundle(0).unwrap(), Some(tile(0, width, length).bundle), "{width}");
        }
    }

    #[test]
    fn pieces_make_up_the_bundle_and_fill_their_pages() {
        let bundle: Vec<u8> = (0..700_000u32).map(|at| at.to_be_bytes()[3]).collect();
        for length in [0, 1, 4_032, 4_033, 8_128, 42_752, 130_000, 700_000] {
            let pieces: Vec<&[u8]> = pieces_of(&bundle[..length]).collect();
            assert!(pieces.concat() == bundle[..length], "{length}");
            for piece in pieces.iter().take(pieces.len().saturating_sub(1)) {
                assert!((piece.len() + PAGE_OVERHEAD).is_power_of_two(), "{length}: {}", piece.len());
            }
        }
        assert_eq!(pieces_of(&bundle[..42_752]).map(<[u8]>::len).collect::<Vec<_>>(), [32_704, 8_128, 1_920]);
    }
}

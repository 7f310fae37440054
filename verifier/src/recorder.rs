//! Writes verified tiles into the history on a thread of its own, in order and without a gap.

use std::thread;

use redb::Table;
use runseal_tlog::tile::TILE_WIDTH;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::entries::{Examined, VerifiedTile};
use crate::history::{HistoryError, LogHistory, PIECES, PROGRESS, TILES};
use crate::ledger::{Mark, add_segment};

/// Entries in one transaction. An interrupted audit loses at most the work on these.
const COMMIT_ENTRIES: u64 = 1 << 20;
/// Batches waiting for the disk.
const QUEUE: usize = 4;

/// A recorder at work.
#[derive(Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Examined>,
    task: JoinHandle<Result<Vec<Vec<Mark>>, HistoryError>>,
}

impl Recorder {
    /// Records into `history` from its present end on.
    pub fn start(history: LogHistory) -> Self {
        let (queue, batches) = mpsc::channel(QUEUE);
        let task = tokio::task::spawn_blocking(move || record(&history, batches));
        Self { queue, task }
    }

    /// Hands over the next batch, which starts where the last one ended.
    pub async fn push(&self, batch: Examined) {
        // A recorder that failed says why when it is finished.
        let _ = self.queue.send(batch).await;
    }

    /// Waits until everything is on disk. A scratch history that keeps no tiles need not store its last marks
    /// either: they come back, in parts of which each is sorted and all stand in order.
    ///
    /// # Errors
    /// [`HistoryError`], or a task that died.
    pub async fn finish(self) -> Result<Result<Vec<Vec<Mark>>, HistoryError>, tokio::task::JoinError> {
        drop(self.queue);
        self.task.await
    }
}

fn record(
    history: &LogHistory,
    mut batches: mpsc::Receiver<Examined>,
) -> Result<Vec<Vec<Mark>>, HistoryError> {
    let mut progress = history.progress()?;
    let mut next = batches.blocking_recv();
    while next.is_some() {
        let write = history.history.begin_write()?;
        let mut marks = Buckets::default();
        let start = progress.entries;
        {
            let mut leaves =
                LeafTables { tiles: write.open_table(TILES)?, pieces: write.open_table(PIECES)? };
            while let Some(batch) = next.take() {
                for tile in &batch.tiles {
                    leaves.keep(history, tile, progress.entries)?;
                    progress.entries = progress.entries.max(tile.end());
                }
                progress.foreign += batch.foreign;
                marks.add(&batch.marks);
                next = batches.blocking_recv();
                if progress.entries - start >= COMMIT_ENTRIES {
                    break;
                }
            }
        }
        let marks = marks.sorted();
        let unstored = next.is_none() && !history.keeps_tiles();
        if !unstored {
            add_segment(&write, history.number, marks.iter().flatten())?;
        }
        {
            let mut table = write.open_table(PROGRESS)?;
            let row = (progress.entries, progress.foreign, progress.unjudged_segment);
            table.insert(history.number, row)?;
        }
        write.commit()?;
        if unstored {
            return Ok(marks);
        }
    }
    Ok(Vec::new())
}

/// The tables that leaf tiles are kept in.
struct LeafTables<'t> {
    tiles: Table<'t, (u32, u8, u64), &'static [u8]>,
    pieces: Table<'t, (u32, u64, u32), &'static [u8]>,
}

impl LeafTables<'_> {
    /// Keeps a verified tile: the bundle of its entries where they are kept, else its hashes. The history reached
    /// up to `known` before.
    fn keep(&mut self, history: &LogHistory, tile: &VerifiedTile, known: u64) -> Result<(), HistoryError> {
        let log = history.number;
        if !history.keeps_tiles() {
            return Ok(());
        }
        if !history.keeps_entries() {
            self.tiles.insert((log, 0, tile.index), tile.hashes.as_slice())?;
            return Ok(());
        }
        if tile.index * u64::from(TILE_WIDTH) < known {
            // It was kept before, narrower.
            self.pieces.retain_in((log, tile.index, 0)..=(log, tile.index, u32::MAX), |_, _| false)?;
        }
        for (piece, number) in pieces_of(&tile.bundle).zip(0..) {
            self.pieces.insert((log, tile.index, number), piece)?;
        }
        Ok(())
    }
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

/// Marks, parted by the first bits of their run hash as they come, so that little is left to sort in the end.
struct Buckets(Vec<Vec<Mark>>);

/// Buckets: some thousand marks each in a full transaction.
const BUCKETS: usize = 1 << 8;

impl Default for Buckets {
    fn default() -> Self {
        Self(vec![Vec::new(); BUCKETS])
    }
}

impl Buckets {
    fn add(&mut self, marks: &[Mark]) {
        for mark in marks {
            self.0[usize::from(mark.run.to_be_bytes()[0])].push(*mark);
        }
    }

    fn sorted(mut self) -> Vec<Vec<Mark>> {
        let (first, second) = self.0.split_at_mut(BUCKETS / 2);
        let sort = |buckets: &mut [Vec<Mark>]| buckets.iter_mut().for_each(|bucket| bucket.sort_unstable());
        thread::scope(|scope| {
            scope.spawn(move || sort(first));
            sort(second);
        });
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! Writes verified tiles into the history on a thread of its own, in order and without a gap.

use std::thread;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::entries::Examined;
use crate::history::{BUNDLES, HistoryError, LogHistory, PROGRESS, TILES};
use crate::ledger::{Mark, add_segment};

/// Entries in one transaction. An interrupted audit loses at most the work on these.
const COMMIT_ENTRIES: u64 = 1 << 20;
/// Batches waiting for the disk.
const QUEUE: usize = 4;

/// A recorder at work.
#[derive(Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Examined>,
    task: JoinHandle<Result<Vec<Mark>, HistoryError>>,
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
    /// either: they come back, sorted.
    ///
    /// # Errors
    /// [`HistoryError`], or a task that died.
    pub async fn finish(self) -> Result<Result<Vec<Mark>, HistoryError>, tokio::task::JoinError> {
        drop(self.queue);
        self.task.await
    }
}

fn record(history: &LogHistory, mut batches: mpsc::Receiver<Examined>) -> Result<Vec<Mark>, HistoryError> {
    let mut progress = history.progress()?;
    let mut next = batches.blocking_recv();
    while next.is_some() {
        let write = history.history.begin_write()?;
        let mut marks = Buckets::default();
        let start = progress.entries;
        {
            let mut tiles = write.open_table(TILES)?;
            let mut bundles = write.open_table(BUNDLES)?;
            while let Some(batch) = next.take() {
                for tile in &batch.tiles {
                    if history.keeps_tiles() {
                        tiles.insert((history.number, 0, tile.index), tile.hashes.as_slice())?;
                    }
                    if history.keeps_entries() {
                        bundles.insert((history.number, tile.index), tile.bundle.as_slice())?;
                    }
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
            add_segment(&write, history.number, &marks)?;
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

    fn sorted(mut self) -> Vec<Mark> {
        let (first, second) = self.0.split_at_mut(BUCKETS / 2);
        let sort = |buckets: &mut [Vec<Mark>]| buckets.iter_mut().for_each(|bucket| bucket.sort_unstable());
        thread::scope(|scope| {
            scope.spawn(move || sort(first));
            sort(second);
        });
        let mut all = Vec::with_capacity(self.0.iter().map(Vec::len).sum());
        for bucket in self.0 {
            all.extend_from_slice(&bucket);
        }
        all
    }
}

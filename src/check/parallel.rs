//! All records, walked by as many threads as the machine has: the runs are cut into ranges by name.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::records::{Walk, Walked};
use super::{Check, CheckPart};
use crate::store::{Direction, Scanned, Space, StoreError, Table};

/// Runs in a range. Small enough that the last thread does not work long alone.
const RUNS: u64 = 4096;
/// Most threads. Beyond these the disk is what they wait for.
const THREADS_MAX: usize = 16;

/// A range that was walked.
struct Range {
    /// Its place among the ranges.
    at: usize,
    walked: Walked,
    result: Result<(), StoreError>,
}

impl Check<'_> {
    /// Walks every range; where several contradict themselves, the first by name is the one reported.
    pub(super) fn records(&mut self) -> Result<(), StoreError> {
        let cuts = self.cuts()?;
        let ranges = cuts.len() + 1;
        let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        let results: Mutex<Vec<Range>> = Mutex::default();
        let (rows, tenant, scope) = (self.rows, self.tenant, self.scope);
        let signer = self.signer.clone();
        let work = |ticks: mpsc::Sender<(u64, u64)>| {
            let tick = |records, bytes| {
                // Nobody listens any more where the whole check has ended.
                let _ = ticks.send((records, bytes));
            };
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= ranges || at > failed.load(Ordering::Relaxed) {
                    return;
                }
                let from = if at == 0 { &[][..] } else { &cuts[at - 1] };
                let to = cuts.get(at).map(Vec::as_slice);
                let mut walk = Walk::new(rows, tenant, scope, signer.as_ref(), (from, to), &tick);
                let result = walk.walk();
                if result.is_err() {
                    failed.fetch_min(at, Ordering::Relaxed);
                }
                results.lock().unwrap_or_else(PoisonError::into_inner).push(Range {
                    at,
                    walked: walk.walked,
                    result,
                });
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX).min(ranges);
        let (sender, ticks) = mpsc::channel();
        let before = self.report.bytes;
        thread::scope(|scope| {
            for _ in 0..threads {
                let (work, sender) = (&work, sender.clone());
                scope.spawn(move || work(sender));
            }
            drop(sender);
            let mut done = 0;
            for (records, bytes) in ticks {
                done += records;
                self.report.bytes += bytes;
                self.advance(CheckPart::Records, done, None);
            }
        });
        self.report.bytes = before;
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|range| range.at);
        for Range { walked, result, .. } in results {
            self.report.runs += walked.runs;
            self.report.records += walked.records;
            self.report.bytes += walked.bytes;
            self.expected.add(&walked.expected);
            result?;
        }
        Ok(())
    }

    /// Where the runs are cut: the name of every so many, as stored.
    fn cuts(&self) -> Result<Vec<Vec<u8>>, StoreError> {
        let space = Space::of(self.scope, Table::Runs);
        let (mut cuts, mut runs) = (Vec::new(), 0u64);
        self.rows.scan(&space.all(), Direction::Ascending, &mut |key, _| {
            runs += 1;
            if runs.is_multiple_of(RUNS) {
                cuts.push(space.own(key).to_vec());
            }
            Scanned::Continue(())
        })?;
        Ok(cuts)
    }
}

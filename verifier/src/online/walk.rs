//! Every run of a verified log once, with all that the log says of it.

use runseal_evidence::report::NotChecked;
use runseal_tlog::tile::TILE_WIDTH;

use crate::error::Failure;
use crate::history::{HistoryError, LogHistory};
use crate::judge;
use crate::ledger::Ledger;
use crate::mark::Mark;
use crate::online::blocking::blocking;
use crate::online::finder::Finder;
use crate::runs::Pinned;

/// Walks the log in order and answers each run where its last entry stands.
///
/// Going by position keeps the reads of entries in sequence; the marks of a run are looked up.
#[derive(Debug)]
pub struct RunWalk {
    history: LogHistory,
    entries: u64,
    next_tile: u64,
}

/// The runs whose last entries stand in one bundle.
#[derive(Debug, Default)]
pub struct RunBatch {
    /// The runs.
    pub runs: Vec<Pinned>,
    /// Entries that could not be had again.
    pub gaps: Vec<NotChecked>,
    /// Entries passed.
    pub position: u64,
    /// Whether this was the last.
    pub at_end: bool,
}

/// A run with the places of its entries, the last one read.
struct Ending {
    pinned: Pinned,
    others: Vec<Mark>,
}

impl RunWalk {
    /// Starts at the first entry. A history that does not read is noticed by the walk itself.
    pub fn start(history: &LogHistory) -> Self {
        let entries = history.progress().map_or(0, |progress| progress.entries);
        Self { history: history.clone(), entries, next_tile: 0 }
    }

    /// Entries in the log.
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// The runs of the next bundle.
    ///
    /// # Errors
    /// [`Failure`] of the history.
    pub async fn next_runs(&mut self, finder: &Finder<'_>) -> Result<RunBatch, Failure> {
        let width = u64::from(TILE_WIDTH);
        let first = self.next_tile * width;
        if first >= self.entries {
            return Ok(RunBatch { at_end: true, position: self.entries, ..RunBatch::default() });
        }
        self.next_tile += 1;
        let end = self.entries.min(first + width);
        let mut batch = RunBatch { position: end, ..RunBatch::default() };
        let mut bodies = Vec::new();
        let mut entries = finder.bundle(self.next_tile - 1).await?.into_iter();
        for index in first..end {
            match entries.next().flatten() {
                Some(entry) => bodies.push((index, entry)),
                None => batch.gaps.push(NotChecked::gap(format!("entry {index}"), "it cannot be had again")),
            }
        }
        let history = self.history.clone();
        let endings = blocking(move || endings(&history, bodies)).await??;
        for mut ending in endings {
            let run = ending.pinned.run.clone();
            for mark in ending.others {
                let Some(entry) = finder.entry(mark.index()).await? else {
                    let what = format!("entry {} of run {run}", mark.index());
                    batch.gaps.push(NotChecked::gap(what, "it cannot be had again"));
                    continue;
                };
                ending.pinned.add(mark.index(), &entry);
            }
            ending.pinned.heads.sort_by_key(|pin| pin.index);
            batch.runs.push(ending.pinned);
        }
        Ok(batch)
    }
}

/// The runs among these entries that have no later entry.
fn endings(history: &LogHistory, bodies: Vec<(u64, Vec<u8>)>) -> Result<Vec<Ending>, HistoryError> {
    let ledger = Ledger::new(history);
    let mut endings: Vec<Ending> = Vec::new();
    for (index, body) in bodies {
        let Some((tenant, run)) = judge::name_of(&body) else { continue };
        let marks = ledger.marks(Mark::run_hash(history.run_key(), &tenant, &run))?;
        // Another run of the same hash does not end this one.
        let later = marks.iter().rev().take_while(|mark| mark.index() > index);
        let mut ended = true;
        for mark in later {
            let name = history.entry(mark.index())?.and_then(|entry| judge::name_of(&entry));
            if name.is_none_or(|name| name.0 == tenant && name.1 == run) {
                ended = false;
                break;
            }
        }
        if !ended {
            continue;
        }
        let mut pinned = Pinned::new(tenant, run.clone());
        pinned.add(index, &body);
        let others = marks.into_iter().filter(|mark| mark.index() != index).collect();
        endings.push(Ending { pinned, others });
    }
    Ok(endings)
}

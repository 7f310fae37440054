//! The tree, its tiles and its entries: fetched, authenticated, kept, and held against each other run by run.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use runseal_evidence::amount::amount;
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_tlog::bundle::BUNDLE_BYTES_MAX;

use super::{LISTED_MAX, Run};
use crate::checkpoint::Signed;
use crate::error::Failure;
use crate::history::Remembered;
use crate::judge;
use crate::ledger::Ledger;
use crate::mark::MarkSorter;
use crate::online::blocking::blocking;
use crate::online::entries::{Examined, Examiner};
use crate::online::finder::Finder;
use crate::online::recorder::Recorder;
use crate::online::source::BUNDLE_BYTES_USUAL;
use crate::online::tree::{FetchedTree, TreeError};

/// Leaf tiles in one unit of work.
const UNIT_TILES: u64 = 16;

/// What the entries of one audit come to.
#[derive(Default)]
struct EntrySum {
    entries: u64,
    foreign: u64,
    faults: usize,
    /// Whether every tile so far is the signed tree's.
    gapless: bool,
}

impl Run<'_> {
    /// Authenticates the tree, its tiles and its entries. Whether the records can be looked at after it.
    pub(super) async fn log(
        &mut self,
        signed: &Signed,
        latest: Option<&Remembered>,
        now: u64,
    ) -> Result<bool, Failure> {
        let (size, root) = (signed.checkpoint.size(), *signed.checkpoint.root());
        let history = self.history.clone();
        let known = blocking(move || history.progress()).await??.entries.min(size);
        let fetched = FetchedTree::fetch(&self.audit.source, known, size, self.audit.jobs).await;
        let tree = match fetched {
            Ok(fetched) => blocking(move || fetched.authenticate(&root)).await?.map_err(TreeError::from),
            Err(error) => Err(error),
        };
        let tree = match tree {
            Ok(tree) => tree,
            Err(TreeError::Mismatch(mismatch)) => {
                self.report.failed("root", mismatch.to_string());
                self.report.findings.push(Finding::new(FindingKind::TileMismatch, mismatch.to_string()));
                self.unchecked_after("entries and records", "the tiles are not those of the signed root");
                return Ok(false);
            }
            Err(error) => {
                self.report.skipped("root", error.to_string());
                self.unchecked_after("entries and records", &error.to_string());
                return Ok(false);
            }
        };
        self.report.passed("root", format!("the tiles rebuild the signed root of size {size}"));
        if let Some(latest) = latest.filter(|latest| latest.size < size)
            && !self.extends(latest, signed, &tree).await?
        {
            return Ok(false);
        }
        let (history, remembered) =
            (self.history.clone(), Remembered { size, root, note: signed.note.clone(), seen: now });
        let examiner = blocking({
            let origin = self.audit.origin.clone();
            move || {
                history.remember(&remembered, tree.tiles())?;
                Ok::<_, Failure>(Arc::new(Examiner::new(tree, known, &origin, &history)))
            }
        })
        .await??;
        let unstored = self.entries(&examiner).await?;
        self.contradictions(size, examiner, unstored).await?;
        Ok(true)
    }

    /// Fetches, authenticates and keeps the entries from the known ones on. What [`Recorder::finish`] gives back.
    async fn entries(&mut self, examiner: &Arc<Examiner>) -> Result<MarkSorter, Failure> {
        let tiles = examiner.leaf_tiles();
        let bar = self.progress.bar("entries", (tiles.end - tiles.start) * 256);
        let units = (tiles.start..tiles.end).step_by(usize::try_from(UNIT_TILES).expect("a small number"));
        let source = &self.audit.source;
        let mut batches = stream::iter(units)
            .map(|first| {
                let unit = first..tiles.end.min(first + UNIT_TILES);
                let examined = Arc::clone(examiner).examine(source, unit.clone(), BUNDLE_BYTES_USUAL);
                async move { (unit, examined.await) }
            })
            .buffered(self.audit.jobs);
        let recorder = Recorder::start(self.history.clone(), examiner.tree().size());
        let mut sum = EntrySum { gapless: true, ..EntrySum::default() };
        while let Some((unit, batch)) = batches.next().await {
            let batch = batch?;
            if batch.oversized {
                for tile in unit {
                    let one = Arc::clone(examiner).examine(source, tile..tile + 1, BUNDLE_BYTES_MAX).await?;
                    bar.advance(256);
                    self.take(one, &mut sum, &recorder).await;
                }
            } else {
                bar.advance(batch.tiles.len() as u64 * 256);
                self.take(batch, &mut sum, &recorder).await;
            }
            if sum.faults + self.report.not_checked.len() > LISTED_MAX {
                self.unchecked_after("the entries further on", "too much is wrong to go on");
                sum.gapless = false;
                break;
            }
        }
        drop(batches);
        let unstored = recorder.finish().await??;
        self.report.counts.entries = sum.entries;
        if sum.faults == 0 && sum.gapless {
            let EntrySum { entries, foreign, .. } = sum;
            let others = if foreign > 0 { format!("; {foreign} of other programs") } else { String::new() };
            let detail = match entries {
                0 => "no new entry".to_owned(),
                _ => format!("{}, each with the hash of its leaf{others}", amount(entries, "new entry")),
            };
            self.report.passed("entries", detail);
        } else if sum.faults == 0 {
            self.report.skipped("entries", "not all of them could be had");
        } else {
            let detail = format!("{} in entries or tiles", amount(sum.faults, "fault"));
            self.report.failed("entries", detail);
        }
        Ok(unstored)
    }

    /// Takes in the next tiles, in order.
    async fn take(&mut self, mut batch: Examined, sum: &mut EntrySum, recorder: &Recorder) {
        sum.entries += batch.entries;
        sum.foreign += batch.foreign;
        sum.faults += batch.findings.len();
        self.report.findings.append(&mut batch.findings);
        self.report.not_checked.append(&mut batch.gaps);
        if !sum.gapless {
            return;
        }
        // Nothing is kept behind a gap, so that no later audit takes it for checked.
        if let Some(broken) = batch.broken_at {
            sum.gapless = false;
            batch.tiles.retain(|tile| tile.index < broken);
            batch.marks.retain(|mark| mark.index() / 256 < broken);
        }
        recorder.push(batch).await;
    }

    /// Holds the entries of each run against each other.
    async fn contradictions(
        &mut self,
        size: u64,
        examiner: Arc<Examiner>,
        unstored: MarkSorter,
    ) -> Result<(), Failure> {
        let history = self.history.clone();
        let suspects = blocking(move || judge::suspects(&history, unstored)).await??;
        let finder = Finder::new(&self.history, &self.audit.source, size).with(examiner);
        let mut found = Vec::new();
        for suspect in &suspects {
            let mut names = HashMap::new();
            for index in suspect.indexes() {
                if let Some(entry) = finder.entry(index).await? {
                    names.insert(index, judge::name_of(&entry));
                }
            }
            found.extend(suspect.findings(|index| names.get(&index).cloned().flatten()));
        }
        let history = self.history.clone();
        let all = blocking(move || {
            Ledger::new(&history).judged(&found)?;
            history.findings()
        })
        .await??;
        if all.is_empty() {
            self.report.passed(
                "seals-and-heads",
                "each run has at most one seal, no head after it, and heads that grow",
            );
        } else {
            let detail = format!("{} between entries of one run", amount(all.len(), "contradiction"));
            self.report.failed("seals-and-heads", detail);
            self.report.findings.extend(all);
        }
        Ok(())
    }
}

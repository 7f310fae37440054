//! What a rewritten log did to which runs: the remembered entries against those of the new tree.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use runseal_evidence::entry::{Entry, Recognised};
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::{RunId, TenantId};
use runseal_evidence::report::NotChecked;
use runseal_tlog::bundle::{self, BUNDLE_BYTES_MAX};
use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::policy::{CosignatureStatus, Policy};
use runseal_tlog::tile::TILE_WIDTH;

use crate::clock;
use crate::error::Failure;
use crate::history::{HistoryError, LogHistory};
use crate::ledger::Ledger;
use crate::mark::Mark;
use crate::online::blocking::blocking;
use crate::online::entries::Examiner;
use crate::online::source::LogSource;
use crate::online::tree::{LeafTile, SignedTree};

/// Entries compared one by one on each side.
const ENTRIES_MAX: usize = 1 << 18;
/// Runs named.
const NAMED_MAX: usize = 500;

type Name = (TenantId, RunId);

/// One entry on one side.
#[derive(Clone, Debug)]
struct Listed {
    index: u64,
    leaf: NodeHash,
    name: Option<Name>,
    sealed: bool,
}

/// What became of the remembered entries.
#[derive(Debug, Default)]
pub struct Diagnosis {
    /// The runs concerned.
    pub findings: Vec<Finding>,
    /// Where naming them had to stop.
    pub gaps: Vec<NotChecked>,
}

/// Compares the remembered entries with those of another tree of the same log, which its signed root
/// vouches for.
///
/// # Errors
/// [`Failure`] of the history.
pub async fn rewritten(
    history: &LogHistory,
    policy: &Policy,
    source: &LogSource,
    tree: SignedTree,
    origin: &str,
) -> Result<Diagnosis, Failure> {
    let size = tree.size();
    let examiner = Arc::new(Examiner::new(tree, 0, origin, history).keeping_entries());
    let (kept, examined) = (history.clone(), Arc::clone(&examiner));
    let changed = blocking(move || changed_tiles(&kept, examined.tree())).await??;
    let mut diagnosis = Diagnosis::default();
    let mut now = Vec::new();
    'tiles: for &tile in changed.iter().filter(|tile| examiner.leaf_tiles().contains(tile)) {
        let batch = match Arc::clone(&examiner).examine(source, tile..tile + 1, BUNDLE_BYTES_MAX).await {
            Ok(batch) => batch,
            Err(error) => return Err(error.into()),
        };
        for verified in &batch.tiles {
            list(&verified.bundle, verified.index, &mut now);
        }
        if batch.broken_at.is_some() {
            let why = "the entries of the new tree cannot be had, so what became of them stays open";
            diagnosis.gaps.push(NotChecked::gap(format!("entries from index {}", tile * 256), why));
        }
        if now.len() > ENTRIES_MAX {
            break 'tiles;
        }
    }
    let (kept, policy) = (history.clone(), policy.clone());
    let named = blocking(move || -> Result<Diagnosis, HistoryError> {
        let mut before = Vec::new();
        for &tile in &changed {
            let Some(bundle) = kept.bundle(tile)? else {
                let why = "the history keeps no entries (--history-light), so they have no names";
                diagnosis.gaps.push(NotChecked::out_of_scope("runs whose entries vanished", why));
                break;
            };
            list(&bundle, tile, &mut before);
            if before.len() > ENTRIES_MAX {
                break;
            }
        }
        if before.len() > ENTRIES_MAX || now.len() > ENTRIES_MAX {
            let why = format!("only the first {ENTRIES_MAX} changed entries were compared");
            diagnosis.gaps.push(NotChecked::gap("runs further on", why));
        }
        before.truncate(ENTRIES_MAX);
        diagnosis.findings = compare(&kept, &policy, &before, &now, size)?;
        Ok(diagnosis)
    })
    .await??;
    Ok(named)
}

/// Names the runs whose entries lie beyond a smaller checkpoint of the same history.
///
/// # Errors
/// [`HistoryError`].
pub fn rolled_back(history: &LogHistory, policy: &Policy, size: u64) -> Result<Diagnosis, HistoryError> {
    let mut gone = Vec::new();
    let width = u64::from(TILE_WIDTH);
    let end = history.progress()?.entries;
    for tile in size / width..end.div_ceil(width) {
        let Some(bundle) = history.bundle(tile)? else { break };
        list(&bundle, tile, &mut gone);
        if gone.len() > ENTRIES_MAX {
            break;
        }
    }
    gone.retain(|listed| listed.index >= size);
    let mut diagnosis = Diagnosis::default();
    if gone.len() > ENTRIES_MAX {
        let why = format!("only the first {ENTRIES_MAX} missing entries were named");
        diagnosis.gaps.push(NotChecked::gap("runs further on", why));
    }
    diagnosis.findings = compare(history, policy, &gone, &[], size)?;
    Ok(diagnosis)
}

/// The leaf tiles that differ between the history and `tree`, as far as the history reaches.
fn changed_tiles(history: &LogHistory, tree: &SignedTree) -> Result<Vec<u64>, HistoryError> {
    let width = u64::from(TILE_WIDTH);
    let known = history.progress()?.entries;
    let tiles: Range<u64> = 0..known.max(tree.size()).div_ceil(width);
    let mut changed = Vec::new();
    let mut upper = None;
    for index in tiles {
        let kept = match tree.leaf_tile(index) {
            LeafTile::Full(hash) if (index + 1) * width <= known => {
                let parent = index / width;
                if upper.as_ref().is_none_or(|(at, _)| *at != parent) {
                    upper = Some((parent, history.tile(1, parent)?));
                }
                let within = usize::try_from(index % width).expect("below 256");
                let tile = upper.as_ref().and_then(|(_, tile)| tile.as_ref());
                tile.and_then(|tile| tile.hashes().get(within)) == Some(&hash)
            }
            LeafTile::Edge(edge) => history.tile(0, index)?.as_ref() == Some(edge),
            LeafTile::Full(_) | LeafTile::Beyond => false,
        };
        if !kept {
            changed.push(index);
            if changed.len() > ENTRIES_MAX / 256 + 1 {
                break;
            }
        }
    }
    Ok(changed)
}

/// Lists the entries of a verified bundle.
fn list(bytes: &[u8], tile: u64, out: &mut Vec<Listed>) {
    let first = tile * u64::from(TILE_WIDTH);
    let mut width = 0;
    while width < TILE_WIDTH && bundle::prefix(bytes, width + 1).is_ok() {
        width += 1;
    }
    for (entry, index) in bundle::entries(bytes, width).unwrap_or_default().iter().zip(first..) {
        let (name, sealed) = match Entry::recognise(entry) {
            Recognised::Ours(Entry::Seal(seal)) => (Some((seal.tenant, seal.run)), true),
            Recognised::Ours(Entry::Head(head)) => (Some((head.tenant, head.run)), false),
            _ => (None, false),
        };
        out.push(Listed { index, leaf: LeafHash::of(entry).into(), name, sealed });
    }
}

fn compare(
    history: &LogHistory,
    policy: &Policy,
    before: &[Listed],
    now: &[Listed],
    new_size: u64,
) -> Result<Vec<Finding>, HistoryError> {
    let at_now: HashMap<NodeHash, u64> = now.iter().rev().map(|listed| (listed.leaf, listed.index)).collect();
    let old_leaves: HashSet<NodeHash> = before.iter().map(|listed| listed.leaf).collect();
    let fresh: HashMap<&Name, &Listed> = now
        .iter()
        .filter(|listed| !old_leaves.contains(&listed.leaf))
        .filter_map(|listed| Some((listed.name.as_ref()?, listed)))
        .collect();
    let named_now: HashSet<&Name> = now.iter().filter_map(|listed| listed.name.as_ref()).collect();
    let first_changed = before.first().map_or(new_size, |listed| listed.index);
    let witnessed = Witnessed::load(history, policy)?;
    let (kept, vanished): (Vec<&Listed>, Vec<&Listed>) =
        before.iter().partition(|listed| at_now.contains_key(&listed.leaf));
    let mut findings = Vec::new();
    for listed in vanished.iter().take(NAMED_MAX) {
        let since = witnessed.since(listed.index);
        let what = if listed.sealed { "seal" } else { "head" };
        let finding = match &listed.name {
            None => {
                Finding::new(FindingKind::Fork, format!("the entry at index {} is gone{since}", listed.index))
            }
            Some(name) => {
                let (kind, detail) = if let Some(new) = fresh.get(name) {
                    let detail = format!(
                        "its {what} at index {} was replaced by another entry, now at index {}{since}",
                        listed.index, new.index
                    );
                    (FindingKind::RunEdited, detail)
                } else if named_now.contains(name) || remains(history, name, first_changed.min(new_size))? {
                    let detail = format!(
                        "its {what} at index {} is gone, earlier entries of the run remain{since}",
                        listed.index
                    );
                    (FindingKind::RunTruncated, detail)
                } else {
                    (
                        FindingKind::RunDeleted,
                        format!("its {what} at index {} is gone from the log{since}", listed.index),
                    )
                };
                Finding::new(kind, detail).in_run(&name.1)
            }
        };
        findings.push(finding.at_index(listed.index));
    }
    let places: Vec<(u64, u64)> =
        kept.iter().filter_map(|listed| Some((listed.index, *at_now.get(&listed.leaf)?))).collect();
    // A swap alone moves exactly those it moves. Where entries are gone, all behind them close up, which
    // is no reordering of theirs: only those out of sequence were moved.
    let moved: HashSet<u64> = if vanished.is_empty() && fresh_within(now, &old_leaves, before) == 0 {
        places.iter().filter(|(old, new)| old != new).map(|(old, _)| *old).collect()
    } else {
        out_of_sequence(&places)
    };
    let place: HashMap<u64, u64> = places.into_iter().collect();
    for listed in kept.iter().filter(|listed| moved.contains(&listed.index)).take(NAMED_MAX) {
        let since = witnessed.since(listed.index);
        let detail =
            format!("its entry moved from index {} to {}{since}", listed.index, place[&listed.index]);
        let finding = Finding::new(FindingKind::RunReordered, detail).at_index(listed.index);
        findings.push(match &listed.name {
            Some((_, run)) => finding.in_run(run),
            None => finding,
        });
    }
    Ok(findings)
}

/// New entries among the places of the old ones.
fn fresh_within(now: &[Listed], old_leaves: &HashSet<NodeHash>, before: &[Listed]) -> usize {
    let end = before.last().map_or(0, |listed| listed.index);
    now.iter().filter(|listed| listed.index <= end && !old_leaves.contains(&listed.leaf)).count()
}

/// Whether a run has an entry before index `end`, which both trees share.
fn remains(history: &LogHistory, (tenant, run): &Name, end: u64) -> Result<bool, HistoryError> {
    let marks = Ledger::new(history).marks(Mark::run_hash(history.run_key(), tenant, run))?;
    for mark in marks.iter().take_while(|mark| mark.index() < end) {
        if history
            .entry(mark.index())?
            .and_then(|entry| crate::judge::name_of(&entry))
            .is_some_and(|name| name.1 == *run)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Old places of what is not in the longest subsequence that kept its order.
fn out_of_sequence(places: &[(u64, u64)]) -> HashSet<u64> {
    // Patience sorting: `tails[k]` ends the best subsequence of length k + 1.
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; places.len()];
    for (at, (_, new)) in places.iter().enumerate() {
        let slot = tails.partition_point(|tail| places[*tail].1 < *new);
        before[at] = slot.checked_sub(1).map(|slot| tails[slot]);
        if slot == tails.len() {
            tails.push(at);
        } else {
            tails[slot] = at;
        }
    }
    let mut moved: HashSet<u64> = places.iter().map(|(old, _)| *old).collect();
    let mut at = tails.last().copied();
    while let Some(step) = at {
        moved.remove(&places[step].0);
        at = before[step];
    }
    moved
}

/// When entries were first witnessed.
struct Witnessed {
    /// Size and earliest valid cosignature time, by size.
    sizes: Vec<(u64, u64)>,
}

impl Witnessed {
    fn load(history: &LogHistory, policy: &Policy) -> Result<Self, HistoryError> {
        let mut sizes = Vec::new();
        for checkpoint in history.checkpoints_from(0)? {
            let checkpoint = checkpoint?;
            let examination = policy.examine(&checkpoint.note).ok();
            let times = examination.iter().flat_map(|examination| &examination.cosignatures);
            let valid = times.filter(|line| line.status == CosignatureStatus::Valid);
            sizes.extend(valid.filter_map(|line| line.time).min().map(|time| (checkpoint.size, time)));
        }
        Ok(Self { sizes })
    }

    /// ` (witnessed 2026-…)` for the entry at `index`, or nothing.
    fn since(&self, index: u64) -> String {
        let from = self.sizes.partition_point(|(size, _)| *size <= index);
        let earliest = self.sizes[from..].iter().map(|(_, time)| *time).min();
        earliest.map_or(String::new(), |time| format!(" (witnessed since {})", clock::spell(time)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::strategy::Strategy as _;

    use super::*;

    /// The length of the longest increasing subsequence, by trying everything.
    fn longest(sequence: &[u64], above: Option<u64>) -> usize {
        let Some((first, rest)) = sequence.split_first() else { return 0 };
        let without = longest(rest, above);
        if above.is_some_and(|above| *first <= above) {
            without
        } else {
            without.max(1 + longest(rest, Some(*first)))
        }
    }

    proptest::proptest! {
        #[test]
        fn as_few_as_possible_are_called_moved(order in proptest::sample::subsequence((0..12u64).collect::<Vec<_>>(), 0..=9).prop_shuffle()) {
            use proptest::prelude::*;
            let places: Vec<(u64, u64)> = (0..).zip(order.iter().copied()).collect();
            let moved = out_of_sequence(&places);
            let kept: Vec<u64> = places.iter().filter(|(old, _)| !moved.contains(old)).map(|(_, new)| *new).collect();
            prop_assert!(kept.is_sorted());
            prop_assert_eq!(kept.len(), longest(&order, None));
        }
    }
}

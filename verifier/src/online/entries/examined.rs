//! What looking at some tiles came to.

use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::report::NotChecked;
use runseal_tlog::hash::{HASH_BYTES, NodeHash};
use runseal_tlog::tile::{TILE_WIDTH, TilePath};

use crate::judge;
use crate::mark::Mark;

/// Faults named in one tile; the first few tell what happened.
const FAULTS_NAMED_MAX: usize = 16;

/// A leaf tile and its entries, authenticated.
#[derive(Debug)]
pub struct VerifiedTile {
    /// The tile's index on level 0.
    pub index: u64,
    /// Entries in it.
    pub width: u16,
    /// Leaf hashes, 32 bytes each; empty where the history keeps none.
    pub hashes: Vec<u8>,
    /// The entries as a bundle of the same width; empty where the history keeps none.
    pub bundle: Vec<u8>,
}

impl VerifiedTile {
    /// One past the last entry.
    pub fn end(&self) -> u64 {
        self.index * u64::from(TILE_WIDTH) + u64::from(self.width)
    }
}

/// What the entries of some tiles come to.
#[derive(Debug, Default)]
pub struct Examined {
    /// The tiles whose entries are the signed tree's, in order.
    pub tiles: Vec<VerifiedTile>,
    /// The first tile that is not among them.
    pub broken_at: Option<u64>,
    /// One mark for each new entry of a run.
    pub marks: Vec<Mark>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What could not be checked.
    pub gaps: Vec<NotChecked>,
    /// A bundle was longer than allowed: nothing was examined, and the tiles want examining one at a time.
    pub oversized: bool,
    /// New entries examined.
    pub entries: u64,
    /// New entries that are not ours.
    pub foreign: u64,
}

impl Examined {
    pub(super) fn gap(&mut self, path: TilePath, why: &str) {
        self.gaps.push(NotChecked::gap(path.to_string(), why));
    }

    pub(super) fn broken(&mut self, tile: u64) {
        self.broken_at.get_or_insert(tile);
    }

    /// Names the entries whose leaf the tree does not have.
    pub(super) fn mismatched(
        &mut self,
        path: TilePath,
        first: u64,
        entries: &[&[u8]],
        hashes: &[u8],
        served: Option<&[u8]>,
    ) {
        let Some(served) = served else {
            let detail = format!("the entries of {path} do not hash to what the signed root vouches for");
            return self.findings.push(Finding::new(FindingKind::EntryMismatch, detail).at_index(first));
        };
        let pairs = hashes.chunks_exact(HASH_BYTES).zip(served.chunks_exact(HASH_BYTES));
        let wrong = pairs.zip(entries).zip(first..).filter(|(((found, leaf), _), _)| found != leaf);
        for (((_, leaf), entry), index) in wrong.take(FAULTS_NAMED_MAX) {
            let leaf = NodeHash::from_slice(leaf).map_or_else(String::new, |leaf| leaf.to_string());
            let detail = format!("the entry served at index {index} does not hash to its leaf {leaf}");
            let finding = Finding::new(FindingKind::EntryMismatch, detail).at_index(index);
            self.findings.push(match judge::name_of(entry) {
                Some((_, run)) => finding.in_run(&run),
                None => finding,
            });
        }
    }
}

//! subtrees.json: valid ranges and subtree consistency proofs
//! (draft-ietf-plants-merkle-tree-certs-03, section 4).

use runseal_tlog::subtree::{self, Subtree, SubtreeRange};
use serde::Deserialize;

use crate::merkle::{Stored, leaves};
use crate::shared::{Cases, Hex, hashes, load};

#[derive(Deserialize)]
struct File {
    valid_ranges: Cases<(u64, u64, Option<bool>)>,
    consistency: Cases<Consistency>,
    negative: Cases<Consistency>,
}

#[derive(Deserialize)]
struct Consistency {
    start: u64,
    end: u64,
    size: u64,
    hash: Hex,
    root: Hex,
    proof: Vec<Hex>,
    #[serde(default)]
    why: String,
}

impl Consistency {
    fn verify(&self) -> Result<(), String> {
        let range = SubtreeRange::new(self.start, self.end).map_err(|error| error.to_string())?;
        let hash = *hashes([&*self.hash.0])?.first().unwrap();
        let root = *hashes([&*self.root.0])?.first().unwrap();
        let proof = hashes(self.proof.iter().map(|hash| &*hash.0))?;
        subtree::verify_consistency(&Subtree { range, hash }, self.size, &root, &proof)
            .map_err(|error| error.to_string())
    }

    fn name(&self) -> String {
        format!("[{}, {}) in {} {}", self.start, self.end, self.size, self.why)
    }
}

#[test]
fn shared_ranges_are_subtrees_or_not_as_stated() {
    let Some(file) = load::<File>("subtrees.json") else { return };
    for (start, end, valid) in &file.valid_ranges.0 {
        // The empty range: none in the draft that C2SP names, one in later drafts.
        let expected = valid.unwrap_or_else(|| {
            assert_eq!(start, end);
            false
        });
        assert_eq!(SubtreeRange::new(*start, *end).is_ok(), expected, "[{start}, {end})");
    }
}

#[test]
fn shared_subtree_proofs_are_made_alike_and_hold() {
    let Some(file) = load::<File>("subtrees.json") else { return };
    let stored = Stored::of(&leaves(file.consistency.0.iter().map(|case| case.size).max().unwrap()));
    file.consistency.check("subtree consistency", |case| {
        let range = SubtreeRange::new(case.start, case.end).map_err(|error| error.to_string())?;
        let proof: Vec<_> = case.proof.iter().map(Hex::hash).collect();
        assert_eq!(subtree::hash(range, &stored), Ok(case.hash.hash()), "{}", case.name());
        assert_eq!(subtree::prove_consistency(range, case.size, &stored), Ok(proof), "{}", case.name());
        case.verify().map_err(|error| format!("{}: {error}", case.name()))
    });
}

#[test]
fn shared_false_subtree_proofs_are_refused() {
    let Some(file) = load::<File>("subtrees.json") else { return };
    file.negative.check("negative subtree consistency", |case| match case.verify() {
        Ok(()) => Err(format!("{}: accepted", case.name())),
        Err(_) => Ok(()),
    });
}

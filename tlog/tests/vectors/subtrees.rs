//! subtrees.json: valid ranges and subtree consistency proofs
//! (draft-ietf-plants-merkle-tree-certs-03, section 4).

use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::subtree::{self, Subtree, SubtreeRange};
use serde::Deserialize;
use sha2::{Digest, Sha256};

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

/// The tree of the draft's accumulated vectors: leaf `i` is the byte `i`.
fn accumulated_tree() -> Stored {
    Stored::of(&(0..130).map(|leaf: u8| LeafHash::of(&[leaf])).collect::<Vec<_>>())
}

/// Every range up to `end`, as the draft's accumulated vectors walk them. The vectors are of a draft
/// that calls the empty range a subtree; this crate does not, so those lines come without a range.
fn ranges(end: u64) -> impl Iterator<Item = (u64, Option<SubtreeRange>)> {
    (0..=end).filter_map(move |start| match SubtreeRange::new(start, end) {
        Ok(range) => Some((start, Some(range))),
        Err(_) => (start == end).then_some((start, None)),
    })
}

fn spelled(hashes: &[NodeHash]) -> String {
    hashes.iter().flat_map(|hash| [" ".to_owned(), hex::encode(hash.as_bytes())]).collect()
}

#[test]
fn own_hashes_of_all_subtrees_have_the_drafts_digest() {
    let tree = accumulated_tree();
    let mut digest = Sha256::new();
    for end in 0..=130 {
        for (start, range) in ranges(end) {
            let hash = range.map_or(NodeHash::EMPTY_ROOT, |range| subtree::hash(range, &tree).unwrap());
            digest.update(format!("[{start}, {end}){}\n", spelled(&[hash])));
        }
    }
    let expected = "b82806ad4265bb151c1119c0f4db437bb4d1a1f887b3a7fba1cd4ebf552e3e81";
    assert_eq!(hex::encode(digest.finalize()), expected);
}

#[test]
fn own_inclusion_proofs_of_all_subtrees_have_the_drafts_digest() {
    let tree = accumulated_tree();
    let mut digest = Sha256::new();
    for end in 0..=130 {
        for range in ranges(end).filter_map(|(_, range)| range) {
            for index in range.start()..range.end() {
                let proof = subtree::prove_inclusion(index, range, &tree).unwrap();
                digest.update(format!("{index} {range}{}\n", spelled(&proof)));
            }
        }
    }
    let expected = "ac2a8f989e44d99e399db448050ff5f19757df53cfb716aa81015d3955d8163f";
    assert_eq!(hex::encode(digest.finalize()), expected);
}

#[test]
fn own_consistency_proofs_of_all_subtrees_have_the_drafts_digest() {
    let tree = accumulated_tree();
    let mut digest = Sha256::new();
    for size in 0..=130 {
        for end in 0..=size {
            for (start, range) in ranges(end) {
                let proof = range.map(|range| subtree::prove_consistency(range, size, &tree).unwrap());
                digest.update(format!("[{start}, {end}) {size}{}\n", spelled(&proof.unwrap_or_default())));
            }
        }
    }
    let expected = "10fa99b37bf9bf9ffa26b412fbd98bd75363256d0b75d61bc4538b9c9c5a0a74";
    assert_eq!(hex::encode(digest.finalize()), expected);
}

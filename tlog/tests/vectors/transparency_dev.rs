//! transparency-dev/merkle's test data: one case a file, in folders.

use std::fs;
use std::path::{Path, PathBuf};

use runseal_tlog::hash::NodeHash;
use runseal_tlog::subtree::{self, Subtree, SubtreeRange};
use runseal_tlog::{consistency, inclusion};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::shared::{Base64, hashes, path, read};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Inclusion {
    leaf_idx: u64,
    tree_size: u64,
    root: Base64,
    leaf_hash: Base64,
    proof: Option<Vec<Base64>>,
    want_err: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubtreeInclusion {
    leaf_idx: u64,
    start: u64,
    end: u64,
    root: Base64,
    leaf_hash: Base64,
    proof: Option<Vec<Base64>>,
    want_err: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Consistency {
    size1: u64,
    size2: u64,
    root1: Base64,
    root2: Base64,
    proof: Option<Vec<Base64>>,
    want_err: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubtreeConsistency {
    start: u64,
    end: u64,
    size: u64,
    root1: Base64,
    root2: Base64,
    proof: Option<Vec<Base64>>,
    want_err: bool,
}

/// Every JSON file below a folder, with its name from there.
fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                files.push((path.strip_prefix(folder).unwrap().display().to_string(), path));
            }
        }
    }
    assert!(!files.is_empty(), "{} holds no case", folder.display());
    files.sort();
    files
}

/// Holds every file of a folder against `verify`. Where this crate answers otherwise on purpose, the
/// file is in `otherwise`, all of whose names must occur.
fn walk<T: DeserializeOwned>(
    folder: &str,
    want_err: impl Fn(&T) -> bool,
    verify: impl Fn(&T) -> Result<(), String>,
    otherwise: &[&str],
) {
    let Some(folder) = path(&format!("transparency-dev-merkle/{folder}")) else { return };
    let mut differ = Vec::new();
    for (name, path) in files(&folder) {
        let case: T = read(&path);
        if verify(&case).is_err() != want_err(&case) {
            differ.push(name);
        }
    }
    assert_eq!(differ, otherwise, "{}", folder.display());
}

fn two(first: &Base64, second: &Base64) -> Result<[NodeHash; 2], String> {
    Ok(hashes([&*first.0, &*second.0])?.try_into().unwrap())
}

fn all(proof: Option<&Vec<Base64>>) -> Result<Vec<NodeHash>, String> {
    hashes(proof.into_iter().flatten().map(|hash| &*hash.0))
}

#[test]
fn inclusion_proofs() {
    walk::<Inclusion>(
        "inclusion",
        |case| case.want_err,
        |case| {
            let [root, leaf] = two(&case.root, &case.leaf_hash)?;
            let proof = all(case.proof.as_ref())?;
            let implied = inclusion::implied_root(case.leaf_idx, case.tree_size, leaf, &proof);
            (implied.map_err(|error| error.to_string())? == root).then_some(()).ok_or("root".to_owned())
        },
        &[],
    );
}

#[test]
fn consistency_proofs() {
    walk::<Consistency>(
        "consistency",
        |case| case.want_err,
        |case| {
            let [old, new] = two(&case.root1, &case.root2)?;
            let proof = all(case.proof.as_ref())?;
            consistency::verify(case.size1, &old, case.size2, &new, &proof).map_err(|error| error.to_string())
        },
        &[
            // Roots of twelve bytes are not hashes here.
            "additional/sizes-are-equal-one-and-proof-is-empty.json",
        ],
    );
}

#[test]
fn subtree_inclusion_proofs() {
    walk::<SubtreeInclusion>(
        "subtreeinclusion",
        |case| case.want_err,
        |case| {
            let range = SubtreeRange::new(case.start, case.end).map_err(|error| error.to_string())?;
            let [hash, leaf] = two(&case.root, &case.leaf_hash)?;
            let proof = all(case.proof.as_ref())?;
            let implied = subtree::implied_hash(case.leaf_idx, range, leaf, &proof);
            (implied.map_err(|error| error.to_string())? == hash).then_some(()).ok_or("hash".to_owned())
        },
        &[],
    );
}

#[test]
fn subtree_consistency_proofs() {
    walk::<SubtreeConsistency>(
        "subtreeconsistency",
        |case| case.want_err,
        |case| {
            let range = SubtreeRange::new(case.start, case.end).map_err(|error| error.to_string())?;
            let [hash, root] = two(&case.root1, &case.root2)?;
            let proof = all(case.proof.as_ref())?;
            subtree::verify_consistency(&Subtree { range, hash }, case.size, &root, &proof)
                .map_err(|error| error.to_string())
        },
        &[
            "additional/sizes-are-equal-one-and-proof-is-empty.json",
            // Drafts after -05 call the empty range a subtree; the C2SP specifications name -03.
            "additional/subtree-is-empty-sizes-are-equal-one-subtree-root-valid-proof-is-empty.json",
            "additional/subtree-is-empty-sizes-are-equal-one-subtree-root-valid-tree-root-random-proof-is-empty.json",
            "additional/subtree-is-empty-sizes-are-equal-zero-subtree-root-valid-proof-is-empty.json",
            "additional/subtree-is-empty-sizes-are-equal-zero-subtree-root-valid-tree-root-random-proof-is-empty.json",
            "additional/subtree-is-empty-subtree-root-valid-proof-is-empty.json",
            "additional/subtree-is-empty-subtree-root-valid-tree-root-random-proof-is-empty.json",
        ],
    );
}

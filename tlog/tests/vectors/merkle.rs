//! merkle.json: roots, inclusion and consistency proofs (RFC 6962, section 2.1).

use std::convert::Infallible;

use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::tree::{Frontier, NodeId, NodeReader, root, root_of};
use runseal_tlog::{consistency, inclusion};
use serde::Deserialize;

use crate::shared::{Answer, Cases, Expect, Hex, entry, hashes, load};

/// A tree with every complete subtree kept, by level and index.
pub(crate) struct Stored(Vec<Vec<NodeHash>>);

impl Stored {
    pub(crate) fn of(leaves: &[LeafHash]) -> Self {
        let mut frontier = Frontier::new();
        let mut levels: Vec<Vec<NodeHash>> = Vec::new();
        for (node, hash) in leaves.iter().flat_map(|leaf| frontier.append(*leaf)) {
            let level = usize::from(node.level);
            levels.resize(levels.len().max(level + 1), Vec::new());
            assert_eq!(levels[level].len() as u64, node.index);
            levels[level].push(hash);
        }
        Self(levels)
    }
}

impl NodeReader for Stored {
    type Error = Infallible;

    fn read_nodes(&self, nodes: &[NodeId]) -> Result<Vec<NodeHash>, Infallible> {
        let read = |node: &NodeId| self.0[usize::from(node.level)][usize::try_from(node.index).unwrap()];
        Ok(nodes.iter().map(read).collect())
    }
}

/// The leaves of the collection's rule.
pub(crate) fn leaves(count: u64) -> Vec<LeafHash> {
    (0..count).map(|index| LeafHash::of(&entry(index))).collect()
}

/// The first `size` of them.
fn first(leaves: &[LeafHash], size: u64) -> &[LeafHash] {
    &leaves[..usize::try_from(size).unwrap()]
}

#[derive(Deserialize)]
struct File {
    leaf_hashes: Cases<Hex>,
    roots: Cases<Root>,
    reference_tree: Reference,
    inclusion: Cases<Inclusion>,
    consistency: Cases<Consistency>,
    negative_inclusion: Cases<Inclusion>,
    negative_consistency: Cases<Consistency>,
    edge: Cases<Edge>,
}

#[derive(Deserialize)]
struct Root {
    size: u64,
    root: Hex,
}

#[derive(Deserialize)]
struct Reference {
    leaves_hex: Cases<Hex>,
    roots: Cases<Hex>,
}

#[derive(Deserialize)]
struct Inclusion {
    #[serde(default)]
    why: String,
    size: u64,
    index: u64,
    leaf_hash: Hex,
    root: Hex,
    proof: Vec<Hex>,
}

impl Inclusion {
    fn verify(&self) -> Result<(), String> {
        let [leaf, root] = <[NodeHash; 2]>::try_from(hashes([&*self.leaf_hash.0, &*self.root.0])?).unwrap();
        let proof = hashes(self.proof.iter().map(|hash| &*hash.0))?;
        let implied = inclusion::implied_root(self.index, self.size, leaf, &proof);
        let implied = implied.map_err(|error| error.to_string())?;
        if implied == root { Ok(()) } else { Err("another root".to_owned()) }
    }

    fn name(&self) -> String {
        format!("inclusion of {} in {} {}", self.index, self.size, self.why)
    }
}

#[derive(Deserialize)]
struct Consistency {
    #[serde(default)]
    why: String,
    old: u64,
    new: u64,
    old_root: Hex,
    new_root: Hex,
    proof: Vec<Hex>,
}

impl Consistency {
    fn verify(&self) -> Result<(), String> {
        let [old, new] = <[NodeHash; 2]>::try_from(hashes([&*self.old_root.0, &*self.new_root.0])?).unwrap();
        let proof = hashes(self.proof.iter().map(|hash| &*hash.0))?;
        consistency::verify(self.old, &old, self.new, &new, &proof).map_err(|error| error.to_string())
    }

    fn name(&self) -> String {
        format!("consistency of {} with {} {}", self.old, self.new, self.why)
    }
}

#[derive(Deserialize)]
struct Edge {
    id: String,
    expect: Expect,
    #[serde(flatten)]
    proof: EdgeProof,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum EdgeProof {
    Inclusion(Inclusion),
    Consistency(Consistency),
}

/// A first checkpoint needs no proof: every tree extends the empty one (tlog-witness).
const DECIDED: &[(&str, Answer)] = &[("e-020", Answer::Accept), ("e-021", Answer::Accept)];

#[test]
fn shared_roots_and_proofs_are_made_alike() {
    let Some(file) = load::<File>("merkle.json") else { return };
    let size = file.roots.0.iter().map(|case| case.size).max().unwrap();
    let all = leaves(size);
    let stored = Stored::of(&all);
    for (leaf, hash) in all.iter().zip(&file.leaf_hashes.0) {
        assert_eq!(NodeHash::from(*leaf), hash.hash());
    }
    for case in &file.roots.0 {
        assert_eq!(root(case.size, &stored), Ok(case.root.hash()), "root of {}", case.size);
        assert_eq!(root_of(first(&all, case.size)), case.root.hash(), "root_of {}", case.size);
    }
    let bare = |hashes: &[Hex]| hashes.iter().map(Hex::hash).collect::<Vec<_>>();
    for case in &file.inclusion.0 {
        assert_eq!(
            inclusion::prove(case.index, case.size, &stored),
            Ok(bare(&case.proof)),
            "{}",
            case.name()
        );
        let leaf = all[usize::try_from(case.index).unwrap()];
        let (proof, root) = (bare(&case.proof), case.root.hash());
        assert_eq!(inclusion::verify(case.index, case.size, leaf, &proof, &root), Ok(()), "{}", case.name());
    }
    for case in &file.consistency.0 {
        assert_eq!(consistency::prove(case.old, case.new, &stored), Ok(bare(&case.proof)), "{}", case.name());
        assert_eq!(case.verify(), Ok(()), "{}", case.name());
    }
}

#[test]
fn shared_reference_tree_has_its_roots() {
    let Some(file) = load::<File>("merkle.json") else { return };
    let leaves: Vec<LeafHash> =
        file.reference_tree.leaves_hex.0.iter().map(|leaf| LeafHash::of(&leaf.0)).collect();
    assert_eq!(file.reference_tree.roots.0.len(), leaves.len() + 1);
    for (size, root) in file.reference_tree.roots.0.iter().enumerate() {
        assert_eq!(root_of(&leaves[..size]), root.hash(), "size {size}");
    }
}

#[test]
fn shared_false_proofs_are_refused() {
    let Some(file) = load::<File>("merkle.json") else { return };
    let refused = |name, result: Result<(), String>| match result {
        Ok(()) => Err(format!("{name}: accepted")),
        Err(_) => Ok(()),
    };
    file.negative_inclusion.check("negative inclusion", |case| refused(case.name(), case.verify()));
    file.negative_consistency.check("negative consistency", |case| refused(case.name(), case.verify()));
}

#[test]
fn shared_edge_cases_get_our_answer() {
    let Some(file) = load::<File>("merkle.json") else { return };
    file.edge.check("edge", |case| {
        let result = match &case.proof {
            EdgeProof::Inclusion(proof) => proof.verify(),
            EdgeProof::Consistency(proof) => proof.verify(),
        };
        case.expect.judge(&case.id, DECIDED, &result)
    });
}

#[test]
fn own_reference_tree_has_its_roots() {
    let table = include_str!("merkle/reference-tree");
    let mut leaves = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let (leaf, root) = line.split_once(' ').unwrap();
        leaves.push(LeafHash::of(&hex::decode(leaf.trim_start_matches('-')).unwrap()));
        assert_eq!(hex::encode(root_of(&leaves).as_bytes()), root, "size {}", leaves.len());
    }
    assert_eq!(leaves.len(), 8);
}

/// RFC 6962, section 2.1.3: the tree of seven leaves.
#[test]
#[expect(clippy::many_single_char_names, reason = "the nodes go by the letters that the RFC gives them")]
fn own_example_of_the_rfc_has_its_proofs() {
    let entries: Vec<LeafHash> = (0..7).map(|entry: u8| LeafHash::of(&[entry])).collect();
    let [a, b, c, d, e, f, j] =
        <[NodeHash; 7]>::try_from(entries.iter().map(|leaf| NodeHash::from(*leaf)).collect::<Vec<_>>())
            .unwrap();
    let (g, h, i) = (NodeHash::join(&a, &b), NodeHash::join(&c, &d), NodeHash::join(&e, &f));
    let (k, l) = (NodeHash::join(&g, &h), NodeHash::join(&i, &j));
    let stored = Stored::of(&entries);
    assert_eq!(root(7, &stored), Ok(NodeHash::join(&k, &l)));
    for (index, proof) in [(0, vec![b, h, l]), (3, vec![c, g, l]), (4, vec![f, j, k]), (6, vec![i, k])] {
        assert_eq!(inclusion::prove(index, 7, &stored), Ok(proof), "leaf {index}");
    }
    for (old, proof) in [(3, vec![c, d, g, l]), (4, vec![l]), (6, vec![i, j, k])] {
        assert_eq!(consistency::prove(old, 7, &stored), Ok(proof), "size {old}");
    }
}

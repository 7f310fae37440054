//! The Merkle code against RFC 6962, section 2.1, written down word for word: slow on purpose, sharing
//! no code with the crate. Trees of several thousand leaves whole; trees of up to 2^63 - 1 leaves that
//! are all the same, so that a subtree is known by its size alone.

#![expect(clippy::unwrap_used, reason = "a test panics where something is wrong")]

use std::cell::Cell;
use std::convert::Infallible;

use proptest::prelude::*;
use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::subtree::{Subtree, SubtreeRange};
use runseal_tlog::tile::{TILE_HEIGHT, Tile, TileNodes, TileReader};
use runseal_tlog::tree::{Frontier, NodeId, NodeReader, root, root_of};
use runseal_tlog::{TREE_SIZE_MAX, consistency, inclusion, subtree};
use sha2::{Digest, Sha256};

type Hash = [u8; 32];

fn sha256(parts: &[&[u8]]) -> Hash {
    Sha256::digest(parts.concat()).into()
}

/// "the largest power of two smaller than n (i.e., k < n <= 2k)"
fn k(n: u64) -> u64 {
    let mut k = 1;
    while k < n - k {
        k *= 2;
    }
    k
}

/// A list of entries, as far as its hashes are concerned.
trait List: Copy {
    fn len(self) -> u64;
    /// `D[0:k]` and `D[k:n]`.
    fn split(self, k: u64) -> (Self, Self);
    /// `MTH({d(0)})`, of a list of one.
    fn leaf(self) -> Hash;

    fn mth(self) -> Hash {
        match self.len() {
            0 => sha256(&[]),
            1 => self.leaf(),
            n => {
                let (left, right) = self.split(k(n));
                sha256(&[&[0x01], &left.mth(), &right.mth()])
            }
        }
    }

    /// `PATH(m, D[n])`
    fn path(self, m: u64) -> Vec<Hash> {
        let n = self.len();
        if n == 1 {
            return Vec::new();
        }
        let k = k(n);
        let (left, right) = self.split(k);
        let (mut path, other) = if m < k { (left.path(m), right) } else { (right.path(m - k), left) };
        path.push(other.mth());
        path
    }

    /// `PROOF(m, D[n])`
    fn proof(self, m: u64) -> Vec<Hash> {
        self.subproof(0, m, true)
    }

    /// `SUBPROOF(m, D[n], b)` of the RFC where `start` is zero, and the draft's
    /// `SUBTREE_SUBPROOF(start, end, D_n, b)`.
    fn subproof(self, start: u64, end: u64, b: bool) -> Vec<Hash> {
        let n = self.len();
        if start == 0 && end == n {
            return if b { Vec::new() } else { vec![self.mth()] };
        }
        let k = k(n);
        let (left, right) = self.split(k);
        let (mut proof, other) = if end <= k {
            (left.subproof(start, end, b), right)
        } else if k <= start {
            (right.subproof(start - k, end - k, b), left)
        } else {
            (right.subproof(0, end - k, false), left)
        };
        proof.push(other.mth());
        proof
    }
}

impl List for &[Vec<u8>] {
    fn len(self) -> u64 {
        <[Vec<u8>]>::len(self) as u64
    }

    fn split(self, k: u64) -> (Self, Self) {
        self.split_at(usize::try_from(k).unwrap())
    }

    fn leaf(self) -> Hash {
        sha256(&[&[0x00], &self[0]])
    }
}

/// So many times the entry "same".
#[derive(Clone, Copy)]
struct Same(u64);

impl List for Same {
    fn len(self) -> u64 {
        self.0
    }

    fn split(self, k: u64) -> (Self, Self) {
        (Self(k), Self(self.0 - k))
    }

    fn leaf(self) -> Hash {
        sha256(&[&[0x00], b"same"])
    }

    /// The same hash as by recursion, without going to every leaf: both halves of a full tree agree.
    fn mth(self) -> Hash {
        match self.0 {
            0 => sha256(&[]),
            1 => self.leaf(),
            n if n - k(n) == k(n) => {
                let half = Self(k(n)).mth();
                sha256(&[&[0x01], &half, &half])
            }
            n => sha256(&[&[0x01], &Self(k(n)).mth(), &Self(n - k(n)).mth()]),
        }
    }
}

fn node(hash: Hash) -> NodeHash {
    NodeHash::from_bytes(hash)
}

fn nodes(hashes: Vec<Hash>) -> Vec<NodeHash> {
    hashes.into_iter().map(node).collect()
}

/// The complete subtrees of a tree of entries, straight from the definition.
struct Entries(Vec<Vec<u8>>);

impl Entries {
    /// So many different entries, of lengths around a SHA-256 block.
    fn new(count: u64) -> Self {
        Self(
            (0..count)
                .map(|index| index.to_string().repeat(usize::try_from(index % 80).unwrap()).into())
                .collect(),
        )
    }

    fn list(&self, size: u64) -> &[Vec<u8>] {
        &self.0[..usize::try_from(size).unwrap()]
    }

    fn leaf(&self, index: u64) -> LeafHash {
        LeafHash::of(&self.0[usize::try_from(index).unwrap()])
    }
}

impl NodeReader for Entries {
    type Error = Infallible;

    fn read_nodes(&self, nodes: &[NodeId]) -> Result<Vec<NodeHash>, Infallible> {
        let read = |id: &NodeId| {
            let first = usize::try_from(id.index << id.level).unwrap();
            node((&self.0[first..first + (1 << id.level)]).mth())
        };
        Ok(nodes.iter().map(read).collect())
    }
}

/// The complete subtrees of a tree of equal leaves, counting how many are read.
#[derive(Default)]
struct Equal {
    read: Cell<usize>,
}

impl NodeReader for Equal {
    type Error = Infallible;

    fn read_nodes(&self, nodes: &[NodeId]) -> Result<Vec<NodeHash>, Infallible> {
        self.read.set(self.read.get() + nodes.len());
        Ok(nodes.iter().map(|id| node(Same(1 << id.level).mth())).collect())
    }
}

/// Their tiles.
impl TileReader for Equal {
    type Error = Infallible;

    fn read_tile(&self, level: u8, _index: u64, width: u16) -> Result<Tile, Infallible> {
        let hash = node(Same(1 << (level * TILE_HEIGHT)).mth());
        let mut tile = Tile::default();
        (0..width).for_each(|_| tile.push(hash).unwrap());
        Ok(tile)
    }
}

/// Every way to spoil a proof in one place: each hash changed in its first, last and one other byte, left
/// out, given twice, and a hash put before each and at the end. `swaps` adds each two neighbours exchanged.
fn spoiled(proof: &[NodeHash], swaps: bool) -> Vec<Vec<NodeHash>> {
    let mut all = Vec::new();
    for at in 0..proof.len() {
        for byte in [0, 1 + at % 30, 31] {
            let mut hash = *proof[at].as_bytes();
            hash[byte] ^= 1 << (at % 8);
            let mut changed = proof.to_vec();
            changed[at] = node(hash);
            all.push(changed);
        }
        let mut shorter = proof.to_vec();
        shorter.remove(at);
        all.push(shorter);
        let mut longer = proof.to_vec();
        longer.insert(at, proof[at]);
        all.push(longer);
        if swaps && at > 0 {
            let mut swapped = proof.to_vec();
            swapped.swap(at - 1, at);
            all.push(swapped);
        }
    }
    for at in 0..=proof.len() {
        let mut longer = proof.to_vec();
        longer.insert(at, NodeHash::EMPTY_ROOT);
        all.push(longer);
    }
    all
}

/// Another hash than the one given.
fn other(hash: NodeHash) -> NodeHash {
    NodeHash::join(&hash, &hash)
}

/// An index below a size.
fn below(size: u64) -> impl Strategy<Value = u64> {
    // The edges of the tree and of its largest complete subtrees are where mistakes live.
    prop_oneof![0..size, Just(0), Just(size - 1), Just(k(size) - 1), Just(k(size).min(size - 1))]
}

/// Sizes with an index each: every size up to some thousands, and those around powers of two.
fn small() -> impl Strategy<Value = (u64, u64)> {
    let size = prop_oneof![1..=5_000u64, (0..13u32, 0..3u64).prop_map(|(bits, off)| (1 << bits) + off)];
    size.prop_flat_map(|size| (Just(size), below(size)))
}

/// The same up to the largest size.
fn huge() -> impl Strategy<Value = (u64, u64)> {
    let around = (1..63u32, 0..3u64).prop_map(|(bits, off)| (1 << bits) - 1 + off);
    let size = prop_oneof![1..=TREE_SIZE_MAX, around, Just(TREE_SIZE_MAX), Just(TREE_SIZE_MAX - 1)];
    size.prop_flat_map(|size| (Just(size), below(size)))
}

/// The largest subtree range that ends at `end` and is no longer than `length`.
fn range_up_to(end: u64, length: u64) -> SubtreeRange {
    (end.saturating_sub(length)..end)
        .map(|start| SubtreeRange::new(start, end))
        .find_map(Result::ok)
        .expect("one leaf is a subtree")
}

fn cases(cases: u32) -> ProptestConfig {
    // A failure prints its input; no file is left beside the sources.
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn roots_are_those_of_the_definition((size, _) in small()) {
        let entries = Entries::new(size);
        let expected = node(entries.list(size).mth());
        let leaves: Vec<LeafHash> = (0..size).map(|index| entries.leaf(index)).collect();
        prop_assert_eq!(root_of(&leaves), expected);
        prop_assert_eq!(root(size, &entries), Ok(expected));
        let mut frontier = Frontier::new();
        for leaf in leaves {
            frontier.append(leaf);
        }
        prop_assert_eq!(frontier.root(), expected);
    }

    #[test]
    fn inclusion_proofs_are_paths_and_hold_only_unspoiled((size, index) in small()) {
        let entries = Entries::new(size);
        let root = node(entries.list(size).mth());
        let leaf = entries.leaf(index);
        let proof = inclusion::prove(index, size, &entries).unwrap();
        prop_assert_eq!(&proof, &nodes(entries.list(size).path(index)));
        prop_assert_eq!(inclusion::verify(index, size, leaf, &proof, &root), Ok(()));
        for spoiled in spoiled(&proof, true) {
            prop_assert!(inclusion::verify(index, size, leaf, &spoiled, &root).is_err());
        }
        prop_assert!(inclusion::verify(index, size, leaf, &proof, &other(root)).is_err());
        prop_assert!(inclusion::verify(index, size, LeafHash::of(b"another"), &proof, &root).is_err());
        for wrong in (0..=size).filter(|wrong| *wrong != index) {
            prop_assert!(inclusion::verify(wrong, size, leaf, &proof, &root).is_err());
        }
    }

    #[test]
    fn consistency_proofs_are_subproofs_and_hold_only_unspoiled((new, last) in small()) {
        let old = last + 1;
        let entries = Entries::new(new);
        let (old_root, new_root) = (node(entries.list(old).mth()), node(entries.list(new).mth()));
        let proof = consistency::prove(old, new, &entries).unwrap();
        prop_assert_eq!(&proof, &nodes(entries.list(new).proof(old)));
        prop_assert_eq!(consistency::verify(old, &old_root, new, &new_root, &proof), Ok(()));
        for spoiled in spoiled(&proof, true) {
            prop_assert!(consistency::verify(old, &old_root, new, &new_root, &spoiled).is_err());
        }
        prop_assert!(consistency::verify(old, &other(old_root), new, &new_root, &proof).is_err());
        prop_assert!(consistency::verify(old, &old_root, new, &other(new_root), &proof).is_err());
        for wrong in (1..old).rev().take(64).chain(old + 1..(old + 64).min(new)) {
            prop_assert!(consistency::verify(wrong, &old_root, new, &new_root, &proof).is_err());
        }
    }

    #[test]
    fn subtree_proofs_are_those_of_the_definition((size, last) in small(), length in 1..5_000u64) {
        let range = range_up_to(last + 1, length);
        let entries = Entries::new(size);
        let within = &entries.list(range.end())[usize::try_from(range.start()).unwrap()..];
        let (subtree, root) =
            (Subtree { range, hash: node(within.mth()) }, node(entries.list(size).mth()));
        prop_assert_eq!(subtree::hash(range, &entries), Ok(subtree.hash));
        let proof = subtree::prove_consistency(range, size, &entries).unwrap();
        let expected = entries.list(size).subproof(range.start(), range.end(), true);
        prop_assert_eq!(&proof, &nodes(expected));
        prop_assert_eq!(subtree::verify_consistency(&subtree, size, &root, &proof), Ok(()));
        for spoiled in spoiled(&proof, true) {
            prop_assert!(subtree::verify_consistency(&subtree, size, &root, &spoiled).is_err());
        }
        let inclusion = subtree::prove_inclusion(last, range, &entries).unwrap();
        prop_assert_eq!(&inclusion, &nodes(within.path(last - range.start())));
        let leaf = entries.leaf(last);
        prop_assert_eq!(subtree::verify_inclusion(last, leaf, &inclusion, &subtree), Ok(()));
        for spoiled in spoiled(&inclusion, true) {
            prop_assert!(subtree::verify_inclusion(last, leaf, &spoiled, &subtree).is_err());
        }
    }
}

/// Most node hashes that any one answer may need: two for each level of the highest tree.
const NODES_MAX: usize = 128;

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn huge_trees_prove_inclusion_from_a_handful_of_nodes((size, index) in huge()) {
        let equal = Equal::default();
        let (root, leaf) = (node(Same(size).mth()), LeafHash::of(b"same"));
        prop_assert_eq!(runseal_tlog::tree::root(size, &equal), Ok(root));
        prop_assert!(equal.read.take() <= NODES_MAX / 2);
        let proof = inclusion::prove(index, size, &equal).unwrap();
        prop_assert!(equal.read.get() <= NODES_MAX, "{} nodes", equal.read.get());
        prop_assert_eq!(&proof, &nodes(Same(size).path(index)));
        prop_assert_eq!(inclusion::verify(index, size, leaf, &proof, &root), Ok(()));
        for spoiled in spoiled(&proof, false) {
            prop_assert!(inclusion::verify(index, size, leaf, &spoiled, &root).is_err());
        }
        prop_assert!(inclusion::prove(size, size, &equal).is_err());
    }

    #[test]
    fn huge_trees_prove_consistency_from_a_handful_of_nodes((new, last) in huge()) {
        let old = last + 1;
        let equal = Equal::default();
        let (old_root, new_root) = (node(Same(old).mth()), node(Same(new).mth()));
        let proof = consistency::prove(old, new, &equal).unwrap();
        prop_assert!(equal.read.get() <= NODES_MAX, "{} nodes", equal.read.get());
        prop_assert!(proof.len() <= 64);
        prop_assert_eq!(&proof, &nodes(Same(new).proof(old)));
        prop_assert_eq!(consistency::verify(old, &old_root, new, &new_root, &proof), Ok(()));
        for spoiled in spoiled(&proof, false) {
            prop_assert!(consistency::verify(old, &old_root, new, &new_root, &spoiled).is_err());
        }
    }

    #[test]
    fn huge_trees_prove_subtrees_from_a_handful_of_nodes((size, last) in huge(), length in 1..2_000u64) {
        let range = range_up_to(last + 1, length);
        let equal = Equal::default();
        let subtree = Subtree { range, hash: node(Same(range.size()).mth()) };
        let root = node(Same(size).mth());
        let proof = subtree::prove_consistency(range, size, &equal).unwrap();
        prop_assert!(equal.read.get() <= NODES_MAX, "{} nodes", equal.read.get());
        prop_assert_eq!(&proof, &nodes(Same(size).subproof(range.start(), range.end(), true)));
        prop_assert_eq!(subtree::verify_consistency(&subtree, size, &root, &proof), Ok(()));
        for spoiled in spoiled(&proof, false) {
            prop_assert!(subtree::verify_consistency(&subtree, size, &root, &spoiled).is_err());
        }
    }

    #[test]
    fn huge_trees_prove_the_same_from_their_tiles((size, index) in huge()) {
        let tiles = TileNodes::new(Equal::default(), size);
        let equal = Equal::default();
        prop_assert_eq!(root(size, &tiles).unwrap(), node(Same(size).mth()));
        prop_assert_eq!(
            inclusion::prove(index, size, &tiles).unwrap(),
            inclusion::prove(index, size, &equal).unwrap()
        );
        prop_assert_eq!(
            consistency::prove(index, size, &tiles).unwrap(),
            consistency::prove(index, size, &equal).unwrap()
        );
    }

    #[test]
    fn a_huge_tree_grows_by_its_right_edge((size, _) in huge()) {
        let mut frontier = Frontier::load(size, &Equal::default()).unwrap();
        for grown in 1..=3 {
            let completed = frontier.append(LeafHash::of(b"same"));
            prop_assert!(completed.len() <= 64);
            for (id, hash) in completed {
                prop_assert_eq!(hash, node(Same(1 << id.level).mth()));
            }
            prop_assert_eq!(frontier.root(), node(Same(size + grown).mth()));
        }
    }
}

/// The longest proof there is has one hash more than a witness request may carry.
#[test]
fn the_largest_tree_can_need_64_hashes() {
    let old = k(TREE_SIZE_MAX) + 1;
    let proof = consistency::prove(old, TREE_SIZE_MAX, &Equal::default()).unwrap();
    assert_eq!(proof.len(), consistency::PROOF_HASHES_MAX + 1);
}

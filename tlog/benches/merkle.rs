//! What the Merkle code costs, as ratios measured in one run.
//!
//! Contestants take turns and each figure is the median of its turns, so that a busy machine slows all
//! of them alike. Run with `cargo bench -p runseal-tlog`.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where something is wrong")]
#![expect(clippy::cast_precision_loss, reason = "figures are printed with three digits")]

use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

use ct_merkle::mem_backed_tree::MemoryBackedTree;
use runseal_tlog::checkpoint::{Checkpoint, SignedCheckpoint};
use runseal_tlog::cosignature::cosign;
use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::key::{Algorithm, KeyName, SignerKey};
use runseal_tlog::note::Note;
use runseal_tlog::tile::{
    StoredTile, TILE_HEIGHT, TILE_WIDTH, Tile, TileNodes, TileNodesError, TileReader, TileSpan,
};
use runseal_tlog::tree::{Frontier, root_of};
use runseal_tlog::{consistency, inclusion};
use sha2::{Digest, Sha256};
use tlog_tiles::HashReader;

const LEAVES: u64 = 1_000_000;
const SIZES: [u64; 4] = [1_000, 10_000, 100_000, LEAVES];
/// Proofs in one turn: short enough for most turns to run in one piece on a busy machine.
const PROOFS: u64 = 50;

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("nothing measured: run with cargo bench");
        return;
    }
    roots();
    proofs();
    notes();
}

/// The medians of contestants that take turns.
fn medians<const N: usize>(turns: usize, mut contestants: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut times: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::with_capacity(turns));
    for _ in 0..turns {
        for (contestant, times) in contestants.iter_mut().zip(&mut times) {
            let start = Instant::now();
            contestant();
            times.push(start.elapsed());
        }
    }
    times.map(|mut times| {
        times.sort();
        times[turns / 2]
    })
}

fn ratio(of: Duration, to: Duration) -> f64 {
    of.as_secs_f64() / to.as_secs_f64()
}

fn verdict(what: &str, holds: bool) {
    println!("{} {what}", if holds { "PASS" } else { "FAIL" });
}

fn entry(index: u64) -> [u8; 8] {
    index.to_be_bytes()
}

/// The root over a million leaves, beside bare SHA-256 and two other crates.
fn roots() {
    let leaves: Vec<LeafHash> = (0..LEAVES).map(|index| LeafHash::of(&entry(index))).collect();
    // The 65 bytes of every interior node of that tree, one after the other.
    let mut nodes = Vec::with_capacity(65 * leaves.len());
    preimages(&leaves.iter().map(|leaf| NodeHash::from(*leaf)).collect::<Vec<_>>(), &mut nodes);
    assert_eq!(nodes.len() as u64, 65 * (LEAVES - 1));

    let bare = || nodes.chunks_exact(65).map(|node| Sha256::digest(node)[0]).fold(0, u8::wrapping_add);
    let from_entries = || root_of(&(0..LEAVES).map(|index| LeafHash::of(&entry(index))).collect::<Vec<_>>());
    let [ours, bare] = medians(
        15,
        [
            &mut || {
                black_box(root_of(black_box(&leaves)));
            },
            &mut || {
                black_box(bare());
            },
        ],
    );
    let [whole, ct, peer] = medians(
        3,
        [
            &mut || {
                black_box(from_entries());
            },
            &mut || {
                let mut tree = MemoryBackedTree::<Sha256, [u8; 8]>::new();
                (0..LEAVES).for_each(|index| tree.push(entry(index)));
                black_box(tree.root());
            },
            &mut || {
                let mut stored = Stored(Vec::new());
                for index in 0..LEAVES {
                    let new = tlog_tiles::stored_hashes(index, &entry(index), &stored).unwrap();
                    stored.0.extend(new);
                }
                black_box(tlog_tiles::tree_hash(LEAVES, &stored).unwrap());
            },
        ],
    );
    println!("root over {LEAVES} leaf hashes   {ours:>10.1?}");
    println!("  bare sha2 over the same nodes {bare:>10.1?}");
    println!("root over {LEAVES} entries       {whole:>10.1?}");
    println!("  ct-merkle                     {ct:>10.1?}");
    println!("  tlog_tiles                    {peer:>10.1?}");
    let rate = ratio(bare, ours);
    verdict(&format!("{rate:.2} of bare sha2's rate (at least 0.85)"), rate >= 0.85);
    let faster = ratio(ct, whole);
    verdict(&format!("{faster:.1} times as fast as ct-merkle (over 1)"), faster > 1.0);
    let faster = ratio(peer, whole);
    verdict(&format!("{faster:.1} times as fast as tlog_tiles (over 1)"), faster > 1.0);
}

/// RFC 6962, section 2.1: `0x01 || left || right` of every node over `leaves`.
fn preimages(leaves: &[NodeHash], nodes: &mut Vec<u8>) -> NodeHash {
    if let [leaf] = leaves {
        return *leaf;
    }
    let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
    let (left, right) = (preimages(left, nodes), preimages(right, nodes));
    nodes.push(0x01);
    nodes.extend(left.as_bytes());
    nodes.extend(right.as_bytes());
    NodeHash::join(&left, &right)
}

/// `tlog_tiles`' stored hashes.
struct Stored(Vec<tlog_tiles::Hash>);

impl HashReader for Stored {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<tlog_tiles::Hash>, tlog_tiles::Error> {
        Ok(indexes.iter().map(|index| self.0[usize::try_from(*index).unwrap()]).collect())
    }
}

/// A tree's tiles as a store keeps them: bytes by level and index.
struct Tiles(Vec<Vec<Vec<u8>>>);

impl Tiles {
    fn new(size: u64) -> Self {
        let mut frontier = Frontier::new();
        let mut levels: Vec<Vec<Tile>> = Vec::new();
        for index in 0..size {
            for (node, hash) in frontier.append(LeafHash::of(&entry(index))) {
                if node.level.is_multiple_of(TILE_HEIGHT) {
                    let level = usize::from(node.level / TILE_HEIGHT);
                    levels.resize(levels.len().max(level + 1), Vec::new());
                    if node.index.is_multiple_of(u64::from(TILE_WIDTH)) {
                        levels[level].push(Tile::default());
                    }
                    levels[level].last_mut().unwrap().push(hash).unwrap();
                }
            }
        }
        Self(levels.iter().map(|tiles| tiles.iter().map(Tile::to_stored).collect()).collect())
    }

    fn bytes(&self, level: u8, index: u64) -> &[u8] {
        &self.0[usize::from(level)][usize::try_from(index).unwrap()]
    }
}

impl TileReader for Tiles {
    type Error = Infallible;

    fn read_tile(&self, level: u8, index: u64, _width: u16) -> Result<Tile, Infallible> {
        Ok(Tile::from_stored(self.bytes(level, index)).unwrap())
    }

    fn read_spans(
        &self,
        level: u8,
        index: u64,
        _width: u16,
        spans: &[TileSpan],
        hashes: &mut Vec<NodeHash>,
    ) -> Result<(), TileNodesError<Infallible>> {
        StoredTile::parse(self.bytes(level, index)).unwrap().read_spans(spans, hashes)
    }
}

/// Proofs from stored tiles, at sizes a thousand times apart.
fn proofs() {
    let trees = SIZES.map(|size| (size, Tiles::new(size)));
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut index = move |below: u64| {
        // xorshift64: any spread over the tree will do.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for (what, prove) in [
        (
            "inclusion",
            (|index, size, nodes| inclusion::prove(index, size, nodes).unwrap().len()) as Prove<'_>,
        ),
        ("consistency", |index, size, nodes| consistency::prove(index + 1, size, nodes).unwrap().len()),
    ] {
        let mut times: [Vec<Duration>; SIZES.len()] = Default::default();
        for _ in 0..301 {
            for ((size, tiles), times) in trees.iter().zip(&mut times) {
                let nodes = TileNodes::new(tiles, *size);
                let indexes: Vec<u64> = (0..PROOFS).map(|_| index(*size)).collect();
                let start = Instant::now();
                for index in indexes {
                    black_box(prove(index, *size, &nodes));
                }
                times.push(start.elapsed());
            }
        }
        let per_proof = times.map(|mut times| {
            times.sort();
            times[times.len() / 2].as_secs_f64() * 1e6 / PROOFS as f64
        });
        for (size, micros) in SIZES.iter().zip(per_proof) {
            println!("{what} proof in {size:>9} leaves, from stored tiles {micros:>7.2} us");
        }
        let largest = per_proof[SIZES.len() - 1];
        verdict(&format!("{what} proof in {LEAVES} leaves: {largest:.2} us (under 100)"), largest < 100.0);
        let spread = per_proof.iter().copied().fold(0.0, f64::max)
            / per_proof.iter().copied().fold(f64::INFINITY, f64::min);
        verdict(&format!("{what} proofs flat within {spread:.2} (at most 2)"), spread <= 2.0);
    }
}

type Prove<'t> = fn(u64, u64, &TileNodes<&'t Tiles>) -> usize;

/// Reading and verifying a cosigned checkpoint, beside the signatures alone.
fn notes() {
    let key = |name: &str, algorithm, seed| {
        SignerKey::from_seed(KeyName::new(name).unwrap(), algorithm, &[seed; 32])
    };
    let log = key("log.example", Algorithm::Ed25519, 1);
    let witnesses = [2, 3].map(|seed| key("witness.example", Algorithm::CosignatureEd25519, seed));
    let root = root_of(&[LeafHash::of(b"entry")]);
    let checkpoint = Checkpoint::new("log.example", 1, root).unwrap();
    let mut note = checkpoint.sign(&log).unwrap();
    for witness in &witnesses {
        note.add(cosign(&checkpoint, 1_700_000_000, witness).unwrap()).unwrap();
    }
    let bytes = note.to_string().into_bytes();
    let text = checkpoint.to_string();
    let keys: Vec<_> = witnesses.iter().map(SignerKey::verifier).collect();
    let turns = 200;
    let [parse, open, signature, body] = medians(
        turns,
        [
            &mut || {
                black_box(Note::parse(black_box(&bytes)).unwrap());
            },
            &mut || {
                let note = Note::parse(black_box(&bytes)).unwrap();
                black_box(SignedCheckpoint::open(note, [log.verifier()], keys.iter().copied()).unwrap());
            },
            &mut || {
                black_box(note.signatures()[0].verify(&text, log.verifier()).unwrap());
            },
            &mut || {
                black_box(Checkpoint::parse(black_box(&text)).unwrap());
            },
        ],
    );
    println!("note of three signatures, parse          {parse:>9.2?}");
    println!("checkpoint body, parse                   {body:>9.2?}");
    println!("one Ed25519 signature, verify            {signature:>9.2?}");
    println!("checkpoint and two cosignatures, open    {open:>9.2?}");
    let beside = ratio(open, signature) / 3.0;
    verdict(&format!("opening costs {beside:.2} of its three signatures (at most 1.15)"), beside <= 1.15);
}

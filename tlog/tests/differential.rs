//! This crate beside three others: the trees of `ct-merkle` and `tlog_tiles`, the notes of
//! `signed_note`, the checkpoints and tile paths of `tlog_tiles`.
//!
//! Roots, proofs and verdicts must agree, on genuine input and on spoiled. Where the answers differ on
//! purpose, a test at the end of this file shows the difference and names the rule behind ours.

#![expect(clippy::unwrap_used, reason = "a test panics where something is wrong")]

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ct_merkle::mem_backed_tree::MemoryBackedTree;
use ct_merkle::{ConsistencyProof, InclusionProof, RootHash};
use proptest::prelude::*;
use runseal_tlog::checkpoint::{Checkpoint, CheckpointError};
use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::key::{Algorithm, KeyError, KeyName, SignerKey, VerifierKey};
use runseal_tlog::note::{Note, VerifyError};
use runseal_tlog::tile::{TILE_HEIGHT, TILE_LEVEL_MAX, Tile, TileKind, TileNodes, TilePath, TileReader};
use runseal_tlog::tree::Frontier;
use runseal_tlog::{TREE_SIZE_MAX, consistency, inclusion, tree};
use sha2::Sha256;
use signed_note::{Note as PeerNote, NoteError as PeerNoteError, StandardVerifier, VerifierList};
use tlog_tiles::{
    Checkpoint as PeerCheckpoint, Error as PeerError, Hash as PeerHash, HashReader, Tile as PeerTile,
};

fn entry(index: u64) -> Vec<u8> {
    index.to_string().into_bytes()
}

fn ours(hash: PeerHash) -> NodeHash {
    NodeHash::from_bytes(hash.0)
}

fn theirs(hash: &NodeHash) -> PeerHash {
    PeerHash(*hash.as_bytes())
}

fn digest(hash: &NodeHash) -> sha2::digest::Output<Sha256> {
    (*hash.as_bytes()).into()
}

/// One tree in three implementations.
struct Trees {
    size: u64,
    tiles: Vec<Vec<Tile>>,
    ct: MemoryBackedTree<Sha256, Vec<u8>>,
    stored: Stored,
}

/// The hashes of `tlog_tiles`, in the order it stores them.
struct Stored(Vec<PeerHash>);

impl HashReader for Stored {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<PeerHash>, PeerError> {
        Ok(indexes.iter().map(|index| self.0[usize::try_from(*index).unwrap()]).collect())
    }
}

impl TileReader for Trees {
    type Error = String;

    fn read_tile(&self, level: u8, index: u64, _width: u16) -> Result<Tile, String> {
        let tile =
            self.tiles.get(usize::from(level)).and_then(|level| level.get(usize::try_from(index).ok()?));
        tile.cloned().ok_or_else(|| format!("no tile {level}/{index}"))
    }
}

impl Trees {
    fn new(size: u64) -> Self {
        let mut trees =
            Self { size: 0, tiles: Vec::new(), ct: MemoryBackedTree::new(), stored: Stored(Vec::new()) };
        let mut frontier = Frontier::new();
        for index in 0..size {
            for (node, hash) in frontier.append(LeafHash::of(&entry(index))) {
                if node.level.is_multiple_of(TILE_HEIGHT) {
                    let level = usize::from(node.level / TILE_HEIGHT);
                    trees.tiles.resize(trees.tiles.len().max(level + 1), Vec::new());
                    if node.index.is_multiple_of(256) {
                        trees.tiles[level].push(Tile::default());
                    }
                    trees.tiles[level].last_mut().unwrap().push(hash).unwrap();
                }
            }
            trees.ct.push(entry(index));
            let new = tlog_tiles::stored_hashes(index, &entry(index), &trees.stored).unwrap();
            trees.stored.0.extend(new);
        }
        trees.size = size;
        trees
    }

    fn root(&self, size: u64) -> NodeHash {
        tree::root(size, &TileNodes::new(self, size)).unwrap()
    }

    fn inclusion(&self, index: u64, size: u64) -> Vec<NodeHash> {
        inclusion::prove(index, size, &TileNodes::new(self, size)).unwrap()
    }

    fn consistency(&self, old: u64, new: u64) -> Vec<NodeHash> {
        consistency::prove(old, new, &TileNodes::new(self, new)).unwrap()
    }
}

/// Whether the three verifiers accept an inclusion proof, in the order of this file's title.
fn inclusion_verdicts(index: u64, size: u64, leaf: &[u8], proof: &[NodeHash], root: &NodeHash) -> [bool; 3] {
    let digests: Vec<_> = proof.iter().map(digest).collect();
    let ct_proof = InclusionProof::<Sha256>::from_digests(&digests);
    let peer_proof = proof.iter().map(theirs).collect();
    [
        inclusion::verify(index, size, LeafHash::of(leaf), proof, root).is_ok(),
        RootHash::<Sha256>::new(digest(root), size).verify_inclusion(&leaf, index, &ct_proof).is_ok(),
        tlog_tiles::check_record(&peer_proof, size, theirs(root), index, tlog_tiles::record_hash(leaf))
            .is_ok(),
    ]
}

/// The same for a consistency proof.
fn consistency_verdicts(
    old: u64,
    old_root: &NodeHash,
    new: u64,
    new_root: &NodeHash,
    proof: &[NodeHash],
) -> [bool; 3] {
    let digests: Vec<_> = proof.iter().map(digest).collect();
    let ct_proof = ConsistencyProof::<Sha256>::from_digests(&digests);
    let ct_old = RootHash::<Sha256>::new(digest(old_root), old);
    let peer_proof = proof.iter().map(theirs).collect();
    [
        consistency::verify(old, old_root, new, new_root, proof).is_ok(),
        RootHash::<Sha256>::new(digest(new_root), new).verify_consistency(&ct_old, &ct_proof).is_ok(),
        tlog_tiles::check_tree(&peer_proof, new, theirs(new_root), old, theirs(old_root)).is_ok(),
    ]
}

#[test]
fn roots_and_proofs_of_every_small_tree_agree() {
    for size in 1..=130 {
        let trees = Trees::new(size);
        let root = trees.root(size);
        assert_eq!(root.as_bytes()[..], trees.ct.root().as_bytes()[..], "root of {size}");
        assert_eq!(root, ours(tlog_tiles::tree_hash(size, &trees.stored).unwrap()), "root of {size}");
        for index in 0..size {
            let proof = trees.inclusion(index, size);
            let ct = trees.ct.prove_inclusion(usize::try_from(index).unwrap());
            let bytes: Vec<u8> = proof.iter().flat_map(|hash| *hash.as_bytes()).collect();
            assert_eq!(bytes, ct.as_bytes(), "{index} in {size}");
            let peer = tlog_tiles::prove_record(size, index, &trees.stored).unwrap();
            assert_eq!(proof, peer.into_iter().map(ours).collect::<Vec<_>>(), "{index} in {size}");
            assert_eq!(inclusion_verdicts(index, size, &entry(index), &proof, &root), [true; 3]);
        }
        for old in 1..=size {
            let proof = trees.consistency(old, size);
            let ct = trees.ct.prove_consistency(usize::try_from(size - old).unwrap());
            let bytes: Vec<u8> = proof.iter().flat_map(|hash| *hash.as_bytes()).collect();
            assert_eq!(bytes, ct.as_bytes(), "{old} to {size}");
            let peer = tlog_tiles::prove_tree(size, old, &trees.stored).unwrap();
            assert_eq!(proof, peer.into_iter().map(ours).collect::<Vec<_>>(), "{old} to {size}");
            assert_eq!(consistency_verdicts(old, &trees.root(old), size, &root, &proof), [true; 3]);
        }
    }
}

/// One way to spoil a proof and what it speaks of. Numbers are taken modulo what there is.
#[derive(Debug, Clone, Copy)]
enum Spoil {
    Flip(usize, usize),
    Remove(usize),
    Insert(usize),
    Swap(usize, usize),
    First(i64),
    Second(i64),
    Root,
}

fn spoil() -> impl Strategy<Value = Spoil> {
    let any = any::<usize>;
    prop_oneof![
        (any(), 0..256usize).prop_map(|(at, bit)| Spoil::Flip(at, bit)),
        any().prop_map(Spoil::Remove),
        any().prop_map(Spoil::Insert),
        (any(), any()).prop_map(|(a, b)| Spoil::Swap(a, b)),
        (-3..=3i64).prop_map(Spoil::First),
        (-3..=3i64).prop_map(Spoil::Second),
        Just(Spoil::Root),
    ]
}

/// What a proof speaks of: index and size, or two sizes, and the hash it leads to.
struct Claim {
    first: u64,
    second: u64,
    proof: Vec<NodeHash>,
    root: NodeHash,
}

impl Claim {
    fn spoil(&mut self, spoil: Spoil) {
        let length = self.proof.len();
        match spoil {
            Spoil::Flip(at, bit) if length > 0 => {
                let mut hash = *self.proof[at % length].as_bytes();
                hash[bit / 8] ^= 1 << (bit % 8);
                self.proof[at % length] = NodeHash::from_bytes(hash);
            }
            Spoil::Remove(at) if length > 0 => {
                self.proof.remove(at % length);
            }
            Spoil::Insert(at) => self.proof.insert(at % (length + 1), self.root),
            Spoil::Swap(a, b) if length > 0 => self.proof.swap(a % length, b % length),
            Spoil::Flip(..) | Spoil::Remove(_) | Spoil::Swap(..) => {}
            Spoil::First(by) => self.first = self.first.saturating_add_signed(by),
            Spoil::Second(by) => self.second = self.second.saturating_add_signed(by),
            Spoil::Root => self.root = NodeHash::join(&self.root, &self.root),
        }
    }
}

fn cases(cases: u32) -> ProptestConfig {
    // A failure prints its input; no file is left beside the sources.
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn verdicts_on_spoiled_proofs_agree(
        size in 1..700u64,
        at in any::<prop::sample::Index>(),
        spoils in prop::collection::vec(spoil(), 0..3),
    ) {
        let trees = Trees::new(size);
        let index = at.index(usize::try_from(size).unwrap()) as u64;
        let root = trees.root(size);

        let mut claim = Claim { first: index, second: size, proof: trees.inclusion(index, size), root };
        for spoil in &spoils {
            claim.spoil(*spoil);
        }
        let verdicts =
            inclusion_verdicts(claim.first, claim.second, &entry(index), &claim.proof, &claim.root);
        prop_assert!(verdicts == [true; 3] || verdicts == [false; 3], "inclusion {:?}", verdicts);

        let old = index + 1;
        let mut claim = Claim { first: old, second: size, proof: trees.consistency(old, size), root };
        for spoil in &spoils {
            claim.spoil(*spoil);
        }
        // An older tree of no leaves is a difference of its own, below.
        prop_assume!(claim.first > 0);
        let old_root = trees.root(old);
        let verdicts =
            consistency_verdicts(claim.first, &old_root, claim.second, &claim.root, &claim.proof);
        prop_assert!(verdicts == [true; 3] || verdicts == [false; 3], "consistency {:?}", verdicts);
    }
}

/// One edit of a text: at a place (modulo its length), by a piece that means something to the formats.
#[derive(Debug, Clone)]
enum Edit {
    Replace(usize, String),
    Insert(usize, String),
    Delete(usize, usize),
    RepeatLine(usize),
    DropLine(usize),
    SwapLines(usize, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let piece = || {
        prop_oneof![
            prop::sample::select(vec![
                "\n",
                "\n\n",
                " ",
                "+",
                "=",
                "\t",
                "\r",
                "\0",
                "0",
                "1",
                "9",
                "-",
                "/",
                "x",
                "A",
                "B",
                "z",
                "_",
                ".p",
                "\u{2014}",
                "\u{2014} ",
                "\u{a0}",
                "\u{2003}",
                "\u{e8}",
                "\u{661}",
                "\u{85}",
                "\u{7f}",
                "\u{feff}",
                "18446744073709551616",
                "9223372036854775808",
            ])
            .prop_map(str::to_owned),
            "[ -~]",
        ]
    };
    let any = any::<usize>;
    prop_oneof![
        4 => (any(), piece()).prop_map(|(at, piece)| Edit::Replace(at, piece)),
        4 => (any(), piece()).prop_map(|(at, piece)| Edit::Insert(at, piece)),
        2 => (any(), 1..4usize).prop_map(|(at, count)| Edit::Delete(at, count)),
        1 => any().prop_map(Edit::RepeatLine),
        1 => any().prop_map(Edit::DropLine),
        1 => (any(), any()).prop_map(|(a, b)| Edit::SwapLines(a, b)),
    ]
}

fn edited(text: &str, edits: &[Edit]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for edit in edits {
        let text: String = chars.iter().collect();
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (length, count) = (chars.len().max(1), lines.len().max(1));
        match edit {
            Edit::Replace(at, piece) => {
                let at = (at % length).min(chars.len());
                let end = (at + 1).min(chars.len());
                chars.splice(at..end, piece.chars());
            }
            Edit::Insert(at, piece) => {
                let at = at % (chars.len() + 1);
                chars.splice(at..at, piece.chars());
            }
            Edit::Delete(at, count) => {
                let at = (at % length).min(chars.len());
                chars.drain(at..(at + count).min(chars.len()));
            }
            Edit::RepeatLine(_) | Edit::DropLine(_) | Edit::SwapLines(..) if lines.is_empty() => {}
            Edit::RepeatLine(at) => {
                lines.insert(at % count, lines[at % count]);
                chars = lines.concat().chars().collect();
            }
            Edit::DropLine(at) => {
                lines.remove(at % count);
                chars = lines.concat().chars().collect();
            }
            Edit::SwapLines(a, b) => {
                lines.swap(a % count, b % count);
                chars = lines.concat().chars().collect();
            }
        }
    }
    chars.into_iter().collect()
}

fn signer(seed: u8) -> SignerKey {
    SignerKey::from_seed(KeyName::new(format!("k{seed}.example")).unwrap(), Algorithm::Ed25519, &[seed; 32])
}

/// A note of three signers, the last of whom nobody knows.
fn genuine() -> String {
    let text = "A text.\n\nOf three lines.\n";
    let mut note = Note::sign(text, &signer(1)).unwrap();
    for seed in [2, 3] {
        note.add(Note::sign(text, &signer(seed)).unwrap().signatures()[0].clone()).unwrap();
    }
    note.to_string()
}

fn known() -> [VerifierKey; 2] {
    [1, 2].map(|seed| signer(seed).verifier().clone())
}

/// Who is seen to have signed, by this crate.
fn our_signers(bytes: &[u8]) -> Result<Vec<String>, Option<VerifyError>> {
    let note = Note::parse(bytes).map_err(|_| None)?;
    let verified = note.verify(&known()).map_err(Some)?;
    Ok(verified.iter().map(|key| format!("{}+{}", key.name, key.key_id)).collect())
}

/// Who is seen to have signed, by `signed_note`.
fn peer_signers(bytes: &[u8]) -> Result<Vec<String>, PeerNoteError> {
    let verifier = |key: &VerifierKey| Box::new(StandardVerifier::new(&key.to_string()).unwrap()) as Box<_>;
    let list = VerifierList::new(known().iter().map(verifier).collect());
    let (verified, _) = PeerNote::from_bytes(bytes)?.verify(&list)?;
    Ok(verified.iter().map(|line| format!("{}+{:08x}", line.name(), line.id())).collect())
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn verdicts_on_edited_notes_agree(edits in prop::collection::vec(edit(), 0..3)) {
        let note = edited(&genuine(), &edits);
        match (our_signers(note.as_bytes()), peer_signers(note.as_bytes())) {
            (Ok(ours), Ok(peers)) => prop_assert_eq!(ours, peers),
            // A known key's second line, below.
            (Err(Some(VerifyError::Repeated { .. })), _) | (Err(_), Err(_)) => {}
            (ours, peers) => prop_assert!(false, "{:?}\nours {:?}\npeers {:?}", note, ours, peers),
        }
    }

    #[test]
    fn verdicts_on_edited_checkpoints_agree(edits in prop::collection::vec(edit(), 0..3)) {
        let genuine = "log.example\n17\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\nan extension\n";
        let text = edited(genuine, &edits);
        match (Checkpoint::parse(&text), PeerCheckpoint::from_bytes(text.as_bytes())) {
            (Ok(ours), Ok(peers)) => {
                prop_assert_eq!(ours.origin(), peers.origin());
                prop_assert_eq!(ours.size(), peers.size());
                prop_assert_eq!(ours.root().as_bytes(), &peers.hash().0);
                prop_assert_eq!(ours.to_string().into_bytes(), peers.to_bytes());
            }
            // Sizes and control characters, below.
            (Err(CheckpointError::SizeTooLarge(_) | CheckpointError::Control(_)), _) | (Err(_), Err(_)) => {}
            (ours, peers) => prop_assert!(false, "{:?}\nours {:?}\npeers {:?}", text, ours, peers),
        }
    }

    #[test]
    fn verdicts_on_edited_vkeys_agree(edits in prop::collection::vec(edit(), 0..3)) {
        let vkey = edited(&signer(1).verifier().to_string(), &edits);
        match (vkey.parse::<VerifierKey>(), StandardVerifier::new(&vkey)) {
            (Ok(ours), Ok(_)) => prop_assert_eq!(ours.to_string(), vkey),
            (Err(_), Err(_)) | (Err(KeyError::WeakKey), Ok(_)) => {}
            // Key IDs in upper case, names with control characters, and weak keys, below.
            (Err(KeyError::VkeyShape), Ok(_)) => {
                let id = vkey.split('+').nth(1).unwrap();
                let respelled = vkey.replacen(id, &id.to_lowercase(), 1);
                prop_assert!(respelled != vkey && respelled.parse::<VerifierKey>().is_ok(), "{:?}", vkey);
            }
            (Err(KeyError::Name(name)), Ok(_)) => prop_assert!(name.chars().any(|c| c < ' '), "{:?}", vkey),
            (ours, peers) => prop_assert!(false, "{:?}\nours {:?}\npeers {}", vkey, ours, peers.is_ok()),
        }
    }

    #[test]
    fn verdicts_on_edited_tile_paths_agree(
        level in prop::option::of(0..=TILE_LEVEL_MAX),
        index in prop_oneof![0..=TREE_SIZE_MAX, 0..3_000u64],
        width in 1..=256u16,
        edits in prop::collection::vec(edit(), 0..3),
    ) {
        let kind = level.map_or(TileKind::Entries, |level| TileKind::Hashes { level });
        let genuine = TilePath::new(kind, index, width).unwrap().to_string();
        let path = edited(&genuine, &edits);
        let ours = path.parse::<TilePath>();
        let Some(peers) = peer_path(&path) else {
            prop_assert!(ours.is_err(), "{:?}", path);
            return Ok(());
        };
        match (ours, PeerTile::from_path(&peers)) {
            (Ok(ours), Ok(peers)) => {
                prop_assert_eq!((ours.index(), u32::from(ours.width())), (peers.level_index(), peers.width()));
                prop_assert_eq!(ours.kind() == TileKind::Entries, peers.is_data());
            }
            // Indexes beyond any tree, below.
            (Err(_), Ok(peers)) => prop_assert!(peers.level_index() > TREE_SIZE_MAX, "{:?}", path),
            (Err(_), Err(_)) => {}
            (Ok(_), Err(error)) => prop_assert!(false, "{:?}: {:?}", path, error),
        }
    }
}

/// A path as `tlog_tiles` writes it, with the tile height and `data` for entries; `None` where no such
/// path can be, or where that crate panics: a level above 63 and a width of zero.
fn peer_path(path: &str) -> Option<String> {
    let rest = path.strip_prefix("tile/")?;
    let (level, rest) = rest.split_once('/')?;
    let level = match level {
        "data" => return None,
        "entries" => "data",
        level if level.parse::<u8>().is_ok_and(|level| level > TILE_LEVEL_MAX) => return None,
        level => level,
    };
    let zero = rest.rsplit_once(".p/").is_some_and(|(_, width)| width.parse() == Ok(0u32));
    (!zero).then(|| format!("tile/{TILE_HEIGHT}/{level}/{rest}"))
}

// What follows differs on purpose.

/// tlog-witness, add-checkpoint: "the empty tree is consistent with any tree, so no proof is
/// necessary". Both peers refuse an older size of zero outright.
#[test]
fn the_empty_tree_is_extended_by_every_tree_here_only() {
    let trees = Trees::new(9);
    let empty = NodeHash::EMPTY_ROOT;
    assert_eq!(consistency_verdicts(0, &empty, 9, &trees.root(9), &[]), [true, false, false]);
    assert_eq!(consistency_verdicts(0, &empty, 0, &empty, &[]), [true, false, false]);
    assert_eq!(consistency_verdicts(0, &trees.root(9), 9, &trees.root(9), &[]), [false; 3]);
}

/// signed-note, Signatures: "If the key name and ID match a known key, verifiers MUST verify the
/// signature." The peer skips a known key's second line without looking at it. Which of two lines counts
/// (for a cosignature: which time) would be a matter of taste, so that a second one is refused here.
#[test]
fn a_known_keys_second_line_is_refused_here_only() {
    let note = genuine();
    let line = note.lines().find(|line| line.contains("k1.example")).unwrap();
    let twice = format!("{note}{line}\n");
    assert!(matches!(our_signers(twice.as_bytes()), Err(Some(VerifyError::Repeated { .. }))));
    assert!(peer_signers(twice.as_bytes()).is_ok());
}

/// signed-note, Format: a limit is recommended, sixteen must be accepted. Here it is 128 lines, there
/// 100 lines and a million bytes.
#[test]
fn the_limits_of_notes_differ() {
    let with = |lines: usize| {
        let note = genuine();
        let stranger = note.lines().last().unwrap();
        format!("{note}{}", format!("{stranger}\n").repeat(lines - 3))
    };
    for (lines, ours, peers) in [(100, true, true), (128, true, false), (129, false, false)] {
        assert_eq!(our_signers(with(lines).as_bytes()).is_ok(), ours, "{lines}");
        assert_eq!(peer_signers(with(lines).as_bytes()).is_ok(), peers, "{lines}");
    }
    let text = "x".repeat(1_000_000) + "\n";
    let long = Note::sign(&text, &signer(1)).unwrap().to_string();
    assert!(our_signers(long.as_bytes()).is_ok() && peer_signers(long.as_bytes()).is_err());
}

/// signed-note, Verifier keys: "the hex encoding of the key ID", which every example has in lower case;
/// the peer also reads upper case. One key has one spelling here.
#[test]
fn key_ids_in_upper_case_are_refused_here_only() {
    let vkey = signer(1).verifier().to_string();
    let id = signer(1).verifier().id().to_string();
    let respelled = vkey.replacen(&id, &id.to_uppercase(), 1);
    assert_ne!(respelled, vkey);
    assert_eq!(respelled.parse::<VerifierKey>(), Err(KeyError::VkeyShape));
    assert!(StandardVerifier::new(&respelled).is_ok());
}

/// RFC 8032, section 5.1.3, refuses non-canonical keys; points of small order it allows, and under such a
/// key a signature can be made by anybody. Neither kind can be loaded here.
#[test]
fn weak_keys_are_refused_here_only() {
    // The neutral element: y = 1.
    let mut public_key = [0; 32];
    public_key[0] = 1;
    let material = [&[1u8][..], &public_key].concat();
    let id = signed_note::key_id("k1.example", &material);
    let vkey = format!("k1.example+{id:08x}+{}", STANDARD.encode(material));
    assert_eq!(vkey.parse::<VerifierKey>(), Err(KeyError::WeakKey));
    assert!(StandardVerifier::new(&vkey).is_ok());
}

/// signed-note, Format: no control characters in notes; a key whose name holds one could never sign.
#[test]
fn key_names_with_control_characters_are_refused_here_only() {
    assert!(KeyName::new("k1\0.example").is_err());
    assert!(signed_note::is_key_name_valid("k1\0.example"));
}

/// tlog-checkpoint sets no limit on sizes. Here they end at 2^63 - 1, as they do for peers with signed
/// integers; `tlog_tiles` reads up to 2^64 - 1.
#[test]
fn sizes_above_2_63_are_refused_here_only() {
    let text = |size: u64| format!("log.example\n{size}\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n");
    for (size, ours) in [(TREE_SIZE_MAX, true), (TREE_SIZE_MAX + 1, false), (u64::MAX, false)] {
        assert_eq!(Checkpoint::parse(&text(size)).is_ok(), ours, "{size}");
        assert!(PeerCheckpoint::from_bytes(text(size).as_bytes()).is_ok(), "{size}");
    }
    let path = "tile/0/x009/x223/x372/x036/x854/x775/808";
    assert!(path.parse::<TilePath>().is_err());
    assert!(PeerTile::from_path(&peer_path(path).unwrap()).is_ok());
}

/// signed-note, Format: a checkpoint is a note text, which holds no control character; the peer leaves
/// that to its note reader.
#[test]
fn control_characters_in_checkpoints_are_refused_here_only() {
    let text = "log.\texample\n17\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";
    assert_eq!(Checkpoint::parse(text), Err(CheckpointError::Control(1)));
    assert!(PeerCheckpoint::from_bytes(text.as_bytes()).is_ok());
}

/// tlog-tiles, Merkle Tree: levels from 0 to 63, widths from 1 to 255. The peer panics on others.
#[test]
fn impossible_tiles_are_refused_here_and_a_panic_there() {
    for (path, peers) in [("tile/64/000", "tile/8/64/000"), ("tile/0/000.p/0", "tile/8/0/000.p/0")] {
        assert!(path.parse::<TilePath>().is_err());
        assert!(std::panic::catch_unwind(|| PeerTile::from_path(peers)).is_err(), "{peers}");
    }
}

//! tiles.json: tile paths, tiles and entry bundles (c2sp.org/tlog-tiles).

use std::collections::{BTreeMap, BTreeSet};

use runseal_tlog::bundle;
use runseal_tlog::hash::LeafHash;
use runseal_tlog::tile::{
    self, TILE_HEIGHT, Tile, TileKind, TileNodes, TilePath, TilePathError, TileReader, tile_width,
};
use runseal_tlog::tree::{Frontier, root};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::shared::{Answer, Base64, Cases, Expect, Hex, entry, load, number};

#[derive(Deserialize)]
struct File {
    paths: Cases<Path>,
    trees: Cases<Tree>,
    tile_bytes: Cases<TileBytes>,
    entry_bundles: Cases<Bundle>,
    bad_entry_bundles: Cases<BadBundle>,
}

#[derive(Deserialize)]
struct Path {
    path: String,
    expect: Expect,
    level: Option<Level>,
    index: Option<String>,
    width: Option<u16>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Level {
    Hashes(u8),
    /// "entries".
    Entries(String),
}

#[derive(Deserialize)]
struct Tree {
    size: u64,
    root: Hex,
    tiles: Cases<(String, Hex)>,
    entry_bundles: Cases<(String, Hex)>,
}

#[derive(Deserialize)]
struct TileBytes {
    tree_size: u64,
    path: String,
    data_b64: Base64,
}

#[derive(Deserialize)]
struct Bundle {
    id: String,
    width: u16,
    len: usize,
    sha256: Hex,
    leaf_tile_sha256: Hex,
    bundle_b64: Option<Base64>,
    entries_b64: Option<Vec<Base64>>,
}

#[derive(Deserialize)]
struct BadBundle {
    id: String,
    width: u16,
    bundle_b64: Base64,
}

const DECIDED: &[(&str, Answer)] = &[
    // The grammar allows levels to 63; an index ends where tree sizes end, at 2^63 - 1.
    ("tile/9/000.p/1", Answer::Accept),
    ("tile/0/x009/x223/x372/x036/x854/x775/807", Answer::Accept),
    ("tile/0/x018/x446/x744/x073/x709/x551/615", Answer::Refuse),
];

fn sha256(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

/// The tiles of a growing tree, by level and index.
#[derive(Default)]
struct Tiles {
    frontier: Frontier,
    tiles: BTreeMap<(u8, u64), Tile>,
}

impl Tiles {
    fn grow(&mut self, size: u64) {
        for index in self.frontier.size()..size {
            for (node, hash) in self.frontier.append(LeafHash::of(&entry(index))) {
                if node.level.is_multiple_of(TILE_HEIGHT) {
                    let key = (node.level / TILE_HEIGHT, node.index / u64::from(tile::TILE_WIDTH));
                    self.tiles.entry(key).or_default().push(hash).unwrap();
                }
            }
        }
    }

    /// A tile as it is served.
    fn served(&self, path: TilePath) -> Vec<u8> {
        let TileKind::Hashes { level } = path.kind() else { panic!("{path} holds no hashes") };
        self.tiles[&(level, path.index())].to_served(path.width()).unwrap()
    }
}

impl TileReader for Tiles {
    type Error = String;

    fn read_tile(&self, level: u8, index: u64, _width: u16) -> Result<Tile, String> {
        self.tiles.get(&(level, index)).cloned().ok_or_else(|| format!("no tile {level}/{index}"))
    }
}

#[test]
fn shared_paths_are_tiles_or_not_as_stated() {
    let Some(file) = load::<File>("tiles.json") else { return };
    file.paths.check("paths", |case| {
        let parsed = case.path.parse::<TilePath>();
        if let (Ok(path), Some(level)) = (parsed, &case.level) {
            let kind = match level {
                Level::Hashes(level) => TileKind::Hashes { level: *level },
                Level::Entries(word) => {
                    assert_eq!(word, "entries");
                    TileKind::Entries
                }
            };
            let index = number(case.index.as_ref().unwrap());
            assert_eq!(TilePath::new(kind, index, case.width.unwrap()), Ok(path), "{}", case.path);
            assert_eq!(path.to_string(), case.path);
        }
        case.expect.judge(&case.path, DECIDED, &parsed.map(drop).map_err(|error| error.to_string()))
    });
}

#[test]
fn shared_trees_have_these_tiles_and_no_others() {
    let Some(file) = load::<File>("tiles.json") else { return };
    let mut tiles = Tiles::default();
    let mut trees: Vec<&Tree> = file.trees.0.iter().collect();
    trees.sort_by_key(|tree| tree.size);
    for tree in trees {
        tiles.grow(tree.size);
        assert_eq!(root(tree.size, &TileNodes::new(&tiles, tree.size)), Ok(tree.root.hash()));
        let ours = |kind: fn(TileKind) -> bool| -> BTreeSet<String> {
            tile::tiles_of(tree.size).filter(|path| kind(path.kind())).map(|path| path.to_string()).collect()
        };
        let listed: BTreeSet<String> = tree.tiles.0.iter().map(|(path, _)| path.clone()).collect();
        assert_eq!(ours(|kind| kind != TileKind::Entries), listed, "tiles of {}", tree.size);
        for (path, hash) in &tree.tiles.0 {
            let parsed: TilePath = path.parse().unwrap();
            assert_eq!(sha256(&tiles.served(parsed)), hash.0, "{path} of {}", tree.size);
            let TileKind::Hashes { level } = parsed.kind() else { panic!("{path} holds no hashes") };
            assert_eq!(tile_width(level, parsed.index(), tree.size), parsed.width());
        }
        let bundles = ours(|kind| kind == TileKind::Entries);
        for (path, hash) in &tree.entry_bundles.0 {
            assert!(bundles.contains(path), "{path} of {}", tree.size);
            let parsed: TilePath = path.parse().unwrap();
            let first = parsed.index() * u64::from(tile::TILE_WIDTH);
            let mut bytes = Vec::new();
            for index in first..first + u64::from(parsed.width()) {
                bundle::push(&mut bytes, &entry(index)).unwrap();
            }
            assert_eq!(sha256(&bytes), hash.0, "{path} of {}", tree.size);
        }
    }
}

#[test]
fn shared_tiles_have_these_bytes() {
    let Some(file) = load::<File>("tiles.json") else { return };
    for case in &file.tile_bytes.0 {
        let mut tiles = Tiles::default();
        tiles.grow(case.tree_size);
        let path: TilePath = case.path.parse().unwrap();
        assert_eq!(tiles.served(path), case.data_b64.0, "{} of {}", case.path, case.tree_size);
        let read = Tile::from_served(&case.data_b64.0, path.width()).unwrap();
        assert_eq!(read.to_served(path.width()).unwrap(), case.data_b64.0);
    }
}

#[test]
fn shared_bundles_hold_these_entries() {
    let Some(file) = load::<File>("tiles.json") else { return };
    for case in &file.entry_bundles.0 {
        let entries: Vec<Vec<u8>> = match &case.entries_b64 {
            Some(entries) => entries.iter().map(|entry| entry.0.clone()).collect(),
            // The one case too long to be spelled out: one entry of 65535 bytes, each 0xab.
            None => vec![vec![0xab; 65535]],
        };
        let mut bytes = Vec::new();
        let mut leaves = Tile::default();
        for entry in &entries {
            bundle::push(&mut bytes, entry).unwrap();
            leaves.push(LeafHash::of(entry).into()).unwrap();
        }
        assert_eq!(bytes.len(), case.len, "{}", case.id);
        assert_eq!(sha256(&bytes), case.sha256.0, "{}", case.id);
        assert!(case.bundle_b64.as_ref().is_none_or(|bundle| bundle.0 == bytes), "{}", case.id);
        assert_eq!(sha256(&leaves.to_served(case.width).unwrap()), case.leaf_tile_sha256.0, "{}", case.id);
        assert_eq!(bundle::entries(&bytes, case.width).unwrap(), entries, "{}", case.id);
    }
}

#[test]
fn shared_broken_bundles_are_refused() {
    let Some(file) = load::<File>("tiles.json") else { return };
    file.bad_entry_bundles.check("bad entry bundles", |case| {
        match bundle::entries(&case.bundle_b64.0, case.width) {
            Ok(_) => Err(format!("{}: accepted", case.id)),
            Err(_) => Ok(()),
        }
    });
}

#[test]
fn own_paths_have_these_coordinates() {
    let hashes = |level| TileKind::Hashes { level };
    for (path, kind, index, width) in [
        // The example of tlog-tiles.
        ("tile/0/x001/x234/067", hashes(0), 1_234_067, 256),
        ("tile/0/000", hashes(0), 0, 256),
        ("tile/0/000.p/1", hashes(0), 0, 1),
        ("tile/1/999.p/255", hashes(1), 999, 255),
        ("tile/2/x001/000", hashes(2), 1_000, 256),
        ("tile/63/x001/x000/000.p/17", hashes(63), 1_000_000, 17),
        ("tile/entries/273.p/112", TileKind::Entries, 273, 112),
    ] {
        assert_eq!(path.parse(), TilePath::new(kind, index, width), "{path}");
        assert_eq!(path.parse::<TilePath>().unwrap().to_string(), path);
    }
}

#[test]
fn own_broken_paths_fail_with_this_error() {
    for (path, error) in [
        ("tile", TilePathError::Shape),
        ("/tile/0/000", TilePathError::Shape),
        ("tiles/0/000", TilePathError::Shape),
        ("tile/0", TilePathError::Shape),
        ("tile/64/000", TilePathError::Level),
        ("tile/00/000", TilePathError::Level),
        ("tile/-1/000", TilePathError::Level),
        ("tile/data/000", TilePathError::Level),
        ("tile/0/0", TilePathError::Index),
        ("tile/0/0000", TilePathError::Index),
        ("tile/0/001/234", TilePathError::Index),
        ("tile/0/x001", TilePathError::Index),
        ("tile/0/x000/001", TilePathError::Index),
        ("tile/0/X001/234", TilePathError::Index),
        ("tile/0/001/", TilePathError::Index),
        ("tile/0/\u{661}00", TilePathError::Index),
        ("tile/0/x018/x446/x744/x073/x709/x551/616", TilePathError::Index),
        ("tile/0/000.p/0", TilePathError::Width),
        ("tile/0/000.p/01", TilePathError::Width),
        ("tile/0/000.p/256", TilePathError::Width),
        ("tile/0/000.p/", TilePathError::Width),
        ("tile/0/000.p/1/", TilePathError::Width),
    ] {
        assert_eq!(path.parse::<TilePath>(), Err(error), "{path}");
    }
}

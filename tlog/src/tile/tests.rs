use std::collections::HashMap;

use super::*;
use crate::TREE_SIZE_MAX;
use crate::tree::tests::{leaves, mth};
use crate::tree::{Frontier, root};
use crate::{consistency, inclusion};

struct Tiles(HashMap<(u8, u64), Tile>);

impl TileReader for Tiles {
    type Error = String;
    fn read_tile(&self, level: u8, index: u64, _width: u16) -> Result<Tile, String> {
        self.0.get(&(level, index)).cloned().ok_or_else(|| format!("{level}/{index} is missing"))
    }
}

fn tiles(count: u64) -> Tiles {
    let mut frontier = Frontier::new();
    let mut tiles: HashMap<(u8, u64), Tile> = HashMap::new();
    for leaf in leaves(count) {
        for (node, hash) in frontier.append(leaf) {
            if node.level.is_multiple_of(TILE_HEIGHT) {
                let key = (node.level / TILE_HEIGHT, node.index / 256);
                tiles.entry(key).or_default().push(hash).unwrap();
            }
        }
    }
    Tiles(tiles)
}

#[test]
fn proofs_and_roots_from_tiles_verify() {
    let all = leaves(1_000);
    let reader = tiles(1_000);
    let new_root = mth(&all);
    for size in [1u64, 15, 16, 17, 255, 256, 257, 511, 513, 999, 1_000] {
        let nodes = TileNodes::new(&reader, size);
        let old_root = root(size, &nodes).unwrap();
        assert_eq!(old_root, mth(&all[..usize::try_from(size).unwrap()]));
        for index in [0, size / 2, size - 1] {
            let proof = inclusion::prove(index, size, &nodes).unwrap();
            let leaf = all[usize::try_from(index).unwrap()];
            assert_eq!(inclusion::verify(index, size, leaf, &proof, &old_root), Ok(()));
        }
        let proof = consistency::prove(size, 1_000, &TileNodes::new(&reader, 1_000)).unwrap();
        assert_eq!(consistency::verify(size, &old_root, 1_000, &new_root, &proof), Ok(()));
    }
}

#[test]
fn a_tile_survives_its_stored_and_served_forms_at_every_width() {
    let mut tile = Tile::default();
    for width in 0..=256u16 {
        let stored = tile.to_stored();
        assert_eq!(Tile::from_stored(&stored), Ok(tile.clone()), "{width}");
        let served = tile.to_served(width).unwrap();
        assert_eq!(Tile::from_served(&served, width), Ok(tile.clone()));
        let whole = (width == 256).then(|| mth(&vec![leaves(1)[0]; 256]));
        assert_eq!(Tile::hash_of_served(&served), whole);
        let pushed = tile.push(leaves(1)[0].into());
        assert_eq!(pushed.is_err(), width == 256);
    }
}

/// The same tiles in their stored form, read in place.
struct InPlace(HashMap<(u8, u64), Vec<u8>>);

impl TileReader for InPlace {
    type Error = String;

    fn read_tile(&self, level: u8, index: u64, _width: u16) -> Result<Tile, String> {
        unreachable!("tile {level}/{index} is read in place")
    }

    fn read_spans(
        &self,
        level: u8,
        index: u64,
        _width: u16,
        spans: &[TileSpan],
        hashes: &mut Vec<NodeHash>,
    ) -> Result<(), TileNodesError<String>> {
        StoredTile::parse(&self.0[&(level, index)]).unwrap().read_spans(spans, hashes)
    }
}

#[test]
fn a_tile_read_in_place_gives_the_same_nodes() {
    let copied = tiles(70_000);
    let in_place = InPlace(copied.0.iter().map(|(at, tile)| (*at, tile.to_stored())).collect());
    let (copied, in_place) = (TileNodes::new(&copied, 70_000), TileNodes::new(&in_place, 70_000));
    for index in [0, 255, 256, 65_535, 65_536, 69_887, 69_888, 69_999] {
        let proof = inclusion::prove(index, 70_000, &copied).unwrap();
        assert_eq!(inclusion::prove(index, 70_000, &in_place), Ok(proof));
        let proof = consistency::prove(index, 70_000, &copied).unwrap();
        assert_eq!(consistency::prove(index, 70_000, &in_place), Ok(proof));
    }
}

#[test]
fn stored_bytes_of_no_width_are_refused() {
    for width in 0..=256usize {
        let stored = (width + width / 16) * 32;
        for length in [stored + 1, stored + 31] {
            assert_eq!(StoredTile::parse(&vec![0; length]), Err(TileError::Stored(length)));
        }
        assert_eq!(usize::from(StoredTile::parse(&vec![0; stored]).unwrap().width()), width);
    }
    // Sixteen hashes come with their root: sixteen alone are no tile, nor are more than a full one.
    for hashes in [16, 33, 273] {
        assert_eq!(Tile::from_stored(&vec![0; hashes * 32]), Err(TileError::Stored(hashes * 32)));
    }
}

#[test]
fn a_missing_or_narrow_tile_is_an_error_not_a_hash() {
    let mut reader = tiles(600);
    assert!(root(700, &TileNodes::new(&reader, 700)).is_err());
    reader.0.remove(&(0, 1));
    assert!(inclusion::prove(300, 600, &TileNodes::new(&reader, 600)).is_err());
}

#[test]
fn the_specification_example_of_70000_entries_has_those_tiles() {
    let count = |level| {
        let tiles: Vec<_> = level_tiles(TileKind::Hashes { level }, 70_000).collect();
        (tiles.iter().filter(|tile| !tile.is_partial()).count(), tiles.last().unwrap().width())
    };
    assert_eq!(count(0), (273, 112));
    assert_eq!(count(1), (1, 17));
    assert_eq!(count(2), (0, 1));
    assert_eq!(level_tiles(TileKind::Hashes { level: 3 }, 70_000).count(), 0);
    assert_eq!("tile/0/x001/x234/067".parse::<TilePath>().unwrap().index(), 1_234_067);
}

proptest::proptest! {
    #[test]
    fn paths_have_one_spelling(index in 0..=TREE_SIZE_MAX, level in 0..=63u8, width in 1..=256u16, noise in "[0-9x./p]{0,24}") {
        let path = TilePath::new(TileKind::Hashes { level }, index, width).unwrap();
        proptest::prop_assert_eq!(path.to_string().parse(), Ok(path));
        let text = format!("tile/{noise}");
        if let Ok(path) = text.parse::<TilePath>() {
            proptest::prop_assert_eq!(path.to_string(), text);
        }
    }
}

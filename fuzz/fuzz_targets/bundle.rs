#![no_main]
//! Entry bundles, and tiles as they are served and stored.

use libfuzzer_sys::fuzz_target;
use runseal_tlog::bundle;
use runseal_tlog::tile::Tile;

fuzz_target!(|input: (u8, &[u8])| {
    let (width, bytes) = (u16::from(input.0) + 1, input.1);
    if let Ok(entries) = bundle::entries(bytes, width) {
        let mut again = Vec::new();
        for entry in entries {
            bundle::push(&mut again, entry).expect("an entry that was read fits");
        }
        assert_eq!(again, bytes);
        assert_eq!(bundle::prefix(bytes, width), Ok(bytes));
    }
    if let Ok(tile) = Tile::from_served(bytes, width) {
        assert_eq!(tile.to_served(width).as_deref(), Some(bytes));
    }
    if let Ok(tile) = Tile::from_stored(bytes) {
        assert_eq!(tile.to_stored(), bytes);
    }
});

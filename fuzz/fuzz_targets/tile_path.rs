#![no_main]
//! Tile paths.

use libfuzzer_sys::fuzz_target;
use runseal_tlog::tile::TilePath;

fuzz_target!(|text: &str| {
    if let Ok(path) = text.parse::<TilePath>() {
        assert_eq!(path.to_string(), text);
    }
});

#![no_main]
//! Checkpoints.

use libfuzzer_sys::fuzz_target;
use runseal_tlog::checkpoint::Checkpoint;

fuzz_target!(|text: &str| {
    if let Ok(checkpoint) = Checkpoint::parse(text) {
        assert_eq!(checkpoint.to_string(), text);
    }
});

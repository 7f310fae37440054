#![no_main]
//! Log entries.

use libfuzzer_sys::fuzz_target;
use runseal_evidence::entry::{Entry, Recognised};

fuzz_target!(|bytes: &[u8]| {
    let ours = matches!(Entry::recognise(bytes), Recognised::Ours(_));
    match Entry::parse(bytes) {
        Ok(entry) => {
            assert_eq!(entry.encode(), bytes);
            assert!(ours);
        }
        Err(_) => assert!(!ours),
    }
});

//! An ssh-agent's list of keys is read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(blobs) = runseal_witness::agent::identities(bytes) {
        assert!(blobs.iter().map(Vec::len).sum::<usize>() <= bytes.len());
    }
});

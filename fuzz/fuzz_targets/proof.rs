#![no_main]
//! Offline proof files.

use libfuzzer_sys::fuzz_target;
use runseal_tlog::proof::TlogProof;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(proof) = TlogProof::parse(bytes) {
        assert_eq!(proof.to_string().as_bytes(), bytes);
    }
});

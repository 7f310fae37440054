//! An export is read whole or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut input = bytes;
    let _ = runseal_witness::transfer::verify(&mut input);
});

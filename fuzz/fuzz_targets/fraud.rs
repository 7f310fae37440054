#![no_main]
//! Fraud proof files.

use libfuzzer_sys::fuzz_target;
use runseal_tlog::fraud::FraudProof;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(proof) = FraudProof::parse(bytes) {
        assert_eq!(proof.to_string().as_bytes(), bytes);
        // No key is trusted, so that nothing is proven; it must only not panic.
        assert!(proof.verify([]).is_err());
    }
});

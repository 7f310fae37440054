#![no_main]
//! Verifier keys and private key lines.

use libfuzzer_sys::fuzz_target;
use runseal_tlog::key::{SignerKey, VerifierKey};

fuzz_target!(|text: &str| {
    if let Ok(key) = text.parse::<VerifierKey>() {
        assert_eq!(key.to_string(), text);
    }
    if let Ok(key) = SignerKey::parse(text) {
        assert_eq!(*key.to_line(), text);
    }
});

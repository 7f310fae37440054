#![no_main]
//! sign-subtree requests.

use libfuzzer_sys::fuzz_target;
use runseal_tlog::request::SignSubtree;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = SignSubtree::parse(bytes) {
        assert_eq!(request.to_string().as_bytes(), bytes);
    }
});

#![no_main]
//! Trust policies: blanks and comments are free, so that only the reading is held.

use libfuzzer_sys::fuzz_target;
use runseal_tlog::policy::Policy;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(policy) = Policy::parse(bytes) {
        // With every cosignature each quorum is met; with none only the quorum that needs none.
        assert!(policy.quorum_met(|_| true));
        assert_eq!(policy.quorum_met(|_| false), policy.quorum_is_none());
    }
});

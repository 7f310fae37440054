//! A list of logs is read or refused, and what is read can be put together.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runseal_witness::logs::{self, LogSet};
use runseal_witness::sources::split_variable;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(listed) = logs::parse("list", bytes) {
        let count = listed.len();
        if let Ok(logs) = LogSet::new(listed, &[]) {
            assert!(logs.len() <= count);
            for log in logs.iter() {
                assert!(!log.keys().is_empty());
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        // Nothing of the variable is lost but the colons between its parts.
        let letters = |text: &str| text.replace(':', "");
        assert_eq!(letters(&split_variable(text).concat()), letters(text));
    }
});

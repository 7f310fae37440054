#![no_main]
//! add-checkpoint requests, and what a witness answers.

use libfuzzer_sys::fuzz_target;
use runseal_tlog::request::{AddCheckpoint, answer_lines, conflict_size};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = AddCheckpoint::parse(bytes) {
        assert_eq!(request.to_string().as_bytes(), bytes);
    }
    if let Some(size) = conflict_size(bytes) {
        assert_eq!(format!("{size}\n").as_bytes(), bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        for line in answer_lines(text) {
            assert!(text.contains(&line.to_string()));
        }
    }
});

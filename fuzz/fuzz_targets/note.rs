#![no_main]
//! Signed notes.

use libfuzzer_sys::fuzz_target;
use runseal_tlog::note::Note;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(note) = Note::parse(bytes) {
        assert_eq!(note.to_string().as_bytes(), bytes);
    }
});

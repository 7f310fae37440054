#![no_main]
//! JSON values: any spelling is read, and its compact form reads and prints alike.

use libfuzzer_sys::fuzz_target;
use runseal_evidence::json::{Json, is_compact};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = Json::parse(bytes) {
        let compact = value.to_string();
        assert!(is_compact(compact.as_bytes()));
        assert_eq!(Json::parse(compact.as_bytes()).as_ref(), Ok(&value));
        assert_eq!(is_compact(bytes), compact.as_bytes() == bytes);
        if let Some(object) = value.object() {
            assert_eq!(object.to_json().as_ref(), Ok(&value));
        }
    } else {
        assert!(!is_compact(bytes));
    }
});

#![no_main]
//! Records in their wire form.

use libfuzzer_sys::fuzz_target;
use runseal_evidence::record::Record;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(record) = Record::parse(bytes) {
        assert_eq!(record.to_wire().as_deref(), Ok(bytes));
    }
});

#![no_main]
//! Export lines: members may come in any order, so that a line read is held to print as one that reads
//! alike.

use libfuzzer_sys::fuzz_target;
use runseal_evidence::export::ExportLine;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(line) = ExportLine::parse(bytes) {
        let mut written = Vec::new();
        if line.write_to(&mut written).is_ok() {
            let text = written.strip_suffix(b"\n").expect("a line ends in a line feed");
            let mut again = Vec::new();
            let read = ExportLine::parse(text).expect("a line that was written can be read");
            read.write_to(&mut again).expect("a line that was written can be written");
            assert_eq!(again, written);
        }
    }
});

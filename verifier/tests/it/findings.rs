//! The kinds of findings: each that is documented can be found.

use std::fs;
use std::path::Path;

use runseal_evidence::finding::FindingKind;

/// All sources below a folder, one after the other.
fn sources(folder: &Path) -> String {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.map(|file| if file.is_dir() { sources(&file) } else { fs::read_to_string(file).unwrap() }).collect()
}

#[test]
fn every_kind_of_finding_is_made_somewhere() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    for kind in FindingKind::ALL {
        assert!(sources.contains(&format!("FindingKind::{kind:?}")), "no audit finds {kind}");
    }
}

//! The crate does no I/O, reads no clock and starts no task: nothing in its sources or among its
//! dependencies could.

#![expect(clippy::unwrap_used, reason = "a test panics where something is wrong")]

use std::fs;
use std::path::{Path, PathBuf};

/// What reaches outside: paths and names that the sources must not hold.
const OUTSIDE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time",
    "SystemTime",
    "Instant::",
    "getrandom",
    "println!",
    "eprintln!",
    "dbg!",
    "async ",
    "static mut",
    "OnceLock",
    "thread_local!",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The modules that a source declares for tests alone, as paths from `src`.
fn test_modules(path: &Path, text: &str) -> Vec<PathBuf> {
    let folder = path.with_extension("");
    text.split("#[cfg(test)]\nmod ")
        .skip(1)
        .filter_map(|rest| rest.split_once(';'))
        .filter(|(name, _)| name.bytes().all(|byte| byte.is_ascii_lowercase()))
        .map(|(name, _)| folder.join(name).with_extension("rs"))
        .collect()
}

#[test]
fn no_source_reaches_outside() {
    let mut paths = Vec::new();
    sources(&root().join("src"), &mut paths);
    let texts: Vec<(PathBuf, String)> =
        paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    let tests: Vec<PathBuf> = texts.iter().flat_map(|(path, text)| test_modules(path, text)).collect();
    let mut read = 0;
    for (path, text) in texts.iter().filter(|(path, _)| !tests.contains(path)) {
        // Unit tests stand at the end of a file and may do as they like.
        let product = text.split("#[cfg(test)]").next().unwrap();
        for outside in OUTSIDE {
            assert!(!product.contains(outside), "{} holds {outside}", path.display());
        }
        read += 1;
    }
    assert!(read >= 15, "only {read} sources were read");
}

#[test]
fn no_dependency_is_more_than_hashing_signing_and_spelling() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, rest) = manifest.split_once("[dependencies]\n").unwrap();
    let (dependencies, _) = rest.split_once("\n[").unwrap();
    let names: Vec<&str> =
        dependencies.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).collect();
    assert_eq!(
        names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>(),
        ["base64", "ed25519-dalek", "hex", "ml-dsa", "sha2", "thiserror", "zeroize"]
    );
}

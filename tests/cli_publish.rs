//! The static tree: the same bytes as are served, each file whole, the checkpoint last.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod console;

use std::path::Path;

use console::{Desk, run};
use sha2::{Digest as _, Sha256};

/// A plane whose log has 300 entries: a full tile and a partial one on level 0, one hash on level 1.
fn desk() -> Desk {
    let desk = Desk::with_plane();
    let runs: String = (0..300).map(|number| run(&format!("run-{number:03}"), 2, Some("done"))).collect();
    desk.write("runs.jsonl", runs);
    desk.run(&["import", "--dir", "plane", "--tenant", "acme", "runs.jsonl"]).ended(0);
    desk.run(&["checkpoint", "--dir", "plane", "--tenant", "acme"]).ended(0);
    desk
}

fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_tree_is_what_the_server_serves_and_rebuilds_the_signed_root() {
    let desk = desk();
    desk.run(&["publish", "--dir", "plane", "--to", "tree"]).ended(0);
    let expected = [
        "acme/checkpoint",
        "acme/tile/0/000",
        "acme/tile/0/001.p/44",
        "acme/tile/1/000.p/1",
        "acme/tile/entries/000",
        "acme/tile/entries/001.p/44",
    ];
    assert_eq!(files(&desk.path("tree")), expected);
    let serving = desk.serve(&[]);
    for file in expected {
        let answer = serving.get(&format!("/log/{file}"));
        assert_eq!(answer.status, 200, "{file}");
        assert_eq!(answer.body, std::fs::read(desk.path("tree").join(file)).unwrap(), "{file}");
    }
    // The entries hash to the leaves, the leaves to the root that is signed (RFC 6962, section 2.1).
    let read = |name: &str| std::fs::read(desk.path("tree/acme").join(name)).unwrap();
    let mut leaves = Vec::new();
    for bundle in ["tile/entries/000", "tile/entries/001.p/44"] {
        let mut rest = &read(bundle)[..];
        while let [high, low, after @ ..] = rest {
            let (entry, after) = after.split_at(usize::from(*high) << 8 | usize::from(*low));
            leaves.push(Sha256::digest([&[0], entry].concat()).to_vec());
            rest = after;
        }
    }
    assert_eq!(leaves.concat(), [read("tile/0/000"), read("tile/0/001.p/44")].concat());
    let note = String::from_utf8(read("checkpoint")).unwrap();
    let lines: Vec<&str> = note.lines().collect();
    let root = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, mth(&leaves));
    assert_eq!(lines[..3], ["test.example/plane/log/acme", "300", &root]);
}

fn mth(leaves: &[Vec<u8>]) -> Vec<u8> {
    if let [leaf] = leaves {
        return leaf.clone();
    }
    let mut k = 1;
    while k * 2 < leaves.len() {
        k *= 2;
    }
    Sha256::digest([vec![1], mth(&leaves[..k]), mth(&leaves[k..])].concat()).to_vec()
}

#[test]
fn publishing_again_writes_only_what_changed_and_keeps_what_was_there() {
    let desk = desk();
    desk.run(&["publish", "--dir", "plane", "--to", "tree"]).ended(0);
    let full = desk.path("tree/acme/tile/0/000");
    let written = full.metadata().unwrap().modified().unwrap();
    desk.write("more.jsonl", run("more", 2, Some("done")));
    desk.run(&["import", "--dir", "plane", "--tenant", "acme", "more.jsonl"]).ended(0);
    // What no checkpoint covers is not published.
    desk.run(&["publish", "--dir", "plane", "--to", "tree"]).ended(0).says("acme: size 300, 0 tiles");
    desk.run(&["checkpoint", "--dir", "plane", "--tenant", "acme"]).ended(0);
    desk.run(&["publish", "--dir", "plane", "--to", "tree"]).ended(0).says("acme: size 301");
    assert_eq!(full.metadata().unwrap().modified().unwrap(), written);
    let files = files(&desk.path("tree"));
    for file in ["acme/tile/0/001.p/44", "acme/tile/0/001.p/45"] {
        assert!(files.iter().any(|found| found == file), "{file}");
    }
    assert!(files.iter().all(|file| !file.contains(".tmp")), "{files:?}");
    // A file that was damaged on the way is put right, and said.
    std::fs::write(&full, b"damaged").unwrap();
    desk.run(&["publish", "--dir", "plane", "--to", "tree"])
        .ended(0)
        .says("tile/0/000 was another one; replaced");
    assert_eq!(full.metadata().unwrap().len(), 8192);
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let desk = desk();
    desk.write("occupied", "a file");
    desk.run(&["publish", "--dir", "plane", "--to", "occupied"]).ended(3).says("occupied/acme/tile/0/000");
}

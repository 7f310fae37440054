//! The log grows, its tiles are those of its size, and no checkpoint contradicts another.

use runseal_evidence::entry::Entry;
use runseal_evidence::export::ExportLine;
use runseal_tlog::bundle;
use runseal_tlog::checkpoint::{Checkpoint, SignedCheckpoint};
use runseal_tlog::consistency;
use runseal_tlog::hash::{LeafHash, NodeHash};
use runseal_tlog::inclusion;
use runseal_tlog::key::{Algorithm, SignerKey};
use runseal_tlog::tile::{TileKind, TilePath, tiles_of};

use crate::store::{Scope, Space, StoreError, Table};
use crate::tests::world::{World, concluded, note, record_key, run};
use crate::{CheckpointError, ProofError, ProveError, PublishError, Remembered};

on_every_engine! {
    an_empty_log_has_the_empty_root_and_can_be_signed
    proofs_hold_at_every_size_and_index
    sizes_beyond_the_log_are_refused
    every_tile_that_a_size_implies_is_served_and_none_besides
    an_unchanged_log_is_not_signed_twice
    a_tree_that_does_not_continue_what_was_signed_is_not_signed
    a_log_that_lost_entries_is_not_signed
    what_somebody_else_remembers_is_compared
    published_checkpoints_never_shrink_and_are_all_kept
    only_checkpoints_of_this_log_are_published
    a_proof_holds_offline_and_says_why_there_is_none
    heads_pin_open_runs_that_grew_and_no_others
    an_export_of_some_runs_has_their_heads
    a_publication_is_waited_for
    witness_sizes_are_remembered
}

/// Seals runs until the log has `size` entries.
fn grow(world: &World, size: u64) {
    for number in world.acme.tree_size().unwrap()..size {
        world.sealed(&format!("r{number:05}"));
    }
}

/// RFC 6962, section 2.1, word for word.
fn mth(entries: &[Vec<u8>]) -> NodeHash {
    match entries {
        [] => NodeHash::EMPTY_ROOT,
        [entry] => LeafHash::of(entry).into(),
        _ => {
            let (left, right) = entries.split_at(entries.len().next_power_of_two() / 2);
            NodeHash::join(&mth(left), &mth(right))
        }
    }
}

fn entries(world: &World) -> Vec<Vec<u8>> {
    (0..world.acme.tree_size().unwrap()).map(|index| world.acme.entry(index).unwrap().unwrap()).collect()
}

fn opened(world: &World, note: &runseal_tlog::note::Note) -> Checkpoint {
    SignedCheckpoint::open(note.clone(), [&world.acme.vkey()], []).unwrap().checkpoint().clone()
}

fn an_empty_log_has_the_empty_root_and_can_be_signed(world: World) {
    let note = world.acme.sign_checkpoint().unwrap();
    let text = "log.example.com/plane/log/acme\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n";
    assert_eq!(note.unverified_text(), text);
    world.acme.publish(&note).unwrap();
    grow(&world, 1);
    assert_eq!(opened(&world, &world.acme.sign_checkpoint().unwrap()).size(), 1);
    assert_eq!(world.acme.consistency_proof(0, 1).unwrap(), []);
}

fn proofs_hold_at_every_size_and_index(world: World) {
    grow(&world, 21);
    let entries = entries(&world);
    for size in 0..=21u64 {
        let root = mth(&entries[..usize::try_from(size).unwrap()]);
        assert_eq!(world.acme.root_at(size).unwrap(), root, "size {size}");
        for index in 0..size {
            let leaf = LeafHash::of(&entries[usize::try_from(index).unwrap()]);
            let proof = world.acme.inclusion_proof(index, size).unwrap();
            inclusion::verify(index, size, leaf, &proof, &root).unwrap();
        }
        for old in 0..=size {
            let proof = world.acme.consistency_proof(old, size).unwrap();
            consistency::verify(old, &mth(&entries[..usize::try_from(old).unwrap()]), size, &root, &proof)
                .unwrap();
        }
    }
}

fn sizes_beyond_the_log_are_refused(world: World) {
    grow(&world, 3);
    assert!(matches!(world.acme.root_at(4).unwrap_err(), ProofError::BeyondTree { asked: 4, size: 3 }));
    assert!(matches!(world.acme.consistency_proof(2, 4).unwrap_err(), ProofError::BeyondTree { .. }));
    assert!(matches!(
        world.acme.consistency_proof(3, 2).unwrap_err(),
        ProofError::SizesReversed { old: 3, new: 2 }
    ));
    assert!(matches!(
        world.acme.inclusion_proof(3, 3).unwrap_err(),
        ProofError::NoSuchLeaf { index: 3, size: 3 }
    ));
    for size in [4, 1 << 62, u64::MAX] {
        assert!(world.acme.inclusion_proof(0, size).is_err());
        assert!(world.acme.consistency_proof(0, size).is_err());
    }
    assert_eq!(world.acme.entry(3).unwrap(), None);
    assert_eq!(world.acme.entry(u64::MAX).unwrap(), None);
}

fn every_tile_that_a_size_implies_is_served_and_none_besides(world: World) {
    grow(&world, 300);
    let entries = entries(&world);
    for size in [1, 2, 16, 255, 256, 257, 300u64] {
        for path in tiles_of(size) {
            let served = world.acme.tile(&path).unwrap().unwrap_or_else(|| panic!("{path} at size {size}"));
            let first = usize::try_from(path.index()).unwrap() * 256;
            match path.kind() {
                TileKind::Entries => {
                    let last = first + usize::from(path.width());
                    assert_eq!(
                        bundle::entries(&served, path.width()).unwrap(),
                        entries[first..last],
                        "{path}"
                    );
                }
                TileKind::Hashes { level: 0 } => {
                    let leaves = entries[first..first + usize::from(path.width())].iter();
                    let leaves: Vec<u8> = leaves.flat_map(|entry| *LeafHash::of(entry).as_bytes()).collect();
                    assert_eq!(served, leaves, "{path}");
                }
                TileKind::Hashes { .. } => assert_eq!(served, mth(&entries[..256]).as_bytes(), "{path}"),
            }
        }
    }
    for (kind, index, width) in [
        (TileKind::Entries, 1, 45),
        (TileKind::Entries, 2, 1),
        (TileKind::Hashes { level: 0 }, 1, 45),
        (TileKind::Hashes { level: 1 }, 0, 2),
        (TileKind::Hashes { level: 2 }, 0, 1),
        (TileKind::Hashes { level: 63 }, i64::MAX as u64, 256),
    ] {
        let path = TilePath::new(kind, index, width).unwrap();
        assert_eq!(world.acme.tile(&path).unwrap(), None, "{path}");
    }
    world.assert_sound();
}

fn an_unchanged_log_is_not_signed_twice(world: World) {
    grow(&world, 2);
    let first = world.acme.sign_checkpoint().unwrap();
    let world = world.reopened();
    assert_eq!(world.acme.sign_checkpoint().unwrap(), first);
    assert_eq!(world.acme.last_signed().unwrap(), Some(first.clone()));
    grow(&world, 3);
    let second = world.acme.sign_checkpoint().unwrap();
    assert_ne!(second, first);
    assert_eq!(opened(&world, &second).size(), 3);
}

/// Another entry at `index`, with a tree that is sound in itself.
fn rewrite(world: &World, index: u64) {
    let Entry::Seal(mut seal) = Entry::parse(&world.acme.entry(index).unwrap().unwrap()).unwrap() else {
        panic!()
    };
    seal.chain = seal.chain.link(b"another history");
    let size = world.acme.tree_size().unwrap();
    let mut rewritten = entries(world);
    rewritten[usize::try_from(index).unwrap()] = Entry::Seal(seal).encode();
    let scope = Scope::Tenant(world.acme.id().clone());
    let rebuilt = world.journal.shared().run(&Scope::Plane, 0, move |tx, _| -> Result<(), StoreError> {
        tx.delete(Space::of(&scope, Table::Log).key(&[b"size"]));
        for index in 0..size {
            tx.delete(Space::of(&scope, Table::Entries).key(&[&index.to_be_bytes()]));
        }
        rewritten.iter().try_for_each(|entry| crate::log::append_entry(tx, &scope, entry).map(drop))
    });
    rebuilt.unwrap();
}

fn a_tree_that_does_not_continue_what_was_signed_is_not_signed(world: World) {
    grow(&world, 3);
    let signed = world.acme.sign_checkpoint().unwrap();
    rewrite(&world, 1);
    let refused = world.acme.sign_checkpoint().unwrap_err();
    let CheckpointError::NotAnExtension {
        by: Remembered::Database,
        signed_size: 3,
        size: 3,
        root_there: Some(_),
        ..
    } = refused
    else {
        panic!("{refused}")
    };
    grow(&world, 4);
    assert!(world.acme.sign_checkpoint().is_err(), "not after it has grown either");
    assert_eq!(world.acme.last_signed().unwrap(), Some(signed));
}

fn a_log_that_lost_entries_is_not_signed(world: World) {
    grow(&world, 3);
    world.acme.sign_checkpoint().unwrap();
    world.plant(Table::Log, &[b"size"], Some(&2u64.to_be_bytes()));
    let refused = world.acme.sign_checkpoint().unwrap_err();
    assert!(
        matches!(refused, CheckpointError::NotAnExtension { signed_size: 3, size: 2, root_there: None, .. }),
        "{refused}"
    );
}

fn what_somebody_else_remembers_is_compared(world: World) {
    grow(&world, 3);
    world.acme.compare(2, world.acme.root_at(2).unwrap(), "witness.example").unwrap();
    let refused = world.acme.compare(2, world.acme.root_at(3).unwrap(), "witness.example").unwrap_err();
    assert!(refused.to_string().contains("witness.example"), "{refused}");
    let refused = world.acme.compare(4, world.acme.root_at(3).unwrap(), "witness.example").unwrap_err();
    assert!(matches!(refused, CheckpointError::NotAnExtension { root_there: None, .. }), "{refused}");
}

fn published_checkpoints_never_shrink_and_are_all_kept(world: World) {
    grow(&world, 1);
    let small = world.acme.sign_checkpoint().unwrap();
    grow(&world, 2);
    let large = world.acme.sign_checkpoint().unwrap();
    world.acme.publish(&small).unwrap();
    world.acme.publish(&large).unwrap();
    world.acme.publish(&large).unwrap();
    let refused = world.acme.publish(&small).unwrap_err();
    assert!(matches!(refused, PublishError::Smaller { size: 1, published: 2 }), "{refused}");
    let world = world.reopened();
    assert_eq!(world.acme.published().unwrap(), Some(large));
    assert_eq!(world.rows(Table::Published), 2);
    world.assert_sound();
}

fn only_checkpoints_of_this_log_are_published(world: World) {
    grow(&world, 2);
    let vkey = world.acme.vkey();
    let forged = SignerKey::from_seed(vkey.name().clone(), Algorithm::Ed25519, &[1; 32]);
    let root = world.acme.root_at(2).unwrap();
    let note = Checkpoint::new(world.acme.origin(), 2, root).unwrap().sign(&forged).unwrap();
    assert!(matches!(world.acme.publish(&note).unwrap_err(), PublishError::NotOurs(_)));
    let note = world.acme.sign_checkpoint().unwrap();
    rewrite(&world, 0);
    assert!(matches!(world.acme.publish(&note).unwrap_err(), PublishError::OtherTree { size: 2 }));
    assert_eq!(world.acme.published().unwrap(), None);
}

fn a_proof_holds_offline_and_says_why_there_is_none(world: World) {
    world.wrote("open", vec![note("x")]);
    grow(&world, 3);
    let first = world.acme.runs(None, 9).unwrap()[1].run.clone();
    assert!(matches!(world.acme.prove(&first).unwrap_err(), ProveError::NotCovered { size: 0, .. }));
    world.acme.sign_checkpoint().unwrap();
    world.sealed("late");
    let proof = world.acme.prove(&first).unwrap();
    let checkpoint = opened(&world, &proof.note);
    let leaf = LeafHash::of(proof.extra.as_ref().unwrap());
    inclusion::verify(proof.index, checkpoint.size(), leaf, &proof.hashes, checkpoint.root()).unwrap();
    let refused = world.acme.prove(&run("late")).unwrap_err();
    assert!(matches!(refused, ProveError::NotCovered { index: 3, size: 3, .. }), "{refused}");
    assert!(matches!(world.acme.prove(&run("open")).unwrap_err(), ProveError::NotSealed { .. }));
    assert!(matches!(world.acme.prove(&run("none")).unwrap_err(), ProveError::UnknownRun { .. }));
}

fn heads_pin_open_runs_that_grew_and_no_others(world: World) {
    world.sealed("sealed");
    world.wrote("open", vec![note("1"), note("2")]);
    assert_eq!(world.acme.pin_heads().unwrap(), 1);
    assert_eq!(world.acme.pin_heads().unwrap(), 0);
    let Entry::Head(head) = Entry::parse(&world.acme.entry(1).unwrap().unwrap()).unwrap() else { panic!() };
    assert_eq!((head.run, head.records.get()), (run("open"), 2));
    let world = world.reopened();
    world.wrote("open", vec![concluded("succeeded")]);
    world.wrote("other", vec![note("1")]);
    assert_eq!(world.acme.pin_heads().unwrap(), 2);
    world.acme.seal_once(&run("open"), "w").unwrap();
    assert_eq!(world.acme.pin_heads().unwrap(), 0);
    assert_eq!(world.acme.tree_size().unwrap(), 5);
    world.assert_sound();
    world.damage(Table::Records, &[&record_key("other", 1)], |row| row.truncate(70));
    assert!(!world.acme.check(&mut |_| {}).unwrap().is_sound());
}

fn a_publication_is_waited_for(world: World) {
    let sealed = world.sealed("r");
    let waiting = world.acme.published_queued(sealed.index);
    let beyond = world.acme.published_queued(sealed.index + 1);
    let note = world.acme.sign_checkpoint().unwrap();
    world.acme.publish(&note).unwrap();
    assert_eq!(waiting.wait().unwrap(), note);
    assert_eq!(world.acme.published_queued(sealed.index).wait().unwrap(), note);
    drop(world);
    assert!(matches!(beyond.wait().unwrap_err(), StoreError::Unanswered));
}

fn witness_sizes_are_remembered(world: World) {
    assert_eq!(world.acme.witness_size("w.example").unwrap(), None);
    world.acme.set_witness_size("w.example", 7).unwrap();
    let world = world.reopened();
    assert_eq!(world.acme.witness_size("w.example").unwrap(), Some(7));
    assert_eq!(world.acme.witness_size("other").unwrap(), None);
}

fn an_export_of_some_runs_has_their_heads(world: World) {
    let epoch = world.leased_with("r", vec![note("1")]);
    world.wrote("s", vec![note("1")]);
    assert_eq!(world.acme.pin_heads().unwrap(), 2);
    world.acme.append(&run("r"), epoch, vec![note("2")]).unwrap();
    assert_eq!(world.acme.pin_heads().unwrap(), 1);
    world.sealed("t");
    world.acme.append(&run("r"), epoch, vec![concluded("succeeded")]).unwrap();
    world.acme.seal(&run("r"), epoch).unwrap();
    let note = world.acme.sign_checkpoint().unwrap();
    world.acme.publish(&note).unwrap();
    let indexes = |runs: &[&str]| {
        let runs: Vec<_> = runs.iter().map(|name| run(name)).collect();
        let mut export = Vec::new();
        world.acme.export(Some(&runs), &mut export).unwrap();
        let lines = export.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n');
        let lines = lines.map(|line| ExportLine::parse(line).unwrap());
        lines
            .filter_map(|line| if let ExportLine::Entry(entry) = line { Some(entry.index) } else { None })
            .collect()
    };
    let of: [(&[&str], Vec<u64>); 4] =
        [(&["r"], vec![0, 2, 4]), (&["s"], vec![1]), (&["t"], vec![3]), (&["s", "r"], vec![0, 1, 2, 4])];
    for (runs, expected) in of {
        let found: Vec<u64> = indexes(runs);
        assert_eq!(found, expected, "{runs:?}");
    }
}

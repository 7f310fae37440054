//! The tenant leads every key: what is another's does not exist.

use runseal_evidence::entry::Entry;
use runseal_tlog::tile::{TileKind, TilePath};

use crate::tests::world::{
    TTL, World, admitted, case, concluded, in_case, note, outcome, run, started, suspended, tenant,
};
use crate::{AppendError, AsWritten, CancelError, LeaseError, ProveError, ReadError, SealError};

on_every_engine! {
    another_tenants_run_does_not_exist_in_any_call
    tenants_do_not_get_in_each_others_way
    a_tenant_enters_the_directory_once_with_its_first_row
    a_refused_call_enters_nobody
    each_log_has_its_own_origin_key_and_tree
}

fn another_tenants_run_does_not_exist_in_any_call(world: World) {
    let epoch =
        world.leased_with("r", vec![admitted("key", "mail"), in_case("c", started(1)), concluded("failed")]);
    world.acme.seal(&run("r"), epoch).unwrap();
    world.wrote("w", vec![suspended("2026-01-01T00:00:00Z")]);
    world.lease("w");
    world.clock.advance(60_000);
    let note_of_acme = world.acme.sign_checkpoint().unwrap();
    world.acme.publish(&note_of_acme).unwrap();

    let other = world.journal.tenant(&tenant("globex"));
    let r = run("r");
    assert_eq!(other.run(&r).unwrap(), None);
    assert!(matches!(other.renew(&run("w"), "worker", 2, TTL).unwrap_err(), LeaseError::LeaseNotHeld { .. }));
    other.release(&run("w"), 2).unwrap();
    assert!(matches!(other.read_lifted(&r, 1, 9, &AsWritten).unwrap_err(), ReadError::UnknownRun { .. }));
    assert!(matches!(other.seal_once(&r, "w").unwrap_err(), SealError::UnknownRun { .. }));
    let mut export = Vec::new();
    assert!(other.export(Some(std::slice::from_ref(&r)), &mut export).is_err());
    assert!(export.is_empty(), "{}", String::from_utf8_lossy(&export));
    let tile = TilePath::new(TileKind::Hashes { level: 0 }, 0, 1).unwrap();
    assert_eq!((other.tile(&tile).unwrap(), world.acme.tile(&tile).unwrap().is_some()), (None, true));
    assert!(other.inclusion_proof(0, 1).is_err());
    assert!(matches!(other.read(&r, 1, 9).unwrap_err(), ReadError::UnknownRun { .. }));
    assert!(matches!(other.read_unverified(&r, 1, 9).unwrap_err(), ReadError::UnknownRun { .. }));
    assert!(matches!(
        other.append(&r, epoch, vec![note("x")]).unwrap_err(),
        AppendError::LeaseNotHeld { .. }
    ));
    assert!(matches!(other.seal(&r, epoch).unwrap_err(), SealError::UnknownRun { .. }));
    assert!(matches!(other.prove(&r).unwrap_err(), ProveError::UnknownRun { .. }));
    assert!(matches!(other.request_cancel(&r, "a", "b", "c").unwrap_err(), CancelError::UnknownRun { .. }));
    assert_eq!(other.cancellation(&r).unwrap(), None);
    assert_eq!(other.admitted_as("key").unwrap(), None);
    assert_eq!(other.runs(None, 9).unwrap(), []);
    assert_eq!(other.runs_by_outcome(&outcome("failed"), 9).unwrap(), []);
    assert_eq!(other.count_by_outcome(&outcome("failed")).unwrap(), 0);
    assert_eq!(other.recent_runs(None, 9).unwrap(), []);
    assert_eq!(other.recent_runs_from("mail", None, 9).unwrap(), []);
    assert_eq!(other.waiting_runs(9).unwrap(), []);
    assert_eq!(other.abandoned_runs(9).unwrap(), []);
    assert_eq!(other.case_records(&case("c"), None, 9).unwrap(), []);
    assert_eq!(other.forget_admissions(i64::MAX).unwrap(), 0);
    assert_eq!((other.tree_size().unwrap(), other.entry(0).unwrap()), (0, None));
    assert_eq!((other.last_signed().unwrap(), other.published().unwrap()), (None, None));
    assert!(other.publish(&note_of_acme).is_err());
    assert_eq!(other.pin_heads().unwrap(), 0);
    assert_eq!(world.acme.admitted_as("key").unwrap().unwrap().run, r, "nothing of it was forgotten");
    assert_eq!(world.journal.tenants().unwrap(), [tenant("acme")]);
    assert_eq!(world.acme.abandoned_runs(9).unwrap().len(), 1, "its lease is as it was");
}

fn tenants_do_not_get_in_each_others_way(world: World) {
    let other = world.journal.tenant(&tenant("globex"));
    let batch = || vec![admitted("key", "mail"), started(1), concluded("succeeded")];
    let first = world.acme.append_once(&run("r"), "w", batch(), true).unwrap();
    let second = other.append_once(&run("r"), "w", batch(), true).unwrap();
    assert_ne!(first.0[0].hash, second.0[0].hash, "the genesis names the tenant");
    assert_eq!((first.1.unwrap().index, second.1.unwrap().index), (0, 0));
    assert_eq!(world.acme.acquire(&run("s"), "w", TTL).unwrap().epoch, 1);
    assert_eq!(other.acquire(&run("s"), "v", TTL).unwrap().epoch, 1);
    world.assert_sound();
    assert!(other.check(&mut |_| {}).unwrap().is_sound());
}

fn a_tenant_enters_the_directory_once_with_its_first_row(world: World) {
    world.wrote("r", vec![note("x")]);
    world.journal.tenant(&tenant("globex")).acquire(&run("r"), "w", TTL).unwrap();
    let world = world.reopened();
    world.wrote("r", vec![note("x")]);
    let directory = world.journal.directory();
    assert_eq!(directory.origin(), "log.example.com/plane/log/_directory");
    assert_eq!(directory.tree_size().unwrap(), 2);
    for (index, name) in [(0, "acme"), (1, "globex")] {
        let Entry::Tenant(entry) = Entry::parse(&directory.entry(index).unwrap().unwrap()).unwrap() else {
            panic!()
        };
        let log = world.journal.tenant(&tenant(name));
        assert_eq!((entry.origin(), entry.vkey().to_owned()), (log.origin(), log.vkey().to_string()));
    }
    assert_eq!(world.journal.tenants().unwrap(), [tenant("acme"), tenant("globex")]);
    let note = directory.sign_checkpoint().unwrap();
    directory.publish(&note).unwrap();
    assert_eq!(directory.published().unwrap(), Some(note));
    world.assert_sound();
}

fn a_refused_call_enters_nobody(world: World) {
    assert!(world.acme.append(&run("r"), 1, vec![note("x")]).is_err());
    assert!(world.acme.acquire(&run("r"), " ", TTL).is_err());
    world.acme.release(&run("r"), 1).unwrap();
    assert_eq!(world.journal.tenants().unwrap(), []);
    assert_eq!(world.journal.directory().tree_size().unwrap(), 0);
}

fn each_log_has_its_own_origin_key_and_tree(world: World) {
    let logs = ["default", "acme", "globex"].map(|name| world.journal.tenant(&tenant(name)));
    let origins: Vec<String> = logs.iter().map(|log| log.origin()).collect();
    let plane = "log.example.com/plane";
    assert_eq!(origins, [plane.to_owned(), format!("{plane}/log/acme"), format!("{plane}/log/globex")]);
    let mut keys: Vec<Vec<u8>> = logs.iter().map(|log| log.vkey().public_key()).collect();
    keys.push(world.journal.directory().vkey().public_key());
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 4);
    // Two empty logs still make two different checkpoints.
    let notes: Vec<String> = logs.iter().map(|log| log.sign_checkpoint().unwrap().to_string()).collect();
    assert!(notes[0] != notes[1] && notes[1] != notes[2]);
}

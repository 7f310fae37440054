//! A seal freezes a concluded run and enters the log, once, in one transaction.

use std::sync::Barrier;

use runseal_evidence::entry::Entry;
use runseal_evidence::export::RunState;

use crate::store::Table;
use crate::tests::world::{TTL, World, concluded, note, outcome, record_key, run};
use crate::{Fault, SealError};

on_every_engine! {
    a_seal_takes_its_outcome_from_the_last_record
    only_a_concluded_run_is_sealed
    sealing_again_answers_the_first_seal
    a_seal_needs_the_lease
    a_seal_and_its_entry_are_one
    positions_follow_the_order_of_seals_and_have_no_gaps
    a_damaged_record_is_caught_before_it_is_sealed
    a_run_that_does_not_exist_is_not_sealed
    of_racing_seals_one_enters_the_log
    a_run_of_several_pages_is_sealed_whole
    a_run_that_lost_its_last_records_is_not_sealed
}

fn a_seal_takes_its_outcome_from_the_last_record(world: World) {
    let epoch =
        world.leased_with("r", vec![concluded("failed"), note("tried again"), concluded("exhausted")]);
    let sealed = world.acme.seal(&run("r"), epoch).unwrap();
    let summary = world.acme.run(&run("r")).unwrap().unwrap();
    assert_eq!(sealed.outcome, outcome("exhausted"));
    assert_eq!((summary.state, summary.outcome.clone()), (RunState::Sealed, Some(outcome("exhausted"))));
    assert_eq!((sealed.records, sealed.chain), (3, summary.chain));
    let Entry::Seal(entry) = Entry::parse(&world.acme.entry(0).unwrap().unwrap()).unwrap() else { panic!() };
    assert_eq!((entry.outcome, entry.chain, entry.records.get()), (sealed.outcome, sealed.chain, 3));
}

fn only_a_concluded_run_is_sealed(world: World) {
    let epoch = world.leased_with("r", vec![concluded("failed"), note("tried again")]);
    let refused = world.acme.seal(&run("r"), epoch).unwrap_err();
    assert!(matches!(refused, SealError::NotConcluded { seq: 2, .. }), "{refused}");
    assert_eq!(world.acme.tree_size().unwrap(), 0);
    world.acme.append(&run("r"), epoch, vec![concluded("succeeded")]).unwrap();
    world.acme.seal(&run("r"), epoch).unwrap();
    world.assert_sound();
}

fn sealing_again_answers_the_first_seal(world: World) {
    let epoch = world.leased_with("r", vec![concluded("succeeded")]);
    let first = world.acme.seal(&run("r"), epoch).unwrap();
    world.sealed("s");
    let world = world.reopened();
    assert_eq!(world.acme.seal(&run("r"), epoch).unwrap(), first);
    assert_eq!(world.acme.seal_once(&run("r"), "anybody").unwrap(), first);
    assert_eq!(world.acme.tree_size().unwrap(), 2);
    assert!(world.acme.seal(&run("r"), epoch + 1).is_err(), "an epoch that was never given out");
    world.assert_sound();
}

fn a_seal_needs_the_lease(world: World) {
    world.wrote("r", vec![concluded("succeeded")]);
    let refused = world.acme.seal(&run("r"), 1).unwrap_err();
    assert!(matches!(refused, SealError::LeaseNotHeld { .. }), "{refused}");
    let epoch = world.lease("r");
    let refused = world.acme.seal_once(&run("r"), "other").unwrap_err();
    assert!(matches!(refused, SealError::Lease(_)), "{refused}");
    world.acme.seal(&run("r"), epoch).unwrap();
}

fn a_seal_and_its_entry_are_one(world: World) {
    // Something lies where the entry would go: neither the entry nor the seal is written.
    world.plant(Table::Entries, &[&0u64.to_be_bytes()], Some(b"?"));
    let epoch = world.leased_with("r", vec![concluded("succeeded")]);
    assert!(world.acme.seal(&run("r"), epoch).is_err());
    assert_eq!(world.acme.run(&run("r")).unwrap().unwrap().state, RunState::Open);
    assert_eq!(world.acme.tree_size().unwrap(), 0);
    world.acme.append(&run("r"), epoch, vec![note("still open")]).unwrap();
}

fn positions_follow_the_order_of_seals_and_have_no_gaps(world: World) {
    let indexes: Vec<u64> = ["c", "a", "b"].map(|name| world.sealed(name).index).into();
    assert_eq!(indexes, [0, 1, 2]);
    let world = world.reopened();
    let refused = world.acme.seal_once(&run("nobody"), "w");
    assert!(refused.is_err());
    assert_eq!(world.sealed("d").index, 3);
    world.assert_sound();
}

fn a_damaged_record_is_caught_before_it_is_sealed(world: World) {
    let epoch = world.leased_with("r", vec![note("one"), note("two"), concluded("succeeded")]);
    world.damage(Table::Records, &[&record_key("r", 2)], |row| *row.last_mut().unwrap() ^= 1);
    let SealError::Store(error) = world.acme.seal(&run("r"), epoch).unwrap_err() else { panic!() };
    let corruption = error.corruption().unwrap();
    assert_eq!((corruption.run.as_deref(), corruption.seq), (Some("r"), Some(2)));
    assert!(matches!(corruption.fault, Fault::Hash { .. }));
    assert_eq!(world.acme.tree_size().unwrap(), 0);
    world.acme.release(&run("r"), epoch).unwrap();
    assert!(world.acme.seal_once(&run("r"), "w").is_err());
    assert!(world.acme.append_once(&run("r"), "w", vec![concluded("failed")], true).is_err());
    assert!(
        world
            .acme
            .seal_queued(&run("r"), world.acme.acquire(&run("r"), "w", TTL).unwrap().epoch)
            .wait()
            .is_err()
    );
}

fn a_run_that_does_not_exist_is_not_sealed(world: World) {
    let epoch = world.lease("r");
    let refused = world.acme.seal(&run("r"), epoch).unwrap_err();
    assert!(matches!(refused, SealError::UnknownRun { .. }), "{refused}");
    let refused = world.acme.seal_once(&run("s"), "w").unwrap_err();
    assert!(matches!(refused, SealError::UnknownRun { .. }), "{refused}");
    assert!(world.acme.acquire(&run("s"), "w", TTL).unwrap().epoch == 1, "nothing was left behind");
}

fn of_racing_seals_one_enters_the_log(world: World) {
    for round in 0..20 {
        let name = run(&format!("r{round}"));
        let epoch = world.leased_with(name.as_str(), vec![concluded("succeeded")]);
        let barrier = Barrier::new(3);
        let sealed = std::thread::scope(|scope| {
            let racers = [0; 3].map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    world.acme.seal(&name, epoch).unwrap()
                })
            });
            racers.map(|racer| racer.join().unwrap())
        });
        assert!(sealed.iter().all(|other| *other == sealed[0]), "{sealed:?}");
        assert_eq!((sealed[0].index, world.acme.tree_size().unwrap()), (round, round + 1));
    }
    world.assert_sound();
}

fn a_run_of_several_pages_is_sealed_whole(world: World) {
    let epoch = world.leased_with("r", (0..2_500).map(|at| note(&at.to_string())).collect());
    world.acme.append(&run("r"), epoch, vec![concluded("succeeded")]).unwrap();
    let chain = world.acme.run(&run("r")).unwrap().unwrap().chain;
    let sealed = world.acme.seal(&run("r"), epoch).unwrap();
    assert_eq!((sealed.records, sealed.chain), (2_501, chain));
    world.assert_sound();
}

fn a_run_that_lost_its_last_records_is_not_sealed(world: World) {
    let epoch =
        world.leased_with("r", vec![note("1"), note("2"), note("3"), note("4"), concluded("succeeded")]);
    for seq in [4, 5] {
        world.plant(Table::Records, &[&record_key("r", seq)], None);
    }
    let SealError::Store(error) = world.acme.seal(&run("r"), epoch).unwrap_err() else { panic!() };
    let corruption = error.corruption().unwrap();
    assert_eq!((corruption.run.as_deref(), corruption.seq), (Some("r"), Some(4)));
    assert!(matches!(corruption.fault, Fault::Missing));
    assert_eq!(world.acme.tree_size().unwrap(), 0);
}

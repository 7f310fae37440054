//! What was written comes back byte for byte, and reading lifts without touching.

use runseal_evidence::json::Json;
use runseal_evidence::record::RecordDraft;

use crate::store::Table;
use crate::tests::world::{
    MASTER, NOW, TTL, World, admitted, base, concluded, in_case, note, outcome, run, started, suspended,
    tenant,
};
use crate::{
    AppendError, AsWritten, Journal, ManualClock, ReadError, RestoreError, RestoredRecord, Upcaster,
};

on_every_engine! {
    a_restored_run_has_its_bytes_hashes_and_indexes_and_a_higher_next_epoch
    bytes_of_another_place_are_refused
    a_run_is_restored_once_and_claims_are_kept
    a_plane_that_forgot_keys_is_restored_whole_in_any_order
    an_upcaster_changes_what_is_read_and_nothing_that_is_stored
    a_shape_that_the_upcaster_does_not_know_is_skew
}

fn written(world: &World, name: &str) -> Vec<RestoredRecord> {
    let records = world.acme.read(&run(name), 1, 99).unwrap();
    records
        .into_iter()
        .map(|record| RestoredRecord { raw: record.raw, signature: record.signature })
        .collect()
}

fn a_restored_run_has_its_bytes_hashes_and_indexes_and_a_higher_next_epoch(world: World) {
    world.wrote("r", vec![admitted("key", "mail"), in_case("c", note("1")), started(1)]);
    world.clock.advance(7);
    world.wrote("r", vec![concluded("failed")]);
    world.wrote("r", vec![note("again"), suspended("2027-01-01T00:00:00Z")]);
    let before = world.acme.read(&run("r"), 1, 99).unwrap();
    let summary = world.acme.run(&run("r")).unwrap();
    let other = Journal::in_memory(&base(), MASTER, std::sync::Arc::new(ManualClock::at(NOW + 999))).unwrap();
    let there = other.tenant(&tenant("acme"));
    let restored = there.restore(&run("r"), written(&world, "r"), false).unwrap();
    assert_eq!((restored.records, restored.index), (6, None));
    assert_eq!(there.read(&run("r"), 1, 99).unwrap(), before);
    assert_eq!(there.run(&run("r")).unwrap(), summary);
    assert_eq!(there.admitted_as("key").unwrap(), world.acme.admitted_as("key").unwrap());
    assert_eq!(there.waiting_runs(9).unwrap(), world.acme.waiting_runs(9).unwrap());
    assert_eq!(there.count_by_outcome(&outcome("failed")).unwrap(), 1);
    assert_eq!(there.check(&mut |_| {}).unwrap().contradiction, None);
    assert_eq!(there.acquire(&run("r"), "w", TTL).unwrap().epoch, 4);
    assert!(matches!(
        there.append(&run("r"), 4, vec![started(1)]).unwrap_err(),
        AppendError::DuplicateEffect { seq: 3, .. }
    ));
}

fn bytes_of_another_place_are_refused(world: World) {
    world.wrote("r", vec![note("1"), note("2")]);
    world.wrote("r", vec![note("3")]);
    let whole = written(&world, "r");
    let globex = world.journal.tenant(&tenant("globex"));
    let mut swapped = whole.clone();
    swapped.swap(0, 1);
    let mut epochs = whole.clone();
    let raw = String::from_utf8(epochs[2].raw.clone()).unwrap();
    epochs[2].raw = raw.replace("\"epoch\":2", "\"epoch\":0").into_bytes();
    let mut spaced = whole.clone();
    spaced[0].raw.push(b' ');
    let refusals = [
        globex.restore(&run("r"), whole.clone(), false),
        world.acme.restore(&run("s"), whole.clone(), false),
        world.acme.restore(&run("s"), swapped, false),
        world.acme.restore(&run("s"), whole[1..].to_vec(), false),
    ];
    for refused in refusals {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, RestoreError::OtherPlace { .. }), "{refused}");
    }
    world.plant(Table::Runs, &[b"r"], None);
    for seq in 1u64..=3 {
        world.plant(Table::Records, &[b"r", &[0], &seq.to_be_bytes()], None);
    }
    for (records, what) in [(epochs, "epoch"), (spaced, "spelling"), (Vec::new(), "none")] {
        assert!(world.acme.restore(&run("r"), records, false).is_err(), "{what}");
        assert_eq!(world.acme.run(&run("r")).unwrap(), None, "{what}");
    }
}

fn a_run_is_restored_once_and_claims_are_kept(world: World) {
    world.wrote("r", vec![admitted("key", "mail"), concluded("succeeded")]);
    let whole = written(&world, "r");
    let refused = world.acme.restore(&run("r"), whole.clone(), true).unwrap_err();
    assert!(matches!(refused, RestoreError::RunExists { .. }), "{refused}");
    let other = World::in_memory();
    other.wrote("s", vec![admitted("key", "mail")]);
    // Of two admissions at one time the run that is called later holds the key.
    other.acme.restore(&run("r"), whole.clone(), true).unwrap();
    assert_eq!(other.acme.admitted_as("key").unwrap().unwrap().run, run("s"));
    other.assert_sound();
    let other = World::in_memory();
    let sealed = other.acme.restore(&run("r"), whole.clone(), true).unwrap();
    assert_eq!((sealed.outcome, sealed.index), (Some(outcome("succeeded")), Some(0)));
    world.acme.seal_once(&run("r"), "w").unwrap();
    assert_eq!(other.acme.root_at(1).unwrap(), world.acme.root_at(1).unwrap(), "one history, one root");
    other.assert_sound();
    let refused = World::in_memory().acme.restore(&run("r"), whole[..1].to_vec(), true).unwrap_err();
    assert!(matches!(refused, RestoreError::Seal(_)), "{refused}");
}

fn a_plane_that_forgot_keys_is_restored_whole_in_any_order(world: World) {
    // Two keys are forgotten. One admits another run, and then, at the same time, a third.
    world.wrote("b", vec![note("1"), admitted("key", "mail")]);
    world.wrote("gone", vec![admitted("gone", "mail")]);
    world.clock.set(NOW + 10);
    assert_eq!(world.acme.forget_admissions(NOW + 10).unwrap(), 2);
    world.wrote("a", vec![admitted("key", "mail")]);
    assert_eq!(world.acme.forget_admissions(NOW + 11).unwrap(), 1);
    world.wrote("c", vec![admitted("key", "mail")]);
    let orders = ["abc", "acb", "bac", "bca", "cab", "cba"];
    for order in orders {
        let other = World::on_a_map();
        other.acme.restore(&run("gone"), written(&world, "gone"), false).unwrap();
        for name in order.chars().map(String::from) {
            other.acme.restore(&run(&name), written(&world, &name), false).unwrap();
            other.assert_sound();
        }
        assert_eq!(other.acme.admitted_as("key").unwrap(), world.acme.admitted_as("key").unwrap(), "{order}");
        let refused =
            other.acme.append_once(&run("d"), "w", vec![admitted("key", "mail")], false).unwrap_err();
        assert!(
            matches!(&refused, AppendError::DuplicateAdmission { holder, .. } if *holder == run("c")),
            "{order}: {refused}"
        );
        // What was forgotten is held again, until it is forgotten again by the same age.
        assert_eq!(other.acme.admitted_as("gone").unwrap().unwrap().run, run("gone"));
        assert_eq!((other.rows(Table::Admissions), other.rows(Table::AdmissionsByAge)), (2, 2));
        assert_eq!(other.acme.forget_admissions(NOW + 10).unwrap(), 1);
        assert_eq!(other.acme.admitted_as("gone").unwrap(), None);
        assert_eq!(other.acme.admitted_as("key").unwrap(), world.acme.admitted_as("key").unwrap(), "{order}");
        other.assert_sound();
    }
}

/// Renames a member that older code wrote as `text`.
struct Renamed;

impl Upcaster for Renamed {
    fn upcast(&self, draft: RecordDraft) -> Result<RecordDraft, String> {
        let mut members = draft.payload.object().ok_or("the payload is no object")?;
        let text = members.remove("text").ok_or("there is no text")?;
        members.members.push(("body".to_owned(), text));
        let payload = members.to_json().map_err(|error| error.to_string())?;
        Ok(RecordDraft { payload, ..draft })
    }
}

fn an_upcaster_changes_what_is_read_and_nothing_that_is_stored(world: World) {
    world.wrote("r", vec![note("hello")]);
    let stored = world.acme.read(&run("r"), 1, 9).unwrap();
    let lifted = world.acme.read_lifted(&run("r"), 1, 9, &Renamed).unwrap();
    assert_eq!(lifted[0].record.draft.payload, Json::parse(br#"{"body":"hello"}"#).unwrap());
    assert_eq!(lifted[0].stored, stored[0]);
    assert_eq!(world.acme.read(&run("r"), 1, 9).unwrap(), stored);
    let plain = world.acme.read_lifted(&run("r"), 1, 9, &AsWritten).unwrap();
    assert_eq!(plain[0].record.to_wire().unwrap(), stored[0].raw);
    world.assert_sound();
}

fn a_shape_that_the_upcaster_does_not_know_is_skew(world: World) {
    world.wrote("r", vec![note("hello"), started(1)]);
    let refused = world.acme.read_lifted(&run("r"), 1, 9, &Renamed).unwrap_err();
    assert!(matches!(refused, ReadError::Shape { seq: 2, .. }), "{refused}");
    // Damage comes first: nothing is lifted that was not verified.
    world.damage(Table::Records, &[b"r", &[0], &2u64.to_be_bytes()], |row| *row.last_mut().unwrap() ^= 1);
    let refused = world.acme.read_lifted(&run("r"), 1, 9, &Renamed).unwrap_err();
    assert!(matches!(refused, ReadError::Store(_)), "{refused}");
}

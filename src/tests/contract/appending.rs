//! Batches go in whole, in order, once, and only from who holds the run.

use std::sync::Barrier;

use runseal_evidence::chain::ChainHash;
use runseal_evidence::name::RunId;

use crate::store::Table;
use crate::tests::world::{
    NOW, TTL, World, admitted, concluded, draft, effect, in_case, note, run, started, suspended, tenant,
};
use crate::{AppendError, ImportError};

on_every_engine! {
    a_refused_batch_leaves_no_trace
    an_empty_batch_changes_and_asks_nothing
    numbers_are_contiguous_and_each_record_follows_the_last
    a_payload_is_stored_as_it_was_given
    a_record_over_the_limit_is_refused_with_both_numbers
    an_epoch_is_refused_whether_it_is_past_or_future
    nobody_appends_without_a_lease
    a_returned_lease_appends_nothing
    a_sealed_run_refuses_everyone_and_names_its_outcome
    an_effect_starts_once_in_a_run_and_again_in_another
    an_admission_key_admits_one_run_and_names_it
    a_refused_admission_leaves_its_key_free
    of_racing_admissions_one_wins
    a_run_has_one_admission_key
    admission_keys_are_forgotten_by_age_and_nothing_else_is
    a_key_is_never_forgotten_by_another_age_than_its_own
    an_admission_has_a_key_of_512_bytes_and_a_source_of_256_at_most
    racing_appends_make_one_chain
    a_payload_that_does_not_fit_its_kind_is_refused
    a_clock_beyond_the_calendar_is_refused
    an_import_takes_all_runs_or_none
    a_record_is_never_written_over
}

fn a_refused_batch_leaves_no_trace(world: World) {
    let epoch = world.lease("r");
    let batch = vec![
        admitted("key", "mail"),
        in_case("c", note("one")),
        started(1),
        suspended("2027-01-01T00:00:00Z"),
        started(1),
    ];
    let refused = world.acme.append(&run("r"), epoch, batch).unwrap_err();
    assert!(matches!(refused, AppendError::DuplicateEffect { seq: 3, .. }), "{refused}");
    for table in [
        Table::Runs,
        Table::Records,
        Table::Effects,
        Table::Admissions,
        Table::AdmissionsByAge,
        Table::Activity,
        Table::Sources,
        Table::Cases,
        Table::Waiting,
        Table::Unpinned,
        Table::Outcomes,
    ] {
        assert_eq!(world.rows(table), 0, "{table:?}");
    }
    let appended = world.acme.append(&run("r"), epoch, vec![admitted("key", "mail"), started(1)]).unwrap();
    assert_eq!(appended.iter().map(|a| a.seq).collect::<Vec<_>>(), [1, 2]);
    world.assert_sound();
}

fn an_empty_batch_changes_and_asks_nothing(world: World) {
    assert_eq!(world.acme.append(&run("r"), 99, Vec::new()).unwrap(), []);
    assert_eq!(world.acme.run(&run("r")).unwrap(), None);
    assert_eq!(world.journal.tenants().unwrap(), []);
}

fn numbers_are_contiguous_and_each_record_follows_the_last(world: World) {
    let epoch = world.leased_with("r", vec![note("1"), note("2")]);
    world.acme.append(&run("r"), epoch, vec![note("3")]).unwrap();
    let world = world.reopened();
    let appended = world.acme.append(&run("r"), epoch, vec![note("4")]).unwrap();
    let records = world.acme.read(&run("r"), 1, 10).unwrap();
    let mut before = ChainHash::genesis(&tenant("acme"), &run("r"));
    for (seq, record) in (1..).zip(&records) {
        assert_eq!((record.seq, record.prev), (seq, before));
        before = before.link(&record.raw);
        assert_eq!(record.hash, before);
    }
    assert_eq!(records.len(), 4);
    assert_eq!((appended[0].seq, appended[0].hash), (4, before));
    world.assert_sound();
}

fn a_payload_is_stored_as_it_was_given(world: World) {
    let payload = r#"{"z":1.0,"a":1e-7,"n":12345678901234567890123,"m":-0,"t":"é\u0001 ","x":null}"#;
    world.wrote("r", vec![draft("Note", payload)]);
    let raw = world.acme.read(&run("r"), 1, 1).unwrap().remove(0).raw;
    let raw = String::from_utf8(raw).unwrap();
    assert!(raw.contains(&format!("\"payload\":{payload},")), "{raw}");
}

fn a_record_over_the_limit_is_refused_with_both_numbers(world: World) {
    let epoch = world.lease("r");
    let refused =
        world.acme.append(&run("r"), epoch, vec![note("x"), note(&"x".repeat(1 << 20))]).unwrap_err();
    let AppendError::RecordTooLarge { seq: 2, bytes, limit: 1_048_576 } = refused else {
        panic!("{refused}")
    };
    assert!(bytes > 1 << 20);
    assert_eq!(world.acme.run(&run("r")).unwrap(), None);
    let room = (1 << 20) - (bytes - (1 << 20));
    world.acme.append(&run("r"), epoch, vec![note("x"), note(&"x".repeat(room))]).unwrap();
    let longest = world.acme.read(&run("r"), 2, 1).unwrap().remove(0).raw;
    assert_eq!(longest.len(), 1 << 20);
}

fn an_epoch_is_refused_whether_it_is_past_or_future(world: World) {
    let first = world.leased_with("r", vec![note("1")]);
    world.acme.release(&run("r"), first).unwrap();
    let second = world.lease("r");
    assert!(second > first);
    for held in [0, first, second + 1, u64::MAX] {
        let refused = world.acme.append(&run("r"), held, vec![note("x")]).unwrap_err();
        assert!(
            matches!(refused, AppendError::Fenced { held: found, current, .. } if found == held && current == second),
            "{refused}"
        );
    }
    assert_eq!(world.acme.run(&run("r")).unwrap().unwrap().records, 1);
}

fn nobody_appends_without_a_lease(world: World) {
    for epoch in [0, 1, 7] {
        let refused = world.acme.append(&run("r"), epoch, vec![note("x")]).unwrap_err();
        assert!(matches!(refused, AppendError::LeaseNotHeld { .. }), "{refused}");
    }
    // A run that lost its lease row is leased by nobody either, whatever its records say.
    let epoch = world.leased_with("s", vec![note("1")]);
    world.plant(Table::Expiries, &[&crate::store::key::time_key(NOW + 30_000), b"s"], None);
    world.plant(Table::Leases, &[b"s"], None);
    let refused = world.acme.append(&run("s"), epoch, vec![note("x")]).unwrap_err();
    assert!(matches!(refused, AppendError::LeaseNotHeld { .. }), "{refused}");
}

fn a_returned_lease_appends_nothing(world: World) {
    let epoch = world.leased_with("r", vec![note("1")]);
    world.acme.release(&run("r"), epoch).unwrap();
    let refused = world.acme.append(&run("r"), epoch, vec![note("x")]).unwrap_err();
    assert!(matches!(refused, AppendError::LeaseNotHeld { .. }), "{refused}");
}

fn a_sealed_run_refuses_everyone_and_names_its_outcome(world: World) {
    let epoch = world.leased_with("r", vec![concluded("abandoned")]);
    world.acme.seal(&run("r"), epoch).unwrap();
    let refused = world.acme.append(&run("r"), epoch, vec![note("x")]).unwrap_err();
    assert!(
        matches!(&refused, AppendError::RunSealed { outcome, .. } if outcome.as_str() == "abandoned"),
        "{refused}"
    );
    let refused = world.acme.append_once(&run("r"), "other", vec![note("x")], false).unwrap_err();
    assert!(
        matches!(&refused, AppendError::RunSealed { outcome, .. } if outcome.as_str() == "abandoned"),
        "{refused}"
    );
    assert!(world.acme.append(&run("r"), epoch + 1, vec![note("x")]).is_err());
    assert_eq!(world.acme.run(&run("r")).unwrap().unwrap().records, 1);
}

fn an_effect_starts_once_in_a_run_and_again_in_another(world: World) {
    let epoch = world.leased_with("r", vec![note("1"), started(1)]);
    let world = world.reopened();
    let refused = world.acme.append(&run("r"), epoch, vec![started(2), started(1)]).unwrap_err();
    assert!(
        matches!(&refused, AppendError::DuplicateEffect { effect: found, seq: 2, .. } if *found == effect(1)),
        "{refused}"
    );
    world.acme.append(&run("r"), epoch, vec![started(2)]).unwrap();
    world.wrote("s", vec![started(1)]);
    world.assert_sound();
}

fn an_admission_key_admits_one_run_and_names_it(world: World) {
    world.wrote("r", vec![admitted("key", "mail")]);
    let world = world.reopened();
    let refused = world.acme.append_once(&run("s"), "w", vec![admitted("key", "mail")], false).unwrap_err();
    assert!(
        matches!(&refused, AppendError::DuplicateAdmission { key, holder } if key == "key" && *holder == run("r")),
        "{refused}"
    );
    assert_eq!(world.acme.admitted_as("key").unwrap().unwrap().run, run("r"));
    assert_eq!(world.acme.admitted_as("other").unwrap(), None);
    assert_eq!(world.acme.run(&run("s")).unwrap(), None);
    world.assert_sound();
}

fn a_refused_admission_leaves_its_key_free(world: World) {
    let epoch = world.lease("r");
    let long = note(&"x".repeat(1 << 20));
    assert!(world.acme.append(&run("r"), epoch, vec![admitted("key", "mail"), long]).is_err());
    assert!(world.acme.append(&run("r"), epoch + 1, vec![admitted("key", "mail")]).is_err());
    assert_eq!(world.acme.admitted_as("key").unwrap(), None);
    world.wrote("s", vec![admitted("key", "mail")]);
    assert_eq!(world.acme.admitted_as("key").unwrap().unwrap().run, run("s"));
}

fn of_racing_admissions_one_wins(world: World) {
    let barrier = Barrier::new(8);
    let results: Vec<_> = std::thread::scope(|scope| {
        let race = |number: usize| {
            let (world, barrier) = (&world, &barrier);
            scope.spawn(move || {
                let name = run(&format!("r{number}"));
                barrier.wait();
                world.acme.append_once(&name, "w", vec![admitted("key", "mail")], false).map(|_| name)
            })
        };
        let threads: Vec<_> = (0..8).map(race).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let winners: Vec<RunId> = results.iter().filter_map(|result| result.as_ref().ok().cloned()).collect();
    assert_eq!(winners.len(), 1);
    assert_eq!(world.acme.admitted_as("key").unwrap().unwrap().run, winners[0]);
    for refused in results.iter().filter_map(|result| result.as_ref().err()) {
        assert!(matches!(refused, AppendError::DuplicateAdmission { holder, .. } if *holder == winners[0]));
    }
    world.assert_sound();
}

fn a_run_has_one_admission_key(world: World) {
    let epoch = world.leased_with("r", vec![admitted("key", "mail")]);
    let refused = world.acme.append(&run("r"), epoch, vec![admitted("other", "mail")]).unwrap_err();
    assert!(matches!(refused, AppendError::AdmittedBefore { .. }), "{refused}");
    assert_eq!(world.acme.admitted_as("other").unwrap(), None);
    let refused = world.acme.append(&run("r"), epoch, vec![admitted("key", "mail")]).unwrap_err();
    assert!(matches!(refused, AppendError::DuplicateAdmission { .. }), "{refused}");
}

fn admission_keys_are_forgotten_by_age_and_nothing_else_is(world: World) {
    // The highest character there is, which a made-up upper bound would miss.
    for (at, name, key) in [(0, "a", "\u{10ffff}\u{10ffff}"), (10, "b", "b"), (20, "c", "c")] {
        world.clock.set(NOW + at);
        world.wrote(name, vec![admitted(key, "mail")]);
    }
    let cutoff = NOW + 10;
    assert_eq!(world.acme.forget_admissions(cutoff).unwrap(), 1, "the cutoff itself is kept");
    assert_eq!(world.acme.forget_admissions(cutoff).unwrap(), 0);
    assert_eq!(world.acme.admitted_as("\u{10ffff}\u{10ffff}").unwrap(), None);
    assert_eq!(world.acme.admitted_as("b").unwrap().unwrap().run, run("b"));
    assert_eq!(world.acme.read(&run("a"), 1, 9).unwrap().len(), 1);
    world.wrote("d", vec![admitted("\u{10ffff}\u{10ffff}", "mail")]);
    world.assert_sound();
}

fn a_key_is_never_forgotten_by_another_age_than_its_own(world: World) {
    use crate::store::key::time_key;
    world.wrote("r", vec![admitted("key", "mail")]);
    let held = world.acme.admitted_as("key").unwrap();
    for key in ["key", "ghost"] {
        let early = time_key(NOW - 100);
        world.plant(Table::AdmissionsByAge, &[&early, key.as_bytes()], Some(b""));
        let refused = world.acme.forget_admissions(NOW).unwrap_err();
        assert_eq!(refused.corruption().unwrap().noun, "admission by age", "{key}: {refused}");
        assert_eq!(world.acme.admitted_as("key").unwrap(), held);
        world.plant(Table::AdmissionsByAge, &[&early, key.as_bytes()], None);
    }
    assert_eq!(world.acme.forget_admissions(NOW).unwrap(), 0);
    assert_eq!(world.acme.forget_admissions(NOW + 1).unwrap(), 1);
}

fn an_admission_has_a_key_of_512_bytes_and_a_source_of_256_at_most(world: World) {
    let epoch = world.lease("r");
    let text = |bytes: usize| "x".repeat(bytes);
    for (key, source) in [(513, 256), (512, 257)] {
        let long = admitted(&text(key), &text(source));
        let refused = world.acme.append(&run("r"), epoch, vec![long]).unwrap_err();
        assert!(matches!(refused, AppendError::Payload(_)), "{key} {source}: {refused}");
    }
    world.acme.append(&run("r"), epoch, vec![admitted(&text(512), &text(256))]).unwrap();
    assert_eq!(world.acme.admitted_as(&text(512)).unwrap().unwrap().run, run("r"));
    assert_eq!(world.acme.recent_runs_from(&text(256), None, 9).unwrap().len(), 1);
    world.assert_sound();
}

fn racing_appends_make_one_chain(world: World) {
    let epoch = world.lease("r");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let world = &world;
            scope.spawn(move || {
                for number in 0..25 {
                    world.acme.append(&run("r"), epoch, vec![note(&format!("{thread} {number}"))]).unwrap();
                }
            });
        }
    });
    assert_eq!(world.acme.read(&run("r"), 1, 1000).unwrap().len(), 200);
    world.assert_sound();
}

fn a_payload_that_does_not_fit_its_kind_is_refused(world: World) {
    let epoch = world.lease("r");
    for (kind, payload) in [
        ("RunConcluded", "{}"),
        ("RunConcluded", r#"{"outcome":""}"#),
        ("RunConcluded", r#"{"outcome":"a\u0007b"}"#),
        ("RunConcluded", "[]"),
        ("RunSuspended", r#"{"until":"tomorrow"}"#),
        ("RunAdmitted", r#"{"admission_key":""}"#),
        ("RunAdmitted", r#"{"admission_key":7}"#),
    ] {
        let refused = world.acme.append(&run("r"), epoch, vec![draft(kind, payload)]).unwrap_err();
        assert!(matches!(refused, AppendError::Payload(_)), "{kind} {payload}: {refused}");
    }
}

fn a_clock_beyond_the_calendar_is_refused(world: World) {
    let epoch = world.lease("r");
    world.clock.set(i64::MAX);
    let refused = world.acme.append(&run("r"), epoch, vec![note("x")]).unwrap_err();
    assert!(matches!(refused, AppendError::Clock(_)), "{refused}");
}

fn an_import_takes_all_runs_or_none(world: World) {
    let fine = || (run("a"), vec![admitted("k", "file"), concluded("succeeded")], true);
    let bad = (run("b"), vec![note("1"), draft("RunConcluded", "{}")], false);
    let refused = world.acme.import_all(vec![fine(), bad]).unwrap_err();
    assert!(matches!(&refused, ImportError::Run { run: found, .. } if *found == run("b")), "{refused}");
    assert_eq!(world.acme.runs(None, 9).unwrap(), []);
    assert_eq!(world.acme.tree_size().unwrap(), 0);
    let imported = world.acme.import_all(vec![fine(), (run("b"), vec![note("1")], false)]).unwrap();
    assert_eq!(
        imported.iter().map(|run| (run.records, run.index)).collect::<Vec<_>>(),
        [(2, Some(0)), (1, None)]
    );
    let refused = world.acme.import(&run("b"), vec![note("1")], false).unwrap_err();
    assert!(matches!(refused, AppendError::RunExists { .. }), "{refused}");
    assert_eq!(world.acme.acquire(&run("b"), "w", TTL).unwrap().epoch, 2);
    world.assert_sound();
}

fn a_record_is_never_written_over(world: World) {
    let epoch = world.leased_with("r", vec![note("1"), note("2")]);
    world.plant(Table::Runs, &[b"r"], None);
    let refused = world.acme.append(&run("r"), epoch, vec![note("x")]).unwrap_err();
    let AppendError::Store(error) = &refused else { panic!("{refused}") };
    assert_eq!(error.corruption().unwrap().seq, Some(1));
}

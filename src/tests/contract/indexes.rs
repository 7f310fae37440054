//! Listings say what the records say, in a stated order, bounded, and skip nothing.

use crate::index::{ActivityCursor, CaseRecord};
use crate::store::Table;
use crate::tests::world::{
    NOW, TTL, World, admitted, case, concluded, in_case, note, outcome, run, started, suspended,
};
use crate::{CancelError, StoreError};

on_every_engine! {
    a_run_is_listed_under_its_last_conclusion_alone
    an_outcome_lists_its_newest_first_and_counts_all
    waiting_runs_follow_the_last_record_and_come_soonest_first
    abandoned_runs_come_oldest_expiry_first_without_returned_and_live_ones
    recent_runs_are_totally_ordered_and_paged_without_gaps
    runs_by_id_are_seen_once_while_others_are_written
    a_source_lists_its_own_runs_and_is_never_forgotten
    a_case_lists_records_of_every_run_that_touches_it
    the_first_request_to_stop_stays
    each_text_of_a_request_to_stop_has_1024_bytes_at_most
    a_stored_id_that_is_none_is_corruption_in_every_listing
    a_row_that_no_run_accounts_for_is_corruption_in_every_listing
    a_page_of_nothing_and_an_inverted_cursor_are_empty
}

fn names(runs: &[crate::RunSummary]) -> Vec<&str> {
    runs.iter().map(|summary| summary.run.as_str()).collect()
}

fn a_run_is_listed_under_its_last_conclusion_alone(world: World) {
    world.wrote("r", vec![concluded("failed")]);
    world.wrote("r", vec![note("again"), concluded("exhausted"), concluded("succeeded")]);
    let world = world.reopened();
    for (name, count) in [("failed", 0), ("exhausted", 0), ("succeeded", 1)] {
        let listed = world.acme.runs_by_outcome(&outcome(name), 9).unwrap();
        assert_eq!(
            (listed.len(), world.acme.count_by_outcome(&outcome(name)).unwrap()),
            (count, count as u64),
            "{name}"
        );
    }
    assert_eq!(world.acme.run(&run("r")).unwrap().unwrap().outcome, Some(outcome("succeeded")));
    world.assert_sound();
}

fn an_outcome_lists_its_newest_first_and_counts_all(world: World) {
    for name in ["c", "a", "b", "d"] {
        world.wrote(name, vec![concluded("failed")]);
    }
    // Concluded anew, the oldest becomes the newest.
    world.wrote("c", vec![concluded("failed")]);
    world.wrote("e", vec![concluded("fail")]);
    let failed = outcome("failed");
    assert_eq!(names(&world.acme.runs_by_outcome(&failed, 9).unwrap()), ["c", "d", "b", "a"]);
    assert_eq!(names(&world.acme.runs_by_outcome(&failed, 2).unwrap()), ["c", "d"]);
    assert_eq!(world.acme.count_by_outcome(&failed).unwrap(), 4);
    assert_eq!(names(&world.acme.runs_by_outcome(&outcome("fail"), 9).unwrap()), ["e"]);
    world.assert_sound();
}

fn waiting_runs_follow_the_last_record_and_come_soonest_first(world: World) {
    world.wrote("late", vec![suspended("2027-01-01T00:00:00Z")]);
    world.wrote("soon", vec![suspended("2026-12-01T00:00:00.500Z"), suspended("2026-12-02T00:00:00Z")]);
    world.wrote("whenever", vec![crate::tests::world::draft("RunSuspended", "{}")]);
    world.wrote("past", vec![suspended("1969-12-31T23:59:59Z")]);
    world.wrote("resumed", vec![suspended("2026-11-01T00:00:00Z"), note("on it")]);
    world.wrote("done", vec![suspended("2026-11-01T00:00:00Z")]);
    world.wrote("done", vec![concluded("succeeded")]);
    let world = world.reopened();
    let waiting = world.acme.waiting_runs(9).unwrap();
    let listed: Vec<_> = waiting.iter().map(|waiting| (waiting.run.as_str(), waiting.until_ms)).collect();
    let at = |days: i64| Some(days * 86_400_000);
    let expected = [("past", Some(-1000)), ("soon", at(20_789)), ("late", at(20_819)), ("whenever", None)];
    assert_eq!(listed, expected);
    assert_eq!(waiting[1].reason.as_ref().unwrap().as_str(), "\"mail\"");
    assert_eq!(world.acme.waiting_runs(1).unwrap().len(), 1);
    world.assert_sound();
}

fn abandoned_runs_come_oldest_expiry_first_without_returned_and_live_ones(world: World) {
    for (name, seconds) in [("b", 20), ("a", 30), ("c", 10), ("live", 1000)] {
        let ttl = std::time::Duration::from_secs(seconds);
        world.acme.acquire(&run(name), "worker", ttl).unwrap();
    }
    let returned = world.lease("returned");
    world.acme.release(&run("returned"), returned).unwrap();
    world.clock.advance(30_000);
    let world = world.reopened();
    let abandoned = world.acme.abandoned_runs(9).unwrap();
    let listed: Vec<_> = abandoned.iter().map(|run| (run.run.as_str(), run.expired_at_ms - NOW)).collect();
    assert_eq!(listed, [("c", 10_000), ("b", 20_000), ("a", 30_000)]);
    assert_eq!((abandoned[0].owner.as_str(), abandoned[0].epoch), ("worker", 1));
    assert_eq!(world.acme.abandoned_runs(1).unwrap().len(), 1);
    world.acme.acquire(&run("c"), "other", TTL).unwrap();
    assert_eq!(world.acme.abandoned_runs(9).unwrap().len(), 2);
    world.assert_sound();
}

fn recent_runs_are_totally_ordered_and_paged_without_gaps(world: World) {
    for name in ["a", "b", "c", "d"] {
        world.wrote(name, vec![note("x")]);
    }
    world.clock.advance(1);
    world.wrote("b", vec![note("x")]);
    world.clock.advance(-2);
    world.wrote("e", vec![note("x")]);
    let mut seen = Vec::new();
    let mut cursor: Option<ActivityCursor> = None;
    loop {
        let page = world.acme.recent_runs(cursor.as_ref(), 2).unwrap();
        let Some(last) = page.last() else { break };
        cursor = Some(last.clone());
        seen.extend(page.into_iter().map(|item| item.run.to_string()));
    }
    assert_eq!(seen, ["b", "d", "c", "a", "e"]);
    world.assert_sound();
}

fn runs_by_id_are_seen_once_while_others_are_written(world: World) {
    for name in ["b", "d", "f"] {
        world.wrote(name, vec![note("x")]);
    }
    let first = world.acme.runs(None, 2).unwrap();
    assert_eq!(names(&first), ["b", "d"]);
    world.wrote("b", vec![note("x")]);
    world.wrote("a", vec![note("x")]);
    world.wrote("e", vec![note("x")]);
    let rest = world.acme.runs(Some(&run("d")), 9).unwrap();
    assert_eq!(names(&rest), ["e", "f"]);
    assert_eq!(names(&world.acme.runs(Some(&run("f")), 9).unwrap()), Vec::<&str>::new());
}

fn a_source_lists_its_own_runs_and_is_never_forgotten(world: World) {
    world.wrote("a", vec![admitted("1", "mail")]);
    world.wrote("b", vec![admitted("2", "mailbox")]);
    world.clock.advance(5);
    world.wrote("c", vec![admitted("3", "mail")]);
    world.wrote("d", vec![note("of nobody")]);
    world.clock.advance(5);
    world.wrote("a", vec![note("later"), concluded("succeeded")]);
    let listed = |source: &str| {
        let runs = world.acme.recent_runs_from(source, None, 9).unwrap();
        runs.into_iter().map(|item| item.run.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listed("mail"), ["a", "c"]);
    assert_eq!(listed("mailbox"), ["b"]);
    assert_eq!(listed("mai"), Vec::<String>::new());
    let first = world.acme.recent_runs_from("mail", None, 1).unwrap();
    let rest = world.acme.recent_runs_from("mail", Some(&first[0]), 9).unwrap();
    assert_eq!(rest[0].run, run("c"));
    world.assert_sound();
}

fn a_case_lists_records_of_every_run_that_touches_it(world: World) {
    world.wrote("b", vec![in_case("c-1", note("1")), note("2"), in_case("c-1", started(3))]);
    world.wrote("a", vec![in_case("c-1", note("1")), in_case("c-2", note("2"))]);
    let listed = |after: Option<&CaseRecord>, limit| {
        let records = world.acme.case_records(&case("c-1"), after, limit).unwrap();
        records.into_iter().map(|record| (record.run.to_string(), record.seq)).collect::<Vec<_>>()
    };
    let all = [("a".to_owned(), 1), ("b".to_owned(), 1), ("b".to_owned(), 3)];
    assert_eq!(listed(None, 9), all);
    assert_eq!(listed(None, 2), all[..2]);
    assert_eq!(listed(Some(&CaseRecord { run: run("b"), seq: 1 }), 9), all[2..]);
    assert_eq!(world.acme.case_records(&case("c"), None, 9).unwrap(), []);
    world.assert_sound();
}

fn the_first_request_to_stop_stays(world: World) {
    let refused = world.acme.request_cancel(&run("r"), "ann", "token", "late").unwrap_err();
    assert!(matches!(refused, CancelError::UnknownRun { .. }), "{refused}");
    let epoch = world.leased_with("r", vec![note("x")]);
    assert!(world.acme.request_cancel(&run("r"), "ann", "token", "late").unwrap(), "no lease is needed");
    assert!(!world.acme.request_cancel(&run("r"), "bob", "file", "wrong").unwrap());
    let world = world.reopened();
    let noted = world.acme.cancellation(&run("r")).unwrap().unwrap();
    assert_eq!((noted.actor.as_str(), noted.basis.as_str(), noted.reason.as_str()), ("ann", "token", "late"));
    assert_eq!(noted.requested_ms, NOW);
    assert_eq!(world.acme.run(&run("r")).unwrap().unwrap().records, 1, "beside the chain");
    assert!(matches!(
        world.acme.request_cancel(&run("r"), " ", "", "").unwrap_err(),
        CancelError::BlankActor
    ));
    world.acme.append(&run("r"), epoch, vec![concluded("cancelled")]).unwrap();
    world.acme.seal(&run("r"), epoch).unwrap();
    let refused = world.acme.request_cancel(&run("r"), "ann", "token", "late").unwrap_err();
    assert!(matches!(refused, CancelError::RunSealed { .. }), "{refused}");
    world.assert_sound();
}

fn each_text_of_a_request_to_stop_has_1024_bytes_at_most(world: World) {
    world.wrote("r", vec![note("x")]);
    let (longest, long) = ("x".repeat(1024), "x".repeat(1025));
    let texts = |at: usize| [0, 1, 2].map(|other| if other == at { long.as_str() } else { longest.as_str() });
    for (at, name) in ["actor", "basis", "reason"].into_iter().enumerate() {
        let [actor, basis, reason] = texts(at);
        let refused = world.acme.request_cancel(&run("r"), actor, basis, reason).unwrap_err();
        assert!(
            matches!(refused, CancelError::TooLong { field, bytes: 1025 } if field == name),
            "{name}: {refused}"
        );
    }
    assert_eq!(world.acme.cancellation(&run("r")).unwrap(), None);
    assert!(world.acme.request_cancel(&run("r"), &longest, &longest, &longest).unwrap());
    assert_eq!(world.acme.cancellation(&run("r")).unwrap().unwrap().reason, longest);
    world.assert_sound();
}

fn a_stored_id_that_is_none_is_corruption_in_every_listing(world: World) {
    use crate::store::key::time_key;
    world.wrote("r", vec![note("x")]);
    let bad = b"Not An Id";
    let time = time_key(NOW - 1);
    let zero = 0u64.to_be_bytes();
    world.plant(Table::Runs, &[bad], Some(b"?"));
    world.plant(Table::Activity, &[&time, bad], Some(&[]));
    world.plant(Table::Sources, &[b"mail", &[0], &time, bad], Some(&[]));
    world.plant(Table::Waiting, &[&[1], bad], Some(&[]));
    world.plant(Table::Expiries, &[&time, bad], Some(&[]));
    world.plant(Table::Outcomes, &[b"failed", &[0], &zero], Some(bad));
    world.plant(Table::Cases, &[b"c", &[0], bad, &[0], &zero], Some(&[]));
    let row = [&NOW.to_be_bytes()[..], &9u32.to_le_bytes(), bad].concat();
    world.plant(Table::Admissions, &[b"key"], Some(&row));
    let acme = &world.acme;
    let faults: [(&str, Option<StoreError>); 8] = [
        ("runs", acme.runs(None, 9).err()),
        ("recent", acme.recent_runs(None, 9).err()),
        ("source", acme.recent_runs_from("mail", None, 9).err()),
        ("waiting", acme.waiting_runs(9).err()),
        ("abandoned", acme.abandoned_runs(9).err()),
        ("outcome", acme.runs_by_outcome(&outcome("failed"), 9).err()),
        ("case", acme.case_records(&case("c"), None, 9).err()),
        ("admission", acme.admitted_as("key").err()),
    ];
    for (listing, fault) in faults {
        let fault = fault.unwrap_or_else(|| panic!("{listing} passed the id over"));
        let corruption = fault.corruption().unwrap_or_else(|| panic!("{listing}: {fault}"));
        assert_eq!(corruption.run.as_deref(), Some("Not An Id"), "{listing}");
        assert_eq!(corruption.tenant, "acme", "{listing}");
    }
}

/// A row: its table, the parts of its key, and its value.
type Row<'r> = (Table, &'r [&'r [u8]], &'r [u8]);

fn a_row_that_no_run_accounts_for_is_corruption_in_every_listing(world: World) {
    use crate::store::key::time_key;
    world.wrote("r", vec![admitted("key", "mail"), concluded("failed")]);
    let (ordinal, early, late) = (9u64.to_be_bytes(), time_key(NOW - 1), time_key(NOW + 1));
    // Of a run that is not there, and of one that is, elsewhere.
    for name in [&b"ghost"[..], b"r"] {
        let waits: [&[&[u8]]; 2] = [&[&[1], name], &[&[0], &early, name]];
        let rows: [Row<'_>; 6] = [
            (Table::Activity, &[&late, name], b""),
            (Table::Sources, &[b"mail", &[0], &late, name], b""),
            (Table::Sources, &[b"phone", &[0], &time_key(NOW), name], b""),
            (Table::Waiting, waits[0], b""),
            (Table::Waiting, waits[1], b""),
            (Table::Outcomes, &[b"succeeded", &[0], &ordinal], name),
        ];
        for (table, key, value) in rows {
            world.plant(table, key, Some(value));
            let acme = &world.acme;
            let faults: Vec<StoreError> = [
                acme.recent_runs(None, 9).err(),
                acme.recent_runs_from("mail", None, 9).err(),
                acme.recent_runs_from("phone", None, 9).err(),
                acme.waiting_runs(9).err(),
                acme.runs_by_outcome(&outcome("succeeded"), 9).err(),
            ]
            .into_iter()
            .flatten()
            .collect();
            let [fault] = faults.as_slice() else { panic!("{table:?}: {faults:?}") };
            let corruption = fault.corruption().unwrap();
            assert_eq!(corruption.run.as_deref().map(str::as_bytes), Some(name), "{table:?}");
            world.plant(table, key, None);
        }
    }
    world.assert_sound();
}

fn a_page_of_nothing_and_an_inverted_cursor_are_empty(world: World) {
    for name in ["a", "b"] {
        world.wrote(name, vec![in_case("c", concluded("failed"))]);
    }
    assert_eq!(world.acme.runs(None, 0).unwrap(), []);
    assert_eq!(world.acme.recent_runs(None, 0).unwrap(), []);
    assert_eq!(world.acme.runs_by_outcome(&outcome("failed"), 0).unwrap(), []);
    assert_eq!(world.acme.read(&run("a"), 1, 0).unwrap(), []);
    assert_eq!(world.acme.runs(Some(&run("zzz")), 9).unwrap(), []);
    assert_eq!(world.acme.read(&run("a"), 2, 9).unwrap(), []);
    assert_eq!(world.acme.read(&run("a"), u64::MAX, 9).unwrap(), []);
    let before_all = ActivityCursor { updated_ms: i64::MIN, run: run("a") };
    assert_eq!(world.acme.recent_runs(Some(&before_all), 9).unwrap(), []);
}

//! The full check: every row that is changed, missing or too many is found and located.

use super::world::{
    NOW, World, admitted, claim, concluded, in_case, note, record_key, run, started, suspended,
};
use crate::Fault;
use crate::store::key::time_key;
use crate::store::{Direction, Scanned, Scope, Space, Table};

/// A journal with a row in every table of a tenant.
fn full() -> World {
    let world = World::on_a_map();
    for number in 0..3 {
        world.sealed(&format!("s{number}"));
    }
    world.wrote("r", vec![admitted("key", "mail"), in_case("c", note("1")), started(1)]);
    assert_eq!(world.acme.pin_heads().unwrap(), 1);
    world.wrote("r", vec![concluded("failed"), suspended("2027-01-01T00:00:00Z")]);
    world.wrote("w", vec![note("1"), suspended("2027-01-01T00:00:00Z")]);
    world.lease("r");
    world.acme.request_cancel(&run("r"), "ann", "test", "late").unwrap();
    let signed = world.acme.sign_checkpoint().unwrap();
    world.acme.publish(&signed).unwrap();
    world.acme.set_witness_size("w.example", 1).unwrap();
    world.assert_sound();
    world
}

const CHECKED: [Table; 22] = [
    Table::Runs,
    Table::Records,
    Table::Effects,
    Table::Leases,
    Table::Expiries,
    Table::Cancellations,
    Table::Unpinned,
    Table::Heads,
    Table::Admissions,
    Table::AdmissionsByAge,
    Table::Outcomes,
    Table::OutcomeCounts,
    Table::Waiting,
    Table::Activity,
    Table::Sources,
    Table::Cases,
    Table::Counters,
    Table::Log,
    Table::Entries,
    Table::Tiles,
    Table::Published,
    Table::Witnesses,
];

fn keys(world: &World, table: Table) -> Vec<Vec<u8>> {
    let space = Space::of(&Scope::Tenant(world.acme.id().clone()), table);
    let mut keys = Vec::new();
    let snapshot = world.journal.shared().snapshot().unwrap();
    snapshot
        .scan(&space.all(), Direction::Ascending, &mut |key, _| {
            keys.push(space.own(key).to_vec());
            Scanned::Continue(())
        })
        .unwrap();
    keys
}

fn is_found(world: &World) -> bool {
    world.acme.check(&mut |_| {}).unwrap().contradiction.is_some()
}

#[test]
fn every_missing_row_is_found() {
    for table in CHECKED {
        let world = full();
        let rows = keys(&world, table);
        assert!(!rows.is_empty(), "{table:?} has no row to lose");
        for key in rows {
            let world = full();
            world.plant(table, &[&key], None);
            let name = String::from_utf8_lossy(&key).into_owned();
            // What nothing else accounts for: the memory of a request, of a key, of a note, of an unpublished
            // or unsigned checkpoint, and a lease that was returned.
            let unaccounted = matches!(table, Table::Cancellations | Table::Published | Table::Witnesses)
                || (table == Table::Log && name != "size")
                || (table == Table::Counters && name == "published")
                || (table == Table::Leases && name != "r");
            assert_eq!(is_found(&world), !unaccounted, "{table:?} {name:?} deleted");
        }
    }
}

#[test]
fn every_changed_byte_is_found() {
    for table in CHECKED {
        for key in keys(&full(), table) {
            let length = {
                let world = full();
                let space = Space::of(&Scope::Tenant(world.acme.id().clone()), table);
                world.journal.shared().snapshot().unwrap().get(&space.key(&[&key])).unwrap().unwrap().len()
            };
            // A few places in each value; all of them in short ones.
            for at in (0..length).step_by(1 + length / 12) {
                let world = full();
                world.damage(table, &[&key], move |value| value[at] ^= 0x11);
                let name = String::from_utf8_lossy(&key).into_owned();
                // What the journal cannot know better: when and why somebody asked, who holds which lease until
                // when, and numbers that are only ever to be passed.
                let free = matches!(table, Table::Cancellations)
                    || (table == Table::Leases && (name != "r" || !(8..16).contains(&at)))
                    || table == Table::Counters;
                assert!(free || is_found(&world), "{table:?} {name:?} byte {at} of {length} changed");
            }
        }
    }
}

/// Table, parts of the key, value.
type Row<'a> = (Table, Vec<&'a [u8]>, &'a [u8]);

#[test]
fn every_row_too_many_is_found() {
    let seq = 1u64.to_be_bytes();
    let far = 999u64.to_be_bytes();
    let (time, epoch) = (time_key(NOW), time_key(0));
    let held = claim("r", NOW);
    let rows: [Row<'_>; 18] = [
        (Table::Runs, vec![b"ghost"], b"?"),
        (Table::Records, vec![b"ghost", &[0], &seq], b"?"),
        (Table::Records, vec![b"r", &[0], &far], b"?"),
        (Table::Effects, vec![b"r", &[0], b"ghost"], &seq),
        (Table::Leases, vec![b"ghost"], b"?"),
        (Table::Expiries, vec![&time, b"ghost"], b""),
        (Table::Cancellations, vec![b"ghost"], b"?"),
        (Table::Unpinned, vec![b"s1"], b""),
        (Table::Heads, vec![b"r", &[0], &far], b""),
        (Table::Admissions, vec![b"ghost"], &held),
        (Table::AdmissionsByAge, vec![&time, b"ghost"], b""),
        (Table::Outcomes, vec![b"failed", &[0], &far], b"r"),
        (Table::OutcomeCounts, vec![b"ghost"], &seq),
        (Table::Waiting, vec![&[1], b"s1"], b""),
        (Table::Activity, vec![&epoch, b"r"], b""),
        (Table::Sources, vec![b"mail", &[0], &epoch, b"r"], b""),
        (Table::Entries, vec![&far], b"?"),
        (Table::Tiles, vec![&[3], &seq], b"?"),
    ];
    for (table, key, value) in rows {
        let world = full();
        world.plant(table, &key, Some(value));
        assert!(is_found(&world), "{table:?} {:?} planted", String::from_utf8_lossy(&key.concat()));
    }
}

#[test]
fn a_claim_is_of_the_run_that_its_key_admitted() {
    /// Rows of claims, and of claims by age; the noun and the run of what is found.
    type Wrong<'a> = (&'a [Row<'a>], &'a [Row<'a>], Option<(&'a str, &'a str)>);
    type Row<'a> = (&'a str, Option<(&'a str, i64)>);
    let wrong: [Wrong<'_>; 7] = [
        // Of another run, which has a key of its own; of a run that was not admitted; and of none.
        (&[("key", Some(("s", NOW)))], &[], Some(("admission", "r"))),
        (&[("key", Some(("w", NOW)))], &[], Some(("admission", "r"))),
        (&[("key", Some(("ghost", NOW)))], &[], Some(("admission", "r"))),
        // Of a key that admitted nobody, also where it is filed by age.
        (&[("ghost", Some(("r", NOW)))], &[("ghost", Some(("", NOW)))], Some(("admission", "r"))),
        // Of another time, also where it is filed by that.
        (&[("key", Some(("r", 7)))], &[("key", None), ("key", Some(("", 7)))], Some(("admission", "r"))),
        // Lost, and yet filed by age. Where it is not, it was forgotten.
        (&[("key", None)], &[], Some(("admission", "r"))),
        (&[("key", None)], &[("key", None)], None),
    ];
    for (claims, by_age, expected) in wrong {
        let world = full();
        world.wrote("s", vec![admitted("other", "mail")]);
        world.assert_sound();
        for (key, held) in claims {
            let held = held.map(|(run, at)| claim(run, at));
            world.plant(Table::Admissions, &[key.as_bytes()], held.as_deref());
        }
        for (key, filed) in by_age {
            let time = time_key(filed.map_or(NOW, |(_, at)| at));
            world.plant(Table::AdmissionsByAge, &[&time, key.as_bytes()], filed.map(|_| &b""[..]));
        }
        let found = world.acme.check(&mut |_| {}).unwrap().contradiction;
        let found = found.as_ref().map(|found| (found.noun, found.run.as_deref().unwrap_or_default()));
        assert_eq!(found, expected, "{claims:?} {by_age:?}");
    }
}

#[test]
fn the_first_contradiction_is_located() {
    let world = full();
    world.damage(Table::Records, &[&record_key("r", 2)], |row| row[80] ^= 1);
    let report = world.acme.check(&mut |_| {}).unwrap();
    let found = report.contradiction.unwrap();
    assert_eq!((found.noun, found.run.as_deref(), found.seq), ("record", Some("r"), Some(2)));
    assert_eq!(report.records, 1, "the first of run r is fine");
    assert_eq!(report.entries, 4);
    let world = full();
    world.damage(Table::Tiles, &[&[0], &0u64.to_be_bytes()], |tile| tile[40] ^= 1);
    let found = world.acme.check(&mut |_| {}).unwrap().contradiction.unwrap();
    assert_eq!((found.noun, found.seq), ("tile", Some(0)));
}

#[test]
fn a_witness_has_cosigned_no_more_than_was_signed() {
    let world = full();
    world.sealed("later");
    let size = |size: u64| {
        world.acme.set_witness_size("w.example", size).unwrap();
        world.acme.check(&mut |_| {}).unwrap().contradiction
    };
    assert_eq!(size(4), None, "all that was signed");
    // In the tree, but never signed; and beyond the tree.
    for beyond in [5, 6] {
        let found = size(beyond).unwrap();
        assert_eq!(found.noun, "witness size", "{found}");
        assert!(found.to_string().contains(&format!("{beyond} by w.example")), "{found}");
    }
    world.acme.sign_checkpoint().unwrap();
    assert_eq!(size(5), None);
    world.plant(Table::Witnesses, &[b"w.example"], Some(b"short"));
    assert!(is_found(&world));
}

#[test]
fn progress_never_runs_backwards_and_ends_at_the_end() {
    let world = full();
    let mut seen = Vec::new();
    world.acme.check(&mut |progress| seen.push(progress)).unwrap();
    assert!(seen.is_sorted_by_key(|progress| progress.bytes));
    assert!(seen.len() >= 3);
}

#[test]
fn many_runs_are_walked_in_ranges_and_the_first_contradiction_by_name_is_reported() {
    let world = World::on_a_map();
    let name = |number: u64| format!("r{number:05}");
    let runs = (0..9000).map(|number| (run(&name(number)), vec![note("x"), concluded("succeeded")], true));
    world.acme.import_all(runs.collect()).unwrap();
    let report = world.acme.check(&mut |_| {}).unwrap();
    assert_eq!((report.contradiction, report.runs, report.records), (None, 9000, 18_000));
    // In the last range and in the first, around where they are cut.
    for number in [8999, 4095, 4096, 8191] {
        world.damage(Table::Records, &[&record_key(&name(number), 1)], |row| row[80] ^= 1);
    }
    let found = world.acme.check(&mut |_| {}).unwrap().contradiction.unwrap();
    assert_eq!(found.run.as_deref(), Some("r04095"));
    // A run without its row, and a row without its run, right at a cut.
    for (table, key) in [(Table::Runs, b"r04096".to_vec()), (Table::Records, record_key("r04096", 1))] {
        let world = World::on_a_map();
        let runs = (0..4200).map(|number| (run(&name(number)), vec![note("x")], false));
        world.acme.import_all(runs.collect()).unwrap();
        world.plant(table, &[&key], None);
        let found = world.acme.check(&mut |_| {}).unwrap().contradiction.unwrap();
        assert_eq!((found.run.as_deref(), &found.fault), (Some("r04096"), &Fault::Missing), "{found}");
    }
}

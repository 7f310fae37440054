//! Making indexes anew: every derived table, damaged in every way, comes back as it was.

use std::fmt::Write;

use super::world::{
    NOW, World, admitted, base, case, claim, concluded, effect, in_case, note, outcome, record_key, run,
    started, suspended, tenant,
};
use crate::store::key::time_key;
use crate::store::{Direction, Scanned, Scope, Space, Table};
use crate::{CreateOptions, Journal, OpenOptions, RebuildError, RebuildReport};

/// A journal in a file with a row in every table of a tenant, each conclusion at a time of its own.
fn full() -> World {
    let world = World::on_disk();
    for number in 0..3 {
        world.sealed(&format!("s{number}"));
        world.clock.advance(5);
    }
    world.wrote("r", vec![admitted("key", "mail"), in_case("c", note("1")), started(1)]);
    assert_eq!(world.acme.pin_heads().unwrap(), 1);
    world.wrote("r", vec![concluded("failed"), suspended("2027-01-01T00:00:00Z")]);
    world.wrote("w", vec![note("1"), suspended("2027-01-01T00:00:00Z")]);
    world.lease("r");
    world.lease("never-written");
    world.acme.request_cancel(&run("r"), "ann", "test", "late").unwrap();
    let signed = world.acme.sign_checkpoint().unwrap();
    world.acme.publish(&signed).unwrap();
    world.assert_sound();
    world
}

const DERIVED: [Table; 14] = [
    Table::Runs,
    Table::Effects,
    Table::Expiries,
    Table::Unpinned,
    Table::Heads,
    Table::AdmissionsByAge,
    Table::Outcomes,
    Table::OutcomeCounts,
    Table::Waiting,
    Table::Activity,
    Table::Sources,
    Table::Cases,
    Table::Tiles,
    Table::Counters,
];

/// Every row of the tenant and of the plane, but for how much of the write-ahead log is in the tables.
fn rows(world: &World) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let snapshot = world.journal.shared().snapshot().unwrap();
    for scope in [Scope::Tenant(world.acme.id().clone()), Scope::Plane, Scope::Directory] {
        let all = Space::of(&scope, Table::Meta).all().lower[..=scope.name().len()].to_vec();
        let mut above = all.clone();
        above.push(0xff);
        let range = crate::store::KeyRange { lower: all, upper: above };
        snapshot
            .scan(&range, Direction::Ascending, &mut |key, value| {
                rows.push((key.to_vec(), value.to_vec()));
                Scanned::Continue(())
            })
            .unwrap();
    }
    let mark = Space::of(&Scope::Plane, Table::Ahead).key(&[]);
    rows.retain(|(key, _)| *key != mark);
    rows
}

fn keys(world: &World, table: Table) -> Vec<Vec<u8>> {
    let space = Space::of(&Scope::Tenant(world.acme.id().clone()), table);
    rows(world)
        .iter()
        .filter_map(|(key, _)| Some(space.own(key).to_vec()).filter(|own| !own.is_empty()))
        .collect()
}

/// What every listing says.
fn listings(world: &World) -> String {
    let acme = &world.acme;
    let mut told = String::new();
    write!(told, "{:?} ", acme.runs(None, 100).unwrap()).unwrap();
    for name in ["succeeded", "failed"] {
        let outcome = outcome(name);
        write!(told, "{:?} ", acme.runs_by_outcome(&outcome, 100).unwrap()).unwrap();
        write!(told, "{} ", acme.count_by_outcome(&outcome).unwrap()).unwrap();
    }
    write!(told, "{:?} ", acme.recent_runs(None, 100).unwrap()).unwrap();
    write!(told, "{:?} ", acme.recent_runs_from("mail", None, 100).unwrap()).unwrap();
    write!(told, "{:?} ", acme.waiting_runs(100).unwrap()).unwrap();
    write!(told, "{:?} ", acme.abandoned_runs(100).unwrap()).unwrap();
    write!(told, "{:?} ", acme.case_records(&case("c"), None, 100).unwrap()).unwrap();
    write!(told, "{:?} ", acme.admitted_as("key").unwrap()).unwrap();
    write!(told, "{:?}", acme.root_at(acme.tree_size().unwrap()).unwrap()).unwrap();
    told
}

impl World {
    /// The same journal with its indexes made anew.
    fn rebuilt(self) -> (Self, Result<RebuildReport, RebuildError>) {
        let mut report = None;
        let world = self.closed_for(|dir| {
            let options = OpenOptions::default();
            report = Some(Journal::rebuild_indexes(dir, &options, &tenant("acme"), &mut |_| {}));
        });
        (world, report.unwrap())
    }
}

#[test]
fn what_is_sound_stays_row_for_row() {
    let world = full();
    let before = rows(&world);
    let (world, report) = world.rebuilt();
    let report = report.unwrap();
    assert_eq!((report.entries, report.runs, report.records, report.claims_dropped), (4, 5, 13, 0));
    assert_eq!(rows(&world), before);
}

#[test]
fn every_derived_row_that_is_lost_or_changed_is_named_and_comes_back() {
    for table in DERIVED {
        let world = full();
        let (before, told, keys) = (rows(&world), listings(&world), keys(&world, table));
        assert!(!keys.is_empty(), "{table:?} has no row to lose");
        // All in one world: each row alone, for the check to name, and then made anew.
        let mut world = world;
        for key in keys {
            let name = String::from_utf8_lossy(&key).into_owned();
            if table == Table::Counters && name == "published" {
                continue;
            }
            for change in ["lost", "changed"] {
                if change == "lost" {
                    world.plant(table, &[&key], None);
                } else {
                    world.plant(table, &[&key], Some(b"\x00?"));
                }
                let report = world.acme.check(&mut |_| {}).unwrap();
                assert!(report.contradiction.is_some(), "{table:?} {name:?} {change}");
                let report;
                (world, report) = world.rebuilt();
                report.unwrap();
                world.assert_sound();
                assert_eq!(listings(&world), told, "{table:?} {name:?} {change}");
                assert_eq!(rows(&world), before, "{table:?} {name:?} {change}");
            }
        }
    }
}

#[test]
fn rows_too_many_go_and_the_whole_of_every_table_comes_back() {
    let world = full();
    let (before, told) = (rows(&world), listings(&world));
    for table in DERIVED {
        for key in keys(&world, table) {
            if table != Table::Counters {
                world.plant(table, &[&key], None);
            }
        }
        if table != Table::Counters {
            world.plant(table, &[b"\x01ghost"], Some(b"?"));
        }
    }
    let (world, report) = world.rebuilt();
    report.unwrap();
    world.assert_sound();
    assert_eq!((listings(&world), rows(&world)), (told, before));
    // And the journal goes on from there.
    world.sealed("next");
    world.wrote("w", vec![concluded("failed")]);
    world.acme.sign_checkpoint().unwrap();
    world.assert_sound();
}

/// What somebody does to a journal.
type Damage = fn(&World);

#[test]
fn an_index_is_never_made_from_damaged_evidence() {
    let damages: [(&str, Damage); 7] = [
        ("record", |world| world.damage(Table::Records, &[&record_key("r", 2)], |row| row[80] ^= 1)),
        ("record", |world| world.plant(Table::Records, &[&record_key("r", 2)], None)),
        // The tail of a pinned run, and of a sealed one.
        ("record", |world| world.plant(Table::Records, &[&record_key("s0", 1)], None)),
        ("run row", |world| world.plant(Table::Records, &[&record_key("s0", 2)], None)),
        ("entry", |world| world.plant(Table::Entries, &[&1u64.to_be_bytes()], None)),
        // The last entry, which no gap shows: the checkpoint does.
        ("checkpoint", |world| world.plant(Table::Entries, &[&3u64.to_be_bytes()], None)),
        ("lease", |world| world.plant(Table::Leases, &[b"r"], Some(b"?"))),
    ];
    for (noun, damage) in damages {
        let world = full();
        damage(&world);
        let before = rows(&world);
        let (world, refused) = world.rebuilt();
        let Err(RebuildError::Damaged(found)) = refused else { panic!("{noun}: {refused:?}") };
        assert_eq!(found.noun, noun, "{found}");
        assert_eq!(rows(&world), before, "{noun}: something was changed");
    }
}

#[test]
fn an_entry_that_a_seal_contradicts_is_refused() {
    // Both of the tree and the run, and signed: only holding seal against records shows it.
    let world = World::on_disk();
    world.sealed("s0");
    world.wrote("open", vec![note("1")]);
    let entry = |entry: &str| entry.replace("s0", "open").into_bytes();
    let logged = String::from_utf8(world.acme.entry(0).unwrap().unwrap()).unwrap();
    let forged = entry(&logged);
    world.plant(Table::Entries, &[&0u64.to_be_bytes()], Some(&forged));
    let (_, refused) = world.rebuilt();
    let Err(RebuildError::Damaged(found)) = refused else { panic!("{refused:?}") };
    assert_eq!((found.noun, found.run.as_deref()), ("run row", Some("open")), "{found}");
}

#[test]
fn a_head_pins_the_record_that_it_names() {
    type Entries = [Vec<u8>; 2];
    type Change = fn(Entries) -> Entries;
    // Heads of two records and of three. Nothing was signed, so the tree can be built over whatever is there.
    let wrong: [(&str, Change); 4] = [
        ("another chain", |[first, second]| {
            let at = first.iter().position(|byte| *byte == b':').unwrap() + 2;
            let mut changed = first;
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            [changed, second]
        }),
        ("exchanged", |[first, second]| [second, first]),
        ("more than there are", |[first, second]| {
            let more = String::from_utf8(second).unwrap().replace("\"records\":3", "\"records\":4");
            [first, more.into_bytes()]
        }),
        ("another record's number", |[first, second]| {
            let fewer = String::from_utf8(first).unwrap().replace("\"records\":2", "\"records\":1");
            [fewer.into_bytes(), second]
        }),
    ];
    for (name, change) in wrong {
        let world = World::on_disk();
        world.wrote("r", vec![note("1"), note("2")]);
        assert_eq!(world.acme.pin_heads().unwrap(), 1);
        world.wrote("r", vec![note("3")]);
        assert_eq!(world.acme.pin_heads().unwrap(), 1);
        let (world, sound) = world.rebuilt();
        sound.unwrap();
        let entries = change([0, 1].map(|index| world.acme.entry(index).unwrap().unwrap()));
        for (index, entry) in (0u64..).zip(entries) {
            world.plant(Table::Entries, &[&index.to_be_bytes()], Some(&entry));
        }
        let (world, refused) = world.rebuilt();
        let Err(RebuildError::Damaged(found)) = refused else { panic!("{name}: {refused:?}") };
        assert_eq!((found.noun, found.run.as_deref()), ("run row", Some("r")), "{name}: {found}");
        assert!(world.acme.check(&mut |_| {}).unwrap().contradiction.is_some(), "{name}");
    }
}

#[test]
fn a_claim_that_no_record_bears_out_is_dropped_and_a_wrong_time_set_right() {
    let world = full();
    let told = listings(&world);
    // Of a run that was not admitted, and of one that was, by another key.
    world.plant(Table::Admissions, &[b"ghost"], Some(&claim("w", 1)));
    world.plant(Table::Admissions, &[b"none"], Some(&claim("r", NOW)));
    world.damage(Table::Admissions, &[b"key"], |row| row[7] ^= 1);
    let (world, report) = world.rebuilt();
    assert_eq!(report.unwrap().claims_dropped, 2);
    world.assert_sound();
    assert_eq!(listings(&world), told);
}

#[test]
fn a_key_that_is_held_stays_held_and_a_forgotten_one_forgotten() {
    /// The claim's value and whether it is filed by age: each as it was, lost, or another.
    type Damage<'a> = (Option<&'a [u8]>, bool);
    let (other, old) = (claim("c", NOW + 20), claim("b", NOW + 3));
    let damages: [Damage<'_>; 7] = [
        (None, true),
        (Some(&other), true),
        (Some(&other), false),
        (Some(&old), true),
        (Some(&old), false),
        (Some(b"?"), true),
        (Some(b"?"), false),
    ];
    let names = [("b", "a", "c"), ("b", "z", "c"), ("y", "b", "c")];
    for (old_run, run_of_key, other_run) in names {
        let world = World::on_disk();
        world.sealed("s");
        // One key forgotten and used again; one forgotten for good.
        world.wrote(old_run, vec![note("1"), admitted("key", "mail")]);
        world.wrote("gone", vec![admitted("gone", "mail")]);
        world.clock.set(NOW + 10);
        assert_eq!(world.acme.forget_admissions(NOW + 10).unwrap(), 2);
        world.wrote(run_of_key, vec![admitted("key", "mail")]);
        world.wrote(other_run, vec![admitted("other", "mail")]);
        world.assert_sound();
        let (before, mut world) = (rows(&world), world);
        for (value, filed) in damages {
            world.plant(Table::Admissions, &[b"key"], value);
            if !filed {
                world.plant(Table::AdmissionsByAge, &[&time_key(NOW + 10), b"key"], None);
            }
            assert!(world.acme.check(&mut |_| {}).unwrap().contradiction.is_some(), "{value:?} {filed}");
            let report;
            (world, report) = world.rebuilt();
            assert_eq!(report.unwrap().claims_dropped, 0, "{value:?} {filed}");
            world.assert_sound();
            assert_eq!(rows(&world), before, "{names:?} {value:?} {filed}");
        }
    }
}

#[test]
fn conclusions_keep_their_order_by_time() {
    let world = World::on_disk();
    for name in ["c", "a", "d", "b"] {
        world.sealed(name);
        world.clock.advance(1);
    }
    let newest = |world: &World| {
        let runs = world.acme.runs_by_outcome(&outcome("succeeded"), 9).unwrap();
        runs.iter().map(|run| run.run.to_string()).collect::<String>()
    };
    assert_eq!(newest(&world), "bdac");
    world.plant(Table::Runs, &[b"a"], None);
    let (world, report) = world.rebuilt();
    report.unwrap();
    assert_eq!(newest(&world), "bdac");
    world.wrote("e", vec![concluded("succeeded")]);
    assert_eq!(newest(&world), "ebdac");
    world.assert_sound();
}

#[test]
fn signed_records_stay_signed_and_an_unsigned_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let plane = dir.path().join("plane");
    let journal = Journal::create(&plane, &base(), &CreateOptions { sign_records: true }).unwrap();
    let acme = journal.tenant(&tenant("acme"));
    acme.append_once(&run("r"), "w", vec![note("1"), started(2), concluded("failed")], true).unwrap();
    assert!(effect(2).as_str().starts_with("02"));
    drop((acme, journal));
    let rebuild = || Journal::rebuild_indexes(&plane, &OpenOptions::default(), &tenant("acme"), &mut |_| {});
    assert_eq!(rebuild().unwrap().records, 3);
    let journal = Journal::open(&plane).unwrap();
    assert!(journal.tenant(&tenant("acme")).check(&mut |_| {}).unwrap().is_sound());
    let key = Space::of(&Scope::Tenant(tenant("acme")), Table::Records).key(&[&record_key("r", 1)]);
    let stripped = journal.shared().run(&Scope::Plane, 0, move |tx, _| -> Result<(), crate::StoreError> {
        let row = crate::store::Read::get(tx, &key)?.unwrap();
        tx.put(key.clone(), [&row[..64], &[0], &row[64 + 1 + 4 + 64..]].concat());
        Ok(())
    });
    stripped.unwrap();
    drop(journal);
    assert!(matches!(rebuild().unwrap_err(), RebuildError::Damaged(found) if found.noun == "record"));
}

#[test]
fn the_directory_comes_back_from_its_entries() {
    let world = full();
    world.journal.tenant(&tenant("globex")).append_once(&run("r"), "w", vec![note("1")], false).unwrap();
    let before = rows(&world);
    let deleted = world.journal.shared().run(&Scope::Plane, 0, |tx, _| -> Result<(), crate::StoreError> {
        tx.delete(Space::of(&Scope::Plane, Table::Tenants).key(&[b"globex"]));
        tx.delete(Space::of(&Scope::Directory, Table::Tiles).key(&[&[0], &0u64.to_be_bytes()]));
        Ok(())
    });
    deleted.unwrap();
    assert!(world.journal.check_directory(&mut |_| {}).unwrap().contradiction.is_some());
    let mut report = None;
    let world = world.closed_for(|dir| {
        report = Some(Journal::rebuild_directory(dir, &OpenOptions::default()).unwrap());
    });
    assert_eq!(report.unwrap().entries, 2);
    world.assert_sound();
    assert_eq!(rows(&world), before);
}

#[cfg(feature = "cli")]
#[test]
fn the_command_names_the_damage_makes_the_indexes_anew_and_refuses_what_is_no_index() {
    use std::process::ExitCode;

    let check = |dir: &std::path::Path, more: &[&str]| {
        let dir = dir.to_str().unwrap();
        let words = ["runseal", "--quiet", "check", "--dir", dir].into_iter().chain(more.iter().copied());
        crate::cli::run(words.map(std::ffi::OsString::from))
    };
    let (sound, finding) = (ExitCode::SUCCESS, ExitCode::from(1));
    let world = full();
    world.plant(Table::Activity, &[&time_key(NOW), b"ghost"], Some(b""));
    let world = world.closed_for(|dir| {
        assert_eq!(check(dir, &[]), finding, "it only says so");
        assert_eq!(check(dir, &[]), finding, "and changes nothing");
        assert_eq!(check(dir, &["--rebuild-indexes"]), sound);
        assert_eq!(check(dir, &[]), sound);
        assert_eq!(check(dir, &["--rebuild-indexes"]), sound, "nothing to do");
    });
    world.assert_sound();
    world.damage(Table::Records, &[&record_key("w", 1)], |row| row[80] ^= 1);
    let before = rows(&world);
    let world = world.closed_for(|dir| assert_eq!(check(dir, &["--rebuild-indexes"]), finding));
    assert_eq!(rows(&world), before);
}

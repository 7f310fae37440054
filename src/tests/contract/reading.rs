//! What is read was verified first; damage is located and never passed over.

use runseal_evidence::chain::ChainHash;

use crate::store::Table;
use crate::tests::world::{World, concluded, note, record_key, run, tenant};
use crate::{Fault, ReadError, RowFault};

on_every_engine! {
    pages_are_bounded_by_rows_and_by_bytes
    a_run_that_does_not_exist_is_not_an_empty_one
    changed_bytes_are_caught_before_they_are_parsed
    bytes_hashed_anew_do_not_follow_the_record_before
    a_missing_a_doubled_and_a_swapped_record_are_located
    a_cut_tail_shows
    a_record_of_another_run_or_tenant_is_located
    a_record_of_a_newer_version_is_skew_and_not_damage
    a_damaged_row_is_refused_whatever_its_damage
    damage_to_one_run_leaves_the_others_alone
    unverified_reading_hands_out_what_is_stored
}

fn fault_of(world: &World, name: &str, from: u64) -> (Option<u64>, Fault) {
    match world.acme.read(&run(name), from, 100).unwrap_err() {
        ReadError::Store(error) => {
            let corruption = error.corruption().unwrap_or_else(|| panic!("{error}")).clone();
            assert_eq!(corruption.run.as_deref(), Some(name));
            assert_eq!(corruption.tenant, "acme");
            (corruption.seq, corruption.fault)
        }
        other => panic!("{other}"),
    }
}

/// Where a record's bytes start in its row: two hashes, a flag, a length.
const RAW: usize = 32 + 32 + 1 + 4;

fn pages_are_bounded_by_rows_and_by_bytes(world: World) {
    let epoch = world.lease("r");
    for _ in 0..20 {
        world
            .acme
            .append(&run("r"), epoch, vec![note(&"x".repeat(1 << 20 >> 1)), note(&"x".repeat(1 << 20 >> 1))])
            .unwrap();
    }
    assert_eq!(world.acme.read(&run("r"), 3, 2).unwrap().iter().map(|r| r.seq).collect::<Vec<_>>(), [3, 4]);
    let page = world.acme.read(&run("r"), 1, 1000).unwrap();
    assert!(page.len() < 40, "{} records are more than 16 MiB", page.len());
    let next = page.last().unwrap().seq + 1;
    let rest = world.acme.read(&run("r"), next, 1000).unwrap();
    assert_eq!(rest.last().unwrap().seq, 40);
}

fn a_run_that_does_not_exist_is_not_an_empty_one(world: World) {
    world.lease("r");
    for name in ["r", "s"] {
        let refused = world.acme.read(&run(name), 1, 9).unwrap_err();
        assert!(matches!(refused, ReadError::UnknownRun { .. }), "{refused}");
        let refused = world.acme.read_unverified(&run(name), 1, 9).unwrap_err();
        assert!(matches!(refused, ReadError::UnknownRun { .. }), "{refused}");
    }
}

fn changed_bytes_are_caught_before_they_are_parsed(world: World) {
    world.wrote("r", vec![note("one"), note("two"), note("three")]);
    // No JSON any more: were it parsed first, the fault would be another.
    world.damage(Table::Records, &[&record_key("r", 2)], |row| row[RAW] = b'!');
    let (seq, fault) = fault_of(&world, "r", 1);
    assert!(matches!((seq, fault), (Some(2), Fault::Hash { .. })));
    assert_eq!(world.acme.read(&run("r"), 1, 1).unwrap().len(), 1, "what comes before can be read");
}

fn bytes_hashed_anew_do_not_follow_the_record_before(world: World) {
    world.wrote("r", vec![note("one"), note("two")]);
    world.damage(Table::Records, &[&record_key("r", 1)], |row| {
        row[RAW + 10] ^= 1;
        let prev = ChainHash::from_bytes(row[..32].try_into().unwrap());
        let hash = prev.link(&row[RAW..]);
        row[32..64].copy_from_slice(hash.as_bytes());
    });
    // Read from the second record on, the first one's stored hash is still what it is held against.
    let (seq, fault) = fault_of(&world, "r", 2);
    assert!(matches!((seq, fault), (Some(2), Fault::Link { .. })));
}

fn a_missing_a_doubled_and_a_swapped_record_are_located(world: World) {
    let drafts = || (0..4).map(|number| note(&number.to_string())).collect::<Vec<_>>();
    for name in ["gap", "double", "swap"] {
        world.wrote(name, drafts());
    }
    let row = |name: &str, seq: u64| {
        let stored = world.acme.read_unverified(&run(name), seq, 1).unwrap().remove(0);
        let length = u32::try_from(stored.raw.len()).unwrap().to_le_bytes();
        [&stored.prev.as_bytes()[..], stored.hash.as_bytes(), &[0], &length, &stored.raw].concat()
    };
    world.plant(Table::Records, &[&record_key("gap", 2)], None);
    assert_eq!(fault_of(&world, "gap", 1), (Some(2), Fault::Missing));
    assert_eq!(fault_of(&world, "gap", 2), (Some(2), Fault::Missing));
    world.plant(Table::Records, &[&record_key("double", 5)], Some(&row("double", 4)));
    assert_eq!(fault_of(&world, "double", 1), (Some(5), Fault::Unaccounted));
    let (second, third) = (row("swap", 2), row("swap", 3));
    world.plant(Table::Records, &[&record_key("swap", 2)], Some(&third));
    world.plant(Table::Records, &[&record_key("swap", 3)], Some(&second));
    assert!(matches!(fault_of(&world, "swap", 1), (Some(2), Fault::Link { .. })));
}

fn a_cut_tail_shows(world: World) {
    world.wrote("r", vec![note("one"), note("two"), note("three")]);
    world.plant(Table::Records, &[&record_key("r", 3)], None);
    assert_eq!(fault_of(&world, "r", 3), (Some(3), Fault::Missing));
    world.plant(Table::Records, &[&record_key("r", 2)], None);
    world.plant(Table::Records, &[&record_key("r", 1)], None);
    assert_eq!(fault_of(&world, "r", 1), (Some(1), Fault::Missing));
}

fn a_record_of_another_run_or_tenant_is_located(world: World) {
    // A whole chain moved to another name, hashed anew so that only what it says gives it away.
    for (name, tenant_of, run_of) in [("b", "acme", "a"), ("c", "globex", "c")] {
        world.wrote(name, vec![note("one")]);
        let bytes = format!(
            "{{\"at\":\"2026-03-11T09:14:02.118Z\",\"epoch\":1,\"kind\":\"Note\",\"payload\":{{}},\"run\":\"{run_of}\",\"seq\":1,\"tenant\":\"{tenant_of}\",\"v\":1}}"
        );
        let prev = ChainHash::genesis(&tenant("acme"), &run(name));
        let hash = prev.link(bytes.as_bytes());
        let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
        let row = [&prev.as_bytes()[..], hash.as_bytes(), &[0], &length, bytes.as_bytes()].concat();
        world.plant(Table::Records, &[&record_key(name, 1)], Some(&row));
        assert!(matches!(fault_of(&world, name, 1), (Some(1), Fault::Chain(_))), "{name}");
    }
}

fn a_record_of_a_newer_version_is_skew_and_not_damage(world: World) {
    world.wrote("r", vec![note("one")]);
    let bytes = br#"{"at":"2026-03-11T09:14:02.118Z","new":true,"v":2}"#;
    let prev = ChainHash::genesis(&tenant("acme"), &run("r"));
    let row = [&prev.as_bytes()[..], prev.link(bytes).as_bytes(), &[0], &50u32.to_le_bytes(), bytes].concat();
    world.plant(Table::Records, &[&record_key("r", 1)], Some(&row));
    let (seq, fault) = fault_of(&world, "r", 1);
    assert_eq!(seq, Some(1));
    assert!(fault.is_skew(), "{fault}");
    assert_eq!(world.acme.read_unverified(&run("r"), 1, 1).unwrap()[0].raw, bytes);
    let found = world.acme.check(&mut |_| {}).unwrap().contradiction.unwrap();
    assert!(found.fault.is_skew() && !found.to_string().contains("corrupt"), "{found}");
    #[cfg(feature = "cli")]
    world.closed_for(|plane| {
        assert_eq!(crate::tests::check_command(plane), std::process::ExitCode::from(3));
    });
}

type Damage = fn(&mut Vec<u8>);

fn a_damaged_row_is_refused_whatever_its_damage(world: World) {
    world.wrote("r", vec![note("one")]);
    let damages: [(Damage, RowFault); 4] = [
        (|row| row.truncate(40), RowFault::Short("hash")),
        (|row| row[64] = 2, RowFault::Flag { field: "signature", found: 2 }),
        (|row| row.push(0), RowFault::Trailing(1)),
        (|row| row[65] += 1, RowFault::Short("record")),
    ];
    let whole = world.acme.read_unverified(&run("r"), 1, 1).unwrap().remove(0);
    let length = u32::try_from(whole.raw.len()).unwrap().to_le_bytes();
    let row = [&whole.prev.as_bytes()[..], whole.hash.as_bytes(), &[0], &length, &whole.raw].concat();
    for (damage, expected) in damages {
        world.plant(Table::Records, &[&record_key("r", 1)], Some(&row));
        assert_eq!(world.acme.read(&run("r"), 1, 1).unwrap().len(), 1);
        world.damage(Table::Records, &[&record_key("r", 1)], damage);
        assert_eq!(fault_of(&world, "r", 1), (Some(1), Fault::Row(expected)));
        let refused = world.acme.read_unverified(&run("r"), 1, 1).unwrap_err();
        assert!(
            matches!(refused, ReadError::Store(_)),
            "a row that cannot be taken apart is nobody's evidence"
        );
    }
}

fn damage_to_one_run_leaves_the_others_alone(world: World) {
    world.wrote("a", vec![note("one")]);
    world.wrote("b", vec![note("one")]);
    world.damage(Table::Records, &[&record_key("a", 1)], |row| row[64] = 9);
    world.damage(Table::Runs, &[b"a"], |row| row.push(0));
    assert!(world.acme.read(&run("a"), 1, 9).is_err());
    assert!(world.acme.run(&run("a")).is_err());
    world.wrote("b", vec![concluded("succeeded")]);
    world.acme.seal_once(&run("b"), "w").unwrap();
    assert_eq!(world.acme.read(&run("b"), 1, 9).unwrap().len(), 2);
    let globex = world.journal.tenant(&tenant("globex"));
    globex.append_once(&run("a"), "w", vec![note("fine")], false).unwrap();
}

fn unverified_reading_hands_out_what_is_stored(world: World) {
    world.wrote("r", vec![note("one"), note("two")]);
    world.damage(Table::Records, &[&record_key("r", 1)], |row| row[RAW + 30] = b'#');
    let stored = world.acme.read_unverified(&run("r"), 1, 9).unwrap();
    assert_eq!(stored.len(), 2);
    assert_eq!(stored[0].raw[30], b'#');
    assert_ne!(stored[0].prev.link(&stored[0].raw), stored[0].hash);
}

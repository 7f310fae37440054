//! Every kind of tampering, held against what the verifier must find: a table of attacks on one honest
//! house, each on a fresh copy of it.

mod support;

use support::stage::Broken;
use support::{House, run};

/// One attack: what is done to the disk, whether the attacker signs and publishes again (after wiping
/// the plane's memory), and every finding that must be there.
struct Row {
    name: &'static str,
    tamper: &'static [&'static [&'static str]],
    republish: Option<&'static str>,
    exit: i32,
    finds: &'static [(&'static str, Option<&'static str>)],
    never: &'static [&'static str],
}

const REPUBLISHED_LONGER: Option<&str> = Some("grown");
const REPUBLISHED: Option<&str> = Some("");

const MATRIX: &[Row] = &[
    Row {
        name: "nothing at all",
        tamper: &[],
        republish: None,
        exit: 0,
        finds: &[],
        never: &["run-edited", "run-deleted", "fork", "run-truncated", "rollback"],
    },
    Row {
        name: "the first record of a sealed run edited",
        tamper: &[&["edit", "sealed-b", "1"]],
        republish: None,
        exit: 1,
        finds: &[("run-edited", Some("sealed-b"))],
        never: &["run-deleted", "fork"],
    },
    Row {
        name: "the last record of a sealed run edited",
        tamper: &[&["edit", "sealed-b", "5"]],
        republish: None,
        exit: 1,
        finds: &[("run-edited", Some("sealed-b"))],
        never: &["run-deleted", "fork"],
    },
    Row {
        name: "a sealed run edited and re-hashed",
        tamper: &[&["rehash", "sealed-a", "2"]],
        republish: None,
        exit: 1,
        finds: &[("run-edited", Some("sealed-a"))],
        never: &["run-deleted", "fork"],
    },
    Row {
        name: "an open run edited",
        tamper: &[&["edit", "open-a", "2"]],
        republish: None,
        exit: 1,
        finds: &[("run-edited", Some("open-a"))],
        never: &["run-deleted", "fork"],
    },
    Row {
        name: "an open run edited and re-hashed",
        tamper: &[&["rehash", "open-a", "1"]],
        republish: None,
        exit: 1,
        finds: &[("run-edited", Some("open-a"))],
        never: &["run-deleted", "fork"],
    },
    Row {
        name: "the tail of an open run cut",
        tamper: &[&["truncate", "open-a", "2"]],
        republish: None,
        exit: 1,
        finds: &[("run-truncated", Some("open-a"))],
        never: &["run-deleted", "fork"],
    },
    Row {
        name: "an open run cut down to its admission",
        tamper: &[&["truncate", "open-b", "1"]],
        republish: None,
        exit: 1,
        finds: &[("run-truncated", Some("open-b"))],
        never: &["fork"],
    },
    Row {
        name: "a sealed run deleted",
        tamper: &[&["delete", "sealed-c"]],
        republish: None,
        exit: 1,
        finds: &[("run-deleted", Some("sealed-c"))],
        never: &["run-edited", "fork"],
    },
    Row {
        name: "an open run deleted",
        tamper: &[&["delete", "open-b"]],
        republish: None,
        exit: 1,
        finds: &[("run-deleted", Some("open-b"))],
        never: &["run-edited", "fork"],
    },
    Row {
        name: "two runs attacked at once",
        tamper: &[&["delete", "sealed-a"], &["edit", "sealed-c", "2"]],
        republish: None,
        exit: 1,
        finds: &[("run-deleted", Some("sealed-a")), ("run-edited", Some("sealed-c"))],
        never: &["fork"],
    },
    Row {
        name: "the first run deleted, the tree rebuilt and grown past its old size",
        tamper: &[&["rebuild", "sealed-a"]],
        republish: REPUBLISHED_LONGER,
        exit: 1,
        finds: &[("fork", None), ("run-deleted", Some("sealed-a"))],
        never: &[],
    },
    Row {
        name: "the last run deleted, the tree rebuilt, smaller than before",
        tamper: &[&["rebuild", "sealed-c"]],
        republish: REPUBLISHED,
        exit: 1,
        finds: &[("fork", None), ("run-deleted", Some("sealed-c"))],
        never: &[],
    },
    Row {
        name: "two entries swapped",
        tamper: &[&["swap", "0", "2"]],
        republish: REPUBLISHED,
        exit: 1,
        finds: &[("fork", None)],
        never: &["run-deleted"],
    },
    Row {
        name: "two entries swapped and the log grown",
        tamper: &[&["swap", "0", "1"]],
        republish: REPUBLISHED_LONGER,
        exit: 1,
        finds: &[("fork", None)],
        never: &["run-deleted"],
    },
];

#[test]
fn every_attack_is_found_and_named_and_nothing_else_is() {
    let runs = [
        run("sealed-a", 4, Some("succeeded")),
        run("sealed-b", 5, Some("failed")),
        run("sealed-c", 3, Some("succeeded")),
        run("open-a", 4, None),
        run("open-b", 2, None),
    ];
    let house = House::with_runs(&runs.concat()).unwrap();
    let mut faults = Vec::new();
    for (number, row) in MATRIX.iter().enumerate() {
        if let Err(Broken(why)) = attack(&house, number, row) {
            faults.push(format!("{}: {why}", row.name));
        }
    }
    assert!(faults.is_empty(), "{} of {} rows:\n{}", faults.len(), MATRIX.len(), faults.join("\n\n"));
}

fn attack(house: &House, number: usize, row: &Row) -> Result<(), Broken> {
    let (plane, history) = house.copy(&format!("row-{number}"))?;
    for action in row.tamper {
        house.tamper(&plane, action)?.ended(0)?;
    }
    if let Some(growth) = row.republish {
        if !growth.is_empty() {
            for at in 0..8 {
                let name = format!("{growth}-{number}-{at}");
                house.import_into(&plane, &name, &run(&name, 3, Some("succeeded")))?;
            }
        }
        // The plane refuses; with its memory wiped, the witnesses do; so the attacker does without.
        house.checkpoint(&plane, true)?.ended(1)?;
        house.tamper(&plane, &["forget"])?.ended(0)?;
        house.checkpoint(&plane, true)?.ended(1)?;
        house.checkpoint(&plane, false)?.ended(0)?;
    }
    let report = house.audit(&plane, &history)?;
    if report.code != row.exit {
        return Err(Broken(format!("exit {} where {} belongs\n{:#}", report.code, row.exit, report.json)));
    }
    for (kind, run) in row.finds {
        report.finds(kind, *run)?;
    }
    let strayed = report.findings().find(|(kind, _, _)| row.never.contains(kind));
    strayed.map_or(Ok(()), |found| Err(Broken(format!("a false finding: {found:?}"))))
}

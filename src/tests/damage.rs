//! Damage to the file: opening refuses it, or the check finds it, or nothing that is read has changed.

use std::fmt::Write;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use super::world::{NOW, admitted, base, concluded, in_case, note, run, started, suspended, tenant};
use crate::{CreateOptions, Journal, ManualClock, Tenant};

fn build(dir: &Path) {
    let journal = Journal::create(dir, &base(), &CreateOptions { sign_records: true }).unwrap();
    let acme = journal.tenant(&tenant("acme"));
    for number in 0..40 {
        let name = run(&format!("r{number:02}"));
        let text = "text ".repeat(number * 20);
        let drafts = vec![admitted(&format!("k{number}"), "mail"), in_case("c", note(&text)), started(1)];
        acme.append_once(&name, "w", drafts, false).unwrap();
        match number % 3 {
            0 => drop(acme.append_once(&name, "w", vec![concluded("succeeded")], true).unwrap()),
            1 => drop(acme.append_once(&name, "w", vec![suspended("2027-01-01T00:00:00Z")], false).unwrap()),
            _ => {}
        }
    }
    acme.pin_heads().unwrap();
    let note = acme.sign_checkpoint().unwrap();
    acme.publish(&note).unwrap();
}

/// Everything that a reader can be told, as text.
fn told(acme: &Tenant) -> Result<String, Box<dyn std::error::Error>> {
    let mut told = String::new();
    for summary in acme.runs(None, 1000)? {
        writeln!(told, "{summary:?}")?;
        for record in acme.read(&summary.run, 1, 1000)? {
            writeln!(told, "{record:?}")?;
        }
    }
    for index in 0..acme.tree_size()? {
        writeln!(told, "{:?}", acme.entry(index)?)?;
    }
    write!(told, "{:?} {:?} ", acme.published()?, acme.waiting_runs(100)?)?;
    write!(told, "{:?}", acme.root_at(acme.tree_size()?)?)?;
    Ok(told)
}

#[derive(Debug, Default)]
struct Tally {
    refused: u32,
    found: u32,
    harmless: u32,
}

/// Opens the damaged file and holds what it says against `truth`.
fn examine(dir: &Path, truth: &str, tally: &mut Tally) -> Result<(), &'static str> {
    fn unless_it_panics<T>(what: &'static str, call: impl FnOnce() -> T) -> Result<T, &'static str> {
        catch_unwind(AssertUnwindSafe(call)).map_err(|_| what)
    }
    let clock = Arc::new(ManualClock::at(NOW));
    let opened = unless_it_panics("opening panicked", || Journal::open_with_clock(dir, clock))?;
    let Ok(journal) = opened else {
        tally.refused += 1;
        return Ok(());
    };
    let acme = journal.tenant(&tenant("acme"));
    let sound = unless_it_panics("the check panicked", || {
        acme.check(&mut |_| {}).is_ok_and(|report| report.is_sound())
            && journal.check_directory(&mut |_| {}).is_ok_and(|report| report.is_sound())
    })?;
    let told = unless_it_panics("reading panicked", || told(&acme))?;
    if !sound {
        tally.found += 1;
    } else if told.is_ok_and(|told| told == truth) {
        tally.harmless += 1;
    } else {
        return Err("open and check passed, and what is read has changed");
    }
    unless_it_panics("closing panicked", || drop((acme, journal)))
}

#[test]
fn truncated_zeroed_and_flipped_files_never_answer_wrongly_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    let plane = dir.path().join("plane");
    build(&plane);
    let file = plane.join("journal.redb");
    let whole = fs::read(&file).unwrap();
    let truth = told(&Journal::open(&plane).unwrap().tenant(&tenant("acme"))).unwrap();
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    let mut try_with = |bytes: &[u8], what: String| {
        fs::write(&file, bytes).unwrap();
        if let Err(fault) = examine(&plane, &truth, &mut tally) {
            wrong.push(format!("{what}: {fault}"));
        }
    };
    for page in 0..whole.len() / 4096 {
        let start = page * 4096;
        // Pages that nothing was ever written to are plentiful, and of no interest.
        if whole[start..start + 4096].iter().all(|byte| *byte == 0) {
            continue;
        }
        let mut zeroed = whole.clone();
        zeroed[start..start + 4096].fill(0);
        try_with(&zeroed, format!("page {page} zeroed"));
        for _ in 0..4 {
            let mut flipped = whole.clone();
            let (at, bit) = (start + random(4096), random(8));
            flipped[at] ^= 1 << bit;
            try_with(&flipped, format!("byte {at} bit {bit} flipped"));
        }
    }
    for _ in 0..40 {
        let length = random(whole.len());
        try_with(&whole[..length], format!("cut to {length} bytes"));
    }
    println!("{tally:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tally.refused > 0 && tally.found > 0 && tally.harmless > 0, "{tally:?}");
}

//! The tour: the whole promise of runseal, watched from the outside in under a minute.
//!
//! Real runs of two tenants are journaled, sealed, checkpointed, cosigned by two witness processes
//! and audited. Then the history is attacked in every way we know, and each attack must be caught by
//! the part that promises to catch it. The tour uses nothing but the three commands, each in a
//! process of its own, over loopback and files; it exits non-zero if an honest step fails or an
//! attack goes unnoticed.
//!
//! `cargo run --release --example tour --features testkit [-- --keep DIR]`

mod attacks;
mod honest;
mod stage;
mod tell;

use std::ffi::OsString;
use std::process::ExitCode;

use stage::{Broken, Launcher, Program, Stage};

fn main() -> ExitCode {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    // A process of the tour is this executable again, running one of the three commands.
    if let Some(program) = args.get(1).and_then(|arg| Program::from_arg(arg)) {
        let command = args.split_off(1);
        return match program {
            Program::Journal => runseal::cli::run(command),
            Program::Witness => runseal_witness::cli::run(command),
            Program::Verifier => runseal_verifier::cli::run(command),
        };
    }
    let keep = match args.split_off(1).as_slice() {
        [] => None,
        [flag, dir] if flag == "--keep" => Some(dir.into()),
        _ => {
            eprintln!("usage: tour [--keep DIR]   (DIR must not exist; without it everything is removed)");
            return ExitCode::from(2);
        }
    };
    match Stage::build(keep, Launcher::ThisExecutable).and_then(|stage| tour(&stage)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(broken) => {
            tell::broken(&broken);
            ExitCode::FAILURE
        }
    }
}

fn tour(stage: &Stage) -> Result<(), Broken> {
    let started = stage::elapsed_clock();
    tell::opening();
    let day = honest::day(stage)?;
    let caught = attacks::all(stage, &day)?;
    tell::closing(&caught, started.elapsed());
    Ok(())
}

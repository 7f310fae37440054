//! The `runseal` command.

use std::{ffi::OsString, process::ExitCode};

use clap::{Parser, Subcommand, builder::BoolishValueParser};

mod append;
mod check;
mod check_steps;
mod checkpoint;
mod duration;
mod exit;
mod export;
mod import;
mod init;
mod output;
mod plane;
mod prove;
mod publish;
mod runs;
mod seal;
mod serve;
mod show;
#[cfg(feature = "testkit")]
mod tamper;
mod token;
mod vkey;

pub use crate::atomic_file::FileError;
pub use exit::{CliError, Exit};
use output::Output;

/// A durable run journal, sealed into Merkle logs that publish signed checkpoints.
#[derive(Debug, Parser)]
#[command(
    name = "runseal",
    version,
    propagate_version = true,
    disable_help_subcommand = true,
    after_help = EXIT_CODES,
    after_long_help = concat!(
        "Example:\n  runseal init --dir plane --origin log.example.com/plane\n  \
         runseal import --dir plane --tenant acme runs.jsonl\n  \
         runseal checkpoint --dir plane --tenant acme --policy trust.policy\n  \
         runseal serve --dir plane --policy trust.policy\n\n\
         Exit codes: 0 done or verified; 1 integrity finding; 2 wrong usage or input;\n  \
         3 could not finish or could not check; 4 internal fault.\n\
         Every flag can also be set as RUNSEAL_<FLAG> in the environment."
    )
)]
struct Cli {
    /// Say nothing on stderr but errors and alarms.
    #[arg(short, long, global = true, env = "RUNSEAL_QUIET", value_parser = BoolishValueParser::new())]
    quiet: bool,

    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done or verified; 1 integrity finding; 2 wrong usage or input;\n  \
     3 could not finish or could not check; 4 internal fault.";

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Args),
    Vkey(vkey::Args),
    Import(import::Args),
    Append(append::Args),
    Seal(seal::Args),
    Runs(runs::Args),
    Show(show::Args),
    Checkpoint(checkpoint::Args),
    Prove(prove::Args),
    Export(export::Args),
    Serve(serve::Args),
    Token(token::Args),
    Publish(publish::Args),
    Check(check::Args),
    #[cfg(feature = "testkit")]
    Tamper(tamper::Args),
}

/// Runs the command that this process was started with.
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

/// Runs a command line, whose first element is the program's own name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are asked for, anything else is wrong usage. A closed stream changes neither.
            drop(error.print());
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    let output = Output::new(cli.quiet);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cli.command.run(&output)));
    match outcome {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(error)) => {
            let exit = error.exit();
            if !error.is_silent() {
                output.error(&error);
            }
            exit.into()
        }
        // The panic hook has said what and where.
        Err(_) => Exit::Fault.into(),
    }
}

impl Command {
    fn run(self, output: &Output) -> Result<Exit, CliError> {
        match self {
            Self::Init(args) => init::run(&args, output),
            Self::Vkey(args) => vkey::run(&args, output),
            Self::Import(args) => import::run(&args, output),
            Self::Append(args) => append::run(&args, output),
            Self::Seal(args) => seal::run(&args, output),
            Self::Runs(args) => runs::run(&args, output),
            Self::Show(args) => show::run(&args, output),
            Self::Checkpoint(args) => checkpoint::run(&args, output),
            Self::Prove(args) => prove::run(&args, output),
            Self::Export(args) => export::run(&args, output),
            Self::Serve(args) => serve::run(&args, output),
            Self::Token(args) => token::run(&args, output),
            Self::Publish(args) => publish::run(&args, output),
            Self::Check(args) => check::run(&args, output),
            #[cfg(feature = "testkit")]
            Self::Tamper(args) => tamper::run(&args, output),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_every_command_has_an_example() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{} has no example", command.get_name());
        }
    }

    #[test]
    fn every_flag_can_be_set_in_the_environment() {
        for command in Cli::command().get_subcommands() {
            for flag in command.get_arguments().filter(|argument| !argument.is_positional()) {
                let Some(long) = flag.get_long().filter(|long| !["help", "version"].contains(long)) else {
                    continue;
                };
                let expected = format!("RUNSEAL_{}", long.to_uppercase().replace('-', "_"));
                let set = flag.get_env().map(|name| name.to_string_lossy().into_owned());
                assert_eq!(set, Some(expected), "{} --{long}", command.get_name());
            }
        }
    }
}

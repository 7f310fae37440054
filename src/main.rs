//! The `runseal` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    runseal::cli::main()
}

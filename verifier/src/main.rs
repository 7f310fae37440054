//! The `runseal-verifier` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    runseal_verifier::cli::main()
}

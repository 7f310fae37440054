//! The `runseal-witness` command; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    runseal_witness::cli::main()
}

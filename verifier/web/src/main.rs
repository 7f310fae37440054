//! Builds the page: `runseal-verifier-web [FILE]`. Without a file it goes beside the build's other results.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let file = std::env::args_os().nth(1).map(PathBuf::from);
    match runseal_verifier_web::page::build(file) {
        Ok(built) => {
            println!("{built}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("runseal-verifier-web: {error}");
            ExitCode::from(3)
        }
    }
}

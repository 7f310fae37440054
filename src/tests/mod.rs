//! Tests of the journal as a whole.

mod check;
mod commit;
mod contract;
mod cost;
mod damage;
mod kill;
mod logged;
mod model;
mod opening;
mod power;
mod rebuild;
mod story;
pub(crate) mod world;

/// How `runseal check` of a plane ends.
#[cfg(feature = "cli")]
fn check_command(plane: &std::path::Path) -> std::process::ExitCode {
    let arguments = ["runseal", "--quiet", "check", "--dir"].map(std::ffi::OsString::from);
    crate::cli::run(arguments.into_iter().chain([plane.as_os_str().to_owned()]))
}

use std::fs::File;
use std::io;
use std::path::Path;

use runseal_evidence::amount::amount;

use super::{CliError, output::Output};
use crate::{Tenant, listing::RecordsError, steps};

/// Holds a tenant's concluded runs against the file of their steps, and answers whether they bear each other out.
pub(super) fn check_steps(tenant: &Tenant, path: &Path, output: &Output) -> Result<bool, CliError> {
    let unreadable = |error| CliError::Input { path: path.to_owned(), error };
    let file = File::open(path).and_then(steps::read_for_audit).map_err(unreadable)?;
    if let Some(fault) = file.header_fault() {
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidData, fault.to_string())));
    }
    let check = steps::check(tenant, &file).map_err(RecordsError::from)?;
    let place = format!("{}: {}", tenant.id(), path.display());
    for finding in &check.findings {
        match (&finding.run, finding.seq) {
            (Some(run), Some(seq)) => {
                output.line(format_args!(
                    "{place}: run {run}, concluded by record {seq}: {}",
                    finding.detail
                ))?;
            }
            _ => output.line(format_args!("{place}: {}", finding.detail))?,
        }
    }
    for (runs, why) in [
        (&check.uncommitted, "that no conclusion commits to"),
        (&check.unreadable, "that may be in a part of the file that cannot be read"),
    ] {
        if !runs.is_empty() {
            let (steps, runs) = (amount(runs.values().sum::<u64>(), "step"), amount(runs.len(), "run"));
            output.line(format_args!("{place}: not checked: {steps} of {runs} {why}"))?;
        }
    }
    if file.torn_bytes > 0 {
        let torn = amount(file.torn_bytes, "byte");
        output.line(format_args!("{place}: {torn} of an interrupted append at the end"))?;
    }
    let verdict = if check.is_sound() { "sound" } else { "not what the runs concluded with" };
    let (steps, runs) = (amount(check.steps, "step"), amount(check.runs, "run"));
    output.line(format_args!("{place}: {verdict}; {steps} of {runs} borne out"))?;
    Ok(check.is_sound())
}

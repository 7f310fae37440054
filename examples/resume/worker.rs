//! The run: a plan of charges, each asked of a provider in the outside world and recorded once it answered.
//!
//! It knows nothing of kills. Started again, it opens the same store, goes through the same plan, and asks only
//! for what is not recorded.

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::path::Path;

use runseal::evidence::name::{CodecId, DefinitionName, RunId, StepPath, TenantId};
use runseal::steps::{Definition, InputDigest, StepKey, StepLimits, StepStore};

/// Steps of the plan.
pub(crate) const STEPS: u32 = 400;

/// Carries the run out, from wherever it got to.
pub(crate) fn work(dir: &Path) -> Result<(), Box<dyn Error>> {
    let store = StepStore::open_in(dir, &tenant()?, StepLimits::default())?;
    let run = store.run(tenant()?, run_id()?, definition()?)?;
    for number in 1..=STEPS {
        let path = StepPath::new(format!("charge/{number}"))?;
        run.step(path, |key| charge(key, number))?;
        say(&format!("recorded {number}"))?;
    }
    Ok(())
}

pub(crate) fn tenant() -> Result<TenantId, Box<dyn Error>> {
    Ok(TenantId::new("acme")?)
}

pub(crate) fn run_id() -> Result<RunId, Box<dyn Error>> {
    Ok(RunId::new("invoices-2026-11")?)
}

fn definition() -> Result<Definition, Box<dyn Error>> {
    Ok(Definition {
        name: DefinitionName::new("charge invoices")?,
        revision: 1,
        input: InputDigest::of(b"invoices of November 2026"),
        steps: STEPS,
        codec: CodecId::new("text")?,
    })
}

/// Asks the provider. The key goes along: asked again after a crash, the provider knows that it has charged.
fn charge(key: &StepKey, number: u32) -> io::Result<Vec<u8>> {
    say(&format!("charge {number} {key}"))?;
    let mut receipt = String::new();
    io::stdin().lock().read_line(&mut receipt)?;
    if receipt.ends_with('\n') {
        Ok(receipt.trim_end().into())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// A line to the outside world.
fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

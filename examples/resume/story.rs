//! The outside world: the provider that charges, and the killer.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use runseal::evidence::name::StepPath;
use runseal::steps::{StepKey, StepLimits, StepStore};

use crate::worker::{STEPS, run_id, tenant};

/// What came of it all.
#[derive(Debug)]
pub(crate) struct Told {
    /// How often the run was killed.
    pub(crate) kills: u64,
    /// Where the random moments came from.
    pub(crate) seed: u64,
    /// Charges made.
    pub(crate) charges: u64,
    /// Times the provider was asked for a charge it had made: killed between the effect and its record.
    pub(crate) asked_again: u64,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "killed {} times at random (seed {}): {STEPS} steps, {} charges, each made once; asked for again {} times, \
             where the kill came between a charge and its record, and never once it was recorded",
            self.kills, self.seed, self.charges, self.asked_again
        )
    }
}

/// Charges once a key, and keeps the books.
#[derive(Default)]
struct Provider {
    receipts: BTreeMap<String, String>,
    recorded: BTreeSet<u32>,
    asked_again: u64,
}

impl Provider {
    /// The receipt for `key`: a new charge, or the one made before.
    fn charge(&mut self, number: u32, key: &str) -> Result<String, Box<dyn Error>> {
        if self.recorded.contains(&number) {
            return Err(format!("step {number} was recorded and is asked for again").into());
        }
        let next = self.receipts.len() + 1;
        let known = self.receipts.get(key).cloned();
        self.asked_again += u64::from(known.is_some());
        let receipt = known.unwrap_or_else(|| format!("receipt {next} for invoice {number}"));
        self.receipts.insert(key.to_owned(), receipt.clone());
        Ok(receipt)
    }
}

/// Starts the run over and over, kills it at `kills` random moments, lets it end, and holds what it recorded
/// against the provider's books.
pub(crate) fn tell(
    dir: &Path,
    kills: u64,
    seed: u64,
    launch: impl Fn() -> Command,
) -> Result<Told, Box<dyn Error>> {
    let mut provider = Provider::default();
    let mut moments = Moments(seed | 1);
    for kill in 1..=kills {
        if live(&launch, &mut provider, Some(moments.next_below(6)))? {
            return Err(format!("seed {seed}: the run ended before kill {kill} of {kills}").into());
        }
    }
    if !live(&launch, &mut provider, None)? {
        return Err(format!("seed {seed}: the run does not end").into());
    }
    let charges = provider.receipts.len() as u64;
    hold(dir, &provider).map_err(|why| format!("seed {seed}: {why}"))?;
    Ok(Told { kills, seed, charges, asked_again: provider.asked_again })
}

/// One life of the run. Killed after `events` charges asked for or steps recorded; true where it ended by itself.
fn live(
    launch: &impl Fn() -> Command,
    provider: &mut Provider,
    events: Option<u64>,
) -> Result<bool, Box<dyn Error>> {
    let mut child = launch().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the run has no pipes".into());
    };
    let mut left = events;
    // The kill comes before the answer to a charge, or right behind it, while the run records it.
    let mut after_answer = false;
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        let words: Vec<_> = line.split(' ').collect();
        let dies = left == Some(0);
        match words.as_slice() {
            ["charge", number, key] => {
                let receipt = provider.charge(number.parse()?, key)?;
                after_answer = !after_answer;
                if dies && !after_answer {
                    return kill(child);
                }
                writeln!(stdin, "{receipt}")?;
            }
            ["recorded", number] => {
                provider.recorded.insert(number.parse()?);
            }
            _ => continue,
        }
        if dies {
            return kill(child);
        }
        left = left.map(|left| left.saturating_sub(1));
    }
    let status = child.wait()?;
    if status.success() { Ok(true) } else { Err(format!("the run failed by itself: {status}").into()) }
}

/// No chance to clean up: SIGKILL where there is such a thing.
fn kill(mut child: Child) -> Result<bool, Box<dyn Error>> {
    child.kill()?;
    child.wait()?;
    Ok(false)
}

/// Every step is recorded with the receipt of the one charge made for it.
fn hold(dir: &Path, provider: &Provider) -> Result<(), Box<dyn Error>> {
    let store = StepStore::open_in(dir, &tenant()?, StepLimits::default())?;
    let recorded = store.step_count(&tenant()?, &run_id()?)?;
    if recorded != u64::from(STEPS) || provider.receipts.len() as u64 != recorded {
        return Err(format!("{recorded} steps recorded, {} charges made", provider.receipts.len()).into());
    }
    for (key, receipt) in &provider.receipts {
        let key: StepKey = key.parse()?;
        let step = store.lookup(&tenant()?, &run_id()?, &key)?.ok_or("a charge is not recorded")?;
        if step.value != receipt.as_bytes() {
            let path: &StepPath = &step.path;
            return Err(format!("{path} is recorded with another receipt than {receipt:?}").into());
        }
    }
    Ok(())
}

/// Random numbers that a seed gives back.
struct Moments(u64);

impl Moments {
    fn next_below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

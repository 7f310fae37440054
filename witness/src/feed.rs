//! Pull mode: every log with a URL is looked at once an interval, each for itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::fetch::Fetcher;
use crate::logs::{Log, LogSet};
use crate::metrics::Pull;
use crate::pull::{PullError, Pulled, Puller};
use crate::witness::Witness;

/// How long one look at one log may take.
pub const PULL_TIME: Duration = Duration::from_secs(10);
/// Logs looked at at once.
const PULLS: usize = 64;
/// Most intervals between looks at a log that fails.
const BACK_OFF_MAX: u32 = 10;

/// The running pulls. Dropping it ends them.
pub struct Feed {
    witness: Arc<Witness>,
    fetcher: Fetcher,
    interval: Duration,
    turns: Arc<Semaphore>,
    pulls: HashMap<Arc<str>, Task>,
}

struct Task {
    url: String,
    handle: JoinHandle<()>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

impl Feed {
    /// A feed that looks at nothing yet.
    pub fn new(witness: Arc<Witness>, fetcher: Fetcher, interval: Duration) -> Self {
        Self { witness, fetcher, interval, turns: Arc::new(Semaphore::new(PULLS)), pulls: HashMap::new() }
    }

    /// Pulls from exactly the logs of `logs` that have a URL. Pulls of logs that stay go on.
    pub fn follow(&mut self, logs: &LogSet) {
        self.pulls.retain(|origin, task| {
            logs.find(origin).and_then(|log| log.url()).is_some_and(|url| url == task.url)
        });
        for log in logs.iter() {
            let Some(url) = log.url() else { continue };
            if !self.pulls.contains_key(log.origin()) {
                let puller = Puller::new(url, self.fetcher.clone());
                let pulling = pull_for_ever(
                    Arc::clone(&self.witness),
                    log.origin_shared(),
                    puller,
                    self.interval,
                    Arc::clone(&self.turns),
                );
                let task = Task { url: url.to_owned(), handle: tokio::spawn(pulling) };
                self.pulls.insert(log.origin_shared(), task);
            }
        }
    }
}

async fn pull_for_ever(
    witness: Arc<Witness>,
    origin: Arc<str>,
    mut puller: Puller,
    interval: Duration,
    turns: Arc<Semaphore>,
) {
    let mut failures = 0;
    let mut said = None;
    loop {
        // Its keys may have changed since the last look.
        let Some(log) = witness.logs().find(&origin).cloned() else { return };
        let turn = turns.acquire().await.expect("the semaphore is never closed");
        let pulled = tokio::time::timeout(PULL_TIME, puller.pull(&witness, &log)).await;
        drop(turn);
        let failed = match pulled {
            Ok(Ok(pulled)) => {
                succeeded(&witness, &log, pulled);
                None
            }
            Ok(Err(error)) => Some(failed(&witness, &error)),
            Err(_) => {
                witness.metrics().pull(Pull::Failed);
                Some(format!("it did not answer within {} s", PULL_TIME.as_secs()))
            }
        };
        failures = if failed.is_some() { failures + 1 } else { 0 };
        // One line when something goes wrong and one when it is well again, not one a look.
        if failed != said {
            if let Some(reason) = &failed {
                tracing::warn!(target: "feed", origin = &*origin, reason, "cannot pull from the log");
            } else {
                tracing::info!(target: "feed", origin = &*origin, "pulling from the log works again");
            }
            said = failed;
        }
        tokio::time::sleep(pause(interval, failures)).await;
    }
}

fn succeeded(witness: &Witness, log: &Log, pulled: Pulled) {
    let (pull, size) = match pulled {
        Pulled::Cosigned { size } => (Pull::Cosigned, Some(size)),
        Pulled::Refreshed => (Pull::Cosigned, None),
        Pulled::Unchanged => (Pull::Unchanged, None),
    };
    witness.metrics().pull(pull);
    tracing::debug!(target: "feed", origin = log.origin(), ?pulled, size);
}

fn failed(witness: &Witness, error: &PullError) -> String {
    let alarm = matches!(error, PullError::Alarm(_) | PullError::BadTile(_));
    witness.metrics().pull(if alarm { Pull::Alarmed } else { Pull::Failed });
    error.to_string()
}

/// The interval, doubled for each failure up to ten intervals, and a tenth more or less of it, so that
/// logs that failed together are not asked together for ever.
fn pause(interval: Duration, failures: u32) -> Duration {
    let times = 2u32.saturating_pow(failures).min(BACK_OFF_MAX);
    let whole = interval.saturating_mul(times);
    let mut byte = [0];
    // Without randomness there is no jitter; nothing depends on it.
    let _ = getrandom::fill(&mut byte);
    whole.mul_f64(0.9 + 0.2 * f64::from(byte[0]) / 255.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_log_is_asked_less_and_less_but_never_forgotten() {
        let interval = Duration::from_secs(30);
        for (failures, times) in [(0, 1), (1, 2), (2, 4), (3, 8), (4, 10), (5, 10), (u32::MAX, 10)] {
            let pause = pause(interval, failures);
            let (low, high) = (interval * times * 89 / 100, interval * times * 111 / 100);
            assert!((low..=high).contains(&pause), "{failures}: {pause:?}");
        }
    }
}

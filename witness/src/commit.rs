//! Group commit: one thread writes for everybody, many changes to a transaction, one sync for all.
//!
//! The more came with the last transaction, the longer the next one lets more come: where requests crowd,
//! they wait for the processors anyway, and transactions must not take those up (docs/adr/0007).
//!
//! Nobody is answered before the commit that holds their change is durable. A failed commit answers
//! everybody in it with an error, and the file is opened anew before anything else is written.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use crate::metrics::Metrics;
use crate::state::{Applied, Change, Store};

/// Changes waiting to be written. Whoever comes after waits with its request.
const QUEUE: usize = 4096;
/// Pause between attempts to write after a failure, when nobody asks for it.
const RETRY: Duration = Duration::from_secs(1);
/// Most changes in one transaction.
const BATCH: usize = 1024;
/// What each change of a transaction adds to how long the next one waits for more: less than two
/// processors take to verify and sign one, so that they never run out of work. A transaction costs as
/// much as verifying several requests, whether one shares it or fifty.
const PATIENCE: Duration = Duration::from_micros(25);
/// The shortest wait worth going to sleep for: few clients are never kept waiting.
const PAUSE_MIN: Duration = Duration::from_micros(100);
const PAUSE_MAX: Duration = Duration::from_millis(2);

/// A change could not be made durable; nothing may be released on its account.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
#[error("the witness could not write its state to disk")]
pub struct NotDurable;

struct Job {
    change: Change,
    answer: oneshot::Sender<Result<Applied, NotDurable>>,
}

/// The way to the writing thread. Dropping the last one ends the thread after what is queued.
#[derive(Debug, Clone)]
pub struct Commits {
    queue: mpsc::Sender<Job>,
}

impl Commits {
    /// Starts the writing thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(store: Arc<dyn Store>, metrics: Arc<Metrics>) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("commit".to_owned())
            .spawn(move || write(&*store, &metrics, jobs))?;
        Ok((Self { queue }, thread))
    }

    /// Hands a change over and waits until it is durable.
    ///
    /// # Errors
    /// [`NotDurable`].
    pub async fn submit(&self, change: Change) -> Result<Applied, NotDurable> {
        let (answer, outcome) = oneshot::channel();
        self.queue.send(Job { change, answer }).await.map_err(|_| NotDurable)?;
        outcome.await.map_err(|_| NotDurable)?
    }
}

fn write(store: &dyn Store, metrics: &Metrics, mut jobs: mpsc::Receiver<Job>) {
    let mut failed = false;
    let mut batch = Vec::with_capacity(BATCH);
    let mut not_before = Instant::now();
    loop {
        let first =
            if failed { jobs.try_recv() } else { jobs.blocking_recv().ok_or(TryRecvError::Disconnected) };
        match first {
            Ok(job) => batch.push(job),
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {
                std::thread::sleep(RETRY);
                failed = !works_again(store, metrics);
                continue;
            }
        }
        std::thread::sleep(not_before.saturating_duration_since(Instant::now()));
        while batch.len() < BATCH {
            let Ok(next) = jobs.try_recv() else { break };
            batch.push(next);
        }
        let (changes, answers): (Vec<_>, Vec<_>) =
            batch.drain(..).map(|job| (job.change, job.answer)).unzip();
        let recovered = if failed { store.recover() } else { Ok(()) };
        let started = Instant::now();
        let outcome = recovered.and_then(|()| store.commit(&changes));
        metrics.commit_seconds.observe(started.elapsed());
        not_before = Instant::now() + pause_after(changes.len());
        metrics.state_failed.store(outcome.is_err(), Ordering::Relaxed);
        if let Err(error) = &outcome {
            tracing::error!(target: "state", %error, changes = changes.len(), "cannot write the state; nothing is cosigned");
        } else if failed {
            tracing::warn!(target: "state", "the state is writable again");
        }
        failed = outcome.is_err();
        match outcome {
            Ok(applied) => {
                metrics.committed_changes.fetch_add(applied.len() as u64, Ordering::Relaxed);
                for (answer, applied) in answers.into_iter().zip(applied) {
                    // Whoever asked may have gone; the change stands all the same.
                    let _ = answer.send(Ok(applied));
                }
            }
            Err(_) => {
                for answer in answers {
                    let _ = answer.send(Err(NotDurable));
                }
            }
        }
    }
}

/// How long to let changes gather before the next transaction, after one of so many.
fn pause_after(changes: usize) -> Duration {
    let pause = PATIENCE.saturating_mul(u32::try_from(changes).unwrap_or(u32::MAX));
    if pause < PAUSE_MIN { Duration::ZERO } else { pause.min(PAUSE_MAX) }
}

/// Opens a store that failed and writes nothing to it, durably. Requests are refused before they come
/// to the queue while the state cannot be read, so that nobody else would find out.
fn works_again(store: &dyn Store, metrics: &Metrics) -> bool {
    let works = store.recover().and_then(|()| store.commit(&[])).is_ok();
    if works {
        metrics.state_failed.store(false, Ordering::Relaxed);
        tracing::warn!(target: "state", "the state is writable again");
    }
    works
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_never_wait_for_more_and_a_crowd_waits_for_a_bounded_time() {
        for changes in 0..=3 {
            assert_eq!(pause_after(changes), Duration::ZERO, "{changes}");
        }
        assert_eq!(pause_after(4), 4 * PATIENCE);
        assert_eq!(pause_after(20), 20 * PATIENCE);
        for changes in [81, BATCH, usize::MAX] {
            assert_eq!(pause_after(changes), PAUSE_MAX, "{changes}");
        }
    }
}

//! Audits of several logs for ever: at an interval, with back-off, metrics, a heartbeat and alerts.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use runseal_evidence::report::Verdict;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch::Receiver;

use crate::clock::Clock;
use crate::error::Failure;
use crate::file;
use crate::history::{History, LogHistory};
use crate::online::alert::{self, Alert, Event, Hook, SILENCE};
use crate::online::audit::Audit;
use crate::online::blocking::blocking;
use crate::online::metrics::Status;
use crate::online::progress::Progress;

/// The longest wait, in intervals, after audits that could not be finished.
const BACK_OFF_MAX: u32 = 10;

/// What to watch, and whom to tell.
#[derive(Debug)]
pub struct Watch {
    /// One audit for each log.
    pub audits: Vec<Audit>,
    /// The history that all of them share.
    pub history: Arc<History>,
    /// From the end of one audit to the start of the next.
    pub interval: Duration,
    /// Whom to tell.
    pub hooks: Vec<Hook>,
    /// Rewritten after every audit.
    pub heartbeat: Option<PathBuf>,
    /// Where fraud proofs are written.
    pub fraud_proofs: Option<PathBuf>,
}

impl Watch {
    /// Watches until `stop` says so.
    ///
    /// # Errors
    /// [`Failure`] of the history or of this process; anything a log does is told as an alert.
    pub async fn run(
        &self,
        status: &Arc<Status>,
        clock: &Arc<dyn Clock>,
        stop: Receiver<bool>,
    ) -> Result<(), Failure> {
        let watches = self.audits.iter().map(|audit| self.watch(audit, status, clock, stop.clone()));
        let all = futures_util::future::try_join_all(watches);
        all.await.map(|_| ())
    }

    async fn watch(
        &self,
        audit: &Audit,
        status: &Arc<Status>,
        clock: &Arc<dyn Clock>,
        mut stop: Receiver<bool>,
    ) -> Result<(), Failure> {
        let (history, origin) = (Arc::clone(&self.history), audit.origin.clone());
        let log = blocking(move || history.log(&origin)).await??;
        let mut unfinished = 0u32;
        while !*stop.borrow() {
            let started = Instant::now();
            let audited = tokio::select! {
                audited = audit.run(clock.as_ref(), Progress::default()) => audited?,
                // What was verified so far is kept; the next start goes on from there.
                _ = stop.changed() => return Ok(()),
            };
            let report = &audited.report;
            let now = clock.now();
            status.audited(&audit.origin, report, now, started.elapsed());
            let (verdict, findings) = (report.verdict(), report.findings.len());
            tracing::info!(origin = audit.origin, %verdict, findings, "audited");
            if let (Some(folder), Some(fraud)) = (&self.fraud_proofs, &audited.fraud) {
                let name = format!("fraud-{}-{now}.txt", file_mark(&audit.origin));
                file::write(&folder.join(name), fraud.to_string().as_bytes())?;
            }
            self.tell(&log, &audit.origin, status, |told| alert::due(told, report, &audit.origin, now))
                .await?;
            self.tell_silence(&log, &audit.origin, status, now).await?;
            if let Some(path) = &self.heartbeat {
                file::write(path, status.heartbeat(now).as_bytes())?;
            }
            unfinished = if verdict == Verdict::Incomplete { unfinished.saturating_add(1) } else { 0 };
            let wait = wait(self.interval, unfinished);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = stop.changed() => {}
            }
        }
        Ok(())
    }

    async fn tell_silence(
        &self,
        log: &LogHistory,
        origin: &str,
        status: &Status,
        now: u64,
    ) -> Result<(), Failure> {
        if !status.is_silent(origin, now) {
            return Ok(());
        }
        let detail = "no audit of this log has come to an end for too long".to_owned();
        let alert = Alert {
            alert: 1,
            event: Event::Silence,
            origin: origin.to_owned(),
            time: now,
            finding: None,
            detail,
        };
        self.tell(log, origin, status, |told| {
            if told.contains(SILENCE) { Vec::new() } else { vec![(Some(SILENCE.to_owned()), alert.clone())] }
        })
        .await
    }

    /// Tells each hook what is due to it, and remembers what it took: one that fails holds up no other.
    async fn tell(
        &self,
        log: &LogHistory,
        origin: &str,
        status: &Status,
        due: impl Fn(&BTreeSet<String>) -> Vec<(Option<String>, Alert)>,
    ) -> Result<(), Failure> {
        let history = log.clone();
        let before = blocking(move || history.told()).await??;
        let mut told = before.clone();
        for hook in &self.hooks {
            let prefix = format!("{}\n", hook.name());
            let own = |told: &BTreeSet<String>| -> BTreeSet<String> {
                told.iter().filter_map(|key| key.strip_prefix(&prefix)).map(str::to_owned).collect()
            };
            for (key, alert) in due(&own(&before)) {
                let taken = hook.tell(&alert).await;
                status.alerted(origin, taken.is_ok());
                match (taken, key) {
                    (Ok(()), Some(key)) => drop(told.insert(format!("{prefix}{key}"))),
                    (Ok(()), None) => told.retain(|key| !key.starts_with(&prefix)),
                    // It stays due, and is told again after the next audit.
                    (Err(error), _) => tracing::error!(origin, %error, "an alert was not taken"),
                }
            }
        }
        if told != before {
            let history = log.clone();
            blocking(move || history.keep_told(&told)).await??;
        }
        Ok(())
    }
}

/// Part of a file name that an origin cannot misuse.
fn file_mark(origin: &str) -> String {
    hex::encode(&Sha256::digest(origin.as_bytes())[..8])
}

/// The interval, longer after each audit that could not be finished, and never quite the same.
fn wait(interval: Duration, unfinished: u32) -> Duration {
    let factor = 2u32.saturating_pow(unfinished.saturating_sub(1)).clamp(1, BACK_OFF_MAX);
    let random = RandomState::new().build_hasher().finish();
    let jitter = (interval / 1000).saturating_mul(u32::try_from(random % 101).expect("below 101"));
    interval.saturating_mul(factor).saturating_add(jitter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_ten_intervals_and_differ_a_little() {
        let interval = Duration::from_secs(10);
        for (unfinished, least) in [(0, 10), (1, 10), (2, 20), (3, 40), (4, 80), (5, 100), (60, 100)] {
            let wait = wait(interval, unfinished).as_secs_f64();
            assert!((f64::from(least)..=f64::from(least) + 1.0).contains(&wait), "{unfinished}: {wait}");
        }
    }
}

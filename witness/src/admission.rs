//! Fairness between logs: how many requests of one log are worked on at once, and how many it may
//! make a day.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Requests of one log in work at once; more wait in line. However many connections a log opens, the
/// others find the processors and the writing thread free.
const TURNS: usize = 16;
/// The burst that even a small daily allowance grants.
const BURST_MIN: u64 = 10;
const DAY_SECONDS: u64 = 86_400;
const HOURS_A_DAY: u64 = 24;

/// The most requests an allowance grants at once: ten or an hour's share, whichever is more, and
/// never more than the day's allowance.
const fn burst(queries_per_day: u64) -> u64 {
    let hour = queries_per_day / HOURS_A_DAY;
    let larger = if hour > BURST_MIN { hour } else { BURST_MIN };
    if larger > queries_per_day { queries_per_day } else { larger }
}

/// One log's place in line and its bucket. It outlives reloads of the lists.
#[derive(Debug)]
pub struct Gate {
    turns: Semaphore,
    bucket: Mutex<Option<Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// In parts of a request: [`PARTS`] make one. A day's allowance of `n` refills `n` parts a
    /// millisecond, which keeps the arithmetic exact.
    level: u128,
    at: Duration,
}

/// Milliseconds in a day.
const PARTS: u128 = DAY_SECONDS as u128 * 1000;

impl Default for Gate {
    fn default() -> Self {
        Self { turns: Semaphore::new(TURNS), bucket: Mutex::new(None) }
    }
}

impl Gate {
    /// Waits for a turn, which ends when the answer is dropped.
    pub(crate) async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("the semaphore is never closed")
    }

    /// Takes one request off the allowance at time `now` of a clock that never runs backwards.
    ///
    /// # Errors
    /// The seconds to wait, when nothing is left.
    pub fn admit(&self, queries_per_day: u64, now: Duration) -> Result<(), u64> {
        let full = u128::from(burst(queries_per_day)) * PARTS;
        let mut slot = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = slot.get_or_insert(Bucket { level: full, at: now });
        let refilled = now.saturating_sub(bucket.at).as_millis() * u128::from(queries_per_day);
        bucket.level = (bucket.level + refilled).min(full);
        bucket.at = now;
        if let Some(rest) = bucket.level.checked_sub(PARTS) {
            bucket.level = rest;
            return Ok(());
        }
        let milliseconds = (PARTS - bucket.level).div_ceil(u128::from(queries_per_day.max(1)));
        Err(u64::try_from(milliseconds.div_ceil(1000)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(gate: &Gate, queries_per_day: u64, at: Duration) -> u64 {
        (0..100_000).take_while(|_| gate.admit(queries_per_day, at).is_ok()).count() as u64
    }

    #[test]
    fn the_burst_is_ten_or_an_hours_share_and_never_over_the_day() {
        for (allowance, expected) in
            [(1, 1), (9, 9), (10, 10), (24, 10), (240, 10), (264, 11), (86_400, 3_600)]
        {
            assert_eq!(taken(&Gate::default(), allowance, Duration::ZERO), expected, "{allowance}");
        }
    }

    #[test]
    fn an_allowance_refills_evenly_and_not_beyond_the_burst() {
        let gate = Gate::default();
        assert_eq!(taken(&gate, 24, Duration::ZERO), 10);
        assert_eq!(gate.admit(24, Duration::from_secs(1)), Err(3_599));
        assert_eq!(gate.admit(24, Duration::from_millis(3_599_999)), Err(1));
        assert_eq!(taken(&gate, 24, Duration::from_hours(1)), 1);
        assert_eq!(taken(&gate, 24, Duration::from_hours(4)), 3);
        assert_eq!(taken(&gate, 24, Duration::from_hours(1_000)), 10);
    }

    #[test]
    fn over_a_day_nobody_gets_more_than_allowance_and_burst() {
        let gate = Gate::default();
        let minutes = (0..=24 * 60).map(|minute| taken(&gate, 100, Duration::from_mins(minute)));
        assert_eq!(minutes.sum::<u64>(), 100 + 10);
    }
}

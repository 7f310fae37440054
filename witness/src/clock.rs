//! Time, as the witness sees it. Nothing else here reads a clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use thiserror::Error;

/// How far the clock may lie behind the last cosignature of a log before the witness refuses to sign.
/// Within it the last time is repeated.
pub const BEHIND_MAX_SECONDS: u64 = 60;

/// 2024-01-01T00:00:00Z. A clock before it was never set.
const PLAUSIBLE_FROM: u64 = 1_704_067_200;
/// 2100-01-01T00:00:00Z. A time signed by mistake would forbid every honest one until then.
const PLAUSIBLE_BEFORE: u64 = 4_102_444_800;

/// Where times come from.
pub trait Clock: Send + Sync + 'static {
    /// POSIX seconds, as far as the machine knows.
    fn now(&self) -> u64;
    /// Time since some fixed moment; never runs backwards.
    fn elapsed(&self) -> Duration;
}

/// Why a clock is not signed by.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
#[non_exhaustive]
pub enum ClockFault {
    /// The clock says a time before 2024 or after 2099.
    #[error("this witness's clock says {0}, which is not a plausible time")]
    Implausible(u64),
    /// The clock ran backwards by more than [`BEHIND_MAX_SECONDS`].
    #[error(
        "this witness's clock says {now}, more than {BEHIND_MAX_SECONDS} s before {last}, when it last cosigned this log"
    )]
    Behind {
        /// What the clock says.
        now: u64,
        /// The time of the log's last cosignature.
        last: u64,
    },
}

/// The time to sign with after `last`, the time of the log's last cosignature (0 for none).
///
/// # Errors
/// [`ClockFault`].
pub fn time_after(now: u64, last: u64) -> Result<u64, ClockFault> {
    if !(PLAUSIBLE_FROM..PLAUSIBLE_BEFORE).contains(&now) {
        return Err(ClockFault::Implausible(now));
    }
    if last.saturating_sub(now) > BEHIND_MAX_SECONDS {
        return Err(ClockFault::Behind { now, last });
    }
    Ok(now.max(last))
}

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// The machine's clock; `elapsed` counts from here.
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> u64 {
        #[expect(clippy::disallowed_methods, reason = "the crate's one reading of the wall clock")]
        let now = SystemTime::now();
        // A clock before 1970 is as implausible as one at 1970.
        now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn time_never_runs_backwards_and_a_clock_far_behind_signs_nothing() {
        assert_eq!(time_after(NOW, 0), Ok(NOW));
        assert_eq!(time_after(NOW, NOW), Ok(NOW));
        assert_eq!(time_after(NOW, NOW - 1), Ok(NOW));
        assert_eq!(time_after(NOW, NOW + 60), Ok(NOW + 60));
        assert_eq!(time_after(NOW, NOW + 61), Err(ClockFault::Behind { now: NOW, last: NOW + 61 }));
    }

    #[test]
    fn a_clock_that_was_never_set_signs_nothing() {
        for now in [0, 1, 1_704_067_199, 4_102_444_800, 1 << 63, u64::MAX] {
            assert_eq!(time_after(now, 0), Err(ClockFault::Implausible(now)));
        }
    }
}

//! The time of day, handed in so that tests decide it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time in whole POSIX seconds.
pub trait Clock: Send + Sync {
    /// Seconds since 1970-01-01T00:00:00Z; 0 for a clock before that.
    fn now(&self) -> u64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    fn now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}

/// A POSIX time as people read it, `2026-11-30T15:51:19Z`; the bare number where no calendar holds it.
pub fn spell(time: u64) -> String {
    let stamp = i64::try_from(time).ok().and_then(|time| jiff::Timestamp::from_second(time).ok());
    stamp.map_or_else(|| format!("POSIX time {time}"), |stamp| stamp.to_string())
}

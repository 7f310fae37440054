//! Counters and histograms, in Prometheus text. The set of series is fixed: nothing that a client
//! sends becomes a label.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the histograms, seconds.
const BOUNDS: [f64; 14] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// How long something took, how often.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Histogram {
    /// Counts one duration.
    pub fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        if let Some(bucket) = BOUNDS.iter().position(|bound| seconds <= *bound) {
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    fn write(&self, page: &mut String, name: &str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut below = 0;
        for (bound, bucket) in BOUNDS.iter().zip(&self.buckets) {
            below += bucket.load(Ordering::Relaxed);
            line(page, &format!("{name}_bucket{{{labels}{comma}le=\"{bound}\"}}"), below);
        }
        let count = self.count.load(Ordering::Relaxed);
        line(page, &format!("{name}_bucket{{{labels}{comma}le=\"+Inf\"}}"), count);
        let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let sum = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)).as_secs_f64();
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(page, "{name}_sum{braced} {sum}");
        line(page, &format!("{name}_count{braced}"), count);
    }
}

/// What a request asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `add-checkpoint`.
    AddCheckpoint,
    /// `sign-subtree`.
    SignSubtree,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the labels, explained in docs/witness-operator.md")]
pub enum Outcome {
    Signed,
    Malformed,
    UnknownOrigin,
    NotSigned,
    OldSize,
    Conflict,
    Inconsistent,
    OverQuota,
    TooLong,
    TimedOut,
    Clock,
    Unavailable,
}

impl Outcome {
    const ALL: [Self; 12] = [
        Self::Signed,
        Self::Malformed,
        Self::UnknownOrigin,
        Self::NotSigned,
        Self::OldSize,
        Self::Conflict,
        Self::Inconsistent,
        Self::OverQuota,
        Self::TooLong,
        Self::TimedOut,
        Self::Clock,
        Self::Unavailable,
    ];

    /// The label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Signed => "signed",
            Self::Malformed => "malformed",
            Self::UnknownOrigin => "unknown_origin",
            Self::NotSigned => "not_signed",
            Self::OldSize => "old_size",
            Self::Conflict => "conflict",
            Self::Inconsistent => "inconsistent",
            Self::OverQuota => "over_quota",
            Self::TooLong => "too_long",
            Self::TimedOut => "timed_out",
            Self::Clock => "clock",
            Self::Unavailable => "unavailable",
        }
    }
}

/// How fetching from a log ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the labels, explained in docs/witness-operator.md")]
pub enum Pull {
    Cosigned,
    Unchanged,
    Failed,
    Alarmed,
}

impl Pull {
    const ALL: [Self; 4] = [Self::Cosigned, Self::Unchanged, Self::Failed, Self::Alarmed];

    const fn name(self) -> &'static str {
        match self {
            Self::Cosigned => "cosigned",
            Self::Unchanged => "unchanged",
            Self::Failed => "failed",
            Self::Alarmed => "alarmed",
        }
    }
}

#[derive(Debug, Default)]
struct CallMetrics {
    outcomes: [AtomicU64; Outcome::ALL.len()],
    seconds: Histogram,
}

/// Everything counted.
#[derive(Debug, Default)]
pub struct Metrics {
    calls: [CallMetrics; 2],
    pulls: [AtomicU64; Pull::ALL.len()],
    /// How long commits took.
    pub commit_seconds: Histogram,
    /// Changes made durable.
    pub committed_changes: AtomicU64,
    /// New alarms since the start.
    pub alarms: AtomicU64,
    /// Open connections.
    pub connections: AtomicU64,
    /// Lists that could not be read or were refused at a reload.
    pub reload_failures: AtomicU64,
    /// Logs followed.
    pub logs: AtomicU64,
    /// Whether the last commit failed.
    pub state_failed: AtomicBool,
}

impl Metrics {
    /// Counts one request.
    pub fn request(&self, call: Call, outcome: Outcome, took: Duration) {
        let metrics = &self.calls[call as usize];
        metrics.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
        metrics.seconds.observe(took);
    }

    /// Counts one fetch from a log.
    pub fn pull(&self, pull: Pull) {
        self.pulls[pull as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The page for Prometheus.
    pub fn page(&self) -> String {
        let mut page = String::with_capacity(8 * 1024);
        let calls = [("add-checkpoint", Call::AddCheckpoint), ("sign-subtree", Call::SignSubtree)];
        let name = "runseal_witness_requests_total";
        head(&mut page, name, "counter", "Requests by call and outcome.");
        for (label, call) in calls {
            for outcome in Outcome::ALL {
                let count = self.calls[call as usize].outcomes[outcome as usize].load(Ordering::Relaxed);
                line(&mut page, &format!("{name}{{call=\"{label}\",outcome=\"{}\"}}", outcome.name()), count);
            }
        }
        let name = "runseal_witness_request_seconds";
        head(&mut page, name, "histogram", "Time from a request's body to its answer.");
        for (label, call) in calls {
            self.calls[call as usize].seconds.write(&mut page, name, &format!("call=\"{label}\""));
        }
        let name = "runseal_witness_commit_seconds";
        head(&mut page, name, "histogram", "Time of a commit, the sync to disk included.");
        self.commit_seconds.write(&mut page, name, "");
        let name = "runseal_witness_pulls_total";
        head(&mut page, name, "counter", "Fetches from logs by outcome.");
        for pull in Pull::ALL {
            let count = self.pulls[pull as usize].load(Ordering::Relaxed);
            line(&mut page, &format!("{name}{{outcome=\"{}\"}}", pull.name()), count);
        }
        let single = [
            (
                "runseal_witness_committed_changes_total",
                "counter",
                "Changes made durable.",
                &self.committed_changes,
            ),
            (
                "runseal_witness_alarms_total",
                "counter",
                "New integrity alarms since the start.",
                &self.alarms,
            ),
            (
                "runseal_witness_reload_failures_total",
                "counter",
                "Lists of logs that could not be read or were refused.",
                &self.reload_failures,
            ),
            ("runseal_witness_connections", "gauge", "Open connections.", &self.connections),
            ("runseal_witness_logs", "gauge", "Logs followed.", &self.logs),
        ];
        for (name, kind, help, value) in single {
            head(&mut page, name, kind, help);
            line(&mut page, name, value.load(Ordering::Relaxed));
        }
        let name = "runseal_witness_state_writable";
        head(&mut page, name, "gauge", "1 while the state can be written, 0 after a failed commit.");
        line(&mut page, name, u64::from(!self.state_failed.load(Ordering::Relaxed)));
        page
    }
}

fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(page: &mut String, series: &str, value: u64) {
    let _ = writeln!(page, "{series} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_counts_what_happened_and_its_buckets_add_up() {
        let metrics = Metrics::default();
        metrics.request(Call::AddCheckpoint, Outcome::Signed, Duration::from_micros(200));
        metrics.request(Call::AddCheckpoint, Outcome::Signed, Duration::from_millis(2));
        metrics.request(Call::SignSubtree, Outcome::Malformed, Duration::from_secs(9));
        let page = metrics.page();
        for expected in [
            "runseal_witness_requests_total{call=\"add-checkpoint\",outcome=\"signed\"} 2\n",
            "runseal_witness_requests_total{call=\"sign-subtree\",outcome=\"malformed\"} 1\n",
            "runseal_witness_request_seconds_bucket{call=\"add-checkpoint\",le=\"0.0001\"} 0\n",
            "runseal_witness_request_seconds_bucket{call=\"add-checkpoint\",le=\"0.00025\"} 1\n",
            "runseal_witness_request_seconds_bucket{call=\"add-checkpoint\",le=\"0.0025\"} 2\n",
            "runseal_witness_request_seconds_bucket{call=\"sign-subtree\",le=\"5\"} 0\n",
            "runseal_witness_request_seconds_bucket{call=\"sign-subtree\",le=\"+Inf\"} 1\n",
            "runseal_witness_state_writable 1\n",
        ] {
            assert!(page.contains(expected), "{expected}{page}");
        }
        let names: Vec<&str> = Outcome::ALL.iter().map(|outcome| outcome.name()).collect();
        for (position, outcome) in Outcome::ALL.iter().enumerate() {
            assert_eq!(*outcome as usize, position, "{names:?}");
        }
    }
}

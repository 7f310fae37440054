//! What the server knows of itself: shown at `/healthz` and `/metrics`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use serde::Serialize;

/// How a tenant's log is doing.
#[derive(Clone, Debug, Default)]
pub(super) struct LogHealth {
    /// Size of the checkpoint being served.
    pub(super) size: u64,
    /// When it was published by this process.
    pub(super) published: Option<Instant>,
    /// When a checkpoint last met its quorum in this process.
    pub(super) quorum: Option<Instant>,
    pub(super) publications: u64,
    pub(super) under_quorum: u64,
    pub(super) held: u64,
    pub(super) failures: u64,
    /// When the self-check last finished.
    pub(super) checked: Option<Instant>,
    /// What it found.
    pub(super) contradiction: Option<String>,
    /// Why nothing is published any more. Stays until the process is started again.
    pub(super) alarm: Option<String>,
    /// Why the last attempt to publish came to nothing, where it did not raise an alarm.
    pub(super) trouble: Option<String>,
}

/// Counters and states. Their number depends on the tenants of the plane and the routes there are, never on
/// what is asked.
#[derive(Debug)]
pub(super) struct Health {
    started: Instant,
    logs: Mutex<BTreeMap<String, LogHealth>>,
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    pub(super) connections: AtomicU64,
    pub(super) refused_connections: AtomicU64,
}

impl Health {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            logs: Mutex::default(),
            requests: Mutex::default(),
            connections: AtomicU64::new(0),
            refused_connections: AtomicU64::new(0),
        }
    }

    /// Changes what is known of a log.
    pub(super) fn of_log(&self, log: &str, change: impl FnOnce(&mut LogHealth)) {
        change(lock(&self.logs).entry(log.to_owned()).or_default());
    }

    /// Counts an answer. The statuses are those the server gives, so the series are few.
    pub(super) fn count(&self, route: &'static str, status: u16) {
        *lock(&self.requests).entry((route, status)).or_default() += 1;
    }

    /// Whether a log stopped being published, or contradicts itself.
    pub(super) fn is_alarmed(&self) -> bool {
        lock(&self.logs).values().any(|log| log.alarm.is_some() || log.contradiction.is_some())
    }

    /// The health as JSON; the logs are named only to those who may know of them.
    pub(super) fn to_json(&self, name_logs: bool) -> String {
        let status = if self.is_alarmed() { "integrity-alarm" } else { "ok" };
        let logs = name_logs.then(|| {
            let logs = lock(&self.logs);
            let shown = |(name, log): (&String, &LogHealth)| {
                let LogHealth { size, alarm, contradiction, trouble, .. } = log.clone();
                (name.clone(), ShownLog { size, alarm, contradiction, trouble })
            };
            logs.iter().map(shown).collect()
        });
        serde_json::to_string(&Shown { status, logs }).expect("strings and numbers always serialise")
    }

    /// The Prometheus text format.
    pub(super) fn to_metrics(&self) -> String {
        let mut text = String::new();
        let uptime = self.started.elapsed().as_secs_f64();
        gauge(&mut text, "runseal_uptime_seconds", "Seconds since the server started.", uptime);
        let connections = self.connections.load(Ordering::Relaxed);
        gauge(&mut text, "runseal_connections", "Connections open.", connections);
        family(&mut text, "runseal_connections_refused_total", "counter", "Connections closed at the limit.");
        line(
            &mut text,
            "runseal_connections_refused_total",
            "",
            self.refused_connections.load(Ordering::Relaxed),
        );
        family(&mut text, "runseal_requests_total", "counter", "Requests answered, by route and status.");
        for ((route, status), count) in lock(&self.requests).iter() {
            let labels = format!("{{route=\"{route}\",status=\"{status}\"}}");
            line(&mut text, "runseal_requests_total", &labels, count);
        }
        let logs = lock(&self.logs).clone();
        for (name, kind, help, read) in LOG_SERIES {
            family(&mut text, name, kind, help);
            for (log, health) in &logs {
                if let Some(value) = read(health) {
                    line(&mut text, name, &format!("{{tenant=\"{log}\"}}"), value);
                }
            }
        }
        text
    }
}

type LogSeries = (&'static str, &'static str, &'static str, fn(&LogHealth) -> Option<f64>);

/// One series a log. The names of logs hold nothing that a label would have to escape.
const LOG_SERIES: [LogSeries; 10] = [
    ("runseal_log_size", "gauge", "Entries under the published checkpoint.", |log| Some(number(log.size))),
    ("runseal_published_age_seconds", "gauge", "Seconds since this process published a checkpoint.", |log| {
        log.published.map(|at| at.elapsed().as_secs_f64())
    }),
    ("runseal_quorum_age_seconds", "gauge", "Seconds since a checkpoint met its quorum.", |log| {
        log.quorum.map(|at| at.elapsed().as_secs_f64())
    }),
    ("runseal_publications_total", "counter", "Checkpoints published.", |log| Some(number(log.publications))),
    (
        "runseal_publications_under_quorum_total",
        "counter",
        "Checkpoints published without a quorum.",
        |log| Some(number(log.under_quorum)),
    ),
    ("runseal_publications_held_total", "counter", "Checkpoints held back for want of a quorum.", |log| {
        Some(number(log.held))
    }),
    ("runseal_witness_failures_total", "counter", "Witnesses that did not cosign when asked.", |log| {
        Some(number(log.failures))
    }),
    ("runseal_check_age_seconds", "gauge", "Seconds since the self-check finished.", |log| {
        log.checked.map(|at| at.elapsed().as_secs_f64())
    }),
    ("runseal_check_contradiction", "gauge", "1 where the self-check found a contradiction.", |log| {
        log.checked.map(|_| if log.contradiction.is_some() { 1.0 } else { 0.0 })
    }),
    ("runseal_integrity_alarm", "gauge", "1 where publication stopped for an integrity alarm.", |log| {
        Some(if log.alarm.is_some() { 1.0 } else { 0.0 })
    }),
];

#[derive(Serialize)]
struct Shown {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    logs: Option<BTreeMap<String, ShownLog>>,
}

#[derive(Serialize)]
struct ShownLog {
    size: u64,
    alarm: Option<String>,
    contradiction: Option<String>,
    trouble: Option<String>,
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus numbers are floating point")]
fn number(count: u64) -> f64 {
    count as f64
}

fn gauge(text: &mut String, name: &str, help: &str, value: impl std::fmt::Display) {
    family(text, name, "gauge", help);
    line(text, name, "", value);
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string never fails.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "{name}{labels} {value}");
}

/// A panic elsewhere leaves counters that are at worst one behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

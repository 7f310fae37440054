//! The state of watched logs, as Prometheus metrics and as a health answer.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runseal_evidence::report::{Report, Verdict};
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::error::Failure;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 64;
/// Longest request head.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Longest time for one exchange.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// What is known of one watched log.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LogStatus {
    /// The verdict of the latest audit.
    pub verdict: Option<Verdict>,
    /// Entries at the latest checkpoint.
    pub size: u64,
    /// When an audit last came to an end, POSIX seconds.
    pub last_complete: u64,
    /// When an audit last verified everything.
    pub last_verified: u64,
    /// The newest valid cosignature.
    pub newest_cosignature: u64,
    /// Findings of the latest audit.
    pub findings: u64,
    /// Gaps of the latest audit.
    pub not_checked: u64,
    /// Audits so far, by verdict: verified, tampered, incomplete.
    pub audits: [u64; 3],
    /// Bytes read so far.
    pub bytes: u64,
    /// Alerts told, and alerts that nobody took.
    pub alerts: [u64; 2],
    /// How long the latest audit took.
    pub seconds: f64,
}

/// All watched logs.
#[derive(Debug)]
pub struct Status {
    logs: Mutex<BTreeMap<String, LogStatus>>,
    silence: Duration,
    started: u64,
}

impl Status {
    /// Nothing audited yet at `started`; healthy as long as no log is silent for `silence`.
    pub fn new(origins: impl Iterator<Item = String>, silence: Duration, started: u64) -> Self {
        let logs = origins.map(|origin| (origin, LogStatus::default())).collect();
        Self { logs: Mutex::new(logs), silence, started }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, LogStatus>> {
        // Each field is written whole, so what a panic left behind is still true.
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an audit.
    pub fn audited(&self, origin: &str, report: &Report, now: u64, took: Duration) {
        let mut logs = self.lock();
        let log = logs.entry(origin.to_owned()).or_default();
        let verdict = report.verdict();
        log.verdict = Some(verdict);
        if let Some(state) = &report.log {
            log.size = state.size;
        }
        let at = match verdict {
            Verdict::Verified => 0,
            Verdict::Tampered => 1,
            Verdict::Incomplete => 2,
        };
        log.audits[at] += 1;
        if verdict != Verdict::Incomplete {
            log.last_complete = now;
        }
        if verdict == Verdict::Verified {
            log.last_verified = now;
        }
        let times = report.cosignatures.iter().filter_map(|line| line.time);
        log.newest_cosignature = log.newest_cosignature.max(times.max().unwrap_or(0));
        log.findings = report.findings.len() as u64;
        log.not_checked = report.not_checked.iter().filter(|gap| gap.is_gap).count() as u64;
        log.bytes += report.counts.bytes;
        log.seconds = took.as_secs_f64();
    }

    /// Takes in an alert that was told, or that nobody took.
    pub fn alerted(&self, origin: &str, told: bool) {
        let mut logs = self.lock();
        logs.entry(origin.to_owned()).or_default().alerts[usize::from(!told)] += 1;
    }

    /// Whether no audit of this log has come to an end for too long.
    pub fn is_silent(&self, origin: &str, now: u64) -> bool {
        let last = self.lock().get(origin).map_or(0, |log| log.last_complete);
        now.saturating_sub(last.max(self.started)) > self.silence.as_secs()
    }

    /// Whether no log is silent.
    pub fn is_healthy(&self, now: u64) -> bool {
        let origins: Vec<String> = self.lock().keys().cloned().collect();
        !origins.iter().any(|origin| self.is_silent(origin, now))
    }

    /// The heartbeat file's content.
    pub fn heartbeat(&self, now: u64) -> String {
        let logs = self.lock().clone();
        let mut text = serde_json::json!({ "time": now, "logs": logs }).to_string();
        text.push('\n');
        text
    }

    /// The metrics page.
    pub fn metrics(&self, now: u64) -> String {
        let logs = self.lock().clone();
        let mut page = Page { logs: &logs, out: String::new() };
        page.family("audits_total", "counter", "Audits so far.", |log| {
            let verdicts = ["verified", "tampered", "incomplete"].iter().zip(log.audits);
            verdicts.map(|(verdict, count)| (format!(",verdict=\"{verdict}\""), number(count))).collect()
        });
        let times: [Series; 3] = [
            ("last_complete_timestamp_seconds", "When an audit last came to an end.", |log| {
                log.last_complete
            }),
            ("last_verified_timestamp_seconds", "When an audit last verified everything.", |log| {
                log.last_verified
            }),
            ("newest_cosignature_timestamp_seconds", "The newest cosignature's own time.", |log| {
                log.newest_cosignature
            }),
        ];
        let gauges: [Series; 3] = [
            ("log_size", "Entries at the latest checkpoint.", |log| log.size),
            ("findings", "Findings of the latest audit.", |log| log.findings),
            ("not_checked", "Gaps of the latest audit.", |log| log.not_checked),
        ];
        for (name, help, value) in times.into_iter().chain(gauges) {
            page.family(name, "gauge", help, |log| vec![(String::new(), number(value(log)))]);
        }
        page.family("audit_seconds", "gauge", "How long the latest audit took.", |log| {
            vec![(String::new(), log.seconds)]
        });
        let counters: [Series; 3] = [
            ("read_bytes_total", "Bytes read.", |log| log.bytes),
            ("alerts_total", "Alerts told.", |log| log.alerts[0]),
            ("alerts_failed_total", "Alerts that nobody took.", |log| log.alerts[1]),
        ];
        for (name, help, value) in counters {
            page.family(name, "counter", help, |log| vec![(String::new(), number(value(log)))]);
        }
        let healthy = u8::from(self.is_healthy(now));
        page.out
            + &format!(
                "# HELP runseal_verifier_healthy Whether no log is silent.\n# TYPE runseal_verifier_healthy gauge\nrunseal_verifier_healthy {healthy}\n"
            )
    }
}

/// Name, help and value of a family with one number a log.
type Series = (&'static str, &'static str, fn(&LogStatus) -> u64);

/// A metrics page being written.
struct Page<'l> {
    logs: &'l BTreeMap<String, LogStatus>,
    out: String,
}

impl Page<'_> {
    /// One family; `rows` gives further labels, each behind a comma, and values.
    fn family(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        rows: impl Fn(&LogStatus) -> Vec<(String, f64)>,
    ) {
        let name = format!("runseal_verifier_{name}");
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (origin, log) in self.logs {
            for (labels, value) in rows(log) {
                let _ = writeln!(self.out, "{name}{{origin=\"{}\"{labels}}} {value}", label(origin));
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a Prometheus value is a double")]
fn number(value: u64) -> f64 {
    value as f64
}

/// A label value in the exposition format.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Serves `/metrics` and `/healthz` until dropped.
///
/// # Errors
/// [`Failure::Bind`].
pub async fn serve(
    address: SocketAddr,
    status: Arc<Status>,
    clock: Arc<dyn Clock>,
) -> Result<(SocketAddr, tokio::task::JoinHandle<()>), Failure> {
    let bind = |source| Failure::Bind { address: address.to_string(), source };
    let listener = TcpListener::bind(address).await.map_err(bind)?;
    let local = listener.local_addr().map_err(bind)?;
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let task = tokio::spawn(async move {
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                // Out of descriptors: wait for some to come back.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (status, clock) = (Arc::clone(&status), Arc::clone(&clock));
            tokio::spawn(async move {
                let _ = tokio::time::timeout(EXCHANGE_TIMEOUT, answer(stream, &status, clock.now())).await;
                drop(slot);
            });
        }
    });
    Ok((local, task))
}

async fn answer(mut stream: TcpStream, status: &Status, now: u64) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 1024];
        let read = stream.read(&mut piece).await?;
        if read == 0 || head.len() + read > HEAD_BYTES_MAX {
            return Ok(());
        }
        head.extend_from_slice(&piece[..read]);
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let (code, kind, body) = match line.split(|byte| *byte == b' ').collect::<Vec<_>>().as_slice() {
        [b"GET" | b"HEAD", b"/metrics", _] => ("200 OK", "text/plain; version=0.0.4", status.metrics(now)),
        [b"GET" | b"HEAD", b"/healthz", _] if status.is_healthy(now) => {
            ("200 OK", "text/plain", "ok\n".to_owned())
        }
        [b"GET" | b"HEAD", b"/healthz", _] => {
            ("503 Service Unavailable", "text/plain", "a log is silent\n".to_owned())
        }
        [b"GET" | b"HEAD", ..] => ("404 Not Found", "text/plain", "not found\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "GET only\n".to_owned()),
    };
    let body = if line.starts_with(b"HEAD") { String::new() } else { body };
    let head = format!(
        "HTTP/1.1 {code}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use runseal_evidence::report::{Command, Scope};

    use super::*;

    #[test]
    fn silence_is_measured_from_the_last_audit_that_came_to_an_end() {
        let status = Status::new(["a".to_owned()].into_iter(), Duration::from_mins(1), 1_000);
        assert!(!status.is_silent("a", 1_060) && status.is_silent("a", 1_061));
        let mut report = Report::new(Command::Audit, Scope::Log);
        status.audited("a", &report, 1_050, Duration::ZERO);
        assert!(status.is_silent("a", 1_061), "an incomplete audit does not end it");
        report.passed("root", "");
        status.audited("a", &report, 1_062, Duration::ZERO);
        assert!(!status.is_silent("a", 1_120) && !status.is_healthy(1_123));
        let metrics = status.metrics(1_100);
        assert!(
            metrics.contains("runseal_verifier_audits_total{origin=\"a\",verdict=\"verified\"} 1"),
            "{metrics}"
        );
        assert!(
            metrics.contains("runseal_verifier_last_verified_timestamp_seconds{origin=\"a\"} 1062"),
            "{metrics}"
        );
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}

//! Alerts: told once, to a command or an HTTP endpoint, and again only when a thing comes back.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use runseal_evidence::finding::Finding;
use runseal_evidence::report::{Report, Verdict};
use serde::Serialize;
use thiserror::Error;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use url::Url;

use crate::online::http::{Client, FetchError};

/// Longest time for one alert.
const HOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// Whom to tell.
#[derive(Debug)]
pub enum Hook {
    /// A program, given the alert as one JSON line on stdin.
    Command(String),
    /// An address that takes the alert as a POST.
    Post(Box<Client>, Url),
}

/// Why nobody was told.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HookError {
    /// The program cannot be run.
    #[error("the alert command {program:?} cannot be run: {source}")]
    Run {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// The program says that it failed.
    #[error("the alert command {program:?} ended with {status}")]
    Status {
        /// The program.
        program: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// It takes too long.
    #[error("the alert was not taken within {} s", HOOK_TIMEOUT.as_secs())]
    Timeout,
    /// The address does not take it.
    #[error(transparent)]
    Post(#[from] FetchError),
}

/// One thing to tell.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Alert {
    /// The form of this object.
    pub alert: u64,
    /// What happened.
    pub event: Event,
    /// The log concerned.
    pub origin: String,
    /// When, POSIX seconds.
    pub time: u64,
    /// The finding, where the event is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
    /// For people.
    pub detail: String,
}

/// What an alert is about.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Something was found.
    Finding,
    /// No audit has come to an end for too long.
    Silence,
    /// What was told before is over.
    Recovery,
    /// Somebody tries whether alerts arrive.
    Test,
}

impl Hook {
    /// What tells this hook from others: each is told for itself.
    pub fn name(&self) -> String {
        match self {
            Self::Command(program) => format!("command {program}"),
            Self::Post(_, url) => format!("post {url}"),
        }
    }

    /// Tells one alert.
    ///
    /// # Errors
    /// [`HookError`].
    pub async fn tell(&self, alert: &Alert) -> Result<(), HookError> {
        let mut line = serde_json::to_vec(alert).unwrap_or_default();
        line.push(b'\n');
        let telling = async {
            match self {
                Self::Command(program) => run(program, &line).await,
                Self::Post(client, url) => Ok(client.post(url, line).await?),
            }
        };
        tokio::time::timeout(HOOK_TIMEOUT, telling).await.unwrap_or(Err(HookError::Timeout))
    }
}

async fn run(program: &str, line: &[u8]) -> Result<(), HookError> {
    let fault = |source| HookError::Run { program: program.to_owned(), source };
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .map_err(fault)?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(line).await {
            // A command may well know enough without reading.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            written => written.map_err(fault)?,
        }
    }
    let status = child.wait().await.map_err(fault)?;
    if status.success() { Ok(()) } else { Err(HookError::Status { program: program.to_owned(), status }) }
}

/// The key of silence among those of findings.
pub const SILENCE: &str = "silence";

/// What makes two findings the same: kind and place. Details may grow with every audit.
pub fn key(finding: &Finding) -> String {
    let place = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
    let run = finding.run.as_ref().map_or("", |run| run.as_str());
    format!("{}/{run}/{}/{}", finding.kind, place(finding.index), place(finding.seq))
}

/// What to tell after an audit, with the key that each is remembered by; none for a recovery.
pub fn due(
    told: &BTreeSet<String>,
    report: &Report,
    origin: &str,
    time: u64,
) -> Vec<(Option<String>, Alert)> {
    let alert = |event, finding: Option<&Finding>, detail: String| Alert {
        alert: 1,
        event,
        origin: origin.to_owned(),
        time,
        finding: finding.cloned(),
        detail,
    };
    let mut due = Vec::new();
    let mut new = BTreeSet::new();
    for finding in &report.findings {
        let key = key(finding);
        if !told.contains(&key) && new.insert(key.clone()) {
            due.push((Some(key), alert(Event::Finding, Some(finding), finding.detail.clone())));
        }
    }
    let over = match report.verdict() {
        // Only an audit that saw everything can say that all is well again.
        Verdict::Verified => told.len(),
        // One that came to an end at least ends the silence.
        Verdict::Tampered => usize::from(told.contains(SILENCE)),
        Verdict::Incomplete => 0,
    };
    if over > 0 {
        due.push((None, alert(Event::Recovery, None, format!("{over} earlier alerts are over"))));
    }
    due
}

#[cfg(test)]
mod tests {
    use runseal_evidence::finding::FindingKind;
    use runseal_evidence::report::{Command, NotChecked, Scope};

    use super::*;

    #[test]
    fn each_finding_is_told_once_and_its_end_once() {
        let mut told = BTreeSet::new();
        let mut report = Report::new(Command::Audit, Scope::Log);
        report.passed("root", "");
        assert!(due(&told, &report, "log", 1).is_empty());
        report.findings.push(Finding::new(FindingKind::Stale, "1 h old"));
        report.findings.push(Finding::new(FindingKind::Stale, "the same, said twice"));
        let first = due(&told, &report, "log", 2);
        assert_eq!((first.len(), first[0].1.event), (1, Event::Finding));
        told.extend(first.into_iter().filter_map(|(key, _)| key));
        report.findings[0].detail = "2 h old".to_owned();
        assert!(due(&told, &report, "log", 3).is_empty());
        report.findings.push(Finding::new(FindingKind::RunDeleted, "gone").at_index(4));
        assert_eq!(due(&told, &report, "log", 4).len(), 1);
        report.findings.clear();
        report.not_checked.push(NotChecked::gap("the log", "down"));
        assert!(due(&told, &report, "log", 5).is_empty(), "an audit that saw nothing ends nothing");
        report.not_checked.clear();
        let over = due(&told, &report, "log", 6);
        assert_eq!((over.len(), over[0].1.event, &over[0].0), (1, Event::Recovery, &None));
    }
}

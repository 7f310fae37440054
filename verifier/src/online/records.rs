//! Records of single runs from a journal's audit routes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use runseal_evidence::chain::Ahead;
use runseal_evidence::export::{ExportError, ReadLine};
use runseal_evidence::name::RunId;
use runseal_evidence::record::RECORD_BYTES_MAX;
use thiserror::Error;
use url::Url;

use crate::lines::{LineError, Lines};
use crate::online::http::{Client, FetchError, Token, network};
use crate::online::source::{SourceError, http_prefix, join};
use crate::runs::{Pinned, RunCheck, RunResult};
use crate::steps::Against;

/// Longest line of a record: each of its bytes takes at most six, and what stands around it little.
const LINE_BYTES_MAX: usize = 6 * RECORD_BYTES_MAX + (1 << 12);
/// Longest time for the records of one run.
const RUN_TIMEOUT: Duration = Duration::from_mins(10);
/// Most records read of one run beyond those that the log pins: an endless body ends here.
const UNPINNED_MAX: u64 = 1 << 20;

/// Why the records of a run could not be checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// The server.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A line that is no record line.
    #[error("line {line}: {error}")]
    Line {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        error: ExportError,
    },
    /// A line of another kind.
    #[error("line {0} is not a record")]
    NotARecord(u64),
    /// The body ends inside a line, or has a line too long.
    #[error(transparent)]
    Cut(#[from] LineError),
    /// The body does not end.
    #[error("the server sent {0} records, far more than the log pins, and went on")]
    Endless(u64),
    /// The whole took too long.
    #[error("the records did not arrive within {} s", RUN_TIMEOUT.as_secs())]
    Timeout,
}

/// The audit routes of one tenant.
#[derive(Debug)]
pub struct RecordSource {
    client: Client,
    prefix: Url,
    bytes: AtomicU64,
}

impl RecordSource {
    /// A prefix `http(s)://…/audit/<tenant>`.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn open(location: &str, token: Option<Token>) -> Result<Self, SourceError> {
        let prefix = http_prefix(location)?;
        Ok(Self { client: Client::new(token)?, prefix, bytes: AtomicU64::new(0) })
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Fetches and checks the records of one run. A run that the server does not have is a finding.
    ///
    /// # Errors
    /// [`RecordsError`]: the run is not checked.
    pub async fn check(&self, pinned: Pinned, against: &Against) -> Result<RunResult, RecordsError> {
        tokio::time::timeout(RUN_TIMEOUT, self.stream(pinned, against))
            .await
            .unwrap_or(Err(RecordsError::Timeout))
    }

    async fn stream(&self, pinned: Pinned, against: &Against) -> Result<RunResult, RecordsError> {
        let url = self.run_url(&pinned.run);
        let mut response = match self.client.stream(&url).await {
            Err(FetchError::NotFound { status: 404 | 410, .. }) => {
                let findings = vec![pinned.deleted("the records source answers that it has no such run")];
                return Ok(RunResult { findings, ..RunResult::default() });
            }
            response => response?,
        };
        let pins = pinned.heads.iter().chain(pinned.seal.iter().map(|(pin, _)| pin));
        let most = pins.map(|pin| pin.records).max().unwrap_or(0);
        let mut check = RunCheck::new(pinned, against);
        let mut lines = Lines::new(LINE_BYTES_MAX);
        let mut number = 0;
        let mut raw = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| network(&url, error))? {
            self.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            lines.push(&chunk);
            while let Some(line) = lines.next_line()? {
                number += 1;
                if number > most.saturating_add(UNPINNED_MAX) {
                    return Err(RecordsError::Endless(number));
                }
                raw.clear();
                match ReadLine::parse(&line, &mut raw) {
                    Ok(ReadLine::Record(record)) => {
                        check.push(&raw, &record, Ahead::of(record.prev, &raw));
                    }
                    Ok(ReadLine::Entry(_) | ReadLine::Run(_) | ReadLine::Other(_)) => {
                        return Err(RecordsError::NotARecord(number));
                    }
                    Err(error) => return Err(RecordsError::Line { line: number, error }),
                }
            }
        }
        lines.finish()?;
        Ok(check.finish())
    }

    fn run_url(&self, run: &RunId) -> Url {
        // A run's name starts with a letter or digit and holds nothing that a path would read otherwise.
        join(&self.prefix, &format!("runs/{run}/records"))
    }
}

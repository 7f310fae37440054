//! When a log was seen at which size, and by whom: what a report plots.

use runseal_evidence::report::{CosignatureStatus, Report};
use runseal_tlog::policy::{self, Policy};

use crate::history::{HistoryError, LogHistory};

/// Most checkpoints plotted, evenly picked.
const POINTS_MAX: usize = 400;

/// One checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Entries.
    pub size: u64,
    /// When this auditor saw it first, POSIX seconds.
    pub seen: u64,
    /// The times of valid cosignatures, by witness.
    pub cosigned: Vec<(String, u64)>,
}

/// The remembered checkpoints of a log, oldest first.
///
/// # Errors
/// [`HistoryError`].
pub fn remembered(history: &LogHistory, policy: &Policy) -> Result<Vec<Point>, HistoryError> {
    let mut points = Vec::new();
    for checkpoint in history.checkpoints_from(0)? {
        let first = checkpoint?;
        let newest = history.newest_at_size(first.size)?;
        let mut cosigned = Vec::new();
        for note in [Some(&first.note), newest.as_ref().map(|newest| &newest.note)].into_iter().flatten() {
            let lines = policy.examine(note).map_or(Vec::new(), |examination| examination.cosignatures);
            for line in lines.iter().filter(|line| line.status == policy::CosignatureStatus::Valid) {
                let found = (line.name.to_string(), line.time.unwrap_or(0));
                if !cosigned.contains(&found) {
                    cosigned.push(found);
                }
            }
        }
        points.push(Point { size: first.size, seen: first.seen, cosigned });
    }
    let step = points.len().div_ceil(POINTS_MAX).max(1);
    let last = points.len().saturating_sub(1);
    let picked = points.into_iter().enumerate().filter(|(at, _)| at % step == 0 || *at == last);
    Ok(picked.map(|(_, point)| point).collect())
}

/// The checkpoint of a report alone.
pub fn of_report(report: &Report, now: u64) -> Vec<Point> {
    let Some(log) = &report.log else { return Vec::new() };
    let valid = report.cosignatures.iter().filter(|line| line.status == CosignatureStatus::Valid);
    let cosigned = valid.filter_map(|line| Some((line.witness.clone(), line.time?))).collect();
    vec![Point { size: log.size, seen: now, cosigned }]
}

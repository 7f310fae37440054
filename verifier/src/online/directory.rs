//! The directory: the log of a plane's tenants. It lists every tenant's log with the key it is signed by, so that
//! an auditor learns of logs that nobody mentioned, and of keys that are not those he was given.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use runseal_evidence::amount::amount;
use runseal_evidence::entry::{Entry, Recognised, TenantLog};
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::{Base, TenantId};
use runseal_evidence::report::NotChecked;
use runseal_tlog::bundle::{self, BUNDLE_BYTES_MAX};
use runseal_tlog::key::VerifierKey;
use runseal_tlog::policy::PolicyLog;
use runseal_tlog::tile::TILE_WIDTH;

use crate::clock;
use crate::error::Failure;
use crate::history::{History, HistoryError, LogHistory};
use crate::online::entries::Examiner;
use crate::online::finder::Finder;
use crate::online::source::LogSource;
use crate::online::tree::SignedTree;
use crate::trust::Trust;

/// How long a log may be known before the directory has to list it: a plane publishes both with every
/// checkpoint, but an auditor may come between the two.
const LISTED_WITHIN: Duration = Duration::from_hours(1);
/// Tenants named in the report; beyond that they are counted.
const NAMED_MAX: usize = 1_000;
/// What the origin of a directory ends in. No tenant can bear that name.
const SUFFIX: &str = "/log/_directory";

/// The base of the plane whose directory has this origin, if it is one.
pub fn base_of(origin: &str) -> Option<Base> {
    Base::new(origin.strip_suffix(SUFFIX)?).ok()
}

/// A tenant's entry and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The entry's index.
    pub index: u64,
    /// The entry.
    pub log: TenantLog,
}

/// A tenant's log that was audited before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its tenant.
    pub tenant: TenantId,
    /// When its first checkpoint was read, by the auditor's clock, in POSIX seconds.
    pub since: u64,
}

/// What the directory comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// The tenants listed, each once.
    pub tenants: Vec<TenantId>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What could not be checked, or lies outside the policy.
    pub not_checked: Vec<NotChecked>,
}

impl Judged {
    /// The tenants by name.
    pub fn summary(&self) -> String {
        let names: Vec<&str> = self.tenants.iter().take(NAMED_MAX).map(TenantId::as_str).collect();
        let more = match self.tenants.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let tenants = amount(self.tenants.len(), "tenant");
        if names.is_empty() { tenants } else { format!("{tenants}: {}{more}", names.join(", ")) }
    }
}

/// Holds what the directory of `base` lists against the logs that the policy trusts and those known from before.
pub fn judge(base: &Base, listed: &[Listed], trust: &Trust, known: &[Known], now: u64) -> Judged {
    let mut judged = Judged::default();
    let mut by_tenant: BTreeMap<&TenantId, &Listed> = BTreeMap::new();
    for entry in listed {
        let Listed { index, log } = entry;
        let tenant = log.tenant();
        let mut found = |kind, detail| judged.findings.push(Finding::new(kind, detail).at_index(*index));
        if base.origin(tenant) != log.origin() {
            let detail = format!("the directory of {base} lists the log {:?} of another plane", log.origin());
            found(FindingKind::TenantMismatch, detail);
            continue;
        }
        if let Some(first) = by_tenant.get(tenant) {
            let same = first.log.vkey() == log.vkey();
            let what = if same { "again" } else { "with another key" };
            let detail = format!("tenant {tenant}, listed at index {}, is listed {what}", first.index);
            found(if same { FindingKind::Malformed } else { FindingKind::TenantKey }, detail);
            continue;
        }
        if log.vkey().parse::<VerifierKey>().is_err() {
            let detail = format!("the key listed for tenant {tenant} is no verifier key: {}", log.vkey());
            found(FindingKind::Malformed, detail);
        }
        by_tenant.insert(tenant, entry);
    }
    for (tenant, Listed { index, log }) in &by_tenant {
        let origin = log.origin();
        let trusted: Vec<String> = trust.policy.log_keys(&origin).map(ToString::to_string).collect();
        if trusted.is_empty() {
            let why =
                format!("the policy lists no log {origin:?}; the directory gives its key as {}", log.vkey());
            judged.not_checked.push(NotChecked::out_of_scope(format!("the log of tenant {tenant}"), why));
        } else if !trusted.iter().any(|key| key == log.vkey()) {
            let detail = format!(
                "the directory lists {} for tenant {tenant}, the policy trusts {}: one of the two is not the log's key",
                log.vkey(),
                trusted.join(", ")
            );
            judged.findings.push(Finding::new(FindingKind::TenantKey, detail).at_index(*index));
        }
    }
    for Known { tenant, since } in known.iter().filter(|known| !by_tenant.contains_key(&known.tenant)) {
        if now.saturating_sub(*since) > LISTED_WITHIN.as_secs() {
            let detail = format!(
                "tenant {tenant}, whose log was audited first at {}, is not listed",
                clock::spell(*since)
            );
            judged.findings.push(Finding::new(FindingKind::TenantDeleted, detail));
        } else {
            let why = "its log was seen only now, and the directory does not list it yet";
            judged.not_checked.push(NotChecked::gap(format!("that tenant {tenant} is listed"), why));
        }
    }
    let of_base =
        |log: &PolicyLog| Base::tenant_of(log.origin()).filter(|at| base.origin(at) == log.origin());
    let mut unlisted: Vec<TenantId> = trust.policy.logs().iter().filter_map(of_base).collect();
    unlisted.sort_unstable();
    unlisted.dedup();
    unlisted.retain(|at| !by_tenant.contains_key(at) && known.iter().all(|known| known.tenant != *at));
    for tenant in unlisted {
        let why = "the policy trusts its log, the directory does not list it: no run of it is logged yet, or it is withheld";
        judged.not_checked.push(NotChecked::gap(format!("that tenant {tenant} is listed"), why));
    }
    judged.tenants = by_tenant.into_keys().cloned().collect();
    judged
}

/// The tenants that stand in `before` and not, with the same entry, in `after`.
pub fn vanished(before: &[Listed], after: &[Listed]) -> Vec<Finding> {
    let is_kept = |gone: &Listed| after.iter().any(|listed| listed.log == gone.log);
    let gone = before.iter().filter(|listed| !is_kept(listed));
    gone.map(|Listed { index, log }| {
        let tenant = log.tenant();
        let now = after.iter().find(|listed| listed.log.tenant() == tenant);
        let (kind, detail) = if let Some(now) = now {
            let keys = (log.vkey(), now.log.vkey());
            let detail =
                format!("tenant {tenant} was listed with the key {}, and is now with {}", keys.0, keys.1);
            (FindingKind::TenantKey, detail)
        } else {
            (FindingKind::TenantDeleted, format!("tenant {tenant} was listed, and is no longer"))
        };
        Finding::new(kind, detail).at_index(*index)
    })
    .take(NAMED_MAX)
    .collect()
}

/// Adds the tenants in one bundle's entries, of which the first has index `first`.
fn list<'e>(first: u64, entries: impl IntoIterator<Item = &'e [u8]>, listed: &mut Vec<Listed>) {
    for (index, entry) in (first..).zip(entries) {
        if let Recognised::Ours(Entry::Tenant(log)) = Entry::recognise(entry) {
            listed.push(Listed { index, log });
        }
    }
}

/// The tenants among the first `size` entries of the verified log, and the entries that could not be had.
///
/// # Errors
/// [`Failure`] of the history.
pub async fn listed(finder: &Finder<'_>, size: u64) -> Result<(Vec<Listed>, Vec<NotChecked>), Failure> {
    let (mut listed, mut gaps) = (Vec::new(), Vec::new());
    let width = u64::from(TILE_WIDTH);
    for tile in 0..size.div_ceil(width) {
        let entries = finder.bundle(tile).await?;
        let missing = entries.iter().filter(|entry| entry.is_none()).count();
        if missing > 0 {
            let what = format!("{} from index {} on", amount(missing, "entry"), tile * width);
            gaps.push(NotChecked::gap(what, "they cannot be had again"));
        }
        let bytes = entries.iter().map(|entry| entry.as_deref().unwrap_or_default());
        list(tile * width, bytes, &mut listed);
    }
    Ok((listed, gaps))
}

/// The tenants that the history remembers as listed.
///
/// # Errors
/// [`HistoryError`].
pub fn remembered(history: &LogHistory) -> Result<Vec<Listed>, HistoryError> {
    let mut listed = Vec::new();
    let width = u64::from(TILE_WIDTH);
    let end = history.progress()?.entries;
    for tile in 0..end.div_ceil(width) {
        let Some(kept) = history.bundle(tile)? else { continue };
        let count = u16::try_from((end - tile * width).min(width)).unwrap_or(TILE_WIDTH);
        let entries = bundle::prefix(&kept, count).and_then(|exact| bundle::entries(exact, count));
        list(tile * width, entries.unwrap_or_default(), &mut listed);
    }
    Ok(listed)
}

/// The tenants that another tree of the directory lists, which its signed root vouches for, and whether all of its
/// entries could be had.
///
/// # Errors
/// [`Failure`] of this process.
pub async fn of_tree(
    history: &LogHistory,
    source: &LogSource,
    tree: SignedTree,
    origin: &str,
) -> Result<(Vec<Listed>, bool), Failure> {
    let examiner = Arc::new(Examiner::new(tree, 0, origin, history).keeping_entries());
    let (mut listed, mut whole) = (Vec::new(), true);
    for tile in examiner.leaf_tiles() {
        let batch = Arc::clone(&examiner).examine(source, tile..tile + 1, BUNDLE_BYTES_MAX).await?;
        whole &= batch.broken_at.is_none();
        for verified in &batch.tiles {
            let entries = bundle::entries(&verified.bundle, verified.width).unwrap_or_default();
            list(verified.index * u64::from(TILE_WIDTH), entries, &mut listed);
        }
    }
    Ok((listed, whole))
}

/// The logs of `base` whose checkpoints the history remembers.
///
/// # Errors
/// [`HistoryError`].
pub fn known(history: &Arc<History>, base: &Base) -> Result<Vec<Known>, HistoryError> {
    let mut known = Vec::new();
    for origin in history.origins()? {
        let Some(tenant) = Base::tenant_of(&origin).filter(|tenant| base.origin(tenant) == origin) else {
            continue;
        };
        if let Some(first) = history.log(&origin)?.checkpoints_from(0)?.next().transpose()? {
            known.push(Known { tenant, since: first.seen });
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const NOW: u64 = 1_790_000_000;

    #[test]
    fn a_log_known_for_long_must_be_listed() {
        let trust = Trust::parse(b"quorum none\n", Path::new("policy")).unwrap();
        let base = Base::new("plane.example").unwrap();
        let tenant = TenantId::new("acme").unwrap();
        let judged = |since| judge(&base, &[], &trust, &[Known { tenant: tenant.clone(), since }], NOW);
        let recent = judged(NOW - 3_600);
        assert_eq!((recent.findings.len(), recent.not_checked.len()), (0, 1));
        assert!(recent.not_checked[0].is_gap);
        let long = judged(NOW - 3_601);
        assert_eq!((long.findings.len(), long.not_checked.len()), (1, 0));
        assert_eq!(long.findings[0].kind, FindingKind::TenantDeleted);
        assert!(long.findings[0].detail.contains("tenant acme"), "{}", long.findings[0].detail);
        let listed = Listed {
            index: 0,
            log: TenantLog::new(base.clone(), tenant.clone(), "plane.example/log/acme+0123abcd+AQID")
                .unwrap(),
        };
        let known = [Known { tenant, since: 0 }];
        assert!(
            judge(&base, &[listed], &trust, &known, NOW)
                .findings
                .iter()
                .all(|f| f.kind == FindingKind::Malformed)
        );
    }

    #[test]
    fn only_the_origin_of_a_directory_is_one() {
        assert_eq!(base_of("a.example/b/log/_directory").unwrap().as_str(), "a.example/b");
        for origin in ["a.example", "a.example/log/acme", "/log/_directory", "a.example/log/_directory/x"] {
            assert_eq!(base_of(origin), None, "{origin}");
        }
    }
}

//! The scheduled self-check: what "runseal check" does, without anybody having to remember it.

use std::{sync::Arc, time::Duration};

use tracing::{debug, error, warn};

use super::Plane;
use crate::CheckReport;

/// Checks every tenant, one after the other, every `interval`.
///
/// Contradictions show at `/healthz` and in metrics until a later check no longer finds them. They do not stop
/// publication: what the log has signed is for signing itself to compare.
pub(super) async fn run(plane: Arc<Plane>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let tenants = match plane.call(|journal| Ok(journal.tenants()?)).await {
            Ok(tenants) => tenants,
            Err(failed) => {
                // The reason is logged where it is known.
                drop(failed.answer());
                continue;
            }
        };
        for name in tenants {
            let tenant = plane.journal.tenant(&name);
            let checked = tokio::task::spawn_blocking(move || tenant.check(&mut |_| {})).await;
            match checked {
                Ok(Ok(report)) => note(&plane, name.as_str(), &report),
                Ok(Err(reason)) => warn!(log = name.as_str(), %reason, "the self-check could not finish"),
                Err(reason) => error!(log = name.as_str(), %reason, "the self-check failed"),
            }
        }
    }
}

fn note(plane: &Plane, name: &str, report: &CheckReport) {
    let found = report.contradiction.as_ref().map(ToString::to_string);
    match &found {
        None => debug!(log = name, records = report.records, "the self-check found nothing"),
        Some(found) => error!(log = name, "SELF-CHECK: {found}"),
    }
    plane.health.of_log(name, |health| {
        health.checked = Some(std::time::Instant::now());
        health.contradiction = found;
    });
}

//! The scheduled self-check: what "runseal check" does, without anybody having to remember it.

use std::{sync::Arc, time::Duration};

use runseal_evidence::name::TenantId;
use tracing::{debug, error, warn};

use super::{Plane, served::DIRECTORY};
use crate::CheckReport;

/// Checks every tenant and the directory, one after the other, every `interval`.
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
        let tenants = tenants.into_iter().map(Some).chain([None]);
        for tenant in tenants {
            let name = tenant.as_ref().map_or(DIRECTORY, TenantId::as_str).to_owned();
            let journal = Arc::clone(&plane.journal);
            let checked = tokio::task::spawn_blocking(move || match tenant {
                Some(tenant) => journal.tenant(&tenant).check(&mut |_| {}),
                None => journal.check_directory(&mut |_| {}),
            });
            match checked.await {
                Ok(Ok(report)) => note(&plane, &name, &report),
                Ok(Err(reason)) => warn!(log = name, %reason, "the self-check could not finish"),
                Err(reason) => error!(log = name, %reason, "the self-check failed"),
            }
        }
    }
}

fn note(plane: &Plane, name: &str, report: &CheckReport) {
    if let Some(newer) = report.contradiction.as_ref().filter(|found| found.fault.is_skew()) {
        return warn!(log = name, reason = %newer, "the self-check could not finish");
    }
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

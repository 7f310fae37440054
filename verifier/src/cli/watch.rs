//! The command that audits for ever.

use std::sync::Arc;
use std::time::Duration;

use runseal_evidence::name::Base;
use runseal_tlog::policy::PolicyLog;
use tokio::signal::unix::{SignalKind, signal};

use super::args::WatchArgs;
use super::{against, runtime, token};
use crate::clock::{Clock, SystemClock};
use crate::error::Failure;
use crate::history::History;
use crate::online::alert::{Alert, Event, Hook};
use crate::online::audit::{Audit, Records};
use crate::online::directory;
use crate::online::http::{Client, Token};
use crate::online::metrics::{self, Status};
use crate::online::records::RecordSource;
use crate::online::source::{LogSource, SourceError};
use crate::online::watch::Watch;
use crate::trust::Trust;

/// Shortest interval between audits of one log.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Audits logs until a signal says to stop.
pub(super) fn watch(args: &WatchArgs, quiet: bool) -> Result<u8, Failure> {
    if args.interval < INTERVAL_MIN {
        return Err(Failure::Usage("--interval is shorter than 10ms; no log can be audited that often"));
    }
    let trust = Trust::load(&args.trust.policy)?;
    let token = token(args.token.as_deref())?;
    let mut hooks: Vec<Hook> = args.alert_command.iter().cloned().map(Hook::Command).collect();
    if let Some(location) = &args.alert_url {
        let refuse =
            |reason: url::ParseError| SourceError::Url { url: location.clone(), reason: reason.to_string() };
        let url = url::Url::parse(location).map_err(refuse)?;
        hooks.push(Hook::Post(Box::new(Client::new(None)?), url));
    }
    let history = Arc::new(History::open_or_create(&args.history, args.history_light)?);
    let audits = watched(args, &trust, token.as_ref(), &history)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let silence = args.silence.unwrap_or(args.interval.saturating_mul(10));
    let origins = audits.iter().map(|audit| audit.origin.clone());
    let status = Arc::new(Status::new(origins, silence, clock.now()));
    let (heartbeat, fraud_proofs) = (args.heartbeat.clone(), args.fraud_proofs.clone());
    let watch = Watch { audits, history, interval: args.interval, hooks, heartbeat, fraud_proofs };
    runtime()?.block_on(async {
        if args.test_alert {
            return test_alert(&watch, clock.now()).await;
        }
        // Asked for before anything else, so that no signal is missed.
        let mut terminate =
            signal(SignalKind::terminate()).map_err(|error| Failure::Internal(error.to_string()))?;
        let mut interrupt =
            signal(SignalKind::interrupt()).map_err(|error| Failure::Internal(error.to_string()))?;
        let (say_stop, stop) = tokio::sync::watch::channel(false);
        if let Some(address) = args.listen {
            let (local, _) = metrics::serve(address, Arc::clone(&status), Arc::clone(&clock)).await?;
            if !quiet {
                eprintln!("metrics at http://{local}/metrics");
            }
        }
        if !quiet {
            let origins: Vec<&str> = watch.audits.iter().map(|audit| audit.origin.as_str()).collect();
            eprintln!("watching {} every {}", origins.join(", "), humantime::format_duration(args.interval));
        }
        let watching = watch.run(&status, &clock, stop);
        tokio::pin!(watching);
        tokio::select! {
            ended = &mut watching => return ended.map(|()| 0),
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = say_stop.send(true);
        watching.await.map(|()| 0)
    })
}

/// One audit for each watched log.
fn watched(
    args: &WatchArgs,
    trust: &Trust,
    token: Option<&Token>,
    history: &Arc<History>,
) -> Result<Vec<Audit>, Failure> {
    let mut origins: Vec<&str> = if args.log.is_empty() {
        trust.policy.logs().iter().filter(|log| log.url().is_some()).map(PolicyLog::origin).collect()
    } else {
        args.log.iter().map(|log| trust.choose(Some(log))).collect::<Result<_, _>>()?
    };
    origins.sort_unstable();
    origins.dedup();
    if origins.is_empty() {
        return Err(Failure::Usage("no log of the policy has a URL, so there is nothing to watch"));
    }
    let audit = |origin: &str| {
        // Without its entries a directory can be audited like any other log, but not read.
        let directory = directory::base_of(origin).filter(|_| !args.history_light);
        let records = args.records_base.as_deref().filter(|_| directory.is_none()).map(|base| {
            let tenant = Base::tenant_of(origin);
            let tenant = tenant
                .ok_or(Failure::Usage("--records-base serves logs of planes, and one of these is none"))?;
            let prefix = format!("{}/{tenant}", base.trim_end_matches('/'));
            Ok::<_, Failure>(Records::Http(RecordSource::open(&prefix, token.cloned())?))
        });
        Ok(Audit {
            trust: trust.clone(),
            origin: origin.to_owned(),
            source: LogSource::open(trust.url(origin)?, token.cloned())?,
            history: Some(Arc::clone(history)),
            records: records.transpose()?,
            directory,
            against: against(&args.record_key, None)?,
            max_age: args.max_age,
            jobs: usize::from(args.jobs),
            timeout: args.timeout,
        })
    };
    origins.into_iter().map(audit).collect()
}

async fn test_alert(watch: &Watch, time: u64) -> Result<u8, Failure> {
    if watch.hooks.is_empty() {
        return Err(Failure::Usage("there is nobody to tell: give --alert-command or --alert-url"));
    }
    let origin = watch.audits.iter().map(|audit| audit.origin.clone()).collect::<Vec<_>>().join(", ");
    let detail = "this is a test: alerts of runseal-verifier arrive here".to_owned();
    let alert = Alert { alert: 1, event: Event::Test, origin, time, finding: None, detail };
    for hook in &watch.hooks {
        hook.tell(&alert).await?;
    }
    Ok(0)
}

//! What the tests share: names, drafts, journals.

use std::sync::Arc;
use std::time::Duration;

use runseal_evidence::json::Json;
use runseal_evidence::name::{Base, CaseId, EffectKey, Kind, RunId, TenantId};
use runseal_evidence::record::RecordDraft;

use crate::{Journal, ManualClock, Tenant};

pub(crate) const MASTER: [u8; 32] = [7; 32];
pub(crate) const NOW: i64 = 1_770_000_000_000;
pub(crate) const TTL: Duration = Duration::from_secs(30);

pub(crate) fn base() -> Base {
    Base::new("log.example.com/plane").unwrap()
}

pub(crate) fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

pub(crate) fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

pub(crate) fn draft(kind: &str, payload: &str) -> RecordDraft {
    let payload = Json::parse(payload.as_bytes()).unwrap();
    RecordDraft { kind: Kind::new(kind).unwrap(), payload, effect: None, case: None }
}

pub(crate) fn note(text: &str) -> RecordDraft {
    draft("Note", &format!("{{\"text\":{}}}", Json::string(text)))
}

pub(crate) fn concluded(outcome: &str) -> RecordDraft {
    draft("RunConcluded", &format!("{{\"outcome\":{}}}", Json::string(outcome)))
}

pub(crate) fn admitted(key: &str, source: &str) -> RecordDraft {
    let (key, source) = (Json::string(key), Json::string(source));
    draft("RunAdmitted", &format!("{{\"admission_key\":{key},\"source\":{source}}}"))
}

pub(crate) fn started(effect: u8) -> RecordDraft {
    let effect = EffectKey::new(format!("{effect:02x}").repeat(32)).unwrap();
    RecordDraft { effect: Some(effect), ..draft("EffectStarted", "{}") }
}

pub(crate) fn in_case(case: &str, draft: RecordDraft) -> RecordDraft {
    RecordDraft { case: Some(CaseId::new(case).unwrap()), ..draft }
}

pub(crate) fn in_memory() -> (Journal, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(NOW));
    let journal = Journal::in_memory(&base(), MASTER, clock.clone()).unwrap();
    (journal, clock)
}

/// A run of one note and a conclusion, sealed.
pub(crate) fn sealed(tenant: &Tenant, name: &str) -> crate::Sealed {
    let drafts = vec![note(name), concluded("succeeded")];
    tenant.append_once(&run(name), "test", drafts, true).unwrap().1.unwrap()
}

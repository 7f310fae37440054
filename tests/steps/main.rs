//! The step store, held to its promises.
//!
//! | promise | tests |
//! |---|---|
//! | a foreign file and another version are two refusals, and no byte changes | `opening` |
//! | the file is laid out as documented | `opening::a_file_is_laid_out_as_documented` |
//! | a cut append is trimmed to what was acknowledged, and the store goes on | `tail::*cut*`, `power` |
//! | a lying length and damage with intact steps behind it are refused, and no byte changes | `tail` |
//! | a step is acknowledged, and seen by readers, only after its sync | `durability` |
//! | a failed sync or write refuses every member of its batch and the handle until it is opened again | `durability` |
//! | the same step again is already recorded, another value conflicts; neither writes | `appending` |
//! | steps stand in the order they were appended, and replay gives what was acknowledged | `appending` |
//! | another tenant's run is refused when read and when appended to | `refusals` |
//! | a run goes on under its definition only, checked before any step | `refusals` |
//! | unknown run, foreign tenant, failed read and absence are four answers | `refusals` |
//! | ceilings refuse with their name and numbers, and leave the store as it was | `limits` |
//! | the queue is bounded and says so | `limits` |
//! | many appends share one sync; a lone one waits for nobody | `durability` |
//! | a hostile tail is decided in bounded time | `tail`, and the tests of `runseal-evidence` |
//! | a refusal harms nobody else; a dropped caller loses nothing | `refusals`, `appending` |
//! | one handle at a time | `opening` |
//! | values stay in the file and are checked when read | `reading` |

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod appending;
mod device;
mod durability;
mod limits;
mod opening;
mod power;
mod reading;
mod refusals;
#[path = "../../evidence/tests/step_file/mod.rs"]
mod step_file;
mod tail;

use runseal::evidence::name::{CodecId, DefinitionName, RunId, StepPath, TenantId};
use runseal::steps::{Definition, InputDigest, Step, StepError, StepKey, StepLimits, StepStore};

use self::device::Device;

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

/// The key of the step at `path`.
fn key(path: &str) -> StepKey {
    StepKey::of(&[path.as_bytes()])
}

fn definition() -> Definition {
    Definition {
        name: DefinitionName::new("refund").unwrap(),
        revision: 3,
        input: InputDigest::of(b"order 4471"),
        steps: 7,
        codec: CodecId::new("json").unwrap(),
    }
}

/// A step of tenant `acme`.
fn step(in_run: &str, path: &str, value: impl AsRef<[u8]>) -> Step {
    Step {
        tenant: tenant("acme"),
        run: run(in_run),
        key: key(path),
        path: StepPath::new(path).unwrap(),
        definition: definition(),
        value: value.as_ref().to_vec(),
    }
}

fn open(device: &Device) -> StepStore {
    StepStore::open_on(device.clone(), StepLimits::default()).unwrap()
}

/// What the store holds for a step of tenant `acme`.
fn value_of(store: &StepStore, in_run: &str, path: &str) -> Option<Vec<u8>> {
    match store.lookup(&tenant("acme"), &run(in_run), &key(path)) {
        Ok(step) => step.map(|step| step.value),
        Err(StepError::UnknownRun { .. }) => None,
        Err(error) => panic!("{in_run}/{path}: {error}"),
    }
}

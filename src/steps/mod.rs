//! Durable steps: what the steps of a run returned, kept so that a run that was cut short goes on without
//! repeating what it did.
//!
//! A [`StepStore`] is one file, which one process at a time may have open. Appending a step answers once the
//! step is synced; looking it up reads it from the file and checks it again. Many callers share one sync.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! use runseal::evidence::name::{CodecId, DefinitionName, RunId, StepPath, TenantId};
//! use runseal::steps::{Definition, InputDigest, StepLimits, StepStore};
//!
//! let tenant = TenantId::new("acme")?;
//! let store = StepStore::open_in(dir.path(), &tenant, StepLimits::default())?;
//! let definition = Definition {
//!     name: DefinitionName::new("refund")?,
//!     revision: 1,
//!     input: InputDigest::of(b"order 4471"),
//!     steps: 2,
//!     codec: CodecId::new("text")?,
//! };
//! let run = store.run(tenant, RunId::new("refund-4471")?, definition)?;
//! // Performed now, or taken from the file where an earlier attempt got this far. The key is the same each
//! // time: give it to whoever performs the effect, so that a crash before the step was recorded does no harm.
//! let receipt = run.step(StepPath::new("charge")?, |key| std::io::Result::Ok(format!("paid {key}").into()))?;
//! assert!(receipt.starts_with(b"paid "));
//! # Ok(())
//! # }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `store`, `run` | the handles: [`StepStore`], [`StepRun`] |
//! | `open`, `read_ahead` | a file read from start to end, its torn end cut |
//! | `owner`, `batch`, `queue`, `answers` | the thread that writes: many steps, one sync |
//! | `index`, `places` | runs, and where their steps are; values stay in the file |
//! | `check` | a tenant's concluded runs, held against the file of their steps |
//! | `limits`, `error` | ceilings and refusals |
//!
//! The format is that of [`runseal_evidence::steps`].

mod answers;
mod batch;
mod check;
mod error;
mod index;
mod limits;
mod open;
mod owner;
mod places;
mod queue;
mod read_ahead;
mod run;
mod store;

pub use runseal_evidence::steps::{
    Definition, Drift, FrameFault, InputDigest, RunHead, Step, StepKey, StepsCommitment, StepsFault, StoreId,
};

pub use self::{
    check::{StepsCheck, check, read_for_audit},
    error::{DeviceCall, LimitKind, OpenError, StepError},
    limits::StepLimits,
    open::Opening,
    owner::Recorded,
    run::{ConclusionError, StepFailure, StepRun},
    store::{FlushCounts, StepAck, StepStore},
};

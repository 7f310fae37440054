//! A run that is carried out: its steps performed once, or taken from the store.

use runseal_evidence::json::Json;
use runseal_evidence::name::{RunId, StepPath, TenantId};
use runseal_evidence::steps::{CommitmentFault, Definition, Step, StepKey, StepsCommitment};
use thiserror::Error;

use super::error::StepError;
use super::owner::Recorded;
use super::store::{StepAck, StepStore};

/// A run of one tenant under one definition.
#[derive(Debug, Clone)]
pub struct StepRun {
    store: StepStore,
    tenant: TenantId,
    run: RunId,
    definition: Definition,
}

/// Why a step came to nothing.
#[derive(Debug, Error)]
pub enum StepFailure<E> {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StepError),
    /// The step itself failed. Nothing is recorded; the next attempt performs it again.
    #[error("the step failed: {0}")]
    Step(E),
}

/// Why a conclusion cannot carry the run's steps.
#[derive(Debug, Error)]
pub enum ConclusionError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StepError),
    /// The payload cannot take them.
    #[error("the conclusion cannot carry the run's steps: {0}")]
    Payload(#[from] CommitmentFault),
}

impl StepRun {
    pub(super) fn new(store: StepStore, tenant: TenantId, run: RunId, definition: Definition) -> Self {
        Self { store, tenant, run, definition }
    }

    /// The run.
    pub fn id(&self) -> &RunId {
        &self.run
    }

    /// What the step at `path` returned: from the store where it is recorded, else from `perform`, whose value
    /// is durable when this returns. Blocks.
    ///
    /// The key is that of the tenant, run and path: the same at each attempt, and no other's. Between the
    /// effect and its recording a crash may come, after which `perform` is called once more; whoever performs
    /// the effect has to know the key again.
    ///
    /// # Errors
    /// What `perform` returns; refusals of the store, and steps that cannot be read, before it is called.
    pub fn step<E>(
        &self,
        path: StepPath,
        perform: impl FnOnce(&StepKey) -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, StepFailure<E>> {
        let key = StepKey::of(&[self.tenant.as_str(), self.run.as_str(), path.as_str()].map(str::as_bytes));
        if let Some(recorded) = self.recorded(&key)? {
            return Ok(recorded.value);
        }
        let value = perform(&key).map_err(StepFailure::Step)?;
        match self.record(key, path, value.clone()).wait()? {
            Recorded::Now | Recorded::Already => Ok(value),
        }
    }

    /// The step recorded under `key`, or `None`. Holds the definition against the run's once more. Blocks on the
    /// device.
    ///
    /// # Errors
    /// Those of [`StepStore::check_definition`] and [`StepStore::lookup`], but for a run without steps.
    pub fn recorded(&self, key: &StepKey) -> Result<Option<Step>, StepError> {
        self.store.check_definition(&self.tenant, &self.run, &self.definition)?;
        match self.store.lookup(&self.tenant, &self.run, key) {
            Err(StepError::UnknownRun { .. }) => Ok(None),
            found => found,
        }
    }

    /// Records what a step returned.
    pub fn record(&self, key: StepKey, path: StepPath, value: Vec<u8>) -> StepAck {
        let (tenant, run, definition) = (self.tenant.clone(), self.run.clone(), self.definition.clone());
        self.store.append(Step { tenant, run, key, path, definition, value })
    }

    /// What the run's conclusion is to say of its steps.
    ///
    /// # Errors
    /// [`StepError::UnknownRun`] where no step is recorded: such a run has nothing to say.
    pub fn commitment(&self) -> Result<StepsCommitment, StepError> {
        self.store.commitment(&self.tenant, &self.run)
    }

    /// The payload of the `RunConcluded` record that ends this run, completed by the head of its steps, so that
    /// the run's leaf commits to them. Record no step after this.
    ///
    /// # Errors
    /// As [`StepRun::commitment`]; a payload that is no object or has a member `steps`.
    pub fn conclusion(&self, payload: &Json) -> Result<Json, ConclusionError> {
        Ok(self.commitment()?.complete(payload)?)
    }
}

//! Which steps may stand together in a run: those of one tenant, under one definition.

use super::{
    payload::StepView,
    step::{Definition, Drift},
};
use crate::name::{RunId, TenantId};

/// What the first step of a run settles for those after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownRun {
    /// Whose run it is.
    pub tenant: TenantId,
    /// The definition it follows.
    pub definition: Definition,
}

/// Why a step cannot stand in a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinFault {
    /// The run belongs to another tenant. Which one is not said: the answer may go to a stranger.
    #[error("run {run} does not belong to tenant {tenant}")]
    ForeignTenant {
        /// The run.
        run: RunId,
        /// The tenant that claims it.
        tenant: TenantId,
    },
    /// The run follows another definition.
    #[error("run {run} follows another definition: {drift}")]
    Drift {
        /// The run.
        run: RunId,
        /// Where the definitions part.
        drift: Box<Drift>,
    },
}

impl KnownRun {
    /// What `step`, the first of its run, settles.
    pub fn of(step: &StepView<'_>) -> Self {
        Self { tenant: step.to_tenant(), definition: step.to_definition() }
    }

    /// Whether `tenant` may have to do with this run, which is called `run`.
    pub fn admits_tenant(&self, run: &RunId, tenant: &TenantId) -> Result<(), JoinFault> {
        if self.tenant == *tenant {
            Ok(())
        } else {
            Err(JoinFault::ForeignTenant { run: run.clone(), tenant: tenant.clone() })
        }
    }

    /// Whether this run, which is called `run`, may go on for `tenant` under `definition`.
    pub fn admits(&self, run: &RunId, tenant: &TenantId, definition: &Definition) -> Result<(), JoinFault> {
        self.admits_tenant(run, tenant)?;
        match self.definition.drift(definition) {
            None => Ok(()),
            Some(drift) => Err(JoinFault::Drift { run: run.clone(), drift: Box::new(drift) }),
        }
    }

    /// Whether `step` may stand in this run, which it names.
    pub fn admits_step(&self, step: &StepView<'_>) -> Result<(), JoinFault> {
        if step.tenant() == self.tenant.as_str() && step.follows(&self.definition) {
            return Ok(());
        }
        self.admits(&step.to_run(), &step.to_tenant(), &step.to_definition())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::step::{Step, tests::step};

    #[test]
    fn a_run_goes_on_for_its_tenant_under_its_definition_only() {
        let first = step("run-1", "charge", b"");
        let known = KnownRun::of(&first.to_payload().unwrap().step());
        let run = &first.run;
        assert_eq!(known.admits(run, &first.tenant, &first.definition), Ok(()));
        let stranger = TenantId::new("evil").unwrap();
        let drifted = Definition { revision: 99, ..first.definition.clone() };
        // A stranger is not told how the definition differs.
        let foreign = JoinFault::ForeignTenant { run: run.clone(), tenant: stranger.clone() };
        assert_eq!(known.admits(run, &stranger, &drifted), Err(foreign));
        let drift = Box::new(Drift::Revision { recorded: 3, offered: 99 });
        assert_eq!(
            known.admits(run, &first.tenant, &drifted),
            Err(JoinFault::Drift { run: run.clone(), drift })
        );
        // As the next step of the run they are judged alike.
        for (tenant, definition) in [
            (&first.tenant, &first.definition),
            (&stranger, &first.definition),
            (&stranger, &drifted),
            (&first.tenant, &drifted),
        ] {
            let next = Step { tenant: tenant.clone(), definition: definition.clone(), ..first.clone() };
            let payload = next.to_payload().unwrap();
            assert_eq!(known.admits_step(&payload.step()), known.admits(run, tenant, definition));
        }
    }
}

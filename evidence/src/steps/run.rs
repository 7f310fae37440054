//! Which steps may stand together in a run: those of one tenant, under one definition.

use super::step::{Definition, Drift, Step};
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
    pub fn of<V>(step: &Step<V>) -> Self {
        Self { tenant: step.tenant.clone(), definition: step.definition.clone() }
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::step::tests::step;

    #[test]
    fn a_run_goes_on_for_its_tenant_under_its_definition_only() {
        let first = step("run-1", "charge", b"");
        let known = KnownRun::of(&first);
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
    }
}

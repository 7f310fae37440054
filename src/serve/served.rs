//! The logs of a plane as the server names them: each tenant's, and the directory of all.

use runseal_evidence::name::TenantId;

use crate::{Journal, Log, StoreError, Tenant};

/// The name of the directory's log, which no tenant can bear.
pub(crate) const DIRECTORY: &str = "_directory";

/// The name of a log, as a path spells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LogName {
    Tenant(TenantId),
    Directory,
}

impl LogName {
    /// Reads the name in a path, if it can be one.
    pub(super) fn parse(name: &str) -> Option<Self> {
        if name == DIRECTORY { Some(Self::Directory) } else { TenantId::new(name).ok().map(Self::Tenant) }
    }

    /// The log's handle.
    pub(super) fn log(&self, journal: &Journal) -> Log {
        match self {
            Self::Tenant(tenant) => journal.tenant(tenant).log().clone(),
            Self::Directory => journal.directory(),
        }
    }
}

/// A log to publish.
#[derive(Clone, Debug)]
pub(crate) enum Served {
    Tenant(Tenant),
    Directory(Log),
}

impl Served {
    /// Every log of the plane, the directory's last: what it lists exists by then.
    pub(crate) fn all(journal: &Journal) -> Result<Vec<Self>, StoreError> {
        let tenants = journal.tenants()?.into_iter().map(|tenant| Self::Tenant(journal.tenant(&tenant)));
        Ok(tenants.chain([Self::Directory(journal.directory())]).collect())
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Tenant(tenant) => tenant.id().as_str(),
            Self::Directory(_) => DIRECTORY,
        }
    }

    pub(crate) fn log(&self) -> &Log {
        match self {
            Self::Tenant(tenant) => tenant.log(),
            Self::Directory(log) => log,
        }
    }

    /// Pins open runs that grew; the directory has none.
    pub(crate) fn pin_heads(&self) -> Result<(), StoreError> {
        match self {
            Self::Tenant(tenant) => tenant.pin_heads().map(drop),
            Self::Directory(_) => Ok(()),
        }
    }
}

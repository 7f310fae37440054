//! The flags that name a plane and a tenant, and opening them.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use runseal_evidence::name::TenantId;

use super::CliError;
use crate::{Journal, OpenOptions, serve::Served};

/// Which plane.
#[derive(Debug, clap::Args)]
pub(super) struct PlaneArgs {
    /// The plane's folder.
    #[arg(long, env = "RUNSEAL_DIR", value_name = "DIR")]
    pub(super) dir: PathBuf,

    /// Memory for pages of the database, in MiB.
    #[arg(long, env = "RUNSEAL_CACHE_MIB", value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) cache_mib: u16,
}

/// Which tenant of which plane.
#[derive(Debug, clap::Args)]
pub(super) struct TenantArgs {
    #[command(flatten)]
    pub(super) plane: PlaneArgs,

    /// The tenant.
    #[arg(long, env = "RUNSEAL_TENANT", value_name = "TENANT", default_value = TenantId::DEFAULT)]
    pub(super) tenant: TenantId,
}

/// Which log of which plane.
#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    #[command(flatten)]
    pub(super) tenant: TenantArgs,

    /// The log of the tenants' logs, <base>/log/_directory, instead of a tenant's.
    #[arg(long, env = "RUNSEAL_DIRECTORY", value_parser = BoolishValueParser::new())]
    pub(super) directory: bool,
}

impl LogArgs {
    /// The log asked for.
    pub(super) fn of(&self, journal: &Journal) -> Served {
        if self.directory {
            Served::Directory(journal.directory())
        } else {
            Served::Tenant(journal.tenant(&self.tenant.tenant))
        }
    }
}

impl PlaneArgs {
    /// Opens the journal, which stays locked against other processes until it is dropped.
    pub(super) fn open(&self) -> Result<Journal, CliError> {
        Ok(Journal::open_with(&self.dir, &self.options())?)
    }

    /// How it is opened.
    pub(super) fn options(&self) -> OpenOptions {
        OpenOptions { cache_bytes: usize::from(self.cache_mib) << 20 }
    }
}

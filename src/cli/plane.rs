//! The flags that name a plane and a tenant, and opening them.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use runseal_evidence::name::TenantId;

use super::{CliError, output::Output};
use crate::{Journal, OpenOptions, serve::Served};

/// Which plane.
#[derive(Debug, clap::Args)]
pub(super) struct PlaneArgs {
    /// The plane's folder.
    #[arg(long, env = "RUNSEAL_DIR", value_name = "DIR")]
    pub(super) dir: PathBuf,

    /// Memory for pages of the database, in MiB [default: 64; 4 to check it, which reads every page once].
    #[arg(long, env = "RUNSEAL_CACHE_MIB", value_name = "MIB", value_parser = clap::value_parser!(u16).range(1..))]
    cache_mib: Option<u16>,
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

/// Most tenants that are named to whoever asked for another.
const NAMED_MAX: usize = 5;

impl TenantArgs {
    /// Warns where the journal has nothing of the tenant but something of others: the name may be mistyped.
    pub(super) fn warn_if_unknown(&self, journal: &Journal, output: &Output) -> Result<(), CliError> {
        let known = journal.tenants()?;
        if known.is_empty() || known.contains(&self.tenant) {
            return Ok(());
        }
        let named: Vec<&str> = known.iter().take(NAMED_MAX).map(TenantId::as_str).collect();
        let others = if known.len() > named.len() { ", ..." } else { "" };
        let (tenant, named) = (&self.tenant, named.join(", "));
        output.tell(format_args!(
            "warning: nothing is here of tenant {tenant}; --tenant may be {named}{others}"
        ));
        Ok(())
    }
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
        self.open_as(OpenOptions::default())
    }

    /// Opens it as `default` asks, but for what the flags say otherwise.
    pub(super) fn open_as(&self, default: OpenOptions) -> Result<Journal, CliError> {
        Ok(Journal::open_with(&self.dir, &self.options(default))?)
    }

    /// How it is opened, where nothing else is asked for as by `default`.
    pub(super) fn options(&self, default: OpenOptions) -> OpenOptions {
        let cache_bytes = self.cache_mib.map_or(default.cache_bytes, |mib| usize::from(mib) << 20);
        OpenOptions { cache_bytes, ..default }
    }
}

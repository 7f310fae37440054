//! The directory: a log with one entry for each tenant, made in the transaction of the tenant's first row.

use runseal_evidence::entry::{Entry, TenantLog};
use runseal_evidence::name::TenantId;

use super::Plane;
use crate::log;
use crate::store::{Overlay, Read, Scope, Space, StoreError, Table};

/// Enters a tenant, unless it is entered.
pub(crate) fn enlist(tx: &mut Overlay<'_>, plane: &Plane, tenant: &TenantId) -> Result<(), StoreError> {
    let key = Space::of(&Scope::Plane, Table::Tenants).key(&[tenant.as_str().as_bytes()]);
    if tx.get(&key)?.is_some() {
        return Ok(());
    }
    let vkey = plane.log_key(&Scope::Tenant(tenant.clone())).verifier().to_string();
    let entry = TenantLog::new(plane.base.clone(), tenant.clone(), vkey)
        .expect("a log's key is called as its origin and spelled in ASCII");
    let index = log::append_entry(tx, &Scope::Directory, &Entry::Tenant(entry).encode())?;
    tx.put(key, index.to_be_bytes().to_vec());
    Ok(())
}

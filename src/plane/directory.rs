//! The directory: a log with one entry for each tenant, made in the transaction of the tenant's first row.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use runseal_evidence::entry::{Entry, TenantLog};
use runseal_evidence::name::TenantId;

use super::Plane;
use crate::log;
use crate::store::{Overlay, Read, Scope, Space, StoreError, Table};

/// Tenants seen to be entered, so that they need not be looked up again.
///
/// An entry that a failed commit took back may be among them: then the journal accepts nothing more anyway.
#[derive(Default)]
pub(crate) struct Enlisted(Mutex<HashSet<TenantId>>);

/// Most tenants that are kept in mind.
const KEPT_MAX: usize = 4096;

impl Plane {
    /// Enters a tenant, unless it is entered.
    pub(crate) fn enlist(&self, tx: &mut Overlay<'_>, tenant: &TenantId) -> Result<(), StoreError> {
        let mut seen = self.enlisted.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(tenant) {
            return Ok(());
        }
        let key = Space::of(&Scope::Plane, Table::Tenants).key(&[tenant.as_str().as_bytes()]);
        if tx.get(&key)?.is_some() {
            if seen.len() >= KEPT_MAX {
                seen.clear();
            }
            seen.insert(tenant.clone());
            return Ok(());
        }
        let vkey = self.log_key(&Scope::Tenant(tenant.clone())).verifier().to_string();
        let entry = TenantLog::new(self.base.clone(), tenant.clone(), vkey)
            .expect("a log's key is called as its origin and spelled in ASCII");
        let index = log::append_entry(tx, &Scope::Directory, &Entry::Tenant(entry).encode())?;
        tx.put(key, index.to_be_bytes().to_vec());
        Ok(())
    }
}

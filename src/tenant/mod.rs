//! The handle of one tenant: its runs and its log.
//!
//! Writing calls come in two forms. The plain one (`append`) blocks until what it did is durable. The
//! queued one (`append_queued`) returns at once with an [`Ack`](crate::Ack) to wait for or to `.await`, and
//! is refused with [`StoreError::Busy`] where the queue is full.

mod evidence;
mod listing;
mod whole;
mod writing;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use runseal_evidence::name::TenantId;

pub use self::whole::{ImportError, Imported, RestoredRecord};
use crate::chain::Writer;
use crate::log::Log;
use crate::plane::Plane;
use crate::shared::Shared;
use crate::store::{Overlay, Read, Scope, StoreError};

/// One tenant's runs and log. Cheap to clone and safe to share.
///
/// It is the tenant's [`Log`] as well, and has all of its methods.
#[derive(Clone)]
pub struct Tenant {
    shared: Arc<Shared>,
    id: TenantId,
    scope: Scope,
    log: Log,
}

impl Tenant {
    pub(crate) fn new(shared: Arc<Shared>, id: TenantId) -> Self {
        let scope = Scope::Tenant(id.clone());
        let log = Log::new(Arc::clone(&shared), scope.clone());
        Self { shared, id, scope, log }
    }

    /// The tenant's name.
    pub fn id(&self) -> &TenantId {
        &self.id
    }

    /// The tenant's log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    fn snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, StoreError> {
        Ok(self.shared.snapshot()?)
    }

    fn writer(&self) -> WriterOf {
        WriterOf { tenant: self.id.clone(), scope: self.scope.clone() }
    }

    fn run_rule<T, E>(
        &self,
        bytes: usize,
        rule: impl FnMut(&mut Overlay<'_>, &Plane) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.shared.run(&self.scope, bytes, rule)
    }

    /// Runs a rule that does up to `limit` things, in as many transactions as it takes to do them all.
    fn repeat(
        &self,
        limit: usize,
        rule: impl Fn(&mut Overlay<'_>, Writer<'_>, usize) -> Result<usize, StoreError> + Send + Clone + 'static,
    ) -> Result<u64, StoreError> {
        let mut total = 0;
        loop {
            let (rule, of) = (rule.clone(), self.writer());
            let done: usize = self.run_rule(0, move |tx, plane| rule(tx, of.at(plane), limit))?;
            total += done as u64;
            if done < limit {
                return Ok(total);
            }
        }
    }
}

/// What a rule takes along of the tenant it writes for.
struct WriterOf {
    tenant: TenantId,
    scope: Scope,
}

impl WriterOf {
    fn at<'a>(&'a self, plane: &'a Plane) -> Writer<'a> {
        let signer = plane.record_signer.as_ref();
        Writer { tenant: &self.tenant, scope: &self.scope, signer, now_ms: plane.clock.now_ms() }
    }
}

impl Deref for Tenant {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.log
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("id", &self.id).finish_non_exhaustive()
    }
}

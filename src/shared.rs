//! What all handles of one journal share: the plane, the engine, and the thread that writes to it.

use std::sync::{Arc, Mutex};

use crate::log::{Opened, Watchers};
use crate::plane::Plane;
use crate::store::{Ack, Committer, Engine, EngineError, Limits, Overlay, Read, Scope, StoreError};

/// The inside of a journal. Dropped with the last of them, after the queue has drained.
pub(crate) struct Shared {
    // Dropped first: the storage thread ends before the engine closes.
    committer: Committer,
    engine: Arc<dyn Engine>,
    pub(crate) plane: Arc<Plane>,
    /// Held while a checkpoint is signed, so that memory and tree are compared by one signer at a time.
    pub(crate) signing: Mutex<()>,
    /// Who waits for a checkpoint to be published.
    pub(crate) watchers: Watchers,
    /// The checkpoints that readers are shown, as last verified.
    pub(crate) opened: Opened,
}

/// What a caller does when the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queueing {
    /// It waits for room.
    Waits,
    /// It is refused.
    Refused,
}

impl Shared {
    pub(crate) fn start(engine: Arc<dyn Engine>, plane: Plane, limits: Limits) -> std::io::Result<Self> {
        let committer = Committer::start(Arc::clone(&engine), limits)?;
        Ok(Self {
            committer,
            engine,
            plane: Arc::new(plane),
            signing: Mutex::new(()),
            watchers: Watchers::default(),
            opened: Opened::default(),
        })
    }

    /// The committed state, as it stands.
    pub(crate) fn snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, EngineError> {
        self.engine.snapshot()
    }

    /// Queues a rule for the storage thread, `bytes` being about what it holds in memory.
    ///
    /// A tenant that it writes for the first time enters the directory in the same transaction.
    pub(crate) fn queue<T, E>(
        &self,
        scope: &Scope,
        bytes: usize,
        queueing: Queueing,
        mut rule: impl FnMut(&mut Overlay<'_>, &Plane) -> Result<T, E> + Send + 'static,
    ) -> Ack<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let plane = Arc::clone(&self.plane);
        let tenant = scope.tenant().cloned();
        let rule = move |tx: &mut Overlay<'_>| {
            let answer = rule(tx, &plane)?;
            if let Some(tenant) = tenant.as_ref().filter(|_| tx.has_writes()) {
                plane.enlist(tx, tenant)?;
            }
            Ok(answer)
        };
        match queueing {
            Queueing::Waits => self.committer.submit(bytes, rule),
            Queueing::Refused => self.committer.try_submit(bytes, rule),
        }
    }

    /// Runs a rule in the storage thread and waits until what it did is durable.
    pub(crate) fn run<T, E>(
        &self,
        scope: &Scope,
        bytes: usize,
        rule: impl FnMut(&mut Overlay<'_>, &Plane) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.queue(scope, bytes, Queueing::Waits, rule).wait()
    }
}

//! The handle of a store.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use runseal_evidence::name::{RunId, TenantId};
use runseal_evidence::steps::{
    Definition, FRAME_OVERHEAD_BYTES, FrameChain, FrameFault, HEADER_BYTES, Payload, Step, StepKey,
    StepsCommitment, StoreHead, StoreId,
};

use super::answers::Awaited;
use super::batch::Append;
use super::error::{LimitKind, OpenError, StepError};
use super::index::{Index, Run};
use super::limits::StepLimits;
use super::open::{Opening, open};
use super::owner::{Flushes, Recorded, help, serve};
use super::places::{KeyHashing, Place};
use super::queue::{Pushed, Queue};
use super::run::StepRun;
use crate::disk::{Disk, FileDisk, LockError, read_exact_at};

/// One file of steps, open for one process. Cloning gives another handle of the same store; the file is
/// released when the last one is dropped and everything that waited has been carried out.
#[derive(Clone)]
pub struct StepStore(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    opening: Opening,
    owner: Option<JoinHandle<()>>,
}

/// What handles and the writing thread share.
pub(super) struct Shared {
    pub(super) disk: Box<dyn Disk>,
    pub(super) id: StoreId,
    pub(super) index: RwLock<Index>,
    keys: KeyHashing,
    pub(super) queue: Queue,
    /// The chain to the end of the file. Who holds it writes.
    pub(super) chain: Mutex<FrameChain>,
    pub(super) limits: StepLimits,
    pub(super) flushes: Flushes,
    /// The one tenant whose steps the store holds, where it is bound to one.
    only: Option<TenantId>,
}

/// How many syncs made how many steps durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushCounts {
    /// Syncs paid for appends since the store was opened.
    pub syncs: u64,
    /// Steps they made durable.
    pub steps: u64,
}

/// The answer to an append, once the step is durable.
///
/// Wait for it with [`StepAck::wait`], or `.await` it under any executor. Dropping it takes nothing back: the step
/// is recorded all the same.
#[must_use = "nothing is known to be durable until the acknowledgement has come"]
pub struct StepAck {
    answer: Awaited,
    /// Who is to be asked to see to it, where nobody has been.
    store: Weak<Inner>,
}

impl StepAck {
    /// Blocks until the answer is there. Where nobody writes at the time, this thread does, and counts as a handle
    /// of the store meanwhile.
    ///
    /// # Errors
    /// Why the step was not recorded.
    pub fn wait(self) -> Result<Recorded, StepError> {
        if let Some(store) = self.store.upgrade() {
            help(&store.shared);
        }
        self.answer.wait()
    }
}

impl Future for StepAck {
    type Output = Result<Recorded, StepError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.answer.poll(context.waker());
        if polled.is_pending()
            && let Some(store) = std::mem::take(&mut self.store).upgrade()
        {
            store.shared.queue.hand_over();
        }
        polled
    }
}

/// The file at `path`, made where there is none, and kept from other handles.
fn locked(path: &Path) -> Result<FileDisk, OpenError> {
    FileDisk::open_locked(path).map_err(|error| match error {
        LockError::InUse => OpenError::InUse { path: path.to_owned() },
        LockError::Io(error) => OpenError::File { path: path.to_owned(), error },
    })
}

impl StepStore {
    /// Opens the file at `path`, for any tenants, and makes it where there is none.
    ///
    /// # Errors
    /// A file that is in use, something else, of another version or damaged; no byte of it is changed then.
    pub fn open(path: impl AsRef<Path>, limits: StepLimits) -> Result<Self, OpenError> {
        Self::start(Box::new(locked(path.as_ref())?), None, limits)
    }

    /// Opens the file `<tenant>.steps` in `dir`, for this tenant alone, and makes it where there is none.
    ///
    /// # Errors
    /// As [`StepStore::open`]; also a file that holds steps of another tenant.
    pub fn open_in(dir: impl AsRef<Path>, tenant: &TenantId, limits: StepLimits) -> Result<Self, OpenError> {
        let path = dir.as_ref().join(format!("{tenant}.steps"));
        Self::start(Box::new(locked(&path)?), Some(tenant.clone()), limits)
    }

    /// Opens a store on a device of the caller's, for any tenants. No other store may use it meanwhile.
    ///
    /// # Errors
    /// As [`StepStore::open`].
    pub fn open_on(disk: impl Disk, limits: StepLimits) -> Result<Self, OpenError> {
        Self::start(Box::new(disk), None, limits)
    }

    fn start(disk: Box<dyn Disk>, only: Option<TenantId>, limits: StepLimits) -> Result<Self, OpenError> {
        let opened = open(&*disk, only.as_ref())?;
        let (id, keys) = (*opened.chain.id(), opened.keys);
        let (index, chain) = (RwLock::new(opened.index), Mutex::new(opened.chain));
        let (queue, flushes) = (Queue::new(&limits), Flushes::default());
        let shared = Arc::new(Shared { disk, id, index, keys, queue, chain, limits, flushes, only });
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("runseal-steps".to_owned());
        let owner = thread.spawn(move || serve(&served)).map_err(OpenError::Thread)?;
        Ok(Self(Arc::new(Inner { shared, opening: opened.opening, owner: Some(owner) })))
    }

    /// What opening found and did.
    pub fn opening(&self) -> &Opening {
        &self.0.opening
    }

    /// Which store this is.
    pub fn id(&self) -> &StoreId {
        &self.shared().id
    }

    /// Queues a step. It is recorded once the acknowledgement says so, in the order of the calls.
    ///
    /// Never waits for the device: where too much waits already, the answer is [`StepError::QueueFull`].
    #[expect(clippy::needless_pass_by_value, reason = "a step is handed over, however the store keeps it")]
    pub fn append(&self, step: Step) -> StepAck {
        let shared = self.shared();
        let pushed = shared.payload(&step).and_then(|payload| {
            let hash = shared.keys.hash(&step.key);
            shared.queue.push(Append::new(payload, hash))
        });
        match pushed {
            Ok(Pushed { answer, left_to_caller: true }) => StepAck { answer, store: Arc::downgrade(&self.0) },
            Ok(Pushed { answer, left_to_caller: false }) => StepAck { answer, store: Weak::new() },
            Err(refusal) => StepAck { answer: Awaited::ready(refusal), store: Weak::new() },
        }
    }

    /// The step of `run` that was recorded under `key`, read from the file and checked; `None` where the run has
    /// none. Blocks on the device.
    ///
    /// # Errors
    /// [`StepError::UnknownRun`] where no step of the run is recorded, [`StepError::ForeignTenant`] where the run
    /// belongs to another tenant; a value that cannot be read or is damaged.
    pub fn lookup(&self, tenant: &TenantId, run: &RunId, key: &StepKey) -> Result<Option<Step>, StepError> {
        let shared = self.shared();
        let places: Vec<_> = {
            let index = shared.index();
            shared.known(&index, tenant, run)?.places.at(shared.keys.hash(key)).collect()
        };
        for place in places {
            let step = read_step(&*shared.disk, &shared.id, place)?;
            if step.key == *key {
                return Ok(Some(step));
            }
        }
        Ok(None)
    }

    /// The run called `run`, new or known, to be carried out under `definition`.
    ///
    /// # Errors
    /// [`StepError::ForeignTenant`] and [`StepError::Drift`], before any step is performed.
    pub fn run(&self, tenant: TenantId, run: RunId, definition: Definition) -> Result<StepRun, StepError> {
        self.check_definition(&tenant, &run, &definition)?;
        Ok(StepRun::new(self.clone(), tenant, run, definition))
    }

    /// The known run called `run`, to be gone on with under `definition`.
    ///
    /// # Errors
    /// As [`StepStore::run`], and [`StepError::UnknownRun`].
    pub fn resume(&self, tenant: TenantId, run: RunId, definition: Definition) -> Result<StepRun, StepError> {
        self.shared().known(&self.shared().index(), &tenant, &run)?;
        self.run(tenant, run, definition)
    }

    /// Whether `run` may go on for `tenant` under `definition`. A run without steps may.
    ///
    /// # Errors
    /// [`StepError::ForeignTenant`], or [`StepError::Drift`] with the first axis that differs and both sides.
    pub fn check_definition(
        &self,
        tenant: &TenantId,
        run: &RunId,
        definition: &Definition,
    ) -> Result<(), StepError> {
        let index = self.shared().index();
        match self.shared().known(&index, tenant, run) {
            Ok(known) => Ok(known.known.admits(run, tenant, definition)?),
            Err(StepError::UnknownRun { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// True where a step of `run` is recorded, whoever it belongs to.
    pub fn knows_run(&self, run: &RunId) -> bool {
        self.shared().index().run(run.as_str()).is_some()
    }

    /// Whose run it is.
    ///
    /// # Errors
    /// [`StepError::UnknownRun`].
    pub fn tenant_of(&self, run: &RunId) -> Result<TenantId, StepError> {
        let index = self.shared().index();
        let known = index.run(run.as_str()).ok_or_else(|| StepError::UnknownRun { run: run.clone() })?;
        Ok(known.known.tenant.clone())
    }

    /// The definition that the run's steps were made under.
    ///
    /// # Errors
    /// [`StepError::UnknownRun`], [`StepError::ForeignTenant`].
    pub fn definition_of(&self, tenant: &TenantId, run: &RunId) -> Result<Definition, StepError> {
        let index = self.shared().index();
        Ok(self.shared().known(&index, tenant, run)?.known.definition.clone())
    }

    /// How many steps of the run are recorded.
    ///
    /// # Errors
    /// [`StepError::UnknownRun`], [`StepError::ForeignTenant`].
    pub fn step_count(&self, tenant: &TenantId, run: &RunId) -> Result<u64, StepError> {
        let index = self.shared().index();
        Ok(self.shared().known(&index, tenant, run)?.places.count())
    }

    /// What the run's conclusion is to say of its steps.
    ///
    /// # Errors
    /// [`StepError::UnknownRun`], [`StepError::ForeignTenant`].
    pub fn commitment(&self, tenant: &TenantId, run: &RunId) -> Result<StepsCommitment, StepError> {
        let index = self.shared().index();
        let run = self.shared().known(&index, tenant, run)?;
        Ok(StepsCommitment::new(run.head, run.places.marks()))
    }

    /// Bytes of the file that are synced: its header and every recorded step.
    pub fn committed_bytes(&self) -> u64 {
        self.shared().index().committed_bytes()
    }

    /// How many syncs made how many steps durable since the store was opened.
    pub fn flush_counts(&self) -> FlushCounts {
        let Flushes { syncs, steps } = &self.shared().flushes;
        FlushCounts { syncs: syncs.load(Ordering::Relaxed), steps: steps.load(Ordering::Relaxed) }
    }

    fn shared(&self) -> &Shared {
        &self.0.shared
    }
}

impl fmt::Debug for StepStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepStore").field("id", self.id()).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.queue.close();
        if let Some(owner) = self.owner.take() {
            // The last handle may go with a waker that the thread itself has called; it then ends by itself. A
            // panic there has been answered to every caller already.
            if owner.thread().id() != std::thread::current().id() {
                let _ = owner.join();
            }
        }
    }
}

impl Shared {
    pub(super) fn index(&self) -> RwLockReadGuard<'_, Index> {
        // What runs under the write lock only inserts.
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The payload of a step that this store may hold.
    fn payload(&self, step: &Step) -> Result<Payload, StepError> {
        self.admits(&step.tenant, &step.run)?;
        let (kind, requested, limit) =
            (LimitKind::RecordBytes, step.payload_bytes(), self.limits.record_bytes());
        if requested > limit {
            return Err(StepError::Limit { kind, requested, limit });
        }
        step.to_payload().map_err(|_| StepError::Limit { kind, requested, limit })
    }

    fn admits(&self, tenant: &TenantId, run: &RunId) -> Result<(), StepError> {
        match &self.only {
            Some(only) if only != tenant => {
                Err(StepError::ForeignTenant { run: run.clone(), tenant: tenant.clone() })
            }
            _ => Ok(()),
        }
    }

    fn known<'a>(&self, index: &'a Index, tenant: &TenantId, run: &RunId) -> Result<&'a Run, StepError> {
        self.admits(tenant, run)?;
        let known = index.run(run.as_str()).ok_or_else(|| StepError::UnknownRun { run: run.clone() })?;
        known.known.admits_tenant(run, tenant)?;
        Ok(known)
    }
}

/// Reads the step at `place` and checks it: against the head before it, its own head, and what was there when
/// it was synced or the file opened.
pub(super) fn read_step(disk: &dyn Disk, id: &StoreId, place: Place) -> Result<Step, StepError> {
    let at = place.at;
    let damaged = |fault| StepError::Damaged { at, fault: Box::new(fault) };
    let payload_bytes = usize::try_from(place.payload_bytes).unwrap_or(usize::MAX);
    let mut bytes = vec![0; HEADER_BYTES + FRAME_OVERHEAD_BYTES + payload_bytes];
    // As many bytes as the head before take up are always there: the header has as many.
    read_exact_at(disk, &mut bytes, at - HEADER_BYTES as u64)
        .map_err(|error| StepError::Read { at, error: Arc::new(error) })?;
    let (before, frame) = bytes.split_at(HEADER_BYTES);
    let before = match before.first_chunk() {
        Some(head) if at > HEADER_BYTES as u64 => StoreHead::from_bytes(*head),
        _ => StoreHead::genesis(id),
    };
    let frame = FrameChain::check_alone(id, at, before, frame).map_err(damaged)?;
    if !place.holds(&frame.digest) {
        return Err(damaged(FrameFault::Replaced));
    }
    Ok(frame.step.to_step())
}

//! The storage thread: many commands, one commit.
//!
//! Commands wait in a bounded queue. The thread takes what is there, runs each command in an overlay of its
//! own, commits what the accepted ones wrote with one sync, and only then answers them all. A batch forms
//! while the disk is busy with the one before; nobody lingers for company. Once nothing has come for a while, the
//! thread lets the engine settle.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;

use super::ack::{Ack, Answer, ack};
use super::engine::Engine;
use super::error::{EngineError, StoreError};
use super::overlay::{Overlay, Writes};
use super::sync::thread::{self, JoinHandle};
use super::sync::{Arc, Condvar, Mutex, MutexGuard};

/// How much may wait at most, and how much goes into one commit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Commands that may wait; one more is refused, or waits for room.
    pub(crate) waiting: usize,
    /// Bytes of the commands that may wait. A command alone may be larger.
    pub(crate) waiting_bytes: usize,
    /// Commands in one commit.
    pub(crate) batch: usize,
    /// How long nothing must come before the engine settles; `None` where it never does.
    pub(crate) settle_after: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { waiting: 4096, waiting_bytes: 64 << 20, batch: 1024, settle_after: None }
    }
}

/// Runs commands in the order they come.
pub(crate) struct Committer {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

/// A command with its caller. `run` says whether what it wrote is to be kept.
trait Job: Send {
    fn run(&mut self, transaction: &mut Overlay<'_>) -> bool;
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Command<T, E: From<StoreError>, F> {
    rule: F,
    decided: Option<Result<T, E>>,
    answer: Answer<T, E>,
}

impl<T, E, F> Job for Command<T, E, F>
where
    T: Send,
    E: From<StoreError> + Send,
    F: FnMut(&mut Overlay<'_>) -> Result<T, E> + Send,
{
    fn run(&mut self, transaction: &mut Overlay<'_>) -> bool {
        self.decided.insert((self.rule)(transaction)).is_ok()
    }

    fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
        let Self { decided, answer, .. } = *self;
        match (committed, decided) {
            (Ok(()), Some(decided)) => answer.send(decided),
            (Err(error), _) => answer.send(Err(error.into())),
            (Ok(()), None) => drop(answer),
        }
    }
}

impl Committer {
    /// Starts the thread, which has `engine` to itself for writing.
    pub(crate) fn start(engine: Arc<dyn Engine>, limits: Limits) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::new(limits));
        let served = Arc::clone(&queue);
        let thread = thread::Builder::new().name("runseal-store".to_owned()).spawn(move || {
            // Should this thread ever panic, nobody waits for it afterwards.
            let _guard = PoisonOnPanic(&served);
            let mut settled = true;
            loop {
                let done = match served.take(settled) {
                    Next::Batch(jobs) => {
                        settled = false;
                        run(&*engine, &served, jobs)
                    }
                    Next::Idle => {
                        settled = true;
                        engine.settle()
                    }
                    Next::Closed => return,
                };
                if let Err(error) = done {
                    tracing::error!(%error, "a commit failed; nothing more is accepted");
                    served.poison();
                }
            }
        })?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Queues a command, waiting for room in the queue.
    ///
    /// `rule` has no effect outside the transaction and may be run again by an engine that has to.
    pub(crate) fn submit<T, E, F>(&self, bytes: usize, rule: F) -> Ack<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnMut(&mut Overlay<'_>) -> Result<T, E> + Send + 'static,
    {
        let (answer, ack) = ack();
        let refused = self.queue.push(Box::new(Command { rule, decided: None, answer }), bytes, Full::Waits);
        if let Err((job, error)) = refused {
            job.finish(Err(error));
        }
        ack
    }

    /// Queues a command, or refuses it with [`StoreError::Busy`] where the queue is full.
    pub(crate) fn try_submit<T, E, F>(&self, bytes: usize, rule: F) -> Ack<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnMut(&mut Overlay<'_>) -> Result<T, E> + Send + 'static,
    {
        let (answer, ack) = ack();
        let refused =
            self.queue.push(Box::new(Command { rule, decided: None, answer }), bytes, Full::Refuses);
        if let Err((job, error)) = refused {
            job.finish(Err(error));
        }
        ack
    }
}

/// Refuses new commands, carries out those that wait, and ends the thread.
impl Drop for Committer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panic there has been answered to every caller already.
            let _ = thread.join();
        }
    }
}

/// Runs one batch and answers it. The error is that of a commit whose fate is unknown.
///
/// What comes while it is run goes into it: who was answered a moment ago is often back before the rest has run, and
/// one sync covers all.
fn run(engine: &dyn Engine, queue: &Queue, mut jobs: Vec<Box<dyn Job>>) -> Result<(), EngineError> {
    let snapshot = match engine.working_snapshot() {
        Ok(snapshot) => snapshot,
        Err(error) => {
            for job in jobs {
                job.finish(Err(error.clone().into()));
            }
            return Ok(());
        }
    };
    let mut batch = Overlay::over(&*snapshot);
    let mut ran = 0;
    while ran < jobs.len() {
        for job in &mut jobs[ran..] {
            let mut own = Overlay::over(&batch);
            let accepted = job.run(&mut own);
            let writes = if accepted { own.into_writes() } else { Writes::new() };
            batch.absorb(writes);
        }
        ran = jobs.len();
        queue.take_more(&mut jobs);
    }
    let writes = batch.into_writes();
    let committed = if writes.is_empty() { Ok(()) } else { engine.commit(writes) };
    // A refusal too is answered only now: it may rest on what a neighbour wrote.
    for job in jobs {
        job.finish(committed.clone().map_err(StoreError::CommitUnknown));
    }
    committed
}

/// What the storage thread does next.
enum Next {
    Batch(Vec<Box<dyn Job>>),
    /// Nothing has come for a while.
    Idle,
    /// The queue is closed and empty.
    Closed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Full {
    Waits,
    Refuses,
}

struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    emptied: Condvar,
    limits: Limits,
}

struct State {
    jobs: VecDeque<(Box<dyn Job>, usize)>,
    bytes: usize,
    /// Why nothing more is accepted.
    refusing: Option<StoreError>,
}

impl Queue {
    fn new(limits: Limits) -> Self {
        let state = State { jobs: VecDeque::new(), bytes: 0, refusing: None };
        Self { state: Mutex::new(state), filled: Condvar::new(), emptied: Condvar::new(), limits }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code runs under this lock that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Box<dyn Job>, bytes: usize, full: Full) -> Result<(), (Box<dyn Job>, StoreError)> {
        let mut state = self.lock();
        loop {
            if let Some(error) = &state.refusing {
                return Err((job, error.clone()));
            }
            let fits = state.bytes.saturating_add(bytes) <= self.limits.waiting_bytes;
            if state.jobs.is_empty() || state.jobs.len() < self.limits.waiting && fits {
                break;
            }
            if full == Full::Refuses {
                let waiting = state.jobs.len();
                return Err((job, StoreError::Busy { waiting }));
            }
            state = self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes += bytes;
        state.jobs.push_back((job, bytes));
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// What there is to do next. A `settled` engine is idle already.
    fn take(&self, settled: bool) -> Next {
        let mut state = self.lock();
        while state.jobs.is_empty() {
            if state.refusing.is_some() {
                return Next::Closed;
            }
            let patience = self.limits.settle_after.filter(|_| !settled);
            let Some(patience) = patience else {
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let waited = self.filled.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() && state.jobs.is_empty() && state.refusing.is_none() {
                return Next::Idle;
            }
        }
        drop(state);
        let mut batch = Vec::new();
        self.take_more(&mut batch);
        Next::Batch(batch)
    }

    /// Adds to a batch what waits, as much as one may hold.
    fn take_more(&self, batch: &mut Vec<Box<dyn Job>>) {
        let mut state = self.lock();
        let count = state.jobs.len().min(self.limits.batch.saturating_sub(batch.len()));
        let State { jobs, bytes, .. } = &mut *state;
        batch.extend(jobs.drain(..count).map(|(job, weight)| {
            *bytes -= weight;
            job
        }));
        drop(state);
        self.emptied.notify_all();
    }

    fn close(&self) {
        self.lock().refusing.get_or_insert(StoreError::Closed);
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Refuses what waits and whatever comes.
    fn poison(&self) {
        let mut state = self.lock();
        state.refusing = Some(StoreError::Poisoned);
        state.bytes = 0;
        let waiting = std::mem::take(&mut state.jobs);
        drop(state);
        for (job, _) in waiting {
            job.finish(Err(StoreError::Poisoned));
        }
        self.filled.notify_all();
        self.emptied.notify_all();
    }
}

struct PoisonOnPanic<'a>(&'a Queue);

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.poison();
        }
    }
}

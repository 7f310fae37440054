//! What a batch answers its callers, all at once, and who waits for it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};

use super::error::StepError;
use super::owner::Recorded;

/// The answers of one batch. Callers that block sleep on one lock, so that all of them are woken at once.
#[derive(Default)]
pub(super) struct Answers {
    given: OnceLock<Given>,
    /// Of each place, the task that waits for its answer.
    wakers: Mutex<Vec<Option<Waker>>>,
}

/// What is answered.
pub(super) enum Given {
    /// To each place in the batch.
    Each(Vec<Result<Recorded, StepError>>),
    /// To all of them.
    All(StepError),
}

/// The duty to answer a batch. Dropped without that, it says that there is no answer.
pub(super) struct Owed(Arc<Answers>);

/// One answer to come.
pub(super) struct Awaited {
    answers: Arc<Answers>,
    place: usize,
}

impl Owed {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// The answer to come at `place`.
    pub(super) fn at(&self, place: usize) -> Awaited {
        Awaited { answers: Arc::clone(&self.0), place }
    }

    /// Answers everybody, then wakes them: who was woken before its neighbours are answered would wake them in vain.
    /// A waker may run anything, so not under a lock.
    pub(super) fn give(self, given: Given) {
        self.0.give(given);
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.0.give(Given::All(StepError::Unanswered));
    }
}

impl Awaited {
    /// An answer that is there.
    pub(super) fn ready(refusal: StepError) -> Self {
        let answers = Answers { given: Given::All(refusal).into(), wakers: Mutex::default() };
        Self { answers: Arc::new(answers), place: 0 }
    }

    /// Blocks until the answer is there.
    pub(super) fn wait(&self) -> Result<Recorded, StepError> {
        self.answers.given.wait().at(self.place)
    }

    /// The answer; where it is not there, `waker` is woken when it is, in place of the one given before.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<Result<Recorded, StepError>> {
        if let Some(given) = self.answers.given.get() {
            return Poll::Ready(given.at(self.place));
        }
        let mut wakers = self.answers.wakers();
        // Who answers does that before looking here for whom to wake.
        if let Some(given) = self.answers.given.get() {
            return Poll::Ready(given.at(self.place));
        }
        if wakers.len() <= self.place {
            wakers.resize(self.place + 1, None);
        }
        let before = wakers[self.place].replace(waker.clone());
        // Dropping a waker too may run anything, also what waits for this very answer.
        drop(wakers);
        drop(before);
        Poll::Pending
    }
}

impl Answers {
    fn wakers(&self) -> MutexGuard<'_, Vec<Option<Waker>>> {
        // No code runs under this lock that can panic.
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, given: Given) {
        if self.given.set(given).is_ok() {
            let wakers = std::mem::take(&mut *self.wakers());
            WakeAll(wakers.into_iter()).run();
        }
    }
}

impl Given {
    fn at(&self, place: usize) -> Result<Recorded, StepError> {
        match self {
            Self::Each(answers) => answers.get(place).cloned().unwrap_or(Err(StepError::Unanswered)),
            Self::All(error) => Err(error.clone()),
        }
    }
}

/// Wakes tasks, also those behind one whose waker panics.
struct WakeAll(std::vec::IntoIter<Option<Waker>>);

impl WakeAll {
    fn run(&mut self) {
        self.0.by_ref().flatten().for_each(Waker::wake);
    }
}

impl Drop for WakeAll {
    fn drop(&mut self) {
        self.run();
    }
}

//! What a caller waits for: one answer, by blocking or as a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use super::error::StoreError;
use super::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The answer to a command, once what it did is durable.
///
/// Wait for it with [`Ack::wait`], or `.await` it under any executor. Dropping it takes nothing back: the
/// command is carried out all the same.
#[must_use = "nothing is known to be durable until the acknowledgement has come"]
pub struct Ack<T, E> {
    slot: Arc<Slot<Result<T, E>>>,
}

/// The other end of an [`Ack`]. Dropped without an answer it says that there is none.
pub(crate) struct Answer<T, E: From<StoreError>> {
    slot: Arc<Slot<Result<T, E>>>,
}

struct Slot<R> {
    state: Mutex<State<R>>,
    answered: Condvar,
}

enum State<R> {
    Waiting(Option<Waker>),
    Answered(R),
    Taken,
}

/// A connected pair.
pub(crate) fn ack<T, E: From<StoreError>>() -> (Answer<T, E>, Ack<T, E>) {
    let slot = Arc::new(Slot { state: Mutex::new(State::Waiting(None)), answered: Condvar::new() });
    (Answer { slot: Arc::clone(&slot) }, Ack { slot })
}

impl<T, E> Ack<T, E> {
    /// Blocks until the answer is there.
    ///
    /// # Errors
    /// Those of the command.
    pub fn wait(self) -> Result<T, E> {
        let mut state = self.slot.lock();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Answered(answer) => return answer,
                waiting => *state = waiting,
            }
            state = self.slot.answered.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T, E> Future for Ack<T, E> {
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.slot.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Answered(answer) => Poll::Ready(answer),
            State::Waiting(before) => {
                *state = State::Waiting(Some(context.waker().clone()));
                // Dropping a waker may run anything, also what waits for this very answer: not under the lock.
                drop(state);
                drop(before);
                Poll::Pending
            }
            State::Taken => Poll::Pending,
        }
    }
}

impl<T, E: From<StoreError>> Answer<T, E> {
    /// Whether nobody waits for it any more.
    pub(crate) fn is_given_up(&self) -> bool {
        Arc::strong_count(&self.slot) == 1
    }

    /// Answers.
    pub(crate) fn send(self, answer: Result<T, E>) {
        drop(self.put(answer));
    }

    /// Answers, and wakes who waits when the value given is dropped: where many are answered, all should be before
    /// the first is woken, who would otherwise fall asleep again over the second.
    pub(crate) fn put(self, answer: Result<T, E>) -> Option<Wake<Result<T, E>>> {
        Slot::answer(&self.slot, answer)
    }
}

impl<T, E: From<StoreError>> Drop for Answer<T, E> {
    fn drop(&mut self) {
        drop(Slot::answer(&self.slot, Err(StoreError::Unanswered.into())));
    }
}

/// Wakes who waits for an answer that is there, when dropped.
pub(crate) struct Wake<R> {
    slot: Arc<Slot<R>>,
    waker: Option<Waker>,
}

impl<R> Drop for Wake<R> {
    fn drop(&mut self) {
        self.slot.answered.notify_one();
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl<R> Slot<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        // No code runs under this lock that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the answer, unless there is one.
    fn answer(slot: &Arc<Self>, answer: R) -> Option<Wake<R>> {
        let mut state = slot.lock();
        let State::Waiting(waker) = &mut *state else { return None };
        let waker = waker.take();
        *state = State::Answered(answer);
        drop(state);
        Some(Wake { slot: Arc::clone(slot), waker })
    }
}

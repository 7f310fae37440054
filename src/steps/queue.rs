//! Appends that wait for the thread that writes. Bounded: where the device stalls, callers are refused.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::batch::Append;
use super::error::StepError;
use super::limits::StepLimits;

pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    waiting_max: usize,
    waiting_bytes_max: usize,
}

struct State {
    waiting: VecDeque<Append>,
    bytes: usize,
    refusing: Option<Refusing>,
}

/// Why nothing more is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusing {
    Closed,
    Poisoned,
}

/// Most bytes written with one sync, unless one append alone is larger.
const BATCH_BYTES_MAX: usize = 8 << 20;

impl Refusing {
    fn error(self) -> StepError {
        match self {
            Self::Closed => StepError::Closed,
            Self::Poisoned => StepError::Poisoned,
        }
    }
}

impl Queue {
    pub(super) fn new(limits: &StepLimits) -> Self {
        let state = State { waiting: VecDeque::new(), bytes: 0, refusing: None };
        let StepLimits { waiting_max, waiting_bytes_max, .. } = *limits;
        Self { state: Mutex::new(state), filled: Condvar::new(), waiting_max, waiting_bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code runs under this lock that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an append in, or answers it with the reason why not.
    pub(super) fn push(&self, append: Append) {
        let mut state = self.lock();
        if let Some(refusal) = self.refusal(&state, append.bytes()) {
            drop(state);
            return append.answer(Err(refusal));
        }
        state.bytes += append.bytes();
        state.waiting.push_back(append);
        drop(state);
        self.filled.notify_one();
    }

    fn refusal(&self, state: &State, bytes: usize) -> Option<StepError> {
        if let Some(refusing) = state.refusing {
            return Some(refusing.error());
        }
        let waiting = state.waiting.len();
        let fits = waiting < self.waiting_max && state.bytes.saturating_add(bytes) <= self.waiting_bytes_max;
        (!fits && waiting > 0).then_some(StepError::QueueFull { waiting })
    }

    /// What goes into the next batch, as soon as there is anything; `None` once closed and empty.
    pub(super) fn take(&self) -> Option<Vec<Append>> {
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.refusing.is_some() {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(append) =
            state.waiting.pop_front_if(|next| bytes == 0 || bytes + next.bytes() <= BATCH_BYTES_MAX)
        {
            bytes += append.bytes();
            batch.push(append);
        }
        state.bytes -= bytes;
        Some(batch)
    }

    /// Refuses what comes; what waits is still carried out.
    pub(super) fn close(&self) {
        self.lock().refusing.get_or_insert(Refusing::Closed);
        self.filled.notify_all();
    }

    /// Refuses what waits and whatever comes.
    pub(super) fn poison(&self) {
        let mut state = self.lock();
        state.refusing = Some(Refusing::Poisoned);
        state.bytes = 0;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for append in waiting {
            append.answer(Err(StepError::Poisoned));
        }
    }
}

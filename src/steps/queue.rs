//! Appends that wait for the thread that writes. Bounded: where the device stalls, callers are refused.
//!
//! A caller that blocks carries out what waits itself, so that a lone one need not wake the thread each time. The
//! thread sleeps while nothing is asked of the store, and dozes, looking now and then, while something is.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::batch::{Answered, Append};
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
    owner: Owner,
    /// Something was taken in since the thread last looked.
    stirred: bool,
    /// The last batch was of one.
    lone: bool,
}

/// What the thread that writes is doing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Working,
    Dozing,
    Asleep,
}

/// Why nothing more is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusing {
    Closed,
    Poisoned,
}

/// How long an append may wait for its caller to see to it.
const DOZE: Duration = Duration::from_millis(2);

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
        let state = State {
            waiting: VecDeque::new(),
            bytes: 0,
            refusing: None,
            owner: Owner::Working,
            stirred: false,
            lone: true,
        };
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
            drop(append.answer(Err(refusal)));
            return;
        }
        state.bytes += append.bytes();
        state.waiting.push_back(append);
        state.stirred = true;
        // The first to wait is most likely to be carried out by its caller.
        let wake = state.owner == Owner::Asleep || state.owner == Owner::Dozing && state.waiting.len() > 1;
        drop(state);
        if wake {
            self.filled.notify_one();
        }
    }

    /// Whether callers have come one at a time of late.
    pub(super) fn lone_caller(&self) -> bool {
        let state = self.lock();
        state.lone && state.waiting.len() <= 1
    }

    /// Says that nobody else may see to what waits.
    pub(super) fn hand_over(&self) {
        let state = self.lock();
        let wake = state.owner != Owner::Working && !state.waiting.is_empty();
        drop(state);
        if wake {
            self.filled.notify_one();
        }
    }

    fn refusal(&self, state: &State, bytes: usize) -> Option<StepError> {
        if let Some(refusing) = state.refusing {
            return Some(refusing.error());
        }
        let waiting = state.waiting.len();
        let fits = waiting < self.waiting_max && state.bytes.saturating_add(bytes) <= self.waiting_bytes_max;
        (!fits && waiting > 0).then_some(StepError::QueueFull { waiting })
    }

    /// Rests until something waits; false once closed and empty.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.lock();
        loop {
            if !state.waiting.is_empty() {
                state.owner = Owner::Working;
                return true;
            }
            if state.refusing.is_some() {
                return false;
            }
            if std::mem::take(&mut state.stirred) {
                state.owner = Owner::Dozing;
                (state, _) = self.filled.wait_timeout(state, DOZE).unwrap_or_else(PoisonError::into_inner);
            } else {
                state.owner = Owner::Asleep;
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// What goes into the next batch.
    pub(super) fn take(&self) -> Vec<Append> {
        let mut state = self.lock();
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(append) =
            state.waiting.pop_front_if(|next| bytes == 0 || bytes + next.bytes() <= BATCH_BYTES_MAX)
        {
            bytes += append.bytes();
            batch.push(append);
        }
        state.bytes -= bytes;
        if !batch.is_empty() {
            state.lone = batch.len() == 1;
        }
        batch
    }

    /// Refuses what comes; what waits is still carried out.
    pub(super) fn close(&self) {
        self.lock().refusing.get_or_insert(Refusing::Closed);
        self.filled.notify_all();
    }

    /// Refuses what waits and whatever comes.
    pub(super) fn poison(&self) -> Vec<Answered> {
        let mut state = self.lock();
        state.refusing = Some(Refusing::Poisoned);
        state.bytes = 0;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().map(|append| append.answer(Err(StepError::Poisoned))).collect()
    }
}

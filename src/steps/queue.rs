//! Appends that wait for the thread that writes. Bounded: where the device stalls, callers are refused.
//!
//! A caller that blocks carries out what waits itself, so that a lone one need not wake the thread each time. The
//! thread sleeps while nothing is asked of the store, and dozes, looking now and then, while something is.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::answers::{Awaited, Given, Owed};
use super::batch::Append;
use super::error::StepError;
use super::limits::StepLimits;

pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    /// [`GATHER`], but in tests.
    gather: Duration,
    waiting_max: usize,
    waiting_bytes_max: usize,
}

/// Appends that will share one sync.
pub(super) struct Gathered {
    pub(super) appends: Vec<Append>,
    pub(super) owed: Owed,
    pub(super) bytes: usize,
}

/// An append that was taken in.
pub(super) struct Pushed {
    pub(super) answer: Awaited,
    /// Nobody has been called to see to it: its caller has to.
    pub(super) left_to_caller: bool,
}

struct State {
    gathered: VecDeque<Gathered>,
    waiting: usize,
    bytes: usize,
    refusing: Option<Refusing>,
    owner: Owner,
    /// Something was taken in since the thread last looked.
    stirred: bool,
    /// Appends in the last batch.
    last_batch: usize,
}

/// What the thread that writes is doing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Working,
    /// It gives those it has just answered time to come back.
    Gathering,
    Dozing,
    Asleep,
}

/// Why nothing more is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusing {
    Closed,
    Poisoned,
}

/// How long appends may wait for the others of a batch that was answered just now. Callers that each append again as
/// soon as they are answered would else come in halves, and pay for two syncs where one will do.
const GATHER: Duration = Duration::from_micros(200);

/// Fewest appends in a batch of which the next one is waited for.
const GATHER_MIN: usize = 8;

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
            gathered: VecDeque::new(),
            waiting: 0,
            bytes: 0,
            refusing: None,
            owner: Owner::Working,
            stirred: false,
            last_batch: 1,
        };
        let StepLimits { waiting_max, waiting_bytes_max, .. } = *limits;
        let (state, filled) = (Mutex::new(state), Condvar::new());
        Self { state, filled, gather: GATHER, waiting_max, waiting_bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code runs under this lock that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an append in.
    pub(super) fn push(&self, append: Append) -> Result<Pushed, StepError> {
        let mut state = self.lock();
        let bytes = append.bytes();
        if let Some(refusal) = self.refusal(&state, bytes) {
            return Err(refusal);
        }
        let answer = state.gather(append, bytes);
        state.stirred = true;
        // The first to wait is most likely to be carried out by its caller.
        let left_to_caller = state.owner == Owner::Dozing && state.waiting == 1;
        if !left_to_caller && !state.gathers() {
            self.call_owner(state);
        }
        Ok(Pushed { answer, left_to_caller })
    }

    /// Whether callers have come one at a time of late.
    pub(super) fn lone_caller(&self) -> bool {
        let state = self.lock();
        state.last_batch == 1 && state.waiting <= 1
    }

    /// Says that nobody else may see to what waits.
    pub(super) fn hand_over(&self) {
        let state = self.lock();
        if state.waiting > 0 {
            self.call_owner(state);
        }
    }

    /// Has the thread look at what waits, once.
    fn call_owner(&self, mut state: MutexGuard<'_, State>) {
        if std::mem::replace(&mut state.owner, Owner::Working) != Owner::Working {
            drop(state);
            self.filled.notify_one();
        }
    }

    fn refusal(&self, state: &State, bytes: usize) -> Option<StepError> {
        if let Some(refusing) = state.refusing {
            return Some(refusing.error());
        }
        let waiting = state.waiting;
        let fits = waiting < self.waiting_max && state.bytes.saturating_add(bytes) <= self.waiting_bytes_max;
        (!fits && waiting > 0).then_some(StepError::QueueFull { waiting })
    }

    /// Rests until something waits; false once closed and empty.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.lock();
        state.owner = Owner::Gathering;
        let gathered = self.filled.wait_timeout_while(state, self.gather, |state| state.gathers());
        (state, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.waiting > 0 {
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
    pub(super) fn take(&self) -> Option<Gathered> {
        let mut state = self.lock();
        let gathered = state.gathered.pop_front()?;
        state.waiting -= gathered.appends.len();
        state.bytes -= gathered.bytes;
        state.last_batch = gathered.appends.len();
        Some(gathered)
    }

    /// Refuses what comes; what waits is still carried out.
    pub(super) fn close(&self) {
        self.lock().refusing.get_or_insert(Refusing::Closed);
        self.filled.notify_all();
    }

    /// Refuses what comes, and gives what waits to be refused.
    pub(super) fn poison(&self) -> Vec<(Owed, Given)> {
        let mut state = self.lock();
        state.refusing = Some(Refusing::Poisoned);
        (state.waiting, state.bytes) = (0, 0);
        let gathered = std::mem::take(&mut state.gathered);
        drop(state);
        gathered.into_iter().map(|gathered| (gathered.owed, Given::All(StepError::Poisoned))).collect()
    }
}

impl State {
    /// Whether the thread may wait for more.
    fn gathers(&self) -> bool {
        self.owner == Owner::Gathering
            && self.refusing.is_none()
            && self.last_batch >= GATHER_MIN
            && self.waiting < self.last_batch
    }

    /// Puts an append with those that it will share a sync with.
    fn gather(&mut self, append: Append, bytes: usize) -> Awaited {
        let fits = |last: &mut Gathered| last.bytes + bytes <= BATCH_BYTES_MAX;
        let mut gathered = self.gathered.pop_back_if(fits).unwrap_or_else(|| Gathered {
            appends: Vec::with_capacity(self.last_batch),
            owed: Owed::new(),
            bytes: 0,
        });
        let answer = gathered.owed.at(gathered.appends.len());
        gathered.appends.push(append);
        gathered.bytes += bytes;
        self.gathered.push_back(gathered);
        self.waiting += 1;
        self.bytes += bytes;
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use runseal_evidence::name::{CodecId, DefinitionName, RunId, StepPath, TenantId};
    use runseal_evidence::steps::{Definition, InputDigest, Step, StepKey};

    use super::super::places::KeyHashing;
    use super::*;

    fn push(queue: &Queue, number: usize) {
        let key = StepKey::of(&[&number.to_be_bytes()]);
        let step = Step {
            tenant: TenantId::default(),
            run: RunId::new("run-1").unwrap(),
            key,
            path: StepPath::new("charge").unwrap(),
            definition: Definition {
                name: DefinitionName::new("refund").unwrap(),
                revision: 1,
                input: InputDigest::of(b""),
                steps: 1,
                codec: CodecId::new("text").unwrap(),
            },
            value: Vec::new(),
        };
        let append = Append::new(step.to_payload().unwrap(), KeyHashing::default().hash(&key));
        assert!(queue.push(append).is_ok());
    }

    fn next_batch(queue: &Queue) -> usize {
        assert!(queue.wait());
        queue.take().unwrap().appends.len()
    }

    #[test]
    fn callers_that_were_answered_together_come_back_together() {
        let queue = Queue { gather: Duration::MAX, ..Queue::new(&StepLimits::default()) };
        (0..GATHER_MIN).for_each(|number| push(&queue, number));
        assert_eq!(next_batch(&queue), GATHER_MIN);
        thread::scope(|scope| {
            let next = scope.spawn(|| next_batch(&queue));
            for number in 0..GATHER_MIN {
                thread::sleep(Duration::from_millis(2));
                push(&queue, number);
            }
            assert_eq!(next.join().unwrap(), GATHER_MIN);
        });
    }

    #[test]
    fn callers_that_stay_away_are_waited_for_only_so_long_and_few_not_at_all() {
        let queue = Queue { gather: Duration::from_millis(1), ..Queue::new(&StepLimits::default()) };
        (0..GATHER_MIN).for_each(|number| push(&queue, number));
        assert_eq!(next_batch(&queue), GATHER_MIN);
        (1..GATHER_MIN).for_each(|number| push(&queue, number));
        assert_eq!(next_batch(&queue), GATHER_MIN - 1);

        let queue = Queue { gather: Duration::MAX, ..queue };
        push(&queue, 0);
        assert_eq!(next_batch(&queue), 1);
    }

    #[test]
    fn what_waits_for_company_is_carried_out_when_the_queue_is_closed() {
        let queue = Queue { gather: Duration::MAX, ..Queue::new(&StepLimits::default()) };
        (0..GATHER_MIN).for_each(|number| push(&queue, number));
        assert_eq!(next_batch(&queue), GATHER_MIN);
        thread::scope(|scope| {
            let next = scope.spawn(|| next_batch(&queue));
            push(&queue, 0);
            queue.close();
            assert_eq!(next.join().unwrap(), 1);
        });
        assert!(!queue.wait());
    }
}

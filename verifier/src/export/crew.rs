//! The threads that check an export: as many as there are cores, each of which does all kinds of work.
//!
//! A thread reads a block while it is its turn, parses it, and puts it on the desk. Whoever finds the block there that
//! comes next takes all that are ready, in order. So nobody waits for anybody but where the file or the memory says
//! so: a thread that only checked would take a core from a thread that parses, a hundred times a second.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use super::lines::{Block, Parsed};
use super::run_judge::RunJudge;
use crate::error::Failure;
use crate::lines::LineReader;

/// Most threads; taking lines in order keeps up with no more.
const THREADS_MAX: usize = 8;
/// Blocks beyond one for each thread: for whoever is kept from its core for a moment.
const SPARE_BLOCKS: usize = 6;

/// What the threads share.
struct Crew<'c, 'p, Take> {
    judge: &'c RunJudge<'c>,
    source: Mutex<Source<'c, 'p>>,
    desk: Mutex<Desk>,
    /// A spare block came back, or all is over.
    room: Condvar,
    /// Only the thread that said on the desk that it takes lines comes here.
    take: Mutex<Take>,
}

/// Where blocks come from.
struct Source<'c, 'p> {
    lines: &'c mut LineReader<'p>,
    /// The turn of the next block.
    next: u64,
    ended: bool,
}

/// Where blocks wait.
struct Desk {
    spare: Vec<Block>,
    /// Parsed ones, by turn.
    ready: BTreeMap<u64, Block>,
    /// Whose turn it is.
    next: u64,
    /// Whether a thread is taking lines.
    taken_from: bool,
    /// Enough was seen, or a thread cannot go on.
    over: bool,
    failure: Option<Failure>,
}

/// Reads, parses and judges the lines on every core, and hands them to `take` in order.
///
/// # Errors
/// [`Failure`] of the file, or of `take`.
pub(super) fn for_each(
    lines: &mut LineReader<'_>,
    judge: &RunJudge<'_>,
    mut take: impl FnMut(Parsed<'_>) -> Result<ControlFlow<()>, Failure> + Send,
) -> Result<(), Failure> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let mut number = lines.number;
    let hand_over = |block: &mut Block| block.hand_over(&mut number, &mut take);
    let spare = (0..threads + SPARE_BLOCKS).map(|_| Block::default()).collect();
    let crew = Crew {
        judge,
        source: Mutex::new(Source { lines, next: 0, ended: false }),
        desk: Mutex::new(Desk {
            spare,
            ready: BTreeMap::new(),
            next: 0,
            taken_from: false,
            over: false,
            failure: None,
        }),
        room: Condvar::new(),
        take: Mutex::new(hand_over),
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| crew.work());
        }
        crew.work();
    });
    let failure = crew.desk.into_inner().unwrap_or_else(PoisonError::into_inner).failure;
    lines.number = number;
    failure.map_or(Ok(()), Err)
}

impl<Take> Crew<'_, '_, Take>
where
    Take: FnMut(&mut Block) -> Result<ControlFlow<()>, Failure> + Send,
{
    fn work(&self) {
        let _unless_it_panics = Leaving(self);
        while let Some(block) = self.spare() {
            let Some((turn, mut block)) = self.read(block) else { break };
            block.parse(self.judge);
            block.judge(self.judge);
            self.put(turn, block);
        }
    }

    /// A block to read into, once there is one.
    fn spare(&self) -> Option<Block> {
        let mut desk = self.desk();
        loop {
            if desk.over {
                return None;
            }
            if let Some(block) = desk.spare.pop() {
                return Some(block);
            }
            desk = self.room.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reads the next block. `None` where there is none.
    fn read(&self, mut block: Block) -> Option<(u64, Block)> {
        let mut source = self.source();
        if source.ended {
            return None;
        }
        match source.lines.next_block(block.text()) {
            Ok(true) => {
                source.next += 1;
                Some((source.next - 1, block))
            }
            Ok(false) => {
                source.ended = true;
                None
            }
            Err(failure) => {
                source.ended = true;
                let mut desk = self.desk();
                // What was read before is handed over all the same, and may be enough.
                if !desk.over {
                    desk.failure = Some(failure);
                }
                None
            }
        }
    }

    /// Puts a block on the desk, and takes what is ready unless another thread does.
    fn put(&self, turn: u64, block: Block) {
        let mut desk = self.desk();
        desk.ready.insert(turn, block);
        if desk.taken_from {
            return;
        }
        desk.taken_from = true;
        loop {
            let next = desk.next;
            let Some(mut block) = desk.ready.remove(&next).filter(|_| !desk.over) else { break };
            drop(desk);
            let taken = (self.take.lock().unwrap_or_else(PoisonError::into_inner))(&mut block);
            desk = self.desk();
            match taken {
                Ok(ControlFlow::Continue(())) => {
                    desk.next += 1;
                    desk.spare.push(block);
                    self.room.notify_one();
                }
                // Whether the rest could be read does not matter any more.
                ended => {
                    (desk.over, desk.failure) = (true, ended.err());
                    self.room.notify_all();
                }
            }
        }
        desk.taken_from = false;
    }
}

impl<'c, 'p, Take> Crew<'c, 'p, Take> {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file, once no other thread reads. That is soon, and a thread that slept until then might be woken on a core
    /// that is busy.
    fn source(&self) -> MutexGuard<'_, Source<'c, 'p>> {
        loop {
            match self.source.try_lock() {
                Ok(source) => return source,
                Err(TryLockError::Poisoned(source)) => return source.into_inner(),
                Err(TryLockError::WouldBlock) => thread::yield_now(),
            }
        }
    }
}

/// A thread at work. Where it panics, the others are not to wait for what it was about to bring.
struct Leaving<'c, 'l, 'p, Take>(&'c Crew<'l, 'p, Take>);

impl<Take> Drop for Leaving<'_, '_, '_, Take> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.desk().over = true;
            self.0.room.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor, Error, Read};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::Path;

    use runseal_evidence::name::TenantId;

    use super::*;
    use crate::lines::BLOCK_BYTES;
    use crate::steps::Against;

    const LINES: u64 = 400_000;

    /// Lines that are no lines of an export, many blocks of them, and what `take` comes to.
    fn run(
        file: impl Read + Send,
        take: impl FnMut(u64) -> Result<ControlFlow<()>, Failure> + Send,
    ) -> (u64, Result<(), Failure>) {
        let against = Against::default();
        let judge = RunJudge::new(TenantId::new("acme").unwrap(), u64::MAX, [7; 16], &against);
        let mut lines = LineReader::new(BufReader::with_capacity(1 << 14, file), Path::new("lines"));
        let mut take = take;
        let outcome = for_each(&mut lines, &judge, |(number, ..)| take(number));
        (lines.number, outcome)
    }

    fn text() -> Vec<u8> {
        let text = "no line\n".repeat(usize::try_from(LINES).unwrap()).into_bytes();
        assert!(text.len() > 2 * (THREADS_MAX + SPARE_BLOCKS) * BLOCK_BYTES / 3);
        text
    }

    #[test]
    fn what_was_read_before_a_failure_is_taken_and_the_failure_said() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(Error::other("the disk is gone"))
            }
        }
        let mut taken = 0;
        let (number, outcome) = run(Cursor::new(text()).chain(Failing), |number| {
            assert_eq!(number, taken + 1);
            taken = number;
            Ok(ControlFlow::Continue(()))
        });
        // The block in which it failed is not whole.
        assert!(taken > LINES / 2 && taken <= LINES && number == taken, "{taken}");
        assert!(matches!(outcome, Err(Failure::Read { .. })), "{outcome:?}");
    }

    #[test]
    fn nothing_is_taken_after_enough_was_seen_or_after_a_failure() {
        for (enough, fails) in [(1, false), (200_000, false), (LINES, false), (70_000, true)] {
            let (number, outcome) = run(Cursor::new(text()), |number| {
                assert!(number <= enough);
                match (number == enough, fails) {
                    (false, _) => Ok(ControlFlow::Continue(())),
                    (true, false) => Ok(ControlFlow::Break(())),
                    (true, true) => Err(Failure::Internal("as the test wants".to_owned())),
                }
            });
            assert_eq!((number, outcome.is_err()), (enough, fails));
        }
    }

    #[test]
    fn a_panic_ends_all_threads() {
        for at in [1, 150_000, LINES] {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                run(Cursor::new(text()), |number| {
                    assert!(number != at, "as the test wants");
                    Ok(ControlFlow::Continue(()))
                })
            }));
            assert!(panicked.is_err());
        }
    }
}

//! Who writes. One at a time, the store's own thread or a caller that would otherwise sleep, takes what waits,
//! writes what it accepts, syncs once, shows it to readers, and only then answers. A batch forms while the device is
//! busy with the one before, and while the many callers of that one come back; an idle thread sleeps.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use runseal_evidence::steps::FrameChain;

use super::answers::{Given, Owed};
use super::batch::Batch;
use super::error::{DeviceCall, StepError};
use super::queue::Gathered;
use super::store::{Shared, read_step};

/// How a step came to be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recorded {
    /// By this append.
    Now,
    /// By an earlier one, which was identical. Nothing was written.
    Already,
}

/// Syncs and the steps they made durable, since the store was opened.
#[derive(Default)]
pub(super) struct Flushes {
    pub(super) syncs: AtomicU64,
    pub(super) steps: AtomicU64,
}

/// Serves the queue until it is closed and empty, or poisoned.
pub(super) fn serve(shared: &Shared) {
    // Whatever ends this thread, nobody waits for it afterwards.
    let _poisons = PoisonOnDrop(shared);
    while shared.queue.wait() {
        // Poisoned only by a panic, which has poisoned the queue too.
        let mut chain = shared.chain.lock().unwrap_or_else(PoisonError::into_inner);
        let settled = settle_next(shared, &mut chain);
        drop(chain);
        answer(settled);
    }
}

/// Carries out what waits on the thread of a caller that would otherwise sleep, unless somebody is at it already: a
/// lone caller is spared two changes of thread. Where callers are many they would make small batches of large ones.
pub(super) fn help(shared: &Shared) {
    if shared.queue.lone_caller()
        && let Ok(mut chain) = shared.chain.try_lock()
    {
        let poisons = PoisonOnDrop(shared);
        let settled = settle_next(shared, &mut chain);
        // Only a panic poisons.
        std::mem::forget(poisons);
        drop(chain);
        answer(settled);
    } else {
        shared.queue.hand_over();
    }
}

fn answer(settled: Vec<(Owed, Given)>) {
    for (owed, given) in settled {
        owed.give(given);
    }
}

/// Carries out the next batch, and says what is to be answered once the chain is let go.
fn settle_next(shared: &Shared, chain: &mut FrameChain) -> Vec<(Owed, Given)> {
    let Some(Gathered { appends, owed, bytes }) = shared.queue.take() else { return Vec::new() };
    let mut batch = Batch::new(chain.clone(), bytes);
    let decisions: Vec<_> = {
        let index = shared.index();
        let key_at = |place| Ok(read_step(&*shared.disk, &shared.id, place)?.key);
        appends.iter().map(|append| batch.decide(&index, append, &shared.limits, key_at)).collect()
    };
    if let Err(error) = write(shared, chain, &batch) {
        tracing::error!(%error, "the step file failed; nothing more is recorded until it is opened again");
        let mut refused = shared.queue.poison();
        refused.push((owed, Given::All(error)));
        return refused;
    }
    *chain = batch.chain.clone();
    if batch.steps() > 0 {
        shared.flushes.syncs.fetch_add(1, Ordering::Relaxed);
        shared.flushes.steps.fetch_add(batch.steps(), Ordering::Relaxed);
        batch.fold_into(&mut shared.index.write().unwrap_or_else(PoisonError::into_inner));
    }
    // A refusal too is answered only now: it may rest on what a neighbour wrote.
    vec![(owed, Given::Each(decisions))]
}

/// Makes a batch durable behind `chain`.
fn write(shared: &Shared, chain: &FrameChain, batch: &Batch) -> Result<(), StepError> {
    if batch.bytes.is_empty() {
        return Ok(());
    }
    let (disk, expected) = (&*shared.disk, chain.at());
    let found = disk.size().map_err(DeviceCall::Size.failed_for_good())?;
    if found != expected {
        return Err(StepError::FileChanged { expected, found });
    }
    let written = disk
        .write_at(&batch.bytes, expected)
        .map_err(DeviceCall::Write.failed_for_good())
        .and_then(|()| disk.sync().map_err(DeviceCall::Sync.failed_for_good()));
    if written.is_err() {
        // After a failed sync a system may show bytes that are not on the device, and sync them without an
        // error next time. Cut off, they cannot be taken for durable; where this fails too, opening decides.
        let _ = disk.truncate(expected);
    }
    written
}

struct PoisonOnDrop<'a>(&'a Shared);

impl Drop for PoisonOnDrop<'_> {
    fn drop(&mut self) {
        answer(self.0.queue.poison());
    }
}

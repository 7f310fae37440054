//! Reading and hashing a file on a second thread, while the first one takes up what was hashed.

use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::thread;

use runseal_evidence::steps::{Digested, HEADER_BYTES, StepsFault};

use super::error::{DeviceCall, OpenError};
use crate::disk::{Disk, read_exact_at};

/// A part of a file, in order.
pub(super) enum Part<'a> {
    /// Whole frames.
    Frames(&'a Digested),
    /// What stands behind the last whole frame, which may start with one that cannot be.
    End(&'a [u8]),
}

/// Bytes read at a time, where no frame is larger.
const CHUNK_BYTES: usize = 256 << 10;
/// Parts that wait to be taken up. With one being hashed and one being taken up, three of the largest frames are
/// in memory at most.
const AHEAD: usize = 1;

/// Reads `disk`, of `size` bytes, from behind the header on, and hands all of it to `take`, on this thread.
pub(super) fn read_ahead(
    disk: &dyn Disk,
    size: u64,
    take: impl FnMut(Part<'_>) -> Result<(), StepsFault>,
) -> Result<(), OpenError> {
    let (give_back, used) = channel();
    let reader = Reader { disk, size, at: HEADER_BYTES as u64, next: Vec::new(), start: 0, used };
    let give_back = |bytes| {
        // A reader that is done needs no more buffers.
        let _ = give_back.send(bytes);
    };
    if size <= CHUNK_BYTES as u64 {
        return take_up(reader, take, give_back);
    }
    thread::scope(|scope| {
        let (send, hashed) = sync_channel(AHEAD);
        // It ends when there is no more to read, or nobody to take it.
        let read = move || reader.map(|part| send.send(part)).take_while(Result::is_ok).for_each(drop);
        let thread = thread::Builder::new().name("runseal-read".to_owned());
        thread.spawn_scoped(scope, read).map_err(OpenError::Thread)?;
        take_up(hashed.into_iter(), take, give_back)
    })
}

fn take_up(
    parts: impl Iterator<Item = Result<Digested, OpenError>>,
    mut take: impl FnMut(Part<'_>) -> Result<(), StepsFault>,
    give_back: impl Fn(Vec<u8>),
) -> Result<(), OpenError> {
    let mut last: Option<Digested> = None;
    for part in parts {
        if let Some(before) = last.take() {
            give_back(before.into_bytes());
        }
        let frames = part?;
        take(Part::Frames(&frames))?;
        last = Some(frames);
    }
    last.map_or(Ok(()), |last| Ok(take(Part::End(last.rest()))?))
}

/// Reads a file in parts, each with the bytes that the one before it left over.
struct Reader<'a> {
    disk: &'a dyn Disk,
    size: u64,
    at: u64,
    /// The buffer of the next part, of which the first `start` bytes are filled.
    next: Vec<u8>,
    start: usize,
    used: Receiver<Vec<u8>>,
}

impl Iterator for Reader<'_> {
    type Item = Result<Digested, OpenError>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = usize::try_from(self.size - self.at).unwrap_or(usize::MAX);
        (left > 0).then(|| self.read(left))
    }
}

impl Reader<'_> {
    fn read(&mut self, left: usize) -> Result<Digested, OpenError> {
        let mut bytes = std::mem::take(&mut self.next);
        let length = left.min(CHUNK_BYTES.max(Digested::missing(&bytes[..self.start])));
        bytes.reserve_exact((self.start + length).saturating_sub(bytes.len()));
        bytes.resize(self.start + length, 0);
        // A file that ends before its size is a failure to read, and not a torn end.
        read_exact_at(self.disk, &mut bytes[self.start..], self.at)
            .map_err(DeviceCall::Read.failed_to_open())?;
        self.at += length as u64;
        let frames = Digested::new(bytes);
        if frames.stopped() {
            self.at = self.size;
        }
        let rest = frames.rest();
        self.next = self.used.try_recv().unwrap_or_default();
        self.next.resize(self.next.len().max(rest.len()), 0);
        self.next[..rest.len()].copy_from_slice(rest);
        self.start = rest.len();
        Ok(frames)
    }
}

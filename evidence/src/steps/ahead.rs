//! Payloads hashed ahead of the scan. A payload's digest follows from its own bytes, so that it can be computed
//! on another thread; the chain then takes it up in order.

use super::{
    digest::StepDigest,
    frame::{FRAME_OVERHEAD_BYTES, payload_length, payload_of, whole_frame},
};

/// Bytes that start with a frame, and the digests of the payloads that stand whole in them. Made from the bytes
/// alone, so that a digest is always that of its payload.
#[derive(Debug)]
pub struct Digested {
    bytes: Vec<u8>,
    frames: Vec<(usize, StepDigest)>,
    stopped: bool,
}

impl Digested {
    /// Hashes the payloads of the whole frames that `bytes` start with.
    pub fn new(bytes: Vec<u8>) -> Self {
        let mut frames = Vec::new();
        let mut start = 0;
        let stopped = loop {
            match whole_frame(&bytes[start..]) {
                Ok(Some(frame)) => {
                    start += frame.len();
                    frames.push((start, StepDigest::of(payload_of(frame))));
                }
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        Self { bytes, frames, stopped }
    }

    /// How many bytes the frame lacks that `rest` starts with; 0 where that cannot be told yet.
    pub fn missing(rest: &[u8]) -> usize {
        let length = rest.first_chunk().and_then(|prefix| payload_length(*prefix).ok());
        length.map_or(0, |length| (FRAME_OVERHEAD_BYTES + length).saturating_sub(rest.len()))
    }

    /// True where the rest starts with a length that no payload has: a scan will refuse it.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// The bytes behind the last whole frame.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.frames.last().map_or(0, |(end, _)| *end)..]
    }

    /// The bytes, to be used again.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], StepDigest)> {
        let starts = std::iter::once(0).chain(self.frames.iter().map(|(end, _)| *end));
        starts.zip(&self.frames).map(|(start, (end, digest))| (&self.bytes[start..*end], *digest))
    }
}

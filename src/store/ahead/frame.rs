//! A frame: the rows of one commit, behind what ties it to the frame before.
//!
//! ```text
//! number u64 | length u32 | previous digest 32 | digest 32 | rows
//! row = length u32, key | 1 | length u32, value      a row that was put
//!     = length u32, key | 0                          a row that was deleted
//! ```
//!
//! Numbers are big-endian, lengths as [`row`](crate::store::row) spells them. The digest is SHA-256 over the previous
//! digest, number, length and rows.

use sha2::{Digest, Sha256};

use crate::store::overlay::Writes;
use crate::store::row::{RowFault, RowReader, RowWriter};

/// Bytes before the rows.
pub(super) const HEAD_BYTES: usize = 8 + 4 + 32 + 32;

/// What ties frames together: the digest of the last one, or of the file's id before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tie {
    /// The last frame's number; the first is 1.
    pub(super) number: u64,
    pub(super) digest: [u8; 32],
}

impl Tie {
    /// Before the first frame of the file `id`.
    pub(super) fn genesis(id: &[u8; 16]) -> Self {
        let digest = Sha256::new_with_prefix(b"runseal-ahead-v1").chain_update(id).finalize().into();
        Self { number: 0, digest }
    }
}

/// A frame that was read, whole and undamaged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) before: [u8; 32],
    pub(super) tie: Tie,
    rows: &'a [u8],
}

/// How many bytes the frame of `writes` has.
pub(super) fn frame_bytes(writes: &Writes) -> usize {
    let row = |(key, value): (&Vec<u8>, &Option<Vec<u8>>)| {
        4 + key.len() + 1 + value.as_ref().map_or(0, |value| 4 + value.len())
    };
    HEAD_BYTES + writes.iter().map(row).sum::<usize>()
}

/// The frame of `writes` behind `last`.
pub(super) fn encode(last: &Tie, writes: &Writes) -> (Vec<u8>, Tie) {
    let length = frame_bytes(writes);
    let mut frame = RowWriter::with_capacity(length);
    let number = last.number + 1;
    frame.u64(number).fixed(&rows_length(length - HEAD_BYTES)).fixed(&last.digest).fixed(&[0; 32]);
    for (key, value) in writes {
        frame.counted(key).flag(value.is_some());
        if let Some(value) = value {
            frame.counted(value);
        }
    }
    let mut bytes = frame.finish();
    let digest = digest(&bytes);
    bytes[HEAD_BYTES - 32..HEAD_BYTES].copy_from_slice(&digest);
    (bytes, Tie { number, digest })
}

fn rows_length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).expect("a frame is no longer than half a file, a few MiB").to_be_bytes()
}

/// Over everything but the digest's own place.
fn digest(frame: &[u8]) -> [u8; 32] {
    let (head, rows) = frame.split_at(HEAD_BYTES);
    Sha256::new_with_prefix(&head[..HEAD_BYTES - 32]).chain_update(rows).finalize().into()
}

impl<'a> Frame<'a> {
    /// The frame that `bytes` start with, and how long it is. None where they start with none.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let mut head = RowReader::new(bytes.get(..HEAD_BYTES)?);
        let number = head.u64("number").ok()?;
        let length = u32::from_be_bytes(head.fixed("length").ok()?);
        let before = head.fixed("previous digest").ok()?;
        let found: [u8; 32] = head.fixed("digest").ok()?;
        let end = HEAD_BYTES.checked_add(usize::try_from(length).ok()?)?;
        let frame = bytes.get(..end)?;
        let whole = number > 0 && digest(frame) == found;
        let tie = Tie { number, digest: found };
        whole.then(|| (Self { before, tie, rows: &frame[HEAD_BYTES..] }, end))
    }

    /// Whether this frame stands right behind `last`.
    pub(super) fn follows(&self, last: &Tie) -> bool {
        self.before == last.digest && last.number.checked_add(1) == Some(self.tie.number)
    }

    /// Puts its rows over those in `writes`.
    pub(super) fn replay(&self, writes: &mut Writes) -> Result<(), RowFault> {
        let mut rows = RowReader::new(self.rows);
        while !rows.is_empty() {
            let key = rows.counted("key")?.to_vec();
            let value = if rows.flag("put")? { Some(rows.counted("value")?.to_vec()) } else { None };
            writes.insert(key, value);
        }
        rows.end()
    }
}

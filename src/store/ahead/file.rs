//! The file: what is known to be durable, and two halves of frames.
//!
//! ```text
//! 0        slot     "runseal-ahead-v1" | id 16 | bytes of a half u64 | durable u64 | SHA-256 of these
//! 2048     slot     written in turns with the first, so that one of them is whole after any crash
//! 4096     a half   frames, one right behind the other
//! 4096+h   a half   the same; the halves are written in turns
//! ```
//!
//! The file is as long as both halves from the start. `durable` is the last frame whose sync is known to have
//! succeeded when the slot was written, which is with the next frame: all frames up to it must be found, and only
//! one behind it can be what a crash interrupted.

use std::collections::BTreeMap;
use std::io;

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::frame::{self, Frame, Tie};
use super::place::AheadPlace;
use crate::disk::{Disk, read_exact_at};
use crate::store::overlay::Writes;
use crate::store::row::{RowFault, RowReader, RowWriter};

const MAGIC: [u8; 16] = *b"runseal-ahead-v1";
const SLOTS_AT: [u64; 2] = [0, 2048];
const SLOT_BYTES: usize = 16 + 16 + 8 + 8 + 32;
const START_BYTES: usize = 4096;
/// No file has larger halves; both are read into memory.
const HALF_BYTES_MAX: u64 = 256 << 20;

/// Why a write-ahead log does not go with the database that it lies beside. Neither was changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AheadFault {
    /// The database says that there is one.
    #[error(
        "it is gone, and what was acknowledged last stood in it; put it back, or restore a backup of the whole directory"
    )]
    Missing,
    /// It is not a write-ahead log, or both its slots are damaged.
    #[error("it does not start as a write-ahead log does; restore a backup of the whole directory")]
    Foreign,
    /// It is shorter or longer than it was made.
    #[error("it has {found} bytes and was made with {expected}; restore a backup of the whole directory")]
    Length {
        /// Bytes it has.
        found: u64,
        /// Bytes it should have.
        expected: u64,
    },
    /// It holds records that this database never knew: the database is older, or another.
    #[error(
        "it holds what was acknowledged after this state of the database; put back the database that goes with it. To go on from a backup instead, move this file away: what it holds is lost then, and nothing is signed that contradicts a checkpoint already signed"
    )]
    OtherState,
    /// A frame that was durable cannot be read.
    #[error(
        "commit {number} in it is damaged, and commits up to {durable} were durable; restore a backup of the whole directory"
    )]
    Damaged {
        /// The frame.
        number: u64,
        /// The last one that was durable for certain.
        durable: u64,
    },
    /// A frame is whole, but its rows are not as they are written.
    #[error("commit {number} in it is damaged: {fault}; restore a backup of the whole directory")]
    Row {
        /// The frame.
        number: u64,
        /// What is wrong with a row.
        fault: RowFault,
    },
    /// It cannot be read or removed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A slot: what the file is, and what is durable in it.
#[derive(Debug, Clone, Copy)]
struct Slot {
    id: [u8; 16],
    half_bytes: u64,
    durable: u64,
}

impl Slot {
    fn encode(&self) -> Vec<u8> {
        let mut slot = RowWriter::with_capacity(SLOT_BYTES);
        slot.fixed(&MAGIC).fixed(&self.id).u64(self.half_bytes).u64(self.durable);
        let mut bytes = slot.finish();
        bytes.extend_from_slice(&Sha256::digest(&bytes));
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (said, sum) = bytes.get(..SLOT_BYTES)?.split_at(SLOT_BYTES - 32);
        let mut slot = RowReader::new(said);
        let magic: [u8; 16] = slot.fixed("magic").ok()?;
        let id = slot.fixed("id").ok()?;
        let (half_bytes, durable) = (slot.u64("half").ok()?, slot.u64("durable").ok()?);
        let whole = magic == MAGIC && Sha256::digest(said)[..] == *sum && half_bytes <= HALF_BYTES_MAX;
        whole.then_some(Self { id, half_bytes, durable })
    }

    fn file_bytes(&self) -> u64 {
        self.half_bytes.saturating_mul(2).saturating_add(START_BYTES as u64)
    }
}

/// A file being written.
pub(super) struct AheadLog {
    disk: Box<dyn Disk>,
    slot: Slot,
    last: Tie,
    /// Which half is written, and how much of it is.
    half: u64,
    filled: u64,
}

impl AheadLog {
    /// A new file without a frame.
    pub(super) fn create(place: &dyn AheadPlace, half_bytes: u64) -> io::Result<Self> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(io::Error::other)?;
        let slot = Slot { id, half_bytes, durable: 0 };
        let mut start = vec![0; START_BYTES];
        for at in [0, 2048] {
            start[at..at + SLOT_BYTES].copy_from_slice(&slot.encode());
        }
        let disk = place.create(&start, slot.file_bytes())?;
        Ok(Self { disk, slot, last: Tie::genesis(&id), half: 0, filled: 0 })
    }

    pub(super) fn id(&self) -> [u8; 16] {
        self.slot.id
    }

    /// The last frame.
    pub(super) fn last(&self) -> Tie {
        self.last
    }

    /// Whether a frame of `bytes` has room in this half.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        self.filled.saturating_add(bytes as u64) <= self.slot.half_bytes
    }

    /// Goes on in the other half, whose frames the tables must hold.
    pub(super) fn turn(&mut self) {
        self.half = 1 - self.half;
        self.filled = 0;
    }

    /// Appends a frame for which there is room, and returns once it is durable.
    pub(super) fn append(&mut self, writes: &Writes) -> io::Result<Tie> {
        let (bytes, tie) = frame::encode(&self.last, writes);
        let at = START_BYTES as u64 + self.half * self.slot.half_bytes + self.filled;
        self.disk.write_at(&bytes, at)?;
        self.slot.durable = self.last.number;
        let slot_at = if tie.number % 2 == 1 { SLOTS_AT[0] } else { SLOTS_AT[1] };
        self.disk.write_at(&self.slot.encode(), slot_at)?;
        self.disk.sync()?;
        self.filled += bytes.len() as u64;
        self.last = tie;
        Ok(tie)
    }
}

/// A file that was found.
pub(super) struct Found {
    slot: Slot,
    halves: [Vec<u8>; 2],
}

impl Found {
    /// Reads all of a file.
    pub(super) fn read(disk: &dyn Disk) -> Result<Self, AheadFault> {
        let size = disk.size()?;
        let mut start = [0; START_BYTES];
        let there = START_BYTES.min(usize::try_from(size).unwrap_or(START_BYTES));
        read_exact_at(disk, &mut start[..there], 0)?;
        let slots = [0, 2048].into_iter().filter_map(|at| Slot::decode(&start[at..]));
        let slot = slots.max_by_key(|slot| slot.durable).ok_or(AheadFault::Foreign)?;
        let expected = slot.file_bytes();
        if size != expected {
            return Err(AheadFault::Length { found: size, expected });
        }
        let half = |number: u64| -> Result<Vec<u8>, AheadFault> {
            let length = usize::try_from(slot.half_bytes).map_err(io::Error::other)?;
            let mut bytes = vec![0; length];
            read_exact_at(disk, &mut bytes, START_BYTES as u64 + number * slot.half_bytes)?;
            Ok(bytes)
        };
        Ok(Self { slot, halves: [half(0)?, half(1)?] })
    }

    pub(super) fn id(&self) -> [u8; 16] {
        self.slot.id
    }

    /// The last frame that is there, or was once for certain; 0 where there never was one.
    pub(super) fn newest(&self) -> u64 {
        self.frames().last_key_value().map_or(0, |(number, _)| *number).max(self.slot.durable)
    }

    /// The frames of both halves that follow the one before them.
    fn frames(&self) -> BTreeMap<u64, Frame<'_>> {
        let mut frames = BTreeMap::new();
        for half in &self.halves {
            let mut rest = half.as_slice();
            let mut last: Option<Tie> = None;
            while let Some((frame, length)) = Frame::decode(rest) {
                // What an earlier turn left behind the last frame of this one.
                if last.is_some_and(|last| !frame.follows(&last)) {
                    break;
                }
                last = Some(frame.tie);
                frames.insert(frame.tie.number, frame);
                rest = &rest[length..];
            }
        }
        frames
    }

    /// What frames behind `held` wrote, the newest of each row, and the last of them.
    pub(super) fn behind(&self, held: &Tie) -> Result<(Writes, Tie), AheadFault> {
        let frames = self.frames();
        let mut writes = Writes::new();
        let mut last = *held;
        for frame in frames.range(held.number.saturating_add(1)..).map(|(_, frame)| frame) {
            if !frame.follows(&last) {
                break;
            }
            let row = |fault| AheadFault::Row { number: frame.tie.number, fault };
            frame.replay(&mut writes).map_err(row)?;
            last = frame.tie;
        }
        let newest = self.newest();
        if last.number < newest {
            return Err(AheadFault::Damaged { number: last.number + 1, durable: newest });
        }
        Ok((writes, last))
    }
}

//! Header and frames of a file of steps, and the chain through them.

use std::fmt;

use super::{
    digest::{StepDigest, StepKey, StoreHead},
    payload::{PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN, StepFault, StepView},
    run::JoinFault,
};

/// Bytes before the first frame.
pub const HEADER_BYTES: usize = 32;

/// Bytes of a frame beside its payload: the length before it and the head after it.
pub const FRAME_OVERHEAD_BYTES: usize = PREFIX_BYTES + HEAD_BYTES;

pub(super) const PREFIX_BYTES: usize = 4;
pub(super) const HEAD_BYTES: usize = 32;

const MAGIC: [u8; 15] = *b"runseal steps\r\n";
const VERSION: u8 = 1;

/// Which store a file is: 16 random bytes, drawn when it is made.
///
/// Every head covers it, so that frames of one store are nothing in another, and a step's value, whoever
/// chose it, cannot hold bytes that look like frames of the file it stands in.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId([u8; 16]);

impl StoreId {
    /// An id that was drawn or read.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({self})")
    }
}

/// What a file of steps starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Which store this is.
    pub id: StoreId,
}

/// Why a file is not read as one of steps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderFault {
    /// The file is something else.
    #[error("it is not a file of steps: it starts with other bytes")]
    Foreign,
    /// The file is one of steps in another version.
    #[error("it is a file of steps in version {found}; this build reads version {VERSION}")]
    Version {
        /// The version it states.
        found: u8,
    },
    /// The file ends inside the header, or is all zero: it was never finished, and holds no step.
    #[error("its header was never finished: {bytes} of {HEADER_BYTES} bytes; it holds no step")]
    Torn {
        /// How many bytes there are.
        bytes: usize,
    },
}

impl Header {
    /// The bytes.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..15].copy_from_slice(&MAGIC);
        bytes[15] = VERSION;
        bytes[16..].copy_from_slice(&self.id.0);
        bytes
    }

    /// Reads the header that a file starts with; `start` may go on behind it.
    pub fn parse(start: &[u8]) -> Result<Self, HeaderFault> {
        let torn = HeaderFault::Torn { bytes: start.len().min(HEADER_BYTES) };
        let start = &start[..start.len().min(HEADER_BYTES)];
        if start.iter().all(|byte| *byte == 0) {
            return Err(torn);
        }
        let magic = start.len().min(MAGIC.len());
        if start[..magic] != MAGIC[..magic] {
            return Err(HeaderFault::Foreign);
        }
        match start.get(MAGIC.len()) {
            Some(version) if *version != VERSION => return Err(HeaderFault::Version { found: *version }),
            Some(_) | None => {}
        }
        match start.last_chunk::<16>() {
            Some(id) if start.len() == HEADER_BYTES => Ok(Self { id: StoreId(*id) }),
            _ => Err(torn),
        }
    }
}

/// A frame as it stands in a file, its head checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its number in the file, from 1.
    pub number: u64,
    /// Its offset in the file.
    pub at: u64,
    /// The step it holds.
    pub step: StepView<'a>,
    /// The bytes of its payload.
    pub payload: &'a [u8],
    /// The digest of its payload.
    pub digest: StepDigest,
    /// Its head.
    pub head: StoreHead,
}

/// What is wrong with a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameFault {
    /// No payload has the length stated.
    #[error("its length is {stated}; a payload has {PAYLOAD_BYTES_MIN} to {PAYLOAD_BYTES_MAX} bytes")]
    Length {
        /// The length stated.
        stated: u32,
    },
    /// The payload is none.
    #[error(transparent)]
    Payload(#[from] StepFault),
    /// The head is not the one that follows from the frame before and the payload.
    #[error("its head is {stored}, but {computed} follows from the frame before and the payload")]
    Head {
        /// The head as stored.
        stored: StoreHead,
        /// The head as computed.
        computed: StoreHead,
    },
    /// The length runs past the end of the file, but the payload is there whole, with its head.
    #[error(
        "its length is {stated} and runs past the end of the file, but a whole payload of {actual} bytes stands there"
    )]
    LengthLies {
        /// The length stated.
        stated: u32,
        /// The length of the payload that is there.
        actual: u32,
    },
    /// The frame runs past the end of the file, but a frame behind its start is intact.
    #[error("it runs past the end of the file, but the frame behind it at byte {intact_at} is intact")]
    IntactBehind {
        /// Where the intact frame is.
        intact_at: u64,
    },
    /// The frame runs past the end of the file, and what is there claims to be more frames than there is room
    /// for, so that no interrupted write left it.
    #[error("it runs past the end of the file, over bytes that no interrupted write leaves behind")]
    Crowded,
    /// The payload and its head were written anew since the file was read.
    #[error("it is not the frame that was there when the file was read")]
    Replaced,
    /// The step does not fit those of its run before it.
    #[error("it does not fit the steps of its run before it: {0}")]
    Join(#[from] JoinFault),
    /// The run has a step of this key already.
    #[error("its run has a step of key {key} already, at byte {first_at}")]
    Duplicate {
        /// The key.
        key: StepKey,
        /// Where the first one is.
        first_at: u64,
    },
}

/// The chain through a file, up to some frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameChain {
    id: StoreId,
    head: StoreHead,
    at: u64,
    frames: u64,
}

impl FrameChain {
    /// The chain of a file before its first frame.
    pub fn new(id: StoreId) -> Self {
        Self { id, head: StoreHead::genesis(&id), at: HEADER_BYTES as u64, frames: 0 }
    }

    /// The store.
    pub fn id(&self) -> &StoreId {
        &self.id
    }

    /// The head of the last frame, or the genesis.
    pub fn head(&self) -> StoreHead {
        self.head
    }

    /// Where the next frame starts: the bytes of header and frames so far.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How many frames there are so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Reads the frame that `bytes`, the file's from [`FrameChain::at`] on, start with; `None` where they end
    /// inside it.
    pub fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<Frame<'a>>, FrameFault> {
        let Some(frame) = whole_frame(bytes)? else { return Ok(None) };
        self.check_next(frame, StepDigest::of(payload_of(frame))).map(Some)
    }

    /// Checks `frame`, the next one, whole; `digest` is that of its payload.
    pub(super) fn check_next<'a>(
        &mut self,
        frame: &'a [u8],
        digest: StepDigest,
    ) -> Result<Frame<'a>, FrameFault> {
        let checked = check(&self.id, self.frames + 1, self.at, self.head, frame, digest)?;
        self.head = checked.head;
        self.at += frame.len() as u64;
        self.frames += 1;
        Ok(checked)
    }

    /// Goes past the frame that `bytes` start with and that [`FrameChain::read`] refused, and takes its head as it
    /// stands for what the next one follows. Gives its payload; `None` where its end cannot be told.
    pub(super) fn pass_over<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let frame = whole_frame(bytes).ok()??;
        self.head = StoreHead::from_bytes(*frame.last_chunk::<HEAD_BYTES>()?);
        self.at += frame.len() as u64;
        self.frames += 1;
        Some(payload_of(frame))
    }

    /// Writes the frame of `payload`, whose digest is given, at the end of `file`.
    ///
    /// # Errors
    /// [`FrameFault::Length`] where no payload has this length.
    pub fn write(
        &mut self,
        payload: &[u8],
        digest: &StepDigest,
        file: &mut Vec<u8>,
    ) -> Result<StoreHead, FrameFault> {
        let prefix = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
        payload_length(prefix)?;
        self.head = self.head.link(&self.id, self.at, digest);
        file.extend_from_slice(&prefix);
        file.extend_from_slice(payload);
        file.extend_from_slice(self.head.as_bytes());
        self.at += (FRAME_OVERHEAD_BYTES + payload.len()) as u64;
        self.frames += 1;
        Ok(self.head)
    }

    /// Checks one frame read by itself: `bytes` are exactly those of the frame at offset `at`, and `before` is
    /// the head that stands before it. The frame's number is not known, and given as 0.
    pub fn check_alone<'a>(
        id: &StoreId,
        at: u64,
        before: StoreHead,
        bytes: &'a [u8],
    ) -> Result<Frame<'a>, FrameFault> {
        match whole_frame(bytes)? {
            Some(frame) if frame.len() == bytes.len() => {
                check(id, 0, at, before, frame, StepDigest::of(payload_of(frame)))
            }
            _ => Err(FrameFault::Length { stated: stated_length(bytes) }),
        }
    }
}

/// The length a prefix states, where a payload can have it.
pub(super) fn payload_length(prefix: [u8; PREFIX_BYTES]) -> Result<usize, FrameFault> {
    let stated = u32::from_be_bytes(prefix);
    match usize::try_from(stated) {
        Ok(length) if (PAYLOAD_BYTES_MIN..=PAYLOAD_BYTES_MAX).contains(&length) => Ok(length),
        _ => Err(FrameFault::Length { stated }),
    }
}

/// The frame that `bytes` start with; `None` where they end inside it.
pub(super) fn whole_frame(bytes: &[u8]) -> Result<Option<&[u8]>, FrameFault> {
    let Some(prefix) = bytes.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    let length = payload_length(*prefix)?;
    Ok(bytes.get(..FRAME_OVERHEAD_BYTES + length))
}

/// The payload of a whole frame.
pub(super) fn payload_of(frame: &[u8]) -> &[u8] {
    &frame[PREFIX_BYTES..frame.len() - HEAD_BYTES]
}

fn stated_length(frame: &[u8]) -> u32 {
    frame.first_chunk().map_or(0, |prefix| u32::from_be_bytes(*prefix))
}

/// Checks a whole frame whose payload has this digest.
fn check<'a>(
    id: &StoreId,
    number: u64,
    at: u64,
    before: StoreHead,
    frame: &'a [u8],
    digest: StepDigest,
) -> Result<Frame<'a>, FrameFault> {
    let Some(stored) = frame.last_chunk::<HEAD_BYTES>() else {
        return Err(FrameFault::Length { stated: stated_length(frame) });
    };
    let stored = StoreHead::from_bytes(*stored);
    let computed = before.link(id, at, &digest);
    if stored != computed {
        return Err(FrameFault::Head { stored, computed });
    }
    let payload = payload_of(frame);
    Ok(Frame { number, at, step: StepView::parse(payload)?, payload, digest, head: stored })
}

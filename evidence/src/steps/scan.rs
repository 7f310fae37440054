//! A file of steps read as a stream, in chunks of any size.

use super::{
    ahead::Digested,
    digest::StoreHead,
    frame::{Frame, FrameChain, FrameFault, HEADER_BYTES, Header, HeaderFault, StoreId},
    tail,
};

/// Reads a file from its first byte. Never holds more than one frame and one chunk.
#[derive(Debug, Default)]
pub struct Scan {
    buffer: Vec<u8>,
    chain: Option<FrameChain>,
}

/// What a file came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The store.
    pub id: StoreId,
    /// How many frames there are.
    pub frames: u64,
    /// The head of the last one, or the genesis.
    pub head: StoreHead,
    /// Bytes of the header and the frames.
    pub bytes: u64,
    /// Bytes behind them that an interrupted write left.
    pub torn_bytes: u64,
}

/// What is wrong with a file of steps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepsFault {
    /// The header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// A frame.
    #[error("frame {number} at byte {at} is damaged: {fault}")]
    Frame {
        /// Its number, from 1.
        number: u64,
        /// Its offset.
        at: u64,
        /// What is wrong with it.
        fault: FrameFault,
    },
}

impl Scan {
    /// A scan before the first byte.
    pub fn new() -> Self {
        Self::default()
    }

    /// A scan of the bytes behind `header`, which was read already.
    pub fn behind(header: Header) -> Self {
        Self { buffer: Vec::new(), chain: Some(FrameChain::new(header.id)) }
    }

    /// Takes the next bytes and hands every frame that they complete to `visit`, in order. What `visit` refuses
    /// is reported at the frame's place; nothing may be pushed after an error.
    ///
    /// # Errors
    /// The first fault.
    pub fn push(
        &mut self,
        bytes: &[u8],
        mut visit: impl FnMut(&Frame<'_>) -> Result<(), FrameFault>,
    ) -> Result<(), StepsFault> {
        self.take(bytes, |chain, rest| {
            let Some(frame) = chain.read(rest)? else { return Ok(false) };
            visit(&frame)?;
            Ok(true)
        })
    }

    /// Takes frames whose payloads were hashed already, as [`Scan::push`] does. Between frames only, that is where
    /// everything pushed before was whole frames; elsewhere the frames are hashed again.
    ///
    /// # Errors
    /// The first fault.
    pub fn push_digested(
        &mut self,
        frames: &Digested,
        mut visit: impl FnMut(&Frame<'_>) -> Result<(), FrameFault>,
    ) -> Result<(), StepsFault> {
        let Some(chain) = self.chain.as_mut().filter(|_| self.buffer.is_empty()) else {
            return frames.iter().try_for_each(|(frame, _)| self.push(frame, &mut visit));
        };
        for (frame, digest) in frames.iter() {
            let (number, at) = (chain.frames() + 1, chain.at());
            chain
                .check_next(frame, digest)
                .and_then(|frame| visit(&frame))
                .map_err(|fault| StepsFault::Frame { number, at, fault })?;
        }
        Ok(())
    }

    /// Takes the next bytes and hands what `next` reads at the start of the rest on, until it says that there is
    /// not enough.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        mut next: impl FnMut(&mut FrameChain, &[u8]) -> Result<bool, FrameFault>,
    ) -> Result<(), StepsFault> {
        self.buffer.extend_from_slice(bytes);
        let mut read = 0;
        if self.chain.is_none() {
            if self.buffer.len() < HEADER_BYTES {
                return Ok(());
            }
            self.chain = Some(FrameChain::new(Header::parse(&self.buffer)?.id));
            read = HEADER_BYTES;
        }
        let Some(chain) = &mut self.chain else { return Ok(()) };
        loop {
            let (number, at) = (chain.frames() + 1, chain.at());
            let fault = |fault| StepsFault::Frame { number, at, fault };
            if !next(chain, &self.buffer[read..]).map_err(fault)? {
                break;
            }
            read += usize::try_from(chain.at() - at).unwrap_or(usize::MAX);
        }
        self.buffer.drain(..read);
        Ok(())
    }

    /// Says that the file ends here, and judges how it ends.
    ///
    /// # Errors
    /// A header that is not one, or not whole; an end inside a frame that no interrupted write explains.
    pub fn finish(self) -> Result<End, StepsFault> {
        let Some(chain) = self.chain else {
            let fault = Header::parse(&self.buffer).err();
            return Err(fault.unwrap_or(HeaderFault::Torn { bytes: self.buffer.len() }).into());
        };
        tail::judge(&chain, &self.buffer).map_err(|fault| StepsFault::Frame {
            number: chain.frames() + 1,
            at: chain.at(),
            fault,
        })?;
        let torn_bytes = self.buffer.len() as u64;
        let (frames, head, bytes) = (chain.frames(), chain.head(), chain.at());
        Ok(End { id: *chain.id(), frames, head, bytes, torn_bytes })
    }

    /// The chain up to the last frame taken; `None` before the header is whole.
    pub fn chain(&self) -> Option<&FrameChain> {
        self.chain.as_ref()
    }
}

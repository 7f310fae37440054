//! What the end of a file is, where it ends inside a frame: a write that was cut short, or damage to frames
//! that were there whole.
//!
//! A writer appends a frame only after the one before it was synced or in the same write, so a cut write
//! leaves the start of frames and nothing behind. If anything behind is intact, the frame was whole once and
//! may have been acknowledged; then nothing may be trimmed.

use super::{
    digest::{StepDigest, StoreHead},
    frame::{FRAME_OVERHEAD_BYTES, FrameChain, FrameFault, HEAD_BYTES, PREFIX_BYTES, payload_length},
    payload::{PAYLOAD_BYTES_MIN, stated_bytes},
};

/// Judges `rest`, the bytes from the end of `chain` to the end of the file, which [`FrameChain::read`] found to
/// end inside a frame: `Ok` where an interrupted write left them.
///
/// Every offset is looked at, but only bytes laid out as a whole frame are hashed, and of those at most twice
/// as many as there are: frames do not overlap, so more of them are no writer's work.
pub(super) fn judge(chain: &FrameChain, rest: &[u8]) -> Result<(), FrameFault> {
    let Some((prefix, payload)) = rest.split_first_chunk::<PREFIX_BYTES>() else { return Ok(()) };
    // The payload tells its own length, whatever the prefix says.
    let whole = stated_bytes(payload)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .and_then(|bytes| Some((payload.get(..bytes)?, payload.get(bytes..bytes + HEAD_BYTES)?)));
    let mut implied = None;
    if let Some((payload, stored)) = whole {
        let head = chain.head().link(chain.id(), chain.at(), &StepDigest::of(payload));
        if stored == head.as_bytes() {
            let stated = u32::from_be_bytes(*prefix);
            let actual = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            return Err(FrameFault::LengthLies { stated, actual });
        }
        implied = Some((FRAME_OVERHEAD_BYTES + payload.len(), head));
    }
    let mut budget = rest.len().saturating_mul(2);
    for start in FRAME_OVERHEAD_BYTES + PAYLOAD_BYTES_MIN..rest.len() {
        let Some(frame) = laid_out_frame(&rest[start..]) else { continue };
        budget = budget.checked_sub(frame.len()).ok_or(FrameFault::Crowded)?;
        let at = chain.at() + start as u64;
        // `start` is past the smallest frame, so there are bytes before it.
        let before = rest[..start].last_chunk::<HEAD_BYTES>().map(|head| StoreHead::from_bytes(*head));
        let implied = implied.filter(|(end, _)| *end == start).map(|(_, head)| head);
        let follows = |head: StoreHead| FrameChain::check_alone(chain.id(), at, head, frame).is_ok();
        if before.is_some_and(follows) || implied.is_some_and(follows) {
            return Err(FrameFault::IntactBehind { intact_at: at });
        }
    }
    Ok(())
}

/// The frame that `bytes` start with, if its two lengths agree. Names are not looked at: what their lengths
/// claim is not trusted before the head is checked.
fn laid_out_frame(bytes: &[u8]) -> Option<&[u8]> {
    let (prefix, rest) = bytes.split_first_chunk::<PREFIX_BYTES>()?;
    let length = payload_length(*prefix).ok()?;
    if stated_bytes(rest)? != length as u64 {
        return None;
    }
    bytes.get(..FRAME_OVERHEAD_BYTES + length)
}

//! Opening: the file is read once from start to end, every frame checked, and its torn end cut off.

use std::collections::BTreeMap;
use std::io;

use runseal_evidence::name::TenantId;
use runseal_evidence::steps::{
    Frame, FrameChain, FrameFault, HEADER_BYTES, Header, HeaderFault, JoinFault, Scan, StepsFault, StoreId,
};

use super::error::{DeviceCall, OpenError};
use super::index::Index;
use super::places::{KeyHashing, Place};
use super::read_ahead::{Part, read_ahead};
use super::store::read_step;
use crate::disk::{Disk, read_exact_at};

/// What opening found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opening {
    /// Steps in the file.
    pub steps: u64,
    /// Bytes at its end that an interrupted append left, and that were cut off. None of them was acknowledged.
    pub torn_bytes: u64,
    /// The file was empty, or its making was interrupted, and it got a new header.
    pub header_written: bool,
}

/// A file that was read, and where writing goes on.
pub(super) struct Opened {
    pub(super) index: Index,
    pub(super) keys: KeyHashing,
    pub(super) chain: FrameChain,
    pub(super) opening: Opening,
}

/// Reads the whole of `disk`, which may hold steps of `only` alone where that is given.
pub(super) fn open(disk: &dyn Disk, only: Option<&TenantId>) -> Result<Opened, OpenError> {
    let size = disk.size().map_err(DeviceCall::Size.failed_to_open())?;
    let mut start = vec![0; HEADER_BYTES.min(usize::try_from(size).unwrap_or(HEADER_BYTES))];
    read_exact_at(disk, &mut start, 0).map_err(DeviceCall::Read.failed_to_open())?;
    match Header::parse(&start) {
        // The header is synced before the first append is taken, so such a file never held a step.
        Err(HeaderFault::Torn { .. }) if size <= HEADER_BYTES as u64 => create(disk),
        Err(HeaderFault::Torn { .. }) => Err(StepsFault::from(HeaderFault::Foreign).into()),
        Err(fault) => Err(StepsFault::from(fault).into()),
        Ok(header) => replay(disk, size, header, only),
    }
}

fn create(disk: &dyn Disk) -> Result<Opened, OpenError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id)?;
    let header = Header { id: StoreId::from_bytes(id) };
    disk.write_at(&header.to_bytes(), 0).map_err(DeviceCall::Write.failed_to_open())?;
    disk.sync().map_err(DeviceCall::Sync.failed_to_open())?;
    let chain = FrameChain::new(header.id);
    let opening = Opening { steps: 0, torn_bytes: 0, header_written: true };
    Ok(Opened { index: Index::new(chain.at()), keys: KeyHashing::default(), chain, opening })
}

fn replay(disk: &dyn Disk, size: u64, header: Header, only: Option<&TenantId>) -> Result<Opened, OpenError> {
    let mut scan = Scan::behind(header);
    let (mut index, keys) = (Index::new(HEADER_BYTES as u64), KeyHashing::default());
    let read = read_ahead(disk, size, |part| {
        let visit = |frame: &Frame<'_>| admit(&mut index, &keys, frame, only);
        match part {
            Part::Frames(frames) => scan.push_digested(frames, visit),
            Part::End(bytes) => scan.push(bytes, visit),
        }
    });
    // A step that is there twice stands before whatever else was found.
    index.sort();
    if let Some(fault) = first_duplicate(disk, &header.id, &index)? {
        return Err(fault.into());
    }
    read?;
    let chain = scan.chain().cloned().unwrap_or_else(|| FrameChain::new(header.id));
    let end = scan.finish()?;
    if end.torn_bytes > 0 {
        disk.truncate(end.bytes).map_err(DeviceCall::Truncate.failed_to_open())?;
    }
    // The last process may have died between a write and its sync: nothing is shown before it is durable.
    disk.sync().map_err(DeviceCall::Sync.failed_to_open())?;
    index.commit(end.bytes);
    let opening = Opening { steps: end.frames, torn_bytes: end.torn_bytes, header_written: false };
    Ok(Opened { index, keys, chain, opening })
}

/// Enters a frame that was read, under the same rules as one that is appended, ceilings apart.
fn admit(
    index: &mut Index,
    keys: &KeyHashing,
    frame: &Frame<'_>,
    only: Option<&TenantId>,
) -> Result<(), FrameFault> {
    let step = &frame.step;
    if let Some(tenant) = only.filter(|only| only.as_str() != step.tenant()) {
        return Err(JoinFault::ForeignTenant { run: step.to_run(), tenant: tenant.clone() }.into());
    }
    let run = index.run_or_insert(step);
    run.known.admits_step(step)?;
    // A payload is at most 16 MiB.
    let payload_bytes = u32::try_from(frame.payload.len()).unwrap_or(u32::MAX);
    run.places.read(keys.hash(step.key()), Place::new(frame.at, payload_bytes, &frame.digest));
    run.head = run.head.link(&frame.digest);
    Ok(())
}

/// The first frame of the file whose run has a step of its key before it.
fn first_duplicate(disk: &dyn Disk, id: &StoreId, index: &Index) -> Result<Option<StepsFault>, OpenError> {
    let key_at = |place| match read_step(disk, id, place) {
        Ok(step) => Ok(step.key),
        Err(error) => Err(DeviceCall::Read.failed_to_open()(io::Error::other(error))),
    };
    let mut first: Option<(Place, FrameFault)> = None;
    for meeting in index.runs().iter().flat_map(|run| run.places.meeting()) {
        let mut keys = BTreeMap::new();
        for (_, place) in meeting {
            let key = key_at(*place)?;
            let first_at = *keys.entry(key).or_insert(place.at);
            if first_at < place.at && first.as_ref().is_none_or(|(first, _)| place.at < first.at) {
                first = Some((*place, FrameFault::Duplicate { key, first_at }));
            }
        }
    }
    Ok(first.map(|(place, fault)| {
        let places = index.runs().iter().flat_map(|run| run.places.iter());
        let before = places.filter(|other| other.at < place.at).count();
        StepsFault::Frame { number: before as u64 + 1, at: place.at, fault }
    }))
}

//! A device in memory that loses power, stalls and fails when told to.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use runseal::Disk;
use runseal::steps::DeviceCall;

/// Handles of one device.
#[derive(Clone, Default)]
pub(crate) struct Device(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What reads show.
    bytes: Vec<u8>,
    /// What outlasts a loss of power.
    durable: Vec<u8>,
    syncs: u64,
    stall: Stall,
    failing: Option<DeviceCall>,
    /// How many calls of the failing kind still succeed.
    failing_after: u64,
    /// Of a failing write, how many bytes are written all the same.
    written_of_failing: usize,
}

#[derive(Default, PartialEq, Eq)]
enum Stall {
    #[default]
    Never,
    /// The next sync will wait.
    Next,
    /// A sync waits.
    Now,
}

impl Device {
    pub(crate) fn holding(bytes: &[u8]) -> Self {
        let device = Self::default();
        device.state().bytes = bytes.to_vec();
        device.state().durable = bytes.to_vec();
        device
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    /// What reads show.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    /// What outlasts a loss of power.
    pub(crate) fn durable(&self) -> Vec<u8> {
        self.state().durable.clone()
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Changes the bytes behind the store's back.
    pub(crate) fn tamper(&self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.state().bytes);
    }

    /// Makes the next sync wait for [`Device::release`].
    pub(crate) fn stall(&self) {
        self.state().stall = Stall::Next;
    }

    /// Returns once a sync waits.
    pub(crate) fn wait_until_stalled(&self) {
        let state = self.state();
        drop(self.0.changed.wait_while(state, |state| state.stall != Stall::Now).unwrap());
    }

    pub(crate) fn release(&self) {
        self.state().stall = Stall::Never;
        self.0.changed.notify_all();
    }

    /// Makes calls of this kind fail until [`Device::heal`].
    pub(crate) fn fail(&self, call: DeviceCall) {
        self.state().failing = Some(call);
    }

    /// Makes calls of this kind fail from the one after the next.
    pub(crate) fn fail_after_next(&self, call: DeviceCall) {
        let mut state = self.state();
        state.failing = Some(call);
        state.failing_after = 1;
    }

    /// Makes writes fail after this many bytes.
    pub(crate) fn fail_writes_after(&self, bytes: usize) {
        let mut state = self.state();
        state.failing = Some(DeviceCall::Write);
        state.written_of_failing = bytes;
    }

    /// Ends every failure.
    pub(crate) fn heal(&self) {
        self.state().failing = None;
    }

    fn check(state: &mut State, call: DeviceCall) -> io::Result<()> {
        if state.failing != Some(call) {
            return Ok(());
        }
        match state.failing_after.checked_sub(1) {
            Some(left) => {
                state.failing_after = left;
                Ok(())
            }
            None => Err(io::Error::other("the device failed as told")),
        }
    }
}

impl Disk for Device {
    fn size(&self) -> io::Result<u64> {
        let mut state = self.state();
        Self::check(&mut state, DeviceCall::Size)?;
        Ok(state.bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let mut state = self.state();
        Self::check(&mut state, DeviceCall::Read)?;
        let rest = usize::try_from(at).ok().and_then(|at| state.bytes.get(at..)).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut state = self.state();
        let failed = Self::check(&mut state, DeviceCall::Write);
        let length = if failed.is_err() { state.written_of_failing.min(bytes.len()) } else { bytes.len() };
        let (start, end) = (usize::try_from(at).unwrap(), usize::try_from(at).unwrap() + length);
        if state.bytes.len() < end {
            state.bytes.resize(end, 0);
        }
        state.bytes[start..end].copy_from_slice(&bytes[..length]);
        failed
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        let mut state = self.state();
        Self::check(&mut state, DeviceCall::Truncate)?;
        state.bytes.truncate(usize::try_from(size).unwrap());
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.stall == Stall::Next {
            state.stall = Stall::Now;
            self.0.changed.notify_all();
            state = self.0.changed.wait_while(state, |state| state.stall == Stall::Now).unwrap();
        }
        Self::check(&mut state, DeviceCall::Sync)?;
        state.syncs += 1;
        let State { bytes, durable, .. } = &mut *state;
        durable.clone_from(bytes);
        Ok(())
    }
}

//! Ceilings. What would go over one is refused whole; nothing is cut to fit.

use runseal_evidence::steps::PAYLOAD_BYTES_MAX;

/// Ceilings of a store. They bind what is appended; a file that was written under higher ones still opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLimits {
    /// Most bytes of a step, its names and value together. At most 16 MiB, however high it is set.
    pub record_bytes_max: u64,
    /// Most steps in one run.
    pub run_steps_max: u64,
    /// Most bytes of the file.
    pub file_bytes_max: u64,
    /// Most appends that may wait for the device; one more is refused.
    pub waiting_max: usize,
    /// Most bytes of the appends that may wait. One alone may be larger.
    pub waiting_bytes_max: usize,
}

impl Default for StepLimits {
    /// 256 KiB a step, 65,536 steps a run, 4 GiB a file; 1,024 appends and 16 MiB waiting.
    fn default() -> Self {
        Self {
            record_bytes_max: 256 << 10,
            run_steps_max: 65_536,
            file_bytes_max: 4 << 30,
            waiting_max: 1024,
            waiting_bytes_max: 16 << 20,
        }
    }
}

impl StepLimits {
    /// What a step may really have.
    pub(super) fn record_bytes(&self) -> u64 {
        self.record_bytes_max.min(PAYLOAD_BYTES_MAX as u64)
    }
}

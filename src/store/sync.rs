//! Threads and locks of the queue: the standard library's, or, built with `--cfg shuttle`, simulated ones whose
//! schedule a test chooses.

#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};

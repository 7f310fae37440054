//! Work on the disk or the processor, off the async threads.

use crate::error::Failure;

/// Runs `work` where it may block.
///
/// # Errors
/// [`Failure::Internal`] when it panicked.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    Ok(tokio::task::spawn_blocking(work).await?)
}

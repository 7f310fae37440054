//! Tests of the journal as a whole.

mod story;
pub(crate) mod world;

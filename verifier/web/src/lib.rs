//! The verifier in a browser: what `runseal-verifier proof`, `export` and `fraud` do, for files that are dropped
//! on a page. The judging functions are the command's own; this crate asks them and words the answer.
//!
//! | module | holds |
//! |---|---|
//! | [`kind`] | which kind of file was dropped |
//! | [`question`] | a file and what it is to be held against |
//! | [`answer`] | the report, exactly as the command writes it, and how the page shows it |
//! | `browser` | the three as functions for scripts (WebAssembly only) |
//! | `page` | builds the page (feature `page` only) |

pub mod answer;
#[cfg(target_family = "wasm")]
pub mod browser;
pub mod kind;
#[cfg(feature = "page")]
pub mod page;
pub mod question;

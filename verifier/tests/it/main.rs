//! The command against small logs, honest and tampered with.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::format_push_string, clippy::format_collect, reason = "formats are spelled out to be read")]

mod agentplane;
mod audit;
mod command;
mod dates;
mod directory;
mod export;
mod findings;
mod history;
mod hostile;
mod html;
mod http;
mod plane;
mod proof;
mod records;
mod server;
mod watch;
mod witnesses;
mod words;

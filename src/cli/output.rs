//! Where a command's words go: data to stdout, everything for people to stderr.

use std::{
    fmt,
    io::{self, BufWriter, IsTerminal as _, StdoutLock, Write},
};

use super::CliError;

/// The two streams of a command. Neither panics when its reader is gone.
#[derive(Debug)]
pub(super) struct Output {
    quiet: bool,
}

impl Output {
    pub(super) const fn new(quiet: bool) -> Self {
        Self { quiet }
    }

    /// Something worth knowing, unless told to be quiet.
    pub(super) fn say(&self, text: impl fmt::Display) {
        self.speak(&text, Weight::Remark);
    }

    /// Something that has to be said: a warning, an alarm, an address.
    pub(super) fn tell(&self, text: impl fmt::Display) {
        self.speak(&text, Weight::Warning);
    }

    fn speak(&self, text: &dyn fmt::Display, weight: Weight) {
        if weight == Weight::Warning || !self.quiet {
            // There is nobody to tell that stderr is closed.
            drop(writeln!(io::stderr(), "{text}"));
        }
    }

    /// An error, as the last words of a command.
    pub(super) fn error(&self, error: &CliError) {
        self.tell(format_args!("error: {error}"));
    }

    /// Whether progress may be drawn.
    pub(super) fn draws_progress(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    pub(super) const fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Writes data to stdout, all of it or an error. Being quiet is about words, not data.
    #[expect(clippy::unused_self, reason = "the two streams are one thing to the commands")]
    pub(super) fn data<T>(
        &self,
        write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let mut stdout = BufWriter::new(io::stdout().lock());
        let written =
            write(&mut stdout).and_then(|value| stdout.flush().map(|()| value).map_err(CliError::Stdout));
        // What could not be flushed is given up: the buffer would try, and fail, once more when dropped.
        drop(stdout.into_parts());
        written
    }

    /// One line of data.
    pub(super) fn line(&self, text: impl fmt::Display) -> Result<(), CliError> {
        self.data(|out| writeln!(out, "{text}").map_err(CliError::Stdout))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    Remark,
    Warning,
}

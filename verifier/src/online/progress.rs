//! Progress bars on a terminal, and nowhere else.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

/// Whether to show progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// Shows bars where stderr is a terminal, unless `quiet`.
    pub fn new(quiet: bool) -> Self {
        Self { shown: !quiet && std::io::stderr().is_terminal() }
    }

    /// A bar over `length` things.
    pub fn bar(self, what: &'static str, length: u64) -> Bar {
        self.styled(what, length, "{prefix:>10} {wide_bar} {human_pos}/{human_len} {eta}")
    }

    /// A bar over `length` bytes.
    pub fn bytes(self, what: &'static str, length: u64) -> Bar {
        self.styled(what, length, "{prefix:>10} {wide_bar} {bytes}/{total_bytes} {eta}")
    }

    fn styled(self, what: &'static str, length: u64, template: &str) -> Bar {
        if !self.shown || length == 0 {
            return Bar(None);
        }
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Bar(Some(ProgressBar::new(length).with_style(style).with_prefix(what)))
    }
}

/// A bar, or nothing. Gone from the screen when dropped.
#[derive(Debug)]
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// `more` things are done.
    pub fn advance(&self, more: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(more);
        }
    }

    /// `done` things are done.
    pub fn position(&self, done: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(done);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

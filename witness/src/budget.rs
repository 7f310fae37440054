//! A limit on repeated log lines.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// So many lines a second; what is left out is counted and told with the next line.
#[derive(Debug)]
pub(crate) struct Budget {
    lines_a_second: u64,
    spent: Mutex<Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    second: u64,
    lines: u64,
    left_out: u64,
}

impl Budget {
    pub(crate) fn new(lines_a_second: u64) -> Self {
        Self { lines_a_second, spent: Mutex::default() }
    }

    /// Whether a line may be written at `now`, and how many were left out before it.
    pub(crate) fn line(&self, now: Duration) -> Option<u64> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if spent.second != now.as_secs() {
            (spent.second, spent.lines) = (now.as_secs(), 0);
        }
        if spent.lines == self.lines_a_second {
            spent.left_out += 1;
            return None;
        }
        spent.lines += 1;
        Some(std::mem::take(&mut spent.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_budget_are_counted_not_written() {
        let budget = Budget::new(2);
        let at = |seconds| budget.line(Duration::from_secs(seconds));
        assert_eq!([at(7), at(7), at(7), at(7)], [Some(0), Some(0), None, None]);
        assert_eq!([at(8), at(8), at(8)], [Some(2), Some(0), None]);
        assert_eq!(at(60), Some(1));
    }
}

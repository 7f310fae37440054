//! Dated policies: from when and until when a key is trusted.
//!
//! A comment line directly above a `log` or `witness` line, or above another such comment, dates the key
//! on that line:
//!
//! ```text
//! # valid-from 2025-01-01T00:00:00Z
//! # valid-until 2026-06-30T23:59:59Z
//! log plane.example/log/acme+…
//! ```
//!
//! Any other reader of tlog-policy files passes over comments, and so gets the undated policy. Here a
//! cosignature counts where its own time lies within its witness's dates, and a log key's signature where
//! the time at which a quorum had cosigned the checkpoint lies within the key's: an old proof verifies as of
//! its time, and a retired key signs nothing new. Both ends belong to the time between them.

use runseal_evidence::timestamp::Timestamp;
use thiserror::Error;

/// From when until when a key is trusted, POSIX seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dates {
    /// The first second.
    pub from: u64,
    /// The last second.
    pub until: u64,
}

impl Dates {
    /// A key without dates.
    pub const ALWAYS: Self = Self { from: 0, until: u64::MAX };

    /// Whether `time` lies within.
    pub const fn hold(&self, time: u64) -> bool {
        self.from <= time && time <= self.until
    }
}

/// The dates of a policy's keys, in file order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyDates {
    /// Of the `log` lines.
    pub logs: Vec<Dates>,
    /// Of the `witness` lines.
    pub witnesses: Vec<Dates>,
}

/// What is wrong with a date.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("policy line {line}: {fault}")]
pub struct DateError {
    /// Line number from 1.
    pub line: usize,
    /// What is wrong there.
    pub fault: DateFault,
}

/// What is wrong with a dated line.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DateFault {
    /// A misspelled keyword would leave a key undated.
    #[error("\"# {0}\" is neither \"# valid-from TIME\" nor \"# valid-until TIME\"")]
    Keyword(String),
    /// Not a time.
    #[error("{0:?} is not a time after 1970 like 2026-06-30T23:59:59Z")]
    Time(String),
    /// Dates of nothing.
    #[error("the date stands above no log or witness line")]
    Dangling,
    /// The same end twice.
    #[error("the date is given twice")]
    Twice,
    /// No time lies between.
    #[error("the key's dates end before they begin")]
    Reversed,
}

impl PolicyDates {
    /// Reads the dates of a policy that has been read as such.
    ///
    /// # Errors
    /// [`DateError`].
    pub fn parse(policy: &[u8]) -> Result<Self, DateError> {
        let mut dates = Self::default();
        let (mut from, mut until) = (None, None);
        let mut line = 0;
        let fault = |line, fault| Err(DateError { line, fault });
        for (number, text) in policy.split(|byte| *byte == b'\n').enumerate() {
            line = number + 1;
            let text = String::from_utf8_lossy(text);
            let mut items = text.split([' ', '\t']).filter(|item| !item.is_empty());
            let open = from.is_some() || until.is_some();
            match items.next() {
                Some("#") => {
                    let rest: Vec<&str> = items.collect();
                    let end = match rest.as_slice() {
                        ["valid-from", _] => &mut from,
                        ["valid-until", _] => &mut until,
                        [word, ..] if word.starts_with("valid-") => {
                            return fault(line, DateFault::Keyword(rest.join(" ")));
                        }
                        _ if open => return fault(line, DateFault::Dangling),
                        _ => continue,
                    };
                    let time = posix(rest[1]).ok_or_else(|| DateFault::Time(rest[1].to_owned()));
                    let time = time.map_err(|fault| DateError { line, fault })?;
                    if end.replace(time).is_some() {
                        return fault(line, DateFault::Twice);
                    }
                }
                Some(keyword @ ("log" | "witness")) => {
                    let key = Dates {
                        from: from.take().unwrap_or(Dates::ALWAYS.from),
                        until: until.take().unwrap_or(Dates::ALWAYS.until),
                    };
                    if key.until < key.from {
                        return fault(line, DateFault::Reversed);
                    }
                    if keyword == "log" { dates.logs.push(key) } else { dates.witnesses.push(key) }
                }
                _ if open => return fault(line, DateFault::Dangling),
                _ => {}
            }
        }
        if from.is_some() || until.is_some() { fault(line, DateFault::Dangling) } else { Ok(dates) }
    }

    /// Whether any key is dated.
    pub fn any(&self) -> bool {
        self.logs.iter().chain(&self.witnesses).any(|dates| *dates != Dates::ALWAYS)
    }
}

fn posix(text: &str) -> Option<u64> {
    let ms = Timestamp::parse_seconds_or_ms(text).ok()?.posix_ms();
    u64::try_from(ms.div_euclid(1000)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_belong_to_the_line_below_them() {
        let policy = b"# a comment\nlog a\n# valid-from 2025-01-01T00:00:00Z\n  #\tvalid-until 2026-01-01T00:00:00Z\nlog b\n\nwitness w c\n# valid-until 1970-01-01T00:00:10Z\nwitness x d\n";
        let dates = PolicyDates::parse(policy).unwrap();
        assert_eq!(dates.logs, [Dates::ALWAYS, Dates { from: 1_735_689_600, until: 1_767_225_600 }]);
        assert_eq!(dates.witnesses, [Dates::ALWAYS, Dates { from: 0, until: 10 }]);
        assert!(dates.logs[1].hold(1_735_689_600) && dates.logs[1].hold(1_767_225_600));
        assert!(!dates.logs[1].hold(1_735_689_599) && !dates.logs[1].hold(1_767_225_601));
        assert!(!PolicyDates::parse(b"log a\nquorum none\n").unwrap().any());
    }

    #[test]
    fn a_date_that_does_not_hold_is_refused_with_its_line() {
        for (policy, line, fault) in [
            (
                "# valid-untill 2025-01-01T00:00:00Z\nlog a\n",
                1,
                DateFault::Keyword("valid-untill 2025-01-01T00:00:00Z".into()),
            ),
            ("# valid-from\nlog a\n", 1, DateFault::Keyword("valid-from".into())),
            ("# valid-from tomorrow\nlog a\n", 1, DateFault::Time("tomorrow".into())),
            ("# valid-from 1969-01-01T00:00:00Z\nlog a\n", 1, DateFault::Time("1969-01-01T00:00:00Z".into())),
            ("# valid-from 2025-01-01T00:00:00Z\n\nlog a\n", 2, DateFault::Dangling),
            ("# valid-from 2025-01-01T00:00:00Z\n# a comment\nlog a\n", 2, DateFault::Dangling),
            ("log a\n# valid-from 2025-01-01T00:00:00Z\nquorum none\n", 3, DateFault::Dangling),
            ("log a\n# valid-from 2025-01-01T00:00:00Z\n", 3, DateFault::Dangling),
            (
                "# valid-from 2025-01-01T00:00:00Z\n# valid-from 2025-01-01T00:00:00Z\nlog a\n",
                2,
                DateFault::Twice,
            ),
            (
                "# valid-from 2026-01-01T00:00:00Z\n# valid-until 2025-01-01T00:00:00Z\nlog a\n",
                3,
                DateFault::Reversed,
            ),
        ] {
            assert_eq!(PolicyDates::parse(policy.as_bytes()), Err(DateError { line, fault }), "{policy:?}");
        }
    }
}

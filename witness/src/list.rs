//! The witness network's list of logs, format `logs/v0`.
//!
//! ```text
//! # comments and empty lines anywhere
//! logs/v0
//!
//! vkey sigsum.org/v1/tree/…+9bc54c7f+AVv6…
//! origin example.com/foo          optional, else the key's name
//! qpd 86400                       optional, requests a day
//! contact https://example.com/    optional
//! ```
//!
//! Each `vkey` line starts an entry; keywords not known are passed over, as the format asks.

use runseal_tlog::key::{KeyError, VerifierKey};
use runseal_tlog::text::parse_decimal;
use thiserror::Error;

/// The first line that counts.
pub const HEADER: &str = "logs/v0";

/// One log of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Line of the `vkey`, from 1.
    pub line: usize,
    /// The log's key.
    pub key: VerifierKey,
    /// The log's origin.
    pub origin: String,
    /// Requests a day that the log may make.
    pub queries_per_day: Option<u64>,
    /// Where to reach its operator.
    pub contact: Option<String>,
}

/// Why a list is refused: the line, from 1, and the fault.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[error("line {line}: {fault}")]
pub struct ListError {
    /// Line number from 1.
    pub line: usize,
    /// What is wrong there.
    pub fault: ListFault,
}

/// What is wrong with a line of a list.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum ListFault {
    /// The list does not start with its header.
    #[error("expected {HEADER:?}, found {0:?}")]
    Header(String),
    /// Nothing but comments.
    #[error("expected {HEADER:?}, found the end of the file")]
    NoHeader,
    /// A property before the first `vkey`.
    #[error("expected a vkey line before {0:?}")]
    NoEntry(String),
    /// A keyword without what belongs after it.
    #[error("{0} has no value")]
    NoValue(&'static str),
    /// A property given twice for one log.
    #[error("{0} is given twice for one log")]
    Repeated(&'static str),
    /// A key that is refused.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// No count of requests.
    #[error("qpd {0:?} is not a decimal number of requests a day of at least 1")]
    Quota(String),
    /// A control character in an origin.
    #[error("the origin holds a control character")]
    Origin,
}

/// Whether `text` is meant to be a `logs/v0` list: its first line that counts is the header.
pub fn is_list(text: &str) -> bool {
    lines(text).next().is_some_and(|(_, line)| line == HEADER)
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Reads a list.
///
/// # Errors
/// [`ListError`], naming the first line at fault.
pub fn parse(text: &str) -> Result<Vec<Entry>, ListError> {
    let mut lines = lines(text);
    match lines.next() {
        Some((_, HEADER)) => {}
        Some((line, found)) => {
            return Err(ListError { line, fault: ListFault::Header(shorten(found)) });
        }
        None => return Err(ListError { line: text.lines().count().max(1), fault: ListFault::NoHeader }),
    }
    let mut entries = Vec::new();
    let mut open: Option<Draft> = None;
    for (number, line) in lines {
        let (keyword, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let value = value.trim();
        let step = if keyword == "vkey" {
            entries.extend(open.take().map(Draft::finish));
            Draft::start(number, value).map(|draft| open = Some(draft))
        } else {
            match &mut open {
                Some(draft) => draft.property(keyword, value),
                None => Err(ListFault::NoEntry(shorten(line))),
            }
        };
        step.map_err(|fault| ListError { line: number, fault })?;
    }
    entries.extend(open.map(Draft::finish));
    Ok(entries)
}

/// A hostile line must not fill the operator's screen.
fn shorten(line: &str) -> String {
    line.chars().take(80).collect()
}

struct Draft {
    line: usize,
    key: VerifierKey,
    origin: Option<String>,
    queries_per_day: Option<u64>,
    contact: Option<String>,
}

impl Draft {
    fn start(line: usize, vkey: &str) -> Result<Self, ListFault> {
        if vkey.is_empty() {
            return Err(ListFault::NoValue("vkey"));
        }
        Ok(Self { line, key: vkey.parse()?, origin: None, queries_per_day: None, contact: None })
    }

    fn property(&mut self, keyword: &str, value: &str) -> Result<(), ListFault> {
        match keyword {
            "origin" => set(&mut self.origin, "origin", value, |value| {
                let control = value.chars().any(|c| c < ' ' || c == '\u{7f}');
                if control { Err(ListFault::Origin) } else { Ok(value.to_owned()) }
            }),
            "qpd" => set(&mut self.queries_per_day, "qpd", value, |value| {
                parse_decimal(value)
                    .filter(|count| *count > 0)
                    .ok_or_else(|| ListFault::Quota(shorten(value)))
            }),
            "contact" => set(&mut self.contact, "contact", value, |value| Ok(value.to_owned())),
            _ => Ok(()),
        }
    }

    fn finish(self) -> Entry {
        let origin = self.origin.unwrap_or_else(|| self.key.name().as_str().to_owned());
        Entry {
            line: self.line,
            key: self.key,
            origin,
            queries_per_day: self.queries_per_day,
            contact: self.contact,
        }
    }
}

fn set<T>(
    slot: &mut Option<T>,
    keyword: &'static str,
    value: &str,
    read: impl FnOnce(&str) -> Result<T, ListFault>,
) -> Result<(), ListFault> {
    if value.is_empty() {
        return Err(ListFault::NoValue(keyword));
    }
    if slot.is_some() {
        return Err(ListFault::Repeated(keyword));
    }
    *slot = Some(read(value)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "sigsum.org/v1/tree/f48d4a1d0c6370ec189dc537f648ef3bb347b012fbd3c899a630a4cd2e9b8702+9bc54c7f+AVv6q3xDaHxI2aTemqEb7W6ZcbO7QbTqTr20thOqfqsw";
    const B: &str = "sigsum.org/v1/tree/2ef59132082631d13e353b5ae49b22bc51a9bd59f41a2d570960a9658c1ed151+e2137795+ATp+37IPHc3SbPGzFMyZmPTOUlClk6PYPH+Ce5JiCb/h";

    #[test]
    fn a_list_of_the_witness_network_reads() {
        let text = format!(
            "#\n# List:      10qps-100klogs\n#\nlogs/v0\n\n# a log\nvkey {A}\nqpd 86400\ncontact https://tlog.foo.org/contact\nunknown\nfoo bar\n\nvkey {B}\norigin example.com/foo\nqpd 24\ncontact sysadmin (at) bar.org\n"
        );
        assert!(is_list(&text));
        let entries = parse(&text).unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].origin, A.split_once('+').unwrap().0);
        assert_eq!((entries[0].line, entries[0].queries_per_day), (7, Some(86_400)));
        assert_eq!(entries[1].origin, "example.com/foo");
        assert_eq!(entries[1].contact.as_deref(), Some("sysadmin (at) bar.org"));
        assert_eq!(parse("logs/v0\n"), Ok(Vec::new()));
    }

    #[test]
    fn a_bad_list_is_refused_with_its_line() {
        let cases = [
            ("", 1, ListFault::NoHeader),
            ("# only a comment\n", 1, ListFault::NoHeader),
            ("logs/v1\n", 1, ListFault::Header("logs/v1".into())),
            ("logs/v0\nqpd 5\n", 2, ListFault::NoEntry("qpd 5".into())),
            ("logs/v0\nvkey\n", 2, ListFault::NoValue("vkey")),
            ("logs/v0\n\nvkey nonsense\n", 3, ListFault::Key(KeyError::VkeyShape)),
        ];
        for (text, line, fault) in cases {
            assert_eq!(parse(text), Err(ListError { line, fault }), "{text:?}");
        }
        for quota in ["0", "-1", "+5", "05", "1e3", "18446744073709551616"] {
            let text = format!("logs/v0\nvkey {A}\nqpd {quota}\n");
            assert_eq!(parse(&text), Err(ListError { line: 3, fault: ListFault::Quota(quota.into()) }));
        }
        let twice = format!("logs/v0\nvkey {A}\nqpd 1\nqpd 2\n");
        assert_eq!(parse(&twice).unwrap_err().fault, ListFault::Repeated("qpd"));
    }
}

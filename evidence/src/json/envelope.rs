//! Objects of a known shape: members of known names in one order.

use std::borrow::Cow;

use crate::decimal;

use super::{
    JsonError,
    scanner::{Form, Scanner},
    string::Decode,
};

/// Room for the characters of a string in which some are escaped.
const TEXT_CAPACITY: usize = 512;

/// The members of a compact object, taken one after the other in the one order they may have.
///
/// Member names must be ones that the compact form spells as they are. No two members share a name, as each is
/// asked for once.
pub(crate) struct Envelope<'a> {
    scanner: Scanner<'a>,
}

#[expect(clippy::inline_always, reason = "where a name is known, comparing it is a word or two, and no call")]
impl<'a> Envelope<'a> {
    /// The members of `text`, which [`characters`](super::characters) gives. A scanner is large to hand over, so that
    /// this cannot fail.
    #[inline(always)]
    pub(crate) fn of(text: &'a str) -> Self {
        Self { scanner: Scanner::of(text, Form::Compact) }
    }

    /// The value of the member called `name` if it stands next, else `None` and nothing is passed.
    #[inline(always)]
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<&'a str>, JsonError> {
        if !self.pass_name(name) {
            return Ok(None);
        }
        let start = self.scanner.at;
        self.scanner.value()?;
        Ok(Some(&self.scanner.text[start..self.scanner.at]))
    }

    /// Passes the member called `name` if it stands next and its value is a scalar spelled as `value`. Else `false`,
    /// and nothing is passed.
    #[inline(always)]
    pub(crate) fn pass(&mut self, name: &str, value: &str) -> bool {
        let before = self.scanner.at;
        let passes = self.pass_name(name)
            && self.scanner.bytes[self.scanner.at..]
                .strip_prefix(value.as_bytes())
                .is_some_and(|rest| matches!(rest.first(), Some(b',' | b'}')));
        self.scanner.at = if passes { self.scanner.at + value.len() } else { before };
        passes
    }

    /// The characters of the member called `name` if it stands next and is a string, else `None` and nothing is
    /// passed.
    #[inline(always)]
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<Cow<'a, str>>, JsonError> {
        if !self.pass_string_name(name) {
            return Ok(None);
        }
        if let Some(plain) = self.scanner.plain_string() {
            return Ok(Some(Cow::Borrowed(plain)));
        }
        let capacity = TEXT_CAPACITY.min(self.scanner.bytes.len() - self.scanner.at);
        self.scanner.string(Decode::Yes { capacity }).map(Some)
    }

    /// What stands between the quotes of the member called `name` if it stands next and is a string of `N` bytes,
    /// else `None`. Whether those bytes are characters that stand for themselves is for the caller to see.
    #[inline(always)]
    pub(crate) fn quoted<const N: usize>(&mut self, name: &str) -> Option<&'a [u8; N]> {
        if !self.pass_string_name(name) {
            return None;
        }
        let (quoted, rest) = self.scanner.bytes[self.scanner.at + 1..].split_first_chunk()?;
        self.scanner.at += N + 2;
        (rest.first() == Some(&b'"')).then_some(quoted)
    }

    /// The member called `name` if it stands next and is an integer from 0 to 2^64-1 in plain digits, else `None` and
    /// nothing is passed.
    #[inline(always)]
    pub(crate) fn integer(&mut self, name: &str) -> Option<u64> {
        let before = self.scanner.at;
        if self.pass_name(name) {
            let rest = &self.scanner.text[self.scanner.at..];
            if let Some((integer, rest)) = decimal::split(rest)
                && rest.starts_with([',', '}'])
            {
                self.scanner.at = self.scanner.bytes.len() - rest.len();
                return Some(integer);
            }
        }
        self.scanner.at = before;
        None
    }

    /// Whether the next member may be called `name`: `false` is certain.
    #[inline(always)]
    pub(crate) fn is_next(&self, name: &str) -> bool {
        // The first characters tell nearly all names apart, without a call to compare them.
        self.scanner.bytes.get(self.scanner.at + 2..self.scanner.at + 4) == name.as_bytes().get(..2)
    }

    /// True where nothing follows but the end of the object and of the text.
    pub(crate) fn is_at_end(&self) -> bool {
        self.scanner.bytes[self.scanner.at..] == *b"}"
    }

    /// Appends the characters of the member called `name` if it stands next and is a string; else `false`.
    pub(crate) fn text_into(&mut self, name: &str, out: &mut Vec<u8>) -> Result<bool, JsonError> {
        if !self.pass_string_name(name) {
            return Ok(false);
        }
        self.scanner.string_into(out).map(|()| true)
    }

    #[inline(always)]
    fn pass_string_name(&mut self, name: &str) -> bool {
        let before = self.scanner.at;
        let is_string = self.pass_name(name) && self.scanner.bytes.get(self.scanner.at) == Some(&b'"');
        if !is_string {
            self.scanner.at = before;
        }
        is_string
    }

    #[inline(always)]
    fn pass_name(&mut self, name: &str) -> bool {
        let bracket = if self.scanner.at == 0 { b'{' } else { b',' };
        let value = match &self.scanner.bytes[self.scanner.at..] {
            [first, b'"', rest @ ..] if *first == bracket => rest.strip_prefix(name.as_bytes()),
            _ => None,
        };
        let Some([b'"', b':', value @ ..]) = value else { return false };
        self.scanner.at = self.scanner.bytes.len() - value.len();
        true
    }
}

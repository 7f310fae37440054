//! The scanner that every reader of JSON here is made of.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::{DEPTH_MAX, JsonError, JsonFault, string::Decode};

/// Which texts a scanner lets through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Any JSON; `out` collects the compact form.
    Any,
    /// The compact form alone; `out` stays empty.
    Compact,
}

/// Passes over JSON from front to back.
pub(super) struct Scanner<'a> {
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    /// Offset of the next byte. Always on a character boundary when text is sliced there.
    pub(super) at: usize,
    pub(super) form: Form,
    pub(super) out: String,
    /// The member names of all open objects, outermost first.
    names: SmallVec<[Name; FEW]>,
}

/// The characters of a text of JSON.
#[inline]
pub(crate) fn characters(input: &[u8]) -> Result<&str, JsonError> {
    let text = match std::str::from_utf8(input) {
        Ok(text) => text,
        Err(error) => return Err(JsonError { offset: error.valid_up_to(), fault: JsonFault::Utf8 }),
    };
    if text.starts_with('\u{feff}') {
        return Err(JsonError { offset: 0, fault: JsonFault::ByteOrderMark });
    }
    Ok(text)
}

impl<'a> Scanner<'a> {
    #[inline]
    pub(super) fn open(input: &'a [u8], form: Form) -> Result<Self, JsonError> {
        characters(input).map(|text| Self::of(text, form))
    }

    #[inline]
    pub(super) fn of(text: &'a str, form: Form) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, form, out: String::new(), names: SmallVec::new() }
    }

    /// Passes over one value of any depth up to the limit.
    pub(super) fn value(&mut self) -> Result<(), JsonError> {
        let mut open: SmallVec<[Open; FEW]> = SmallVec::new();
        loop {
            // A value starts here.
            self.space()?;
            match self.bytes.get(self.at) {
                Some(b'{') => {
                    self.enter(open.len())?;
                    if !self.closes(b'}')? {
                        open.push(Open::Object { names_from: self.names.len() });
                        self.pass_name()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.enter(open.len())?;
                    if !self.closes(b']')? {
                        open.push(Open::Array);
                        continue;
                    }
                }
                Some(b'"') => drop(self.string(Decode::No)?),
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.literal("true")?,
                Some(b'f') => self.literal("false")?,
                Some(b'n') => self.literal("null")?,
                _ => return Err(self.unexpected("a value")),
            }
            // A value ends here: so may what holds it.
            loop {
                match open.last_mut() {
                    None => return Ok(()),
                    Some(Open::Array) => {
                        if self.goes_on(b']', "',' or ']'")? {
                            break;
                        }
                    }
                    Some(&mut Open::Object { names_from }) => {
                        if self.goes_on(b'}', "',' or '}'")? {
                            self.pass_name()?;
                            break;
                        }
                        self.leave(names_from)?;
                    }
                }
                open.pop();
            }
        }
    }

    /// Passes over an object, handing each value's start to `take` once the value is passed.
    pub(super) fn members<T>(
        &mut self,
        mut take: impl FnMut(&mut Self, usize) -> T,
    ) -> Result<Vec<(Cow<'a, str>, T)>, JsonError> {
        let mut members = Vec::new();
        self.space()?;
        if self.bytes.get(self.at) != Some(&b'{') {
            return Err(self.error(JsonFault::NotAnObject));
        }
        self.at += 1;
        if self.closes(b'}')? {
            return Ok(members);
        }
        loop {
            let name = self.pass_name()?;
            let name = self.decoded(name);
            self.space()?;
            self.out.clear();
            let start = self.at;
            self.value()?;
            members.push((name, take(self, start)));
            if !self.goes_on(b'}', "',' or '}'")? {
                self.leave(0)?;
                return Ok(members);
            }
        }
    }

    /// Passes over an array, handing each element's start to `take` once the element is passed.
    pub(super) fn elements<T>(
        &mut self,
        mut take: impl FnMut(&mut Self, usize) -> T,
    ) -> Result<Vec<T>, JsonError> {
        let mut elements = Vec::new();
        if self.bytes.get(self.at) != Some(&b'[') {
            return Err(self.unexpected("an array"));
        }
        self.at += 1;
        if self.closes(b']')? {
            return Ok(elements);
        }
        loop {
            let start = self.at;
            self.value()?;
            elements.push(take(self, start));
            if !self.goes_on(b']', "',' or ']'")? {
                return Ok(elements);
            }
        }
    }

    /// Nothing but white space may follow.
    pub(super) fn end(&mut self) -> Result<(), JsonError> {
        self.space()?;
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.error(JsonFault::Trailing)) }
    }

    /// Passes the opening bracket of a container inside `depth` others.
    fn enter(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth >= DEPTH_MAX {
            return Err(self.error(JsonFault::TooDeep));
        }
        self.copy(self.at, self.at + 1);
        self.at += 1;
        Ok(())
    }

    /// Passes `close` if it stands here.
    fn closes(&mut self, close: u8) -> Result<bool, JsonError> {
        self.space()?;
        let closes = self.bytes.get(self.at) == Some(&close);
        if closes {
            self.copy(self.at, self.at + 1);
            self.at += 1;
        }
        Ok(closes)
    }

    /// Passes a comma, which says that more follows, or `close`.
    fn goes_on(&mut self, close: u8, expected: &'static str) -> Result<bool, JsonError> {
        if self.closes(close)? {
            return Ok(false);
        }
        self.expect(b',', expected)?;
        Ok(true)
    }

    /// Passes a member's name and colon.
    fn pass_name(&mut self) -> Result<Name, JsonError> {
        self.space()?;
        let start = self.at;
        if self.bytes.get(start) != Some(&b'"') {
            return Err(self.unexpected("a member name"));
        }
        self.string(Decode::No)?;
        let name = Name { start, end: self.at };
        self.names.push(name);
        self.space()?;
        self.expect(b':', "':'")?;
        Ok(name)
    }

    /// What stands between the quotes of a name.
    fn quoted(&self, name: Name) -> &'a str {
        &self.text[name.start + 1..name.end - 1]
    }

    /// The characters of a name.
    fn decoded(&self, name: Name) -> Cow<'a, str> {
        let quoted = self.quoted(name);
        if !quoted.contains('\\') {
            return Cow::Borrowed(quoted);
        }
        let mut scanner = Self::of(&self.text[name.start..name.end], Form::Any);
        scanner.string(Decode::Yes { capacity: quoted.len() }).expect("the string was passed before")
    }

    /// Leaves an object: its names must differ. Of several repetitions the first is named.
    fn leave(&mut self, names_from: usize) -> Result<(), JsonError> {
        let names = &self.names[names_from..];
        // The compact form has one spelling for each name. Most objects have few names: comparing each pair is cheaper
        // than sorting, and finds as much.
        let few = self.form == Form::Compact
            && names.len() <= PAIRED_MAX
            && (1..names.len())
                .all(|at| names[..at].iter().all(|name| self.quoted(*name) != self.quoted(names[at])));
        if !few {
            let mut names: Vec<_> = names.iter().map(|name| (self.decoded(*name), name.start)).collect();
            names.sort_unstable();
            let repeated = names.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| &pair[1]);
            if let Some((name, offset)) = repeated.min_by_key(|(_, offset)| *offset) {
                let fault = JsonFault::DuplicateMember { name: name.clone().into_owned() };
                return Err(JsonError { offset: *offset, fault });
            }
        }
        self.names.truncate(names_from);
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        self.copy(start, self.at);
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(self.unexpected("a digit"));
        }
        self.at += count;
        Ok(())
    }

    fn literal(&mut self, word: &'static str) -> Result<(), JsonError> {
        for byte in word.bytes() {
            if self.bytes.get(self.at) != Some(&byte) {
                return Err(self.unexpected(word));
            }
            self.at += 1;
        }
        self.copy(self.at - word.len(), self.at);
        Ok(())
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), JsonError> {
        if self.bytes.get(self.at) != Some(&byte) {
            return Err(self.unexpected(expected));
        }
        self.copy(self.at, self.at + 1);
        self.at += 1;
        Ok(())
    }

    /// Passes white space, of which the compact form has none.
    fn space(&mut self) -> Result<(), JsonError> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            if self.form == Form::Compact {
                return Err(self.error(JsonFault::NotCompact));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Copies input that is compact as it stands.
    pub(super) fn copy(&mut self, from: usize, to: usize) {
        if self.form == Form::Any {
            self.out.push_str(&self.text[from..to]);
        }
    }

    pub(super) fn error(&self, fault: JsonFault) -> JsonError {
        JsonError { offset: self.at, fault }
    }

    pub(super) fn unexpected(&self, expected: &'static str) -> JsonError {
        // Scanning stops between characters only: every byte passed so far was ASCII or a whole string.
        self.error(match self.text[self.at..].chars().next() {
            Some(found) => JsonFault::Unexpected { expected, found },
            None => JsonFault::End { expected },
        })
    }
}

/// Most payloads have no more open objects and arrays at once, and no more member names: these need no memory of
/// their own.
const FEW: usize = 4;

/// Member names of one object that are compared pair by pair.
const PAIRED_MAX: usize = 8;

/// From where to where a member's name stands, quotes included.
#[derive(Clone, Copy)]
pub(super) struct Name {
    start: usize,
    end: usize,
}

/// An array or object that has been entered and not left.
#[derive(Clone, Copy)]
enum Open {
    Array,
    /// Its names are those in [`Scanner::names`] from this index on.
    Object {
        names_from: usize,
    },
}

//! Lossless JSON: a strict reader (RFC 8259) that keeps everything an author wrote but insignificant white
//! space and the choice of escapes.
//!
//! In the *compact form* there is no white space between tokens, members keep their order and numbers their
//! digits, and a string escapes only `"`, `\` and the control characters below U+0020 (`\b`, `\t`, `\n`,
//! `\f`, `\r`, else `\u00xx` in lower case); every other character stands for itself in UTF-8. Compacting is
//! idempotent, so a compact text can be checked byte for byte ([`is_compact`]).
//!
//! What another reader could understand differently is refused: duplicate member names at any depth
//! (compared after unescaping), lone surrogates, invalid UTF-8, a byte order mark, anything after the value,
//! and arrays and objects nested more than [`DEPTH_MAX`] deep. The reader is iterative; its stack is bounded
//! by that depth and its work by the length of the input, times a logarithm for member names.

use std::{borrow::Cow, collections::BTreeSet, fmt};

/// Deepest nesting of arrays and objects in a value. `[[1]]` is nested two deep, `1` not at all.
pub const DEPTH_MAX: usize = 128;

/// Why a text is not the JSON it was to be, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault} at byte {offset}")]
pub struct JsonError {
    /// Offset of the offending byte from the start of the text, from 0.
    pub offset: usize,
    /// What is wrong there.
    pub fault: JsonFault,
}

/// What is wrong with a JSON text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonFault {
    /// The bytes are not UTF-8.
    #[error("invalid UTF-8")]
    Utf8,
    /// The text starts with U+FEFF.
    #[error("a byte order mark")]
    ByteOrderMark,
    /// The text ends inside a value.
    #[error("the text ends where {expected} should follow")]
    End {
        /// What should have followed.
        expected: &'static str,
    },
    /// A character that cannot stand here.
    #[error("found {found:?} where {expected} should stand")]
    Unexpected {
        /// What should stand here.
        expected: &'static str,
        /// What does.
        found: char,
    },
    /// A control character below U+0020 stands unescaped in a string.
    #[error("an unescaped control character in a string")]
    Control,
    /// A `\u` escape names half of a surrogate pair without the other half.
    #[error("a lone surrogate")]
    LoneSurrogate,
    /// An object names a member twice.
    #[error("member {name:?} occurs twice in one object")]
    DuplicateMember {
        /// The name, unescaped.
        name: String,
    },
    /// Arrays and objects are nested more than [`DEPTH_MAX`] deep.
    #[error("arrays and objects are nested more than {DEPTH_MAX} deep")]
    TooDeep,
    /// Something follows the value.
    #[error("something follows the value")]
    Trailing,
    /// The value is an object elsewhere, but must be one here.
    #[error("the value is not an object")]
    NotAnObject,
    /// White space or an escape that the compact form does not have; only where that form is demanded.
    #[error("not the compact form")]
    NotCompact,
}

/// One JSON value in compact form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Json(String);

impl Json {
    /// Reads one JSON value and compacts it.
    pub fn parse(input: &[u8]) -> Result<Self, JsonError> {
        let mut scanner = Scanner::open(input, Form::Any)?;
        scanner.value()?;
        scanner.end()?;
        Ok(Self(scanner.out))
    }

    /// The JSON string that spells `text`.
    pub fn string(text: &str) -> Self {
        let mut out = String::with_capacity(text.len() + 2);
        push_string(&mut out, text);
        Self(out)
    }

    /// The compact text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The compact text, without a copy.
    pub fn into_string(self) -> String {
        self.0
    }

    /// The members in order, or `None` where the value is not an object.
    pub fn object(&self) -> Option<Object> {
        Object::parse(self.0.as_bytes()).ok()
    }

    /// The elements in order, or `None` where the value is not an array.
    pub fn elements(&self) -> Option<Vec<Self>> {
        let mut scanner = Scanner::open(self.0.as_bytes(), Form::Compact).ok()?;
        scanner.elements(|scanner, start| Self(scanner.text[start..scanner.at].to_owned())).ok()
    }

    /// The characters of a JSON string, or `None` where the value is not a string.
    pub fn text(&self) -> Option<String> {
        text_of(&self.0).map(Cow::into_owned)
    }

    /// True for `null`.
    pub fn is_null(&self) -> bool {
        self.0 == "null"
    }

    /// A value known to be compact: a slice that [`Scanner`] passed over in [`Form::Compact`].
    pub(crate) fn from_compact(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The members of one JSON object in order, each value compact and nested up to [`DEPTH_MAX`] deep by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Object {
    /// Names (unescaped) and values.
    pub members: Vec<(String, Json)>,
}

impl Object {
    /// Reads one JSON object.
    pub fn parse(input: &[u8]) -> Result<Self, JsonError> {
        let mut scanner = Scanner::open(input, Form::Any)?;
        let members = scanner.members(|scanner, _| Json(std::mem::take(&mut scanner.out)))?;
        scanner.end()?;
        Ok(Self { members: members.into_iter().map(|(name, value)| (name.into_owned(), value)).collect() })
    }

    /// The value of the member called `name`.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
    }

    /// Takes the member called `name` out, leaving the others in order.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        let index = self.members.iter().position(|(member, _)| member == name)?;
        Some(self.members.remove(index).1)
    }

    /// The object as one value. Refused where two members share a name or the whole is nested too deep; the
    /// error's offset counts in the text that would have been made.
    pub fn to_json(&self) -> Result<Json, JsonError> {
        let mut text = String::with_capacity(
            2 + self.members.iter().map(|(n, v)| n.len() + v.0.len() + 4).sum::<usize>(),
        );
        text.push('{');
        for (index, (name, value)) in self.members.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            push_string(&mut text, name);
            text.push(':');
            text.push_str(&value.0);
        }
        text.push('}');
        check_compact(text.as_bytes())?;
        Ok(Json(text))
    }
}

/// True where `bytes` are one JSON value in compact form.
pub fn is_compact(bytes: &[u8]) -> bool {
    check_compact(bytes).is_ok()
}

/// Says where `bytes` stop being one JSON value in compact form.
pub fn check_compact(bytes: &[u8]) -> Result<(), JsonError> {
    let mut scanner = Scanner::open(bytes, Form::Compact)?;
    scanner.value()?;
    scanner.end()
}

/// The members of an object in compact form: names unescaped, values as slices of the input.
pub(crate) fn compact_members(bytes: &[u8]) -> Result<Vec<(Cow<'_, str>, &str)>, JsonError> {
    let mut scanner = Scanner::open(bytes, Form::Compact)?;
    let members = scanner.members(|scanner, start| &scanner.text[start..scanner.at])?;
    scanner.end()?;
    Ok(members)
}

/// The characters of a compact JSON string, or `None` where the text is not one.
pub(crate) fn text_of(compact: &str) -> Option<Cow<'_, str>> {
    if !compact.starts_with('"') {
        return None;
    }
    let mut scanner = Scanner::open(compact.as_bytes(), Form::Compact).ok()?;
    let text = scanner.string(Decode::Yes).ok()?;
    scanner.end().ok()?;
    Some(text)
}

/// Appends `text` as a JSON string.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    loop {
        let plain = plain_length(rest.as_bytes());
        out.push_str(&rest[..plain]);
        let Some(special) = rest[plain..].chars().next() else { break };
        out.push_str(spelling(special, &mut [0; 6]));
        // Special characters are ASCII: one byte.
        rest = &rest[plain + 1..];
    }
    out.push('"');
}

/// Which texts a scanner lets through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Any JSON; `out` collects the compact form.
    Any,
    /// The compact form alone; `out` stays empty.
    Compact,
}

/// Whether a string's characters are wanted, or only that it is one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decode {
    Yes,
    No,
}

/// An array or object that has been entered and not left.
enum Open<'a> {
    Array,
    Object(BTreeSet<Cow<'a, str>>),
}

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    /// Offset of the next byte. Always on a character boundary when text is sliced there.
    at: usize,
    form: Form,
    out: String,
}

impl<'a> Scanner<'a> {
    fn open(input: &'a [u8], form: Form) -> Result<Self, JsonError> {
        let text = match std::str::from_utf8(input) {
            Ok(text) => text,
            Err(error) => return Err(JsonError { offset: error.valid_up_to(), fault: JsonFault::Utf8 }),
        };
        if text.starts_with('\u{feff}') {
            return Err(JsonError { offset: 0, fault: JsonFault::ByteOrderMark });
        }
        Ok(Self { text, bytes: input, at: 0, form, out: String::new() })
    }

    /// Passes over one value of any depth up to the limit.
    fn value(&mut self) -> Result<(), JsonError> {
        let mut open: Vec<Open<'a>> = Vec::new();
        loop {
            // A value starts here.
            self.space()?;
            match self.bytes.get(self.at) {
                Some(b'{') => {
                    self.enter(open.len())?;
                    if !self.closes(b'}')? {
                        let mut names = BTreeSet::new();
                        self.name(&mut names)?;
                        open.push(Open::Object(names));
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
                    Some(Open::Object(names)) => {
                        if self.goes_on(b'}', "',' or '}'")? {
                            self.name(names)?;
                            break;
                        }
                    }
                }
                open.pop();
            }
        }
    }

    /// Passes over an object, handing each value's start to `take` once the value is passed.
    fn members<T>(
        &mut self,
        mut take: impl FnMut(&mut Self, usize) -> T,
    ) -> Result<Vec<(Cow<'a, str>, T)>, JsonError> {
        let mut members = Vec::new();
        let mut names = BTreeSet::new();
        self.space()?;
        if self.bytes.get(self.at) != Some(&b'{') {
            return Err(self.error(JsonFault::NotAnObject));
        }
        self.at += 1;
        if self.closes(b'}')? {
            return Ok(members);
        }
        loop {
            let name = self.name(&mut names)?;
            self.space()?;
            self.out.clear();
            let start = self.at;
            self.value()?;
            members.push((name, take(self, start)));
            if !self.goes_on(b'}', "',' or '}'")? {
                return Ok(members);
            }
        }
    }

    /// Passes over an array, handing each element's start to `take` once the element is passed.
    fn elements<T>(&mut self, mut take: impl FnMut(&mut Self, usize) -> T) -> Result<Vec<T>, JsonError> {
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
    fn end(&mut self) -> Result<(), JsonError> {
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

    /// Passes a member's name and colon. The name must be new to `names`.
    fn name(&mut self, names: &mut BTreeSet<Cow<'a, str>>) -> Result<Cow<'a, str>, JsonError> {
        self.space()?;
        let start = self.at;
        if self.bytes.get(start) != Some(&b'"') {
            return Err(self.unexpected("a member name"));
        }
        let name = self.string(Decode::Yes)?;
        if !names.insert(name.clone()) {
            let fault = JsonFault::DuplicateMember { name: name.into_owned() };
            return Err(JsonError { offset: start, fault });
        }
        self.space()?;
        self.expect(b':', "':'")?;
        Ok(name)
    }

    /// Passes the string that starts here. Its characters where `decode` asks for them, else anything.
    fn string(&mut self, decode: Decode) -> Result<Cow<'a, str>, JsonError> {
        let start = self.at;
        let mut plain_from = start;
        self.at += 1;
        let mut decoded: Option<String> = None;
        loop {
            self.at += plain_length(&self.bytes[self.at..]);
            match self.bytes.get(self.at) {
                None => return Err(self.error(JsonFault::End { expected: "'\"'" })),
                Some(b'"') => {
                    self.at += 1;
                    self.copy(plain_from, self.at);
                    return Ok(match decoded {
                        Some(mut text) => {
                            text.push_str(&self.text[plain_from..self.at - 1]);
                            Cow::Owned(text)
                        }
                        None => Cow::Borrowed(&self.text[start + 1..self.at - 1]),
                    });
                }
                Some(b'\\') => {
                    let escape_from = self.at;
                    self.copy(plain_from, escape_from);
                    let escaped = self.escape()?;
                    let mut buffer = [0; 6];
                    let compact = spelling(escaped, &mut buffer);
                    match self.form {
                        Form::Any => self.out.push_str(compact),
                        Form::Compact if compact == &self.text[escape_from..self.at] => {}
                        Form::Compact => {
                            return Err(JsonError { offset: escape_from, fault: JsonFault::NotCompact });
                        }
                    }
                    if decode == Decode::Yes {
                        // The first plain stretch includes the opening quote.
                        let from = plain_from.max(start + 1);
                        let text = decoded.get_or_insert_default();
                        text.push_str(&self.text[from..escape_from]);
                        text.push(escaped);
                    }
                    plain_from = self.at;
                }
                Some(_) => return Err(self.error(JsonFault::Control)),
            }
        }
    }

    /// Passes one escape, joining a surrogate pair.
    fn escape(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        self.at += 1;
        let simple = match self.bytes.get(self.at) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let unit = self.hex4()?;
                return self.scalar(start, unit);
            }
            _ => return Err(self.unexpected("an escape")),
        };
        self.at += 1;
        Ok(simple)
    }

    /// The character of a UTF-16 `unit` whose escape began at `start`, reading the pair's other half.
    fn scalar(&mut self, start: usize, unit: u32) -> Result<char, JsonError> {
        let lone = JsonError { offset: start, fault: JsonFault::LoneSurrogate };
        let mut scalar = unit;
        if (0xd800..0xdc00).contains(&unit) {
            if !self.bytes[self.at..].starts_with(b"\\u") {
                return Err(lone);
            }
            self.at += 2;
            let low = self.hex4()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(lone);
            }
            scalar = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        }
        // Only a low surrogate without its high half is left to fail.
        char::from_u32(scalar).ok_or(lone)
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.bytes.get(self.at).and_then(|&byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else { return Err(self.unexpected("a hexadecimal digit")) };
            unit = unit << 4 | digit;
            self.at += 1;
        }
        Ok(unit)
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
    fn copy(&mut self, from: usize, to: usize) {
        if self.form == Form::Any {
            self.out.push_str(&self.text[from..to]);
        }
    }

    fn error(&self, fault: JsonFault) -> JsonError {
        JsonError { offset: self.at, fault }
    }

    fn unexpected(&self, expected: &'static str) -> JsonError {
        // Scanning stops between characters only: every byte passed so far was ASCII or a whole string.
        self.error(match self.text[self.at..].chars().next() {
            Some(found) => JsonFault::Unexpected { expected, found },
            None => JsonFault::End { expected },
        })
    }
}

/// Length of the longest prefix without `"`, `\` and control characters below U+0020.
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // Marks a byte that is zero; bits above the first such byte may be wrong, the lowest is not.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let mut at = 0;
    while let Some(&chunk) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let special = control | zero(word ^ (ONES * 0x22)) | zero(word ^ (ONES * 0x5c));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + bytes[at..].iter().take_while(|&&byte| byte >= 0x20 && byte != b'"' && byte != b'\\').count()
}

/// How the compact form spells a character inside a string.
fn spelling(c: char, buffer: &mut [u8; 6]) -> &str {
    match c {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{8}' => "\\b",
        '\t' => "\\t",
        '\n' => "\\n",
        '\u{c}' => "\\f",
        '\r' => "\\r",
        '\0'..='\u{1f}' => {
            let hex = |digit: u32| char::from_digit(digit, 16).map_or(b'0', |c| c as u8);
            *buffer = [b'\\', b'u', b'0', b'0', hex(c as u32 >> 4), hex(c as u32 & 15)];
            std::str::from_utf8(buffer).expect("the six bytes are ASCII")
        }
        _ => c.encode_utf8(&mut buffer[..4]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compact(input: &str) -> String {
        Json::parse(input.as_bytes()).unwrap().into_string()
    }

    fn fault(input: impl AsRef<[u8]>) -> JsonFault {
        Json::parse(input.as_ref()).unwrap_err().fault
    }

    #[test]
    fn keeps_order_and_digits_and_drops_white_space() {
        for (input, expected) in [
            (
                " { \"b\" : 1.0 , \"a\" : [ 1e-7 ,\t-0 , 12345678901234567890 ] }\r\n",
                "{\"b\":1.0,\"a\":[1e-7,-0,12345678901234567890]}",
            ),
            ("1.2345678901234568e20", "1.2345678901234568e20"),
            ("1E+2", "1E+2"),
            ("9007199254740993", "9007199254740993"),
            ("[ ]", "[]"),
            ("{ }", "{}"),
            ("[null,true,false]", "[null,true,false]"),
            ("{\"a\":{\"a\":1},\"b\":{\"a\":2}}", "{\"a\":{\"a\":1},\"b\":{\"a\":2}}"),
        ] {
            assert_eq!(compact(input), expected, "{input}");
        }
    }

    #[test]
    fn strings_escape_only_what_they_must() {
        for (input, expected) in [
            (r#""\/""#, r#""/""#),
            (r#""\u0041\u00e9\u2028""#, "\"Aé\u{2028}\""),
            (r#""\ud83d\ude00""#, "\"😀\""),
            (r#""\u0022\u005c\u002f""#, r#""\"\\/""#),
            (r#""\u0000\u0008\u0009\u000A\u000b\u000C\u000d\u001F""#, r#""\u0000\b\t\n\u000b\f\r\u001f""#),
            ("\"\u{7f}\\u007f\"", "\"\u{7f}\u{7f}\""),
            ("\"e\u{301}\"", "\"e\u{301}\""),
            (r#"{"\u0061":1}"#, r#"{"a":1}"#),
        ] {
            assert_eq!(compact(input), expected, "{input}");
            assert!(is_compact(expected.as_bytes()), "{expected}");
        }
    }

    #[test]
    fn refuses_duplicate_members_at_any_depth_after_unescaping() {
        for input in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"[{"x":{"é":1,"b":2,"\u00e9":3}}]"#,
            r#"{"\ud83d\ude00":1,"😀":2}"#,
        ] {
            assert!(matches!(fault(input), JsonFault::DuplicateMember { .. }), "{input}");
        }
        let error = Json::parse(br#"{"a":1,"b":2,"a":3}"#).unwrap_err();
        assert_eq!(
            error,
            JsonError { offset: 13, fault: JsonFault::DuplicateMember { name: "a".to_owned() } }
        );
        assert_eq!(error.to_string(), "member \"a\" occurs twice in one object at byte 13");
    }

    #[test]
    fn refuses_text_that_readers_disagree_about() {
        assert_eq!(fault(b"\xef\xbb\xbf{}"), JsonFault::ByteOrderMark);
        assert_eq!(Json::parse(b"\"a\xff\"").unwrap_err(), JsonError { offset: 2, fault: JsonFault::Utf8 });
        assert_eq!(fault(b"\"\xed\xa0\x80\""), JsonFault::Utf8);
        for lone in [
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud800\ud800""#,
            r#""\ud800x""#,
            r#""\ud800\n""#,
            r#""\udc00\ud800""#,
        ] {
            assert_eq!(fault(lone), JsonFault::LoneSurrogate, "{lone}");
        }
        for trailing in ["1 2", "{}{}", "[]]", "nullx", "01", "0x1", "1a", "\"\"\"\""] {
            assert_eq!(fault(trailing), JsonFault::Trailing, "{trailing}");
        }
        for control in ["\"\n\"", "\"\0\"", "\"abcdefghij\u{1f}\"", "\"\t\""] {
            assert_eq!(fault(control), JsonFault::Control, "{control:?}");
        }
    }

    #[test]
    fn refuses_what_the_grammar_does_not_have() {
        for input in [
            "+1",
            "-",
            "-a",
            "1.",
            ".5",
            "1.e1",
            "1e",
            "1e+",
            "NaN",
            "Infinity",
            "-Infinity",
            "'a'",
            "{a:1}",
            "{\"a\"}",
            "{\"a\" 1}",
            "{\"a\":}",
            "{\"a\":1,}",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{,}",
            "\"\\x\"",
            "\"\\u12g4\"",
            "tru",
            "TRUE",
            "nul",
            "",
            " ",
            "[",
            "{",
            "\"",
            "\"\\",
            "\"\\u",
            "\"\\ud800\\u",
            "{\"a\":1",
            "[1",
            "]",
            "/**/1",
            "\u{a0}1",
            "\u{2028}1",
            "\x0b1",
            "é",
        ] {
            assert!(
                matches!(fault(input), JsonFault::Unexpected { .. } | JsonFault::End { .. }),
                "{input:?}: {:?}",
                fault(input)
            );
        }
        assert_eq!(
            Json::parse("[1,é]".as_bytes()).unwrap_err(),
            JsonError { offset: 3, fault: JsonFault::Unexpected { expected: "a value", found: 'é' } }
        );
    }

    #[test]
    fn nesting_is_bounded_at_128() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(nested(128).as_bytes()).is_ok());
        assert_eq!(
            Json::parse(nested(129).as_bytes()).unwrap_err(),
            JsonError { offset: 128, fault: JsonFault::TooDeep }
        );
        let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        assert!(is_compact(objects(128).as_bytes()));
        assert_eq!(fault(objects(129)), JsonFault::TooDeep);
        assert_eq!(fault("[".repeat(1 << 20)), JsonFault::TooDeep);
        // Siblings do not add up.
        assert!(Json::parse(format!("[{}]", vec![nested(127); 10].join(",")).as_bytes()).is_ok());
        // The members of an object are bounded one by one.
        let members = Object::parse(format!("{{\"a\":{}}}", nested(128)).as_bytes()).unwrap();
        assert_eq!(members.to_json().unwrap_err().fault, JsonFault::TooDeep);
    }

    #[test]
    fn many_members_take_no_quadratic_time() {
        let members: Vec<String> = (0..200_000).map(|index| format!("\"member-{index}\":0")).collect();
        let text = format!("{{{}}}", members.join(","));
        let started = std::time::Instant::now();
        assert_eq!(compact(&text), text);
        // Comparing every pair of names takes minutes.
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    }

    #[test]
    fn an_object_gives_its_members_in_order() {
        let mut object = Object::parse(br#" {"kind": "Note", "z\n": [1, 2], "a": {"x": null}} "#).unwrap();
        let names: Vec<&str> = object.members.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["kind", "z\n", "a"]);
        assert_eq!(object.get("kind").unwrap().text().unwrap(), "Note");
        assert_eq!(object.get("z\n").unwrap().as_str(), "[1,2]");
        assert_eq!(object.get("missing"), None);
        assert_eq!(object.remove("z\n").unwrap().elements().unwrap()[1].as_str(), "2");
        assert_eq!(object.to_json().unwrap().as_str(), r#"{"kind":"Note","a":{"x":null}}"#);
        object.members.push(("a".to_owned(), Json::string("again")));
        assert!(matches!(object.to_json().unwrap_err().fault, JsonFault::DuplicateMember { .. }));
        assert_eq!(Object::parse(b"[]").unwrap_err().fault, JsonFault::NotAnObject);
        assert_eq!(Object::parse(b"{} x").unwrap_err().fault, JsonFault::Trailing);
    }

    #[test]
    fn the_compact_form_has_one_spelling() {
        for other in [
            " 1",
            "1 ",
            "[1, 2]",
            r#""\/""#,
            r#""\u0041""#,
            r#""\u000a""#,
            r#""\u001F""#,
            r#"{"a": 1}"#,
            "[1,2]\n",
        ] {
            assert!(Json::parse(other.as_bytes()).is_ok(), "{other}");
            assert_eq!(check_compact(other.as_bytes()).unwrap_err().fault, JsonFault::NotCompact, "{other}");
        }
    }

    #[test]
    fn values_tell_what_they_are() {
        let value = Json::parse(br#"["a\u0001\"\\b", 1, {}]"#).unwrap();
        let elements = value.elements().unwrap();
        assert_eq!(elements[0].text().unwrap(), "a\u{1}\"\\b");
        assert_eq!(elements[1].text(), None);
        assert_eq!(elements[1].elements(), None);
        assert_eq!(elements[2].object().unwrap(), Object::default());
        assert_eq!(value.object(), None);
        assert_eq!(Json::parse(b"[]").unwrap().elements().unwrap(), []);
        assert!(Json::parse(b" null").unwrap().is_null());
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(6, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
                prop::collection::btree_map(any::<String>(), inner, 0..8)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn compacting_keeps_the_value_and_is_idempotent(value in any_json()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let once = compact(&pretty);
            let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            prop_assert_eq!(read(&once), read(&pretty));
            prop_assert_eq!(&compact(&once), &once);
            prop_assert!(is_compact(once.as_bytes()));
            prop_assert_eq!(is_compact(pretty.as_bytes()), pretty == once);
        }

        #[test]
        fn strings_survive(text in any::<String>()) {
            let json = Json::string(&text);
            prop_assert_eq!(json.text().unwrap(), text.clone());
            prop_assert_eq!(serde_json::from_str::<String>(json.as_str()).unwrap(), text);
            prop_assert!(is_compact(json.as_str().as_bytes()));
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Json::parse(&bytes);
            let _ = Object::parse(&bytes);
            let _ = check_compact(&bytes);
        }

        #[test]
        fn nearly_json_never_panics_and_agrees_with_serde(text in "[\\[\\]{}:,\"\\\\untrfalse0-9eE.+\\- é😀\u{1}]{0,24}") {
            let ours = Json::parse(text.as_bytes());
            if let Ok(json) = &ours {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok() || json.as_str().contains(['e', 'E']));
                prop_assert_eq!(&Json::parse(json.as_str().as_bytes()).unwrap(), json);
            } else if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
                let duplicate = matches!(ours.unwrap_err().fault, JsonFault::DuplicateMember { .. });
                prop_assert!(duplicate, "{text}");
            }
        }

        #[test]
        fn the_fast_string_scan_equals_the_slow_one(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let slow = bytes.iter().position(|&b| b < 0x20 || b == b'"' || b == b'\\').unwrap_or(bytes.len());
            prop_assert_eq!(plain_length(&bytes), slow);
        }
    }
}

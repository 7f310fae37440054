//! Strings: which characters stand for themselves, and how the others are spelled.

use std::borrow::Cow;

use super::{
    JsonError, JsonFault,
    scanner::{Form, Scanner},
};

/// Whether a string's characters are wanted, or only that it is one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Decode {
    /// Into a string that starts with this capacity, where there are escapes.
    Yes {
        capacity: usize,
    },
    No,
}

/// Why decoding ended where it did.
enum Stopped {
    /// The string did.
    Closed,
    /// There is no room for what may come next.
    Full,
}

impl<'a> Scanner<'a> {
    /// Passes the string that starts here, in a compact text, where it has no escapes; else nothing is passed.
    #[inline]
    pub(super) fn plain_string(&mut self) -> Option<&'a str> {
        debug_assert!(self.form == Form::Compact);
        let start = self.at + 1;
        let end = start + plain_length(&self.bytes[start..]);
        if self.bytes.get(end) != Some(&b'"') {
            return None;
        }
        self.at = end + 1;
        Some(&self.text[start..end])
    }

    /// Passes the string that starts here. Gives its characters where `decode` asks for them, else anything.
    pub(super) fn string(&mut self, decode: Decode) -> Result<Cow<'a, str>, JsonError> {
        let start = self.at;
        // From where characters are still to be copied and decoded. The first copy includes the quote.
        let (mut copy_from, mut decode_from) = (start, start + 1);
        let mut decoded: Option<String> = None;
        self.at += 1;
        loop {
            self.at += match decode {
                Decode::Yes { .. } => plain_length(&self.bytes[self.at..]),
                Decode::No => passable_length(&self.bytes[self.at..]),
            };
            let special_at = self.at;
            match self.bytes.get(special_at) {
                None => return Err(self.error(JsonFault::End { expected: "'\"'" })),
                Some(b'"') => break,
                Some(b'\\') => {}
                Some(_) => return Err(self.error(JsonFault::Control)),
            }
            let escaped = match self.bytes.get(special_at + 1).copied().and_then(short_escape) {
                // Spelled as the compact form spells it.
                Some(escaped) => {
                    self.at += 2;
                    escaped
                }
                None => self.long_escape(&mut copy_from)?,
            };
            if let Decode::Yes { capacity } = decode {
                let text = decoded.get_or_insert_with(|| String::with_capacity(capacity));
                text.push_str(&self.text[decode_from..special_at]);
                text.push(escaped);
                decode_from = self.at;
            }
        }
        let tail = &self.text[decode_from..self.at];
        self.at += 1;
        self.copy(copy_from, self.at);
        Ok(match decoded {
            Some(text) => Cow::Owned(text + tail),
            None => Cow::Borrowed(tail),
        })
    }

    /// Passes the string that starts here, in a compact text, and appends its characters to `out`.
    ///
    /// The same as [`Self::string`] for a caller that reads many strings: one pass, into memory it has. On an error
    /// `out` is as before.
    pub(super) fn string_into(&mut self, out: &mut Vec<u8>) -> Result<(), JsonError> {
        debug_assert!(self.form == Form::Compact);
        let start = out.len();
        self.at += 1;
        // No character is spelled shorter than it is: this is all that may come.
        out.reserve(self.bytes.len() - self.at);
        loop {
            let (end, left) = (out.len(), self.bytes.len() - self.at);
            // Piece by piece, so that the zeros are written over while they are still close.
            out.resize(end + left.min(PIECE), 0);
            let (decoded, stopped) = self.decode(&mut out[end..]);
            out.truncate(end + decoded);
            match stopped {
                Ok(Stopped::Closed) => return Ok(()),
                Ok(Stopped::Full) => {}
                Err(error) => {
                    out.truncate(start);
                    return Err(error);
                }
            }
        }
    }

    /// Decodes on into `room`, which is as long as [`PIECE`] or as what is left of the text. How many bytes that
    /// gave, and why it ended there.
    fn decode(&mut self, room: &mut [u8]) -> (usize, Result<Stopped, JsonError>) {
        let bytes = self.bytes;
        let (mut at, mut end) = (self.at, 0);
        loop {
            let mut windows = 0;
            while let (Some(text), Some(to)) =
                (bytes[at..].first_chunk(), room[end..].first_chunk_mut::<{ 2 * WINDOW }>())
            {
                let (read, written) = decode_window(text, to);
                (at, end) = (at + read, end + written);
                if read < WINDOW {
                    break;
                }
                windows = if read == written { windows + 1 } else { 0 };
                if windows == WINDOWS_BEFORE_STRETCHES {
                    let fitting = (room.len() - end).min(bytes.len() - at);
                    let more = plain_stretches(&bytes[at..at + fitting]);
                    room[end..end + more].copy_from_slice(&bytes[at..at + more]);
                    (at, end) = (at + more, end + more);
                    windows = 0;
                }
            }
            let rest = &bytes[at..];
            if (1..2 * WINDOW).contains(&rest.len()) && rest.len() <= room.len() - end {
                // What is not there reads as control characters, which nothing decodes.
                let (mut text, mut to) = ([0; 2 * WINDOW], [0; 2 * WINDOW]);
                text[..rest.len()].copy_from_slice(rest);
                let (read, written) = decode_window(&text, &mut to);
                room[end..end + written].copy_from_slice(&to[..written]);
                (at, end) = (at + read, end + written);
                if read >= WINDOW {
                    continue;
                }
            }
            self.at = at;
            if room.len() - end < (2 * WINDOW).min(bytes.len() - at) {
                return (end, Ok(Stopped::Full));
            }
            match bytes.get(at) {
                None => return (end, Err(self.error(JsonFault::End { expected: "'\"'" }))),
                Some(b'"') => {
                    self.at += 1;
                    return (end, Ok(Stopped::Closed));
                }
                Some(b'\\') => match bytes.get(at + 1).map(|second| SHORT[usize::from(*second)]) {
                    Some(escaped) if escaped != 0 => {
                        room[end] = escaped;
                        (at, end) = (at + 2, end + 1);
                    }
                    _ => match self.long_escape(&mut 0) {
                        Ok(escaped) => {
                            end += escaped.encode_utf8(&mut room[end..]).len();
                            at = self.at;
                        }
                        Err(error) => return (end, Err(error)),
                    },
                },
                // Whatever is plain was decoded above.
                Some(_) => return (end, Err(self.error(JsonFault::Control))),
            }
        }
    }

    /// Passes an escape that the compact form may spell otherwise. If it does, that spelling is copied, after
    /// what was still to be copied from `copy_from` on.
    fn long_escape(&mut self, copy_from: &mut usize) -> Result<char, JsonError> {
        let start = self.at;
        let escaped = self.escape()?;
        let mut buffer = [0; 6];
        let compact = spelling(escaped, &mut buffer);
        if compact != &self.text[start..self.at] {
            if self.form == Form::Compact {
                return Err(JsonError { offset: start, fault: JsonFault::NotCompact });
            }
            self.copy(*copy_from, start);
            self.out.push_str(compact);
            *copy_from = self.at;
        }
        Ok(escaped)
    }

    /// Passes `\/` or `\uXXXX`, joining a surrogate pair.
    fn escape(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        self.at += 1;
        match self.bytes.get(self.at) {
            Some(b'/') => {
                self.at += 1;
                Ok('/')
            }
            Some(b'u') => {
                self.at += 1;
                let unit = self.hex4()?;
                self.scalar(start, unit)
            }
            _ => Err(self.unexpected("an escape")),
        }
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
}

/// The characters of a string, or `None` where `compact`, a compact value, is not one.
pub(crate) fn text_of(compact: &str) -> Option<Cow<'_, str>> {
    let inner = compact.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    let mut scanner = Scanner::open(compact.as_bytes(), Form::Compact).ok()?;
    scanner.string(Decode::Yes { capacity: inner.len() }).ok()
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

/// Length of the longest prefix without `"`, `\` and control characters below U+0020.
pub(crate) fn plain_length(bytes: &[u8]) -> usize {
    let (mut at, mut words) = (0, 0);
    while let Some(&chunk) = bytes[at..].first_chunk::<WORD>() {
        let plain = plain_in_word(chunk);
        at += plain;
        if plain < WORD {
            return at;
        }
        words += 1;
        if words == WORDS_BEFORE_STRETCHES {
            at += plain_stretches(&bytes[at..]);
            words = 0;
        }
    }
    match bytes.last_chunk::<WORD>() {
        // The last word once more, without what was seen of it. What moves in reads as control characters.
        Some(&last) => {
            let rest = bytes.len() - at;
            let seen = u32::try_from(8 * (WORD - rest)).expect("less than a word is left");
            let word = u64::from_le_bytes(last).checked_shr(seen).unwrap_or(0);
            at + plain_in_word(word.to_le_bytes())
        }
        None => at + bytes[at..].iter().take_while(|&&byte| !is_special(byte)).count(),
    }
}

/// Bytes looked at together.
const WORD: usize = 8;

/// So many plain words tell a long text, in which more is looked at together.
const WORDS_BEFORE_STRETCHES: usize = 4;

/// How many of the first bytes of a word are plain.
fn plain_in_word(chunk: [u8; WORD]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // Marks a byte that is zero; bits above the first such byte may be wrong, the lowest is not.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let word = u64::from_le_bytes(chunk);
    let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    let special = control | zero(word ^ (ONES * 0x22)) | zero(word ^ (ONES * 0x5c));
    // No special byte: 64 zeros.
    special.trailing_zeros() as usize / 8
}

/// Most bytes decoded at once.
const PIECE: usize = 4096;

/// Bytes of a string with escapes that are looked at together.
const WINDOW: usize = 32;

/// So many plain windows tell a long text.
const WINDOWS_BEFORE_STRETCHES: usize = 2;

/// Which of the first 32 bytes are special, the first one lowest.
fn special_in_window(text: &[u8; 2 * WINDOW]) -> u64 {
    const LOWS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let of_word = |word: &[u8; WORD]| {
        let word = u64::from_le_bytes(*word);
        // Each byte's high bit tells, and no carry leaves a byte: every bit is right.
        let not_zero = |word: u64| ((word & LOWS) + LOWS) | word;
        let not_control = ((word & LOWS) + 0x6060_6060_6060_6060) | word;
        let special =
            !(not_zero(word ^ 0x2222_2222_2222_2222) & not_zero(word ^ 0x5c5c_5c5c_5c5c_5c5c) & not_control);
        // Gathers the eight high bits in the highest byte.
        ((special & !LOWS) >> 7).wrapping_mul(0x0102_0408_1020_4080).to_be_bytes()[0]
    };
    let [first, second, third, fourth, ..] = text.as_chunks().0 else { return 0 };
    u64::from(u32::from_le_bytes([of_word(first), of_word(second), of_word(third), of_word(fourth)]))
}

/// Decodes plain bytes and escapes of two bytes that start in the first 32 bytes. How many bytes it read, less than 32
/// where something else comes, and how many it wrote; what follows those it wrote over.
fn decode_window(text: &[u8; 2 * WINDOW], to: &mut [u8; 2 * WINDOW]) -> (usize, usize) {
    let mut special = special_in_window(text);
    let (mut read, mut written) = (0, 0);
    loop {
        let plain = (special | 1 << WINDOW).trailing_zeros() as usize - read;
        to[written..written + WINDOW].copy_from_slice(&text[read..read + WINDOW]);
        (read, written) = (read + plain, written + plain);
        if read == WINDOW {
            return (read, written);
        }
        let escaped = SHORT[usize::from(text[read + 1])];
        if text[read] != b'\\' || escaped == 0 {
            return (read, written);
        }
        to[written] = escaped;
        (read, written) = (read + 2, written + 1);
        if read >= WINDOW {
            return (read, written);
        }
        special &= u64::MAX << read;
    }
}

/// Length of the longest prefix of plain bytes and escapes of two bytes that the compact form has.
fn passable_length(bytes: &[u8]) -> usize {
    let (mut at, mut windows) = (0, 0);
    while let Some(text) = bytes[at..].first_chunk() {
        let mut special = special_in_window(text);
        let mut passed = 0;
        while special != 0 {
            passed = special.trailing_zeros() as usize;
            if text[passed] != b'\\' || SHORT[usize::from(text[passed + 1])] == 0 {
                return at + passed;
            }
            passed += 2;
            special &= u64::MAX << passed;
        }
        windows = if passed == 0 { windows + 1 } else { 0 };
        at += passed.max(WINDOW);
        if windows == WINDOWS_BEFORE_STRETCHES {
            at += plain_stretches(&bytes[at..]);
            windows = 0;
        }
    }
    loop {
        at += plain_length(&bytes[at..]);
        match bytes[at..] {
            [b'\\', second, ..] if SHORT[usize::from(second)] != 0 => at += 2,
            _ => return at,
        }
    }
}

/// Length of the leading stretches of 32 bytes that are plain. The compiler turns the look at one stretch into a
/// few wide comparisons.
fn plain_stretches(bytes: &[u8]) -> usize {
    let is_plain = |stretch: &&[u8; 32]| !stretch.iter().fold(false, |any, &byte| any | is_special(byte));
    bytes.as_chunks::<32>().0.iter().take_while(is_plain).count() * 32
}

/// `"`, `\` and the control characters below U+0020.
fn is_special(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// The characters that have an escape of two bytes in the compact form, and that escape's second byte.
const SHORT_ESCAPES: [(char, u8); 7] =
    [('"', b'"'), ('\\', b'\\'), ('\u{8}', b'b'), ('\t', b't'), ('\n', b'n'), ('\u{c}', b'f'), ('\r', b'r')];

/// The character that a backslash and `second` stand for, where the compact form spells it so.
fn short_escape(second: u8) -> Option<char> {
    match SHORT[usize::from(second)] {
        0 => None,
        escaped => Some(char::from(escaped)),
    }
}

/// [`SHORT_ESCAPES`] by the escape's second byte; 0 for all others.
const SHORT: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < SHORT_ESCAPES.len() {
        let (escaped, second) = SHORT_ESCAPES[at];
        table[second as usize] = escaped as u8;
        at += 1;
    }
    table
};

/// How the compact form spells a character inside a string.
fn spelling(c: char, buffer: &mut [u8; 6]) -> &str {
    let hex = |digit: u32| char::from_digit(digit, 16).map_or(b'0', |c| c as u8);
    let length = if let Some((_, escape)) = SHORT_ESCAPES.iter().find(|(escaped, _)| *escaped == c) {
        buffer[..2].copy_from_slice(&[b'\\', *escape]);
        2
    } else if c < ' ' {
        *buffer = [b'\\', b'u', b'0', b'0', hex(c as u32 >> 4), hex(c as u32 & 15)];
        6
    } else {
        c.encode_utf8(buffer).len()
    };
    std::str::from_utf8(&buffer[..length]).expect("an escape is ASCII, and a character encodes to UTF-8")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_fast_string_scan_equals_the_slow_one(
            plain in "[a-z]{0,100}",
            bytes in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let bytes = [plain.as_bytes(), &bytes].concat();
            let slow = bytes.iter().position(|&b| b < 0x20 || b == b'"' || b == b'\\').unwrap_or(bytes.len());
            prop_assert_eq!(plain_length(&bytes), slow);
        }

        #[test]
        fn reading_a_string_into_memory_equals_reading_it(
            pieces in prop::collection::vec("[a-zé😀]{0,80}|[a-z]{0,5}|\\\\[\"\\\\/bfnrtux]|\\\\u00[01][0-9a-fA-F]|\\\\ud83d\\\\ude00|[\u{0}-\u{1f}]|\"", 0..30),
            closed in any::<bool>(),
        ) {
            let text = format!("\"{}{}", pieces.concat(), if closed { "\"" } else { "" });
            let open = || Scanner::open(text.as_bytes(), Form::Compact).unwrap();
            let (mut one, mut other, mut passing) = (open(), open(), open());
            let mut out = b"before".to_vec();
            let expected = one.string(Decode::Yes { capacity: 0 });
            prop_assert_eq!(passing.string(Decode::No).map(drop), expected.clone().map(drop));
            prop_assert_eq!(passing.at, one.at);
            let got = other.string_into(&mut out);
            match expected {
                Ok(expected) => {
                    prop_assert_eq!(got, Ok(()));
                    prop_assert_eq!(out, format!("before{expected}").into_bytes());
                    prop_assert_eq!(one.at, other.at);
                }
                Err(error) => prop_assert_eq!(got, Err(error)),
            }
        }
    }
}

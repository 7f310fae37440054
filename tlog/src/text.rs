//! Strict decimal and base64, shared by every text format.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Standard base64 with padding (RFC 4648, section 4).
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads standard base64 in its one canonical spelling: padded, no white space, no stray bits.
pub fn parse_base64(encoded: &str) -> Option<Vec<u8>> {
    // The engine refuses non-zero trailing bits and missing padding; see the tests.
    STANDARD.decode(encoded).ok()
}

/// Reads an ASCII decimal without sign, blanks or leading zeroes, up to 2^64 - 1.
pub fn parse_decimal(digits: &str) -> Option<u64> {
    let canonical = match digits.as_bytes() {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if canonical { digits.parse().ok() } else { None }
}

/// Reads eight lower-case hex digits.
pub(crate) fn parse_hex4(digits: &str) -> Option<[u8; 4]> {
    let lower = digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let mut bytes = [0; 4];
    (lower && hex::decode_to_slice(digits, &mut bytes).is_ok()).then_some(bytes)
}

/// A name that may stand in a note's signature line: not empty, no Unicode space, no plus, no
/// control character.
pub(crate) fn is_key_name(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(|c| c == '+' || c.is_whitespace() || c < ' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_one_spelling() {
        for (digits, value) in [("0", 0), ("7", 7), ("10", 10), ("18446744073709551615", u64::MAX)] {
            assert_eq!(parse_decimal(digits), Some(value));
        }
        for digits in [
            "",
            "+5",
            "05",
            "00",
            " 5",
            "5 ",
            "-1",
            "-0",
            "5_0",
            "0x1",
            "1e3",
            "5.0",
            "\u{0661}",
            "\u{ff15}",
            "18446744073709551616",
            "5\n",
        ] {
            assert_eq!(parse_decimal(digits), None, "{digits:?}");
        }
    }

    #[test]
    fn base64_has_one_spelling() {
        assert_eq!(parse_base64("AA=="), Some(vec![0]));
        for encoded in
            ["AB==", "AA", "AA=", "AA===", "A A=", "AA==\n", "__==", "AA==AA==", "=", "\u{41}A\u{3d}"]
        {
            assert_eq!(parse_base64(encoded), None, "{encoded:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_decimal_read_is_the_decimal_written(text in "\\PC{0,22}", number: u64) {
            proptest::prop_assert_eq!(parse_decimal(&number.to_string()), Some(number));
            if let Some(value) = parse_decimal(&text) {
                proptest::prop_assert_eq!(value.to_string(), text);
            }
        }
    }
}

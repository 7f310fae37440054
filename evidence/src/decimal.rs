//! Unsigned integers in the one spelling that records and entries have.

/// Reads an integer from 0 to 2^64-1: ASCII digits only, no sign, no leading zero.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with('0');
    if canonical && text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_has_one_spelling() {
        for (text, value) in [("0", 0), ("7", 7), ("10", 10), ("18446744073709551615", u64::MAX)] {
            assert_eq!(parse(text), Some(value));
        }
        for bad in
            ["", "+5", "-1", "05", "00", " 5", "5 ", "5_0", "1.0", "1e1", "５", "18446744073709551616", "0x1"]
        {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}

//! Unsigned integers in the one spelling that records and entries have.

/// Reads an integer from 0 to 2^64-1: ASCII digits only, no sign, no leading zero.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with('0');
    if canonical && text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// The integer that `text` starts with, as long as it can be, and what follows it.
#[inline]
pub(crate) fn split(text: &str) -> Option<(u64, &str)> {
    let (mut value, mut digits) = (0u64, 0);
    while let Some(digit) =
        text.as_bytes().get(digits).map(|byte| byte.wrapping_sub(b'0')).filter(|d| *d < 10)
    {
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        digits += 1;
    }
    let canonical = digits == 1 || digits > 1 && !text.starts_with('0');
    canonical.then(|| (value, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_has_one_spelling() {
        for (text, value) in [("0", 0), ("7", 7), ("10", 10), ("18446744073709551615", u64::MAX)] {
            assert_eq!(parse(text), Some(value));
            for rest in ["", ",", "a1", "é"] {
                assert_eq!(split(&format!("{text}{rest}")), Some((value, rest)));
            }
        }
        for bad in
            ["", "+5", "-1", "05", "00", " 5", "5 ", "5_0", "1.0", "1e1", "５", "18446744073709551616", "0x1"]
        {
            assert_eq!(parse(bad), None, "{bad:?}");
            assert!(split(bad).is_none_or(|(_, rest)| !rest.is_empty()), "{bad:?}");
        }
    }
}

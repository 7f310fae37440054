//! Durations as flags spell them: digits and a unit.

use std::time::Duration;

/// Reads `500ms`, `30s`, `5m` or `24h`. The unit is needed: `10` says nothing.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let expected = || format!("{text:?} is not a duration such as 500ms, 30s, 5m or 24h");
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
    let (digits, unit) = text.split_at(unit_at);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(expected()),
    };
    let number: u64 = digits.parse().map_err(|_| expected())?;
    match number.checked_mul(unit_ms) {
        Some(0) => Err("a duration must be longer than nothing".to_owned()),
        Some(ms) if ms <= LONGEST_MS => Ok(Duration::from_millis(ms)),
        _ => Err(format!("{text:?} is longer than a year")),
    }
}

const LONGEST_MS: u64 = 366 * 24 * 3_600_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_digits_and_a_unit() {
        for (text, ms) in
            [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("24h", 86_400_000), ("01s", 1000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in [
            "",
            "10",
            "s",
            "0s",
            "-1s",
            "+1s",
            "1.5s",
            "1 s",
            "1S",
            "1d",
            "10/s",
            "9999999999999h",
            "1sec",
            "٣s",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}

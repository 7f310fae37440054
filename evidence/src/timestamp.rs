//! Instants as records spell them: RFC 3339 in UTC with exactly three decimals, years 0001 to 9999.

use std::{fmt, str::FromStr};

/// A POSIX instant in whole milliseconds, from `0001-01-01T00:00:00.000Z` to `9999-12-31T23:59:59.999Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Why something is not a timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimestampError {
    /// The instant lies outside the years 0001 to 9999.
    #[error("{0} ms since 1970 lies outside the years 0001 to 9999")]
    OutOfRange(i64),
    /// The text is not an RFC 3339 instant in UTC.
    #[error("{0:?} is not an RFC 3339 UTC instant like 2026-11-30T15:51:19.123Z")]
    Malformed(String),
}

impl Timestamp {
    /// The earliest instant.
    pub const MIN: Self = Self(days_before(1, 1, 1) * DAY_MS);
    /// The latest instant.
    pub const MAX: Self = Self((days_before(9999, 12, 31) + 1) * DAY_MS - 1);

    /// The instant `posix_ms` milliseconds after 1970-01-01T00:00:00Z, leap seconds not counted.
    pub fn from_posix_ms(posix_ms: i64) -> Result<Self, TimestampError> {
        if (Self::MIN.0..=Self::MAX.0).contains(&posix_ms) {
            Ok(Self(posix_ms))
        } else {
            Err(TimestampError::OutOfRange(posix_ms))
        }
    }

    /// Milliseconds after 1970-01-01T00:00:00Z.
    pub fn posix_ms(self) -> i64 {
        self.0
    }

    /// Reads an RFC 3339 UTC instant in whole seconds (`…:19Z`) or milliseconds (`…:19.123Z`).
    ///
    /// People and agents write such instants in payloads; the store itself writes milliseconds alone, which
    /// is what [`FromStr`] reads.
    pub fn parse_seconds_or_ms(text: &str) -> Result<Self, TimestampError> {
        match text.strip_suffix('Z') {
            Some(seconds) if seconds.len() == "2026-11-30T15:51:19".len() => {
                format!("{seconds}.000Z").parse()
            }
            _ => text.parse(),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_date(self.0.div_euclid(DAY_MS));
        let ms = self.0.rem_euclid(DAY_MS);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        read(text.as_bytes()).ok_or_else(|| TimestampError::Malformed(text.chars().take(40).collect()))
    }
}

const DAY_MS: i64 = 86_400_000;

/// Reads the one spelling [`Timestamp`] has.
fn read(text: &[u8]) -> Option<Timestamp> {
    const SHAPE: &[u8; 24] = b"dddd-dd-ddTdd:dd:dd.dddZ";
    let fits =
        |(&byte, &shape): (&u8, &u8)| if shape == b'd' { byte.is_ascii_digit() } else { byte == shape };
    if text.len() != SHAPE.len() || !text.iter().zip(SHAPE).all(fits) {
        return None;
    }
    let number = |from: usize, to: usize| text[from..to].iter().fold(0, |n, &d| n * 10 + i64::from(d - b'0'));
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let (hour, minute, second, ms) = (number(11, 13), number(14, 16), number(17, 19), number(20, 23));
    if year < 1 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    let days = days_before(year, month, day);
    Some(Timestamp(days * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + ms))
}

/// Days of a month, 1 to 12.
const fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar. `month` is 1 to 12.
///
/// Years are counted from 1 March, so that the leap day is a year's last, in eras of 400 years.
const fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * ERA_DAYS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - DAYS_TO_1970
}

/// The date `days` after 1970-01-01: year, month (1 to 12), day (1 to 31).
const fn civil_date(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_TO_1970;
    let era = days.div_euclid(ERA_DAYS);
    let day_of_era = days.rem_euclid(ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Days in 400 years.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_instants_are_spelled_as_elsewhere() {
        // Computed with Python's datetime.
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_796_053_879_123, "2026-11-30T15:51:19.123Z"),
            (-2_203_891_200_001, "1900-02-28T23:59:59.999Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            let timestamp = Timestamp::from_posix_ms(ms).unwrap();
            assert_eq!(timestamp.to_string(), text);
            assert_eq!(text.parse::<Timestamp>().unwrap(), timestamp);
        }
    }

    #[test]
    fn the_years_end_at_0001_and_9999() {
        assert_eq!(Timestamp::MIN.posix_ms(), -62_135_596_800_000);
        assert_eq!(Timestamp::MAX.posix_ms(), 253_402_300_799_999);
        for ms in [i64::MIN, -62_135_596_800_001, 253_402_300_800_000, i64::MAX] {
            assert_eq!(Timestamp::from_posix_ms(ms), Err(TimestampError::OutOfRange(ms)));
        }
    }

    #[test]
    fn one_spelling_is_read() {
        for bad in [
            "",
            "2026-11-30T15:51:19Z",
            "2026-11-30T15:51:19.12Z",
            "2026-11-30T15:51:19.1234Z",
            "2026-11-30 15:51:19.123Z",
            "2026-11-30t15:51:19.123z",
            "2026-11-30T15:51:19.123+00:00",
            "2026-11-30T15:51:60.000Z",
            "2026-11-30T24:00:00.000Z",
            "2026-02-29T00:00:00.000Z",
            "2026-00-10T00:00:00.000Z",
            "2026-13-10T00:00:00.000Z",
            "2026-04-31T00:00:00.000Z",
            "2026-04-00T00:00:00.000Z",
            "0000-12-31T00:00:00.000Z",
            "2026-11-30T15:60:19.123Z",
            "２026-11-30T15:51:19.12Z",
        ] {
            assert_eq!(bad.parse::<Timestamp>(), Err(TimestampError::Malformed(bad.to_owned())), "{bad}");
        }
    }

    #[test]
    fn payload_instants_may_leave_out_the_milliseconds() {
        let whole = Timestamp::parse_seconds_or_ms("2026-11-30T15:51:19Z").unwrap();
        assert_eq!(whole.to_string(), "2026-11-30T15:51:19.000Z");
        assert!(Timestamp::parse_seconds_or_ms("2026-11-30T15:51:19.123Z").is_ok());
        for bad in [
            "2026-11-30T15:51:19",
            "2026-11-30T15:51:19.1Z",
            "2026-11-30T15:51:19+01:00",
            "tomorrow",
            "é026-11-30T15:51:1Z",
        ] {
            assert!(Timestamp::parse_seconds_or_ms(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_instant_reads_back(ms in Timestamp::MIN.0..=Timestamp::MAX.0) {
            let timestamp = Timestamp::from_posix_ms(ms).unwrap();
            prop_assert_eq!(timestamp.to_string().parse::<Timestamp>().unwrap(), timestamp);
        }

        #[test]
        fn each_day_follows_the_day_before(day in -719_162_i64..2_932_895) {
            let (year, month, date) = civil_date(day);
            let next = civil_date(day + 1);
            prop_assert!(next == (year, month, date + 1) || next == (year, month + 1, 1) || next == (year + 1, 1, 1));
        }
    }
}

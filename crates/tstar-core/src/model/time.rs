//! Parses and formats times, days and durations. Times in: RFC 3339 with any offset, or integer ms.
//! Times out: RFC 3339 UTC with ms. A duration is a whole number with one unit.

use chrono::{DateTime, NaiveDate, SecondsFormat};

pub use super::scalar::DAY_MS;
use super::scalar::{Day, DeviceTime};

/// The UTC day of a time.
#[must_use]
pub fn day_of(time_ms: DeviceTime) -> Day {
    Day(time_ms.ms().div_euclid(DAY_MS))
}

/// A time, day or duration that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MomentError {
    /// Not a time.
    #[error(
        "`{text}` is not a time: write RFC 3339 such as 2026-11-20T21:38:00Z or 2026-11-20T22:38:00+01:00, or ms since 1970 as a whole number"
    )]
    Time {
        /// The text.
        text: String,
    },
    /// Not a day.
    #[error("`{text}` is not a day: write it as 2026-11-20")]
    Day {
        /// The text.
        text: String,
    },
    /// Not a duration.
    #[error(
        "`{text}` is not a duration: {problem}; write a whole number and one unit of ms, s, m, h, d, such as 90s"
    )]
    Duration {
        /// The text.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Units of durations, largest first: a duration is formatted in the largest that fits.
const UNITS: [(&str, i64); 5] =
    [("d", DAY_MS), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Parses a time as ms since 1970, floored to ms.
///
/// # Errors
/// [`MomentError::Time`] if it is neither RFC 3339 nor a whole number.
pub fn parse_time(text: &str) -> Result<i64, MomentError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let time_ms = if is_integer {
        text.parse().ok()
    } else {
        DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_millis())
    };
    time_ms.ok_or_else(|| MomentError::Time { text: text.to_owned() })
}

/// Parses a UTC day as whole days since 1970.
///
/// # Errors
/// [`MomentError::Day`] if it is not `YYYY-MM-DD`.
pub fn parse_day(text: &str) -> Result<Day, MomentError> {
    // chrono accepts 2026-1-2 too. Only one spelling is valid: a short year is likely a typo.
    let day =
        (text.len() == 10).then(|| NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()).flatten();
    day.map(|day| Day(i64::from(day.to_epoch_days())))
        .ok_or_else(|| MomentError::Day { text: text.to_owned() })
}

/// Formats a time as RFC 3339 UTC with ms. A year outside 0000 to 9999 has no RFC 3339 form; such
/// a time becomes ms since 1970, which [`parse_time`] accepts.
#[must_use]
pub fn format_time(time_ms: i64) -> String {
    use chrono::Datelike;
    match DateTime::from_timestamp_millis(time_ms) {
        Some(time) if (0..=9999).contains(&time.year()) => {
            time.to_rfc3339_opts(SecondsFormat::Millis, true)
        }
        _ => time_ms.to_string(),
    }
}

/// Parses a duration as ms, never negative.
///
/// # Errors
/// [`MomentError::Duration`] with the problem.
pub fn parse_duration(text: &str) -> Result<i64, MomentError> {
    let wrong = |problem| MomentError::Duration { text: text.to_owned(), problem };
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(end);
    if number.is_empty() {
        return Err(wrong("it does not begin with a whole number"));
    }
    if unit.is_empty() {
        return Err(wrong("it has no unit"));
    }
    let Some((_, unit_ms)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(wrong("its unit is not known"));
    };
    let number: i64 = number.parse().map_err(|_| wrong("it is too long"))?;
    number.checked_mul(*unit_ms).ok_or_else(|| wrong("it is too long"))
}

/// Formats a duration in the largest unit that gives a whole number.
#[must_use]
pub fn format_duration(duration_ms: i64) -> String {
    if duration_ms == 0 {
        return "0s".into();
    }
    // One day reads better as 24h, two and more as days.
    let fits = |(name, unit_ms): &&(&str, i64)| {
        duration_ms % unit_ms == 0 && (*name != "d" || duration_ms > *unit_ms)
    };
    let (name, unit_ms) = UNITS.iter().find(fits).unwrap_or(&("ms", 1));
    format!("{}{name}", duration_ms / unit_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_times_with_any_offset_and_integers() {
        assert_eq!(parse_time("2026-11-20T21:38:00.123Z"), Ok(1_795_210_680_123));
        assert_eq!(parse_time("2026-11-20T22:38:00.123+01:00"), Ok(1_795_210_680_123));
        assert_eq!(parse_time("1795210680123"), Ok(1_795_210_680_123));
        assert_eq!(parse_time("-1"), Ok(-1));
        assert_eq!(parse_time("1969-12-31T23:59:59.9999Z"), Ok(-1), "floored, not cut");
        for text in ["", "-", "2026-11-20", "2026-11-20T21:38:00", "1.5", "99999999999999999999"] {
            let error = parse_time(text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("RFC 3339"), "{error}");
        }
    }

    #[test]
    fn writes_times_in_utc_with_ms() {
        assert_eq!(format_time(1_795_210_680_123), "2026-11-20T21:38:00.123Z");
        assert_eq!(format_time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(format_time(i64::MAX), i64::MAX.to_string());
    }

    #[test]
    fn reads_days() {
        assert_eq!(parse_day("1970-01-02"), Ok(Day(1)));
        assert_eq!(parse_day("2026-11-20"), Ok(Day(1_795_210_680_123 / DAY_MS)));
        for text in ["2026-11-31", "2026-1-2", "today", "20261120", ""] {
            assert!(parse_day(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_a_whole_number_with_a_unit() {
        for (text, duration_ms) in [
            ("500ms", 500),
            ("90s", 90_000),
            ("5m", 300_000),
            ("24h", DAY_MS),
            ("7d", 7 * DAY_MS),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(duration_ms));
            assert_eq!(format_duration(duration_ms), text);
        }
        assert_eq!(format_duration(60_000), "1m");
        for (text, problem) in [
            ("", "does not begin"),
            ("s", "does not begin"),
            ("-5m", "does not begin"),
            ("300", "has no unit"),
            ("1.5h", "unit is not known"),
            ("5 m", "unit is not known"),
            ("5w", "unit is not known"),
            ("9999999999999999d", "too long"),
            ("99999999999999999999s", "too long"),
        ] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains(&format!("`{text}`")), "{error}");
        }
    }
}

//! Parses device times, text or number, to ms since 1970.

use chrono::DateTime;

use super::local_time::{LocalTimes, TimeRulesError};
use super::text::short;
use crate::model::rules::{Rules, TimeUnit};
use crate::model::time::format_time;
use crate::model::units::IntegerTimeError;
use crate::model::zone::parse_local;

/// How the rules read device times.
#[derive(Debug)]
pub(super) struct Times {
    /// Unit of times that are numbers.
    pub(super) unit: TimeUnit,
    local: LocalTimes,
}

impl Times {
    /// The times of these rules.
    ///
    /// # Errors
    /// The zone, its tables or the format cannot be used.
    pub(super) fn new(rules: &Rules) -> Result<Self, TimeRulesError> {
        let local = LocalTimes::new(rules)?;
        Ok(Self { unit: rules.time_unit, local })
    }

    /// A number that is not an integer. Its fraction is rounded to the nearest us, which is more
    /// exact than the number itself, and the time is then floored to ms.
    ///
    /// # Errors
    /// The ms overflow.
    pub(super) fn number(&self, value: f64) -> Result<i64, String> {
        if self.local.counts_days() {
            return self.text(&value.to_string());
        }
        self.unit.number_ms(value).ok_or_else(|| too_large(&value.to_string()))
    }

    /// An integer, floored to ms.
    ///
    /// # Errors
    /// The ms overflow.
    #[inline]
    pub(super) fn integer(&self, value: i128) -> Result<i64, String> {
        if self.local.counts_days() {
            return self.text(&value.to_string());
        }
        self.unit.integer_ms(value).ok_or_else(|| too_large(&value.to_string()))
    }

    /// The two readings of a text that occurs twice, if the order of the records decides between
    /// them.
    pub(super) fn by_order(&self, text: &str) -> Option<(i64, i64)> {
        self.local.by_order(text.trim_ascii())
    }

    /// A text: RFC 3339, a time in the format of the rules, a number in the unit of the rules, or
    /// a local time if the rules have a zone; in this order, so that an offset in a text counts.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(super) fn text(&self, text: &str) -> Result<i64, String> {
        let text = text.trim_ascii();
        if let Some(ms) = plain_utc(text.as_bytes()).or_else(|| with_offset(text)) {
            return Ok(ms);
        }
        if let Some(time) = self.local.formatted(text) {
            return time;
        }
        // Numbers are days then.
        let is_number = !self.local.counts_days();
        if is_number {
            match self.unit.text_ms(text) {
                Ok(ms) => return Ok(ms),
                Err(IntegerTimeError::Overflow) => return Err(too_large(text)),
                Err(IntegerTimeError::Text) => {}
            }
            if is_decimal(text) {
                let time = text.parse().ok().and_then(|value| self.unit.number_ms(value));
                return time.ok_or_else(|| too_large(text));
            }
        }
        match parse_local(text) {
            Some(local) => self.local.in_zone(local, text),
            None => Err(self.local.unknown(text)),
        }
    }
}

/// A time with an offset from UTC, floored to ms: RFC 3339, and the other forms of ISO 8601 offsets
/// `+0100` and `+01`, also after a space.
pub(super) fn with_offset(text: &str) -> Option<i64> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        // A DateTime counts nanoseconds upwards from the second before, so this floors.
        return Some(time.timestamp_millis());
    }
    let (date_time, offset) = text.split_at(text.rfind(['+', '-'])?);
    let date_time = date_time.strip_suffix(' ').unwrap_or(date_time);
    // A shorter text has its sign within the date.
    if date_time.len() < 19 {
        return None;
    }
    let (hours, minutes) = offset.split_at_checked(3)?;
    let minutes = match minutes.len() {
        0 => "00",
        _ => minutes.strip_prefix(':').unwrap_or(minutes),
    };
    let time = DateTime::parse_from_rfc3339(&format!("{date_time}{hours}:{minutes}")).ok()?;
    Some(time.timestamp_millis())
}

/// Whether a text is a JSON number with a fraction or an exponent; leading zeros are accepted, as
/// in integers.
fn is_decimal(text: &str) -> bool {
    let after_digits = |text: &str| -> Option<usize> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        (digits > 0).then_some(digits)
    };
    let mut rest = text.strip_prefix('-').unwrap_or(text);
    let Some(whole) = after_digits(rest) else { return false };
    rest = &rest[whole..];
    let is_integer = rest.is_empty();
    if let Some(fraction) = rest.strip_prefix('.') {
        let Some(digits) = after_digits(fraction) else { return false };
        rest = &fraction[digits..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let Some(digits) = after_digits(exponent) else { return false };
        rest = &exponent[digits..];
    }
    rest.is_empty() && !is_integer
}

/// Parses `YYYY-MM-DDTHH:MM:SSZ` with up to nine decimals of a second, and the same with the offset
/// 0. Nearly all times have this form, and this takes half the time of chrono, which parses the
/// rest.
pub(super) fn plain_utc(text: &[u8]) -> Option<i64> {
    let date_time = match text {
        [date_time @ .., b'Z'] => date_time,
        [date_time @ .., b'+', b'0', b'0', b':', b'0', b'0'] => date_time,
        [date_time @ .., b'+', b'0', b'0', b'0', b'0'] => date_time,
        _ => return None,
    };
    let (date_time, fraction) = date_time.split_at_checked(19)?;
    let number = |at: usize, digits: usize| -> Option<i64> {
        date_time[at..at + digits].iter().try_fold(0, |sum, &digit| {
            digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0'))
        })
    };
    let marks = [date_time[4], date_time[7], date_time[10], date_time[13], date_time[16]];
    if marks != *b"--T::" {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let millis = match fraction {
        [] => 0,
        [b'.', digits @ ..] if (1..=9).contains(&digits.len()) => {
            let all = digits.iter().all(u8::is_ascii_digit);
            let digit = |at| i64::from(digits.get(at).map_or(0, |digit: &u8| digit - b'0'));
            all.then(|| digit(0) * 100 + digit(1) * 10 + digit(2))?
        }
        _ => return None,
    };
    let seconds = (days(year, month, day)? * 24 + hour) * 3600 + minute * 60 + second;
    Some(seconds * 1000 + millis)
}

/// Days since 1970 of a Gregorian date, years 0 to 9999; `None` if the date does not exist.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // With years that begin in March, the leap day is the last day of the year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// An integer time in another unit, floored; `None` if the other unit is coarser than ms, or the
/// result overflows.
pub(super) fn in_unit(value: i64, from: TimeUnit, to: TimeUnit) -> Option<i64> {
    if from == to {
        return Some(value);
    }
    match to {
        TimeUnit::Seconds => None,
        TimeUnit::Millis => from.integer_ms(value.into()),
        TimeUnit::Micros => from.integer_ms(value.into())?.checked_mul(1000),
        TimeUnit::Nanos => from.integer_ms(value.into())?.checked_mul(1_000_000),
    }
}

/// An integer time as RFC 3339 text with ms, and with `zone` in place of the zone.
pub(super) fn text_of(value: i64, unit: TimeUnit, zone: &str) -> String {
    let Some(ms) = unit.integer_ms(value.into()) else { return value.to_string() };
    let text = format_time(ms);
    match text.strip_suffix('Z') {
        Some(local) => format!("{local}{zone}"),
        None => text,
    }
}

/// The message for a time whose ms overflow.
pub(super) fn too_large(value: &str) -> String {
    format!("time {} is too large; --time-unit sets its unit", short(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_floored_to_ms() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-20T21:38:00.123Z", 1_795_210_680_123),
            ("2026-11-20T21:38:00.1239999Z", 1_795_210_680_123),
            ("2026-11-20T22:38:00.123+01:00", 1_795_210_680_123),
            ("2026-11-20 21:38:00.123Z", 1_795_210_680_123),
            ("2026-11-20t21:38:00.123z", 1_795_210_680_123),
            ("2026-11-20T21:38:00.1234567891234Z", 1_795_210_680_123),
            ("1969-12-31T23:59:59.9999Z", -1),
            ("1969-12-31T23:59:59.9999+00:00", -1),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("1795210680123", 1_795_210_680_123),
            ("-1", -1),
        ] {
            assert_eq!(times(TimeUnit::Millis).text(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn an_invalid_time_has_a_reason() {
        for (text, why) in [
            ("yesterday", "--time-format"),
            ("2026-11-20T21:38:00", "--time-zone"),
            ("2026-02-29T00:00:00Z", "--time-format"),
            ("2026-11-20T24:00:00Z", "--time-format"),
            ("2026-11-20T21:38:00.Z", "--time-format"),
            ("99999999999999999999", "too large"),
            ("99999999999999999999999999999999999999999999", "too large"),
        ] {
            let message = times(TimeUnit::Millis).text(text).unwrap_err();
            assert!(message.contains(why), "{text}: {message}");
        }
    }

    fn times(unit: TimeUnit) -> Times {
        Times::new(&Rules { time_unit: unit, ..Rules::default() }).unwrap()
    }

    #[test]
    fn fractions_are_rounded_to_us_and_floored_to_ms() {
        use TimeUnit::{Micros, Millis, Nanos, Seconds};
        for (number, unit, ms) in [
            ("1795158000.5", Seconds, 1_795_158_000_500),
            ("1795158000.0", Seconds, 1_795_158_000_000),
            ("1795158000.1239", Seconds, 1_795_158_000_123),
            ("1795158000.9999", Seconds, 1_795_158_000_999),
            ("1795158000.9999999", Seconds, 1_795_158_001_000),
            ("1.795158e9", Seconds, 1_795_158_000_000),
            ("-0.5", Seconds, -500),
            ("-0.0001", Seconds, -1),
            ("-0.0", Seconds, 0),
            ("1795158000123.9", Millis, 1_795_158_000_123),
            ("253402300799999.0", Millis, 253_402_300_799_999),
            ("9007199254740991.0", Millis, 9_007_199_254_740_991),
            ("-0.1", Millis, -1),
            ("1795158000123000.0", Micros, 1_795_158_000_123),
            ("1795158000123999.2", Micros, 1_795_158_000_123),
            ("1.795158000123e18", Nanos, 1_795_158_000_123),
        ] {
            assert_eq!(times(unit).text(number), Ok(ms), "{number} {unit:?}");
            assert_eq!(times(unit).number(number.parse().unwrap()), Ok(ms), "{number} {unit:?}");
        }
        for value in [1e300, -1e300, f64::NAN, f64::INFINITY, 9.3e18] {
            let message = times(Millis).number(value).unwrap_err();
            assert!(message.contains("too large"), "{message}");
        }
    }

    #[test]
    fn other_texts_have_a_reason() {
        for text in [
            "",
            "-",
            "+5",
            "5.",
            ".5",
            "1e",
            "1.5e+",
            "0x10",
            "inf",
            "NaN",
            "1_000",
            "1,5",
            "2026-11-20",
            "2026-11-20T21:38:00Z+01",
            "2026-11-20T21:38:00+1",
            "20:38:00+01:00",
            "2026-11-20T21:38:00+01:0",
            "2026-11-20T21:38:00+0\u{e9}",
            "2026-11-20T21:38:00-+01",
            "2026-11-20T21:38+0100",
            "2026-02-29T00:00:00+0100",
            "2026-11-20T21:38:00 UTC",
        ] {
            let message = times(TimeUnit::Millis).text(text).unwrap_err();
            assert!(message.contains("--time-format"), "{text}: {message}");
        }
        let message = times(TimeUnit::Millis).text("1e99").unwrap_err();
        assert!(message.contains("too large"), "{message}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn offsets_are_read_as_chrono_reads_them(
            seconds in -62_000_000_000i64..253_000_000_000,
            nanos in 0u32..1_000_000_000,
            offset in -1439i32..=1439,
            form in prop::sample::select(vec![
                "%Y-%m-%dT%H:%M:%S%.f%:z", "%Y-%m-%d %H:%M:%S%.f%z", "%Y-%m-%dT%H:%M:%S%.f %z",
                "%Y-%m-%d %H:%M:%S %:z", "%Y-%m-%dT%H:%M:%S%.3f%z", "%Y-%m-%dt%H:%M:%S%z",
            ]),
        ) {
            let offset = chrono::FixedOffset::east_opt(offset * 60).unwrap();
            let time = DateTime::from_timestamp(seconds, nanos).unwrap().with_timezone(&offset);
            let text = time.format(form).to_string();
            let read = DateTime::parse_from_str(&text, form).unwrap().timestamp_millis();
            prop_assert_eq!(times(TimeUnit::Millis).text(&text), Ok(read), "{}", text);
            // Whole hours may be written without minutes.
            if let Some(short) = text.strip_suffix("00").filter(|_| form.ends_with("S%z")) {
                prop_assert_eq!(times(TimeUnit::Millis).text(short), Ok(read), "{}", short);
            }
        }

        /// A time with six decimals is exact, whether a float or a text, as far as floats are exact
        /// to the us.
        #[test]
        fn decimals_of_a_second_are_exact(us in -(1i64 << 52)..1 << 52) {
            let (whole, part) = (us / 1_000_000, (us % 1_000_000).unsigned_abs());
            let sign = if us < 0 { "-" } else { "" };
            let number = format!("{sign}{}.{part:06}", whole.unsigned_abs());
            let ms = us.div_euclid(1000);
            prop_assert_eq!(times(TimeUnit::Seconds).text(&number), Ok(ms), "{}", number);
            let float = serde_json::from_str::<f64>(&number).unwrap();
            prop_assert_eq!(times(TimeUnit::Seconds).number(float), Ok(ms), "{}", number);
        }

        #[test]
        fn plain_utc_parses_what_chrono_parses(
            seconds in -62_167_219_200i64..253_402_300_800,
            nanos in 0u32..1_000_000_000,
            digits in 0usize..=9,
        ) {
            let time = DateTime::from_timestamp(seconds, nanos).unwrap();
            let mut text = time.format("%Y-%m-%dT%H:%M:%S").to_string();
            if digits > 0 {
                text.push_str(&format!(".{nanos:09}")[..=digits]);
            }
            let read = DateTime::parse_from_rfc3339(&format!("{text}Z")).unwrap();
            for offset in ["Z", "+00:00", "+0000"] {
                let text = format!("{text}{offset}");
                let ms = Some(read.timestamp_millis());
                prop_assert_eq!(plain_utc(text.as_bytes()), ms, "{}", text);
                prop_assert_eq!(with_offset(&text), ms, "{}", text);
            }
        }

        #[test]
        fn plain_utc_rejects_what_chrono_rejects(
            text in "[0-2][0-9][0-9]{2}-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{0,3})?([Zz]|[-+]0[01]:?00)?",
        ) {
            if let Some(ms) = plain_utc(text.as_bytes()) {
                prop_assert_eq!(Some(ms), with_offset(&text), "{}", text);
            }
        }

        #[test]
        fn no_text_panics(text in prop_oneof![
            "\\PC{0,40}", "[-+0-9T:.eZ ]{0,30}", "[-+]?[0-9]{1,7}-[0-9]{1,3}[T ][0-9:.]{2,10}[-+0-9:]{0,6}",
        ]) {
            let zone = || Rules {
                time_zone: Some("America/St_Johns".into()),
                zone_tables: Some(crate::source::ZONE_TABLES.into()),
                ..Rules::default()
            };
            let format = Some("%Y-%j %H%M%S".to_owned());
            for rules in [
                Rules::default(),
                zone(),
                Rules { time_format: format, ..zone() },
            ] {
                let read = Times::new(&rules).unwrap().text(&text);
                prop_assert!(read.is_ok() || !read.unwrap_err().is_empty());
            }
        }
    }
}

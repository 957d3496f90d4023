//! Prefixes of text ids, which select trips by the year, month, day or hour of `t_star`.

use chrono::{DateTime, Days, Months, NaiveDate, TimeDelta, Utc};

use super::text::{digits, parse_token, write_token};
use super::{DeviceId, DeviceTime, IdError, check_device_id, shown};

/// A year, month, day or hour.
struct Span {
    /// Spelling without dashes, such as `20261120T21`.
    basic: String,
    /// First ms of the span, since 1970.
    from_ms: DeviceTime,
    /// Last ms of the span, since 1970.
    upto_ms: DeviceTime,
}

/// The common prefix of the text ids of a device's trips of a date, such as `truck-17~20261120`.
/// The date is `2026`, `2026-11`, `2026-11-20` or `2026-11-20T21`, with or without dashes.
///
/// # Errors
/// The device id or the date is not valid.
pub fn prefix(device_id: &str, date: &str) -> Result<String, IdError> {
    check_device_id(device_id)?;
    Ok(format!("{}~{}", write_token(device_id), parse_date(date)?.basic))
}

/// Device and time range of a prefix `truck-17~202611`: `(device_id, from_ms, upto_ms)`, both ends
/// inclusive, ms since 1970. Only the spelling used in ids is accepted.
///
/// # Errors
/// [`IdError::Prefix`] if it is not a prefix in canonical spelling.
pub fn prefix_range(prefix: &str) -> Result<(DeviceId, DeviceTime, DeviceTime), IdError> {
    let wrong = |reason| IdError::Prefix { given: shown(prefix), reason };
    let (token, date) = prefix.rsplit_once('~').ok_or_else(|| wrong("it has no `~`"))?;
    let span = parse_date(date)
        .ok()
        .filter(|span| span.basic == date)
        .ok_or_else(|| wrong("the part after the last `~` is not a year, month, day or hour"))?;
    Ok((parse_token(token).map_err(wrong)?, span.from_ms, span.upto_ms))
}

/// Time range of a date, `(from_ms, upto_ms)`, both inclusive, ms since 1970. Accepts the same
/// spellings as [`prefix`].
///
/// # Errors
/// [`IdError::Date`] if it is not a year, month, day or hour.
pub fn date_range(date: &str) -> Result<(DeviceTime, DeviceTime), IdError> {
    parse_date(date).map(|span| (span.from_ms, span.upto_ms))
}

fn parse_date(date: &str) -> Result<Span, IdError> {
    let wrong = |reason| IdError::Date { given: shown(date), reason };
    let basic = basic_spelling(date).ok_or_else(|| wrong("its format is wrong"))?;
    let (from, until) =
        bounds(basic.as_bytes()).ok_or_else(|| wrong("it does not exist in the calendar"))?;
    let [from_ms, until_ms] = [from, until].map(|time| DeviceTime(time.timestamp_millis()));
    Ok(Span { basic, from_ms, upto_ms: until_ms - 1 })
}

/// The spelling without dashes. A date has all its dashes or none.
fn basic_spelling(date: &str) -> Option<String> {
    const SHAPES: [&str; 7] =
        ["dddd", "dddd-dd", "dddd-dd-dd", "dddd-dd-ddTdd", "dddddd", "dddddddd", "ddddddddTdd"];
    let fits = |shape: &str| {
        shape.len() == date.len()
            && shape.bytes().zip(date.bytes()).all(|(shape, byte)| match shape {
                b'd' => byte.is_ascii_digit(),
                mark => byte == mark,
            })
    };
    SHAPES.iter().find(|shape| fits(shape))?;
    Some(date.replace('-', ""))
}

/// Start and exclusive end of a date in spelling without dashes.
fn bounds(basic: &[u8]) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
    let part = |from: usize, upto: usize| basic.get(from..upto).map(digits);
    let year = part(0, 4)??.cast_signed();
    let month = part(4, 6).unwrap_or(Some(1))?;
    let day = part(6, 8).unwrap_or(Some(1))?;
    let hour = part(9, 11).unwrap_or(Some(0))?;
    let from = NaiveDate::from_ymd_opt(year, month, day)?.and_hms_opt(hour, 0, 0)?;
    let until = match basic.len() {
        4 => from.checked_add_months(Months::new(12)),
        6 => from.checked_add_months(Months::new(1)),
        8 => from.checked_add_days(Days::new(1)),
        _ => from.checked_add_signed(TimeDelta::hours(1)),
    }?;
    Some((from.and_utc(), until.and_utc()))
}

//! Times in flags. A number of another unit is refused: read as ms it is a time of 1970, which
//! selects everything or nothing without an error.

use std::ops::{Range, RangeInclusive};

use crate::model::time::format_time;
use crate::model::zone::Zone;
use crate::ops::InvalidRequest;

/// Numbers of ten digits: seconds since 2001, but ms of the first months of 1970.
pub(crate) const SECONDS_SINCE_2001: Range<i64> = 1_000_000_000..10_000_000_000;

/// Numbers that are dates, such as 20251120.
const DATES: RangeInclusive<i64> = 19_700_101..=21_001_231;

/// Numbers that are years.
const YEARS: RangeInclusive<i64> = 1970..=2100;

/// Parses the value of a flag, such as `--from`, as ms since 1970; without an offset, in a zone.
///
/// # Errors
/// It is not a time, or it looks like a number of seconds or like a year.
pub(crate) fn parse_flag_time(flag: &str, text: &str, zone: Zone) -> anyhow::Result<i64> {
    let time_ms = zone.parse_time(text)?;
    check_unit(flag, text)?;
    Ok(time_ms.ms())
}

/// Checks that the value of a flag is not a number of seconds or a year.
///
/// # Errors
/// It looks like one.
pub(crate) fn check_unit(flag: &str, text: &str) -> Result<(), InvalidRequest> {
    let Ok(number) = text.parse::<i64>() else { return Ok(()) };
    let meant = if SECONDS_SINCE_2001.contains(&number) {
        let ms = number * 1000;
        format!("for seconds, write {} or {ms}", format_time(ms))
    } else if DATES.contains(&number) && text.len() == 8 {
        format!("for the day, write {}-{}-{}", &text[..4], &text[4..6], &text[6..])
    } else if YEARS.contains(&number) {
        format!("for the year, write {number}-01-01T00:00:00Z")
    } else {
        return Ok(());
    };
    let as_ms = format_time(number);
    Err(InvalidRequest(format!("{flag} {text} is in ms since 1970, which is {as_ms}; {meant}")))
}

/// Parses a range of times, ms since 1970, of the flags `--from` and `--to`.
///
/// # Errors
/// One is not a time or looks like one in another unit, or they are in the wrong order.
pub(crate) fn parse_range(
    from: Option<&str>,
    to: Option<&str>,
    zone: Zone,
) -> anyhow::Result<(Option<i64>, Option<i64>)> {
    let parse =
        |flag, text: Option<&str>| text.map(|text| parse_flag_time(flag, text, zone)).transpose();
    let (from_ms, to_ms) = (parse("--from", from)?, parse("--to", to)?);
    if from_ms.zip(to_ms).is_some_and(|(from, to)| to < from) {
        return Err(InvalidRequest("--from is later than --to; swap them".into()).into());
    }
    Ok((from_ms, to_ms))
}

//! Time zones of output and requests: local days, and times with their offset from UTC.

use std::fmt;

use chrono::{
    DateTime, Datelike, FixedOffset, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, Offset,
    SecondsFormat, TimeZone,
};
use chrono_tz::{GapInfo, IANA_TZDB_VERSION, TZ_VARIANTS, Tz};

use super::scalar::{DAY_MS, Day, DeviceTime};
use super::time::{MomentError, day_of, format_time, parse_day, parse_time};
use super::visible::short;
use crate::identity::TEXT_TIMES_MS;

/// Version of the tables of this program, such as `2025b`.
pub const ZONE_TABLES: &str = IANA_TZDB_VERSION;

/// How much longer a span of local days may be in which clocks are put back, ms: an hour, as in
/// almost all zones.
pub(crate) const CLOCKS_BACK_MS: i64 = 3_600_000;

/// A name that no time zone has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is not a time zone; write an IANA name such as Europe/Berlin, or UTC{}",
    short(.0),
    hint(.0)
)]
pub struct UnknownZone(String);

/// The zone whose name differs only in the case of letters.
fn hint(name: &str) -> String {
    let zone = TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(name));
    zone.map_or_else(String::new, |zone| format!("; did you mean `{zone}`?"))
}

/// A time or a day that a zone does not have, or has twice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZonedError {
    /// It is malformed.
    #[error(transparent)]
    Moment(#[from] MomentError),
    /// It is not exactly one time of the zone.
    #[error("{0}")]
    Local(String),
}

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone(Tz);

impl Default for Zone {
    fn default() -> Self {
        Self::UTC
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

/// A day of a zone, which begins at its first midnight, or where clocks skip that, at the first
/// moment after. It usually has 23 to 25 hours. The days of a zone follow each other without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalDay {
    zone: Zone,
    date: NaiveDate,
}

impl fmt::Display for LocalDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.date.fmt(f)
    }
}

impl Zone {
    /// Coordinated Universal Time.
    pub const UTC: Self = Self(Tz::UTC);

    /// The zone with an IANA name.
    ///
    /// # Errors
    /// No zone has this name.
    pub fn from_name(name: &str) -> Result<Self, UnknownZone> {
        name.parse().map(Self).map_err(|_| UnknownZone(name.to_owned()))
    }

    fn is_utc(self) -> bool {
        matches!(self.0, Tz::UTC | Tz::Etc__UTC)
    }

    /// The time on the clocks of the zone; `None` outside of the years 0 to 9999.
    fn clock(self, time_ms: DeviceTime) -> Option<DateTime<Tz>> {
        let time = DateTime::from_timestamp_millis(time_ms.ms())?;
        // At the ends of its own range chrono cannot convert.
        (0..=9999).contains(&time.year()).then(|| time.with_timezone(&self.0))
    }

    /// A time as RFC 3339 with ms and the offset of the zone; `Z` in UTC, and where the offset has
    /// seconds, which RFC 3339 cannot express.
    #[must_use]
    pub fn text(self, time_ms: DeviceTime) -> String {
        let has_minutes = |time: &DateTime<Tz>| time.offset().fix().local_minus_utc() % 60 == 0;
        match self.clock(time_ms).filter(|time| !self.is_utc() && has_minutes(time)) {
            Some(time) => time.to_rfc3339_opts(SecondsFormat::Millis, false),
            None => format_time(time_ms.ms()),
        }
    }

    /// The day of a time.
    #[must_use]
    pub fn day_of(self, time_ms: DeviceTime) -> LocalDay {
        // No sample has a time outside of these years.
        let time_ms = time_ms.clamp(*TEXT_TIMES_MS.start(), *TEXT_TIMES_MS.end());
        let date = self.clock(time_ms).map(|time| time.date_naive()).unwrap_or_default();
        let day = LocalDay { zone: self, date };
        // Clocks that are put back across midnight show the former date for a second time.
        let next = day.following();
        if next.start_ms() <= time_ms { next } else { day }
    }

    /// The day with a date.
    ///
    /// # Errors
    /// It is not `YYYY-MM-DD`, or the zone skipped the day.
    pub fn day(self, text: &str) -> Result<LocalDay, ZonedError> {
        let day = LocalDay { zone: self, date: date_of(text)? };
        if day.start_ms() < day.end_ms() {
            return Ok(day);
        }
        let problem = format!("day {text} does not exist in {self}, whose clocks skipped it");
        Err(ZonedError::Local(problem))
    }

    /// A time, ms since 1970: one without an offset is of this zone, unless that is UTC, in which
    /// `Z` says so. A date alone is the first moment of its day.
    ///
    /// # Errors
    /// It is not a time, or it occurs twice in the zone or never.
    pub fn parse_time(self, text: &str) -> Result<DeviceTime, ZonedError> {
        let error = match parse_time(text) {
            Ok(time_ms) => return Ok(DeviceTime(time_ms)),
            Err(_) if self.is_utc() && parse_clock(text).is_some() => {
                let problem = "has no offset; add one, such as `Z` for UTC, or name a time zone";
                return Err(ZonedError::Local(format!("time {} {problem}", short(text))));
            }
            Err(error) if self.is_utc() => return Err(error.into()),
            Err(error) => error,
        };
        if date_of(text).is_ok() {
            return Ok(self.day(text)?.start_ms());
        }
        let local = parse_clock(text).ok_or(error)?;
        match self.instants(local) {
            LocalResult::Single(time) => Ok(DeviceTime(time.timestamp_millis())),
            LocalResult::Ambiguous(first, second) => Err(ZonedError::Local(format!(
                "{}; write it with an offset, such as {}",
                self.repeated(text, &first, &second),
                second.format("%Y-%m-%dT%H:%M:%S%:z")
            ))),
            LocalResult::None => Err(ZonedError::Local(self.skipped(text, local))),
        }
    }

    /// The times at which the clocks of the zone show a local time.
    pub(crate) fn instants(self, local: NaiveDateTime) -> LocalResult<DateTime<Tz>> {
        self.0.from_local_datetime(&local)
    }

    /// The message for a local time that occurs twice, without what to do about it.
    pub(crate) fn repeated(
        self,
        text: &str,
        first: &DateTime<Tz>,
        second: &DateTime<Tz>,
    ) -> String {
        format!(
            "time {} occurs twice in {self}, as the clocks were put back: it may be {} or {}",
            short(text),
            with_offset(first),
            with_offset(second)
        )
    }

    /// The message for a local time that does not exist.
    pub(crate) fn skipped(self, text: &str, local: NaiveDateTime) -> String {
        let gap = GapInfo::new(&local, &self.0);
        let Some(GapInfo { begin: Some((from, before)), end: Some(upto) }) = gap else {
            return format!("time {} does not exist in {self}", short(text));
        };
        let (before, after) = (before.fix(), upto.offset().fix());
        let reading = |offset: FixedOffset| {
            let time = offset.from_local_datetime(&local).single();
            time.map_or_else(|| "none".into(), |time| with_offset(&time))
        };
        format!(
            "time {} does not exist in {self}, as the clocks went from {from} to {}: it may be {} \
             or {}; write it with an offset, such as {}",
            short(text),
            upto.naive_local(),
            reading(before),
            reading(after),
            local.format(&format!("%Y-%m-%dT%H:%M:%S{after}"))
        )
    }
}

impl LocalDay {
    /// Its first moment.
    #[must_use]
    pub fn start_ms(self) -> DeviceTime {
        let midnight = self.date.and_time(NaiveTime::MIN);
        let utc_ms = midnight.and_utc().timestamp_millis();
        if self.zone.is_utc() || !(0..=9999).contains(&midnight.year()) {
            return DeviceTime(utc_ms);
        }
        let after_gap = || GapInfo::new(&midnight, &self.zone.0)?.end;
        let start = self.zone.instants(midnight).earliest().or_else(after_gap);
        DeviceTime(start.map_or(utc_ms, |start| start.timestamp_millis()))
    }

    /// The first moment after it.
    #[must_use]
    pub fn end_ms(self) -> DeviceTime {
        self.following().start_ms()
    }

    /// Its first and its last millisecond.
    #[must_use]
    pub(crate) fn span(self) -> (DeviceTime, DeviceTime) {
        (self.start_ms(), self.end_ms() - 1)
    }

    /// The UTC day that has the same times; `None` if the day is a part of several.
    #[must_use]
    pub(crate) fn utc_day(self) -> Option<Day> {
        let (first_ms, last_ms) = self.span();
        let day = day_of(first_ms);
        (first_ms == day.start_ms() && last_ms == day.start_ms() + DAY_MS - 1).then_some(day)
    }

    /// The day after it, which the zone may have skipped.
    fn following(self) -> Self {
        Self { date: self.date.succ_opt().unwrap_or(NaiveDate::MAX), ..self }
    }
}

/// An ISO 8601 time without an offset.
pub(crate) fn parse_local(text: &str) -> Option<NaiveDateTime> {
    let time = DateTime::parse_from_rfc3339(&format!("{text}Z")).ok()?;
    Some(time.naive_utc())
}

/// The same, perhaps without seconds.
fn parse_clock(text: &str) -> Option<NaiveDateTime> {
    parse_local(text).or_else(|| parse_local(&format!("{text}:00")))
}

fn date_of(text: &str) -> Result<NaiveDate, MomentError> {
    let day = parse_day(text)?;
    let date = i32::try_from(day.get()).ok().and_then(NaiveDate::from_epoch_days);
    date.ok_or_else(|| MomentError::Day { text: text.to_owned() })
}

/// A time in UTC, and the offset by which it was found.
fn with_offset<Z: TimeZone>(time: &DateTime<Z>) -> String {
    let utc = format_time(time.timestamp_millis());
    format!("{utc} (by {})", time.offset().fix())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> Zone {
        Zone::from_name(name).unwrap()
    }

    fn ms(text: &str) -> DeviceTime {
        DeviceTime(parse_time(text).unwrap())
    }

    #[test]
    fn days_have_the_hours_that_clocks_give_them() {
        for (name, date, start, hours) in [
            ("UTC", "2026-03-29", "2026-03-29T00:00:00Z", 24),
            ("Europe/Berlin", "2026-03-28", "2026-03-28T00:00:00+01:00", 24),
            ("Europe/Berlin", "2026-03-29", "2026-03-29T00:00:00+01:00", 23),
            ("Europe/Berlin", "2026-10-25", "2026-10-25T00:00:00+02:00", 25),
            ("America/New_York", "2026-11-01", "2026-11-01T00:00:00-04:00", 25),
            // Midnight is skipped.
            ("Africa/Cairo", "2026-04-24", "2026-04-24T01:00:00+03:00", 23),
            // Midnight occurs twice.
            ("America/Havana", "2026-11-01", "2026-11-01T00:00:00-04:00", 25),
            ("Asia/Kathmandu", "2026-11-01", "2026-11-01T00:00:00+05:45", 24),
            ("Pacific/Apia", "2011-12-29", "2011-12-29T00:00:00-10:00", 24),
        ] {
            let day = zone(name).day(date).unwrap();
            assert_eq!(day.start_ms(), ms(start), "{name} {date}");
            assert_eq!(day.end_ms() - day.start_ms(), hours * 3_600_000, "{name} {date}");
            assert_eq!(day.to_string(), date);
        }
        let error = zone("Pacific/Apia").day("2011-12-30").unwrap_err().to_string();
        assert!(error.contains("2011-12-30 does not exist in Pacific/Apia"), "{error}");
        let error = zone("Europe/Berlin").day("2026-02-30").unwrap_err().to_string();
        assert!(error.contains("`2026-02-30` is not a day"), "{error}");
    }

    /// Also where clocks go back over midnight, so that a date comes twice, or skip a day.
    #[test]
    fn each_moment_is_in_one_day_of_its_zone() {
        for tz in TZ_VARIANTS {
            let zone = Zone(tz);
            let mut day = zone.day_of(ms("1970-01-05T12:00:00Z"));
            while day.start_ms() < ms("2038-01-01T00:00:00Z") {
                let next = day.following();
                let (start_ms, end_ms) = (day.start_ms(), next.start_ms());
                assert!(start_ms <= end_ms, "{zone} {day}");
                if start_ms < end_ms {
                    let clock = zone.clock(start_ms).unwrap();
                    assert_eq!(clock.date_naive(), day.date, "{zone} {day}");
                    assert_eq!(zone.day_of(start_ms), day, "{zone} {day}");
                    assert_eq!(zone.day_of(end_ms - 1), day, "{zone} {day}");
                }
                day = next;
            }
        }
    }

    #[test]
    fn times_have_the_offset_of_their_zone() {
        let time_ms = ms("2026-11-20T06:04:00Z");
        for (name, text) in [
            ("UTC", "2026-11-20T06:04:00.000Z"),
            ("Etc/UTC", "2026-11-20T06:04:00.000Z"),
            ("Europe/London", "2026-11-20T06:04:00.000+00:00"),
            ("Europe/Berlin", "2026-11-20T07:04:00.000+01:00"),
            ("America/St_Johns", "2026-11-20T02:34:00.000-03:30"),
        ] {
            assert_eq!(zone(name).text(time_ms), text);
        }
        // An offset of 44 minutes and 30 seconds.
        assert_eq!(zone("Africa/Monrovia").text(DeviceTime(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(zone("Europe/Berlin").text(DeviceTime::MAX), i64::MAX.to_string());
    }

    #[test]
    fn local_times_are_read_where_they_are_one_time() {
        let berlin = zone("Europe/Berlin");
        for (text, expected) in [
            ("2026-03-29", "2026-03-28T23:00:00Z"),
            ("2026-03-29T08:00", "2026-03-29T06:00:00Z"),
            ("2026-03-29T01:59:59.999", "2026-03-29T00:59:59.999Z"),
            ("2026-03-29T08:00:00-04:00", "2026-03-29T12:00:00Z"),
            ("1795210680123", "2026-11-20T21:38:00.123Z"),
        ] {
            assert_eq!(berlin.parse_time(text), Ok(ms(expected)), "{text}");
        }
        let refused = |zone: Zone, text| zone.parse_time(text).unwrap_err().to_string();
        let skipped = refused(berlin, "2026-03-29T02:30:00");
        assert!(skipped.contains("does not exist in Europe/Berlin"), "{skipped}");
        let twice = refused(berlin, "2026-10-25T02:30:00");
        assert!(twice.contains("twice") && twice.ends_with("2026-10-25T02:30:00+01:00"), "{twice}");
        assert!(refused(berlin, "8 o'clock").contains("is not a time"));
        assert!(refused(Zone::UTC, "2026-03-29T08:00:00").contains("has no offset; add one"));
        assert!(refused(Zone::UTC, "2026-03-29").contains("is not a time"));
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_the_nearest() {
        let refused = |name| Zone::from_name(name).unwrap_err().to_string();
        assert!(refused("europe/berlin").ends_with("did you mean `Europe/Berlin`?"));
        assert!(refused("Bavaria").contains("`Bavaria` is not a time zone; write an IANA name"));
    }

    #[test]
    fn times_that_no_calendar_has_are_in_some_day() {
        for time_ms in [DeviceTime::MIN, DeviceTime::MAX, DeviceTime(253_402_300_800_000)] {
            let (from_ms, upto_ms) = zone("Pacific/Auckland").day_of(time_ms).span();
            assert!(from_ms <= upto_ms, "{time_ms}");
        }
    }
}

//! Local times: texts without an offset from UTC, and texts in a format of their own.

use chrono::format::{Fixed, Item, Numeric, Parsed, StrftimeItems, parse};
use chrono::{
    DateTime, Datelike, FixedOffset, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta,
    TimeZone,
};

use super::text::short;
use crate::model::rules::{AmbiguousTime, Rules};
use crate::model::zone::{UnknownZone, ZONE_TABLES, Zone, parse_local};

/// A zone or a format of times that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeRulesError {
    /// The name is not that of a zone.
    #[error(transparent)]
    Zone(#[from] UnknownZone),
    /// Times in the format cannot be read.
    #[error("time format {}: {problem}", short(.format))]
    Format {
        /// The format.
        format: String,
        /// What is wrong with it, and what to write instead.
        problem: String,
    },
    /// Other tables might give other times than those that are stored.
    #[error(
        "the rules have time zone tables {stored}, this version of tstar has {ZONE_TABLES}: use a \
         version with tables {stored}, or build another store with `tstar rebuild --into`"
    )]
    Tables {
        /// Version of the tables in the rules, or `none`.
        stored: String,
    },
}

/// Checks a format, as in strftime.
///
/// # Errors
/// Times in the format cannot be read, or they have no offset and there is no zone.
pub(crate) fn check_time_format(format: &str, has_zone: bool) -> Result<(), TimeRulesError> {
    TimeFormats::new(format, has_zone).map(drop)
}

/// The zone and the format of texts.
#[derive(Debug, Default)]
pub(super) struct LocalTimes {
    zone: Option<Zone>,
    formats: Option<TimeFormats>,
    ambiguous: Option<AmbiguousTime>,
}

impl LocalTimes {
    /// The zone and the format of these rules.
    ///
    /// # Errors
    /// The zone, its tables or the format cannot be used.
    pub(super) fn new(rules: &Rules) -> Result<Self, TimeRulesError> {
        let zone = rules.time_zone.as_deref().map(Zone::from_name).transpose()?;
        if zone.is_some() && rules.zone_tables.as_deref() != Some(ZONE_TABLES) {
            let stored = rules.zone_tables.clone().unwrap_or_else(|| "none".into());
            return Err(TimeRulesError::Tables { stored });
        }
        let formats = rules.time_format.as_deref();
        let formats = formats.map(|text| TimeFormats::new(text, zone.is_some())).transpose()?;
        Ok(Self { zone, formats, ambiguous: rules.time_ambiguous })
    }

    /// A time in the format, ms since 1970; `None` if there is no format, or the text has another.
    pub(super) fn formatted(&self, text: &str) -> Option<Result<i64, String>> {
        Some(match self.formats.as_ref()?.parse(text)? {
            ParsedTime::WithOffset(ms) => Ok(ms),
            ParsedTime::Local(local) => self.in_zone(local, text),
        })
    }

    /// Whether times that are numbers are days of spreadsheets.
    #[inline]
    pub(super) fn counts_days(&self) -> bool {
        self.formats.as_ref().is_some_and(|formats| formats.days)
    }

    /// The two readings of a text that occurs twice, ms since 1970, if the order of the records
    /// decides between them.
    pub(super) fn by_order(&self, text: &str) -> Option<(i64, i64)> {
        let zone = self.zone.filter(|_| self.ambiguous == Some(AmbiguousTime::Order))?;
        let local = match self.formats.as_ref().and_then(|formats| formats.parse(text)) {
            Some(ParsedTime::Local(local)) => local,
            Some(ParsedTime::WithOffset(_)) => return None,
            None => parse_local(text)?,
        };
        match zone.instants(local) {
            LocalResult::Ambiguous(one, other) => {
                let both = [one, other].map(|time| time.timestamp_millis());
                Some((both[0].min(both[1]), both[0].max(both[1])))
            }
            _ => None,
        }
    }

    /// A local time in the zone, ms since 1970.
    ///
    /// # Errors
    /// There is no zone, or the time occurs twice in it or never.
    pub(super) fn in_zone(&self, local: NaiveDateTime, text: &str) -> Result<i64, String> {
        let Some(zone) = self.zone else {
            return Err(format!(
                "time {} has no offset from UTC; set the zone of local times with --time-zone, \
                 such as Europe/Berlin or UTC",
                short(text)
            ));
        };
        // Such a time is out of range, and at the ends of its own range chrono cannot convert.
        if !(-1..=10_000).contains(&local.year()) {
            return Ok(local.and_utc().timestamp_millis());
        }
        let times = zone.instants(local);
        match (times.single(), times.earliest(), times.latest()) {
            (Some(time), _, _) => Ok(time.timestamp_millis()),
            (None, Some(first), Some(second)) => match self.ambiguous {
                Some(AmbiguousTime::Earlier) => Ok(first.timestamp_millis()),
                Some(AmbiguousTime::Later) => Ok(second.timestamp_millis()),
                Some(AmbiguousTime::Order) | None => Err(format!(
                    "{}; choose with --time-ambiguous earlier, later or order, or write it with an \
                     offset, such as {}",
                    zone.repeated(text, &first, &second),
                    second.format("%Y-%m-%dT%H:%M:%S%:z")
                )),
            },
            _ => Err(zone.skipped(text, local)),
        }
    }

    /// The message for a text that is in no form of a time.
    pub(super) fn unknown(&self, text: &str) -> String {
        let text = short(text);
        match &self.formats {
            None => format!(
                "time {text} is neither RFC 3339, such as 2026-11-20T21:38:00Z, nor a number; \
                 describe another form with --time-format, such as '%d.%m.%Y %H:%M'; `tstar \
                 inspect` finds it"
            ),
            Some(format) => format!(
                "time {text} is neither in the --time-format {}, nor RFC 3339, nor a number",
                short(&format.text)
            ),
        }
    }
}

/// The format of times that are days since 1899-12-30, as spreadsheets count them.
const DAYS: &str = "excel";

/// Separates formats of which each time has one.
const OR: char = '|';

/// A time as a format has it.
enum ParsedTime {
    /// ms since 1970.
    WithOffset(i64),
    Local(NaiveDateTime),
}

/// Formats of which each time has one.
#[derive(Debug)]
struct TimeFormats {
    text: String,
    /// Whether numbers are days of spreadsheets.
    days: bool,
    list: Vec<TimeFormat>,
}

impl TimeFormats {
    /// The formats of a text.
    ///
    /// # Errors
    /// As for [`check_time_format`].
    fn new(text: &str, has_zone: bool) -> Result<Self, TimeRulesError> {
        let others = text.split(OR).filter(|format| *format != DAYS);
        let list: Vec<_> =
            others.map(|format| TimeFormat::new(format, has_zone)).collect::<Result<_, _>>()?;
        let days = text.split(OR).any(|format| format == DAYS);
        if days && !has_zone {
            return Err(TimeRulesError::Format {
                format: text.to_owned(),
                problem: "days of spreadsheets are local times, so that --time-zone is needed"
                    .into(),
            });
        }
        Ok(Self { text: text.to_owned(), days, list })
    }

    /// A time in one of the formats.
    fn parse(&self, text: &str) -> Option<ParsedTime> {
        if let Some(local) = self.days.then(|| time_of_days(text)).flatten() {
            return Some(ParsedTime::Local(local));
        }
        let (format, parsed) =
            self.list.iter().find_map(|format| Some((format, format.parse(text)?)))?;
        if format.has_offset {
            return Some(ParsedTime::WithOffset(parsed.to_datetime().ok()?.timestamp_millis()));
        }
        Some(ParsedTime::Local(parsed.to_naive_datetime_with_offset(0).ok()?))
    }
}

/// A time as days since 1899-12-30, to the nearest second: a sheet shows few digits of a day. A day
/// and a part of one in two columns are added.
pub(super) fn time_of_days(text: &str) -> Option<NaiveDateTime> {
    let mut days = 0.0;
    for part in text.split_ascii_whitespace() {
        let is_plain = part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        days += part.parse::<f64>().ok().filter(|_| is_plain)?;
    }
    // The year 9999, the last one of spreadsheets.
    if text.is_empty() || !(1.0..2_958_466.0).contains(&days) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    let seconds = (days * 86_400.0).round() as i64;
    let start = NaiveDate::from_ymd_opt(1899, 12, 30)?.and_time(NaiveTime::MIN);
    start.checked_add_signed(TimeDelta::try_seconds(seconds)?)
}

/// Whether a text is a time in a format without an offset.
pub(super) fn local_by_format(text: &str, items: &[Item<'_>]) -> Option<NaiveDateTime> {
    let mut parsed = Parsed::new();
    parse(&mut parsed, text, items.iter()).ok()?;
    parsed.to_naive_datetime_with_offset(0).ok()
}

/// A format, as in strftime.
#[derive(Debug)]
struct TimeFormat {
    text: String,
    items: Vec<Item<'static>>,
    /// Whether a text in the format has an offset from UTC.
    has_offset: bool,
}

impl TimeFormat {
    /// The format of a text.
    ///
    /// # Errors
    /// As for [`check_time_format`].
    fn new(text: &str, has_zone: bool) -> Result<Self, TimeRulesError> {
        let bad = |problem: String| TimeRulesError::Format { format: text.to_owned(), problem };
        let items = StrftimeItems::new(text).parse_to_owned();
        let items = items.map_err(|_| bad("a part of it is not known; see strftime".into()))?;
        for item in &items {
            let problem = match item {
                Item::Numeric(Numeric::Timestamp, _) => {
                    "seconds since 1970 need no format; set --time-unit s"
                }
                Item::Numeric(Numeric::Nanosecond, _) => {
                    "%f is a number of nanoseconds; write %.f for the fraction of a second"
                }
                Item::Fixed(Fixed::TimezoneName) => {
                    "the name of a zone is not read; write %z for an offset, or set --time-zone"
                }
                _ => continue,
            };
            return Err(bad(problem.into()));
        }
        let mut format = Self { text: text.to_owned(), items, has_offset: false };
        let example = DateTime::parse_from_rfc3339("2026-11-25T21:38:47.25+05:30");
        let example = example.expect("it is RFC 3339");
        let parsed = format.parse_example(&example).ok_or_else(|| {
            bad("a time cannot be read by it; it needs a date, hours and minutes, such as \
                 %d.%m.%Y %H:%M:%S"
                .into())
        })?;
        format.has_offset = parsed.offset().is_some();
        if !format.has_offset && !has_zone {
            return Err(bad("it has no offset (%z), so that --time-zone is needed".into()));
        }
        Ok(format)
    }

    /// Writes a time and parses it; `None` if that does not give the same minute.
    fn parse_example(&self, example: &DateTime<FixedOffset>) -> Option<Parsed> {
        use std::fmt::Write;
        let mut text = String::new();
        // `%#z` can only be parsed.
        let items = StrftimeItems::new(&self.text.replace("%#z", "%z")).parse_to_owned().ok()?;
        write!(text, "{}", example.format_with_items(items.iter())).ok()?;
        let parsed = self.parse(&text)?;
        let read = match parsed.offset() {
            Some(_) => parsed.to_datetime().ok()?,
            None => {
                let local = parsed.to_naive_datetime_with_offset(0).ok()?;
                example.timezone().from_local_datetime(&local).single()?
            }
        };
        let minute = |time: &DateTime<FixedOffset>| time.timestamp().div_euclid(60);
        (minute(&read) == minute(example)).then_some(parsed)
    }

    /// The parts of a text in the format; `None` if it has another.
    fn parse(&self, text: &str) -> Option<Parsed> {
        let mut parsed = Parsed::new();
        parse(&mut parsed, text, self.items.iter()).ok()?;
        Some(parsed)
    }
}

//! How times are written: formats found by values.

use std::fmt::Write;
use std::sync::LazyLock;

use chrono::format::{Item, StrftimeItems};
use chrono::{Datelike, NaiveDateTime};

use super::local_time::local_by_format;
use super::time::with_offset;
use crate::model::zone::parse_local;

/// Dates. Where the order of day and month is open, the day is first.
const DATES: [&str; 20] = [
    "%d.%m.%Y",
    "%d.%m.%y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d-%m-%y",
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%Y%m%d",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%d %b %Y",
    "%b %d, %Y",
    "%b %d %Y",
    "%d. %m. %Y",
    "%Y. %m. %d.",
];

/// What is between a date and a time.
const BETWEEN: [&str; 5] = [" ", "T", ", ", "", " - "];

/// Times of a day, in groups of which a column may have several.
const CLOCKS: [&[&str]; 4] = [
    &["%H:%M:%S", "%H:%M:%S%.f", "%H:%M"],
    &["%I:%M:%S %p", "%I:%M %p", "%I:%M:%S%.f %p"],
    &["%H.%M.%S", "%H.%M"],
    &["%H%M%S"],
];

/// What is after a time.
const AFTER: [&str; 5] = ["", " UTC", " GMT", " %z", "%z"];

/// Years of times.
const YEARS: std::ops::RangeInclusive<i32> = 1990..=2100;

/// Days of these years, as spreadsheets count them.
const DAYS: std::ops::Range<f64> = 32_874.0..73_416.0;

/// Maximum number of values that are looked at.
const MAX_VALUES: usize = 200;

/// A format of a part of a time, parsed.
struct Form {
    text: String,
    items: Vec<Item<'static>>,
}

impl Form {
    fn new(text: String) -> Self {
        let items = StrftimeItems::new(&text).parse_to_owned().unwrap_or_default();
        Self { text, items }
    }
}

/// Formats of a date with a time in each of a group of clocks.
static FULL: LazyLock<Vec<Vec<Form>>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for (date, between) in DATES.iter().flat_map(|date| BETWEEN.map(|it| (date, it))) {
        for (clocks, after) in CLOCKS.iter().flat_map(|clocks| AFTER.map(|it| (clocks, it))) {
            let form = |clock: &&str| Form::new(format!("{date}{between}{clock}{after}"));
            all.push(clocks.iter().map(form).collect());
        }
    }
    all
});

/// Formats of a time of a day, after a date that is always the same.
static CLOCK_ONLY: LazyLock<Vec<Vec<Form>>> = LazyLock::new(|| {
    let form = |clock: &&str| Form::new(format!("%Y-%m-%d {clock}"));
    CLOCKS.iter().map(|clocks| clocks.iter().map(form).collect()).collect()
});

/// Formats of a date, before a time that is always the same.
static DATE_ONLY: LazyLock<Vec<Form>> =
    LazyLock::new(|| DATES.iter().map(|date| Form::new(format!("{date} %H:%M"))).collect());

/// What the values of a name are as times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeForms {
    /// Whether they are times without a format: ISO 8601.
    pub iso: bool,
    /// Formats of date and time that fit all values; the most likely first.
    pub formats: Vec<String>,
    /// Formats of a date without a time.
    dates: Vec<&'static str>,
    /// Formats of a time without a date.
    clocks: Vec<String>,
    /// Whether they are days of spreadsheets with a part of a day.
    days: bool,
    /// Whether they are such days without a part.
    whole_days: bool,
    /// Whether they are parts of a day.
    parts_of_days: bool,
}

impl TimeForms {
    /// What values are.
    pub(crate) fn new<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let values = values.map(str::trim).filter(|text| !text.is_empty());
        let values: Vec<&str> = values.take(MAX_VALUES).collect();
        let has_digits = |text: &&&str| text.bytes().any(|byte| byte.is_ascii_digit());
        if values.is_empty() || values.iter().filter(has_digits).count() < values.len() {
            return Self::default();
        }
        let numbers: Vec<f64> = values.iter().filter_map(|text| text.parse().ok()).collect();
        let all = |fits: &dyn Fn(f64) -> bool| {
            numbers.len() == values.len() && numbers.iter().all(|number| fits(*number))
        };
        let is_day = all(&|number| DAYS.contains(&number));
        let is_whole = all(&|number| number.fract() == 0.0);
        let is_iso = |text: &&str| with_offset(text).is_some() || parse_local(text).is_some();
        Self {
            iso: values.iter().all(is_iso),
            formats: formats(&values),
            dates: dates(&values),
            clocks: clocks(&values),
            days: is_day && !is_whole,
            whole_days: is_day && is_whole,
            parts_of_days: all(&|number| (0.0..1.0).contains(&number)) && !is_whole,
        }
    }

    /// Whether they are times.
    pub(crate) fn is_time(&self) -> bool {
        self.iso || self.days || !self.formats.is_empty()
    }

    /// Whether they are dates without a time.
    pub(crate) fn is_date(&self) -> bool {
        self.whole_days || (!self.dates.is_empty() && !self.is_time())
    }

    /// Whether they are times of a day, to a date of another name.
    pub(crate) fn is_clock(&self) -> bool {
        self.parts_of_days || (!self.clocks.is_empty() && !self.is_time())
    }

    /// The formats to try, the most likely first. A local time of ISO 8601 needs none.
    pub(crate) fn all(&self) -> Vec<String> {
        match self.days {
            _ if self.iso => Vec::new(),
            true => vec!["excel".into()],
            false => self.formats.clone(),
        }
    }

    /// Dates and the times that are joined to them.
    pub(crate) fn join(&self, clock: &Self) -> Self {
        let mut joined = Self::default();
        if self.whole_days && clock.parts_of_days {
            joined.days = true;
            return joined;
        }
        for date in &self.dates {
            for clock in &clock.clocks {
                let both = clock.split('|').map(|clock| format!("{date} {clock}"));
                joined.formats.push(both.collect::<Vec<_>>().join("|"));
            }
        }
        joined
    }
}

/// A local time in a format, of a year that times have.
fn local(text: &str, form: &Form) -> Option<NaiveDateTime> {
    local_by_format(text, &form.items).filter(|time| YEARS.contains(&time.year()))
}

/// The formats of a group that values have; `None` if a value has none of them.
fn fit<'f>(values: &[String], group: &'f [Form]) -> Option<Vec<&'f Form>> {
    let mut used: Vec<&Form> = Vec::new();
    for value in values {
        let form = group.iter().find(|form| local(value, form).is_some())?;
        if !used.iter().any(|known| known.text == form.text) {
            used.push(form);
        }
    }
    // Fractions may be absent.
    let has_fraction = used.iter().any(|form| form.text.contains("%.f"));
    used.retain(|form| !has_fraction || form.text.contains("%.f") || !form.text.contains("%S"));
    Some(used)
}

/// Length of a date with a time.
const LENGTHS: std::ops::RangeInclusive<usize> = 11..=40;

fn formats(values: &[&str]) -> Vec<String> {
    if values.iter().any(|value| !LENGTHS.contains(&value.len())) {
        return Vec::new();
    }
    let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
    let mut found: Vec<String> = Vec::new();
    for group in &*FULL {
        if let Some(used) = fit(&values, group) {
            found.push(used.iter().map(|form| form.text.as_str()).collect::<Vec<_>>().join("|"));
        }
    }
    // A clock of 12 hours is usual where the month is first.
    let is_american = |format: &String| format.contains("%p") && format.starts_with("%m");
    found.sort_by_key(|format| !is_american(format));
    found
}

fn dates(values: &[&str]) -> Vec<&'static str> {
    let with_time: Vec<String> = values.iter().map(|value| format!("{value} 12:00")).collect();
    let fits = |form: &Form| with_time.iter().all(|value| local(value, form).is_some());
    let found = DATES.iter().zip(&*DATE_ONLY).filter(|(_, form)| fits(form));
    found.map(|(date, _)| *date).collect()
}

fn clocks(values: &[&str]) -> Vec<String> {
    let with_date: Vec<String> = values.iter().map(|value| format!("2000-01-01 {value}")).collect();
    // Of numbers, only those of six digits are times of a day.
    let is_number = |value: &&str| value.len() != 6 && value.parse::<f64>().is_ok();
    if values.iter().any(is_number) {
        return Vec::new();
    }
    let groups = CLOCK_ONLY.iter().filter_map(|group| fit(&with_date, group));
    let text = |used: Vec<&Form>| {
        let mut text = String::new();
        for (index, form) in used.iter().enumerate() {
            let mark = if index > 0 { "|" } else { "" };
            let clock = form.text.trim_start_matches("%Y-%m-%d ");
            // Writing to a text does not fail.
            write!(text, "{mark}{clock}").ok();
        }
        text
    };
    groups.map(text).collect()
}

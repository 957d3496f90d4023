//! The table of settings.

use std::collections::BTreeMap;

use super::size::{format_size, parse_size};
use super::{InputFormat, Settings, StorePlace};
use crate::moment::{format_duration, format_time, parse_duration, parse_time};
use crate::rules::{SpeedUnit, TimeUnit};
use crate::source::{MapError, parse_map};

/// What a value is, which decides the forms that the file may give it in. Text is always one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number with a unit.
    Duration,
    /// RFC 3339, or ms since 1970.
    Time,
    /// A whole number.
    Count,
    /// A whole number of bytes, with a unit.
    Size,
    /// A number, or `none`.
    Number,
    /// true or false.
    Flag,
}

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// Key in the file.
    pub key: &'static str,
    /// Flag, with its dashes.
    pub flag: &'static str,
    /// Environment variable.
    pub env: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// The default, as it would be written.
    pub default: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// Reads a value into the settings; the error says what is wrong with the value.
    pub set: fn(&mut Settings, &str) -> Result<(), String>,
    /// The value as it would be written.
    pub get: fn(&Settings) -> String,
}

impl Setting {
    /// The setting of a key.
    #[must_use]
    pub fn of(key: &str) -> Option<&'static Self> {
        TABLE.iter().find(|setting| setting.key == key)
    }
}

/// One line of the table for each kind of field, so that key, reader and writer of a setting stand
/// together.
macro_rules! setting {
    (
        $key:literal, $flag:literal, $env:literal, $default:literal, $kind:ident, $field:ident,
        $read:expr, $write:expr, $help:literal
    ) => {
        Setting {
            key: $key,
            flag: $flag,
            env: $env,
            help: $help,
            default: $default,
            kind: Kind::$kind,
            set: |settings, text| {
                settings.$field = $read(text).map_err(|error| error.to_string())?;
                Ok(())
            },
            get: |settings| $write(&settings.$field),
        }
    };
}

/// Every setting.
pub static TABLE: &[Setting] = &[
    setting!(
        "store",
        "--store",
        "TSTAR_STORE",
        "sqlite:trips.db",
        Text,
        store,
        store,
        String::clone,
        "Where the trips are kept: sqlite:FILE"
    ),
    setting!(
        "max_gap",
        "--max-gap",
        "TSTAR_MAX_GAP",
        "5m",
        Duration,
        max_gap_ms,
        parse_duration,
        duration,
        "Samples at most this far apart share a trip"
    ),
    setting!(
        "max_duration",
        "--max-duration",
        "TSTAR_MAX_DURATION",
        "24h",
        Duration,
        max_duration_ms,
        parse_duration,
        duration,
        "No trip spans more than this"
    ),
    setting!(
        "max_samples",
        "--max-samples",
        "TSTAR_MAX_SAMPLES",
        "100000",
        Count,
        max_samples,
        count,
        u64::to_string,
        "No trip keeps more samples than this"
    ),
    setting!(
        "min_time",
        "--min-time",
        "TSTAR_MIN_TIME",
        "2000-01-01T00:00:00Z",
        Time,
        min_time_ms,
        parse_time,
        time,
        "Samples of an earlier device time are dead letters"
    ),
    setting!(
        "max_future",
        "--max-future",
        "TSTAR_MAX_FUTURE",
        "24h",
        Duration,
        max_future_ms,
        parse_duration,
        duration,
        "Samples further ahead of the log's clock are dead letters"
    ),
    setting!(
        "drop_ignition_off",
        "--drop-ignition-off",
        "TSTAR_DROP_IGNITION_OFF",
        "false",
        Flag,
        drop_ignition_off,
        flag,
        bool::to_string,
        "Drop samples that say the ignition is off"
    ),
    setting!(
        "min_speed",
        "--min-speed",
        "TSTAR_MIN_SPEED",
        "none",
        Number,
        min_speed_mps,
        speed,
        number,
        "Drop samples that report a lower speed, m/s"
    ),
    setting!(
        "max_accuracy",
        "--max-accuracy",
        "TSTAR_MAX_ACCURACY",
        "none",
        Number,
        max_accuracy_m,
        accuracy,
        number,
        "Drop samples that report a coarser fix, m"
    ),
    setting!(
        "map",
        "--map",
        "TSTAR_MAP",
        "",
        Text,
        map,
        fields,
        fields_text,
        "Names of the input's fields, such as device_id=vehicle,lat=/gps/lat"
    ),
    setting!(
        "speed_unit",
        "--speed-unit",
        "TSTAR_SPEED_UNIT",
        "mps",
        Text,
        speed_unit,
        speed_unit,
        speed_unit_text,
        "Unit of speeds: mps, kmh, mph or kn"
    ),
    setting!(
        "time_unit",
        "--time-unit",
        "TSTAR_TIME_UNIT",
        "ms",
        Text,
        time_unit,
        time_unit,
        time_unit_text,
        "Unit of integer times: s, ms, us or ns"
    ),
    setting!(
        "input_format",
        "--input-format",
        "TSTAR_INPUT_FORMAT",
        "none",
        Text,
        input_format,
        input_format,
        input_format_text,
        "Form of input files: ndjson or csv; none tells by the content"
    ),
    setting!(
        "flush_interval",
        "--flush-interval",
        "TSTAR_FLUSH_INTERVAL",
        "1s",
        Duration,
        flush_interval_ms,
        parse_duration,
        duration,
        "Least time between two writes of a trip"
    ),
    setting!(
        "max_staleness",
        "--max-staleness",
        "TSTAR_MAX_STALENESS",
        "30s",
        Duration,
        max_staleness_ms,
        parse_duration,
        duration,
        "Longest time that a change waits to be written, unless samples are set aside"
    ),
    setting!(
        "keep_changes",
        "--keep-changes",
        "TSTAR_KEEP_CHANGES",
        "100000",
        Count,
        keep_changes,
        count,
        u64::to_string,
        "How many events the table of changes keeps"
    ),
    setting!(
        "memory",
        "--memory",
        "TSTAR_MEMORY",
        "512MB",
        Size,
        memory,
        parse_size,
        size,
        "About how much memory an import takes; what is over goes to the disk"
    ),
    setting!(
        "settle",
        "--settle",
        "TSTAR_SETTLE",
        "1h",
        Duration,
        settle_ms,
        parse_duration,
        duration,
        "How long after end_time + max_gap a trip is still reported open"
    ),
];

/// Names of units, the first of each the one that is written.
const SPEED_UNITS: [(&str, SpeedUnit); 4] = [
    ("mps", SpeedUnit::MetresPerSecond),
    ("kmh", SpeedUnit::KilometresPerHour),
    ("mph", SpeedUnit::MilesPerHour),
    ("kn", SpeedUnit::Knots),
];

const TIME_UNITS: [(&str, TimeUnit); 4] = [
    ("s", TimeUnit::Seconds),
    ("ms", TimeUnit::Millis),
    ("us", TimeUnit::Micros),
    ("ns", TimeUnit::Nanos),
];

const INPUT_FORMATS: [(&str, Option<InputFormat>); 3] =
    [("none", None), ("ndjson", Some(InputFormat::Ndjson)), ("csv", Some(InputFormat::Csv))];

/// The choice of that name.
fn choose<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let chosen = choices.iter().find(|(name, _)| *name == text);
    chosen.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        format!("`{text}` is not one of {}", names.join(", "))
    })
}

/// The name of a choice.
fn chosen<T: Copy + PartialEq>(value: &T, choices: &[(&str, T)]) -> String {
    let found = choices.iter().find(|(_, other)| other == value);
    found.map(|(name, _)| (*name).to_owned()).unwrap_or_default()
}

fn speed_unit(text: &str) -> Result<SpeedUnit, String> {
    choose(text, &SPEED_UNITS)
}

fn speed_unit_text(unit: &SpeedUnit) -> String {
    chosen(unit, &SPEED_UNITS)
}

fn time_unit(text: &str) -> Result<TimeUnit, String> {
    choose(text, &TIME_UNITS)
}

fn time_unit_text(unit: &TimeUnit) -> String {
    chosen(unit, &TIME_UNITS)
}

fn input_format(text: &str) -> Result<Option<InputFormat>, String> {
    choose(text, &INPUT_FORMATS)
}

fn input_format_text(format: &Option<InputFormat>) -> String {
    chosen(format, &INPUT_FORMATS)
}

/// Read here too, so that a bad URL is told together with the other faults.
fn store(text: &str) -> Result<String, String> {
    StorePlace::parse(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

fn duration(duration_ms: &i64) -> String {
    format_duration(*duration_ms)
}

fn size(bytes: &u64) -> String {
    format_size(*bytes)
}

fn time(time_ms: &i64) -> String {
    format_time(*time_ms)
}

fn flag(text: &str) -> Result<bool, String> {
    choose(text, &[("true", true), ("false", false)])
}

fn count(text: &str) -> Result<u64, String> {
    let is_count = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let count = is_count.then(|| text.parse().ok()).flatten();
    count.ok_or_else(|| format!("`{text}` is not a whole number from 0 on"))
}

/// A number within bounds, or none.
fn optional(text: &str, most: f64) -> Result<Option<f64>, String> {
    if text == "none" {
        return Ok(None);
    }
    let number = text.parse().ok().filter(|number| (0.0..=most).contains(number));
    number.map(Some).ok_or_else(|| format!("`{text}` is not a number from 0 to {most}, or none"))
}

fn speed(text: &str) -> Result<Option<f64>, String> {
    optional(text, 1e3)
}

fn accuracy(text: &str) -> Result<Option<f64>, String> {
    optional(text, 1e8)
}

fn number(value: &Option<f64>) -> String {
    value.map_or_else(|| "none".into(), |value| value.to_string())
}

/// No text is no map.
fn fields(text: &str) -> Result<BTreeMap<String, String>, MapError> {
    if text.is_empty() { Ok(BTreeMap::new()) } else { parse_map(text) }
}

fn fields_text(fields: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = fields.iter().map(|(to, from)| format!("{to}={from}")).collect();
    pairs.join(",")
}

//! Parses and formats values of settings.

use std::collections::BTreeMap;

use super::size::format_size;
use super::{InputFormat, KeyRule};
use crate::kafka::options::shown;
use crate::model::partitioner::Partitioner;
use crate::model::rules::{SpeedUnit, TimeUnit};
use crate::model::time::{format_duration, format_time};
use crate::source::{MapError, parse_map};
use crate::store::{Consistency, StoreUrl};

/// Names of units; the first name of a unit is the one that is written.
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

const CONSISTENCIES: [(&str, Consistency); 3] = [
    ("local_quorum", Consistency::LocalQuorum),
    ("quorum", Consistency::Quorum),
    ("all", Consistency::All),
];

pub(super) fn consistency(text: &str) -> Result<Consistency, String> {
    choose(text, &CONSISTENCIES)
}

pub(super) fn consistency_text(consistency: &Consistency) -> String {
    chosen(consistency, &CONSISTENCIES)
}

pub(super) fn text(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.to_owned())
}

/// The choice with a name.
pub(super) fn choose<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let chosen = choices.iter().find(|(name, _)| *name == text);
    chosen.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        format!("`{text}` is not one of {}", names.join(", "))
    })
}

/// The name of a choice.
pub(super) fn chosen<T: Copy + PartialEq>(value: &T, choices: &[(&str, T)]) -> String {
    let found = choices.iter().find(|(_, other)| other == value);
    found.map(|(name, _)| (*name).to_owned()).unwrap_or_default()
}

pub(super) fn speed_unit(text: &str) -> Result<SpeedUnit, String> {
    choose(text, &SPEED_UNITS)
}

pub(super) fn speed_unit_text(unit: &SpeedUnit) -> String {
    chosen(unit, &SPEED_UNITS)
}

pub(super) fn time_unit(text: &str) -> Result<TimeUnit, String> {
    choose(text, &TIME_UNITS)
}

pub(super) fn time_unit_text(unit: &TimeUnit) -> String {
    chosen(unit, &TIME_UNITS)
}

pub(super) fn input_format(text: &str) -> Result<Option<InputFormat>, String> {
    choose(text, &INPUT_FORMATS)
}

pub(super) fn input_format_text(format: &Option<InputFormat>) -> String {
    chosen(format, &INPUT_FORMATS)
}

/// Validates the URL here as well, so that its faults are reported with all others.
pub(super) fn store(text: &str) -> Result<String, String> {
    StoreUrl::parse(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

pub(super) fn duration(duration_ms: &i64) -> String {
    format_duration(*duration_ms)
}

pub(super) fn size(bytes: &u64) -> String {
    format_size(*bytes)
}

pub(super) fn time(time_ms: &i64) -> String {
    format_time(*time_ms)
}

pub(super) fn flag(text: &str) -> Result<bool, String> {
    choose(text, &[("true", true), ("false", false)])
}

pub(super) fn count(text: &str) -> Result<u64, String> {
    let is_count = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let count = is_count.then(|| text.parse().ok()).flatten();
    count.ok_or_else(|| format!("`{text}` is not a whole number of at least 0"))
}

/// A number from 0 to `max`, or `none`.
pub(super) fn optional(text: &str, max: f64) -> Result<Option<f64>, String> {
    if text == "none" {
        return Ok(None);
    }
    let number = text.parse().ok().filter(|number| (0.0..=max).contains(number));
    number.map(Some).ok_or_else(|| format!("`{text}` is not a number from 0 to {max}, or none"))
}

pub(super) fn speed(text: &str) -> Result<Option<f64>, String> {
    optional(text, 1e3)
}

pub(super) fn accuracy(text: &str) -> Result<Option<f64>, String> {
    optional(text, 1e8)
}

pub(super) fn number(value: &Option<f64>) -> String {
    value.map_or_else(|| "none".into(), |value| value.to_string())
}

/// Parses a field map; empty text is an empty map.
pub(super) fn fields(text: &str) -> Result<BTreeMap<String, String>, MapError> {
    if text.is_empty() { Ok(BTreeMap::new()) } else { parse_map(text) }
}

pub(super) fn fields_text(fields: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = fields.iter().map(|(to, from)| format!("{to}={from}")).collect();
    pairs.join(",")
}

/// Format of a daemon's log on stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Plain text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

const LOG_FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];

pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    choose(text, &LOG_FORMATS)
}

pub(super) fn log_format_text(format: &LogFormat) -> String {
    chosen(format, &LOG_FORMATS)
}

const KEY_RULES: [(&str, KeyRule); 2] = [("device_id", KeyRule::DeviceId), ("any", KeyRule::Any)];

pub(super) fn key_rule(text: &str) -> Result<KeyRule, String> {
    choose(text, &KEY_RULES)
}

pub(super) fn key_rule_text(rule: &KeyRule) -> String {
    chosen(rule, &KEY_RULES)
}

/// Value for a partitioner that is detected from the records.
const AUTO: &str = "auto";

pub(super) fn partitioner(text: &str) -> Result<Option<Partitioner>, String> {
    if text == AUTO {
        return Ok(None);
    }
    let known = Partitioner::from_name(text).map(Some);
    known.ok_or_else(|| format!("`{text}` is not one of murmur2, crc32, none, {AUTO}"))
}

pub(super) fn partitioner_text(partitioner: &Option<Partitioner>) -> String {
    partitioner.map_or(AUTO, Partitioner::name).to_owned()
}

/// Text that is not empty.
pub(super) fn name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("it must not be empty".into()) } else { Ok(text.to_owned()) }
}

pub(super) fn optional_name(text: &str) -> Result<Option<String>, String> {
    if text == "none" { Ok(None) } else { name(text).map(Some) }
}

pub(super) fn optional_text(name: &Option<String>) -> String {
    name.clone().unwrap_or_else(|| "none".into())
}

/// Parses lines of `KEY=VALUE`; a value may contain anything but a line break.
pub(super) fn options(text: &str) -> Result<BTreeMap<String, String>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let pair = |line: &str| match line.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        // The line may be a part of a PEM key.
        _ => Err("a line is not KEY=VALUE (not shown, as it may be part of a secret)".into()),
    };
    lines.map(pair).collect()
}

/// Formats options; hides values that may be secrets.
pub(super) fn options_text(options: &BTreeMap<String, String>) -> String {
    let line = |(key, value): (&String, &String)| format!("{key}={}", shown(key, value));
    options.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Checks `host:port,host:port`; the client validates the rest.
pub(super) fn brokers(text: &str) -> Result<String, String> {
    if text.contains('@') {
        return Err("a broker is host:port; set the login with sasl.username and sasl.password \
                    in kafka"
            .into());
    }
    name(text)
}

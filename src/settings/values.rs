//! Syntaxes of the values of settings.

use std::collections::BTreeMap;
use std::time::Duration;

use super::KeyRule;
use super::schema::{self, SchemaFile};
use super::setting::{Kind, Syntax};
use super::size::{format_size, parse_size};
use crate::kafka::options::{CODE_OPTIONS, option_within, shown};
use crate::model::nearest::nearest;
use crate::model::partitioner::Partitioner;
use crate::model::preset::{PRESETS, Preset};
use crate::model::reading::ReadingKind;
use crate::model::rules::{AmbiguousTime, SpeedUnit, TimeUnit};
use crate::model::scalar::DeviceTime;
use crate::model::schema::Encoding;
use crate::model::text_encoding::TextEncoding;
use crate::model::time::{format_duration, format_time, parse_duration, parse_time};
use crate::model::zone::Zone;
use crate::registry::RegistryUrl;
use crate::source::file::InputFormat;
use crate::source::parse_map;
use crate::store::{Consistency, Kinds, StoreUrl};

/// The syntax of a value with a name; the first name of a value is the one that is written.
macro_rules! choice {
    ($choices:expr) => {
        Syntax {
            kind: Kind::Text,
            read: |text| choose(text, &$choices),
            write: |value| chosen(value, &$choices),
        }
    };
}

pub(super) const TEXT: Syntax<String> =
    Syntax { kind: Kind::Text, read: |text| Ok(text.to_owned()), write: String::clone };

/// Text that is not empty.
pub(super) const NAME: Syntax<String> =
    Syntax { kind: Kind::Text, read: name, write: String::clone };

/// Maximum length of the name of a consumer group, bytes.
const MAX_GROUP: usize = 255;

/// The name of a consumer group, which the store keeps: one that no client can join is refused.
pub(super) const GROUP: Syntax<String> = Syntax {
    read: |text| match name(text)? {
        group if group.len() > MAX_GROUP => {
            Err(format!("it has {} bytes; write a name of at most {MAX_GROUP}", group.len()))
        }
        group if group.trim() != group || group.contains(char::is_control) => Err(format!(
            "{group:?} has a control character, or begins or ends with a blank; write a name \
             without"
        )),
        group => Ok(group),
    },
    ..NAME
};

pub(super) const OPTIONAL_NAME: Syntax<Option<String>> = Syntax {
    kind: Kind::Text,
    read: |text| if text == "none" { Ok(None) } else { name(text).map(Some) },
    write: |name| name.clone().unwrap_or_else(|| "none".into()),
};

/// IANA name of a time zone.
pub(super) const TIME_ZONE: Syntax<Option<String>> = Syntax {
    read: |text| {
        let zone = (OPTIONAL_NAME.read)(text)?;
        zone.as_deref().map(Zone::from_name).transpose().map_err(|error| error.to_string())?;
        Ok(zone)
    },
    ..OPTIONAL_NAME
};

/// IANA name of the time zone of output.
pub(super) const ZONE: Syntax<Zone> = Syntax {
    kind: Kind::Text,
    read: |text| Zone::from_name(text).map_err(|error| error.to_string()),
    write: Zone::to_string,
};

/// Milliseconds.
pub(super) const DURATION: Syntax<i64> = Syntax {
    kind: Kind::Duration,
    read: |text| parse_duration(text).map_err(|error| error.to_string()),
    write: |duration_ms| format_duration(*duration_ms),
};

/// A duration that no rule has, which are in milliseconds.
pub(super) const TIMEOUT: Syntax<Duration> = Syntax {
    kind: Kind::Duration,
    read: |text| (DURATION.read)(text).map(|ms| Duration::from_millis(ms.unsigned_abs())),
    write: |duration| format_duration(ms(*duration)),
};

/// Milliseconds, or `off`.
pub(super) const MIN_STOP: Syntax<Option<i64>> = Syntax {
    kind: Kind::Duration,
    read: |text| if text == OFF { Ok(None) } else { (DURATION.read)(text).map(Some) },
    write: |duration_ms| duration_ms.map_or_else(|| OFF.into(), format_duration),
};

const OFF: &str = "off";

/// A duration in milliseconds.
pub(super) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Milliseconds since 1970.
pub(super) const TIME: Syntax<DeviceTime> = Syntax {
    kind: Kind::Time,
    read: |text| parse_time(text).map(DeviceTime).map_err(|error| error.to_string()),
    write: |time_ms| format_time(time_ms.ms()),
};

pub(super) const COUNT: Syntax<u64> =
    Syntax { kind: Kind::Count, read: count, write: u64::to_string };

/// Bytes.
pub(super) const SIZE: Syntax<u64> =
    Syntax { kind: Kind::Size, read: parse_size, write: |bytes| format_size(*bytes) };

pub(super) const FLAG: Syntax<bool> =
    Syntax { kind: Kind::Flag, ..choice!([("true", true), ("false", false)]) };

/// m/s.
pub(super) const SPEED: Syntax<Option<f64>> =
    Syntax { kind: Kind::Number, read: |text| optional(text, ReadingKind::Speed), write: number };

/// m/s.
pub(super) const STOP_SPEED: Syntax<f64> = Syntax {
    kind: Kind::Number,
    read: |text| number_of(text, ReadingKind::Speed),
    write: f64::to_string,
};

/// m.
pub(super) const ACCURACY: Syntax<Option<f64>> = Syntax {
    kind: Kind::Number,
    read: |text| optional(text, ReadingKind::Accuracy),
    write: number,
};

pub(super) const SPEED_UNIT: Syntax<SpeedUnit> = choice!(SpeedUnit::NAMES);

pub(super) const TIME_UNIT: Syntax<TimeUnit> = choice!(TimeUnit::NAMES);

pub(super) const TIME_AMBIGUOUS: Syntax<Option<AmbiguousTime>> = choice!(AmbiguousTime::NAMES);

/// Name of a preset.
pub(super) const PRESET: Syntax<Option<&'static Preset>> = Syntax {
    kind: Kind::Text,
    read: preset,
    write: |preset| preset.map_or("none", |preset| preset.name).into(),
};

pub(super) const ENCODING: Syntax<Encoding> = choice!(Encoding::NAMES);

/// The path of a schema file, which is read.
pub(super) const SCHEMA: Syntax<Option<SchemaFile>> =
    Syntax { kind: Kind::Text, read: schema::read, write: schema::path_of };

/// Validates the URL here as well, so that its faults are reported with all others.
pub(super) const REGISTRY: Syntax<String> = Syntax {
    kind: Kind::Text,
    read: |text| match text.is_empty() {
        true => Ok(String::new()),
        false => RegistryUrl::parse(text).map(|url| url.to_string()),
    },
    write: String::clone,
};

pub(super) const INPUT_FORMAT: Syntax<Option<InputFormat>> = choice!(InputFormat::NAMES);

/// Encoding of text, by a name of the Encoding Standard.
pub(super) const TEXT_ENCODING: Syntax<Option<TextEncoding>> = Syntax {
    kind: Kind::Text,
    read: |text| match text {
        "none" => Ok(None),
        _ => TextEncoding::from_name(text).map(Some).ok_or_else(|| {
            format!(
                "`{text}` is not an encoding; write cp1252, latin1, utf-8 or another WHATWG name"
            )
        }),
    },
    write: |encoding| encoding.map_or_else(|| "none".into(), TextEncoding::name),
};

pub(super) const CONSISTENCY: Syntax<Consistency> = choice!([
    ("local_quorum", Consistency::LocalQuorum),
    ("quorum", Consistency::Quorum),
    ("all", Consistency::All),
]);

pub(super) const KEY_RULE: Syntax<KeyRule> =
    choice!([("device_id", KeyRule::DeviceId), ("any", KeyRule::Any)]);

pub(super) const LOG_FORMAT: Syntax<LogFormat> =
    choice!([("text", LogFormat::Text), ("json", LogFormat::Json)]);

pub(super) const KINDS: Syntax<Kinds> = Syntax {
    kind: Kind::Text,
    read: |text| Kinds::from_name(text).ok_or_else(|| format!("`{text}` is not trip, stop or all")),
    write: |kinds| kinds.name().to_owned(),
};

/// `None` is a partitioner that is detected from the records.
pub(super) const PARTITIONER: Syntax<Option<Partitioner>> =
    Syntax { kind: Kind::Text, read: partitioner, write: partitioner_text };

/// Validates the URL here as well, so that its faults are reported with all others.
pub(super) const STORE: Syntax<String> = Syntax {
    kind: Kind::Text,
    read: |text| match StoreUrl::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    },
    write: String::clone,
};

/// Brokers as `host:port,host:port`.
pub(super) const BROKERS: Syntax<String> =
    Syntax { kind: Kind::Text, read: brokers, write: String::clone };

/// librdkafka options; values that may be secrets are not written.
pub(super) const OPTIONS: Syntax<BTreeMap<String, String>> =
    Syntax { kind: Kind::Lines, read: options, write: options_text };

/// A field map; empty text is an empty map.
pub(super) const FIELD_MAP: Syntax<BTreeMap<String, String>> =
    Syntax { kind: Kind::Text, read: fields, write: fields_text };

/// The choice with a name.
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

fn count(text: &str) -> Result<u64, String> {
    let is_count = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let count = is_count.then(|| text.parse().ok()).flatten();
    count.ok_or_else(|| format!("`{text}` is not a whole number of at least 0"))
}

/// As [`number_of`], or `none`.
fn optional(text: &str, kind: ReadingKind) -> Result<Option<f64>, String> {
    if text == "none" {
        return Ok(None);
    }
    number_of(text, kind).map(Some).map_err(|error| format!("{error}, or none"))
}

/// A number from 0 to the largest value that a sample can have.
fn number_of(text: &str, kind: ReadingKind) -> Result<f64, String> {
    let max = kind.in_units(kind.quanta_range().1);
    let number = text.parse().ok().filter(|number| (0.0..=max).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a number from 0 to {max}"))
}

fn number(value: &Option<f64>) -> String {
    value.map_or_else(|| "none".into(), |value| value.to_string())
}

fn fields(text: &str) -> Result<BTreeMap<String, String>, String> {
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    parse_map(text).map_err(|error| error.to_string())
}

fn fields_text(fields: &BTreeMap<String, String>) -> String {
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

/// Value for a partitioner that is detected from the records.
const AUTO: &str = "auto";

fn partitioner(text: &str) -> Result<Option<Partitioner>, String> {
    if text == AUTO {
        return Ok(None);
    }
    let known = Partitioner::from_name(text).map(Some);
    known.ok_or_else(|| format!("`{text}` is not one of murmur2, crc32, none, {AUTO}"))
}

fn preset(text: &str) -> Result<Option<&'static Preset>, String> {
    let known = Preset::by_name(text);
    if text == "none" || known.is_some() {
        return Ok(known);
    }
    let hint = nearest(text, PRESETS.iter().map(|preset| preset.name));
    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    Err(format!("`{text}` is not one of the presets {}{hint}", names.join(", ")))
}

fn partitioner_text(partitioner: &Option<Partitioner>) -> String {
    partitioner.map_or(AUTO, Partitioner::name).to_owned()
}

fn name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("it must not be empty".into()) } else { Ok(text.to_owned()) }
}

/// Parses lines of `KEY=VALUE`; a value may contain anything but a line break.
fn options(text: &str) -> Result<BTreeMap<String, String>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let pair = |line: &str| match line.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            if let Some((_, why)) = CODE_OPTIONS.iter().find(|(name, _)| *name == key) {
                return Err(format!("`{key}` cannot be set: {why}"));
            }
            match option_within(&value) {
                None => Ok((key, value)),
                Some(other) => Err(format!(
                    "`{key}` and `{other}` are in one line; give each option a line, or a --kafka \
                     KEY=VALUE, of its own"
                )),
            }
        }
        // The line may be a part of a PEM key.
        _ => Err("a line is not KEY=VALUE (not shown, as it may be part of a secret)".into()),
    };
    lines.map(pair).collect()
}

/// Formats options; hides values that may be secrets.
fn options_text(options: &BTreeMap<String, String>) -> String {
    let line = |(key, value): (&String, &String)| format!("{key}={}", shown(key, value));
    options.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Checks `host:port,host:port`: the client takes `9092a` for 9092, and 99999 for a number below
/// 65536.
fn brokers(text: &str) -> Result<String, String> {
    if text.contains('@') {
        return Err("a broker is host:port; set the login with sasl.username and sasl.password \
                    in kafka"
            .into());
    }
    text.split(',').map(str::trim).filter(|broker| !broker.is_empty()).try_for_each(broker)?;
    name(text)
}

fn broker(text: &str) -> Result<(), String> {
    if let Some((scheme, rest)) = text.split_once("://") {
        return Err(format!(
            "`{text}` is not host:port: write {rest} without {scheme}://; TLS and logins are set \
             with security.protocol in kafka"
        ));
    }
    if text.contains(|c: char| c.is_whitespace() || c == ';' || c == '/') {
        return Err(format!("`{text}` is not host:port; separate brokers with commas"));
    }
    // An IPv6 address is in brackets.
    let host_end = text.rfind(']').unwrap_or(0);
    let Some((_, port)) = text[host_end..].rsplit_once(':') else { return Ok(()) };
    match port.parse::<u16>() {
        Ok(1..) if !port.starts_with('+') => Ok(()),
        _ => Err(format!("`{text}`: `{port}` is not a port: a number from 1 to 65535")),
    }
}

//! The settings that decide trips, in one struct with one hash.
//!
//! A store records the rules it was built with. Other rules give other trips for the same log, so a
//! store with other rules is refused with an error that lists every difference.
//!
//! ```
//! use tstar_core::model::limits::ClockViolation;
//! use tstar_core::{DeviceTime, LogTime, Rules};
//!
//! let rules = Rules { max_gap_ms: 600_000, ..Rules::default() };
//! assert_eq!(rules.segments().max_gap_ms, 600_000);
//! // A device whose clock starts at 1970.
//! let log_time_ms = LogTime(1_795_210_680_123);
//! let judged = rules.guard().judge(DeviceTime(0), log_time_ms);
//! assert_eq!(judged, Err(ClockViolation::BeforeMin));
//! // Other rules have another hash.
//! assert_ne!(rules.hash(), Rules::default().hash());
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::limits::{
    ClockGuard, FixFilter, LegFilter, MAX_GAP_RANGE, MAX_SAMPLES_RANGE, MIN_STOP_RANGE,
    STOP_SPEED_RANGE, SegmentRules,
};
use super::schema::{Encoding, SchemaSource};
pub use super::units::{SpeedUnit, TimeUnit};
use crate::model::scalar::DeviceTime;
use crate::model::time::{format_duration, format_time};

/// Which of two times a local time is that occurs twice, as clocks are put back in autumn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AmbiguousTime {
    /// The first one.
    Earlier,
    /// The second one.
    Later,
    /// The one that is nearer to the latest record of the device before it in the file.
    Order,
}

impl AmbiguousTime {
    /// All values, with their names in settings; `None`: such a time cannot be used.
    pub const NAMES: [(&str, Option<Self>); 4] = [
        ("none", None),
        ("earlier", Some(Self::Earlier)),
        ("later", Some(Self::Later)),
        ("order", Some(Self::Order)),
    ];
}

/// How samples are quantised. Fixed in each tstar version.
const QUANTISATION: &str = "ms,1e-7deg,0.01mps,0.1deg,0.1m";

/// Form of the path blobs that are written.
const BLOB: u32 = 1;

/// Everything that determines the trips of a log.
///
/// Unknown rules are an error: a program that ignored one would decide other trips than the program
/// that stored it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// A longer silence ends a trip, ms.
    pub max_gap_ms: i64,
    /// Standing at least this long ends a trip, ms; none: standing alone ends none.
    pub min_stop_ms: Option<i64>,
    /// A vehicle stands while it reports a lower speed; in 0.01 m/s.
    pub stop_speed_cmps: i32,
    /// No trip keeps more samples than this.
    pub max_samples: u32,
    /// Earliest device time accepted, ms since 1970.
    pub min_time_ms: DeviceTime,
    /// How far a device time may lie past the log timestamp, ms.
    pub max_future_ms: i64,
    /// Less accurate fixes are dropped; in 0.1 m.
    pub max_accuracy_dm: Option<i32>,
    /// Maps a canonical field name to the field's source in the input; also says what is a sample.
    pub fields: BTreeMap<String, String>,
    /// Unit of integer times.
    pub time_unit: TimeUnit,
    /// Unit of speeds.
    pub speed_unit: SpeedUnit,
    /// How the values of records are encoded.
    pub decode: Encoding,
    /// The schema of every record; unset: each record names its own in a registry.
    pub schema: Option<SchemaSource>,
    /// The protobuf message of every record, in `schema`; unset: the only one.
    pub message: Option<String>,
    /// What the key of a log record must be: `device_id` or `any`.
    pub key: String,
    /// How samples are quantised.
    pub quantisation: String,
    /// Version of the path blob.
    pub blob: u32,
    /// Samples with latitude and longitude 0 are dropped.
    pub drop_zero_position: bool,
    /// Faster legs do not count for distance and average speed; in 0.01 m/s.
    pub max_leg_speed_cmps: Option<i32>,
    /// Name and version of the preset that these rules were expanded from, such as `traccar/1`.
    pub preset: Option<String>,
    /// IANA name of the zone of local times; none: local times are not read.
    pub time_zone: Option<String>,
    /// Format of times that are text, as in strftime; none: ISO 8601.
    pub time_format: Option<String>,
    /// Version of the tables by which `time_zone` is applied, such as `2025b`; none without a zone.
    pub zone_tables: Option<String>,
    /// How a local time is read that occurs twice; none: it is not. Absent in older stores, whose
    /// hash stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ambiguous: Option<AmbiguousTime>,
    /// Encoding of text that is not UTF-8; none: windows-1252. Absent as the rule before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}

impl Default for Rules {
    /// The rules of a new store.
    fn default() -> Self {
        let (limits, guard) = (SegmentRules::default(), ClockGuard::default());
        Self {
            max_gap_ms: limits.max_gap_ms,
            min_stop_ms: limits.min_stop_ms,
            stop_speed_cmps: limits.stop_speed_cmps,
            max_samples: 100_000,
            min_time_ms: guard.min_time_ms,
            max_future_ms: guard.max_future_ms,
            max_accuracy_dm: None,
            fields: BTreeMap::new(),
            time_unit: TimeUnit::default(),
            speed_unit: SpeedUnit::default(),
            decode: Encoding::default(),
            schema: None,
            message: None,
            key: "device_id".into(),
            quantisation: QUANTISATION.into(),
            blob: BLOB,
            drop_zero_position: true,
            max_leg_speed_cmps: None,
            preset: None,
            time_zone: None,
            time_format: None,
            zone_tables: None,
            time_ambiguous: None,
            encoding: None,
        }
    }
}

impl Rules {
    /// The rules that part samples into trips and stops.
    #[must_use]
    pub fn segments(&self) -> SegmentRules {
        SegmentRules {
            max_gap_ms: self.max_gap_ms,
            min_stop_ms: self.min_stop_ms,
            stop_speed_cmps: self.stop_speed_cmps,
            max_samples: self.max_samples as usize,
        }
    }

    /// Checks the rules that decide about samples. Those of tstar's settings pass; with others,
    /// arithmetic may overflow.
    ///
    /// # Errors
    /// The name of a rule, its value and its range.
    pub fn check(&self) -> Result<(), String> {
        if self.quantisation != QUANTISATION {
            let given = &self.quantisation;
            return Err(format!("quantisation is `{given}`; this version has `{QUANTISATION}`"));
        }
        let optional = |value: Option<i32>| value.map_or(0, i64::from);
        let ranges = [
            ("max_gap_ms", self.max_gap_ms, MAX_GAP_RANGE),
            ("min_stop_ms", self.min_stop_ms.unwrap_or(1), MIN_STOP_RANGE),
            ("stop_speed_cmps", self.stop_speed_cmps.into(), STOP_SPEED_RANGE),
            ("max_samples", self.max_samples.into(), MAX_SAMPLES_RANGE),
            ("max_future_ms", self.max_future_ms, (0, i64::MAX)),
            ("max_accuracy_dm", optional(self.max_accuracy_dm), (0, i32::MAX.into())),
            ("max_leg_speed_cmps", optional(self.max_leg_speed_cmps), (0, i32::MAX.into())),
            ("blob", self.blob.into(), (BLOB.into(), BLOB.into())),
        ];
        let wrong = ranges.into_iter().find(|(_, value, (min, max))| value < min || value > max);
        wrong.map_or(Ok(()), |(name, value, (min, max))| {
            Err(format!("{name} is {value}; it must be {min} to {max}"))
        })
    }

    /// Whether records name their schemas, by the ids of a registry.
    #[must_use]
    pub fn names_schemas(&self) -> bool {
        matches!(self.decode, Encoding::Avro | Encoding::Protobuf) && self.schema.is_none()
    }

    /// Whether the key of a record is its device id.
    #[must_use]
    pub fn is_keyed_by_device(&self) -> bool {
        self.key == "device_id"
    }

    /// The clock guard.
    #[must_use]
    pub fn guard(&self) -> ClockGuard {
        ClockGuard { min_time_ms: self.min_time_ms, max_future_ms: self.max_future_ms }
    }

    /// Which fixes are bad.
    #[must_use]
    pub fn fixes(&self) -> FixFilter {
        FixFilter {
            max_accuracy_dm: self.max_accuracy_dm,
            drop_zero_position: self.drop_zero_position,
        }
    }

    /// Which legs of a path count for its length.
    #[must_use]
    pub fn legs(&self) -> LegFilter {
        LegFilter { max_speed_cmps: self.max_leg_speed_cmps, stop_speed_cmps: self.stop_speed_cmps }
    }

    /// The rules as one line of JSON, in the field order of this struct. This form is stored and
    /// hashed.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("rules are plain data")
    }

    /// Parses what [`Rules::to_json`] returned.
    ///
    /// # Errors
    /// It is something else, or a later version wrote it.
    pub fn from_json(json: &str) -> Result<Self, UnknownRules> {
        serde_json::from_str(json).map_err(UnknownRules)
    }

    /// SHA-256 of [`Rules::to_json`], lower-case hex.
    #[must_use]
    pub fn hash(&self) -> String {
        hex_of(&self.to_json())
    }

    /// Lists each rule that differs, as `name: the store has A, requested B`, with the names and
    /// units of the settings.
    #[must_use]
    pub fn differences(&self, requested: &Self) -> Vec<String> {
        let fields = |rules: &Self| match serde_json::to_value(rules) {
            Ok(Value::Object(fields)) => fields,
            _ => unreachable!("rules are an object"),
        };
        let (stored, requested) = (fields(self), fields(requested));
        let names: BTreeSet<_> = stored.keys().chain(requested.keys()).collect();
        let text = |rules: &Map<String, Value>, name: &str| match rules.get(name) {
            Some(Value::Object(of)) if of.contains_key("text") => {
                format!("SHA-256 {}", hex_of(&rules[name].to_string()))
            }
            None | Some(Value::Null) => "none".to_owned(),
            Some(value) => in_unit(name, value).unwrap_or_else(|| value.to_string()),
        };
        let differs = names.into_iter().filter(|&name| stored.get(name) != requested.get(name));
        differs
            .map(|name| {
                let (stored, requested) = (text(&stored, name), text(&requested, name));
                let unit = UNITS.iter().find_map(|unit| name.strip_suffix(unit));
                let name = unit.unwrap_or(name);
                format!("{name}: the store has {stored}, requested {requested}")
            })
            .collect()
    }
}

/// Units in which rules are stored, at the end of their names.
const UNITS: [&str; 3] = ["_ms", "_cmps", "_dm"];

/// A number as its setting is written; `None` if it has no unit.
fn in_unit(name: &str, value: &Value) -> Option<String> {
    let number = value.as_i64()?;
    #[expect(clippy::cast_precision_loss, reason = "speeds and accuracies are far below 2^53")]
    let number_of = |parts: f64| (number as f64 / parts).to_string();
    let unit = UNITS.into_iter().find(|unit| name.ends_with(unit))?;
    Some(match unit {
        "_ms" if name == "min_time_ms" => format_time(number),
        "_ms" => format_duration(number),
        "_cmps" => number_of(100.0),
        _ => number_of(10.0),
    })
}

fn hex_of(text: &str) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(text))
}

/// Stored rules that this version of tstar does not know.
#[derive(Debug, thiserror::Error)]
#[error("this version of tstar does not know these rules; use the version that wrote them")]
pub struct UnknownRules(#[source] serde_json::Error);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_covers_every_rule_and_survives_a_round_trip() {
        let rules = Rules { preset: Some("traccar/1".into()), ..Rules::default() };
        let read = Rules::from_json(&rules.to_json()).unwrap();
        assert_eq!(read, rules);
        assert_eq!(read.hash(), rules.hash());
        let other = Rules { max_gap_ms: 600_000, ..rules.clone() };
        assert_ne!(other.hash(), rules.hash());
        let differences = rules.differences(&other);
        assert_eq!(differences, ["max_gap: the store has 5m, requested 10m"]);
    }

    #[test]
    fn differences_are_in_the_units_of_the_settings() {
        let other = Rules {
            min_time_ms: DeviceTime(1_704_067_200_000),
            max_future_ms: 90_000,
            max_samples: 7,
            min_stop_ms: None,
            stop_speed_cmps: 160,
            max_accuracy_dm: Some(1000),
            ..Rules::default()
        };
        let differences = Rules::default().differences(&other);
        let expected = [
            "max_accuracy: the store has none, requested 100",
            "max_future: the store has 24h, requested 90s",
            "max_samples: the store has 100000, requested 7",
            "min_stop: the store has 5m, requested none",
            "min_time: the store has 2000-01-01T00:00:00.000Z, requested 2024-01-01T00:00:00.000Z",
            "stop_speed: the store has 0.5, requested 1.6",
        ];
        assert_eq!(differences, expected);
    }

    #[test]
    fn rules_of_a_later_version_are_refused() {
        let json = Rules::default().to_json();
        let with = |rule: &str| format!("{},{rule}}}", json.trim_end_matches('}'));
        let unknown = Rules::from_json(&with(r#""min_stops":3"#)).unwrap_err();
        let source = std::error::Error::source(&unknown).unwrap().to_string();
        assert!(source.contains("unknown field `min_stops`"), "{source}");
    }

    #[test]
    fn differences_are_short() {
        let (text, references) = ("{}".to_owned(), Vec::new());
        let schema = Some(SchemaSource { text, references });
        let preset = Some("traccar/1".to_owned());
        let other = Rules { decode: Encoding::Avro, schema, preset, ..Rules::default() };
        let [decode, preset, schema] = &Rules::default().differences(&other)[..] else { panic!() };
        assert_eq!(decode, "decode: the store has \"json\", requested \"avro\"");
        assert_eq!(preset, "preset: the store has none, requested \"traccar/1\"");
        assert!(schema.starts_with("schema: the store has none, requested SHA-256"), "{schema}");
        assert_eq!(other.differences(&other), [""; 0]);
    }
}

//! The settings that decide trips, in one struct with one hash.
//!
//! A store records the rules it was built with. Other rules give other trips for the same log, so a
//! store with other rules is refused with an error that lists every difference.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::limits::{ClockGuard, LegFilter, Limits, MovementFilter};
use super::schema::{Encoding, SchemaSource};
use crate::model::scalar::DeviceTime;

/// Unit of integer times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeUnit {
    /// Seconds since 1970.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds since 1970.
    #[default]
    #[serde(rename = "ms")]
    Millis,
    /// Microseconds since 1970.
    #[serde(rename = "us")]
    Micros,
    /// Nanoseconds since 1970.
    #[serde(rename = "ns")]
    Nanos,
}

/// Unit of speeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpeedUnit {
    /// Metres per second.
    #[default]
    #[serde(rename = "mps")]
    MetresPerSecond,
    /// Kilometres per hour.
    #[serde(rename = "kmh")]
    KilometresPerHour,
    /// Miles per hour.
    #[serde(rename = "mph")]
    MilesPerHour,
    /// Nautical miles per hour.
    #[serde(rename = "kn")]
    Knots,
}

impl TimeUnit {
    /// All units, with their names in settings.
    pub const NAMES: [(&str, Self); 4] =
        [("s", Self::Seconds), ("ms", Self::Millis), ("us", Self::Micros), ("ns", Self::Nanos)];

    /// The name in settings and rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.into_iter().find(|(_, unit)| *unit == self);
        named.expect("every unit has a name").0
    }
}

impl SpeedUnit {
    /// All units, with their names in settings.
    pub const NAMES: [(&str, Self); 4] = [
        ("mps", Self::MetresPerSecond),
        ("kmh", Self::KilometresPerHour),
        ("mph", Self::MilesPerHour),
        ("kn", Self::Knots),
    ];

    /// The name in settings and rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.into_iter().find(|(_, unit)| *unit == self);
        named.expect("every unit has a name").0
    }
}

/// How samples are quantised. Fixed in each tstar version.
const QUANTISATION: &str = "ms,1e-7deg,0.01mps,0.1deg,0.1m";

/// [`Rules::reading`] of rules that were stored without it.
const FIRST_READING: u32 = 1;

/// The values of rules that are left out of the JSON, as error messages show them. An optional rule
/// needs no entry: it is shown as `none`.
const LEFT_OUT: [(&str, &str); 3] =
    [("decode", "\"json\""), ("drop_zero_position", "false"), ("reading", "1")];

/// Everything that determines the trips of a log.
///
/// A rule that was added later is left out of the JSON at the value that keeps the behaviour from
/// before it, so that the rules of older stores keep their JSON and their hash. Unknown rules are
/// an error: a program that ignored one would decide other trips than the program that stored it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Samples at most this far apart share a trip, ms.
    pub max_gap_ms: i64,
    /// No trip spans more than this, ms.
    pub max_duration_ms: i64,
    /// No trip keeps more samples than this.
    pub max_samples: u32,
    /// Earliest device time accepted, ms since 1970.
    pub min_time_ms: DeviceTime,
    /// How far a device time may lie past the log timestamp, ms.
    pub max_future_ms: i64,
    /// Samples with the ignition off are dropped.
    pub drop_ignition_off: bool,
    /// Slower samples are dropped; in 0.01 m/s.
    pub min_speed_cmps: Option<i32>,
    /// Less accurate fixes are dropped; in 0.1 m.
    pub max_accuracy_dm: Option<i32>,
    /// Maps a canonical field name to the field's source in the input; also says what is a sample.
    pub fields: BTreeMap<String, String>,
    /// Unit of integer times.
    pub time_unit: TimeUnit,
    /// Unit of speeds.
    pub speed_unit: SpeedUnit,
    /// How the values of records are encoded.
    #[serde(default, skip_serializing_if = "Encoding::is_json")]
    pub decode: Encoding,
    /// The schema of every record; unset: each record names its own in a registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<SchemaSource>,
    /// The protobuf message of every record, in `schema`; unset: the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the key of a log record must be: `device_id` or `any`.
    pub key: String,
    /// How samples are quantised.
    pub quantisation: String,
    /// Version of the path blob.
    pub blob: u32,
    /// Samples with latitude and longitude 0 are dropped. A store from before this rule keeps them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub drop_zero_position: bool,
    /// Faster legs do not count for distance and average speed; in 0.01 m/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_leg_speed_cmps: Option<i32>,
    /// Version of how values and field maps are read, from 1 to [`Rules::NEWEST_READING`]: what one
    /// version cannot read stays a dead letter in its stores.
    #[serde(
        default = "first_reading",
        skip_serializing_if = "is_first_reading",
        deserialize_with = "known_reading"
    )]
    pub reading: u32,
    /// Name and version of the preset that these rules were expanded from, such as `traccar/1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// IANA name of the zone of local times; none: local times are not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Format of times that are text, as in strftime; none: ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_format: Option<String>,
    /// Version of the tables by which `time_zone` is applied, such as `2025b`; none without a zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_tables: Option<String>,
}

fn first_reading() -> u32 {
    FIRST_READING
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first_reading(reading: &u32) -> bool {
    *reading == FIRST_READING
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

fn known_reading<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let reading = u32::deserialize(deserializer)?;
    if (FIRST_READING..=Rules::NEWEST_READING).contains(&reading) {
        return Ok(reading);
    }
    let newest = Rules::NEWEST_READING;
    Err(D::Error::custom(format!(
        "reading {reading} is not known; this version knows 1 to {newest}"
    )))
}

impl Default for Rules {
    /// The rules of a new store.
    fn default() -> Self {
        let (limits, guard) = (Limits::default(), ClockGuard::default());
        Self {
            max_gap_ms: limits.max_gap_ms,
            max_duration_ms: limits.max_duration_ms,
            max_samples: 100_000,
            min_time_ms: guard.min_time_ms,
            max_future_ms: guard.max_future_ms,
            drop_ignition_off: false,
            min_speed_cmps: None,
            max_accuracy_dm: None,
            fields: BTreeMap::new(),
            time_unit: TimeUnit::default(),
            speed_unit: SpeedUnit::default(),
            decode: Encoding::default(),
            schema: None,
            message: None,
            key: "device_id".into(),
            quantisation: QUANTISATION.into(),
            blob: 1,
            drop_zero_position: true,
            max_leg_speed_cmps: None,
            reading: Self::NEWEST_READING,
            preset: None,
            time_zone: None,
            time_format: None,
            zone_tables: None,
        }
    }
}

impl Rules {
    /// The newest [`Rules::reading`], which new stores get.
    pub const NEWEST_READING: u32 = 2;

    /// The limits that the timeline needs.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            max_gap_ms: self.max_gap_ms,
            max_duration_ms: self.max_duration_ms,
            max_samples: self.max_samples as usize,
        }
    }

    /// Whether records name their schemas, by the ids of a registry.
    #[must_use]
    pub fn names_schemas(&self) -> bool {
        matches!(self.decode, Encoding::Avro | Encoding::Protobuf) && self.schema.is_none()
    }

    /// The clock guard.
    #[must_use]
    pub fn guard(&self) -> ClockGuard {
        ClockGuard { min_time_ms: self.min_time_ms, max_future_ms: self.max_future_ms }
    }

    /// The boundary predicates.
    #[must_use]
    pub fn movement(&self) -> MovementFilter {
        MovementFilter {
            needs_ignition: self.drop_ignition_off,
            min_speed_cmps: self.min_speed_cmps,
            max_accuracy_dm: self.max_accuracy_dm,
            drop_zero_position: self.drop_zero_position,
        }
    }

    /// Which legs of a path count for its length.
    #[must_use]
    pub fn legs(&self) -> LegFilter {
        LegFilter { max_speed_cmps: self.max_leg_speed_cmps }
    }

    /// The rules as one line of JSON, in the field order of this struct. This form is stored and
    /// hashed.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("rules are plain data")
    }

    /// Parses what [`Rules::to_json`] returned, in this version of tstar or an earlier one.
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

    /// Lists each rule that differs, as `name: the store has A, requested B`.
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
            Some(value) => value.to_string(),
            None => {
                let old = LEFT_OUT.iter().find(|(left_out, _)| *left_out == name);
                old.map_or("none", |(_, value)| value).to_owned()
            }
        };
        let differs = names.into_iter().filter(|&name| stored.get(name) != requested.get(name));
        differs
            .map(|name| {
                let (stored, requested) = (text(&stored, name), text(&requested, name));
                format!("{name}: the store has {stored}, requested {requested}")
            })
            .collect()
    }
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

    /// Rules as tstar stored them before `reading`, byte for byte, and their hash.
    const EARLIER: [(&str, &str); 2] = [
        (
            concat!(
                r#"{"max_gap_ms":300000,"max_duration_ms":86400000,"max_samples":100000,"#,
                r#""min_time_ms":946684800000,"max_future_ms":86400000,"drop_ignition_off":false,"#,
                r#""min_speed_cmps":null,"max_accuracy_dm":null,"fields":{},"time_unit":"ms","#,
                r#""speed_unit":"mps","key":"device_id","#,
                r#""quantisation":"ms,1e-7deg,0.01mps,0.1deg,0.1m","blob":1}"#,
            ),
            "69cf8217d279bfd6d2176d2f2e5b2382ebd610edda1b77de9b633b7db84b4eae",
        ),
        (
            concat!(
                r#"{"max_gap_ms":600000,"max_duration_ms":86400000,"max_samples":100000,"#,
                r#""min_time_ms":946684800000,"max_future_ms":86400000,"drop_ignition_off":true,"#,
                r#""min_speed_cmps":150,"max_accuracy_dm":505,"fields":{"lat":"/gps/lat","time":"at"},"#,
                r#""time_unit":"s","speed_unit":"kmh","key":"any","#,
                r#""quantisation":"ms,1e-7deg,0.01mps,0.1deg,0.1m","blob":1}"#,
            ),
            "1262d9a3e43ac7c35652a6bfb2c91e8194763ed27da1e7122ed159a6d84a4b2d",
        ),
    ];

    #[test]
    fn the_hash_covers_every_rule_and_survives_a_round_trip() {
        let rules = Rules { preset: Some("traccar/1".into()), ..Rules::default() };
        let read = Rules::from_json(&rules.to_json()).unwrap();
        assert_eq!(read, rules);
        assert_eq!(read.hash(), rules.hash());
        let other = Rules { max_gap_ms: 600_000, ..rules.clone() };
        assert_ne!(other.hash(), rules.hash());
        let differences = rules.differences(&other);
        assert_eq!(differences, ["max_gap_ms: the store has 300000, requested 600000"]);
    }

    #[test]
    fn rules_of_an_earlier_version_keep_their_json_and_hash() {
        for (json, hash) in EARLIER {
            let read = Rules::from_json(json).unwrap();
            assert_eq!((read.reading, &read.preset), (1, &None));
            assert!(!read.movement().drop_zero_position);
            assert_eq!(read.legs(), LegFilter::default());
            assert_eq!(read.to_json(), json);
            assert_eq!(read.hash(), hash);
        }
        let earlier = Rules::from_json(EARLIER[0].0).unwrap();
        let then = Rules { reading: 1, drop_zero_position: false, ..Rules::default() };
        assert_eq!(earlier, then, "the defaults of then");
    }

    #[test]
    fn rules_that_one_side_leaves_out_are_compared() {
        let earlier = Rules { reading: 1, ..Rules::default() };
        let newer = Rules { preset: Some("traccar/1".into()), ..Rules::default() };
        let differences = [
            r#"preset: the store has none, requested "traccar/1""#,
            "reading: the store has 1, requested 2",
        ];
        assert_eq!(earlier.differences(&newer), differences);
        let back = [
            r#"preset: the store has "traccar/1", requested none"#,
            "reading: the store has 2, requested 1",
        ];
        assert_eq!(newer.differences(&earlier), back);
    }

    #[test]
    fn rules_of_a_later_version_are_refused() {
        let json = Rules::default().to_json();
        let with = |rule: &str| format!("{},{rule}}}", json.trim_end_matches('}'));
        let unknown = Rules::from_json(&with(r#""min_stops":3"#)).unwrap_err();
        let source = std::error::Error::source(&unknown).unwrap().to_string();
        assert!(source.contains("unknown field `min_stops`"), "{source}");
        let later = json.replace(r#""reading":2"#, r#""reading":3"#);
        assert_ne!(later, json);
        let source = Rules::from_json(&later).unwrap_err();
        let source = std::error::Error::source(&source).unwrap().to_string();
        assert!(source.contains("reading 3 is not known; this version knows 1 to 2"), "{source}");
    }

    #[test]
    fn a_rule_at_its_old_value_is_no_part_of_the_hash() {
        let (text, references) = ("{}".to_owned(), Vec::new());
        let schema = Some(SchemaSource { text, references });
        let other = Rules { decode: Encoding::Avro, schema, ..Rules::default() };
        for name in ["decode", "schema", "message"] {
            assert!(!Rules::default().to_json().contains(name), "{name}");
        }
        let differences = Rules::default().differences(&other);
        assert_eq!(differences[0], "decode: the store has \"json\", requested \"avro\"");
        assert!(differences[1].starts_with("schema: the store has none, requested SHA-256"));
        assert_eq!(other.differences(&other), [""; 0]);
    }
}

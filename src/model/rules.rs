//! The settings that decide trips, in one struct with one hash.
//!
//! A store records the rules it was built with. Other rules give other trips for the same log, so a
//! store with other rules is refused with an error that lists every difference.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::limits::{ClockGuard, Limits, MovementFilter};
use super::schema::{Encoding, SchemaSource};

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

/// How samples are quantised. Fixed in each tstar version.
const QUANTISATION: &str = "ms,1e-7deg,0.01mps,0.1deg,0.1m";

/// Everything that determines the trips of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Samples at most this far apart share a trip, ms.
    pub max_gap_ms: i64,
    /// No trip spans more than this, ms.
    pub max_duration_ms: i64,
    /// No trip keeps more samples than this.
    pub max_samples: u32,
    /// Earliest device time accepted, ms since 1970.
    pub min_time_ms: i64,
    /// How far a device time may lie past the log timestamp, ms.
    pub max_future_ms: i64,
    /// Samples with the ignition off are dropped.
    pub drop_ignition_off: bool,
    /// Slower samples are dropped; in 0.01 m/s.
    pub min_speed_cmps: Option<i32>,
    /// Less accurate fixes are dropped; in 0.1 m.
    pub max_accuracy_dm: Option<i32>,
    /// Maps a canonical field name to the field's name or JSON Pointer in the input.
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
}

impl Default for Rules {
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
        }
    }
}

impl Rules {
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
        }
    }

    /// The rules as one line of JSON, in the field order of this struct. This form is stored and
    /// hashed.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("rules are plain data")
    }

    /// SHA-256 of [`Rules::to_json`], lower-case hex.
    #[must_use]
    pub fn hash(&self) -> String {
        hex_of(self.to_json())
    }

    /// Lists each rule that differs, as `name: the store has A, requested B`.
    #[must_use]
    pub fn differences(&self, requested: &Self) -> Vec<String> {
        let fields = |rules: &Self| match serde_json::to_value(rules) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => unreachable!("rules are an object"),
        };
        let (stored, requested) = (fields(self), fields(requested));
        let names: BTreeSet<_> = stored.keys().chain(requested.keys()).collect();
        let differs = names.into_iter().filter(|name| stored.get(*name) != requested.get(*name));
        // A rule at its old value is left out of the JSON.
        let shown = |value: Option<&serde_json::Value>| match value {
            None => "its default".to_owned(),
            Some(serde_json::Value::Object(of)) if of.contains_key("text") => {
                format!("SHA-256 {}", hex_of(value.expect("matched").to_string()))
            }
            Some(value) => value.to_string(),
        };
        differs
            .map(|name| {
                let (stored, requested) = (shown(stored.get(name)), shown(requested.get(name)));
                format!("{name}: the store has {stored}, requested {requested}")
            })
            .collect()
    }
}

fn hex_of(text: String) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_covers_every_rule_and_survives_a_round_trip() {
        let rules = Rules::default();
        let read: Rules = serde_json::from_str(&rules.to_json()).unwrap();
        assert_eq!(read, rules);
        assert_eq!(read.hash(), rules.hash());
        let other = Rules { max_gap_ms: 600_000, ..Rules::default() };
        assert_ne!(other.hash(), rules.hash());
        let differences = rules.differences(&other);
        assert_eq!(differences, ["max_gap_ms: the store has 300000, requested 600000"]);
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
        assert_eq!(differences[0], "decode: the store has its default, requested \"avro\"");
        assert!(differences[1].starts_with("schema: the store has its default, requested SHA-256"));
        assert_eq!(other.differences(&other), [""; 0]);
    }
}

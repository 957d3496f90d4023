//! The settings that decide trips, in one struct with one hash.
//!
//! A store records the rules it was built with. Other rules give other trips for the same log, so a
//! store with other rules is refused with an error that lists every difference.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::limits::{ClockGuard, Limits, MovementFilter};
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
    pub min_time_ms: DeviceTime,
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
        data_encoding::HEXLOWER.encode(&Sha256::digest(self.to_json()))
    }

    /// Lists each rule that differs, as `name: the store has A, requested B`.
    #[must_use]
    pub fn differences(&self, requested: &Self) -> Vec<String> {
        let fields = |rules: &Self| match serde_json::to_value(rules) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => unreachable!("rules are an object"),
        };
        let (stored, requested) = (fields(self), fields(requested));
        let differs = stored.iter().filter(|(name, value)| requested.get(*name) != Some(value));
        differs
            .map(|(name, value)| {
                format!("{name}: the store has {value}, requested {}", requested[name])
            })
            .collect()
    }
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
}

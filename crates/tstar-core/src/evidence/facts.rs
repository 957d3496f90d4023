//! What a trip is said to be.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::codec::{self, trip_row::TripRow};
use crate::identity::TripId;
use crate::model::scalar::{DeviceTime, Version};
use crate::timeline::distance_dm;

/// What a trip or stop is said to be: its id and all ids that it absorbed, its span, its path by
/// its hash, and what follows from that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TripFacts {
    /// Device id.
    pub device_id: String,
    /// Its text id.
    pub id: String,
    /// `trip` or `stop`.
    pub kind: String,
    /// Device time of its first sample, ms.
    pub start_ms: DeviceTime,
    /// Device time of its last sample, ms.
    pub end_ms: DeviceTime,
    /// Number of its samples.
    pub samples: usize,
    /// Version of the last record that changed it.
    pub version: Version,
    /// Each mint point with its history.
    pub ids: Vec<(DeviceTime, Vec<Version>)>,
    /// SHA-256 of the message of its path, hex. It has every sample, with its log position.
    pub path_sha256: String,
    /// Its length, 0.1 m.
    pub distance_dm: i64,
    /// How long it moves, ms.
    pub moving_ms: Option<i64>,
    /// How long it stands with the ignition on, ms.
    pub idle_ms: Option<i64>,
    /// How long its ignition is off, ms.
    pub parked_ms: i64,
    /// Its first driver.
    pub driver: Option<String>,
    /// Number of its jumps.
    pub jumps: Option<i32>,
}

/// A fact that does not follow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Name of the fact.
    pub fact: String,
    /// What is said.
    pub said: Value,
    /// What follows; null if there is no such trip.
    pub follows: Value,
}

impl TripFacts {
    /// The facts of a row. One whose path is damaged has the hash of nothing.
    #[must_use]
    pub fn from_row(row: &TripRow) -> Self {
        let id = TripId::new(row.device_id.as_str(), row.t_star_ms).and_then(|id| id.text());
        let message = codec::message(&row.path).unwrap_or_default();
        Self {
            device_id: row.device_id.clone(),
            id: id.unwrap_or_default(),
            kind: row.kind.name().to_owned(),
            start_ms: row.start_ms,
            end_ms: row.end_ms,
            samples: usize::try_from(row.samples).unwrap_or_default(),
            version: row.version,
            ids: row.ids.iter().map(|(at, history)| (*at, history.clone())).collect(),
            path_sha256: HEXLOWER.encode(&Sha256::digest(&message)),
            distance_dm: distance_dm(row.distance_m),
            moving_ms: row.moving_ms,
            idle_ms: row.idle_ms,
            parked_ms: row.parked_ms,
            driver: row.driver.clone(),
            jumps: row.jumps,
        }
    }

    /// How these facts differ from those that follow, if any trip does.
    pub(super) fn differences(&self, found: Option<&Self>) -> Vec<Difference> {
        let fields = |facts: &Self| match serde_json::to_value(facts) {
            Ok(Value::Object(fields)) => fields,
            _ => unreachable!("facts are an object"),
        };
        let Some(found) = found else {
            let said = self.id.as_str().into();
            return vec![Difference { fact: "id".into(), said, follows: Value::Null }];
        };
        let mut follows = fields(found);
        let said = fields(self).into_iter();
        let pairs = said.map(|(fact, said)| {
            let follows = follows.remove(&fact).unwrap_or_default();
            Difference { fact, said, follows }
        });
        pairs.filter(|it| it.said != it.follows).collect()
    }
}

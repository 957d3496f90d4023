//! A store beside one that was built anew from the same log.
//!
//! | file | what happens there |
//! |---|---|
//! | `day` | the rows of one device and day beside those that should be there; pure |
//! | [`anew`] | a store built anew from the log, to compare with |
//! | [`compare`] | every day of both stores, and what is done about a difference |
//! | [`ids`] | two stores of one log, built by other rules: which trips and ids are the same |
//!
//! The store that is right is a file without a name. The other one may be written to meanwhile: a
//! row that is newer than the log was read to is looked at only for what it has to contain.

pub mod compare;
mod day;
pub mod ids;
pub mod reference;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::identity::TripId;
use crate::model::time::format_time;
use crate::timeline::DAY_MS;

pub use compare::Comparison;

/// What may be wrong with a row of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A trip that the log makes is not there.
    Missing,
    /// A trip is there that the log does not make.
    Extra,
    /// A trip has other values than the log gives it.
    Different,
    /// A trip that the log does not make covers times of another one.
    Overlapping,
    /// Somebody else wrote the row: it has no version.
    NoVersion,
    /// A copy of a trip is missing or different, and one in another day is right.
    Copy,
    /// A day of a device stands in none, or in one, of the two lists of days.
    Unlisted,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Missing,
        Self::Extra,
        Self::Different,
        Self::Overlapping,
        Self::NoVersion,
        Self::Copy,
        Self::Unlisted,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Different => "different",
            Self::Overlapping => "overlapping",
            Self::NoVersion => "no_version",
            Self::Copy => "copy",
            Self::Unlisted => "unlisted",
        }
    }
}

/// One thing that is wrong in one day of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What is wrong.
    pub kind: Kind,
    /// Device id.
    pub device_id: String,
    /// The day, as whole days since 1970.
    pub day: i64,
    /// Start and end of the trip, ms; `None` where it is about the day.
    pub span_ms: Option<(i64, i64)>,
    /// Identity time of the trip, ms, where the row has one.
    pub t_star_ms: Option<i64>,
    /// Columns that differ.
    pub columns: Vec<&'static str>,
    /// The version that the log gives the trip, where it makes one.
    pub version: Option<i64>,
}

impl Difference {
    /// As one line of a report: `different truck-17~... in 2026-11-20: version, path`.
    #[must_use]
    pub fn line(&self) -> String {
        let day = format_time(self.day * DAY_MS);
        let day = day.split('T').next().unwrap_or_default();
        let id = self.id();
        let what = id.as_deref().unwrap_or(&self.device_id);
        let columns = self.columns.join(", ");
        let colon = if columns.is_empty() { "" } else { ": " };
        format!("{} {what} in {day}{colon}{columns}", self.kind.name())
    }

    fn id(&self) -> Option<String> {
        let t_star_ms = self.t_star_ms?;
        TripId::new(&*self.device_id, t_star_ms).ok()?.text().ok()
    }

    /// As an object of a report.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let time = |ms: Option<i64>| ms.map(format_time);
        serde_json::json!({
            "kind": self.kind,
            "device_id": self.device_id,
            "day": format_time(self.day * DAY_MS),
            "id": self.id(),
            "start_time": time(self.span_ms.map(|span| span.0)),
            "end_time": time(self.span_ms.map(|span| span.1)),
            "columns": self.columns,
        })
    }
}

/// Up to where the log was read, as versions, by partition.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// The version of the last record that was read.
    pub last: BTreeMap<i32, i64>,
    /// The version of the last record that there is: no row is newer.
    pub limit: BTreeMap<i32, i64>,
}

impl Bounds {
    /// Whether a row of a partition may be newer than what was read, and is.
    fn is_ahead(&self, partition: Option<i32>, version: i64) -> bool {
        let of = |bound: &BTreeMap<i32, i64>| partition.and_then(|at| bound.get(&at).copied());
        of(&self.last).is_some_and(|last| version > last)
            && of(&self.limit).is_some_and(|limit| version <= limit)
    }

    /// Whether a record is newer than what was read of its partition; where that is not known, of
    /// any partition. Versions of different partitions have no order.
    fn is_newer(&self, partition: Option<i32>, version: i64) -> bool {
        match partition {
            Some(partition) => self.last.get(&partition).is_some_and(|last| version > *last),
            None => self.last.values().any(|last| version > *last),
        }
    }
}

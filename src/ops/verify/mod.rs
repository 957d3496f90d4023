//! Verify: compares a store with a reference store that is rebuilt from the same log
//! ([`crate::log::reference`]).
//!
//! | file | what it does |
//! |---|---|
//! | `day` | compares the rows of one device and day with the expected ones; pure |
//! | [`compare`] | compares every day of both stores and repairs differences |
//! | [`ids`] | compares trips and ids of two stores of one log with other rules |
//! | `request` | runs a verification and reports the result |
//!
//! The reference store is an unnamed file. The other store may be written to during the comparison:
//! of a row that is newer than the end of what was read, only the part that was read is checked.

pub mod compare;
mod day;
pub mod ids;
mod request;

use serde::Serialize;

use crate::identity::TripId;
use crate::model::named::named;
use crate::model::scalar::{Day, DeviceTime, Version};
use crate::model::time::format_time;

pub use compare::Comparison;
pub use request::verify;
pub(crate) use request::{VerifyReport, VerifyRequest, open_store};

named! {
    /// Kind of a difference between a store and its log.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    DifferenceKind {
        /// A trip of the log is not in the store.
        Missing = "missing",
        /// A trip of the store does not follow from the log.
        Extra = "extra",
        /// A trip has other values than the log gives.
        Different = "different",
        /// A trip that does not follow from the log covers times of another one.
        Overlapping = "overlapping",
        /// The row has no version: another program wrote it.
        NoVersion = "no_version",
        /// The copy of a trip in this day is missing or different; a copy in another day is right.
        Copy = "copy",
        /// A day of a device is missing in one or both of the day indexes.
        Unlisted = "unlisted",
    }
}

/// A difference in one day of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Kind of the difference.
    pub kind: DifferenceKind,
    /// Device id.
    pub device_id: String,
    /// The day, as whole days since 1970.
    pub day: Day,
    /// Start and end of the trip, ms; `None` if the day itself differs.
    pub span_ms: Option<(DeviceTime, DeviceTime)>,
    /// Identity time of the trip, ms; `None` if the row has none.
    pub t_star_ms: Option<DeviceTime>,
    /// Columns that differ.
    pub columns: Vec<&'static str>,
    /// Version of the trip according to the log; `None` if the log gives no such trip.
    pub version: Option<Version>,
}

impl Difference {
    /// Formats a line of a report: `different truck-17~... in 2026-11-20: version, path`.
    #[must_use]
    pub fn line(&self) -> String {
        let day = format_time(self.day.start_ms().ms());
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

    /// Formats an object of a report.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let time = |time: Option<DeviceTime>| time.map(|time| format_time(time.ms()));
        serde_json::json!({
            "kind": self.kind,
            "device_id": self.device_id,
            "day": format_time(self.day.start_ms().ms()),
            "id": self.id(),
            "start_time": time(self.span_ms.map(|span| span.0)),
            "end_time": time(self.span_ms.map(|span| span.1)),
            "columns": self.columns,
        })
    }
}

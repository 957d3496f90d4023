//! Converts the entries of a history for output.

use serde::Serialize;

use super::history::{Effect, HistoryEntry};
use crate::identity::TripId;
use crate::model::scalar::Offset;
use crate::model::time::format_time;

/// A sample of a trip and its effect. Clients parse it: names and order are fixed.
#[derive(Clone, Debug, Serialize)]
pub struct RecordExplanation {
    /// Partition number, from 0; null for files.
    pub partition: Option<i32>,
    /// Offset of the record; for files, the number of the record, from 0.
    pub offset: Offset,
    /// Index in a record that is an array.
    pub element: Option<u32>,
    /// Path of the file; null for a topic.
    pub file: Option<String>,
    /// Line of the file, from 1; null for a topic.
    pub line: Option<u64>,
    /// Log timestamp.
    pub log_time: String,
    /// Device time.
    pub time: String,
    /// Log timestamp minus device time, s.
    pub late_s: f64,
    /// How far the device time is behind the latest one of the trip up to then, s.
    pub behind_s: f64,
    /// Name of the effect.
    pub effect: &'static str,
    /// Whether it is a duplicate that differs from the kept sample.
    pub conflicting: bool,
    /// Text id of the trip after the sample.
    pub trip: String,
    /// Text id that the sample retired; null if none.
    pub retired: Option<String>,
}

impl RecordExplanation {
    pub(super) fn new(
        device_id: &str,
        entry: &HistoryEntry,
        is_of_files: bool,
    ) -> anyhow::Result<Self> {
        let text_id = |t_star_ms| TripId::new(device_id, t_star_ms)?.text();
        Ok(Self {
            partition: (!is_of_files).then_some(entry.partition),
            offset: entry.offset,
            element: entry.element,
            file: is_of_files.then(|| entry.origin.to_string()),
            line: is_of_files.then_some(entry.line),
            log_time: format_time(entry.log_time_ms.ms()),
            time: format_time(entry.time_ms.ms()),
            late_s: seconds(entry.log_time_ms.ms() - entry.time_ms.ms()),
            behind_s: seconds(entry.behind_ms),
            effect: entry.effect.name(),
            conflicting: entry.effect == Effect::Duplicate { conflicting: true },
            trip: text_id(entry.t_star_ms)?,
            retired: match entry.effect {
                Effect::Merged { retired_ms } => Some(text_id(retired_ms)?),
                _ => None,
            },
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "times stay far below 2^53")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1e3
}

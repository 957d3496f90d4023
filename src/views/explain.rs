//! The history of a trip, from its row alone: each version is a log position.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::ViewError;
use super::trip_json::{Match, text_id};
use crate::codec::trip_row::TripRow;
use crate::model::epoch::{Epoch, Versions};
use crate::model::scalar::{DeviceTime, Offset, Version};
use crate::model::time::format_time;
use crate::timeline::Path;

/// A position in the log. Clients parse this and the types below: names and order are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LogPosition {
    /// The version at this position.
    pub version: i64,
    /// Number of the epoch; null for files, and for an epoch that the store does not know.
    pub epoch: Option<i32>,
    /// Partition number, from 0; null for files, and if the topic had another partition count then.
    pub partition: Option<i32>,
    /// Offset in the partition; for files, the number of the record, from 0.
    pub offset: Option<i64>,
}

/// The sample that minted a trip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Minted {
    /// Device time of the sample.
    #[schema(format = DateTime)]
    pub time: String,
    /// Log position of its record.
    #[serde(flatten)]
    pub log_position: LogPosition,
}

/// An id that a merge retired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Absorbed {
    /// Text id.
    pub id: String,
    /// Log position of the record whose sample merged the two trips.
    #[serde(flatten)]
    pub log_position: LogPosition,
}

/// What became of an id of a trip, and by which sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct IdEvent {
    /// Text id.
    pub id: String,
    /// `minted`, `retired` by a merge, or `revived` by a split.
    pub event: &'static str,
    /// Device time of the sample; null if it is of another trip or stop now.
    #[schema(format = DateTime)]
    pub time: Option<String>,
    /// Log position of its record.
    #[serde(flatten)]
    pub log_position: LogPosition,
}

/// The history of a trip, from its row.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Explanation {
    /// Text id.
    pub id: String,
    /// The id of the request, as the client wrote it.
    pub requested_id: String,
    /// How the requested id relates to the trip.
    #[serde(rename = "match")]
    pub matched: Match,
    /// The merge that retired the requested id; null if the id is not retired.
    pub retired: Option<LogPosition>,
    /// Device id.
    pub device_id: String,
    /// Time of the first sample.
    #[schema(format = DateTime)]
    pub start_time: String,
    /// Time of the last sample.
    #[schema(format = DateTime)]
    pub end_time: String,
    /// Number of samples.
    pub samples: i32,
    /// The first-arrived sample, which minted the trip.
    pub minted: Minted,
    /// The ids that merges retired, ordered by their time.
    pub absorbed: Vec<Absorbed>,
    /// Log position of the last change.
    pub last_change: LogPosition,
    /// What became of the ids of the trip, in the order of the log.
    pub history: Vec<IdEvent>,
}

impl Explanation {
    /// The history in `row`, for a request of `requested_id`, whose time is `t_star_ms`. `epochs`
    /// are those of the store, oldest first; empty for a log of files.
    ///
    /// # Errors
    /// An id of the trip has no text form.
    pub(crate) fn from_row(
        row: &TripRow,
        requested_id: &str,
        t_star_ms: DeviceTime,
        epochs: &[Epoch],
    ) -> Result<Self, ViewError> {
        let absorbed = row.absorbed().map(|(t_star_ms, version)| {
            let id = text_id(&row.device_id, t_star_ms)?;
            Ok(Absorbed { id, log_position: log_position(version, row, epochs) })
        });
        let retired = row.retired_at(t_star_ms);
        Ok(Self {
            id: text_id(&row.device_id, row.t_star_ms)?,
            requested_id: requested_id.to_owned(),
            matched: Match::classify(t_star_ms, row),
            retired: retired.map(|version| log_position(version, row, epochs)),
            device_id: row.device_id.clone(),
            start_time: format_time(row.start_ms.ms()),
            end_time: format_time(row.end_ms.ms()),
            samples: row.samples,
            minted: Minted {
                time: format_time(row.t_star_ms.ms()),
                log_position: log_position(row.minted(), row, epochs),
            },
            absorbed: absorbed.collect::<Result<_, ViewError>>()?,
            last_change: log_position(row.version, row, epochs),
            history: id_events(row, epochs)?,
        })
    }
}

/// The events of all ids of `row`. The times come from its path; a malformed one has none.
fn id_events(row: &TripRow, epochs: &[Epoch]) -> Result<Vec<IdEvent>, ViewError> {
    let path = row.to_path().ok();
    let samples = path.iter().flat_map(Path::iter).map(|it| (it.version, it.time_ms));
    let times: BTreeMap<Version, DeviceTime> = samples.collect();
    let mut events = Vec::new();
    for (&t_star_ms, versions) in &row.ids {
        let id = text_id(&row.device_id, t_star_ms)?;
        for (nth, &version) in versions.iter().enumerate() {
            let event = match nth {
                0 => "minted",
                _ if nth % 2 == 1 => "retired",
                _ => "revived",
            };
            let time = times.get(&version).map(|time_ms| format_time(time_ms.ms()));
            let log_position = log_position(version, row, epochs);
            events.push(IdEvent { id: id.clone(), event, time, log_position });
        }
    }
    events.sort_by_key(|event| event.log_position.version);
    Ok(events)
}

/// The log position of a version of `row`. The row names the partition.
fn log_position(version: Version, row: &TripRow, epochs: &[Epoch]) -> LogPosition {
    if epochs.is_empty() {
        let offset = Some(Versions::of_files().offset_of(version));
        return LogPosition {
            version: version.get(),
            epoch: None,
            partition: None,
            offset: offset.map(Offset::get),
        };
    }
    let epoch_of = |version: Version| epochs.iter().rev().find(|epoch| epoch.base <= version);
    let (Some(epoch), Some(latest)) = (epoch_of(version), epoch_of(row.version)) else {
        return LogPosition { version: version.get(), epoch: None, partition: None, offset: None };
    };
    let partition = (epoch.partitions == latest.partitions).then_some(row.partition);
    let offset = Some((version - epoch.base) / 2);
    LogPosition { version: version.get(), epoch: Some(epoch.epoch), partition, offset }
}

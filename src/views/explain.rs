//! How a trip came to be, by its row alone: versions are places in the log.

use serde::Serialize;
use utoipa::ToSchema;

use super::SurfaceError;
use super::trip_json::{Match, text_id};
use crate::model::epoch::{Epoch, Versions};
use crate::model::time::format_time;
use crate::store::TripRow;

/// A place in the log. Others parse it, as all that follows: names and order are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LogPosition {
    /// The version.
    pub version: i64,
    /// Null for files, and for an epoch that the store does not know.
    pub epoch: Option<i32>,
    /// Null for files, and where the topic had another number of partitions then.
    pub partition: Option<i32>,
    /// Offset in the partition; of files, which of their records, from 0.
    pub offset: Option<i64>,
}

/// The sample that minted a trip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Minted {
    /// Device time of the sample.
    pub time: String,
    /// Where it stands.
    #[serde(flatten)]
    pub place: LogPosition,
}

/// An id that a merge retired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Absorbed {
    /// The id.
    pub id: String,
    /// Where the sample stands that merged the two.
    #[serde(flatten)]
    pub place: LogPosition,
}

/// How a trip came to be, by its row.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Explanation {
    /// Text id.
    pub id: String,
    /// The id that was asked for.
    pub requested_id: String,
    /// How that lies in the trip.
    #[serde(rename = "match")]
    pub matched: Match,
    /// The merge that retired the requested id; null where none did.
    pub retired: Option<LogPosition>,
    /// Device id.
    pub device_id: String,
    /// Time of the first sample.
    pub start_time: String,
    /// Time of the last sample.
    pub end_time: String,
    /// How many samples.
    pub samples: i32,
    /// The sample that minted it.
    pub minted: Minted,
    /// The ids that merges retired, by time.
    pub absorbed: Vec<Absorbed>,
    /// The sample that changed it last.
    pub last_change: LogPosition,
}

impl Explanation {
    /// What a row tells to who asked for `requested_id`, whose time is `t_star_ms`, under these
    /// epochs of its store, oldest first; none are files.
    ///
    /// # Errors
    /// An id of the trip has no text form.
    pub fn from_row(
        row: &TripRow,
        requested_id: &str,
        t_star_ms: i64,
        epochs: &[Epoch],
    ) -> Result<Self, SurfaceError> {
        let absorbed = row.absorbed.iter().map(|(&t_star_ms, &version)| {
            let id = text_id(&row.device_id, t_star_ms)?;
            Ok(Absorbed { id, place: log_position(version, row, epochs) })
        });
        let retired = row.absorbed.get(&t_star_ms);
        Ok(Self {
            id: text_id(&row.device_id, row.t_star_ms)?,
            requested_id: requested_id.to_owned(),
            matched: Match::classify(t_star_ms, row),
            retired: retired.map(|&version| log_position(version, row, epochs)),
            device_id: row.device_id.clone(),
            start_time: format_time(row.start_ms),
            end_time: format_time(row.end_ms),
            samples: row.samples,
            minted: Minted {
                time: format_time(row.t_star_ms),
                place: log_position(row.minted, row, epochs),
            },
            absorbed: absorbed.collect::<Result<_, SurfaceError>>()?,
            last_change: log_position(row.version, row, epochs),
        })
    }
}

/// Where a version stands, seen from a row of that partition.
fn log_position(version: i64, row: &TripRow, epochs: &[Epoch]) -> LogPosition {
    if epochs.is_empty() {
        let offset = Some(Versions::of_files().offset_of(version));
        return LogPosition { version, epoch: None, partition: None, offset };
    }
    let of = |version: i64| epochs.iter().rev().find(|epoch| epoch.base <= version);
    let (Some(epoch), Some(latest)) = (of(version), of(row.version)) else {
        return LogPosition { version, epoch: None, partition: None, offset: None };
    };
    let partition = (epoch.partitions == latest.partitions).then_some(row.partition);
    let offset = Some((version - epoch.base) / 2);
    LogPosition { version, epoch: Some(epoch.epoch), partition, offset }
}

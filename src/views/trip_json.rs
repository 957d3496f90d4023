//! A trip as JSON: names, order and units of the contract. An absent value is null, never omitted.

use serde::Serialize;
use utoipa::ToSchema;

use super::simplify::simplify_between;
use super::tag_json::TagValues;
use super::{ViewError, path_marks, simplify};
use crate::codec::trip_fields::trip_fields;
use crate::codec::trip_row::TripRow;
use crate::identity::TripId;
use crate::model::scalar::DeviceTime;
use crate::model::time::format_time;
use crate::model::units::seconds;
use crate::model::zone::Zone;
use crate::timeline::{Path, ReadingKind, Sample};

macro_rules! define_trip {
    (($row:ident, $zone:ident, $text_id:ident), $($(#[$meta:meta])* $name:ident: $type:ty,
        $columns:tt = $value:expr;)*) => {
        /// A trip, keys in the order of the contract.
        #[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
        pub struct TripJson {
            $($(#[$meta])* pub $name: $type,)*
            /// The samples, if requested.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub path: Option<PathJson>,
        }

        impl TripJson {
            /// The trip of a row, without its path.
            ///
            /// # Errors
            /// An id of the trip has no text form.
            pub fn from_row(row: &TripRow) -> Result<Self, ViewError> {
                Self::in_zone(row, Zone::UTC)
            }

            /// The trip of a row, without its path, with the times of a zone: for people.
            ///
            /// # Errors
            /// An id of the trip has no text form.
            pub fn in_zone($row: &TripRow, $zone: Zone) -> Result<Self, ViewError> {
                let $text_id =
                    |row: &TripRow, at: DeviceTime| text_id(&row.device_id, at);
                Ok(Self { $($name: $value,)* path: None })
            }
        }
    };
}

trip_fields!(define_trip);

/// A position, degrees.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct LatLon {
    /// Latitude, positive to the north.
    pub lat: f64,
    /// Longitude, positive to the east.
    pub lon: f64,
}

/// The samples of a trip as columns of equal length, and what stands out among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct PathJson {
    /// Device times.
    #[schema(format = DateTime)]
    pub times: Vec<String>,
    /// Positions as [longitude, latitude], degrees.
    pub coordinates: Vec<[f64; 2]>,
    /// Reported speeds, m/s.
    pub speed_mps: Vec<Option<f64>>,
    /// Reported headings, degrees clockwise from north.
    pub heading_deg: Vec<Option<f64>>,
    /// Whether the ignition is on.
    pub ignition: Vec<Option<bool>>,
    /// Times of both ends of each jump, at most 1000: the fastest. All of them are in the path.
    pub jumps: Vec<[String; 2]>,
    /// First and last time of each late part, at most 1000: the longest. Its samples arrived after
    /// a later one.
    pub late: Vec<[String; 2]>,
}

/// How the time of an id relates to the trip that covers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Match {
    /// The time is the trip's `t_star`.
    Current,
    /// A merge retired the id.
    Retired,
    /// Neither: a time inside the trip.
    Covers,
}

impl Match {
    /// How the time `t_star_ms` of an id relates to the trip `row`, which covers it.
    #[must_use]
    pub fn classify(t_star_ms: DeviceTime, row: &TripRow) -> Self {
        if row.t_star_ms == t_star_ms {
            Self::Current
        } else if row.retired_at(t_star_ms).is_some() {
            Self::Retired
        } else {
            Self::Covers
        }
    }

    /// The name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Retired => "retired",
            Self::Covers => "covers",
        }
    }
}

/// The time and the way to a trip or stop from the one before it, which no sample shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Silence {
    /// Time since the last sample before it, ms.
    pub duration_ms: i64,
    /// Great-circle distance from there, m.
    pub distance_m: f64,
}

/// Fields of an answer that depend on the request; unset ones are omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Extras {
    /// The tags of the trip, by key: those that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<TagValues>,
    /// Whether the trip may still grow at its end, by the reader's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
    /// The id of the request, as the client wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_id: Option<String>,
    /// How that id relates to the trip.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matched: Option<Match>,
    /// Whether a merge retired that id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged: Option<bool>,
    /// In answers of `tstar run`: true if the trip comes from its memory and is newer than the
    /// store, false if it comes from the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fresh: Option<bool>,
    /// Time since the last sample before it, s, if requested; null for the first of its device.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub silence_s: Option<Option<f64>>,
    /// Great-circle distance from there, m, to 0.1, if requested; null for the first of its device.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub silence_m: Option<Option<f64>>,
    /// Name of the instance that owns the device, if that is known to be another one: it may know
    /// more than the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

impl Extras {
    /// Adds the silence before it; `None` if nothing is before it.
    pub(crate) fn set_silence(&mut self, silence: Option<Silence>) {
        let metres = |it: Silence| (it.distance_m * 10.0).round() / 10.0;
        self.silence_s = Some(silence.map(|it| seconds(it.duration_ms)));
        self.silence_m = Some(silence.map(metres));
    }

    /// The tags alone.
    #[must_use]
    pub fn tagged(tags: TagValues) -> Self {
        Self { tags: Some(tags), ..Self::default() }
    }
}

/// A trip as the answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer<'a> {
    /// The trip.
    #[serde(flatten)]
    pub trip: TripJson,
    /// The fields that depend on the request.
    #[serde(flatten)]
    pub extras: &'a Extras,
}

/// Whether a trip may still grow at its end, by the reader's clock.
#[must_use]
pub fn is_open(row: &TripRow, max_gap_ms: i64, settle_ms: i64, now_ms: i64) -> bool {
    row.end_ms.saturating_add(max_gap_ms).saturating_add(settle_ms).ms() >= now_ms
}

/// The text id of a device and a `t_star`.
pub(crate) fn text_id(device: &str, t_star_ms: DeviceTime) -> Result<String, ViewError> {
    TripId::new(device, t_star_ms).and_then(|id| id.text()).map_err(|source| ViewError::Id {
        device: device.to_owned(),
        t_star_ms,
        source,
    })
}

/// How much of a path an answer holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Detail {
    /// Whether the path is included.
    pub path: bool,
    /// Tolerance of [`simplify`](super::simplify()), m; `None`: the complete path.
    pub simplify_m: Option<f64>,
}

impl TripJson {
    /// The trip of a row with its path.
    ///
    /// # Errors
    /// An id of the trip has no text form, or its path cannot be read.
    pub(crate) fn detailed(row: &TripRow, detail: Detail) -> Result<Self, ViewError> {
        let mut trip = Self::from_row(row)?;
        if detail.path {
            trip.path = Some(PathJson::from_row(row, &trip.id, detail.simplify_m)?);
        }
        Ok(trip)
    }
}

/// The path of a row. `tolerance_m`, in metres, simplifies it.
pub(super) fn read_path(
    row: &TripRow,
    id: &str,
    tolerance_m: Option<f64>,
) -> Result<Path, ViewError> {
    let path = row.to_path().map_err(|source| ViewError::Path { id: id.to_owned(), source })?;
    Ok(match tolerance_m {
        Some(tolerance_m) => simplify(&path, tolerance_m),
        None => path,
    })
}

/// A reading of a sample, in its unit.
pub(super) fn reading(kind: ReadingKind, sample: &Sample) -> Option<f64> {
    sample.readings()[kind as usize].get().map(|quanta| kind.in_units(quanta))
}

impl PathJson {
    /// The columns of the path of a row. `tolerance_m`, in metres, simplifies it, but for jumps.
    fn from_row(row: &TripRow, id: &str, tolerance_m: Option<f64>) -> Result<Self, ViewError> {
        let whole = read_path(row, id, None)?;
        let jumps = path_marks::jumps(&whole, row.jumps.map_or(0, i32::unsigned_abs) as usize);
        let late = path_marks::late_parts(&whole);
        let [jump_times, late] = [&jumps, &late].map(|parts| path_marks::times(&whole, parts));
        let mut columns = Self { jumps: jump_times, late, ..Self::default() };
        let path = match tolerance_m {
            Some(tolerance_m) => simplify_between(&whole, tolerance_m, &jumps),
            None => whole,
        };
        for sample in path.iter() {
            columns.times.push(format_time(sample.time_ms.ms()));
            columns.coordinates.push([sample.lon(), sample.lat()]);
            columns.speed_mps.push(reading(ReadingKind::Speed, &sample));
            columns.heading_deg.push(reading(ReadingKind::Heading, &sample));
            columns.ignition.push(sample.ignition);
        }
        Ok(columns)
    }
}

//! The fields of a record: names, types and values.

use serde::Serialize;

use super::TableTrip;

/// The type of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Time,
    Double,
    Int32,
    Int64,
}

/// The value of a field.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Value<'a> {
    Text(&'a str),
    Double(f64),
    Int32(i32),
    /// Times as well, in ms since 1970.
    Int64(i64),
}

/// Reads a field; the variant is its type.
pub(super) enum Field {
    Text(for<'a> fn(&'a TableTrip<'_>) -> &'a str),
    OptionalText(for<'a> fn(&'a TableTrip<'_>) -> Option<&'a str>),
    /// Milliseconds since 1970.
    Time(fn(&TableTrip<'_>) -> i64),
    Double(fn(&TableTrip<'_>) -> f64),
    OptionalDouble(fn(&TableTrip<'_>) -> Option<f64>),
    Int32(fn(&TableTrip<'_>) -> i32),
    OptionalInt32(fn(&TableTrip<'_>) -> Option<i32>),
    Int64(fn(&TableTrip<'_>) -> i64),
}

/// The fields in their order: the columns of CSV, with times as numbers.
pub(super) const FIELDS: [(&str, Field); 22] = {
    use Field::*;
    [
        ("id", Text(|it| &it.trip.id)),
        ("device_id", Text(|it| &it.trip.device_id)),
        ("t_star", Time(|it| it.row.t_star_ms.ms())),
        ("start_time", Time(|it| it.row.start_ms.ms())),
        ("end_time", Time(|it| it.row.end_ms.ms())),
        ("duration_s", Double(|it| it.trip.duration_s)),
        ("samples", Int32(|it| it.trip.samples)),
        ("distance_m", Double(|it| it.trip.distance_m)),
        ("avg_speed_mps", OptionalDouble(|it| it.trip.avg_speed_mps)),
        ("max_speed_mps", OptionalDouble(|it| it.trip.max_speed_mps)),
        ("jumps", OptionalInt32(|it| it.trip.jumps)),
        ("driver", OptionalText(|it| it.trip.driver.as_deref())),
        ("start_lat", Double(|it| it.trip.start.lat)),
        ("start_lon", Double(|it| it.trip.start.lon)),
        ("end_lat", Double(|it| it.trip.end.lat)),
        ("end_lon", Double(|it| it.trip.end.lon)),
        ("bbox_west", Double(|it| it.trip.bbox[0])),
        ("bbox_south", Double(|it| it.trip.bbox[1])),
        ("bbox_east", Double(|it| it.trip.bbox[2])),
        ("bbox_north", Double(|it| it.trip.bbox[3])),
        ("absorbed", OptionalText(|it| it.absorbed.as_deref())),
        ("version", Int64(|it| it.trip.version)),
    ]
};

impl Field {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Text(_) | Self::OptionalText(_) => Kind::Text,
            Self::Time(_) => Kind::Time,
            Self::Double(_) | Self::OptionalDouble(_) => Kind::Double,
            Self::Int32(_) | Self::OptionalInt32(_) => Kind::Int32,
            Self::Int64(_) => Kind::Int64,
        }
    }

    pub(super) fn is_optional(&self) -> bool {
        matches!(self, Self::OptionalText(_) | Self::OptionalDouble(_) | Self::OptionalInt32(_))
    }

    pub(super) fn read<'a>(&self, trip: &'a TableTrip<'_>) -> Option<Value<'a>> {
        match self {
            Self::Text(read) => Some(Value::Text(read(trip))),
            Self::OptionalText(read) => read(trip).map(Value::Text),
            Self::Double(read) => Some(Value::Double(read(trip))),
            Self::OptionalDouble(read) => read(trip).map(Value::Double),
            Self::Int32(read) => Some(Value::Int32(read(trip))),
            Self::OptionalInt32(read) => read(trip).map(Value::Int32),
            Self::Time(read) | Self::Int64(read) => Some(Value::Int64(read(trip))),
        }
    }
}

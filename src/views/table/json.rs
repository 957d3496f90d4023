//! Trips as flat records with a schema: JSON as the `JsonConverter` of Kafka Connect reads it.

use std::sync::LazyLock;

use serde::Serialize;
use serde_json::{Value, json};

use super::{TripJson, ViewError};
use crate::codec::trip_row::TripRow;

/// Name of the schema.
const NAME: &str = "tstar.Trip";

/// The type that Connect gives to times: milliseconds since 1970.
const TIMESTAMP: &str = "org.apache.kafka.connect.data.Timestamp";

/// The type of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Time,
    Double,
    Int32,
    Int64,
}

/// The fields: name, type, and whether a value may be absent.
const FIELDS: [(&str, Kind, bool); 22] = [
    ("id", Kind::Text, false),
    ("device_id", Kind::Text, false),
    ("t_star", Kind::Time, false),
    ("start_time", Kind::Time, false),
    ("end_time", Kind::Time, false),
    ("duration_s", Kind::Double, false),
    ("samples", Kind::Int32, false),
    ("distance_m", Kind::Double, false),
    ("avg_speed_mps", Kind::Double, true),
    ("max_speed_mps", Kind::Double, true),
    ("jumps", Kind::Int32, true),
    ("driver", Kind::Text, true),
    ("start_lat", Kind::Double, false),
    ("start_lon", Kind::Double, false),
    ("end_lat", Kind::Double, false),
    ("end_lon", Kind::Double, false),
    ("bbox_west", Kind::Double, false),
    ("bbox_south", Kind::Double, false),
    ("bbox_east", Kind::Double, false),
    ("bbox_north", Kind::Double, false),
    ("absorbed", Kind::Text, true),
    ("version", Kind::Int64, false),
];

/// The values of [`FIELDS`], in their order.
#[derive(Serialize)]
struct Payload<'a> {
    id: &'a str,
    device_id: &'a str,
    t_star: i64,
    start_time: i64,
    end_time: i64,
    duration_s: f64,
    samples: i32,
    distance_m: f64,
    avg_speed_mps: Option<f64>,
    max_speed_mps: Option<f64>,
    jumps: Option<i32>,
    driver: Option<&'a str>,
    start_lat: f64,
    start_lon: f64,
    end_lat: f64,
    end_lon: f64,
    bbox_west: f64,
    bbox_south: f64,
    bbox_east: f64,
    bbox_north: f64,
    absorbed: Option<String>,
    version: i64,
}

fn schema_of(&(field, kind, is_optional): &(&str, Kind, bool)) -> Value {
    let kind = match kind {
        Kind::Text => "string",
        Kind::Double => "double",
        Kind::Int32 => "int32",
        Kind::Int64 => "int64",
        Kind::Time => {
            let (kind, name) = ("int64", TIMESTAMP);
            return json!({"field": field, "type": kind, "name": name, "version": 1,
                "optional": is_optional});
        }
    };
    json!({"field": field, "type": kind, "optional": is_optional})
}

static SCHEMA: LazyLock<String> = LazyLock::new(|| {
    let fields: Vec<_> = FIELDS.iter().map(schema_of).collect();
    json!({"type": "struct", "name": NAME, "version": 1, "optional": false, "fields": fields})
        .to_string()
});

/// The trip of a row, without its path, as `{schema, payload}`. If that is longer than `max_bytes`,
/// the ids that merges retired are left out: `absorbed` is null.
///
/// # Errors
/// An id of the trip has no text form.
pub fn connect_json(row: &TripRow, max_bytes: usize) -> Result<String, ViewError> {
    let trip = TripJson::from_row(row)?;
    let [bbox_west, bbox_south, bbox_east, bbox_north] = trip.bbox;
    let mut payload = Payload {
        id: &trip.id,
        device_id: &trip.device_id,
        t_star: row.t_star_ms.ms(),
        start_time: row.start_ms.ms(),
        end_time: row.end_ms.ms(),
        duration_s: trip.duration_s,
        samples: trip.samples,
        distance_m: trip.distance_m,
        avg_speed_mps: trip.avg_speed_mps,
        max_speed_mps: trip.max_speed_mps,
        jumps: trip.jumps,
        driver: trip.driver.as_deref(),
        start_lat: trip.start.lat,
        start_lon: trip.start.lon,
        end_lat: trip.end.lat,
        end_lon: trip.end.lon,
        bbox_west,
        bbox_south,
        bbox_east,
        bbox_north,
        absorbed: Some(trip.absorbed.join(" ")),
        version: trip.version,
    };
    let whole = with_schema(&payload);
    if whole.len() <= max_bytes {
        return Ok(whole);
    }
    payload.absorbed = None;
    Ok(with_schema(&payload))
}

fn with_schema(payload: &Payload<'_>) -> String {
    let payload = serde_json::to_string(payload).expect("a trip is plain data");
    format!(r#"{{"schema":{},"payload":{payload}}}"#, *SCHEMA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::scalar::{DeviceTime, Version};
    use crate::timeline::{LegFilter, Limits, RawSample, Sample, Timeline};
    use crate::views::csv::COLUMNS;

    /// Two trips of a second each, which the sample between them joins.
    fn merged() -> TripRow {
        let mut timeline = Timeline::default();
        let limits = Limits { max_gap_ms: 1000, ..Limits::default() };
        for (version, second) in (1..).zip([10, 12, 11]) {
            let raw = RawSample { time_ms: DeviceTime(second * 1000), ..RawSample::default() };
            timeline.absorb(&limits, Version(version * 2), Sample::quantised(&raw).unwrap(), None);
        }
        TripRow::from_trip("truck-1", timeline.trips().next().unwrap(), LegFilter::default())
    }

    fn record(row: &TripRow, max_bytes: usize) -> Value {
        serde_json::from_str(&connect_json(row, max_bytes).unwrap()).unwrap()
    }

    #[test]
    fn a_record_has_the_columns_of_csv_and_values_of_the_types_of_its_schema() {
        let record = record(&merged(), usize::MAX);
        let fields = record["schema"]["fields"].as_array().unwrap();
        let names: Vec<_> = fields.iter().map(|field| field["field"].as_str().unwrap()).collect();
        assert_eq!(names, COLUMNS);
        let payload = record["payload"].as_object().unwrap();
        assert_eq!(payload.len(), names.len());
        for field in fields {
            let (value, kind) = (&payload[field["field"].as_str().unwrap()], &field["type"]);
            let fits = match kind.as_str().unwrap() {
                "string" => value.is_string(),
                "double" => value.is_f64(),
                "int32" | "int64" => value.is_i64(),
                other => panic!("{other}"),
            };
            assert!(fits || value.is_null() && field["optional"] == true, "{field}: {value}");
        }
        assert_eq!(payload["start_time"], 10_000);
        assert_eq!(payload["absorbed"], "truck-1~19700101T000012.000Z");
    }

    #[test]
    fn a_record_that_would_be_too_long_names_no_retired_ids() {
        let row = merged();
        let whole = connect_json(&row, usize::MAX).unwrap().len();
        assert!(record(&row, whole)["payload"]["absorbed"].is_string());
        assert!(record(&row, whole - 1)["payload"]["absorbed"].is_null());
    }
}

//! Trips and samples as JSON.

use serde::Serialize;

use super::form::{FormSpec, Frame, Layout, PathRule, PointView};
use super::trip_json::reading;
use crate::model::time::format_time;
use crate::timeline::ReadingKind;

const LINES: Frame = Frame { start: |_| String::new(), separators: ["", ""], ends: ["", ""] };

const ARRAY: Frame =
    Frame { start: |_| "[".to_owned(), separators: ["\n", ",\n"], ends: ["]\n", "\n]\n"] };

/// One object per line.
pub(super) static NDJSON: FormSpec = FormSpec {
    name: "ndjson",
    suffixes: &["ndjson", "jsonl"],
    help: "One JSON object per line",
    media_type: None,
    path: PathRule::OnRequest,
    trips: Layout::Text(LINES, |trip| Ok(json(&trip.answer) + "\n")),
    points: Some(Layout::Text(LINES, |point| json(&PointJson::new(point)) + "\n")),
};

/// One array.
pub(super) static JSON: FormSpec = FormSpec {
    name: "json",
    suffixes: &["json"],
    help: "One JSON value",
    media_type: None,
    path: PathRule::OnRequest,
    trips: Layout::Text(ARRAY, |trip| Ok(json(&trip.answer))),
    points: Some(Layout::Text(ARRAY, |point| json(&PointJson::new(point)))),
};

/// A sample of a trip.
#[derive(Serialize)]
struct PointJson<'a> {
    trip_id: &'a str,
    device_id: &'a str,
    time: String,
    lat: f64,
    lon: f64,
    speed_mps: Option<f64>,
    heading_deg: Option<f64>,
    altitude_m: Option<f64>,
    accuracy_m: Option<f64>,
}

impl<'a> PointJson<'a> {
    fn new(point: &PointView<'a>) -> Self {
        let sample = &point.sample;
        Self {
            trip_id: point.trip_id,
            device_id: point.device_id,
            time: format_time(sample.time_ms.ms()),
            lat: sample.lat(),
            lon: sample.lon(),
            speed_mps: reading(ReadingKind::Speed, sample),
            heading_deg: reading(ReadingKind::Heading, sample),
            altitude_m: reading(ReadingKind::Altitude, sample),
            accuracy_m: reading(ReadingKind::Accuracy, sample),
        }
    }
}

/// A value as JSON.
pub(super) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("an answer is plain data")
}

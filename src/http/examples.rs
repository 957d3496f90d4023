//! What examples in the OpenAPI document share. Trips are written by the code that answers
//! requests, so that an example has the fields of an answer.

use serde_json::Value;

use super::trip_response::TripAnswer;
use crate::codec::trip_row::TripRow;
use crate::model::change::{Change, ChangeKind};
use crate::model::scalar::{DeviceTime, Version};
use crate::model::time::format_time;
use crate::segment::{SegmentRules, Timeline};
use crate::timeline::{LegFilter, RawSample, Sample};
use crate::views::{
    Detail, Explanation, Extras, Form, Match, TripJson, TripWriter, event, text_id,
};

/// 2026-11-20T21:00:00Z, ms since 1970.
const START_MS: i64 = 1_795_208_400_000;

/// Device of the examples.
pub(crate) const DEVICE: &str = "truck-17";

/// The time of minutes after the start.
fn at(minutes: i64) -> DeviceTime {
    DeviceTime(START_MS + minutes * 60_000)
}

/// The time of minutes after the start, as text.
pub(crate) fn time(minutes: i64) -> String {
    format_time(at(minutes).ms())
}

/// The trip of the worked example in `docs/concepts.md`: minute 6 arrives last, and merges two.
fn row() -> TripRow {
    let mut timeline = Timeline::in_memory();
    for (record, minutes) in (0..).zip([10_i32, 12, 0, 2, 6]) {
        let moved = f64::from(minutes) * 1e-4;
        let (time_ms, lat, lon) = (at(minutes.into()), 52.52 + moved, 13.41 + moved);
        let raw = RawSample { time_ms, lat, lon, ..RawSample::default() };
        let sample = Sample::quantised(&raw).expect("its values are in range");
        timeline.absorb(
            &SegmentRules::default(),
            Sample { version: Version(2 * record), ..sample },
            None,
        );
    }
    let trip = timeline.segments().next().expect("samples make a trip");
    TripRow::from_segment(DEVICE, trip, LegFilter::default())
}

/// The id of a time.
pub(crate) fn id(minutes: i64) -> String {
    text_id(DEVICE, at(minutes)).expect("the id has a text form")
}

fn trip_with(extras: Extras) -> TripAnswer {
    let trip = TripJson::from_row(&row()).expect("the id has a text form");
    let tags = Some([("purpose".to_owned(), "business".to_owned())].into());
    TripAnswer { trip, extras: Extras { tags, open: Some(false), ..extras } }
}

pub(crate) fn trip() -> TripAnswer {
    trip_with(Extras::default())
}

/// The trip as the answer to a lookup of its retired id.
pub(crate) fn retired_trip() -> TripAnswer {
    let (matched, merged) = (Some(Match::Retired), Some(true));
    trip_with(Extras { requested_id: Some(id(10)), matched, merged, ..Extras::default() })
}

pub(crate) fn geojson() -> Value {
    let mut text = Vec::new();
    let writer = TripWriter::new(&mut text, Form::GeoJson, Detail::default());
    let written = writer.and_then(|mut writer| {
        writer.write(&row(), &Extras::default())?;
        writer.finish()
    });
    written.expect("a buffer can be written");
    serde_json::from_slice(&text).expect("it is JSON")
}

/// The event of the merge.
pub(crate) fn merged_event() -> Value {
    let change = Change { kind: ChangeKind::Merged, retired: vec![at(10)], row: 0, in_past: false };
    let text = event::event(&change, &row()).expect("the ids have text forms");
    serde_json::from_str(&text).expect("it is JSON")
}

pub(crate) fn explanation() -> Explanation {
    Explanation::from_row(&row(), &id(10), at(10), &[]).expect("the ids have text forms")
}

//! Trips and samples as CSV.

use super::Extras;
use super::fields::{Column, FlatTrip, Kind, Value, columns};
use super::form::{FormSpec, Frame, Layout, PathRule, PointView, TripView};
use super::json::json;
use super::trip_json::reading;
use crate::model::time::format_time;
use crate::timeline::ReadingKind;

/// A row for each trip, without its path, or for each sample.
pub(super) static CSV: FormSpec = FormSpec {
    name: "csv",
    suffixes: &["csv"],
    help: "Rows with a header; spreadsheets read a device id that starts with = + - or @ as a \
           formula",
    media_type: None,
    path: PathRule::Never,
    trips: Layout::Text(rows_after(header), |trip| Ok(csv_line(&csv_values(trip)))),
    points: Some(Layout::Text(rows_after(|_| csv_line(POINT_COLUMNS)), point_line)),
};

const fn rows_after(start: fn(&Extras) -> String) -> Frame {
    Frame { start, separators: ["", ""], ends: ["", ""] }
}

/// CSV columns of samples.
const POINT_COLUMNS: &[&str] = &[
    "trip_id",
    "device_id",
    "time",
    "lat",
    "lon",
    "speed_mps",
    "heading_deg",
    "altitude_m",
    "accuracy_m",
];

fn point_line(point: &PointView<'_>) -> String {
    let sample = &point.sample;
    let number =
        |kind| reading(kind, sample).map_or_else(String::new, |value: f64| value.to_string());
    csv_line(&[
        point.trip_id,
        point.device_id,
        &format_time(sample.time_ms.ms()),
        &sample.lat().to_string(),
        &sample.lon().to_string(),
        &number(ReadingKind::Speed),
        &number(ReadingKind::Heading),
        &number(ReadingKind::Altitude),
        &number(ReadingKind::Accuracy),
    ])
}

fn header(extras: &Extras) -> String {
    let extra = extra_values(extras).into_iter().map(|(name, _)| name);
    csv_line(&columns().map(|column| column.name).chain(extra).collect::<Vec<_>>())
}

fn extra_values(extras: &Extras) -> Vec<(&'static str, String)> {
    let mut values = Vec::new();
    if let Some(tags) = &extras.tags {
        values.push(("tags", if tags.is_empty() { String::new() } else { json(tags) }));
    }
    if let Some(open) = extras.open {
        values.push(("open", open.to_string()));
    }
    if let Some(id) = &extras.requested_id {
        values.push(("requested_id", id.clone()));
    }
    if let Some(matched) = extras.matched {
        values.push(("match", matched.name().to_owned()));
    }
    if let Some(merged) = extras.merged {
        values.push(("merged", merged.to_string()));
    }
    if let Some(fresh) = extras.fresh {
        values.push(("fresh", fresh.to_string()));
    }
    if let Some(owner) = &extras.owner {
        values.push(("owner", owner.clone()));
    }
    values
}

/// The values of the columns and of the extras; an absent value is empty.
fn csv_values(view: &TripView<'_>) -> Vec<String> {
    let trip = FlatTrip::new(view.row, &view.answer.trip);
    let text = |column: &Column| match (column.read)(&trip) {
        None => String::new(),
        Some(Value::Text(text)) => text.to_owned(),
        Some(Value::Double(number)) => number.to_string(),
        Some(Value::Int32(number)) => number.to_string(),
        Some(Value::Int64(ms)) if column.kind == Kind::Time => format_time(ms),
        Some(Value::Int64(number)) => number.to_string(),
    };
    let extras = extra_values(view.answer.extras).into_iter().map(|(_, value)| value);
    columns().map(text).chain(extras).collect()
}

/// One line of CSV, quoted where RFC 4180 requires it.
fn csv_line(values: &[impl AsRef<[u8]>]) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(values).expect("writing to a Vec cannot fail");
    let line = writer.into_inner().expect("writing to a Vec cannot fail");
    String::from_utf8(line).expect("the values are UTF-8")
}

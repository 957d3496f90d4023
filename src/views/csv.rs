//! Trips and samples as CSV.

use super::Extras;
use super::form::{FormSpec, Frame, Layout, PathRule, PointView};
use super::json::json;
use super::trip_json::{Answer, reading};
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
    trips: Layout::Text(rows_after(header), |trip| Ok(csv_line(&csv_values(&trip.answer)))),
    points: Some(Layout::Text(rows_after(|_| csv_line(POINT_COLUMNS)), point_line)),
};

const fn rows_after(start: fn(&Extras) -> String) -> Frame {
    Frame { start, separators: ["", ""], ends: ["", ""] }
}

/// CSV columns; those of [`Extras`] that are set follow them.
pub(super) const COLUMNS: [&str; 22] = [
    "id",
    "device_id",
    "t_star",
    "start_time",
    "end_time",
    "duration_s",
    "samples",
    "distance_m",
    "avg_speed_mps",
    "max_speed_mps",
    "jumps",
    "driver",
    "start_lat",
    "start_lon",
    "end_lat",
    "end_lon",
    "bbox_west",
    "bbox_south",
    "bbox_east",
    "bbox_north",
    "absorbed",
    "version",
];

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
    let columns = COLUMNS.iter().map(|name| (*name).to_owned());
    let extra = extra_values(extras).into_iter().map(|(name, _)| name.to_owned());
    csv_line(&columns.chain(extra).collect::<Vec<_>>())
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

/// The values of [`COLUMNS`] and of the extras; an absent value is empty.
fn csv_values(answer: &Answer<'_>) -> Vec<String> {
    let trip = &answer.trip;
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let mut values = vec![
        trip.id.clone(),
        trip.device_id.clone(),
        trip.t_star.clone(),
        trip.start_time.clone(),
        trip.end_time.clone(),
        trip.duration_s.to_string(),
        trip.samples.to_string(),
        trip.distance_m.to_string(),
        number(trip.avg_speed_mps),
        number(trip.max_speed_mps),
        trip.jumps.map(|jumps| jumps.to_string()).unwrap_or_default(),
        trip.driver.clone().unwrap_or_default(),
    ];
    let positions = [trip.start.lat, trip.start.lon, trip.end.lat, trip.end.lon];
    values.extend(positions.iter().chain(&trip.bbox).map(f64::to_string));
    values.push(trip.absorbed.join(" "));
    values.push(trip.version.to_string());
    values.extend(extra_values(answer.extras).into_iter().map(|(_, value)| value));
    values
}

/// One line of CSV, quoted where RFC 4180 requires it.
fn csv_line(values: &[impl AsRef<[u8]>]) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(values).expect("writing to a Vec cannot fail");
    let line = writer.into_inner().expect("writing to a Vec cannot fail");
    String::from_utf8(line).expect("the values are UTF-8")
}

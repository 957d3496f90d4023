//! Human-readable tables.

use std::iter;

use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::model::time::DAY_MS;
use crate::model::visible::visible;
use crate::segment::Kind;
use crate::views::{Answer, Extras, OWN_FIELDS, TripJson};

/// Rows under a header; the cells of the columns `right` are aligned to the right. Hidden
/// characters are made visible.
pub(crate) fn rows<'a>(
    columns: impl IntoIterator<Item = &'a str>,
    right: &[usize],
    rows: &[impl AsRef<[String]>],
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(columns.into_iter().map(Cell::new));
    for number in right {
        if let Some(column) = table.column_mut(*number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in rows {
        table.add_row(row.as_ref().iter().map(|text| visible(text)));
    }
    table.trim_fmt()
}

/// One trip, a line per value.
pub(crate) fn answer(trip: &TripJson, extras: &Extras) -> String {
    let answer = Answer { trip: trip.clone(), extras };
    fields(&serde_json::to_value(answer).expect("an answer is plain data"), &line_order())
}

/// Order of the lines of one trip: its fields, and what a request adds after some of them.
fn line_order() -> Vec<&'static str> {
    let added = |name| match name {
        "id" => ["requested_id", "match", "merged"].as_slice(),
        "end_time" => &["open"],
        "absorbed" => &["tags"],
        _ => &[],
    };
    OWN_FIELDS
        .iter()
        .flat_map(|name| iter::once(*name).chain(added(name).iter().copied()))
        .collect()
}

/// The fields of an object, a line per field, in the given order.
pub(crate) fn fields(object: &serde_json::Value, order: &[&str]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for name in order {
        if let Some(value) = object.get(name) {
            table.add_row([Cell::new(name), Cell::new(value_text(value))]);
        }
    }
    table.trim_fmt()
}

fn value_text(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Null => "-".into(),
        Value::String(text) => visible(text),
        Value::Array(values) if values.is_empty() => "-".into(),
        Value::Array(values) => values.iter().map(value_text).collect::<Vec<_>>().join(" "),
        Value::Object(fields) if fields.is_empty() => "-".into(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| format!("{name} {}", value_text(value)))
            .collect::<Vec<_>>()
            .join(", "),
        other => other.to_string(),
    }
}

/// A duration in seconds as text, such as 1d2h47m9.162s.
pub(crate) fn duration(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "-" } else { "" };
    #[expect(clippy::cast_possible_truncation, reason = "it was whole milliseconds")]
    let ms = (seconds.abs() * 1e3).round() as i64;
    let (days, hours) = (ms / DAY_MS, ms / 3_600_000 % 24);
    let (minutes, rest) = (ms / 60_000 % 60, ms % 60_000);
    let rest = match rest % 1000 {
        0 => format!("{}s", rest / 1000),
        ms => format!("{}.{ms:03}s", rest / 1000),
    };
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{sign}{rest}"),
        (0, 0, _) => format!("{sign}{minutes}m{rest}"),
        (0, ..) => format!("{sign}{hours}h{minutes}m{rest}"),
        _ => format!("{sign}{days}d{hours}h{minutes}m{rest}"),
    }
}

/// A column of a list.
#[derive(Clone, Copy)]
struct ListColumn {
    name: &'static str,
    is_number: bool,
    /// The text of a trip or stop.
    text: fn(&TripJson, &Extras) -> String,
}

impl ListColumn {
    const fn words(name: &'static str, text: fn(&TripJson, &Extras) -> String) -> Self {
        Self { name, is_number: false, text }
    }

    const fn number(name: &'static str, text: fn(&TripJson, &Extras) -> String) -> Self {
        Self { name, is_number: true, text }
    }
}

const LIST: [ListColumn; 6] = [
    ListColumn::words("id", |it, _| it.id.clone()),
    ListColumn::words("start_time", |it, _| it.start_time.clone()),
    ListColumn::words("end_time", |it, _| it.end_time.clone()),
    ListColumn::number("duration", |it, _| duration(it.duration_s)),
    ListColumn::number("idle", |it, _| it.idle_s.map_or_else(String::new, duration)),
    ListColumn::number("parked", |it, _| duration(it.parked_s)),
];

const TRIPS: [ListColumn; 3] = [
    ListColumn::number("km", |it, _| format!("{:.1}", it.distance_m / 1e3)),
    ListColumn::words("driver", |it, _| it.driver.clone().unwrap_or_default()),
    ListColumn::number("absorbed", |it, _| it.absorbed.len().to_string()),
];

/// Of lists with both.
const KIND: ListColumn = ListColumn::words("kind", |it, _| it.kind.clone());

/// Of lists with stops.
const PLACE: ListColumn =
    ListColumn::words("place", |it, _| format!("{:.5}, {:.5}", it.start.lat, it.start.lon));

/// Of lists that ask for them.
const SILENCE: [ListColumn; 2] = [
    ListColumn::number("silence", |_, it| {
        it.silence_s.flatten().map_or_else(String::new, duration)
    }),
    ListColumn::number("silence_km", |_, it| {
        it.silence_m.flatten().map_or_else(String::new, |m| format!("{:.1}", m / 1e3))
    }),
];

/// Trips and stops, a line for each.
pub(crate) fn list(found: &[(TripJson, &Extras)]) -> String {
    let (mut has_trips, mut has_stops) = (found.is_empty(), false);
    for (trip, _) in found {
        has_stops |= trip.kind == Kind::Stop.name();
        has_trips |= trip.kind == Kind::Trip.name();
    }
    let has_silence = found.iter().any(|(_, extras)| extras.silence_s.is_some());
    let columns: Vec<_> = LIST
        .into_iter()
        .chain((has_trips && has_stops).then_some(KIND))
        .chain(has_trips.then_some(TRIPS).into_iter().flatten())
        .chain(has_stops.then_some(PLACE))
        .chain(has_silence.then_some(SILENCE).into_iter().flatten())
        .collect();
    let right: Vec<_> = (0..columns.len()).filter(|&at| columns[at].is_number).collect();
    let row = |(trip, extras): &(TripJson, &Extras)| {
        columns.iter().map(|column| (column.text)(trip, extras)).collect::<Vec<_>>()
    };
    let names = columns.iter().map(|column| column.name);
    rows(names, &right, &found.iter().map(row).collect::<Vec<_>>())
}

/// Names and values, a line per pair.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for (name, value) in pairs {
        table.add_row([Cell::new(name), Cell::new(visible(value))]);
    }
    table.trim_fmt()
}

/// Counts with their shares; `name` is the header of the first column.
pub(crate) fn counts(name: &str, counts: &[[String; 3]]) -> String {
    rows([name, "samples", "share"], &[1, 2], counts)
}

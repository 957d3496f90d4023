//! Human-readable tables.

use crate::model::visible::visible;
use crate::views::{Answer, Extras, TripJson};
use comfy_table::{Cell, CellAlignment, Table, presets};

/// A table with a header.
fn table<'a>(columns: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(columns.into_iter().map(Cell::new));
    table
}

/// One trip, a line per value.
pub fn answer(trip: &TripJson, extras: &Extras) -> String {
    let answer = Answer { trip: trip.clone(), extras };
    fields(&serde_json::to_value(answer).expect("an answer is plain data"), &COLUMN_ORDER)
}

/// Order of the lines of one trip.
const COLUMN_ORDER: [&str; 20] = [
    "id",
    "requested_id",
    "match",
    "merged",
    "device_id",
    "t_star",
    "start_time",
    "end_time",
    "open",
    "duration_s",
    "samples",
    "distance_m",
    "avg_speed_mps",
    "max_speed_mps",
    "driver",
    "start",
    "end",
    "bbox",
    "absorbed",
    "version",
];

/// The fields of an object, a line per field, in the given order.
pub fn fields(object: &serde_json::Value, order: &[&str]) -> String {
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
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| format!("{name} {}", value_text(value)))
            .collect::<Vec<_>>()
            .join(", "),
        other => other.to_string(),
    }
}

/// Trips, a line per trip.
pub fn list(trips: &[TripJson]) -> String {
    let columns = ["id", "start_time", "end_time", "samples", "km", "driver", "absorbed"];
    let mut table = table(columns);
    for number in [3, 4, 6] {
        if let Some(column) = table.column_mut(number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for trip in trips {
        table.add_row([
            visible(&trip.id),
            trip.start_time.clone(),
            trip.end_time.clone(),
            trip.samples.to_string(),
            format!("{:.1}", trip.distance_m / 1e3),
            trip.driver.as_deref().map(visible).unwrap_or_default(),
            trip.absorbed.len().to_string(),
        ]);
    }
    table.trim_fmt()
}

/// Values of one column.
pub fn column(name: &str, values: &[String]) -> String {
    let mut table = table([name]);
    for value in values {
        table.add_row([visible(value)]);
    }
    table.trim_fmt()
}

/// Names and values, a line per pair.
pub fn pairs(pairs: &[(&str, String)]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for (name, value) in pairs {
        table.add_row([Cell::new(name), Cell::new(visible(value))]);
    }
    table.trim_fmt()
}

/// Counts with their shares; `name` is the header of the first column.
pub fn counts(name: &str, rows: &[[String; 3]]) -> String {
    let mut table = table([name, "samples", "share"]);
    for number in [1, 2] {
        if let Some(column) = table.column_mut(number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in rows {
        table.add_row(row);
    }
    table.trim_fmt()
}

/// Results of checks: state, check, and what was found.
pub fn findings(rows: &[[String; 3]]) -> String {
    let mut table = table(["state", "check", "found"]);
    for row in rows {
        table.add_row(row.iter().map(|text| visible(text)));
    }
    table.trim_fmt()
}

/// Dead letters: id, reason, log position and error message.
pub fn dead_letters(rows: &[[String; 4]]) -> String {
    let mut table = table(["id", "reason", "place", "message"]);
    for row in rows {
        table.add_row(row.iter().map(|text| visible(text)));
    }
    table.trim_fmt()
}

/// Records of a trip, a line per record.
pub fn records(rows: &[[String; 7]]) -> String {
    let mut table = table(["place", "log_time", "time", "late", "behind", "effect", "trip"]);
    for number in [3, 4] {
        if let Some(column) = table.column_mut(number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in rows {
        table.add_row(row.iter().map(|text| visible(text)));
    }
    table.trim_fmt()
}

//! Human-readable tables.

use std::iter;

use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::model::visible::visible;
use crate::views::{Answer, Extras, OWN_FIELDS, TripJson};

/// Rows under a header; the cells of the columns `right` are aligned to the right. Hidden
/// characters are made visible.
pub(crate) fn rows<const N: usize>(
    columns: [&str; N],
    right: &[usize],
    rows: &[[String; N]],
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(columns.map(Cell::new));
    for number in right {
        if let Some(column) = table.column_mut(*number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in rows {
        table.add_row(row.iter().map(|text| visible(text)));
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

/// Trips, a line per trip.
pub(crate) fn list(trips: &[TripJson]) -> String {
    let cells = |trip: &TripJson| {
        [
            trip.id.clone(),
            trip.start_time.clone(),
            trip.end_time.clone(),
            trip.samples.to_string(),
            format!("{:.1}", trip.distance_m / 1e3),
            trip.driver.clone().unwrap_or_default(),
            trip.absorbed.len().to_string(),
        ]
    };
    let columns = ["id", "start_time", "end_time", "samples", "km", "driver", "absorbed"];
    rows(columns, &[3, 4, 6], &trips.iter().map(cells).collect::<Vec<_>>())
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

//! Trips and samples as CSV.

use super::Extras;
use super::fields::{Column, FlatTrip, POINT_COLUMNS, ReadPoint, columns};
use super::form::{FormSpec, Frame, Layout, PathRule, PointView, TripView};
use super::json::json;

/// A row for each trip, without its path, or for each sample.
pub(super) static CSV: FormSpec = FormSpec {
    name: "csv",
    suffixes: &["csv"],
    help: "Rows with a header; spreadsheets read a device id that starts with = + - or @ as a \
           formula",
    media_type: None,
    list_type: Some("text/csv; charset=utf-8"),
    path: PathRule::Never,
    trips: Layout::Text(rows_after(header), |trip| Ok(csv_line(&csv_values(trip)))),
    points: Some(Layout::Text(
        rows_after(|_| csv_line(&POINT_COLUMNS.each_ref().map(|it| it.name))),
        point_line,
    )),
};

const fn rows_after(start: fn(&Extras) -> String) -> Frame {
    Frame { start, separators: ["", ""], ends: ["", ""] }
}

fn point_line(point: &PointView<'_>) -> String {
    let text = |column: &Column<ReadPoint>| {
        (column.read)(point).map_or_else(String::new, |value| column.text(&value, point.zone))
    };
    csv_line(&POINT_COLUMNS.each_ref().map(text))
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
    for (name, value) in [("silence_s", extras.silence_s), ("silence_m", extras.silence_m)] {
        let text = |value: Option<f64>| value.map_or_else(String::new, |it| it.to_string());
        values.extend(value.map(|value| (name, text(value))));
    }
    if let Some(owner) = &extras.owner {
        values.push(("owner", owner.clone()));
    }
    values
}

/// The values of the columns and of the extras; an absent value is empty.
fn csv_values(view: &TripView<'_>) -> Vec<String> {
    let trip = FlatTrip::new(view.row, &view.answer.trip);
    let text = |column: &Column| {
        (column.read)(&trip).map_or_else(String::new, |value| column.text(&value, view.zone))
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

//! Trips and stops as rows: the columns of `tstar export --format parquet`.

use std::convert::Infallible;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, BinaryArray, Float64Array, Int32Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use tstar_core::DeviceTime;
use tstar_core::codec::trip_fields::trip_fields;
use tstar_core::codec::trip_row::TripRow;
use tstar_core::identity::TripId;
use tstar_core::segment::Kind;

use super::cursor::Cursor;
use super::{BATCH, Column, Table, batch, texts, times};
use crate::decided::State;

/// The text form of an id.
pub(crate) fn id_text(device: &str, t_star_ms: DeviceTime) -> String {
    let id = TripId::new(device, t_star_ms).and_then(|id| id.text());
    id.expect("a kept sample has a device and a time that ids can have")
}

/// A position, degrees.
struct LatLon {
    lat: f64,
    lon: f64,
}

fn lists(rows: impl Iterator<Item = Vec<String>>) -> ArrayRef {
    let item = Field::new("item", DataType::Utf8, false);
    let mut lists = ListBuilder::new(StringBuilder::new()).with_field(item);
    for row in rows {
        row.iter().for_each(|text| lists.values().append_value(text));
        lists.append(true);
    }
    Arc::new(lists.finish())
}

/// The columns of a field: those of [`trip_fields`], by their kinds.
macro_rules! arrays {
    ($rows:ident, $name:ident, [Text], $read:expr) => {
        [(stringify!($name), texts($rows.iter().map($read)), false)]
    };
    ($rows:ident, $name:ident, [time $of:ident], $read:expr) => {
        [(stringify!($name), times($rows.iter().map(|row| row.$of.ms())), false)]
    };
    ($rows:ident, $name:ident, [ids], $read:expr) => {
        [(stringify!($name), lists($rows.iter().map($read)), false)]
    };
    ($rows:ident, $name:ident, [Double], $read:expr) => {
        arrays!(Float64Array, $rows, $read, (stringify!($name), |it| it))
    };
    ($rows:ident, $name:ident, [Int32], $read:expr) => {
        arrays!(Int32Array, $rows, $read, (stringify!($name), |it| it))
    };
    ($rows:ident, $name:ident, [Int64], $read:expr) => {
        arrays!(Int64Array, $rows, $read, (stringify!($name), |it| it))
    };
    ($rows:ident, $name:ident, [position], $read:expr) => {
        arrays!(Float64Array, $rows, $read,
            (concat!(stringify!($name), "_lat"), |it: LatLon| it.lat),
            (concat!(stringify!($name), "_lon"), |it: LatLon| it.lon))
    };
    ($rows:ident, $name:ident, [bbox], $read:expr) => {
        arrays!(Float64Array, $rows, $read,
            ("bbox_west", |it: [f64; 4]| it[0]), ("bbox_south", |it: [f64; 4]| it[1]),
            ("bbox_east", |it: [f64; 4]| it[2]), ("bbox_north", |it: [f64; 4]| it[3]))
    };
    ($rows:ident, $name:ident, [optional Double], $read:expr) => {
        arrays!(optional Float64Array, $rows, $name, $read)
    };
    ($rows:ident, $name:ident, [optional Int32], $read:expr) => {
        arrays!(optional Int32Array, $rows, $name, $read)
    };
    ($rows:ident, $name:ident, [optional Text], $read:expr) => {
        arrays!(optional StringArray, $rows, $name, $read)
    };
    (optional $array:ident, $rows:ident, $name:ident, $read:expr) => {
        [{
            let values = $rows.iter().map($read);
            (stringify!($name), Arc::new($array::from_iter(values)) as ArrayRef, true)
        }]
    };
    ($array:ident, $rows:ident, $read:expr, $(($name:expr, $part:expr)),+) => {
        [$({
            let values = $rows.iter().map($read).map($part);
            ($name, Arc::new($array::from_iter_values(values)) as ArrayRef, false)
        }),+]
    };
}

macro_rules! define_columns {
    (($row:ident, $zone:ident, $text_id:ident), $(
        $(#[doc = $doc:literal])* $(#[schema($($schema:tt)*)])?
        $name:ident: $type:ty, $columns:tt = $value:expr;
    )*) => {
        /// The columns of trips and stops.
        pub(crate) fn columns(rows: &[TripRow], has_path: bool) -> Vec<Column> {
            let $text_id = |row: &TripRow, at| Ok::<_, Infallible>(id_text(&row.device_id, at));
            let mut columns: Vec<Column> = Vec::new();
            $(columns.extend(arrays!(rows, $name, $columns, |$row: &TripRow| {
                let read = || Ok::<$type, Infallible>($value);
                let Ok(value) = read();
                value
            }));)*
            if has_path {
                let paths = rows.iter().map(|row| &row.path);
                columns.push(("path", Arc::new(BinaryArray::from_iter_values(paths)), false));
            }
            columns
        }
    };
}

trip_fields!(define_columns);

/// The table of trips, or of stops.
pub(crate) fn segments(state: &Arc<State>, kind: Kind) -> Table {
    let rows = state.segments().filter(|(_, it)| it.outline().kind == kind).count();
    let empty = batch(columns(&[], state.has_path));
    let state = Arc::clone(state);
    Table::lazy(&empty, rows, move || {
        let (state, mut cursor) = (Arc::clone(&state), Cursor::new(&state, Some(kind)));
        std::iter::from_fn(move || {
            let (mut rows, mut samples) = (Vec::new(), 0);
            // Paths may be large.
            while samples < 16 * BATCH && rows.len() < BATCH {
                let Some((device, segment)) = cursor.next(&state) else { break };
                samples += segment.samples();
                let row = match state.has_path {
                    true => TripRow::from_segment,
                    false => TripRow::without_path,
                };
                rows.push(row(&device, segment, state.fleet.legs()));
            }
            (!rows.is_empty()).then(|| batch(columns(&rows, state.has_path)))
        })
    })
}

//! Trips and stops as rows: the columns of `tstar export --format parquet`.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{BinaryArray, Float64Array, Int32Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use tstar_core::codec::encode;
use tstar_core::identity::TripId;
use tstar_core::model::limits::LegFilter;
use tstar_core::segment::{Kind, is_live};
use tstar_core::{DeviceTime, PathStats, ReadingKind, Segment};

use super::cursor::Cursor;
use super::{BATCH, Column, Table, batch, texts, times};
use crate::decided::State;

/// A trip or stop with what follows from its path.
pub(crate) struct SegmentRow<'a> {
    device: Arc<str>,
    segment: &'a Segment,
    stats: PathStats,
}

impl<'a> SegmentRow<'a> {
    /// The row of a segment of a device.
    pub(crate) fn new(legs: LegFilter, device: Arc<str>, segment: &'a Segment) -> Self {
        let stats = PathStats::from_path(segment.path(), legs);
        Self { device, segment, stats }
    }

    fn absorbed(&self) -> impl Iterator<Item = String> {
        let retired = self.segment.outline().points.iter().filter(|(_, it)| !is_live(it));
        retired.map(|(t_star_ms, _)| id_text(&self.device, t_star_ms))
    }

    fn duration_ms(&self) -> i64 {
        self.segment.end_ms() - self.segment.start_ms()
    }

    fn avg_speed_mps(&self) -> Option<f64> {
        let jumps_ms = self.stats.jumps.map_or(0, |jumps| jumps.duration_ms);
        let counted_s = seconds(self.duration_ms()) - seconds(jumps_ms);
        (counted_s > 0.0).then(|| (self.stats.distance_m / counted_s * 100.0).round() / 100.0)
    }
}

/// The text form of an id.
pub(crate) fn id_text(device: &str, t_star_ms: DeviceTime) -> String {
    let id = TripId::new(device, t_star_ms).and_then(|id| id.text());
    id.expect("a kept sample has a device and a time that ids can have")
}

#[expect(clippy::cast_precision_loss, reason = "durations are far below 2^53 ms")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

fn count(number: usize) -> i32 {
    i32::try_from(number).expect("max_samples is at most 2,000,000")
}

fn lists<I: Iterator<Item = String>>(rows: impl Iterator<Item = I>) -> arrow_array::ArrayRef {
    let item = Field::new("item", DataType::Utf8, false);
    let mut lists = ListBuilder::new(StringBuilder::new()).with_field(item);
    for row in rows {
        row.for_each(|text| lists.values().append_value(text));
        lists.append(true);
    }
    Arc::new(lists.finish())
}

/// The columns of trips and stops.
pub(crate) fn columns(rows: &[SegmentRow<'_>], has_path: bool) -> Vec<Column> {
    type Row<'a> = SegmentRow<'a>;
    let doubles = |value: fn(&Row<'_>) -> f64| -> arrow_array::ArrayRef {
        Arc::new(Float64Array::from_iter_values(rows.iter().map(value)))
    };
    let optional = |value: fn(&Row<'_>) -> Option<f64>| -> arrow_array::ArrayRef {
        Arc::new(Float64Array::from_iter(rows.iter().map(value)))
    };
    let time =
        |value: fn(&Segment) -> DeviceTime| times(rows.iter().map(|row| value(row.segment).ms()));
    let jumps = |row: &Row<'_>| row.stats.jumps.map(|jumps| count(jumps.count));
    let driver = |row: &Row<'_>| row.segment.path().first_driver().map(|(_, it)| it.to_owned());
    let samples = rows.iter().map(|row| count(row.segment.samples()));
    let versions = rows.iter().map(|row| row.segment.version().get());
    let mut columns: Vec<Column> = vec![
        ("id", texts(rows.iter().map(|it| id_text(&it.device, it.segment.t_star_ms()))), false),
        ("device_id", texts(rows.iter().map(|row| &*row.device)), false),
        ("kind", texts(rows.iter().map(|row| row.segment.outline().kind.name())), false),
        ("t_star", time(Segment::t_star_ms), false),
        ("start_time", time(Segment::start_ms), false),
        ("end_time", time(Segment::end_ms), false),
        ("duration_s", doubles(|row| seconds(row.duration_ms())), false),
        ("moving_s", optional(|row| row.stats.moving_ms().map(seconds)), true),
        ("idle_s", optional(|row| row.stats.idle_ms().map(seconds)), true),
        ("parked_s", doubles(|row| seconds(row.stats.parked_ms())), false),
        ("samples", Arc::new(Int32Array::from_iter_values(samples)), false),
        ("distance_m", doubles(|row| (row.stats.distance_m * 10.0).round() / 10.0), false),
        ("avg_speed_mps", optional(|row| row.avg_speed_mps()), true),
        ("max_speed_mps", optional(|row| row.stats.max(ReadingKind::Speed)), true),
        ("jumps", Arc::new(Int32Array::from_iter(rows.iter().map(jumps))), true),
        ("driver", Arc::new(StringArray::from_iter(rows.iter().map(driver))), true),
        ("start_lat", doubles(|row| row.segment.path().first().lat()), false),
        ("start_lon", doubles(|row| row.segment.path().first().lon()), false),
        ("end_lat", doubles(|row| row.segment.path().last().lat()), false),
        ("end_lon", doubles(|row| row.segment.path().last().lon()), false),
        ("bbox_west", doubles(|row| row.stats.min_lon), false),
        ("bbox_south", doubles(|row| row.stats.min_lat), false),
        ("bbox_east", doubles(|row| row.stats.max_lon), false),
        ("bbox_north", doubles(|row| row.stats.max_lat), false),
        ("absorbed", lists(rows.iter().map(SegmentRow::absorbed)), false),
        ("version", Arc::new(Int64Array::from_iter_values(versions)), false),
    ];
    if has_path {
        let paths = rows.iter().map(|row| encode(row.segment.path()));
        columns.push(("path", Arc::new(BinaryArray::from_iter_values(paths)), false));
    }
    columns
}

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
                rows.push(SegmentRow::new(state.fleet.legs(), device, segment));
            }
            (!rows.is_empty()).then(|| batch(columns(&rows, state.has_path)))
        })
    })
}

//! Events: what became of ids, and what changed since the last call.

use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_schema::{DataType, Field};
use tstar_core::DeviceTime;
use tstar_core::codec::trip_row::TripRow;
use tstar_core::fleet::ChangeGroup;
use tstar_core::model::limits::LegFilter;
use tstar_core::segment::Kind;

use crate::decided::State;
use crate::tables::{Column, Table, batch, id_text, segment_columns, texts, times};

/// What happened to an id.
struct IdEvent<'a> {
    row: u64,
    device: &'a str,
    /// The id.
    t_star_ms: DeviceTime,
    change: &'static str,
    /// The id that names it now.
    now_ms: DeviceTime,
    kind: Kind,
}

/// The events of all ids, by row and time.
pub(crate) fn of_ids(state: &Arc<State>) -> Table {
    let mut events = Vec::new();
    for (device, segment) in state.segments() {
        let outline = segment.outline();
        for (t_star_ms, history) in outline.points.iter() {
            for (nth, &version) in history.iter().enumerate() {
                let change = match nth {
                    0 => "minted",
                    _ if nth % 2 == 1 => "retired",
                    _ => "revived",
                };
                let (row, now_ms) = (state.row_of(version), segment.t_star_ms());
                let kind = outline.kind;
                events.push(IdEvent { row, device, t_star_ms, change, now_ms, kind });
            }
        }
    }
    events.sort_by_key(|event| (event.row, event.t_star_ms));
    let rows = events.iter().map(|event| event.row.cast_signed());
    Table::single(batch(vec![
        ("row", Arc::new(Int64Array::from_iter_values(rows)), false),
        ("effect", texts(events.iter().map(|event| state.effect_at(event.row))), false),
        ("change", texts(events.iter().map(|event| event.change)), false),
        ("id", texts(events.iter().map(|it| id_text(it.device, it.t_star_ms))), false),
        ("device_id", texts(events.iter().map(|event| event.device)), false),
        ("t_star", times(events.iter().map(|event| event.t_star_ms.ms())), false),
        ("now_id", texts(events.iter().map(|it| id_text(it.device, it.now_ms))), false),
        ("now_kind", texts(events.iter().map(|event| event.kind.name())), false),
    ]))
}

/// What changed: the columns of trips and stops, the type of the change, and the ids that it
/// retired.
pub(crate) fn of_changes(legs: LegFilter, groups: &[ChangeGroup<'_>]) -> Table {
    let item = Field::new("item", DataType::Utf8, false);
    let mut retired = ListBuilder::new(StringBuilder::new()).with_field(item);
    let (mut rows, mut types) = (Vec::new(), Vec::new());
    for group in groups {
        let device = group.device_id;
        for change in &group.segments {
            for &t_star_ms in &change.event.retired {
                retired.values().append_value(id_text(device, t_star_ms));
            }
            retired.append(true);
            types.push(change.event.kind.name());
            rows.push(TripRow::without_path(device, change.segment, legs));
        }
    }
    let mut columns: Vec<Column> = vec![
        ("change", texts(types.iter()), false),
        ("retired", Arc::new(retired.finish()), false),
    ];
    columns.extend(segment_columns(&rows, false));
    Table::single(batch(columns))
}

//! Compares the rows of one device and day with the expected ones. Pure.

use std::collections::BTreeMap;

use super::{Difference, DifferenceKind};
use crate::log::Bounds;
use crate::model::scalar::{Day, DeviceTime};
use crate::store::TripRow;
use crate::store::raw::RawRow;

/// What comparing a day found.
#[derive(Debug, Default)]
pub(super) struct DayResult {
    /// Differences from the reference store.
    pub(super) differences: Vec<Difference>,
    /// Rows to delete or replace.
    pub(super) wrong: Vec<RawRow>,
    /// Number of rows that are newer than the end of what was read.
    pub(super) ahead: u64,
    /// Number of rows that are equal.
    pub(super) same: u64,
}

/// Whether a row and a span overlap.
fn overlaps(row: &RawRow, (start_ms, end_ms): (DeviceTime, DeviceTime)) -> bool {
    row.start_ms <= end_ms && start_ms <= row.end_ms
}

/// Compares the rows of a day with those of the reference store.
pub(super) fn compare(
    (device_id, day): (&str, Day),
    found: Vec<RawRow>,
    expected: &[TripRow],
    bounds: &Bounds<'_>,
) -> DayResult {
    let mut result = DayResult::default();
    let difference = |kind, row: &RawRow, columns| Difference {
        kind,
        device_id: device_id.to_owned(),
        day,
        span_ms: Some((row.start_ms, row.end_ms)),
        t_star_ms: row.t_star_ms(),
        columns,
        version: None,
    };
    let key = |row: &TripRow| (row.end_ms, row.start_ms);
    let mut unmatched: BTreeMap<_, &TripRow> = expected.iter().map(|row| (key(row), row)).collect();
    let (mut unexpected, mut ahead) = (Vec::new(), Vec::new());
    for row in found {
        let Some(version) = row.version() else {
            result.differences.push(difference(DifferenceKind::NoVersion, &row, Vec::new()));
            result.wrong.push(row);
            continue;
        };
        if bounds.is_ahead(row.partition(), version) {
            ahead.push(row);
            continue;
        }
        let Some(trip) = unmatched.remove(&(row.end_ms, row.start_ms)) else {
            unexpected.push(row);
            continue;
        };
        let columns = RawRow::from_trip_row(trip, day).differences(&row);
        if columns.is_empty() {
            result.same += 1;
        } else {
            let version = Some(trip.version);
            let different = difference(DifferenceKind::Different, &row, columns);
            result.differences.push(Difference { version, ..different });
            result.wrong.push(row);
        }
    }
    for row in ahead {
        // A newer trip contains its former span.
        let (inside, cut): (Vec<_>, Vec<_>) = unmatched
            .values()
            .filter(|trip| overlaps(&row, (trip.start_ms, trip.end_ms)))
            .partition(|trip| row.start_ms <= trip.start_ms && trip.end_ms <= row.end_ms);
        if cut.is_empty() {
            let inside: Vec<_> = inside.into_iter().map(key).collect();
            unmatched.retain(|key, _| !inside.contains(key));
            result.ahead += 1;
        } else {
            result.differences.push(difference(DifferenceKind::Overlapping, &row, Vec::new()));
            result.wrong.push(row);
        }
    }
    for row in unexpected {
        let overlapping = expected.iter().any(|trip| overlaps(&row, (trip.start_ms, trip.end_ms)));
        let kind = if overlapping { DifferenceKind::Overlapping } else { DifferenceKind::Extra };
        result.differences.push(difference(kind, &row, Vec::new()));
        result.wrong.push(row);
    }
    for trip in unmatched.values() {
        let row = RawRow::from_trip_row(trip, day);
        let missing = difference(DifferenceKind::Missing, &row, Vec::new());
        result.differences.push(Difference { version: Some(trip.version), ..missing });
    }
    result
}

//! Compares the rows of one device and day with the expected ones. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::{Difference, DifferenceKind};
use crate::log::Bounds;
use crate::model::scalar::{Day, DeviceTime};
use crate::store::TripRow;
use crate::store::raw::RawRow;
use crate::timeline::day_of;

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

/// The device times of a row's samples; none of a malformed row.
fn times(row: &RawRow) -> Vec<DeviceTime> {
    let path = row.to_trip_row().and_then(|row| row.to_path());
    path.map_or_else(|_| Vec::new(), |path| path.iter().map(|sample| sample.time_ms).collect())
}

/// Whether newer rows have each sample of a trip in a day: they may have divided it, but lose none.
fn is_kept(trip: &TripRow, day: Day, kept: &BTreeSet<DeviceTime>) -> bool {
    let Ok(path) = trip.to_path() else { return false };
    let mut times = path.iter().map(|sample| sample.time_ms);
    times.all(|time_ms| day_of(time_ms) != day || kept.contains(&time_ms))
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
    let kept: BTreeSet<DeviceTime> = ahead.iter().flat_map(times).collect();
    for row in ahead {
        let former = unmatched.iter();
        let former = former.filter(|(_, trip)| overlaps(&row, (trip.start_ms, trip.end_ms)));
        if former.clone().all(|(_, trip)| is_kept(trip, day, &kept)) {
            let former: Vec<_> = former.map(|(key, _)| *key).collect();
            unmatched.retain(|key, _| !former.contains(key));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::scalar::Version;
    use crate::segment::MintPoints;
    use crate::timeline::{LegFilter, Path, READINGS, Reading, Sample};

    /// A trip of samples at these minutes.
    fn trip(minutes: &[i64], version: i64) -> TripRow {
        let none = [Reading::ABSENT; READINGS];
        let sample = |minute: &i64| Sample::new(DeviceTime(minute * 60_000), (0, 0), none);
        let path = Path::from_sorted(minutes.iter().map(sample)).unwrap();
        let ids = (&MintPoints::new(path.first().time_ms, Version(2)), Version(version));
        TripRow::from_path("van", &path, ids, LegFilter::default())
    }

    /// How many rows of a day are newer than what was read, up to version 9, and how many are
    /// wrong.
    fn compared(found: &[TripRow], expected: &[TripRow]) -> (u64, usize) {
        let upto = |version| BTreeMap::from([(0, Version(version))]);
        let bounds = Bounds { last: upto(9), limit: upto(100), log: None };
        let found = found.iter().map(|row| RawRow::from_trip_row(row, Day(0))).collect();
        let result = compare(("van", Day(0)), found, expected, &bounds);
        (result.ahead, result.wrong.len())
    }

    #[test]
    fn newer_rows_have_all_samples_of_what_they_replace() {
        let whole = [trip(&[0, 2, 4], 4)];
        assert_eq!(compared(&[trip(&[0, 2, 3, 4], 12)], &whole), (1, 0));
        let parts = [trip(&[0, 2], 12), trip(&[4, 5], 12)];
        assert_eq!(compared(&parts, &whole), (2, 0), "a later sample divided it");
        assert_eq!(compared(&[trip(&[0, 2], 12), trip(&[5], 12)], &whole), (1, 1));
        assert_eq!(compared(&[trip(&[0, 4], 12)], &whole), (0, 1));
        assert_eq!(compared(&[trip(&[10], 12)], &[]), (1, 0));
    }
}

//! Where devices were last: the ends of segments, read without their paths, which may be long.

use std::collections::BTreeSet;

use crate::codec::trip_row::{VersionedSpan, resolve_overlaps};
use crate::identity::TripId;
use crate::model::scalar::{Day, DeviceTime, Version};
use crate::segment::{Kind, Segment};
use crate::store::{Result, RowError, TripRow, TripStore, skip};
use crate::timeline::day_of;

/// Days of a device that are searched for its last segment. A day may be in the index without a
/// row: after a crash, or after an erasure.
const DAYS: usize = 4;

/// Rows of a day that decide which segment is the last, as many as decide a lookup.
const ROWS: usize = 4;

/// Maximum number of rows of a day that are counted.
const MAX_COUNTED: usize = 10_000;

/// When and where a segment ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TripEnd {
    /// Whether it is a trip or a stop.
    pub kind: Kind,
    /// Identity time, ms.
    pub t_star_ms: DeviceTime,
    /// Device time of the earliest kept sample, ms.
    pub start_ms: DeviceTime,
    /// Device time of the latest kept sample, ms.
    pub end_ms: DeviceTime,
    /// Version of the last record that changed it.
    pub version: Version,
    /// Latitude of the last position, degrees north.
    pub lat: f64,
    /// Longitude of the last position, degrees east.
    pub lon: f64,
}

impl VersionedSpan for TripEnd {
    fn span(&self) -> (DeviceTime, DeviceTime) {
        (self.start_ms, self.end_ms)
    }

    fn version(&self) -> Version {
        self.version
    }
}

impl TripEnd {
    /// The end of a row.
    pub fn of_row(row: &TripRow) -> Self {
        Self {
            kind: row.kind,
            t_star_ms: row.t_star_ms,
            start_ms: row.start_ms,
            end_ms: row.end_ms,
            version: row.version,
            lat: row.end_lat,
            lon: row.end_lon,
        }
    }

    /// The end of a segment in memory.
    pub(crate) fn of_segment(segment: &Segment) -> Self {
        let last = segment.path().last();
        Self {
            kind: segment.outline().kind,
            t_star_ms: segment.t_star_ms(),
            start_ms: segment.start_ms(),
            end_ms: segment.end_ms(),
            version: segment.version(),
            lat: last.lat(),
            lon: last.lon(),
        }
    }

    /// What is wrong with the values, if anything is.
    fn fault(&self, device_id: &str) -> Option<String> {
        if !(self.start_ms..=self.end_ms).contains(&self.t_star_ms) {
            return Some("t_star lies outside the trip".to_owned());
        }
        if !(self.lat.is_finite() && self.lon.is_finite()) {
            return Some(format!("its position is {}, {}", self.lat, self.lon));
        }
        let id = TripId::new(device_id, self.t_star_ms).and_then(|id| id.text());
        id.err().map(|error| error.to_string())
    }
}

/// The segments of a device in a day by start, of some rows. Malformed ones are skipped, counted
/// and logged.
fn segments_of_day(device_id: &str, day: Day, mut rows: Vec<TripEnd>) -> Vec<TripEnd> {
    rows.retain(|row| match row.fault(device_id) {
        None => true,
        Some(reason) => {
            skip::malformed(&RowError {
                device: device_id.to_owned(),
                bucket: day.start_ms(),
                start_ms: row.start_ms,
                end_ms: row.end_ms,
                reason,
            });
            false
        }
    });
    resolve_overlaps(rows)
}

/// The end of the last segment of a device; `None` without one in the latest days of its index.
/// Costs at most five reads of a few rows.
///
/// # Errors
/// The store cannot be read.
pub async fn latest_end(store: &impl TripStore, device_id: &str) -> Result<Option<TripEnd>> {
    for day in store.latest_days(device_id, DAYS).await? {
        let rows = store.ends_of_day(device_id, day, ROWS).await?;
        if let Some(latest) = segments_of_day(device_id, day, rows).pop() {
            return Ok(Some(latest));
        }
    }
    Ok(None)
}

/// The number of trips of a device that overlap a span, both ends inclusive, at most 10,000 in each
/// UTC day.
///
/// # Errors
/// The store cannot be read.
pub async fn count_trips(
    store: &impl TripStore,
    device_id: &str,
    (from_ms, upto_ms): (DeviceTime, DeviceTime),
) -> Result<usize> {
    // A trip over midnight is in two days.
    let mut starts = BTreeSet::new();
    for day in day_of(from_ms).through(day_of(upto_ms)) {
        let rows = store.ends_of_day(device_id, day, MAX_COUNTED).await?;
        let segments = segments_of_day(device_id, day, rows).into_iter();
        let counts =
            |it: &TripEnd| it.kind == Kind::Trip && it.start_ms <= upto_ms && it.end_ms >= from_ms;
        starts.extend(segments.filter(counts).map(|segment| segment.start_ms));
    }
    Ok(starts.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::MintPoints;
    use crate::store::memory::{ApplyRows as _, MemoryStore};
    use crate::timeline::{LegFilter, Path, READINGS, Reading, Sample};

    fn end(minutes: (i64, i64), version: i64) -> TripEnd {
        let (start_ms, end_ms) = (DeviceTime(minutes.0 * 60_000), DeviceTime(minutes.1 * 60_000));
        let version = Version(version);
        let kind = Kind::Trip;
        TripEnd { kind, t_star_ms: start_ms, start_ms, end_ms, version, lat: 52.52, lon: 13.41 }
    }

    #[test]
    fn the_last_trip_is_that_of_the_overlap_rule() {
        let (old, new) = (end((10, 12), 2), end((8, 12), 6));
        let last = |rows: &[TripEnd]| segments_of_day("truck-17", Day(0), rows.to_vec()).pop();
        assert_eq!(last(&[old, new]), Some(new));
        let malformed = TripEnd { lat: f64::NAN, ..end((20, 22), 8) };
        assert_eq!(last(&[malformed, old]), Some(old));
        let outside = TripEnd { t_star_ms: DeviceTime(0), ..end((20, 22), 8) };
        assert_eq!(last(&[outside]), None);
    }

    /// The row of a trip at these minutes.
    fn row(minutes: (i64, i64), version: i64) -> TripRow {
        let sample = |minute: i64| {
            Sample::new(DeviceTime(minute * 60_000), (0, 0), [Reading::ABSENT; READINGS])
        };
        let path = Path::from_sorted([sample(minutes.0), sample(minutes.1)]).unwrap();
        let (t_star, version) = (path.first().time_ms, Version(version));
        let ids = MintPoints::new(t_star, version);
        TripRow::from_path("truck-17", &path, (&ids, version), LegFilter::default())
    }

    #[tokio::test]
    async fn a_day_without_a_trip_is_passed_over() {
        let store = MemoryStore::default();
        let latest = || latest_end(&store, "truck-17");
        assert_eq!(latest().await.unwrap(), None);
        let (first, next) = (row((1, 3), 4), row((1450, 1460), 6));
        let malformed = TripRow { end_lat: f64::NAN, ..next.clone() };
        store.apply(&[first.clone(), malformed]).await.unwrap();
        assert_eq!(latest().await.unwrap(), Some(TripEnd::of_row(&first)));
        store.apply(std::slice::from_ref(&next)).await.unwrap();
        assert_eq!(latest().await.unwrap(), Some(TripEnd::of_row(&next)));
    }

    #[tokio::test]
    async fn a_stop_is_where_a_device_was_last_but_no_trip() {
        let store = MemoryStore::default();
        let stop = TripRow { kind: Kind::Stop, ..row((4, 9), 6) };
        store.apply(&[row((1, 3), 4), stop.clone()]).await.unwrap();
        let latest = latest_end(&store, "truck-17").await.unwrap();
        assert_eq!(latest, Some(TripEnd::of_row(&stop)));
        let counted = async |from: i64, upto: i64| {
            let span = (DeviceTime(from * 60_000), DeviceTime(upto * 60_000));
            count_trips(&store, "truck-17", span).await.unwrap()
        };
        assert_eq!(counted(0, 1439).await, 1);
        assert_eq!((counted(3, 2000).await, counted(4, 1439).await), (1, 0));
        store.apply(&[row((1430, 1450), 8)]).await.unwrap();
        assert_eq!((counted(0, 2000).await, counted(1440, 1449).await), (2, 1));
    }

    #[test]
    fn trips_of_a_day_are_counted_once() {
        let rows = vec![end((20, 22), 8), end((10, 12), 2), end((8, 12), 6), end((0, 3), 4)];
        assert_eq!(segments_of_day("truck-17", Day(0), rows).len(), 3);
    }
}

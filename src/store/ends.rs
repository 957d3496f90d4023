//! Where devices were last: the ends of trips, read without their paths, which may be long.

use super::{RowError, StoreError, skip};
use crate::codec::trip_row::{VersionedSpan, resolve_overlaps};
use crate::identity::TripId;
use crate::model::scalar::{Day, DeviceTime, Version};

/// Days of a device that are searched for its last trip. A day may be in the index without a trip:
/// after a crash, or after an erasure.
const DAYS: usize = 4;

/// Rows of a day that decide which trip is the last, as many as decide a lookup.
const ROWS: usize = 4;

/// Maximum number of rows of a day that are counted.
const MAX_COUNTED: usize = 10_000;

/// When and where a trip ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TripEnd {
    /// Identity time, ms.
    pub t_star_ms: DeviceTime,
    /// Device time of the earliest kept sample, ms.
    pub start_ms: DeviceTime,
    /// Device time of the latest kept sample, ms.
    pub end_ms: DeviceTime,
    /// Version of the last sample that changed the trip.
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

/// Reads the ends of trips.
///
/// A store with replicas may read one of them only, so that an answer may lack what was written
/// lately: a read of some columns at a quorum would have replicas repaired in these columns alone.
pub trait TripEnds: Send + Sync {
    /// At most `limit` days of a device from the day index, the latest first.
    fn latest_days(
        &self,
        device_id: &str,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Day>, StoreError>> + Send;

    /// At most `limit` rows of a device in a UTC day, the latest end first, overlapping ones
    /// included.
    fn ends_of_day(
        &self,
        device_id: &str,
        day: Day,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<TripEnd>, StoreError>> + Send;
}

/// The trips of a device in a day by start, of at most `limit` rows, the latest. Malformed ones are
/// skipped, counted and logged.
async fn trips_of_day(
    store: &impl TripEnds,
    device_id: &str,
    day: Day,
    limit: usize,
) -> Result<Vec<TripEnd>, StoreError> {
    let mut rows = store.ends_of_day(device_id, day, limit).await?;
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
    Ok(resolve_overlaps(rows))
}

/// The end of the last trip of a device; `None` without a trip in the latest days of its index.
/// Costs at most five reads of a few rows.
///
/// # Errors
/// The store cannot be read.
pub async fn latest_end(
    store: &impl TripEnds,
    device_id: &str,
) -> Result<Option<TripEnd>, StoreError> {
    for day in store.latest_days(device_id, DAYS).await? {
        if let Some(latest) = trips_of_day(store, device_id, day, ROWS).await?.pop() {
            return Ok(Some(latest));
        }
    }
    Ok(None)
}

/// The number of trips of a device that touch a day, at most 10,000.
///
/// # Errors
/// The store cannot be read.
pub async fn count_trips(
    store: &impl TripEnds,
    device_id: &str,
    day: Day,
) -> Result<usize, StoreError> {
    Ok(trips_of_day(store, device_id, day, MAX_COUNTED).await?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(minutes: (i64, i64), version: i64) -> TripEnd {
        let (start_ms, end_ms) = (DeviceTime(minutes.0 * 60_000), DeviceTime(minutes.1 * 60_000));
        let version = Version(version);
        TripEnd { t_star_ms: start_ms, start_ms, end_ms, version, lat: 52.52, lon: 13.41 }
    }

    /// A device with these rows in days 1 and 3.
    struct Rows([Vec<TripEnd>; 2]);

    impl TripEnds for Rows {
        async fn latest_days(&self, _: &str, limit: usize) -> Result<Vec<Day>, StoreError> {
            Ok([Day(3), Day(1)].into_iter().take(limit).collect())
        }

        async fn ends_of_day(
            &self,
            _: &str,
            day: Day,
            limit: usize,
        ) -> Result<Vec<TripEnd>, StoreError> {
            let rows = if day == Day(1) { &self.0[0] } else { &self.0[1] };
            Ok(rows.iter().copied().take(limit).collect())
        }
    }

    #[tokio::test]
    async fn the_last_trip_is_that_of_the_overlap_rule() {
        let (old, new) = (end((10, 12), 2), end((8, 12), 6));
        let first = end((0, 3), 4);
        let last = |rows: [Vec<TripEnd>; 2]| async move {
            let store = Rows(rows);
            latest_end(&store, "truck-17").await.unwrap()
        };
        assert_eq!(last([vec![first], vec![old, new]]).await, Some(new));
        assert_eq!(last([vec![first], vec![]]).await, Some(first), "a day without rows");
        assert_eq!(last([vec![], vec![]]).await, None);
        let malformed = TripEnd { lat: f64::NAN, ..end((20, 22), 8) };
        assert_eq!(last([vec![first], vec![malformed, old]]).await, Some(old));
        let outside = TripEnd { t_star_ms: DeviceTime(0), ..end((20, 22), 8) };
        assert_eq!(last([vec![first], vec![outside]]).await, Some(first));
    }

    #[tokio::test]
    async fn trips_of_a_day_are_counted_once() {
        let rows = vec![end((20, 22), 8), end((10, 12), 2), end((8, 12), 6), end((0, 3), 4)];
        let store = Rows([rows, vec![]]);
        assert_eq!(count_trips(&store, "truck-17", Day(1)).await.unwrap(), 3);
        assert_eq!(count_trips(&store, "truck-17", Day(3)).await.unwrap(), 0);
    }
}

//! Sums over the trips of a span: by device, driver or day.

use std::collections::BTreeMap;

use crate::model::scalar::{Day, DeviceTime};
use crate::model::zone::Zone;
use crate::store::skip::{Missing, collecting};
use crate::store::{DevicesOfDays, Kinds, Order, StoreError, TripRow, TripStore};
use crate::timeline::day_of;

/// Trips of a device that are read at once.
const PAGE: usize = 32;

/// Devices of a day that are read at once.
const DEVICES: usize = 100;

/// Maximum number of trips of a summary: their rows are all read.
pub(crate) const MAX_TRIPS: u64 = 100_000;

/// Maximum number of rows of a summary.
pub const MAX_ROWS: usize = 10_000;

/// What a row of a summary is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SummaryKey {
    /// A device.
    Device,
    /// A driver, or no driver.
    Driver,
    /// The day on which trips start.
    Day,
}

/// Sums over trips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Number of trips.
    pub trips: u64,
    /// Distance, tenths of a metre: the sum of what each trip shows.
    pub distance_dm: i64,
    /// Duration, ms.
    pub duration_ms: i64,
    /// How long they move, ms: those of which a sample has a speed.
    pub moving_ms: i64,
    /// How long these stand and the ignition is not off, ms.
    pub idle_ms: i64,
}

/// The sums of a span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpanSums {
    /// By key, in order; `None`: trips without a driver.
    pub rows: BTreeMap<Option<String>, Sums>,
    /// All of them together.
    pub total: Sums,
    /// Trips that the sums lack.
    pub missing: Missing,
}

/// Why there is no summary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SummaryError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There are too many trips.
    #[error("more than {MAX_TRIPS} trips; choose a shorter span, or one device")]
    TooManyTrips,
    /// There are too many keys.
    #[error("more than {MAX_ROWS} rows; choose a shorter span, or one device")]
    TooManyRows,
}

/// The trips to sum up: those that start in a span, both ends inclusive, ms.
#[derive(Clone, Debug)]
pub(crate) struct SummaryRequest {
    /// The span.
    pub span: (DeviceTime, DeviceTime),
    /// One device; all if `None`.
    pub device: Option<String>,
    /// The rows of the summary.
    pub by: SummaryKey,
    /// The zone of days.
    pub zone: Zone,
}

/// Sums up the trips of a span.
///
/// # Errors
/// [`SummaryError`].
pub(crate) async fn sum_up<S: TripStore>(
    store: &S,
    request: &SummaryRequest,
) -> Result<SpanSums, SummaryError> {
    let mut summary = SpanSums::default();
    if let Some(device) = &request.device {
        summary.add_device(store, device, request).await?;
        return Ok(summary);
    }
    let (from_ms, to_ms) = request.span;
    let days = (day_of(from_ms).get()..=day_of(to_ms).get()).map(Day);
    let mut devices = DevicesOfDays::new(store, days, None, DEVICES);
    while let Some(device) = devices.next().await? {
        summary.add_device(store, &device, request).await?;
    }
    Ok(summary)
}

impl SpanSums {
    /// Adds the trips of a device.
    async fn add_device<S: TripStore>(
        &mut self,
        store: &S,
        device: &str,
        request: &SummaryRequest,
    ) -> Result<(), SummaryError> {
        let (mut from_ms, to_ms) = request.span;
        while from_ms <= to_ms {
            let rows = store.range(device, Kinds::Trips, from_ms, to_ms, Order::Asc, PAGE);
            let (rows, mut skipped) = collecting(rows).await;
            let mut rows = rows?;
            let last_ms = rows.last().map(|last| last.end_ms).filter(|_| rows.len() == PAGE);
            // One that started before the span counts there.
            skipped.retain(|error| error.start_ms >= request.span.0);
            // What begins later is read with the next page.
            self.missing.add(skipped, (from_ms, last_ms.unwrap_or(to_ms)), &rows);
            rows.retain(|row| row.start_ms >= request.span.0);
            rows.iter().try_for_each(|row| self.add(row, request))?;
            let Some(last_ms) = last_ms else { break };
            from_ms = last_ms + 1;
        }
        Ok(())
    }

    fn add(&mut self, row: &TripRow, request: &SummaryRequest) -> Result<(), SummaryError> {
        let sums = Sums::from_trip(row);
        self.total.add(&sums);
        if self.total.trips > MAX_TRIPS {
            return Err(SummaryError::TooManyTrips);
        }
        let key = match request.by {
            SummaryKey::Device => Some(row.device_id.clone()),
            SummaryKey::Driver => row.driver.clone(),
            SummaryKey::Day => Some(request.zone.day_of(row.start_ms).to_string()),
        };
        self.rows.entry(key).or_default().add(&sums);
        if self.rows.len() > MAX_ROWS { Err(SummaryError::TooManyRows) } else { Ok(()) }
    }
}

impl Sums {
    fn from_trip(row: &TripRow) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "far below 2^63")]
        let distance_dm = (row.distance_m * 10.0).round() as i64;
        Self {
            trips: 1,
            distance_dm,
            duration_ms: row.end_ms - row.start_ms,
            moving_ms: row.moving_ms.unwrap_or_default(),
            idle_ms: row.idle_ms.unwrap_or_default(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.trips += other.trips;
        self.distance_dm += other.distance_dm;
        self.duration_ms += other.duration_ms;
        self.moving_ms += other.moving_ms;
        self.idle_ms += other.idle_ms;
    }
}

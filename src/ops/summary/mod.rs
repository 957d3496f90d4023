//! Sums over the trips and stops of a span: by device, driver or day.
//!
//! A segment counts in a span, and in a day, with the part of it that lies within. So the sums of
//! all days are those of all devices, and those of the trips themselves. Only a segment that
//! crosses such a time needs its path for that; all others are summed up by their columns.

mod json;

use std::collections::BTreeMap;

pub(crate) use self::json::{SUMMARY_COLUMNS, SummaryRow, SumsJson};
use super::row_check::legs_of;
use crate::model::scalar::{Day, DeviceTime};
use crate::model::zone::Zone;
use crate::segment::Kind;
use crate::store::skip::{Missing, collecting};
use crate::store::{
    AnyStore, DevicesOfDays, Kinds, Order, RowError, StoreError, TripRow, TripStore,
};
use crate::timeline::{LegFilter, Part, day_of, distance_dm, parts};

/// Trips and stops of a device that are read at once.
const PAGE: usize = 32;

/// Devices of a day that are read at once.
const DEVICES: usize = 100;

/// More samples are decoded on a thread of their own.
const MANY_SAMPLES: i64 = 1000;

/// Maximum number of trips and stops of a summary: their rows are all read.
pub(crate) const MAX_SEGMENTS: u64 = 200_000;

/// Maximum number of rows of a summary.
pub const MAX_ROWS: usize = 10_000;

/// Maximum size of their keys together, bytes: JSON may have six for each.
const MAX_KEYS: usize = 1 << 20;

/// What a row of a summary is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SummaryKey {
    /// A device.
    Device,
    /// The driver of trips and stops, or no driver.
    Driver,
    /// A day of the zone.
    Day,
}

impl SummaryKey {
    /// The names in requests.
    pub(crate) const NAMES: [(&str, Self); 3] =
        [("day", Self::Day), ("device", Self::Device), ("driver", Self::Driver)];

    /// The key with a name.
    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        let found = Self::NAMES.into_iter().find(|(other, _)| *other == name);
        found.map(|(_, key)| key).ok_or_else(|| format!("`{name}` is not device, driver or day"))
    }
}

/// Sums over trips and stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Number of trips that start.
    pub trips: u64,
    /// Distance of trips, tenths of a metre: the sum of what each shows.
    pub distance_dm: i64,
    /// Duration of trips, ms.
    pub duration_ms: i64,
    /// How long trips move, ms: those of which a sample has a speed.
    pub moving_ms: i64,
    /// How long these stand, ms.
    pub idle_ms: i64,
    /// How long stops stand and the ignition is not off, ms.
    pub standing_ms: i64,
    /// How long the ignition is off, ms.
    pub parked_ms: i64,
}

/// The sums of a span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpanSums {
    /// By key, in order; `None`: what has no driver.
    pub rows: BTreeMap<Option<String>, Sums>,
    /// All of them together.
    pub total: Sums,
    /// Trips and stops that the sums lack.
    pub missing: Missing,
    /// Number of trips and stops.
    segments: u64,
    /// Size of the keys, bytes.
    keys: usize,
}

/// Why there is no summary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SummaryError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There are too many trips and stops.
    #[error("more than {MAX_SEGMENTS} trips and stops; choose a shorter span, or one device")]
    TooManySegments,
    /// There are too many keys, or they are too long.
    #[error("more than {MAX_ROWS} rows, or 1 MiB of keys; choose a shorter span, or one device")]
    TooManyRows,
}

/// What to sum up: trips and stops within a span, both ends inclusive, ms.
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

/// Sums up the trips and stops of a span.
///
/// # Errors
/// [`SummaryError`].
pub(crate) async fn sum_up(
    store: &AnyStore,
    request: &SummaryRequest,
) -> Result<SpanSums, SummaryError> {
    let days = (request.by == SummaryKey::Day).then_some(request.zone);
    let cutter = Cutter { span: request.span, days, legs: legs_of(store).await? };
    let mut summary = SpanSums::default();
    if let Some(device) = &request.device {
        summary.add_device(store, device, request, cutter).await?;
        return Ok(summary);
    }
    let (from_ms, to_ms) = request.span;
    let days = (day_of(from_ms).get()..=day_of(to_ms).get()).map(Day);
    let mut devices = DevicesOfDays::new(store, days, None, DEVICES);
    while let Some(device) = devices.next().await? {
        summary.add_device(store, &device, request, cutter).await?;
    }
    Ok(summary)
}

impl SpanSums {
    /// Adds the trips and stops of a device.
    async fn add_device(
        &mut self,
        store: &AnyStore,
        device: &str,
        request: &SummaryRequest,
        cutter: Cutter,
    ) -> Result<(), SummaryError> {
        let (mut from_ms, to_ms) = request.span;
        while from_ms <= to_ms {
            let rows = store.range(device, Kinds::All, from_ms, to_ms, Order::Asc, PAGE);
            let (rows, skipped) = collecting(rows).await;
            let rows = rows?;
            let last_ms = rows.last().map(|last| last.end_ms).filter(|_| rows.len() == PAGE);
            // What begins later is read with the next page.
            let span = (from_ms, last_ms.unwrap_or(to_ms));
            self.missing.add(skipped, span, &rows);
            self.segments += rows.len() as u64;
            if self.segments > MAX_SEGMENTS {
                return Err(SummaryError::TooManySegments);
            }
            let (pieces, malformed) = cutter.cut_all(rows).await;
            self.missing.add::<TripRow>(malformed, span, &[]);
            for piece in pieces {
                self.add(piece, request)?;
            }
            let Some(last_ms) = last_ms else { break };
            from_ms = last_ms + 1;
        }
        Ok(())
    }

    fn add(&mut self, piece: Piece, request: &SummaryRequest) -> Result<(), SummaryError> {
        self.total.add(&piece.sums);
        let key = match request.by {
            SummaryKey::Device => Some(piece.device_id),
            SummaryKey::Driver => piece.driver,
            SummaryKey::Day => Some(request.zone.day_of(piece.start_ms).to_string()),
        };
        let size = key.as_ref().map_or(0, String::len);
        let sums = self.rows.entry(key).or_insert_with(|| {
            self.keys += size;
            Sums::default()
        });
        sums.add(&piece.sums);
        let is_too_large = self.rows.len() > MAX_ROWS || self.keys > MAX_KEYS;
        if is_too_large { Err(SummaryError::TooManyRows) } else { Ok(()) }
    }
}

/// A segment, or the part of one between two cuts.
struct Piece {
    device_id: String,
    driver: Option<String>,
    start_ms: DeviceTime,
    sums: Sums,
}

/// Cuts segments at the ends of a span, and at midnights.
#[derive(Clone, Copy)]
struct Cutter {
    /// Both ends inclusive.
    span: (DeviceTime, DeviceTime),
    /// The zone of the midnights; `None`: not at midnights.
    days: Option<Zone>,
    /// The rules under which the store was built.
    legs: LegFilter,
}

impl Cutter {
    /// The times within a segment at which it is cut, in order.
    fn cuts(&self, row: &TripRow) -> Vec<DeviceTime> {
        let (from_ms, to_ms) = self.span;
        let mut cuts = vec![from_ms];
        if let Some(zone) = self.days {
            let mut midnight_ms = zone.day_of(row.start_ms).end_ms();
            while midnight_ms < row.end_ms {
                cuts.push(midnight_ms);
                midnight_ms = zone.day_of(midnight_ms).end_ms();
            }
        }
        cuts.push(to_ms.saturating_add(1));
        cuts.retain(|cut_ms| (row.start_ms + 1..row.end_ms).contains(cut_ms));
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }

    /// The pieces of segments, and those whose paths cannot be read. Many samples are decoded on a
    /// thread of their own, since that would delay other tasks.
    async fn cut_all(self, rows: Vec<TripRow>) -> (Vec<Piece>, Vec<RowError>) {
        let rows: Vec<_> = rows.into_iter().map(|row| (self.cuts(&row), row)).collect();
        let cut = rows.iter().filter(|(cuts, _)| !cuts.is_empty());
        let samples: i64 = cut.map(|(_, row)| i64::from(row.samples)).sum();
        let work = move || {
            let (mut pieces, mut malformed) = (Vec::new(), Vec::new());
            for (cuts, row) in rows {
                match self.pieces(&row, &cuts) {
                    Ok(found) => pieces.extend(found),
                    Err(error) => malformed.push(error),
                }
            }
            (pieces, malformed)
        };
        match samples > MANY_SAMPLES {
            true => tokio::task::spawn_blocking(work).await.expect("cutting does not panic"),
            false => work(),
        }
    }

    /// The pieces of a segment that start within the span.
    fn pieces(&self, row: &TripRow, cuts: &[DeviceTime]) -> Result<Vec<Piece>, RowError> {
        let sums = match cuts {
            [] => vec![Sums::from_row(row)],
            _ => {
                let path = row.to_path()?;
                let parts = parts(&path, cuts, self.legs).into_iter();
                parts.map(|part| Sums::from_part(row, &part)).collect()
            }
        };
        let starts = std::iter::once(row.start_ms).chain(cuts.iter().copied());
        let piece = |(start_ms, sums): (DeviceTime, Sums)| {
            let trips = u64::from(row.kind == Kind::Trip && start_ms == row.start_ms);
            let (device_id, driver) = (row.device_id.clone(), row.driver.clone());
            Piece { device_id, driver, start_ms, sums: Sums { trips, ..sums } }
        };
        let (from_ms, to_ms) = self.span;
        let is_inside = |piece: &Piece| (from_ms..=to_ms).contains(&piece.start_ms);
        Ok(starts.zip(sums).map(piece).filter(is_inside).collect())
    }
}

impl Sums {
    /// Those of a whole segment, by its columns.
    fn from_row(row: &TripRow) -> Self {
        Self {
            distance_dm: distance_dm(row.distance_m),
            duration_ms: row.end_ms - row.start_ms,
            moving_ms: row.moving_ms.unwrap_or_default(),
            idle_ms: row.idle_ms.unwrap_or_default(),
            parked_ms: row.parked_ms,
            ..Self::default()
        }
        .by_kind(row.kind)
    }

    /// Those of a part of a segment.
    fn from_part(row: &TripRow, part: &Part) -> Self {
        Self {
            distance_dm: part.distance_dm,
            duration_ms: part.duration_ms(),
            // As in the columns: without a speed, nothing says that it moves.
            moving_ms: row.moving_ms.map_or(0, |_| part.moving_ms()),
            idle_ms: row.idle_ms.map_or(0, |_| part.idle_ms()),
            parked_ms: part.parked_ms(),
            ..Self::default()
        }
        .by_kind(row.kind)
    }

    /// These of a trip; of a stop how long it stands, and is parked.
    fn by_kind(self, kind: Kind) -> Self {
        let Self { duration_ms, parked_ms, .. } = self;
        match kind {
            Kind::Trip => self,
            Kind::Stop => {
                Self { standing_ms: duration_ms - parked_ms, parked_ms, ..Self::default() }
            }
        }
    }

    fn add(&mut self, other: &Self) {
        self.trips += other.trips;
        self.distance_dm += other.distance_dm;
        self.duration_ms += other.duration_ms;
        self.moving_ms += other.moving_ms;
        self.idle_ms += other.idle_ms;
        self.standing_ms += other.standing_ms;
        self.parked_ms += other.parked_ms;
    }
}

#[cfg(test)]
mod tests;

//! The demo: a fleet whose samples arrive out of order, and lookups of trips that merged or split.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::simulate::write_lines;
use crate::codec::trip_row::RowError;
use crate::identity::TripId;
use crate::model::scalar::DeviceTime;
use crate::model::time::format_time;
use crate::simulate::{Fleet, FleetSettings};
use crate::store::{DeviceScope, Kinds, Order, StoreError, TripRow, TripStore, files};
use crate::views::{Extras, Match};

/// The fleet of the demo. After these samples of this seed, late bursts join trips and split one
/// in the minute after its page has opened: see [`super::demo_live`].
pub const FLEET: FleetSettings =
    FleetSettings { devices: 50, samples: 202_155, seed: 1, mix: None, bad: 0.001 };

/// How long the samples of [`FLEET`] take to arrive, ms: what has to be known before the first is
/// made, so that the last arrives at a given time.
pub(super) const FLEET_MS: i64 = 204_286_041;

/// Writes the first samples of the fleet, as many as [`FLEET`] has, as gzipped NDJSON, in arrival
/// order. A file appears under `path` once it is complete.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_samples(path: &Path, fleet: &mut Fleet) -> io::Result<()> {
    let samples = usize::try_from(FLEET.samples).unwrap_or(usize::MAX);
    files::replace(path, |file| {
        let mut gzip = GzEncoder::new(BufWriter::new(file), Compression::fast());
        write_lines(fleet.by_ref().take(samples), &mut gzip)?;
        gzip.finish()?.flush()
    })?;
    Ok(())
}

/// A trip that merged with another one, and how to look it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MergedTrip {
    /// Device id.
    pub device_id: String,
    /// A time that it covers, ms since 1970.
    pub covered_ms: DeviceTime,
    /// The `t_star` of an id that the merge retired, ms since 1970.
    pub retired_ms: DeviceTime,
    /// The retired id in its text form.
    pub retired_id: String,
}

impl MergedTrip {
    /// Finds the first merged trip, by device and start time; `None` if no trips merged.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn find(store: &impl TripStore) -> anyhow::Result<Option<Self>> {
        let Some(row) = first_merged_row(store).await? else { return Ok(None) };
        let Some((retired_ms, _)) = row.absorbed().next() else { return Ok(None) };
        Ok(Some(Self {
            covered_ms: row.start_ms + (row.end_ms - row.start_ms) / 2,
            retired_ms,
            retired_id: TripId::new(row.device_id.as_str(), retired_ms)?.text()?,
            device_id: row.device_id,
        }))
    }

    /// Looks up the trip by a time that it covers.
    ///
    /// # Errors
    /// The store cannot be read, or the trip was erased meanwhile.
    pub(crate) async fn by_time(
        &self,
        store: &impl TripStore,
    ) -> anyhow::Result<(TripRow, Extras)> {
        Ok((covering(store, &self.device_id, self.covered_ms).await?, Extras::default()))
    }

    /// Looks up the trip by its retired id.
    ///
    /// # Errors
    /// The store cannot be read, or the trip was erased meanwhile.
    pub(crate) async fn by_retired_id(
        &self,
        store: &impl TripStore,
    ) -> anyhow::Result<(TripRow, Extras)> {
        let row = covering(store, &self.device_id, self.retired_ms).await?;
        let matched = Match::classify(self.retired_ms, &row);
        let extras = Extras {
            requested_id: Some(self.retired_id.clone()),
            matched: Some(matched),
            merged: Some(matched == Match::Retired),
            ..Extras::default()
        };
        Ok((row, extras))
    }
}

/// A trip that a late sample split: the ids of both parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SplitTrip {
    /// That of the part with its first samples, which has kept it.
    pub kept_id: String,
    /// That of the part after it.
    pub new_id: String,
    /// Device id, and a time that the part covers which has kept its id, ms since 1970.
    kept: (String, DeviceTime),
}

impl SplitTrip {
    /// Finds the first split trip, by device and start time; `None` if none was split.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn find(store: &impl TripStore) -> anyhow::Result<Option<Self>> {
        for device in store.devices(DeviceScope::All, None, usize::MAX).await? {
            let trips = all_trips(store, &device).await?;
            for pair in trips.windows(2) {
                if is_split_off(&pair[1])? && pair[1].start_ms - pair[0].end_ms < MAX_SPLIT_MS {
                    let id = |row: &TripRow| TripId::new(device.as_str(), row.t_star_ms)?.text();
                    let (kept_id, new_id) = (id(&pair[0])?, id(&pair[1])?);
                    let kept = (device, pair[0].t_star_ms);
                    return Ok(Some(Self { kept_id, new_id, kept }));
                }
            }
        }
        Ok(None)
    }

    /// Looks up the part that has kept its id.
    ///
    /// # Errors
    /// The store cannot be read, or the trip was erased meanwhile.
    pub(crate) async fn kept(&self, store: &impl TripStore) -> anyhow::Result<(TripRow, Extras)> {
        let (device, time_ms) = &self.kept;
        Ok((covering(store, device, *time_ms).await?, Extras::default()))
    }
}

/// Maximum time between the parts of a split trip that are shown, ms.
const MAX_SPLIT_MS: i64 = 300_000;

/// Whether the id of a trip was minted later than its sample arrived: by a split.
pub(super) fn is_split_off(row: &TripRow) -> Result<bool, RowError> {
    let minted = row.ids.get(&row.t_star_ms).and_then(|history| history.first());
    let path = row.to_path()?;
    let sample = path.iter().find(|sample| sample.time_ms == row.t_star_ms);
    Ok(minted.zip(sample).is_some_and(|(minted, sample)| *minted > sample.version))
}

async fn covering(
    store: &impl TripStore,
    device: &str,
    time_ms: DeviceTime,
) -> anyhow::Result<TripRow> {
    let found = store.covering(device, time_ms).await?;
    found.with_context(|| {
        let time = format_time(time_ms.ms());
        format!("the trip of {device} at {time} was erased during the demo")
    })
}

async fn first_merged_row(store: &impl TripStore) -> Result<Option<TripRow>, StoreError> {
    for device in store.devices(DeviceScope::All, None, usize::MAX).await? {
        let trips = all_trips(store, &device).await?;
        if let Some(merged) = trips.into_iter().find(|trip| trip.absorbed().next().is_some()) {
            return Ok(Some(merged));
        }
    }
    Ok(None)
}

async fn all_trips(store: &impl TripStore, device: &str) -> Result<Vec<TripRow>, StoreError> {
    let (from_ms, upto_ms) = (DeviceTime::MIN, DeviceTime::MAX);
    store.range(device, Kinds::Trips, from_ms, upto_ms, Order::Asc, usize::MAX).await
}

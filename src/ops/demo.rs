//! The demo: a fleet whose samples arrive out of order, and lookups of a merged trip.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::simulate::write_lines;
use crate::identity::TripId;
use crate::model::scalar::DeviceTime;
use crate::model::time::format_time;
use crate::simulate::{Fleet, FleetSettings};
use crate::store::{DeviceScope, Kinds, Order, StoreError, TripRow, TripStore, files};
use crate::views::{Extras, Match};

/// The fleet of the demo. The README states the figures of its trips.
pub const FLEET: FleetSettings = FleetSettings {
    devices: 50,
    samples: 200_000,
    seed: 17,
    mix: [46.0, 34.0, 19.0, 1.0],
    bad: 0.001,
};

/// Writes the samples of [`FLEET`] as gzipped NDJSON, in arrival order. A file appears under `path`
/// once it is complete.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_samples(path: &Path) -> io::Result<()> {
    files::replace(path, |file| {
        let mut gzip = GzEncoder::new(BufWriter::new(file), Compression::fast());
        write_lines(Fleet::new(&FLEET).map_err(io::Error::other)?, &mut gzip)?;
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
        Ok((self.covering(store, self.covered_ms).await?, Extras::default()))
    }

    /// Looks up the trip by its retired id.
    ///
    /// # Errors
    /// The store cannot be read, or the trip was erased meanwhile.
    pub(crate) async fn by_retired_id(
        &self,
        store: &impl TripStore,
    ) -> anyhow::Result<(TripRow, Extras)> {
        let row = self.covering(store, self.retired_ms).await?;
        let matched = Match::classify(self.retired_ms, &row);
        let extras = Extras {
            requested_id: Some(self.retired_id.clone()),
            matched: Some(matched),
            merged: Some(matched == Match::Retired),
            ..Extras::default()
        };
        Ok((row, extras))
    }

    async fn covering(
        &self,
        store: &impl TripStore,
        time_ms: DeviceTime,
    ) -> anyhow::Result<TripRow> {
        let found = store.covering(&self.device_id, time_ms).await?;
        found.with_context(|| {
            let time = format_time(time_ms.ms());
            format!("the trip of {} at {time} was erased during the demo", self.device_id)
        })
    }
}

async fn first_merged_row(store: &impl TripStore) -> Result<Option<TripRow>, StoreError> {
    for device in store.devices(DeviceScope::All, None, usize::MAX).await? {
        let all = (DeviceTime::MIN, DeviceTime::MAX);
        let trips =
            store.range(&device, Kinds::Trips, all.0, all.1, Order::Asc, usize::MAX).await?;
        if let Some(merged) = trips.into_iter().find(|trip| trip.absorbed().next().is_some()) {
            return Ok(Some(merged));
        }
    }
    Ok(None)
}

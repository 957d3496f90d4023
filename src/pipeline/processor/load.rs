//! Loads the stored trips of a device before a record of the device is absorbed.

use futures_util::{StreamExt, stream};
use indexmap::IndexMap;

use super::Processor;
use super::classify::EntryClass;
use super::resident::Device;
use crate::model::epoch::Division;
use crate::model::scalar::{Day, DeviceTime, Version};
use crate::sink::Sink;
use crate::source::{Batch, Entry};
use crate::store::home;
use crate::store::skip::decoded;
use crate::store::{Forget, Result, TripRow, TripStore};
use crate::timeline::Trip;

/// Known forgets of a device.
pub(super) struct ForgetState {
    /// The floor, ms: trips that end before it are erased, samples before it are dropped.
    floor_ms: DeviceTime,
    /// Version of the newest known forget. Forgets are stored in the order of their versions, so an
    /// older one adds nothing.
    newest: Version,
}

/// Stored state of a device.
#[derive(Default)]
struct LoadedDevice {
    rows: Vec<TripRow>,
    /// Read after the rows, so that a forget by an instance ahead of this one shows in one of them.
    erased: Option<Forget>,
}

async fn find(store: &impl TripStore, name: &str, days: &[Day]) -> Result<LoadedDevice> {
    if days.is_empty() {
        return Ok(LoadedDevice::default());
    }
    let mut rows = Vec::new();
    for &day in days {
        rows.append(&mut store.rows_of_day(name, day).await?);
    }
    Ok(LoadedDevice { rows, erased: store.erased(name).await? })
}

/// Reads the stored state of a device and, if `unknown` is set, its partition. Reads no rows of a
/// device of another partition.
async fn find_own(
    store: &impl TripStore,
    (name, days): (&str, &[Day]),
    unknown: Option<Division>,
    own: i32,
) -> Result<(Option<i32>, Option<LoadedDevice>)> {
    let asked = match &unknown {
        Some(division) => Some(home(store, name, division, own).await?),
        None => None,
    };
    if asked.is_some_and(|home| home != own) {
        return Ok((asked, None));
    }
    Ok((asked, Some(find(store, name, days).await?)))
}

impl Device {
    /// Whether a trip that ends at a time, or a sample of that time, is erased.
    pub(super) fn has_erased(&self, time_ms: DeviceTime) -> bool {
        self.erased.as_ref().is_some_and(|erased| time_ms < erased.floor_ms)
    }

    /// Applies a forget. Returns whether it was new.
    pub(super) fn erase(&mut self, forget: &Forget) -> bool {
        let none = ForgetState { floor_ms: DeviceTime::MIN, newest: Version::MIN };
        let erased = self.erased.get_or_insert_with(|| Box::new(none));
        let is_news = forget.version > erased.newest;
        erased.newest = erased.newest.max(forget.version);
        erased.floor_ms = erased.floor_ms.max(forget.before_ms);
        is_news
    }
}

impl<T: TripStore, S: Sink> Processor<'_, T, S> {
    /// Loads the trips that a sample may join. Returns the slot of its device. `ahead` contains the
    /// entries of the batch from the sample's record on.
    pub(super) async fn load(
        &mut self,
        batch: &Batch,
        ahead: &[Entry],
        class: &EntryClass<'_>,
    ) -> Result<usize> {
        let EntryClass::Sample(decoded) = class else { return Ok(0) };
        let slot = self.devices.slot_of(batch.text(&decoded.device));
        let (time_ms, offset) = (decoded.sample.time_ms, ahead[0].offset);
        let is_unknown = self.unknown_home(slot, offset).is_some();
        if !is_unknown && self.days_to_load(slot, time_ms).is_empty() {
            return Ok(slot);
        }
        let at = self.log.versions.version_at(offset);
        if self.config.loads > 1 {
            self.load_several(batch, ahead, at).await?;
        }
        // Claimed before its rows are read, so that no two partitions build it.
        if let Some(division) = self.unknown_home(slot, offset) {
            let (name, trips) = (self.devices.at(slot).0.to_owned(), self.trips);
            let found = home(trips, &name, &division, self.log.partition);
            let found = self.while_answering(found).await?;
            self.set_home(slot, division.epoch, found);
        }
        // Loads twice if the first load finds a new forget.
        loop {
            let days = self.days_to_load(slot, time_ms);
            if days.is_empty() {
                return Ok(slot);
            }
            let found = if self.devices.is_complete() {
                LoadedDevice::default()
            } else {
                let (name, trips) = (self.devices.at(slot).0.to_owned(), self.trips);
                self.while_answering(find(trips, &name, &days)).await?
            };
            self.insert_loaded(slot, &days, found, at)?;
        }
    }

    /// Whether the days that a sample may touch are not loaded.
    pub(super) fn lacks(&self, class: &EntryClass<'_>, slot: usize) -> bool {
        let EntryClass::Sample(decoded) = class else { return false };
        !self.days_to_load(slot, decoded.sample.time_ms).is_empty()
    }

    fn days_to_load(&self, slot: usize, time_ms: DeviceTime) -> Vec<Day> {
        let device = self.devices.device(slot);
        if device.is_foreign(self.log.partition) || device.has_erased(time_ms) {
            return Vec::new();
        }
        device.timeline().missing_days(&self.limits, time_ms)
    }

    /// Loads what the next entries need, several devices concurrently: across a network, many
    /// requests take as long as one.
    async fn load_several(&mut self, batch: &Batch, ahead: &[Entry], at: Version) -> Result<()> {
        let mut wanted: IndexMap<usize, (Option<Division>, Vec<Day>)> = IndexMap::new();
        let division = self.log.versions.division_of(ahead[0].offset);
        // In the next epoch, a device may belong to another partition.
        let same = |entry: &&Entry| self.log.versions.division_of(entry.offset) == division;
        let length = ahead.iter().take_while(same).count();
        for entry in &ahead[..length] {
            let EntryClass::Sample(decoded) = self.classifier.classify(entry) else { continue };
            let slot = self.devices.slot_of(batch.text(&decoded.device));
            let unknown = self.unknown_home(slot, entry.offset);
            let to_load = self.days_to_load(slot, decoded.sample.time_ms);
            if unknown.is_none() && to_load.is_empty() {
                continue;
            }
            let (_, days) = wanted.entry(slot).or_insert((unknown, Vec::new()));
            for day in to_load {
                if !days.contains(&day) {
                    days.push(day);
                }
            }
            if wanted.len() >= self.config.loads {
                break;
            }
        }
        let (trips, own) = (self.trips, self.log.partition);
        let mut loads = Vec::with_capacity(wanted.len());
        for (slot, (unknown, days)) in wanted {
            let name = self.devices.at(slot).0.to_owned();
            loads.push(async move {
                let found = find_own(trips, (&name, &days), unknown, own).await;
                found.map(|found| (slot, days, unknown.zip(found.0), found.1))
            });
        }
        let mut loads = stream::iter(loads).buffer_unordered(self.config.loads);
        while let Some(loaded) = self.while_answering(loads.next()).await {
            let (slot, days, home, found) = loaded?;
            if let Some((division, partition)) = home {
                self.set_home(slot, division.epoch, partition);
            }
            if let Some(found) = found {
                self.insert_loaded(slot, &days, found, at)?;
            }
        }
        Ok(())
    }

    /// Inserts the loaded state of a device and days into memory; `at` is the version of the record
    /// that is absorbed next.
    fn insert_loaded(
        &mut self,
        slot: usize,
        days: &[Day],
        found: LoadedDevice,
        at: Version,
    ) -> Result<()> {
        let (_, device) = self.devices.at_mut(slot);
        let is_behind =
            found.erased.is_some_and(|forget| device.erase(&forget) && forget.version >= at);
        if is_behind {
            // An instance ahead of this one executed a forget: everything before it is durable, and
            // this memory may be older. Discard it and load again.
            self.devices.discard_trips(slot);
            return Ok(());
        }
        let mut trips: Vec<Trip> = Vec::with_capacity(found.rows.len());
        for row in found.rows {
            let is_own = row.partition == self.log.partition;
            if !is_own && self.log.versions.share_epoch(row.version, at) {
                // The partition of a device writes only rows with its own number.
                self.counts.foreign_rows += 1;
                continue;
            }
            // The delete of an erased row may not have arrived yet.
            if !device.has_erased(row.end_ms) {
                trips.extend(decoded(&row));
            }
        }
        let acknowledged = self.log.versions.version_at(self.acknowledged.delivered);
        let overlaps = self.devices.insert_loaded(slot, days, trips, acknowledged);
        self.counts.overlaps += overlaps as u64;
        Ok(())
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;

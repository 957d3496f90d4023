//! Loads the stored trips of a device before a record of the device is absorbed.

use futures_util::{StreamExt, stream};
use indexmap::IndexMap;
use indexmap::map::Entry::{Occupied, Vacant};

use super::Processor;
use super::classify::EntryClass;
use super::resident::Device;
use crate::model::epoch::Division;
use crate::model::scalar::{DeviceTime, Offset, Version};
use crate::segment::{DaysToLoad, Segment, SegmentRules};
use crate::sink::Sink;
use crate::source::{Batch, Entry};
use crate::store::home;
use crate::store::skip::malformed;
use crate::store::{Forget, Result, TripRow, TripStore};

/// Known forgets of a device.
pub(super) struct ForgetState {
    /// All of them.
    all: Vec<Forget>,
    /// The floor, ms: samples before it are dropped.
    floor_ms: DeviceTime,
    /// Version of the newest known forget. Forgets are stored in the order of their versions, so an
    /// older one adds nothing.
    newest: Version,
}

/// Stored state of a device.
struct LoadedDevice {
    /// The days of the rows.
    load: DaysToLoad,
    /// Each row once.
    rows: Vec<TripRow>,
    /// Read after the rows, so that a forget by an instance ahead of this one shows in one of them.
    forgets: Vec<Forget>,
}

impl LoadedDevice {
    /// That of a device of which the store has nothing.
    fn nothing(load: DaysToLoad) -> Self {
        Self { load, rows: Vec::new(), forgets: Vec::new() }
    }
}

/// When rows are read: before the record at a version is absorbed, under these rules.
type AsOf = (Version, SegmentRules);

async fn find(
    store: &impl TripStore,
    name: &str,
    mut load: DaysToLoad,
    (as_of, rules): AsOf,
) -> Result<LoadedDevice> {
    if load.days().is_empty() {
        return Ok(LoadedDevice::nothing(load));
    }
    let (mut rows, mut read) = (Vec::<TripRow>::new(), 0);
    while let Some(&day) = load.days().get(read) {
        for row in store.rows_of_day(name, day).await? {
            let is_copy = |other: &TripRow| {
                (row.version, row.end_ms, row.start_ms)
                    == (other.version, other.end_ms, other.start_ms)
            };
            if rows.iter().any(is_copy) {
                continue;
            }
            if row.version >= as_of {
                load.add_around(&rules, row.start_ms, row.end_ms);
            }
            rows.push(row);
        }
        read += 1;
    }
    Ok(LoadedDevice { load, rows, forgets: store.forgets(name).await? })
}

/// Reads the stored state of a device and, if `unknown` is set, its partition. Reads no rows of a
/// device of another partition.
async fn find_own(
    store: &impl TripStore,
    (name, load): (&str, DaysToLoad),
    (unknown, own): (Option<Division>, i32),
    as_of: AsOf,
) -> Result<(Option<i32>, Option<LoadedDevice>)> {
    let asked = match &unknown {
        Some(division) => Some(home(store, name, division, own).await?),
        None => None,
    };
    if asked.is_some_and(|home| home != own) {
        return Ok((asked, None));
    }
    Ok((asked, Some(find(store, name, load, as_of).await?)))
}

impl Device {
    /// Whether a sample of a time is erased.
    pub(super) fn has_erased(&self, time_ms: DeviceTime) -> bool {
        self.erased.as_ref().is_some_and(|erased| time_ms < erased.floor_ms)
    }

    /// Whether the record at a version is at or before a forget: all that it did is durable.
    pub(super) fn is_before_forget(&self, version: Version) -> bool {
        self.erased.as_ref().is_some_and(|erased| version <= erased.newest)
    }

    /// Applies a forget. Returns whether it was new.
    pub(super) fn erase(&mut self, forget: &Forget) -> bool {
        let none =
            || ForgetState { all: Vec::new(), floor_ms: DeviceTime::MIN, newest: Version::MIN };
        let erased = self.erased.get_or_insert_with(|| Box::new(none()));
        if !erased.all.contains(forget) {
            erased.all.push(forget.clone());
        }
        let is_news = forget.version > erased.newest;
        erased.newest = erased.newest.max(forget.version);
        erased.floor_ms = erased.floor_ms.max(forget.before_ms);
        is_news
    }
}

impl<T: TripStore, S: Sink> Processor<'_, T, S> {
    /// The version as of which rows are loaded for a record: its own. Files have no other writer,
    /// and may be read again, so that their rows are loaded as they are.
    fn as_of(&self, offset: Offset) -> AsOf {
        let is_of_files = self.log.versions.division_of(offset).is_none();
        let version = if is_of_files { Version::MAX } else { self.log.versions.version_at(offset) };
        (version, self.rules)
    }

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
        if !is_unknown && self.is_loaded(slot, time_ms, offset) {
            return Ok(slot);
        }
        let as_of = self.as_of(offset);
        if self.config.loads > 1 {
            self.load_several(batch, ahead, as_of).await?;
        }
        // Claimed before its rows are read, so that no two partitions build it.
        if let Some(division) = self.unknown_home(slot, offset) {
            let (name, trips) = (self.devices.at(slot).0.to_owned(), self.trips);
            let found = home(trips, &name, &division, self.log.partition);
            let found = self.while_answering(found).await?;
            self.set_home(slot, division.epoch, found);
        }
        // Loads twice if the first load finds a new forget.
        while !self.is_loaded(slot, time_ms, offset) {
            let load = self.devices.device(slot).timeline().days_to_load(&self.rules, time_ms);
            let found = if self.devices.is_complete() {
                LoadedDevice::nothing(load)
            } else {
                let (name, trips) = (self.devices.at(slot).0.to_owned(), self.trips);
                self.while_answering(find(trips, &name, load, as_of)).await?
            };
            self.insert_loaded(slot, found, as_of.0)?;
        }
        Ok(slot)
    }

    /// Whether the days that a sample may touch are not loaded.
    pub(super) fn lacks(&self, class: &EntryClass<'_>, slot: usize, offset: Offset) -> bool {
        let EntryClass::Sample(decoded) = class else { return false };
        !self.is_loaded(slot, decoded.sample.time_ms, offset)
    }

    /// Whether nothing has to be loaded for a sample.
    fn is_loaded(&self, slot: usize, time_ms: DeviceTime, offset: Offset) -> bool {
        let device = self.devices.device(slot);
        device.timeline().is_loaded(&self.rules, time_ms)
            || device.is_foreign(self.log.partition)
            || device.has_erased(time_ms)
            || device.is_before_forget(self.log.versions.version_at(offset))
    }

    /// Loads what the next entries need, several devices concurrently: across a network, many
    /// requests take as long as one.
    async fn load_several(&mut self, batch: &Batch, ahead: &[Entry], as_of: AsOf) -> Result<()> {
        let mut wanted: IndexMap<usize, (Option<Division>, DaysToLoad)> = IndexMap::new();
        let division = self.log.versions.division_of(ahead[0].offset);
        // In the next epoch, a device may belong to another partition.
        let same = |entry: &&Entry| self.log.versions.division_of(entry.offset) == division;
        let length = ahead.iter().take_while(same).count();
        for entry in &ahead[..length] {
            let EntryClass::Sample(decoded) = self.classifier.classify(entry) else { continue };
            let slot = self.devices.slot_of(batch.text(&decoded.device));
            let unknown = self.unknown_home(slot, entry.offset);
            let time_ms = decoded.sample.time_ms;
            let is_loaded = self.is_loaded(slot, time_ms, entry.offset);
            if unknown.is_none() && is_loaded {
                continue;
            }
            let timeline = self.devices.device(slot).timeline();
            let load = timeline.days_to_load(&self.rules, time_ms);
            match wanted.entry(slot) {
                Vacant(first) => {
                    first.insert((unknown, load));
                }
                Occupied(mut found) => found.get_mut().1.join(load),
            }
            if wanted.len() >= self.config.loads {
                break;
            }
        }
        let (trips, own) = (self.trips, self.log.partition);
        let mut loads = Vec::with_capacity(wanted.len());
        for (slot, (unknown, load)) in wanted {
            let name = self.devices.at(slot).0.to_owned();
            loads.push(async move {
                let found = find_own(trips, (&name, load), (unknown, own), as_of).await;
                found.map(|found| (slot, unknown.zip(found.0), found.1))
            });
        }
        let mut loads = stream::iter(loads).buffer_unordered(self.config.loads);
        while let Some(loaded) = self.while_answering(loads.next()).await {
            let (slot, home, found) = loaded?;
            if let Some((division, partition)) = home {
                self.set_home(slot, division.epoch, partition);
            }
            if let Some(found) = found {
                self.insert_loaded(slot, found, as_of.0)?;
            }
        }
        Ok(())
    }

    /// Inserts the loaded state of a device and days into memory, as of the record at a version.
    fn insert_loaded(&mut self, slot: usize, found: LoadedDevice, as_of: Version) -> Result<()> {
        let (_, device) = self.devices.at_mut(slot);
        let mut is_behind = false;
        for forget in &found.forgets {
            is_behind |= device.erase(forget) && forget.version >= as_of;
        }
        if is_behind {
            // An instance ahead of this one executed a forget: everything before it is durable, and
            // this memory may be older. Discard it and load again.
            self.devices.discard_trips(slot);
            return Ok(());
        }
        if device.is_before_forget(as_of) {
            // Records up to the forget are read over, so that what there was before this one is not
            // what there is before the first that counts.
            return Ok(());
        }
        let mut trips: Vec<Segment> = Vec::with_capacity(found.rows.len());
        for row in found.rows {
            let is_own = row.partition == self.log.partition;
            if !is_own && self.log.versions.share_epoch(row.version, as_of) {
                // The partition of a device writes only rows with its own number.
                self.counts.foreign_rows += 1;
                continue;
            }
            // The delete of an erased row may not have arrived yet.
            if !found.forgets.iter().any(|forget| forget.erases(row.end_ms, row.version)) {
                trips.extend(row.to_segment(&self.rules).inspect_err(malformed).ok());
            }
        }
        let overlaps = self.devices.insert_loaded(slot, &self.rules, (&found.load, trips), as_of);
        self.counts.overlaps += overlaps as u64;
        Ok(())
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;

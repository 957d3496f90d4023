//! The devices in memory: their trips, what they weigh, which of them are dirty, and eviction.

use std::ops::RangeInclusive;
use std::sync::Arc;

use indexmap::{Equivalent as _, IndexMap};

use super::device_name::{DeviceName, NameRef};
use super::device_partition::Home;
use super::load::ForgetState;
use super::memory_budget::{Budget, Share};
use crate::model::scalar::{DeviceTime, Version};
use crate::segment::{DaysToLoad, Outcome, Segment, SegmentRules, TakenGroup, Timeline};
use crate::timeline::Sample;

/// Memory of a device without its trips, bytes: its entry in the map, and the slot that points to
/// it.
const DEVICE_BYTES: usize = size_of::<(u64, DeviceName, Device)>() + 24;

/// Minimum average number of samples for each device in memory when memory is full. Below it,
/// repeated loads would cost more than spilling.
const FEW_VISITS: u64 = 64;

/// A device in memory.
#[derive(Default)]
pub(super) struct Device {
    /// Changed only by [`ResidentDevices`], which weighs it.
    timeline: Timeline,
    /// Whether it is in the list of dirty devices.
    is_dirty: bool,
    /// Number of its last sample, by the visits of all devices.
    last_visit: u64,
    /// Known forgets.
    pub(super) erased: Option<Box<ForgetState>>,
    /// Its partition, once looked up. A log of files has no partitions.
    pub(super) home: Option<Home>,
    /// Rows that were ahead of the record for which they were loaded, until a change that they
    /// contain is written after their version was passed.
    ahead: Vec<RowAhead>,
}

/// The span of a row that was ahead of the record for which it was loaded. Until its version is
/// passed, changes that touch it are of the past.
struct RowAhead {
    span_ms: RangeInclusive<DeviceTime>,
    version: Version,
}

impl RowAhead {
    fn touches(&self, segment: &Segment) -> bool {
        segment.start_ms() <= *self.span_ms.end() && *self.span_ms.start() <= segment.end_ms()
    }
}

/// When the changes of a segment that a flush takes were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// After all that is known of its samples.
    Now,
    /// Before what the store has. They are written only if memory has no room for them.
    InThePast,
    /// As the first ones after such.
    AfterThePast,
}

impl Device {
    /// Its trips in memory.
    pub(super) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Approximate memory, bytes.
    fn memory(&self, name: &DeviceName) -> usize {
        DEVICE_BYTES + name.memory() + self.timeline.memory()
    }
}

/// When the changes of a segment were made. `next` is the version of the next record.
fn made(ahead: &[RowAhead], segment: &Segment, next: Version) -> Made {
    let touched = ahead.iter().filter(|row| row.touches(segment));
    match touched.map(|row| row.version).max() {
        None => Made::Now,
        Some(newest) if newest >= next => Made::InThePast,
        Some(_) => Made::AfterThePast,
    }
}

/// Clients choose the ids, so each process uses a random hash seed.
type DeviceMap = IndexMap<DeviceName, Device, foldhash::fast::RandomState>;

/// Devices that were split off; they still count as memory.
pub(super) struct DeviceGroup(DeviceMap);

/// The devices in memory. A slot is valid until the next eviction or group.
///
/// Invariants: `memory` is the weight of all devices, including those that were split off; `dirty`
/// has the slot of each device that `is_dirty`, once; no dirty device is evicted.
pub(super) struct ResidentDevices {
    devices: DeviceMap,
    /// Slot of the previous sample's device: samples come in bursts.
    latest: usize,
    /// Slots of the dirty devices: those with a trip that changed since its last flush.
    dirty: Vec<usize>,
    /// Approximate memory of the devices, bytes.
    memory: usize,
    /// Maximum of `memory` without a share, bytes.
    limit: usize,
    /// Its share of a memory budget; unset: `limit` applies.
    share: Option<Share>,
    /// Samples absorbed since all devices were evicted.
    visits: u64,
    /// Whether the store has nothing that is not in memory, so that loads can be skipped: it was
    /// empty, and no device was evicted since.
    is_complete: bool,
    /// Whether changes of a device are many that are written together.
    has_large_group: bool,
}

impl ResidentDevices {
    /// No devices, with a memory limit in bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            devices: DeviceMap::default(),
            latest: 0,
            dirty: Vec::new(),
            memory: 0,
            limit,
            share: None,
            visits: 0,
            is_complete: false,
            has_large_group: false,
        }
    }

    /// Uses a shared memory budget instead of the limit.
    pub(super) fn share_budget(&mut self, budget: Arc<Budget>) {
        self.share = Some(Share::new(budget));
    }

    /// Reports the memory to the shared budget.
    pub(super) fn report_memory(&mut self) {
        if let Some(share) = &mut self.share {
            share.set_resident(self.memory);
        }
    }

    /// Approximate memory of the devices, bytes.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Whether devices have to be evicted.
    pub(super) fn is_full(&self) -> bool {
        match &self.share {
            Some(share) => share.is_over(),
            None => self.memory > self.limit,
        }
    }

    /// Whether changes of a device should be written without delay, because they are many that are
    /// written together.
    pub(super) fn has_large_group(&self) -> bool {
        self.has_large_group
    }

    /// Whether the devices had so few samples each that spilling costs less than repeated loads.
    pub(super) fn had_few_visits(&self) -> bool {
        self.visits < FEW_VISITS * self.devices.len() as u64
    }

    /// Whether loads can be skipped.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Sets whether the store has nothing that is not in memory.
    pub(super) fn set_complete(&mut self, is_complete: bool) {
        self.is_complete = is_complete;
    }

    /// Slot of a device; adds the device if it is missing.
    #[inline]
    pub(super) fn slot_of(&mut self, name: &str) -> usize {
        if let Some(slot) = self.find_latest(name) {
            return slot;
        }
        let (name, device) = (DeviceName::new(name), Device::default());
        self.memory += device.memory(&name);
        self.latest = self.devices.insert_full(name, device).0;
        self.latest
    }

    /// Slot of the device of the next sample; `None` if it is not in memory.
    #[inline]
    pub(super) fn find_latest(&mut self, name: &str) -> Option<usize> {
        let latest = self.devices.get_index(self.latest);
        if latest.is_some_and(|(id, _)| NameRef(name).equivalent(id)) {
            return Some(self.latest);
        }
        self.latest = self.find_slot(name)?;
        Some(self.latest)
    }

    /// Slot of a device; `None` if it is not in memory.
    pub(super) fn find_slot(&self, name: &str) -> Option<usize> {
        self.devices.get_index_of(&NameRef(name))
    }

    /// Name and state of the device in a slot.
    pub(super) fn at(&self, slot: usize) -> (&str, &Device) {
        let (name, device) = self.devices.get_index(slot).expect("the slot is valid");
        (name.as_str(), device)
    }

    /// State of the device in a slot.
    #[inline]
    pub(super) fn device(&self, slot: usize) -> &Device {
        &self.devices[slot]
    }

    /// Name and state of the device in a slot.
    pub(super) fn at_mut(&mut self, slot: usize) -> (&str, &mut Device) {
        let (name, device) = self.devices.get_index_mut(slot).expect("the slot is valid");
        (name.as_str(), device)
    }

    /// Absorbs a sample into the trips of a device, whose near days are loaded.
    #[inline]
    pub(super) fn absorb(
        &mut self,
        slot: usize,
        rules: &SegmentRules,
        sample: Sample,
        driver: Option<&str>,
    ) -> Outcome {
        let device = &mut self.devices[slot];
        self.visits += 1;
        device.last_visit = self.visits;
        let before = device.timeline.memory();
        let outcome = device.timeline.absorb(rules, sample, driver);
        self.memory = self.memory + device.timeline.memory() - before;
        if matches!(outcome, Outcome::Applied(_)) {
            self.has_large_group |= device.timeline.has_large_group();
            self.mark_dirty(slot);
        }
        outcome
    }

    /// Changes the trips of a device and weighs it again.
    fn update<R>(&mut self, slot: usize, change: impl FnOnce(&mut Timeline) -> R) -> R {
        let timeline = &mut self.devices[slot].timeline;
        self.memory -= timeline.memory();
        let result = change(timeline);
        self.memory += timeline.memory();
        result
    }

    /// Inserts the stored trips of a device and days as of the record at `as_of`; see
    /// [`Timeline::insert_loaded`]. Returns the number of overlaps.
    pub(super) fn insert_loaded(
        &mut self,
        slot: usize,
        rules: &SegmentRules,
        (load, rows): (&DaysToLoad, Vec<Segment>),
        as_of: Version,
    ) -> usize {
        let ahead = rows
            .iter()
            .filter(|row| row.version() >= as_of)
            .map(|row| RowAhead { span_ms: row.start_ms()..=row.end_ms(), version: row.version() });
        self.devices[slot].ahead.extend(ahead);
        self.update(slot, |timeline| {
            let overlaps = timeline.insert_loaded(rules, load.days(), rows, as_of);
            timeline.pack();
            overlaps
        })
    }

    /// Discards the trips of a device, changed ones included.
    pub(super) fn discard_trips(&mut self, slot: usize) {
        self.update(slot, |timeline| *timeline = Timeline::default());
    }

    /// Removes the trips of a device that end before a time.
    pub(super) fn forget(&mut self, slot: usize, before_ms: DeviceTime) {
        self.update(slot, |timeline| timeline.forget(before_ms));
    }

    /// Name of a device, and its changes that are due, or all of them, with when those of each
    /// segment were made. Marks them as clean, and forgets the rows ahead that they have caught up
    /// with. `next` is the version of the next record.
    pub(super) fn take_groups(
        &mut self,
        slot: usize,
        next: Version,
        takes_all: bool,
    ) -> (&str, Vec<(TakenGroup<'_>, Vec<Made>)>) {
        let (name, device) = self.at_mut(slot);
        let Device { timeline, ahead, .. } = device;
        let groups = timeline.take_groups(takes_all).into_iter();
        let groups = groups.map(|group| {
            let made = group.segments.iter().map(|segment| made(ahead, segment, next)).collect();
            (group, made)
        });
        let groups: Vec<(TakenGroup<'_>, Vec<Made>)> = groups.collect();
        if !ahead.is_empty() {
            let taken = groups.iter().flat_map(|(group, _)| &group.segments);
            ahead.retain(|row| row.version >= next || !taken.clone().any(|it| row.touches(it)));
        }
        (name, groups)
    }

    /// Packs the paths of a device; see [`Timeline::pack`].
    pub(super) fn pack(&mut self, slot: usize) {
        self.update(slot, Timeline::pack);
    }

    /// Number of dirty devices.
    pub(super) fn dirty_count(&self) -> usize {
        self.dirty.len()
    }

    /// Version of the first record with a change that is not flushed.
    pub(super) fn lowest_unflushed(&self) -> Option<Version> {
        self.dirty.iter().filter_map(|&slot| self.devices[slot].timeline.unflushed()).min()
    }

    /// Marks a device as dirty.
    #[inline]
    pub(super) fn mark_dirty(&mut self, slot: usize) {
        let device = &mut self.devices[slot];
        if !device.is_dirty {
            device.is_dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Decides which changes are due. Marks the devices of those as clean, and returns their slots.
    /// `passed` is the version of the next record: changes of devices whose rows are ahead of that
    /// wait.
    pub(super) fn take_due(
        &mut self,
        passed: Option<Version>,
        mut is_due: impl FnMut(&mut Segment) -> bool,
    ) -> Vec<usize> {
        let (devices, mut due) = (&mut self.devices, Vec::new());
        self.has_large_group = false;
        self.dirty.retain(|&slot| {
            let device = &mut devices[slot];
            let Device { timeline, ahead, .. } = device;
            let waits = |segment: &Segment| {
                let of_past = |row: &RowAhead| passed.is_some_and(|next| row.version >= next);
                ahead.iter().any(|row| of_past(row) && row.touches(segment))
            };
            if timeline.has_groups() && timeline.segments().any(waits) {
                // A group is written whole.
                return true;
            }
            let is_large = timeline.has_large_group();
            let found = timeline.mark_due(|it| !waits(it) && (is_due(it) || is_large));
            if found.some {
                due.push(slot);
            }
            device.is_dirty = found.waits && !found.some;
            device.is_dirty
        });
        // Sorted as in the store's index: rows that are adjacent there are written together.
        due.sort_by_cached_key(|&slot| self.devices.get_index(slot).map(|(name, _)| name.clone()));
        due
    }

    /// Evicts the devices that had no sample for longest, until half of the memory is free. None
    /// may be dirty.
    pub(super) fn evict_idle(&mut self) {
        debug_assert!(self.dirty.is_empty());
        let weigh =
            |(name, device): (&DeviceName, &Device)| (device.last_visit, device.memory(name));
        let mut by_visit: Vec<_> = self.devices.iter().map(weigh).collect();
        by_visit.sort_unstable();
        let mut excess = self.memory.div_ceil(2);
        let mut evicted_upto = 0;
        for (last_visit, memory) in by_visit {
            if excess == 0 {
                break;
            }
            (evicted_upto, excess) = (last_visit, excess.saturating_sub(memory));
        }
        self.devices.retain(|_, device| device.last_visit > evicted_upto);
        self.memory = self.weight();
        self.latest = 0;
        self.is_complete = false;
    }

    /// Evicts all devices except those that were split off. None may be dirty.
    pub(super) fn evict_all(&mut self) {
        debug_assert!(self.dirty.is_empty());
        self.memory -= self.weight();
        self.devices = DeviceMap::default();
        self.visits = 0;
        self.is_complete = false;
    }

    fn weight(&self) -> usize {
        self.devices.iter().map(|(name, device)| device.memory(name)).sum()
    }

    /// Splits off all devices, each into the group that `group_of` gives.
    pub(super) fn split_off(
        &mut self,
        groups: usize,
        group_of: impl Fn(&str) -> usize,
    ) -> Vec<DeviceGroup> {
        let mut split: Vec<_> = (0..groups).map(|_| DeviceGroup(DeviceMap::default())).collect();
        self.dirty.clear();
        for (name, device) in std::mem::take(&mut self.devices) {
            split[group_of(name.as_str())].0.insert(name, device);
        }
        split
    }

    /// Takes back a group that was split off. All other devices have to be split off or evicted.
    pub(super) fn restore(&mut self, group: DeviceGroup) {
        debug_assert!(self.devices.is_empty());
        self.devices = group.0;
        let slots = self.devices.values().enumerate();
        self.dirty = slots.filter(|(_, device)| device.is_dirty).map(|(slot, _)| slot).collect();
    }
}

#[cfg(test)]
#[path = "resident_tests.rs"]
mod tests;

//! The devices that the store may have rows or forgets of, so that the loads of all others need no
//! read.
//!
//! The index of a day is read once loads of that day have found nothing often enough, and after it
//! the forgets. Both become filters, to which the rows and forgets that this worker writes are
//! added. A device in neither counts as loaded at the time of that read, and kept in memory since:
//!
//! - Whatever an owner before this worker acknowledged is in the index (days are listed before
//!   their rows are written) or in the forgets (a forget is recorded before it removes days from
//!   the index, hence the order).
//! - What an owner ahead of this worker, or a former one, writes later is a state of the log at or
//!   past the position at which this worker began. It decides the same records from the same state.
//! - In another epoch, a device may belong to another partition: a filter counts for records of the
//!   epoch in which it was read. Its records are only read once those before are durable.
//! - A command that writes missing rows notes that in the store, and waits before it writes: the
//!   filters are dropped. While it runs, none are read.
//! - A forget that a read finds is added: without that, it is known only while its device is in
//!   memory.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::bloom::BloomFilter;
use super::{Processor, ProcessorConfig};
use crate::identity::SHARDS;
use crate::model::scalar::{Day, Offset};
use crate::store::{DeviceScope, Journal, StoreError, TripStore};

/// Maximum number of days with a filter, and of days whose empty loads are counted.
const MAX_DAYS: (usize, usize) = (8, 64);

/// Entries that may be read for each load that found nothing: reading an entry costs the server a
/// hundredth of a load or less.
const ENTRIES_PER_LOAD: usize = 64;

/// Devices of one page of the day index.
const PAGE: usize = 4096;

/// Maximum bytes of a filter for each entry.
const ENTRY_BYTES: usize = 8;

/// What is known of a day.
enum DayIndex {
    /// Number of loads that found nothing, and the number at which the index is read.
    Unread { empty_loads: usize, read_at: usize },
    /// The devices with rows.
    Read(BloomFilter),
}

/// The filters, by day, and of the forgets.
pub(super) struct KnownDevices {
    hasher: foldhash::fast::RandomState,
    days: BTreeMap<Day, DayIndex>,
    forgets: BloomFilter,
    /// Number of the epoch in which the filters were read.
    epoch: i32,
    /// Number of repairs noted in the store when the filters were read.
    repairs: usize,
    /// When the repairs were read.
    checked: Option<Instant>,
    config: ProcessorConfig,
    /// The store does not support it.
    is_off: bool,
}

impl KnownDevices {
    pub(super) fn new(config: &ProcessorConfig) -> Self {
        Self {
            hasher: foldhash::fast::RandomState::default(),
            days: BTreeMap::new(),
            forgets: BloomFilter::default(),
            epoch: 0,
            repairs: 0,
            checked: None,
            config: *config,
            is_off: config.index_after == usize::MAX,
        }
    }

    fn hash(&self, name: &str) -> u64 {
        self.hasher.hash_one(name)
    }

    /// Memory, bytes.
    pub(super) fn memory(&self) -> usize {
        let days = self.days.values().map(|day| match day {
            DayIndex::Read(filter) => filter.memory(),
            DayIndex::Unread { .. } => 0,
        });
        days.sum::<usize>() + self.forgets.memory()
    }

    fn is_read(&self, day: Day) -> bool {
        matches!(self.days.get(&day), Some(DayIndex::Read(_)))
    }

    fn is_any_read(&self) -> bool {
        self.days.values().any(|day| matches!(day, DayIndex::Read(_)))
    }

    /// Whether the repairs were read so recently that none has written a row since.
    fn is_fresh(&self) -> bool {
        self.checked.is_some_and(|checked| checked.elapsed() <= self.config.repairs_age)
    }

    /// Whether the store has no row of a device in a day.
    fn lacks(&self, hash: u64, day: Day) -> bool {
        match self.days.get(&day) {
            Some(DayIndex::Read(filter)) => !filter.contains(hash),
            _ => false,
        }
    }

    /// The days of a device that have to be read, of those to load.
    pub(super) fn days_to_read(&self, name: &str, days: &[Day]) -> Vec<Day> {
        let hash = self.hash(name);
        if self.is_off || !self.is_fresh() || self.forgets.contains(hash) {
            return days.to_vec();
        }
        days.iter().copied().filter(|&day| !self.lacks(hash, day)).collect()
    }

    /// Adds a device to the filters of days that are about to be written.
    pub(super) fn add_rows(&mut self, name: &str, days: impl Iterator<Item = Day>) {
        if self.days.is_empty() {
            return;
        }
        let hash = self.hash(name);
        for day in days {
            if let Some(DayIndex::Read(filter)) = self.days.get_mut(&day) {
                filter.insert(hash);
            }
        }
    }

    /// Adds a device with a forget.
    pub(super) fn add_forget(&mut self, name: &str) {
        if self.is_any_read() {
            self.forgets.insert(self.hash(name));
        }
    }

    /// Counts a read of a day that found nothing. Returns whether its filter led to it.
    pub(super) fn count_empty(&mut self, day: Day) -> bool {
        if self.is_off {
            return false;
        }
        let first = DayIndex::Unread { empty_loads: 0, read_at: self.config.index_after };
        match self.days.entry(day).or_insert(first) {
            DayIndex::Read(_) => return true,
            DayIndex::Unread { empty_loads, .. } => *empty_loads += 1,
        }
        while self.days.len() > MAX_DAYS.1 {
            self.days.pop_first();
        }
        false
    }

    /// The number of loads of a day that found nothing, if its index is to be read.
    fn is_due(&mut self, day: Day) -> Option<usize> {
        let first = DayIndex::Unread { empty_loads: 0, read_at: self.config.index_after };
        match *self.days.entry(day).or_insert(first) {
            DayIndex::Unread { empty_loads, read_at } => {
                (empty_loads >= read_at).then_some(empty_loads)
            }
            DayIndex::Read(_) => None,
        }
    }

    /// Reads the index of a day after twice as many loads.
    fn postpone(&mut self, day: Day) {
        let first = DayIndex::Unread { empty_loads: 0, read_at: 0 };
        if let DayIndex::Unread { empty_loads, read_at } = self.days.entry(day).or_insert(first) {
            *read_at = (*empty_loads * 2).max(self.config.index_after).max(1);
        }
    }

    /// Drops all filters.
    fn drop_filters(&mut self) {
        self.days.clear();
        self.forgets = BloomFilter::default();
    }

    /// Drops filters until they take at most this number of bytes.
    fn shrink(&mut self, max_bytes: usize) {
        let count = |days: &BTreeMap<Day, DayIndex>| {
            days.values().filter(|day| matches!(day, DayIndex::Read(_))).count()
        };
        while count(&self.days) > MAX_DAYS.0 || self.memory() > max_bytes {
            if count(&self.days) <= 1 {
                self.drop_filters();
                return;
            }
            self.days.pop_first();
        }
    }

    fn insert_day(&mut self, day: Day, devices: &[String], forgotten: &[String]) {
        let mut filter = BloomFilter::default();
        devices.iter().for_each(|device| filter.insert(self.hasher.hash_one(device.as_str())));
        for device in forgotten {
            self.forgets.insert(self.hasher.hash_one(device.as_str()));
        }
        self.days.insert(day, DayIndex::Read(filter));
    }
}

/// The devices of a day, at most this number.
async fn devices_of_day(
    store: &impl TripStore,
    day: Day,
    limit: usize,
) -> Result<Option<Vec<String>>, StoreError> {
    let read = |shard: u8| async move {
        let (mut found, scope) = (Vec::<String>::new(), DeviceScope::OfShard(day, shard));
        loop {
            let after = found.last().map(String::as_str);
            let mut page = store.devices(scope, after, PAGE).await?;
            let is_last = page.len() < PAGE;
            found.append(&mut page);
            if is_last || found.len() > limit {
                return Ok::<_, StoreError>(found);
            }
        }
    };
    let (mut shards, mut all) = (Vec::new(), Vec::new());
    (0..SHARDS).for_each(|shard| shards.push(read(shard)));
    let mut shards = stream::iter(shards).buffer_unordered(SHARDS.into());
    while let Some(mut found) = shards.next().await.transpose()? {
        all.append(&mut found);
        if all.len() > limit {
            return Ok(None);
        }
    }
    Ok(Some(all))
}

impl<T: TripStore, J: Journal> Processor<'_, T, J> {
    /// Prepares the filters for loads of these days, before the record at `offset` is absorbed.
    pub(super) async fn refresh_known(
        &mut self,
        days: &[Day],
        offset: Offset,
    ) -> Result<(), StoreError> {
        let Some(division) = self.log.versions.division_of(offset) else { return Ok(()) };
        if self.known.is_off {
            return Ok(());
        }
        if self.known.epoch != division.epoch {
            self.known.drop_filters();
            self.known.epoch = division.epoch;
        }
        let max_bytes = self.devices.filter_bytes();
        self.known.shrink(max_bytes);
        for &day in days {
            if let Some(empty_loads) = self.known.is_due(day) {
                let limit = (empty_loads + 16) * ENTRIES_PER_LOAD;
                self.read_index(day, limit.min(max_bytes / ENTRY_BYTES)).await?;
            }
        }
        if days.iter().any(|&day| self.known.is_read(day)) && !self.known.is_fresh() {
            self.check_repairs().await?;
        }
        self.devices.set_filters(self.known.memory());
        Ok(())
    }

    /// Drops the filters if rows were repaired since they were read. Returns whether filters may be
    /// read now.
    async fn check_repairs(&mut self) -> Result<bool, StoreError> {
        let asked = Instant::now();
        let Some(repairs) = self.trips.repairs().await? else {
            self.known.is_off = true;
            return Ok(false);
        };
        let has_changed = repairs.is_active || repairs.count != self.known.repairs;
        if has_changed && self.known.is_any_read() {
            self.known.drop_filters();
            self.counts.filters_dropped += 1;
        }
        self.known.repairs = repairs.count;
        self.known.checked = Some(asked);
        Ok(!repairs.is_active)
    }

    /// Reads the index of a day and the forgets, unless that is more than `limit` entries.
    async fn read_index(&mut self, day: Day, limit: usize) -> Result<(), StoreError> {
        if !self.check_repairs().await? {
            self.known.postpone(day);
            return Ok(());
        }
        let devices = devices_of_day(self.trips, day, limit).await?;
        // After the days: a forget is recorded before it removes a day.
        let forgotten = self.trips.forgotten_devices(limit).await?;
        match devices.zip(forgotten) {
            Some((devices, forgotten)) => self.known.insert_day(day, &devices, &forgotten),
            None => self.known.postpone(day),
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "known_devices_tests.rs"]
mod tests;

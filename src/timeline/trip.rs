//! One trip: identity, kept samples, and the state that flushing needs.

use std::collections::BTreeMap;

use super::{Path, Sample};
use crate::model::scalar::{DeviceTime, Version};

/// Approximate memory of a trip without its path: the struct, a driver, its map entry; bytes.
const OVERHEAD: usize = size_of::<Trip>() + 128;

/// Memory of an absorbed `t_star`, including unused capacity, bytes.
const ABSORBED: usize = 32;

/// The driver named by the earliest kept sample that names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The driver's name or number, as the device sent it.
    pub name: Box<str>,
    /// Device time of the sample that named it.
    pub time_ms: DeviceTime,
}

/// A trip in memory.
#[derive(Clone, Debug)]
pub struct Trip {
    /// Device time of the first-arrived sample; after a merge, that of the earlier trip.
    pub t_star_ms: DeviceTime,
    /// Version of the trip's first-arrived sample.
    pub minted: Version,
    /// Version of the last sample that changed the trip.
    pub version: Version,
    /// Maps each retired `t_star` to the version of the merge that retired it.
    pub absorbed: BTreeMap<DeviceTime, Version>,
    /// The driver, if a kept sample names one.
    pub driver: Option<Driver>,
    /// Partition of the row that the trip was loaded from. `None` after a change: the reader's own.
    pub partition: Option<i32>,
    path: Path,
    /// Version of the trip when it was loaded; `i64::MIN` for a trip that started in memory.
    loaded: Version,
    /// Lowest version of the changes that no flush has taken yet.
    unflushed: Option<Version>,
    /// How long these changes have been delayed, as counted by the caller, ms.
    waited_ms: u32,
}

impl Trip {
    /// A trip of one sample.
    pub(super) fn new(version: Version, sample: Sample, driver: Option<&str>) -> Self {
        let mut trip = Self {
            t_star_ms: sample.time_ms,
            minted: version,
            version,
            absorbed: BTreeMap::new(),
            driver: None,
            partition: None,
            path: Path::new(sample),
            loaded: Version::MIN,
            unflushed: Some(version),
            waited_ms: 0,
        };
        trip.name_driver(driver, sample.time_ms);
        trip
    }

    /// A trip as loaded from a store, at `version`.
    #[must_use]
    pub fn loaded(
        t_star_ms: DeviceTime,
        minted: Version,
        version: Version,
        absorbed: BTreeMap<DeviceTime, Version>,
        driver: Option<Driver>,
        path: Path,
    ) -> Self {
        Self {
            t_star_ms,
            minted,
            version,
            absorbed,
            driver,
            partition: None,
            path,
            loaded: version,
            unflushed: None,
            waited_ms: 0,
        }
    }

    /// Device time of the earliest kept sample.
    #[must_use]
    pub fn start_ms(&self) -> DeviceTime {
        self.path.first().time_ms
    }

    /// Device time of the latest kept sample.
    #[must_use]
    pub fn end_ms(&self) -> DeviceTime {
        self.path.last().time_ms
    }

    /// Number of kept samples, at least 1.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.path.len()
    }

    /// The kept samples.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Approximate memory used by the trip, bytes.
    pub(super) fn memory(&self) -> usize {
        OVERHEAD + self.absorbed.len() * ABSORBED + self.path.memory()
    }

    pub(super) fn pack(&mut self) {
        self.path.pack();
    }

    /// Lowest version of the changes that no flush has taken yet; `None` if there are none.
    #[must_use]
    pub fn unflushed(&self) -> Option<Version> {
        self.unflushed
    }

    /// Hands the changes to a flush: returns their lowest version and marks the trip as clean.
    pub fn take_unflushed(&mut self) -> Option<Version> {
        self.waited_ms = 0;
        self.unflushed.take()
    }

    /// Adds to the delay of the changes, which a flush has left out. Returns the total delay, ms.
    pub fn wait(&mut self, ms: u32) -> u32 {
        self.waited_ms = self.waited_ms.saturating_add(ms);
        self.waited_ms
    }

    /// Whether the loaded row already includes the effect of the record at `version`.
    pub(super) fn already_includes(&self, version: Version) -> bool {
        version <= self.loaded
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.start_ms() <= other.end_ms() && other.start_ms() <= self.end_ms()
    }

    /// Whether both trips have the same row in a store.
    pub(super) fn is_same_row(&self, other: &Self) -> bool {
        self.version == other.version
            && self.t_star_ms == other.t_star_ms
            && self.start_ms() == other.start_ms()
            && self.end_ms() == other.end_ms()
            && self.samples() == other.samples()
    }

    /// Marks the trip dirty from `version`: it is written and announced again.
    pub(super) fn mark_unflushed(&mut self, version: Version) {
        self.unflushed = Some(self.unflushed.map_or(version, |lowest| lowest.min(version)));
    }

    /// Adds a sample of a record at `version`.
    ///
    /// # Errors
    /// The kept sample of that device time. The trip is unchanged.
    pub(super) fn add(
        &mut self,
        version: Version,
        sample: Sample,
        driver: Option<&str>,
    ) -> Result<(), Sample> {
        self.path.insert(sample)?;
        self.name_driver(driver, sample.time_ms);
        self.change(version);
        Ok(())
    }

    /// Merges the following trip into this one, after a sample at `version` has closed the gap.
    /// This trip is the earlier one, so its `t_star` is smaller and survives.
    pub(super) fn absorb(&mut self, version: Version, later: Self) {
        debug_assert!(self.t_star_ms < later.t_star_ms);
        self.absorbed.extend(later.absorbed);
        self.absorbed.insert(later.t_star_ms, version);
        if let Some(driver) = later.driver {
            self.name_driver(Some(&driver.name), driver.time_ms);
        }
        if let Some(lowest) = later.unflushed {
            self.mark_unflushed(lowest);
        }
        self.path.append(later.path);
        self.change(version);
    }

    /// Marks a change at `version`. The row now belongs to this reader's partition.
    fn change(&mut self, version: Version) {
        self.version = version;
        self.partition = None;
        self.mark_unflushed(version);
    }

    fn name_driver(&mut self, name: Option<&str>, time_ms: DeviceTime) {
        let Some(name) = name else { return };
        match &mut self.driver {
            Some(driver) if time_ms >= driver.time_ms => {}
            Some(driver) if *driver.name == *name => driver.time_ms = time_ms,
            _ => self.driver = Some(Driver { name: name.into(), time_ms }),
        }
    }
}

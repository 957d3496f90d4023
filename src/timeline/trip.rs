//! One trip: identity, kept samples, and what a store has to know of it.

use std::collections::BTreeMap;

use super::{Path, Sample};

/// What a trip takes beside its path: itself, a driver, its place among others, bytes.
const OVERHEAD: usize = size_of::<Trip>() + 128;

/// What an absorbed `t_star` takes, with the room that is left for others, bytes.
const ABSORBED: usize = 32;

/// Who drove, by the earliest kept sample of the trip that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The driver's name or number, as the device sent it.
    pub name: Box<str>,
    /// Device time of the sample that named it.
    pub time_ms: i64,
}

/// A trip in memory.
#[derive(Clone, Debug)]
pub struct Trip {
    /// Device time of the first-arrived sample; after a merge that of the earlier trip.
    pub t_star_ms: i64,
    /// Version of the trip's first-arrived sample.
    pub minted: i64,
    /// Version of the last sample that changed the trip.
    pub version: i64,
    /// `t_star` of each trip that a merge retired, to the version of that merge.
    pub absorbed: BTreeMap<i64, i64>,
    /// The driver, if a kept sample names one.
    pub driver: Option<Driver>,
    /// Partition of the row that it was loaded from, until it changes; `None`: its reader's.
    pub partition: Option<i32>,
    path: Path,
    /// Version the trip had when it was loaded; `i64::MIN` for one that began in memory.
    loaded: i64,
    /// Lowest version among the changes not handed to a flush yet.
    unflushed: Option<i64>,
    /// How long these changes have waited, as the caller counts it, ms.
    waited_ms: u32,
}

impl Trip {
    /// A trip of one sample.
    pub(super) fn new(version: i64, sample: Sample, driver: Option<&str>) -> Self {
        let mut trip = Self {
            t_star_ms: sample.time_ms,
            minted: version,
            version,
            absorbed: BTreeMap::new(),
            driver: None,
            partition: None,
            path: Path::new(sample),
            loaded: i64::MIN,
            unflushed: Some(version),
            waited_ms: 0,
        };
        trip.name_driver(driver, sample.time_ms);
        trip
    }

    /// A trip as a store holds it at `version`.
    #[must_use]
    pub fn loaded(
        t_star_ms: i64,
        minted: i64,
        version: i64,
        absorbed: BTreeMap<i64, i64>,
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
    pub fn start_ms(&self) -> i64 {
        self.path.first().time_ms
    }

    /// Device time of the latest kept sample.
    #[must_use]
    pub fn end_ms(&self) -> i64 {
        self.path.last().time_ms
    }

    /// How many samples the trip keeps, at least 1.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.path.len()
    }

    /// The kept samples.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the trip takes in memory, about, bytes.
    pub(super) fn memory(&self) -> usize {
        OVERHEAD + self.absorbed.len() * ABSORBED + self.path.memory()
    }

    pub(super) fn pack(&mut self) {
        self.path.pack();
    }

    /// Lowest version among the changes not handed to a flush yet; `None` when there is none.
    #[must_use]
    pub fn unflushed(&self) -> Option<i64> {
        self.unflushed
    }

    /// The trip is being handed to a flush: returns the lowest version among the changes in it.
    pub fn take_unflushed(&mut self) -> Option<i64> {
        self.waited_ms = 0;
        self.unflushed.take()
    }

    /// Its changes are passed over by a flush, so they wait longer. Returns how long in all, ms.
    pub fn wait(&mut self, ms: u32) -> u32 {
        self.waited_ms = self.waited_ms.saturating_add(ms);
        self.waited_ms
    }

    /// The record at `version` has had its say on this trip: it is in the row that was loaded.
    pub(super) fn already_includes(&self, version: i64) -> bool {
        version <= self.loaded
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.start_ms() <= other.end_ms() && other.start_ms() <= self.end_ms()
    }

    /// Whether two trips would be the same row.
    pub(super) fn is_same_row(&self, other: &Self) -> bool {
        self.version == other.version
            && self.t_star_ms == other.t_star_ms
            && self.start_ms() == other.start_ms()
            && self.end_ms() == other.end_ms()
            && self.samples() == other.samples()
    }

    /// Marks the trip to be written and announced again, as if changed at `version`.
    pub(super) fn mark_unflushed(&mut self, version: i64) {
        self.unflushed = Some(self.unflushed.map_or(version, |lowest| lowest.min(version)));
    }

    /// Adds a sample of a record at `version`.
    ///
    /// # Errors
    /// The kept sample of that device time; the trip is as it was.
    pub(super) fn add(
        &mut self,
        version: i64,
        sample: Sample,
        driver: Option<&str>,
    ) -> Result<(), Sample> {
        self.path.insert(sample)?;
        self.name_driver(driver, sample.time_ms);
        self.change(version);
        Ok(())
    }

    /// Takes in the trip that follows, once a sample at `version` has closed the gap between them.
    /// This trip is the earlier one, so its `t_star` is the smaller and stays.
    pub(super) fn absorb(&mut self, version: i64, later: Self) {
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

    /// The row is this reader's from now on.
    fn change(&mut self, version: i64) {
        self.version = version;
        self.partition = None;
        self.mark_unflushed(version);
    }

    fn name_driver(&mut self, name: Option<&str>, time_ms: i64) {
        let Some(name) = name else { return };
        match &mut self.driver {
            Some(driver) if time_ms >= driver.time_ms => {}
            Some(driver) if *driver.name == *name => driver.time_ms = time_ms,
            _ => self.driver = Some(Driver { name: name.into(), time_ms }),
        }
    }
}

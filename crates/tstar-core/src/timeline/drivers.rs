//! Who drove: the drivers of a path, by the time from which they did.

use super::Path;
use crate::model::scalar::DeviceTime;

/// Length of names that [`Path::weight`] does not count, bytes.
const FREE_NAME_BYTES: usize = 4096;

/// Length of names that counts as a sample, bytes.
const NAME_BYTES_A_SAMPLE: usize = 16;

/// Approximate memory of a run of samples without its name, bytes.
const RUN: usize = 48;

/// Runs of samples that name the same driver, or none. A sample belongs to the last run that starts
/// at or before it; before the first run, samples name none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Drivers {
    runs: Vec<Run>,
    /// Length of the names of all runs, bytes.
    name_bytes: usize,
}

/// Time of the first sample, and whom it names.
pub(crate) type Run = (DeviceTime, Option<Box<str>>);

fn name_bytes(runs: &[Run]) -> usize {
    runs.iter().map(|(_, name)| name.as_ref().map_or(0, |name| name.len())).sum()
}

impl Drivers {
    /// Runs by time, of which no two neighbours are alike, and the first names a driver.
    pub(super) fn new(runs: Vec<Run>) -> Self {
        Self { name_bytes: name_bytes(&runs), runs }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (DeviceTime, Option<&str>)> {
        self.runs.iter().map(|(from_ms, name)| (*from_ms, name.as_deref()))
    }

    /// Number of runs that start at or before a time.
    fn until(&self, time_ms: DeviceTime) -> usize {
        self.runs.partition_point(|(from_ms, _)| *from_ms <= time_ms)
    }

    /// The driver whom the sample of a time names.
    pub(super) fn at(&self, time_ms: DeviceTime) -> Option<&str> {
        let newest = self.runs.last().filter(|(from_ms, _)| *from_ms <= time_ms);
        newest.or_else(|| self.runs.get(self.until(time_ms).checked_sub(1)?))?.1.as_deref()
    }

    /// The first sample that names a driver, and whom.
    pub(super) fn first(&self) -> Option<(DeviceTime, &str)> {
        self.runs.iter().find_map(|(from_ms, name)| Some((*from_ms, name.as_deref()?)))
    }

    /// The runs on the heap; `None` if there are none.
    pub(super) fn boxed(self) -> Option<Box<Self>> {
        (!self.runs.is_empty()).then(|| Box::new(self))
    }

    /// Approximate memory, bytes.
    pub(super) fn memory(&self) -> usize {
        self.runs.len() * RUN + self.name_bytes
    }

    /// Sets whom a sample names. `next_ms` gives the time of the sample after it.
    pub(super) fn set(
        &mut self,
        time_ms: DeviceTime,
        name: Option<&str>,
        next_ms: impl FnOnce() -> Option<DeviceTime>,
    ) {
        let next = next_ms().map(|next_ms| (next_ms, self.at(next_ms).map(Box::from)));
        let at = self.runs.partition_point(|(from_ms, _)| *from_ms < time_ms);
        let is_old =
            |from_ms| from_ms == time_ms || next.as_ref().is_some_and(|it| from_ms == it.0);
        while self.runs.get(at).is_some_and(|(from_ms, _)| is_old(*from_ms)) {
            let old = self.runs.remove(at);
            self.name_bytes -= name_bytes(&[old]);
        }
        if let Some(next) = next.filter(|(_, of_next)| of_next.as_deref() != name) {
            self.put(at, next);
        }
        let before = at.checked_sub(1).and_then(|before| self.runs[before].1.as_deref());
        if before != name {
            self.put(at, (time_ms, name.map(Into::into)));
        }
    }

    fn put(&mut self, at: usize, run: Run) {
        self.runs.insert(at, run);
        self.name_bytes += name_bytes(&self.runs[at..=at]);
    }

    /// Appends the runs of a path that starts at `from_ms`, after this one ends.
    pub(super) fn append(&mut self, from_ms: DeviceTime, later: Self) {
        let last = |runs: &[Run]| runs.last().and_then(|(_, name)| name.clone());
        if later.at(from_ms).is_none() && last(&self.runs).is_some() {
            self.runs.push((from_ms, None));
        }
        let before = last(&self.runs);
        self.name_bytes += later.name_bytes;
        let mut later = later.runs;
        if later.first().is_some_and(|(_, name)| *name == before) {
            self.name_bytes -= name_bytes(&later[..1]);
            later.remove(0);
        }
        self.runs.append(&mut later);
    }

    /// Splits off the runs from a sample on.
    pub(super) fn split_off(&mut self, from_ms: DeviceTime) -> Self {
        let name = self.at(from_ms).map(Into::into);
        let mut later = self.runs.split_off(self.runs.partition_point(|(at, _)| *at < from_ms));
        self.name_bytes -= name_bytes(&later);
        if name.is_some() && later.first().is_none_or(|(at, _)| *at != from_ms) {
            later.insert(0, (from_ms, name));
        }
        // A run of none says nothing at the start of a path.
        if later.first().is_some_and(|(_, name)| name.is_none()) {
            later.remove(0);
        }
        Self::new(later)
    }
}

impl Path {
    /// What `max_samples` limits: the samples, and of the names of drivers, one in each run, what
    /// exceeds 4 KiB, every 16 bytes as a sample. So a path takes no more bytes than `max_samples`
    /// samples may.
    #[inline]
    #[must_use]
    pub fn weight(&self) -> usize {
        let names = self.drivers.as_ref().map_or(0, |drivers| drivers.name_bytes);
        self.len() + names.saturating_sub(FREE_NAME_BYTES) / NAME_BYTES_A_SAMPLE
    }

    /// The driver whom the sample of a time names.
    #[must_use]
    pub fn driver_at(&self, time_ms: DeviceTime) -> Option<&str> {
        self.drivers.as_ref()?.at(time_ms)
    }

    /// The first sample that names a driver, and whom.
    #[must_use]
    pub fn first_driver(&self) -> Option<(DeviceTime, &str)> {
        self.drivers.as_ref()?.first()
    }

    /// The drivers along the path: each with the time of the sample from which on samples name it.
    /// Before the first, samples name none.
    pub fn drivers(&self) -> impl Iterator<Item = (DeviceTime, Option<&str>)> {
        self.drivers.iter().flat_map(|drivers| drivers.iter())
    }

    /// Sets the drivers of a path that has none, as [`Path::drivers`] gives them.
    pub(crate) fn set_drivers(&mut self, runs: Vec<Run>) {
        self.drivers = Drivers::new(runs).boxed();
    }

    /// Records whom a sample of the path names as its driver, or that it names none.
    #[inline]
    pub fn name_driver(&mut self, time_ms: DeviceTime, name: Option<&str>) {
        // Most samples name whom the one before does.
        if self.driver_at(time_ms) == name {
            return;
        }
        let mut drivers = self.drivers.take().unwrap_or_default();
        drivers.set(time_ms, name, || self.after(time_ms));
        self.drivers = Some(drivers).filter(|drivers| !drivers.runs.is_empty());
    }
}

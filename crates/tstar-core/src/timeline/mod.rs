//! The trips of one device, built from samples in any arrival order.
//!
//! Pure: no clock, no I/O, no async, no serialisation (`tests/tidy` checks the imports).
//! [`Timeline::absorb`] applies a sample and returns its effect. The caller writes changed trips to
//! the store.
//!
//! Invariants between calls, asserted by `Timeline::check` in tests:
//! - T1 trips are sorted and disjoint
//! - T2 neighbouring trips are more than `max_gap` apart, unless a limit keeps them apart or a day
//!   between them is not loaded
//! - T3 `start_time <= t_star <= end_time`, for every absorbed `t_star` too
//!
//! Over a whole run, spans depend only on the set of kept device times (as long as no trip reaches
//! a limit). Ids also depend on the arrival order, so the same log always gives the same ids.

mod cost;
mod days;
mod derived;
mod drivers;
mod packed;
mod path;
mod stops;
mod trip;
mod trips;

pub use derived::{Jumps, PathStats};
pub use path::Path;
pub use stops::{Stop, StopRule, moving_ms, stops};
pub use trip::{Trip, Waiting};

pub use crate::model::limits::{ClockGuard, ClockViolation, LegFilter, Limits, MovementFilter};
pub use crate::model::reading::{READINGS, Reading, ReadingKind};
pub use crate::model::sample::{OutOfRange, RawSample, Sample};
use crate::model::scalar::{Day, DeviceTime, Version};
pub use crate::model::time::{DAY_MS, day_of};

use crate::model::named::named;
pub(crate) use days::Days;
pub(crate) use drivers::Run;
use trips::Trips;

named! {
    /// How a sample changed the trips of its device.
    Arrival {
        /// It started a trip.
        New = "new",
        /// It moved the end of a trip.
        End = "end",
        /// It lies inside a trip.
        Inside = "inside",
        /// It moved the start of a trip.
        Beginning = "beginning",
        /// It joined two trips and retired the id of the later one.
        Merge = "merge",
    }
}

/// The result of absorbing a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The sample is kept.
    Applied(Arrival),
    /// The trip already keeps a sample of this device time. Nothing changed.
    Duplicate {
        /// The kept sample, if this one differs from it.
        conflict: Option<Sample>,
    },
    /// A dead letter: the sample lies inside a trip that has `max_samples`, or inside a loaded trip
    /// whose version is at or past the record.
    TripFull,
}

/// The trips of one device that are in memory, built from samples in any arrival order.
///
/// ```
/// use tstar_core::{DeviceTime, Limits, RawSample, Sample, Timeline, Version};
///
/// let mut timeline = Timeline::default();
/// for (minute, version) in [10, 12, 0, 2, 6].into_iter().zip((0..).step_by(2)) {
///     let time_ms = DeviceTime(minute * 60_000);
///     let raw = RawSample { time_ms, lat: 52.5, lon: 13.4, ..RawSample::default() };
///     let sample = Sample::quantised(&raw).expect("every field is in range");
///     timeline.absorb(&Limits::default(), Version(version), sample, None);
/// }
/// // Minute 6 joined two trips. The merged trip keeps the id of the earlier one and absorbs 10.
/// let trips: Vec<_> = timeline.trips().collect();
/// assert_eq!(trips.len(), 1);
/// assert_eq!((trips[0].t_star_ms, trips[0].samples()), (DeviceTime(0), 5));
/// assert!(trips[0].absorbed.contains_key(&DeviceTime(600_000)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    trips: Trips,
    /// Days whose rows have been loaded.
    known_days: Days,
    /// Approximate memory used by the trips, bytes.
    memory: usize,
}

impl Timeline {
    /// Applies a sample of the record at `version`.
    ///
    /// Versions must not decrease from call to call; samples of one record share a version. Before,
    /// load the days of [`Timeline::missing_days`] with [`Timeline::insert_loaded`].
    pub fn absorb(
        &mut self,
        limits: &Limits,
        version: Version,
        sample: Sample,
        driver: Option<&str>,
    ) -> Outcome {
        let time_ms = sample.time_ms;
        if let Some(newest) = self.trips.newest_mut()
            && newest.end_ms() < time_ms
        {
            // The common case: the sample extends the newest trip, so no trip follows it.
            if reaches(newest, limits, version, time_ms)
                && fits(limits, newest.start_ms(), time_ms, newest.weight())
            {
                let before = newest.memory();
                add(newest, version, sample, driver);
                self.memory = self.memory + newest.memory() - before;
                return Outcome::Applied(Arrival::End);
            }
        } else if let Some(trip) = self.trips.until_mut(time_ms)
            && time_ms <= trip.end_ms()
        {
            let before = trip.memory();
            let outcome = absorb_inside(trip, limits, version, sample, driver);
            self.memory = self.memory + trip.memory() - before;
            return outcome;
        }
        let arrival = self.classify(limits, version, time_ms);
        self.apply(arrival, version, sample, driver);
        Outcome::Applied(arrival)
    }

    /// Rule 3 of the contract: a sample that no trip covers.
    fn classify(&self, limits: &Limits, version: Version, time_ms: DeviceTime) -> Arrival {
        let left = self.trips.until(time_ms);
        let left = left.filter(|trip| reaches(trip, limits, version, time_ms));
        let right = self.after(time_ms).filter(|trip| {
            trip.start_ms() - time_ms <= limits.max_gap_ms && !trip.already_includes(version)
        });
        let join = |left: &Trip, right: &Trip| {
            fits(limits, left.start_ms(), right.end_ms(), left.weight() + right.weight())
        };
        match (left, right) {
            (Some(left), Some(right)) if join(left, right) => Arrival::Merge,
            (Some(left), _) if fits(limits, left.start_ms(), time_ms, left.weight()) => {
                Arrival::End
            }
            (_, Some(right)) if fits(limits, time_ms, right.end_ms(), right.weight()) => {
                Arrival::Beginning
            }
            _ => Arrival::New,
        }
    }

    fn apply(&mut self, arrival: Arrival, version: Version, sample: Sample, driver: Option<&str>) {
        const NEXT_TO_IT: &str = "classified next to it";
        let time_ms = sample.time_ms;
        let add = |trip: &mut Trip| add(trip, version, sample, driver);
        let mut before = 0;
        let trip = match arrival {
            Arrival::New => self.trips.insert(Trip::new(version, sample, driver)),
            Arrival::Inside => unreachable!("a sample inside a trip is not placed"),
            Arrival::End => {
                let left = self.trips.until_mut(time_ms).expect(NEXT_TO_IT);
                before += left.memory();
                add(left);
                left
            }
            Arrival::Beginning => {
                let mut right = self.trips.take_after(time_ms).expect(NEXT_TO_IT);
                before += right.memory();
                add(&mut right);
                self.trips.insert(right)
            }
            Arrival::Merge => {
                let right = self.trips.take_after(time_ms).expect(NEXT_TO_IT);
                let left = self.trips.until_mut(time_ms).expect(NEXT_TO_IT);
                before += left.memory() + right.memory();
                add(left);
                left.absorb(version, right);
                left
            }
        };
        self.memory = self.memory + trip.memory() - before;
    }

    /// Days whose rows must be loaded before a sample of `time_ms` is absorbed, ascending.
    #[must_use]
    pub fn missing_days(&self, limits: &Limits, time_ms: DeviceTime) -> Vec<Day> {
        near_days(limits, time_ms).filter(|&day| !self.known_days.contains(day)).collect()
    }

    /// Inserts the rows that a store has for `days`. Returns how many of them overlapped another
    /// trip.
    ///
    /// The overlap rule: of overlapping trips, the one with the highest version wins, whole. A trip
    /// that overlapped another, or whose version is at or past `acknowledged` (the version of the
    /// first record that a commit would not pass), is marked dirty from `acknowledged`: it is
    /// written and announced again.
    pub fn insert_loaded(&mut self, days: &[Day], rows: Vec<Trip>, acknowledged: Version) -> usize {
        let overlaps = rows
            .into_iter()
            .map(|row| self.insert_row(row, acknowledged))
            .filter(|&met| met)
            .count();
        for &day in days {
            self.known_days.insert(day);
        }
        self.weigh();
        overlaps
    }

    fn insert_row(&mut self, mut row: Trip, acknowledged: Version) -> bool {
        let over = self.trips.back_from(row.end_ms());
        let over: Vec<&Trip> = over.take_while(|trip| trip.overlaps(&row)).collect();
        if over.iter().any(|trip| trip.is_same_row(&row)) {
            return false;
        }
        let Some(newest) = over.iter().max_by_key(|trip| trip.version) else {
            if row.version >= acknowledged {
                row.mark_unflushed(acknowledged);
            }
            self.trips.insert(row);
            return false;
        };
        let (newest_ms, is_newer) = (newest.start_ms(), newest.version >= row.version);
        if is_newer {
            let newest = self.trips.until_mut(newest_ms).expect("it overlaps");
            newest.mark_unflushed(acknowledged);
            return true;
        }
        let over: Vec<DeviceTime> = over.into_iter().map(Trip::start_ms).collect();
        for trip in over.into_iter().filter_map(|start_ms| self.trips.remove(start_ms)) {
            if let Some(lowest) = trip.unflushed() {
                row.mark_unflushed(lowest);
            }
        }
        row.mark_unflushed(acknowledged);
        self.trips.insert(row);
        true
    }

    /// The trips in memory, by start time.
    pub fn trips(&self) -> impl Iterator<Item = &Trip> {
        self.trips.iter()
    }

    /// The trip in memory that covers a time.
    #[must_use]
    pub fn covering(&self, time_ms: DeviceTime) -> Option<&Trip> {
        self.trips.until(time_ms).filter(|trip| time_ms <= trip.end_ms())
    }

    /// The first trip in memory that starts after a time.
    #[must_use]
    pub fn after(&self, time_ms: DeviceTime) -> Option<&Trip> {
        self.trips.after(time_ms)
    }

    /// The trips in memory, by start time, for flushing their changes.
    pub fn trips_mut(&mut self) -> impl Iterator<Item = &mut Trip> {
        self.trips.iter_mut()
    }

    /// Removes the trips that end before a time, which are being erased.
    pub fn forget(&mut self, before_ms: DeviceTime) {
        self.trips.retain(|trip| trip.end_ms() >= before_ms);
        self.weigh();
    }

    /// Evicts every trip without a change to flush, and forgets which days are loaded: the next
    /// sample loads them again. Call it only when all flushed changes are acknowledged.
    pub fn evict(&mut self) {
        self.trips.retain(|trip| trip.unflushed().is_some());
        self.known_days = Days::default();
        self.weigh();
    }

    /// Packs the paths of long trips except for their latest samples. A packed path uses a third to
    /// a fifth of the memory, but inserting into it is slower.
    pub fn pack(&mut self) {
        self.trips.iter_mut().for_each(Trip::pack);
        self.weigh();
    }

    /// Approximate memory used by the trips, bytes, besides that of the struct, in which one lies.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.memory.saturating_sub(size_of::<Trip>())
    }

    fn weigh(&mut self) {
        self.memory = self.trips.iter().map(Trip::memory).sum();
    }

    /// Asserts T1 to T3 and the memory count, for tests.
    ///
    /// # Panics
    /// One of them does not hold.
    pub fn check(&self, limits: &Limits) {
        let mut before: Option<&Trip> = None;
        self.trips.check();
        for trip in self.trips.iter() {
            if let Some(before) = before {
                let gap = trip.start_ms() - before.end_ms();
                assert!(gap > 0, "T1: {before:?} {trip:?}");
                let joined = trip.end_ms() - before.start_ms() <= limits.max_duration_ms
                    && before.weight() + trip.weight() <= limits.max_samples;
                let apart = gap > limits.max_gap_ms;
                // A trip between them that is not in memory may keep them apart.
                let mut between = day_of(before.end_ms()).through(day_of(trip.start_ms()));
                let known = apart || between.all(|day| self.known_days.contains(day));
                assert!(apart || !joined || !known, "T2: {before:?} {trip:?}");
            }
            for t_star_ms in trip.absorbed.keys().chain([&trip.t_star_ms]) {
                assert!((trip.start_ms()..=trip.end_ms()).contains(t_star_ms), "T3");
            }
            before = Some(trip);
        }
        assert_eq!(self.memory, self.trips.iter().map(Trip::memory).sum::<usize>());
    }
}

/// Whether a trip of a weight may take one more sample and span `start_ms..=end_ms`.
fn fits(limits: &Limits, start_ms: DeviceTime, end_ms: DeviceTime, weight: usize) -> bool {
    end_ms - start_ms <= limits.max_duration_ms && weight < limits.max_samples
}

/// Whether a trip ends at most `max_gap` before a time and does not include the record yet.
fn reaches(trip: &Trip, limits: &Limits, version: Version, time_ms: DeviceTime) -> bool {
    time_ms - trip.end_ms() <= limits.max_gap_ms && !trip.already_includes(version)
}

/// Adds a sample outside the span of a trip.
fn add(trip: &mut Trip, version: Version, sample: Sample, driver: Option<&str>) {
    trip.add(version, sample, driver).expect("no trip spans the time, so none keeps it");
}

/// Rules 1 and 2 of the contract: a sample inside the span of a trip.
fn absorb_inside(
    trip: &mut Trip,
    limits: &Limits,
    version: Version,
    sample: Sample,
    driver: Option<&str>,
) -> Outcome {
    let full = trip.weight() >= limits.max_samples || trip.already_includes(version);
    if full {
        return match trip.path().get(sample.time_ms) {
            Some(kept) => duplicate(kept, sample),
            None => Outcome::TripFull,
        };
    }
    match trip.add(version, sample, driver) {
        Ok(()) => Outcome::Applied(Arrival::Inside),
        Err(kept) => duplicate(kept, sample),
    }
}

fn duplicate(kept: Sample, sample: Sample) -> Outcome {
    Outcome::Duplicate { conflict: (!kept.is_same_measurement(&sample)).then_some(kept) }
}

/// The days that may have a trip within `max_gap` of a time.
fn near_days(
    limits: &Limits,
    time_ms: DeviceTime,
) -> impl DoubleEndedIterator<Item = Day> + Clone + use<> {
    let first = day_of(time_ms.saturating_sub(limits.max_gap_ms));
    first.through(day_of(time_ms.saturating_add(limits.max_gap_ms)))
}

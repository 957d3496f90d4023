//! The trips of one device, built from samples in any order of arrival.
//!
//! Pure: no clock, no I/O, no async, no serialisation (`tests/it/tidy.rs` checks the border). Hand
//! in a sample, learn what it did; take the changed trips out when a store is to have them.
//!
//! Holds between any two calls; `Timeline::check` asserts it in tests:
//! - T1 trips are sorted and disjoint
//! - T2 neighbouring trips lie more than `max_gap` apart, unless a limit keeps them apart, or days
//!   between them are not known
//! - T3 `start_time <= t_star <= end_time`, and so for every absorbed `t_star`
//!
//! Holds over whole runs: spans depend only on the set of kept device times (while no trip meets a
//! limit); ids also depend on the order of arrival, so the same log gives the same ids, always.
//!
//! ```
//! use tstar::timeline::{Limits, Sample, Stated, Timeline};
//!
//! let mut timeline = Timeline::default();
//! for (minute, version) in [10, 12, 0, 2, 6].into_iter().zip((0..).step_by(2)) {
//!     let time_ms = minute * 60_000;
//!     let stated = Stated { time_ms, lat: 52.5, lon: 13.4, ..Stated::default() };
//!     let sample = Sample::quantised(&stated).expect("it is on earth");
//!     timeline.absorb(&Limits::default(), version, sample, None);
//! }
//! // Minute 6 joined two trips: the earlier one's id stays, and finds what 10 stood for.
//! let trips: Vec<_> = timeline.trips().collect();
//! assert_eq!(trips.len(), 1);
//! assert_eq!((trips[0].t_star_ms, trips[0].samples()), (0, 5));
//! assert!(trips[0].absorbed.contains_key(&600_000));
//! ```

mod cost;
mod derived;
mod packed;
mod path;
mod trip;

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};

pub use derived::PathStats;
pub use path::Path;
pub use trip::{Driver, Trip};

pub use crate::model::limits::{
    ClockGuard, ClockViolation, FilterReason, Limits, MovementFilter, YEAR_2000_MS,
};
pub use crate::model::sample::{OutOfRange, RawSample, Reading, Sample};
pub use crate::model::time::{DAY_MS, day_of};

/// Where in its trip a sample arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It began a trip.
    New,
    /// It extended a trip's end.
    End,
    /// It fell inside a trip.
    Inside,
    /// It extended a trip's start.
    Beginning,
    /// It joined two trips; the later one's id is retired.
    Merge,
}

/// What a sample did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is kept.
    Applied(Arrival),
    /// A sample of that device time is kept already; nothing changed.
    Duplicate {
        /// It differs from the kept one.
        conflicting: bool,
    },
    /// It lies inside a trip that holds `max_samples`, or that was loaded as it was after this
    /// record: a dead letter.
    TripFull,
}

/// The trips of one device, as far as they are in memory.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// By start time. Boxed: a tree node then moves pointers.
    trips: BTreeMap<i64, Box<Trip>>,
    /// Days whose rows have been loaded, rising.
    known_days: Vec<i64>,
    /// What the trips take in memory, about, bytes.
    memory: usize,
}

impl Timeline {
    /// Decides what a sample of the record at `version` does, and does it.
    ///
    /// Versions of calls for one device rise, or stay for samples of one record. The days of
    /// [`Timeline::unknown_days`] must have been handed to [`Timeline::know`] before.
    pub fn absorb(
        &mut self,
        limits: &Limits,
        version: i64,
        sample: Sample,
        driver: Option<&str>,
    ) -> Outcome {
        let time_ms = sample.time_ms;
        let newest_ms = self.trips.last_key_value().map(|(&start_ms, _)| start_ms);
        if let Some((_, trip)) = self.trips.range_mut(..=time_ms).next_back() {
            let before = trip.memory();
            let outcome = if time_ms <= trip.end_ms() {
                Some(absorb_inside(trip, limits, version, sample, driver))
            } else if newest_ms <= Some(time_ms)
                && reaches(trip, limits, version, time_ms)
                && fits(limits, trip.start_ms(), time_ms, trip.samples())
            {
                // Most samples extend the newest trip: nothing follows that they could reach.
                add(trip, version, sample, driver);
                Some(Outcome::Applied(Arrival::End))
            } else {
                None
            };
            if let Some(outcome) = outcome {
                self.memory = self.memory + trip.memory() - before;
                return outcome;
            }
        }
        let arrival = self.classify(limits, version, time_ms);
        self.apply(arrival, version, sample, driver);
        Outcome::Applied(arrival)
    }

    /// Rule 3 of the contract, for a sample that no trip spans.
    fn classify(&self, limits: &Limits, version: i64, time_ms: i64) -> Arrival {
        let left = self.before(time_ms).filter(|trip| reaches(trip, limits, version, time_ms));
        let right = self.after(time_ms).filter(|trip| {
            trip.start_ms() - time_ms <= limits.max_gap_ms && !trip.already_includes(version)
        });
        let join = |left: &Trip, right: &Trip| {
            fits(limits, left.start_ms(), right.end_ms(), left.samples() + right.samples())
        };
        match (left, right) {
            (Some(left), Some(right)) if join(left, right) => Arrival::Merge,
            (Some(left), _) if fits(limits, left.start_ms(), time_ms, left.samples()) => {
                Arrival::End
            }
            (_, Some(right)) if fits(limits, time_ms, right.end_ms(), right.samples()) => {
                Arrival::Beginning
            }
            _ => Arrival::New,
        }
    }

    fn before(&self, time_ms: i64) -> Option<&Trip> {
        self.trips.range(..time_ms).next_back().map(|(_, trip)| &**trip)
    }

    fn apply(&mut self, arrival: Arrival, version: i64, sample: Sample, driver: Option<&str>) {
        let time_ms = sample.time_ms;
        let add = |trip: &mut Trip| add(trip, version, sample, driver);
        let mut before = 0;
        let after = match arrival {
            Arrival::New => {
                let trip = Box::new(Trip::new(version, sample, driver));
                self.trips.entry(time_ms).or_insert(trip).memory()
            }
            Arrival::Inside => unreachable!("a sample inside a trip is not placed"),
            Arrival::End => {
                let left = self.trips.range_mut(..time_ms).next_back().expect("placed beside it").1;
                before += left.memory();
                add(left);
                left.memory()
            }
            Arrival::Beginning => {
                let mut right = self.take_after(time_ms);
                before += right.memory();
                add(&mut right);
                self.trips.entry(time_ms).or_insert(right).memory()
            }
            Arrival::Merge => {
                let right = self.take_after(time_ms);
                let left = self.trips.range_mut(..time_ms).next_back().expect("placed beside it").1;
                before += left.memory() + right.memory();
                add(left);
                left.absorb(version, *right);
                left.memory()
            }
        };
        self.memory = self.memory + after - before;
    }

    fn take_after(&mut self, time_ms: i64) -> Box<Trip> {
        let start_ms = self.after(time_ms).expect("placed beside it").start_ms();
        self.trips.remove(&start_ms).expect("it was just found")
    }

    /// Days whose rows have to be loaded before a sample of `time_ms` is absorbed, rising.
    #[must_use]
    pub fn missing_days(&self, limits: &Limits, time_ms: i64) -> Vec<i64> {
        let near = near_days(limits, time_ms);
        if near.clone().all(|day| self.known_days.binary_search(&day).is_ok()) {
            return Vec::new();
        }
        near.filter(|day| self.known_days.binary_search(day).is_err()).collect()
    }

    /// Takes in the rows of `days`, as a store holds them. Returns how many overlapped another
    /// trip.
    ///
    /// The overlap rule: of overlapping trips the one of the highest version stands, whole. One
    /// that overlapped, and any at or past `acknowledged` (the version of the first record that
    /// a commit would not pass), has to be written and announced again from there.
    pub fn insert_loaded(&mut self, days: &[i64], rows: Vec<Trip>, acknowledged: i64) -> usize {
        let overlaps = rows
            .into_iter()
            .map(|row| self.insert_row(row, acknowledged))
            .filter(|&met| met)
            .count();
        for day in days {
            if let Err(at) = self.known_days.binary_search(day) {
                self.known_days.insert(at, *day);
            }
        }
        self.weigh();
        overlaps
    }

    fn insert_row(&mut self, mut row: Trip, acknowledged: i64) -> bool {
        let over: Vec<i64> = self
            .trips
            .range(..=row.end_ms())
            .rev()
            .take_while(|(_, trip)| trip.overlaps(&row))
            .map(|(&start_ms, _)| start_ms)
            .collect();
        if over.iter().any(|start_ms| self.trips[start_ms].is_same_row(&row)) {
            return false;
        }
        if over.is_empty() {
            if row.version >= acknowledged {
                row.mark_unflushed(acknowledged);
            }
            self.trips.insert(row.start_ms(), Box::new(row));
            return false;
        }
        let newest = over.iter().copied().max_by_key(|start_ms| self.trips[start_ms].version);
        let newest = self.trips.get_mut(&newest.expect("not empty")).expect("a key of the map");
        if newest.version >= row.version {
            newest.mark_unflushed(acknowledged);
            return true;
        }
        for start_ms in over {
            let trip = self.trips.remove(&start_ms).expect("a key of the map");
            if let Some(lowest) = trip.unflushed() {
                row.mark_unflushed(lowest);
            }
        }
        row.mark_unflushed(acknowledged);
        self.trips.insert(row.start_ms(), Box::new(row));
        true
    }

    /// The trips in memory, by start time.
    pub fn trips(&self) -> impl Iterator<Item = &Trip> {
        self.trips.values().map(|trip| &**trip)
    }

    /// The trip in memory that covers a time.
    #[must_use]
    pub fn covering(&self, time_ms: i64) -> Option<&Trip> {
        let (_, trip) = self.trips.range(..=time_ms).next_back()?;
        (time_ms <= trip.end_ms()).then_some(&**trip)
    }

    /// The first trip in memory that starts after a time.
    #[must_use]
    pub fn after(&self, time_ms: i64) -> Option<&Trip> {
        let after = (Bound::Excluded(time_ms), Bound::Unbounded);
        self.trips.range(after).next().map(|(_, trip)| &**trip)
    }

    /// The trips in memory, by start time, to take their changes.
    pub fn trips_mut(&mut self) -> impl Iterator<Item = &mut Trip> {
        self.trips.values_mut().map(|trip| &mut **trip)
    }

    /// Lets go of the trips that end before a time: they are erased.
    pub fn forget(&mut self, before_ms: i64) {
        self.trips.retain(|_, trip| trip.end_ms() >= before_ms);
        self.weigh();
    }

    /// Lets go of every trip that has no change to flush, and of what is known of days: a sample
    /// that needs them loads them again. Call it only when what was flushed is acknowledged.
    pub fn evict(&mut self) {
        self.trips.retain(|_, trip| trip.unflushed().is_some());
        self.known_days.clear();
        self.weigh();
    }

    /// Packs the paths of long trips but for their latest samples: they take a third to a fifth of
    /// the memory, and longer to add to.
    pub fn pack(&mut self) {
        self.trips.values_mut().for_each(|trip| trip.pack());
        self.weigh();
    }

    /// What the trips take in memory, about, bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.memory
    }

    fn weigh(&mut self) {
        self.memory = self.trips.values().map(|trip| trip.memory()).sum();
    }

    /// Asserts T1 to T3, and what the trips take.
    ///
    /// # Panics
    /// Where one of them does not hold.
    pub fn check(&self, limits: &Limits) {
        let mut before: Option<&Trip> = None;
        for (&start_ms, trip) in &self.trips {
            assert_eq!(start_ms, trip.start_ms(), "T1: the key is the start");
            if let Some(before) = before {
                let gap = trip.start_ms() - before.end_ms();
                assert!(gap > 0, "T1: {before:?} {trip:?}");
                let joined = trip.end_ms() - before.start_ms() <= limits.max_duration_ms
                    && before.samples() + trip.samples() <= limits.max_samples;
                let apart = gap > limits.max_gap_ms;
                // A trip between them may be out of memory, and keep them apart.
                let mut between = day_of(before.end_ms())..=day_of(trip.start_ms());
                let known = apart || between.all(|day| self.known_days.contains(&day));
                assert!(apart || !joined || !known, "T2: {before:?} {trip:?}");
            }
            for t_star_ms in trip.absorbed.keys().chain([&trip.t_star_ms]) {
                assert!((trip.start_ms()..=trip.end_ms()).contains(t_star_ms), "T3");
            }
            before = Some(trip);
        }
        assert_eq!(self.memory, self.trips.values().map(|trip| trip.memory()).sum::<usize>());
    }
}

/// Whether a trip of so many samples may grow by one to these ends.
fn fits(limits: &Limits, start_ms: i64, end_ms: i64, samples: usize) -> bool {
    end_ms - start_ms <= limits.max_duration_ms && samples < limits.max_samples
}

/// Whether a trip that takes records of this version ends near enough before a time.
fn reaches(trip: &Trip, limits: &Limits, version: i64, time_ms: i64) -> bool {
    time_ms - trip.end_ms() <= limits.max_gap_ms && !trip.already_includes(version)
}

/// Adds a sample outside the span of a trip.
fn add(trip: &mut Trip, version: i64, sample: Sample, driver: Option<&str>) {
    trip.add(version, sample, driver).expect("no trip spans the time, so none keeps it");
}

/// Rules 1 and 2 of the contract, for a sample within the span of a trip.
fn absorb_inside(
    trip: &mut Trip,
    limits: &Limits,
    version: i64,
    sample: Sample,
    driver: Option<&str>,
) -> Outcome {
    let full = trip.samples() >= limits.max_samples || trip.already_includes(version);
    if full {
        return match trip.path().get(sample.time_ms) {
            Some(kept) => Outcome::Duplicate { conflicting: kept != sample },
            None => Outcome::TripFull,
        };
    }
    match trip.add(version, sample, driver) {
        Ok(()) => Outcome::Applied(Arrival::Inside),
        Err(kept) => Outcome::Duplicate { conflicting: kept != sample },
    }
}

/// The days in which a trip within `max_gap` of a time can stand.
fn near_days(limits: &Limits, time_ms: i64) -> RangeInclusive<i64> {
    let first = day_of(time_ms.saturating_sub(limits.max_gap_ms));
    first..=day_of(time_ms.saturating_add(limits.max_gap_ms))
}

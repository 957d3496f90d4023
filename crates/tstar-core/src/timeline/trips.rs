//! The trips of a device, by start time.
//!
//! Most devices in memory have one trip, and most samples extend the newest. It lies in the struct
//! itself, so that it is found without following a pointer; a map has the earlier ones.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::Trip;
use crate::model::scalar::DeviceTime;

/// Trips by start time. The times of trips do not overlap; the caller sees to that.
#[derive(Clone, Debug, Default)]
pub(super) struct Trips {
    /// The trip that starts last; `None` if there is no trip.
    newest: Option<Trip>,
    /// All others. Boxed, so that tree nodes move pointers instead of trips.
    earlier: BTreeMap<DeviceTime, Box<Trip>>,
}

impl Trips {
    /// The trip that starts last.
    pub(super) fn newest_mut(&mut self) -> Option<&mut Trip> {
        self.newest.as_mut()
    }

    /// The newest of the trips that start at or before a time.
    pub(super) fn until(&self, time_ms: DeviceTime) -> Option<&Trip> {
        match &self.newest {
            Some(newest) if newest.start_ms() <= time_ms => Some(newest),
            _ => self.earlier.range(..=time_ms).next_back().map(|(_, trip)| &**trip),
        }
    }

    /// The newest of the trips that start at or before a time.
    pub(super) fn until_mut(&mut self, time_ms: DeviceTime) -> Option<&mut Trip> {
        match &mut self.newest {
            Some(newest) if newest.start_ms() <= time_ms => Some(newest),
            _ => self.earlier.range_mut(..=time_ms).next_back().map(|(_, trip)| &mut **trip),
        }
    }

    /// The trips that start at or before a time, the newest first.
    pub(super) fn back_from(&self, time_ms: DeviceTime) -> impl Iterator<Item = &Trip> {
        let newest = self.newest.iter().filter(move |newest| newest.start_ms() <= time_ms);
        newest.chain(self.earlier.range(..=time_ms).rev().map(|(_, trip)| &**trip))
    }

    /// The first trip that starts after a time.
    pub(super) fn after(&self, time_ms: DeviceTime) -> Option<&Trip> {
        let after = (Bound::Excluded(time_ms), Bound::Unbounded);
        let earlier = self.earlier.range(after).next().map(|(_, trip)| &**trip);
        earlier.or_else(|| self.newest.as_ref().filter(|newest| newest.start_ms() > time_ms))
    }

    /// Removes the first trip that starts after a time.
    pub(super) fn take_after(&mut self, time_ms: DeviceTime) -> Option<Trip> {
        let start_ms = self.after(time_ms)?.start_ms();
        self.remove(start_ms)
    }

    /// Removes the trip that starts at a time.
    pub(super) fn remove(&mut self, start_ms: DeviceTime) -> Option<Trip> {
        if self.newest.as_ref().is_some_and(|newest| newest.start_ms() == start_ms) {
            let before = self.earlier.pop_last().map(|(_, trip)| *trip);
            return std::mem::replace(&mut self.newest, before);
        }
        self.earlier.remove(&start_ms).map(|trip| *trip)
    }

    /// Inserts a trip and returns it.
    pub(super) fn insert(&mut self, trip: Trip) -> &mut Trip {
        let start_ms = trip.start_ms();
        let is_newest = self.newest.as_ref().is_none_or(|newest| newest.start_ms() < start_ms);
        if !is_newest {
            return self.earlier.entry(start_ms).or_insert(Box::new(trip));
        }
        if let Some(before) = self.newest.take() {
            self.earlier.insert(before.start_ms(), Box::new(before));
        }
        self.newest.insert(trip)
    }

    /// All trips.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Trip> {
        self.earlier.values().map(|trip| &**trip).chain(&self.newest)
    }

    /// All trips. Their start times must not change.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Trip> {
        self.earlier.values_mut().map(|trip| &mut **trip).chain(&mut self.newest)
    }

    /// Removes the trips for which `keeps` is false.
    pub(super) fn retain(&mut self, keeps: impl Fn(&Trip) -> bool) {
        self.earlier.retain(|_, trip| keeps(trip));
        if self.newest.as_ref().is_some_and(|newest| !keeps(newest)) {
            self.newest = self.earlier.pop_last().map(|(_, trip)| *trip);
        }
    }

    /// Asserts that each trip is where it is looked for.
    pub(super) fn check(&self) {
        for (&start_ms, trip) in &self.earlier {
            assert_eq!(start_ms, trip.start_ms(), "T1: the key is the start");
        }
        let newest_ms = self.newest.as_ref().map(Trip::start_ms);
        assert!(self.earlier.keys().next_back().copied() < newest_ms || self.earlier.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::scalar::Version;
    use crate::timeline::{RawSample, Sample};

    #[test]
    fn a_trip_that_starts_at_a_time_is_not_after_it() {
        let mut trips = Trips::default();
        for time_ms in [10, 0, 20].map(DeviceTime) {
            let raw = RawSample { time_ms, ..RawSample::default() };
            trips.insert(Trip::new(Version(0), Sample::quantised(&raw).unwrap(), None));
        }
        for (time_ms, after) in
            [(-1, Some(0)), (0, Some(10)), (10, Some(20)), (19, Some(20)), (20, None)]
        {
            let found = trips.after(DeviceTime(time_ms)).map(|trip| trip.start_ms().ms());
            assert_eq!(found, after, "{time_ms}");
        }
    }
}

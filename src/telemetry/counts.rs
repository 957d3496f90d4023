//! Counters of one run: every delivered sample is counted once, by its result (I3).

use std::collections::BTreeMap;

use serde::Serialize;

pub use super::table::SampleCounts;
use super::table::{DEAD_LETTERS, SAMPLES, SAMPLES_DROPPED, UNKNOWN_READINGS};
use crate::model::stats::Conflicts;
use crate::segment::Arrival;

/// Name of the result of a sample whose device time already has a kept sample.
pub(crate) const DUPLICATE: &str = tstar_core::Effect::DUPLICATE;

/// Name of the result of a dropped sample.
pub(crate) const DROPPED: &str = "dropped";

/// Name of the result of a skipped record.
pub const SKIPPED: &str = "skipped";

/// Name of the result of a dead-lettered sample.
pub(crate) const DEAD: &str = "dead";

/// Applied samples by arrival kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrivalCounts([u64; Arrival::ALL.len()]);

impl ArrivalCounts {
    /// Counts one applied sample.
    pub fn count(&mut self, arrival: Arrival) {
        self.0[arrival as usize] += 1;
    }

    /// Number of samples of an arrival kind.
    #[must_use]
    pub fn number_of(&self, arrival: Arrival) -> u64 {
        self.0[arrival as usize]
    }

    /// The arrival kinds, each with its number of samples.
    pub fn by_kind(&self) -> impl Iterator<Item = (Arrival, u64)> {
        Arrival::ALL.iter().copied().zip(self.0)
    }

    /// Samples that joined an existing trip: only these can change the key of a trip.
    #[must_use]
    pub fn joined(&self) -> u64 {
        self.0.iter().sum::<u64>() - self.number_of(Arrival::New)
    }

    /// Number of arrivals that changed the key of an existing trip, for each way to key a trip.
    #[must_use]
    pub fn key_changes(&self) -> KeyChanges {
        let [end, beginning, merge] =
            [Arrival::End, Arrival::Beginning, Arrival::Merge].map(|kind| self.number_of(kind));
        KeyChanges {
            t_star: merge,
            start: beginning + merge,
            end: end + merge,
            start_end: beginning + end + merge,
        }
    }
}

/// Number of arrivals that changed the key of a trip, by what the key contains besides the device.
/// Part of reports as JSON: names and order are fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeyChanges {
    /// The time of the first-arrived sample.
    pub t_star: u64,
    /// The start time.
    pub start: u64,
    /// The end time.
    pub end: u64,
    /// Start and end time.
    pub start_end: u64,
}

/// A counter as reports show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedCount {
    /// Name in JSON, and in tables.
    pub name: &'static str,
    /// Number of samples.
    pub count: u64,
    /// How many of them have some property, by its name in JSON and in tables.
    pub of_which: Vec<(&'static str, u64)>,
}

impl SampleCounts {
    /// Number of dead letters, all reasons together.
    #[must_use]
    pub fn dead(&self) -> u64 {
        self.dead_letters.values().sum()
    }

    /// Samples by result, named as in metrics and in JSON; they add up to those delivered.
    pub(crate) fn by_result(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let others = [
            (DUPLICATE, self.duplicates),
            (DROPPED, self.dropped.values().sum()),
            (SKIPPED, self.skipped),
            (DEAD, self.dead()),
        ];
        self.arrivals.by_kind().map(|(kind, count)| (kind.name(), count)).chain(others)
    }

    /// Samples by a label of a metric: the metric, the value of its label, and their number.
    pub(super) fn by_label(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let dead = self.dead_letters.iter().map(|(it, count)| (DEAD_LETTERS, it.name(), *count));
        let dropped = self.dropped.iter().map(|(it, count)| (SAMPLES_DROPPED, it.name(), *count));
        let unknown =
            self.unknown_readings.iter().map(|(it, count)| (UNKNOWN_READINGS, *it, *count));
        let results = self.by_result().map(|(result, count)| (SAMPLES, result, count));
        results.chain(dead).chain(dropped).chain(unknown)
    }
}

/// The sum of the counters of two runs.
pub(super) trait AddCounts {
    /// Adds `other` to `self`.
    fn add_counts(&mut self, other: &Self);
}

impl AddCounts for u64 {
    fn add_counts(&mut self, other: &Self) {
        *self += other;
    }
}

impl AddCounts for Conflicts {
    fn add_counts(&mut self, other: &Self) {
        self.count += other.count;
        self.far += other.far;
    }
}

impl<Reason: Copy + Ord> AddCounts for BTreeMap<Reason, u64> {
    fn add_counts(&mut self, other: &Self) {
        for (reason, count) in other {
            *self.entry(*reason).or_default() += count;
        }
    }
}

impl AddCounts for ArrivalCounts {
    fn add_counts(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }
}

//! Counters of one run: every delivered sample is counted once, by its result (I3).

use std::collections::BTreeMap;

use serde::Serialize;

use super::{CONFLICTING, FOREIGN_ROWS, FORGETS_REPEATED, TRIP_MERGES, TRIPS_CREATED};
use crate::model::reason::{DeadReason, DropReason};
use crate::model::stats::Conflicts;
use crate::timeline::Arrival;

/// Name of the result of a sample whose device time already has a kept sample.
pub const DUPLICATE: &str = "duplicate";

/// Name of the result of a dropped sample.
pub const DROPPED: &str = "dropped";

/// Name of the result of a skipped record.
pub const SKIPPED: &str = "skipped";

/// Name of the result of a dead-lettered sample.
pub const DEAD: &str = "dead";

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

    /// Number of applied samples.
    #[must_use]
    #[cfg(feature = "internals")]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
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

/// Declares [`SampleCounts`] and the sum of two of them.
macro_rules! sample_counts {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        impl $name {
            /// Adds the counters of another run.
            pub fn add(&mut self, other: &Self) {
                $(self.$field.add_counts(&other.$field);)*
            }
        }
    };
}

sample_counts! {
    /// Counters of one run. `delivered` = `applied` + `duplicates` + dropped + `skipped` + dead
    /// letters.
    ///
    /// A new counter is a field here, a line of [`SampleCounts::reported`] if reports show it, and
    /// a line of [`SampleCounts::metrics`] if a metric shows it.
    SampleCounts {
        /// Samples delivered; a record that cannot be split into samples counts as one.
        delivered: u64,
        /// Samples kept.
        applied: u64,
        /// Samples with a device time that already has a kept sample.
        duplicates: u64,
        /// Duplicates that differ from the kept sample.
        conflicts: Conflicts,
        /// Dropped samples by reason.
        dropped: BTreeMap<DropReason, u64>,
        /// Samples that the field map says are not to be read, and other records.
        skipped: u64,
        /// Dead letters by reason.
        dead_letters: BTreeMap<DeadReason, u64>,
        /// Applied samples by arrival kind; they add up to `applied`.
        arrivals: ArrivalCounts,
        /// Loaded rows that overlapped another trip and were resolved by the overlap rule.
        overlaps: u64,
        /// Loaded rows that were ignored: written by a partition that their device does not
        /// belong to.
        foreign_rows: u64,
        /// Dead letters whose device time would be valid if it were in seconds.
        looks_like_seconds: u64,
        /// Readings of -1, which devices send for an unknown value, by name; their samples count
        /// above.
        unknown_readings: BTreeMap<&'static str, u64>,
        /// Control records executed; they do not count as samples.
        controls: u64,
        /// Those of them that erased nothing, as an earlier one had erased as much.
        forgets_repeated: u64,
        /// Number of committed flushes.
        flushes: u64,
        /// Trip rows passed to the store.
        trips_written: u64,
    }
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
    pub fn by_result(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let others = [
            (DUPLICATE, self.duplicates),
            (DROPPED, self.dropped.values().sum()),
            (SKIPPED, self.skipped),
            (DEAD, self.dead()),
        ];
        self.arrivals.by_kind().map(|(kind, count)| (kind.name(), count)).chain(others)
    }

    /// The counters of samples that reports show, besides those by reason and by arrival kind.
    #[must_use]
    pub fn reported(&self) -> [ReportedCount; 3] {
        let conflicting = ("conflicting", self.conflicts.count);
        [
            ReportedCount { name: "applied", count: self.applied, of_which: vec![] },
            ReportedCount {
                name: "duplicates",
                count: self.duplicates,
                of_which: vec![conflicting],
            },
            ReportedCount { name: SKIPPED, count: self.skipped, of_which: vec![] },
        ]
    }

    /// The counters that have a metric of their own, without labels.
    #[must_use]
    pub fn metrics(&self) -> [(&'static str, u64); 5] {
        [
            (CONFLICTING, self.conflicts.count),
            (TRIPS_CREATED, self.arrivals.number_of(Arrival::New)),
            (TRIP_MERGES, self.arrivals.number_of(Arrival::Merge)),
            (FOREIGN_ROWS, self.foreign_rows),
            (FORGETS_REPEATED, self.forgets_repeated),
        ]
    }
}

/// The sum of the counters of two runs.
trait AddCounts {
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

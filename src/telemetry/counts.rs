//! Counters of one run: every delivered sample is counted once, by its result (I3).

use std::collections::BTreeMap;

use crate::model::reason::{DeadReason, DropReason};
use crate::timeline::Arrival;

/// Applied samples by arrival kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrivalCounts {
    /// Began a trip.
    pub new: u64,
    /// Extended a trip's end.
    pub end: u64,
    /// Fell inside a trip.
    pub inside: u64,
    /// Extended a trip's start.
    pub beginning: u64,
    /// Joined two trips.
    pub merge: u64,
}

impl ArrivalCounts {
    /// Counts one applied sample.
    pub fn count(&mut self, arrival: Arrival) {
        let counter = match arrival {
            Arrival::New => &mut self.new,
            Arrival::End => &mut self.end,
            Arrival::Inside => &mut self.inside,
            Arrival::Beginning => &mut self.beginning,
            Arrival::Merge => &mut self.merge,
        };
        *counter += 1;
    }

    /// Number of applied samples.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.new + self.joined()
    }

    /// Samples that joined an existing trip: only these can change the key of a trip.
    #[must_use]
    pub fn joined(&self) -> u64 {
        self.end + self.inside + self.beginning + self.merge
    }

    /// Number of arrivals that changed the key of an existing trip, for each way to key a trip.
    #[must_use]
    pub fn key_changes(&self) -> KeyChanges {
        KeyChanges {
            t_star: self.merge,
            start: self.beginning + self.merge,
            end: self.end + self.merge,
            start_end: self.beginning + self.end + self.merge,
        }
    }
}

/// Number of arrivals that changed the key of a trip, by what the key contains besides the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// Counters of one run. `delivered` = `applied` + `duplicates` + dropped + dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleCounts {
    /// Samples delivered; a record that cannot be split into samples counts as one.
    pub delivered: u64,
    /// Samples kept.
    pub applied: u64,
    /// Samples with a device time that already has a kept sample.
    pub duplicates: u64,
    /// Duplicates that differ from the kept sample.
    pub conflicting: u64,
    /// Dropped samples by reason.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Dead letters by reason.
    pub dead_letters: BTreeMap<DeadReason, u64>,
    /// Applied samples by arrival kind; they add up to `applied`.
    pub arrivals: ArrivalCounts,
    /// Loaded rows that overlapped another trip and were resolved by the overlap rule.
    pub overlaps: u64,
    /// Loaded rows that were ignored: written by a partition that their device does not belong to.
    pub foreign_rows: u64,
    /// Dead letters whose device time would be valid if it were in seconds.
    pub looks_like_seconds: u64,
    /// Control records executed; they do not count as samples.
    pub controls: u64,
    /// Number of committed flushes.
    pub flushes: u64,
    /// Trip rows passed to the store.
    pub trips_written: u64,
}

impl SampleCounts {
    /// Adds the counters of another run.
    pub fn add(&mut self, other: &Self) {
        self.delivered += other.delivered;
        self.applied += other.applied;
        self.duplicates += other.duplicates;
        self.conflicting += other.conflicting;
        for (reason, count) in &other.dropped {
            *self.dropped.entry(*reason).or_default() += count;
        }
        for (reason, count) in &other.dead_letters {
            *self.dead_letters.entry(*reason).or_default() += count;
        }
        self.arrivals.new += other.arrivals.new;
        self.arrivals.end += other.arrivals.end;
        self.arrivals.inside += other.arrivals.inside;
        self.arrivals.beginning += other.arrivals.beginning;
        self.arrivals.merge += other.arrivals.merge;
        self.overlaps += other.overlaps;
        self.foreign_rows += other.foreign_rows;
        self.looks_like_seconds += other.looks_like_seconds;
        self.controls += other.controls;
        self.flushes += other.flushes;
        self.trips_written += other.trips_written;
    }

    /// Number of dead letters, all reasons together.
    #[must_use]
    pub fn dead(&self) -> u64 {
        self.dead_letters.values().sum()
    }
}

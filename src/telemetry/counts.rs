//! What became of every sample: nothing is dropped uncounted (I3).

use std::collections::BTreeMap;

use crate::model::reason::{DeadReason, DropReason};
use crate::timeline::Arrival;

/// Where in their trips the applied samples arrived.
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
    /// Counts one.
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

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.new + self.joined()
    }

    /// Those that met a trip that was there: the ones a key could change under.
    #[must_use]
    pub fn joined(&self) -> u64 {
        self.end + self.inside + self.beginning + self.merge
    }

    /// Under each way to key a trip, how many arrivals changed the key of a trip that had one.
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

/// How many arrivals changed a trip's key, by what the key is made of beside the device.
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

/// Counts of one run. `delivered` = `applied` + `duplicates` + dropped + dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleCounts {
    /// Samples delivered; a record that could not be read counts as one.
    pub delivered: u64,
    /// Samples kept.
    pub applied: u64,
    /// Samples of a device time that was kept already.
    pub duplicates: u64,
    /// Those among the duplicates that differ from the kept one.
    pub conflicting: u64,
    /// Samples left out on purpose.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Samples that could not be used.
    pub dead_letters: BTreeMap<DeadReason, u64>,
    /// Where the applied ones arrived; they add up to `applied`.
    pub arrivals: ArrivalCounts,
    /// Loaded rows that overlapped another trip; the overlap rule settled them.
    pub overlaps: u64,
    /// Loaded rows of a partition that their device does not belong to; they were passed over.
    pub foreign_rows: u64,
    /// Dead letters whose time would be a good one if it were read in seconds.
    pub looks_like_seconds: u64,
    /// Control records carried out; they are no samples.
    pub controls: u64,
    /// Flushes committed.
    pub flushes: u64,
    /// Trip rows handed to the store.
    pub trips_written: u64,
}

impl SampleCounts {
    /// Adds those of another run.
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

    /// Samples that could not be used, all reasons together.
    #[must_use]
    pub fn dead(&self) -> u64 {
        self.dead_letters.values().sum()
    }
}

//! What the records of an input are under some rules.

use std::collections::BTreeMap;

use serde::Serialize;

use super::MAX_RECORDS;
use crate::advice::SampleSet;
use crate::model::limits::{ClockGuard, FixFilter};
use crate::model::reading::READINGS;
use crate::model::reason::{DeadReason, DropReason};
use crate::model::rules::Rules;
use crate::model::stats::{SampleStats, SeenSamples};
use crate::source::{Batch, DecodedSample, Entry, NoSample};

/// The first sample that cannot be used for a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FirstDead {
    /// Path of the file, or `PARTITION@OFFSET` of a record of a topic.
    pub origin: String,
    /// Line of the file, from 1; of a topic, 0.
    pub line: u64,
    /// What failed, with the value.
    pub message: String,
}

/// Samples that cannot be used for a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadSamples {
    /// Their number.
    pub count: u64,
    /// The first of them.
    pub first: FirstDead,
}

/// What records are under some rules.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Number of records, and of samples in records that have several.
    pub delivered: u64,
    /// Number of those that are not samples by the field map.
    pub skipped: u64,
    /// Samples that are not to be used by the field map.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Samples that cannot be used.
    pub dead: BTreeMap<DeadReason, DeadSamples>,
    /// Statistics of the others.
    pub stats: SampleStats,
    /// Number of samples with each reading.
    pub readings: [u64; READINGS],
    /// Number of samples with a driver.
    pub drivers: u64,
    /// Number of samples with an ignition.
    pub ignitions: u64,
    /// Number of samples whose ignition is neither on nor off.
    pub lost_ignitions: u64,
    guard: ClockGuard,
    fixes: FixFilter,
    /// The samples with their devices: in arrival order, then sorted.
    seen: SeenSamples,
}

impl Tally {
    /// A tally of nothing.
    pub(crate) fn new(rules: &Rules) -> Self {
        Self {
            delivered: 0,
            skipped: 0,
            dropped: BTreeMap::new(),
            dead: BTreeMap::new(),
            stats: SampleStats::default(),
            readings: [0; READINGS],
            drivers: 0,
            ignitions: 0,
            lost_ignitions: 0,
            guard: rules.guard(),
            fixes: rules.fixes(),
            seen: SeenSamples::default(),
        }
    }

    /// Measures what lies between neighbours in device time, in whatever order they arrived. Only
    /// lateness depends on that. Called after the last batch.
    pub(crate) fn sort(&mut self) {
        let lateness = std::mem::take(&mut self.stats.lateness);
        self.stats = self.seen.stats();
        self.stats.lateness = lateness;
    }

    /// The samples that trips may contain.
    pub(crate) fn sample_set(&self) -> SampleSet {
        let seen = self.seen.iter().filter(|(_, sample)| self.fixes.judge(sample).is_ok());
        SampleSet::new(seen.map(|(device, sample)| (device, *sample)))
    }

    /// Whether enough was counted.
    pub(crate) fn is_full(&self) -> bool {
        self.delivered >= MAX_RECORDS
    }

    /// Counts a batch, until enough was counted. `origin` names where an entry is from.
    pub(crate) fn observe(&mut self, batch: &Batch, origin: impl Fn(&Entry) -> String) {
        for entry in &batch.entries {
            if self.is_full() {
                return;
            }
            match &entry.content {
                Ok(decoded) => self.observe_sample(batch, entry, decoded, &origin),
                Err(NoSample::Skipped(count)) => {
                    let count = self.within_limit(u64::from(*count));
                    self.delivered += count;
                    self.skipped += count;
                }
                Err(NoSample::Dropped(reason, count)) => {
                    let count = self.within_limit(u64::from(*count));
                    self.delivered += count;
                    *self.dropped.entry(*reason).or_default() += count;
                }
                Err(NoSample::Dead(error)) => {
                    self.bury(error.reason, || FirstDead {
                        origin: origin(entry),
                        line: entry.line,
                        message: error.message.clone(),
                    });
                }
            }
        }
        for (reason, count) in batch.arrays.values().flat_map(|array| &array.more) {
            let count = self.within_limit(*count);
            // One of the same reason has an entry.
            if let Some(dead) = self.dead.get_mut(reason) {
                dead.count += count;
                self.delivered += count;
            }
        }
    }

    /// The part of a count that is still looked at.
    fn within_limit(&self, count: u64) -> u64 {
        count.min(MAX_RECORDS.saturating_sub(self.delivered))
    }

    fn observe_sample(
        &mut self,
        batch: &Batch,
        entry: &Entry,
        decoded: &DecodedSample,
        origin: &impl Fn(&Entry) -> String,
    ) {
        let sample = &decoded.sample;
        if let Err(violation) = self.guard.judge(sample.time_ms, entry.log_time_ms) {
            let reason = DeadReason::from(violation);
            let time = crate::model::time::format_time(sample.time_ms.ms());
            let message = format!("time is read as {time}");
            let line = entry.line;
            return self.bury(reason, || FirstDead { origin: origin(entry), line, message });
        }
        self.delivered += 1;
        let device = batch.text(&decoded.device);
        self.stats.observe(device, sample);
        self.seen.push(device, *sample);
        for (count, reading) in self.readings.iter_mut().zip(sample.readings()) {
            *count += u64::from(reading.get().is_some());
        }
        self.drivers += u64::from(decoded.driver.is_some());
        self.ignitions += u64::from(sample.ignition.is_some());
        self.lost_ignitions += u64::from(decoded.unknown.has_ignition());
    }

    fn bury(&mut self, reason: DeadReason, first: impl FnOnce() -> FirstDead) {
        self.delivered += 1;
        let dead = self.dead.entry(reason);
        dead.or_insert_with(|| DeadSamples { count: 0, first: first() }).count += 1;
    }

    /// Number of samples that can be used.
    pub(crate) fn samples(&self) -> u64 {
        self.stats.samples
    }

    /// Number of samples that their device can hardly have sent: too far from the one before, or
    /// elsewhere at the same time.
    pub(crate) fn out_of_place(&self) -> u64 {
        self.stats.jumps + self.stats.conflicts.far
    }

    /// Number of samples that cannot be used for one of these reasons.
    pub(crate) fn dead_for(&self, reasons: &[DeadReason]) -> u64 {
        let dead = reasons.iter().filter_map(|reason| self.dead.get(reason));
        dead.map(|dead| dead.count).sum()
    }

    /// Number of samples that cannot be used.
    pub(crate) fn all_dead(&self) -> u64 {
        self.dead.values().map(|dead| dead.count).sum()
    }

    /// Whether these rules read more than others: more samples, else fewer dead letters, else more
    /// kinds of values.
    pub(crate) fn is_better_than(&self, other: &Self) -> bool {
        let rank = |it: &Self| {
            let kinds = it.readings.iter().chain([&it.drivers, &it.ignitions]);
            let kinds = kinds.filter(|count| **count > 0).count();
            (it.samples(), std::cmp::Reverse(it.all_dead()), kinds)
        };
        // A preset that skips all records reads nothing.
        self.samples() > 0 && rank(self) > rank(other)
    }
}

//! The trips that samples form under rules.

use std::collections::BTreeSet;

use super::{SampleSet, quantile};
use crate::model::limits::{LegFilter, SegmentRules};
use crate::model::sample::Sample;
use crate::model::scalar::{DeviceTime, Version};
use crate::model::time::day_of;
use crate::segment::{Kind, Timeline};
use crate::timeline::PathStats;

/// A shorter trip does not count, m: one noisy sample of a parked vehicle is one.
const MIN_TRIP_M: f64 = 100.0;

/// How many samples are absorbed between two flushes, which keep few changes waiting.
const FLUSH_EVERY: u64 = 64;

/// The trips that samples form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TripsFound {
    /// The trips: the number of the device, first and last sample.
    spans: BTreeSet<(usize, DeviceTime, DeviceTime)>,
    /// Their durations, ms, ascending.
    durations_ms: Vec<i64>,
    /// Number of trips of less than 100 m, which do not count.
    pub short: usize,
    /// Number of days of devices with a sample.
    pub device_days: usize,
}

impl TripsFound {
    /// The trips of samples under rules.
    #[must_use]
    pub fn new(samples: &SampleSet, rules: &SegmentRules) -> Self {
        let mut found = Self::default();
        for (samples, device) in samples.devices().zip(0..) {
            found.add(device, samples, rules);
        }
        found.durations_ms = found.spans.iter().map(|(_, first, last)| *last - *first).collect();
        found.durations_ms.sort_unstable();
        found
    }

    fn add(&mut self, device: usize, samples: &[Sample], rules: &SegmentRules) {
        let mut timeline = Timeline::in_memory();
        for (sample, nth) in samples.iter().zip(0..) {
            let sample = Sample { version: Version(2 * nth), ..*sample };
            // One that is too much for a trip is missing from it.
            let _outcome = timeline.absorb(rules, sample, None);
            if nth.cast_unsigned() % FLUSH_EVERY == 0 {
                drop(timeline.take_groups(true));
            }
        }
        let legs = LegFilter { stop_speed_cmps: rules.stop_speed_cmps, ..LegFilter::default() };
        for segment in timeline.segments().filter(|it| it.outline().kind == Kind::Trip) {
            let stats = PathStats::from_path(segment.path(), legs);
            if stats.distance_m < MIN_TRIP_M {
                self.short += 1;
            } else {
                self.spans.insert((device, segment.start_ms(), segment.end_ms()));
            }
        }
        let mut days: Vec<_> = samples.iter().map(|sample| day_of(sample.time_ms)).collect();
        days.dedup();
        self.device_days += days.len();
    }

    /// Number of trips.
    #[must_use]
    pub fn count(&self) -> usize {
        self.spans.len()
    }

    /// Trips a day of a device.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    pub fn per_device_day(&self) -> f64 {
        self.count() as f64 / self.device_days.max(1) as f64
    }

    /// Median of their durations, ms.
    #[must_use]
    pub fn median_ms(&self) -> Option<i64> {
        quantile(&self.durations_ms, 1, 2)
    }

    /// How many of them are among others, with the same ends.
    #[must_use]
    pub fn common(&self, others: &Self) -> usize {
        self.spans.intersection(&others.spans).count()
    }
}

//! Samples of one device and device time that differ, and why there may be many.

use crate::model::sample::Sample;

/// Share of samples from which on conflicts have a cause: 1 in this many.
const SHARE: u64 = 20;

/// A vehicle is hardly faster, m/s.
const MAX_MPS: f64 = 80.0;

/// Fixes of a standing vehicle scatter this far, m.
const SCATTER_M: f64 = 300.0;

/// Samples that differ from the kept sample of their device and device time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// Their number.
    pub count: u64,
    /// Those too far from the kept sample for one vehicle, even if its time was cut.
    pub far: u64,
}

impl Conflicts {
    /// Adds a sample.
    pub fn add(&mut self, kept: &Sample, other: &Sample) {
        self.count += 1;
        // The part of the time that may have been cut off, s.
        let cut_s = if kept.time_ms.ms() % 60_000 == 0 { 60.0 } else { 1.0 };
        self.far += u64::from(kept.flat_distance_m(other) > SCATTER_M + MAX_MPS * cut_s);
    }

    /// What is likely wrong with these samples, and what to do; `None` if they are few.
    #[must_use]
    pub fn warning(self, samples: u64) -> Option<String> {
        if self.count == 0 || self.count.saturating_mul(SHARE) < samples {
            return None;
        }
        let Self { count, far } = self;
        let cause = if far * 2 > count {
            "Most are too far apart for one vehicle: two vehicles share an id, so map a device_id \
             that distinguishes them"
        } else {
            "Most are close to it: the times have lost their seconds or fractions, so keep them in \
             the export, and in --time-format"
        };
        Some(format!(
            "{count} of {samples} samples have the device and time of another sample and differ \
             from it; only the first of each time counts. {cause}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::at;
    use super::*;

    /// The conflicts of a second sample so far away at a time.
    fn pair(second: i64, north_m: f64) -> Conflicts {
        let mut conflicts = Conflicts::default();
        conflicts.add(&at(second, 0.0, None), &at(second, north_m, None));
        conflicts
    }

    #[test]
    fn a_cut_time_and_a_shared_id_are_distinguished_by_distance() {
        for (second, north_m, far) in
            [(60, 4000.0, 0), (60, 6000.0, 1), (61, 300.0, 0), (61, 500.0, 1)]
        {
            assert_eq!(pair(second, north_m), Conflicts { count: 1, far }, "{second} {north_m}");
        }
        for (far, cause) in [(50, "lost their seconds"), (51, "two vehicles share an id")] {
            let warning = Conflicts { count: 100, far }.warning(2000).unwrap();
            assert!(warning.starts_with("100 of 2000") && warning.contains(cause), "{warning}");
        }
        for (count, samples) in [(0, 0), (99, 2000)] {
            assert_eq!(Conflicts { count, far: 0 }.warning(samples), None);
        }
    }
}

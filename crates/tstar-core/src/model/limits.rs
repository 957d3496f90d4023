//! The rules that part samples into trips and stops, and the checks of a single sample.

use super::sample::Sample;
use crate::model::scalar::{DeviceTime, LogTime};

/// The rules that part samples into trips and stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRules {
    /// Samples at most this far apart in device time are linked, ms.
    pub max_gap_ms: i64,
    /// A vehicle that is slow for this long stands, ms. `None`: standing alone ends no trip.
    pub min_stop_ms: Option<i64>,
    /// No segment keeps more samples than this.
    pub max_samples: usize,
}

impl Default for SegmentRules {
    /// 5 minutes, standing ends no trip, 100,000 samples.
    fn default() -> Self {
        Self { max_gap_ms: 300_000, min_stop_ms: None, max_samples: 100_000 }
    }
}

/// The range of plausible device times, relative to the log timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockGuard {
    /// Earliest device time accepted, ms since 1970.
    pub min_time_ms: DeviceTime,
    /// How far a device time may lie past the log timestamp, ms.
    pub max_future_ms: i64,
}

/// 2000-01-01T00:00:00Z.
pub const YEAR_2000_MS: DeviceTime = DeviceTime(946_684_800_000);

impl Default for ClockGuard {
    /// From the year 2000 to 24 hours past the log timestamp.
    fn default() -> Self {
        Self { min_time_ms: YEAR_2000_MS, max_future_ms: 86_400_000 }
    }
}

/// Why a device time is implausible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockViolation {
    /// Before `min_time`.
    BeforeMin,
    /// More than `max_future` past the log timestamp.
    InFuture,
}

impl ClockGuard {
    /// Checks a device time against the log timestamp of its record.
    ///
    /// # Errors
    /// The bound that the time violates.
    pub fn judge(&self, time_ms: DeviceTime, log_time_ms: LogTime) -> Result<(), ClockViolation> {
        if time_ms < self.min_time_ms {
            return Err(ClockViolation::BeforeMin);
        }
        if time_ms.ms() > log_time_ms.saturating_add(self.max_future_ms).ms() {
            return Err(ClockViolation::InFuture);
        }
        Ok(())
    }
}

/// Which samples count as movement; the others are counted and dropped. Each check looks at one
/// sample only, so that the result does not depend on the arrival order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovementFilter {
    /// Drop samples that report the ignition as off.
    pub needs_ignition: bool,
    /// Drop samples that report a lower speed; in 0.01 m/s.
    pub min_speed_cmps: Option<i32>,
    /// Drop samples that report a less accurate fix; in 0.1 m.
    pub max_accuracy_dm: Option<i32>,
    /// Drop samples whose latitude and longitude are both 0, which receivers without a fix report.
    pub drop_zero_position: bool,
}

/// Why a sample does not count as movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterReason {
    /// Its ignition is off.
    IgnitionOff,
    /// It is slower than `min_speed`.
    TooSlow,
    /// Its fix is less accurate than `max_accuracy`.
    BadFix,
    /// Its latitude and longitude are both 0.
    ZeroPosition,
}

impl MovementFilter {
    /// Checks a sample. A sample without a measurement passes the check that needs it.
    ///
    /// # Errors
    /// Why the sample does not count as movement. If several reasons apply, the first one of
    /// [`FilterReason`].
    pub fn judge(&self, sample: &Sample) -> Result<(), FilterReason> {
        if self.needs_ignition && sample.ignition == Some(false) {
            return Err(FilterReason::IgnitionOff);
        }
        if let (Some(min), Some(speed)) = (self.min_speed_cmps, sample.speed_cmps.get())
            && speed < min
        {
            return Err(FilterReason::TooSlow);
        }
        if let (Some(max), Some(accuracy)) = (self.max_accuracy_dm, sample.accuracy_dm.get())
            && accuracy > max
        {
            return Err(FilterReason::BadFix);
        }
        if self.drop_zero_position && (sample.lat_e7, sample.lon_e7) == (0, 0) {
            return Err(FilterReason::ZeroPosition);
        }
        Ok(())
    }
}

/// Which legs of a path count for its length. A leg joins two samples that are neighbours in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LegFilter {
    /// A faster leg is a jump, which does not count; in 0.01 m/s. `None`: every leg counts.
    pub max_speed_cmps: Option<i32>,
}

impl LegFilter {
    /// Whether a leg of a length, m, and a duration, ms, is a jump.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a leg stays far below 2^53 ms")]
    pub fn is_jump(&self, distance_m: f64, duration_ms: i64) -> bool {
        // Both sides in 0.01 mm, without a division.
        let limit = |cmps| f64::from(cmps) * duration_ms as f64;
        self.max_speed_cmps.is_some_and(|cmps| distance_m * 1e5 > limit(cmps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::reading::{READINGS, Reading};

    fn sample(position: (i32, i32)) -> Sample {
        Sample::new(DeviceTime(0), position, [Reading::ABSENT; READINGS])
    }

    #[test]
    fn only_both_coordinates_at_0_are_a_zero_position() {
        let filter = MovementFilter { drop_zero_position: true, ..MovementFilter::default() };
        assert_eq!(filter.judge(&sample((0, 0))), Err(FilterReason::ZeroPosition));
        for near in [(1, 0), (0, -1), (0, 1_800_000_000)] {
            assert_eq!(filter.judge(&sample(near)), Ok(()), "{near:?}");
        }
        assert_eq!(MovementFilter::default().judge(&sample((0, 0))), Ok(()));
    }

    #[test]
    fn of_several_reasons_the_first_one_counts() {
        let quanta = |value| Reading::new(Some(value));
        let sample = Sample {
            speed_cmps: quanta(1),
            accuracy_dm: quanta(900),
            ignition: Some(false),
            ..sample((0, 0))
        };
        let mut filter = MovementFilter {
            needs_ignition: true,
            min_speed_cmps: Some(2),
            max_accuracy_dm: Some(800),
            drop_zero_position: true,
        };
        assert_eq!(filter.judge(&sample), Err(FilterReason::IgnitionOff));
        filter.needs_ignition = false;
        assert_eq!(filter.judge(&sample), Err(FilterReason::TooSlow));
        filter.min_speed_cmps = None;
        assert_eq!(filter.judge(&sample), Err(FilterReason::BadFix));
        filter.max_accuracy_dm = None;
        assert_eq!(filter.judge(&sample), Err(FilterReason::ZeroPosition));
    }
}

//! The rules that part samples into trips and stops, and the checks of a single sample.

use super::class::Class;
use super::reading::ReadingKind;
use super::sample::Sample;
use crate::identity::TEXT_TIMES_MS;
use crate::model::scalar::{DAY_MS, DeviceTime, LogTime};

/// Maximum of rule `max_samples`, the weight of a path: so the message of every path is within
/// [`MAX_MESSAGE_BYTES`](crate::codec::MAX_MESSAGE_BYTES).
pub const MAX_SAMPLES: usize = 2_000_000;

/// Maximum of rule `max_gap`, ms: 6 h. A trip that fills its day is cut at both midnights, and no
/// shorter one may be.
pub const MAX_GAP_MS: i64 = DAY_MS / 4;

/// Maximum of rule `min_stop`, ms: 12 h.
pub const MAX_MIN_STOP_MS: i64 = DAY_MS / 2;

/// Range of rule `max_gap_ms`. Both ends are inclusive, as those of the other rules.
pub const MAX_GAP_RANGE: (i64, i64) = (1, MAX_GAP_MS);

/// Range of rule `min_stop_ms`.
pub const MIN_STOP_RANGE: (i64, i64) = (1, MAX_MIN_STOP_MS);

/// Range of rule `max_samples`.
pub const MAX_SAMPLES_RANGE: (i64, i64) = (1, MAX_SAMPLES as i64);

/// Range of rule `stop_speed_cmps`, and in settings of `max_leg_speed_cmps`: a sample has no
/// greater speed.
pub const STOP_SPEED_RANGE: (i64, i64) = (0, ReadingKind::Speed.quanta_range().1 as i64);

/// Range of rule `max_accuracy_dm` in settings: a sample has no greater accuracy.
pub const MAX_ACCURACY_RANGE: (i64, i64) = (0, ReadingKind::Accuracy.quanta_range().1 as i64);

/// Range of rule `min_time_ms` in settings: from 1970 on, to the last time that text ids have.
pub const MIN_TIME_RANGE: (i64, i64) = (0, TEXT_TIMES_MS.end().ms());

/// Range of rule `max_future_ms` in settings: at most 36,600 days. A later time could not be
/// written in the text form of an id.
pub const MAX_FUTURE_RANGE: (i64, i64) = (0, 36_600 * DAY_MS);

/// The rules that part samples into trips and stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRules {
    /// Samples at most this far apart in device time are linked, ms.
    pub max_gap_ms: i64,
    /// A vehicle that is slow for this long stands, ms. `None`: standing alone ends no trip.
    pub min_stop_ms: Option<i64>,
    /// A sample that reports a lower speed is slow; in 0.01 m/s.
    pub stop_speed_cmps: i32,
    /// No segment keeps more samples than this.
    pub max_samples: usize,
}

impl Default for SegmentRules {
    /// 5 minutes of silence or below 0.5 m/s, 100,000 samples.
    fn default() -> Self {
        let (max_gap_ms, min_stop_ms) = (300_000, Some(300_000));
        Self { max_gap_ms, min_stop_ms, stop_speed_cmps: 50, max_samples: 100_000 }
    }
}

impl SegmentRules {
    /// What a sample says about movement, whatever its neighbours.
    #[must_use]
    pub fn class_of(&self, sample: &Sample) -> Class {
        if sample.ignition == Some(false) {
            Class::Separator
        } else if sample.speed_cmps.get().is_some_and(|speed| speed < self.stop_speed_cmps) {
            Class::Slow
        } else {
            Class::Moving
        }
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

/// Which fixes are bad: they are counted and dropped. Each check looks at one sample only, so that
/// the result does not depend on the arrival order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixFilter {
    /// Drop samples that report a less accurate fix; in 0.1 m.
    pub max_accuracy_dm: Option<i32>,
    /// Drop samples whose latitude and longitude are both 0, which receivers without a fix report.
    pub drop_zero_position: bool,
}

/// What is bad about a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterReason {
    /// Its fix is less accurate than `max_accuracy`.
    BadFix,
    /// Its latitude and longitude are both 0.
    ZeroPosition,
}

impl FixFilter {
    /// Checks a sample. A sample without a measurement passes the check that needs it.
    ///
    /// # Errors
    /// What is bad. If both reasons apply, the first one of [`FilterReason`].
    pub fn judge(&self, sample: &Sample) -> Result<(), FilterReason> {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegFilter {
    /// A faster leg is a jump; in 0.01 m/s. `None`: there are no jumps.
    pub max_speed_cmps: Option<i32>,
    /// A slower and short leg between two samples that stand is drift; in 0.01 m/s.
    pub stop_speed_cmps: i32,
}

impl Default for LegFilter {
    /// No jumps, and the stop speed of the default rules.
    fn default() -> Self {
        let stop_speed_cmps = SegmentRules::default().stop_speed_cmps;
        Self { max_speed_cmps: None, stop_speed_cmps }
    }
}

/// What a leg is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// It counts.
    Way,
    /// It is too fast to be true.
    Jump,
    /// The vehicle stands, and its receiver reports places around it, at most 25 m apart.
    Drift,
}

impl LegFilter {
    /// A longer leg counts, m: receivers rarely drift further between two samples, and in a jam,
    /// with a sample a minute, a vehicle goes further even if each of them reports no speed.
    const MAX_DRIFT_M: f64 = 25.0;

    /// What a leg is whose ends have these classes, by its length, m, and its duration, ms.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a leg stays far below 2^53 ms")]
    pub fn judge(&self, ends: [Class; 2], distance_m: f64, duration_ms: i64) -> Leg {
        // Both sides in 0.01 mm, without a division.
        let (length, at) = (distance_m * 1e5, |cmps| f64::from(cmps) * duration_ms as f64);
        if self.max_speed_cmps.is_some_and(|cmps| length > at(cmps)) {
            Leg::Jump
        } else if !ends.contains(&Class::Moving)
            && distance_m <= Self::MAX_DRIFT_M
            && length < at(self.stop_speed_cmps)
        {
            Leg::Drift
        } else {
            Leg::Way
        }
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
    fn the_ignition_counts_before_the_speed() {
        let rules = SegmentRules { stop_speed_cmps: 50, ..SegmentRules::default() };
        let class = |ignition, speed| {
            let speed_cmps = Reading::new(speed);
            rules.class_of(&Sample { speed_cmps, ignition, ..sample((0, 0)) })
        };
        assert_eq!(class(None, None), Class::Moving);
        assert_eq!([49, 50].map(|speed| class(None, Some(speed))), [Class::Slow, Class::Moving]);
        assert_eq!(class(Some(true), Some(49)), Class::Slow);
        for speed in [None, Some(0), Some(2000)] {
            assert_eq!(class(Some(false), speed), Class::Separator);
        }
    }

    #[test]
    fn only_a_slow_leg_between_samples_that_stand_is_drift() {
        use Class::{Moving, Separator, Slow};
        let legs = LegFilter { max_speed_cmps: Some(3000), stop_speed_cmps: 50 };
        let judge = |ends, distance_m| legs.judge(ends, distance_m, 10_000);
        for ends in [[Slow, Slow], [Slow, Separator], [Separator, Slow], [Separator, Separator]] {
            assert_eq!(
                [0.1, 4.999, 5.0, 300.0].map(|m| judge(ends, m)),
                [Leg::Drift, Leg::Drift, Leg::Way, Leg::Way],
                "{ends:?}"
            );
            assert_eq!(judge(ends, 300.1), Leg::Jump);
            // In a jam, with a sample a minute.
            let far = [25.0, 25.1].map(|m| legs.judge(ends, m, 60_000));
            assert_eq!(far, [Leg::Drift, Leg::Way], "{ends:?}");
        }
        for ends in [[Moving, Slow], [Separator, Moving], [Moving, Moving]] {
            assert_eq!(
                [0.0, 0.1, 300.1].map(|m| judge(ends, m)),
                [Leg::Way, Leg::Way, Leg::Jump],
                "{ends:?}"
            );
        }
    }

    #[test]
    fn only_both_coordinates_at_0_are_a_zero_position() {
        let filter = FixFilter { drop_zero_position: true, ..FixFilter::default() };
        assert_eq!(filter.judge(&sample((0, 0))), Err(FilterReason::ZeroPosition));
        for near in [(1, 0), (0, -1), (0, 1_800_000_000)] {
            assert_eq!(filter.judge(&sample(near)), Ok(()), "{near:?}");
        }
        assert_eq!(FixFilter::default().judge(&sample((0, 0))), Ok(()));
    }

    #[test]
    fn of_several_reasons_the_first_one_counts() {
        let quanta = |value| Reading::new(Some(value));
        let sample = Sample { accuracy_dm: quanta(900), ..sample((0, 0)) };
        let mut filter = FixFilter { max_accuracy_dm: Some(800), drop_zero_position: true };
        assert_eq!(filter.judge(&sample), Err(FilterReason::BadFix));
        filter.max_accuracy_dm = None;
        assert_eq!(filter.judge(&sample), Err(FilterReason::ZeroPosition));
    }
}

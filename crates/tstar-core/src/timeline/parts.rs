//! The parts of a path between given times, such as the midnights that it crosses.

use super::{Leg, LegFilter, Path, great_circle_m};
use crate::model::class::Class;
use crate::model::scalar::DeviceTime;

/// What a part of a path adds to sums. Those of all parts add up to those of the path: in whole
/// numbers, so that nothing depends on the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Length without jumps and drift, tenths of a metre.
    pub distance_dm: i64,
    /// How long it is in each class, ms, in the order of [`Class::ALL`].
    class_ms: [i64; Class::ALL.len()],
}

impl Part {
    /// How long it is, ms.
    #[must_use]
    pub fn duration_ms(&self) -> i64 {
        self.class_ms.iter().sum()
    }

    /// How long the device moves, ms.
    #[must_use]
    pub fn moving_ms(&self) -> i64 {
        self.class_ms[Class::Moving as usize]
    }

    /// How long it stands and the ignition is not off, ms.
    #[must_use]
    pub fn idle_ms(&self) -> i64 {
        self.class_ms[Class::Slow as usize]
    }

    /// How long the ignition is off, ms.
    #[must_use]
    pub fn parked_ms(&self) -> i64 {
        self.class_ms[Class::Separator as usize]
    }

    /// What it has and an earlier state of the same sums has not.
    fn since(&self, earlier: &Self) -> Self {
        let mut class_ms = self.class_ms;
        class_ms.iter_mut().zip(earlier.class_ms).for_each(|(ms, earlier)| *ms -= earlier);
        Self { distance_dm: self.distance_dm - earlier.distance_dm, class_ms }
    }
}

/// A length as rows of trips show it.
#[must_use]
pub fn distance_dm(distance_m: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "far below 2^63")]
    let distance_dm = (distance_m * 10.0).round() as i64;
    distance_dm
}

/// The parts of a path before the first of some rising times, between each two, and from the last
/// one on. A leg that crosses one is divided by time, its length in proportion; of two equal times,
/// the part between them is empty.
///
/// What is lost by rounding is in the last part: each is what the length has grown by, in tenths of
/// a metre.
#[must_use]
pub fn parts(path: &Path, cuts: &[DeviceTime], legs: LegFilter) -> Vec<Part> {
    let (mut parts, mut done) = (Vec::with_capacity(cuts.len() + 1), Part::default());
    let (mut distance_m, mut class_ms) = (0.0, [0; Class::ALL.len()]);
    let mut cuts = cuts.iter().copied().peekable();
    let mut before = *path.first();
    for sample in path.iter() {
        let (mut leg_m, leg_ms) =
            (great_circle_m(&before, &sample), sample.time_ms - before.time_ms);
        if legs.judge([before.class, sample.class], leg_m, leg_ms) != Leg::Way {
            leg_m = 0.0;
        }
        while let Some(cut_ms) = cuts.next_if(|cut_ms| *cut_ms <= sample.time_ms) {
            let part_ms = (cut_ms - before.time_ms).clamp(0, leg_ms);
            let mut upto = Part { distance_dm: distance_dm(distance_m), class_ms };
            upto.class_ms[before.class as usize] += part_ms;
            if leg_ms > 0 {
                #[expect(clippy::cast_precision_loss, reason = "far below 2^53 ms")]
                let share = part_ms as f64 / leg_ms as f64;
                upto.distance_dm = distance_dm(distance_m + leg_m * share);
            }
            parts.push(upto.since(&done));
            done = upto;
        }
        class_ms[before.class as usize] += leg_ms;
        distance_m += leg_m;
        before = sample;
    }
    let whole = Part { distance_dm: distance_dm(distance_m), class_ms };
    for _ in cuts {
        parts.push(whole.since(&done));
        done = whole;
    }
    parts.push(whole.since(&done));
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::timeline::{PathStats, READINGS, Reading, Sample};

    /// A sample at a second, and metres to the north.
    fn sample(second: i64, metres: i32, class: Class) -> Sample {
        // A metre is about 90 quanta of latitude.
        let place = (metres * 90, 0);
        Sample {
            class,
            ..Sample::new(DeviceTime(second * 1000), place, [Reading::ABSENT; READINGS])
        }
    }

    fn seconds(parts: &[Part]) -> Vec<[i64; 3]> {
        parts.iter().map(|it| it.class_ms.map(|ms| ms / 1000)).collect()
    }

    #[test]
    fn a_leg_is_divided_by_time() {
        use Class::{Moving, Separator, Slow};
        let path = [
            sample(0, 0, Moving),
            sample(100, 1000, Slow),
            sample(140, 1000, Moving),
            sample(200, 1600, Separator),
            sample(300, 1600, Moving),
        ];
        let path = Path::from_sorted(path).unwrap();
        let found = |cuts: &[i64]| {
            let cuts: Vec<_> = cuts.iter().map(|second| DeviceTime(second * 1000)).collect();
            parts(&path, &cuts, LegFilter::default())
        };
        assert_eq!(seconds(&found(&[])), [[160, 40, 100]]);
        assert_eq!(seconds(&found(&[25])), [[25, 0, 0], [135, 40, 100]]);
        assert_eq!(seconds(&found(&[130, 210])), [[100, 30, 0], [60, 10, 10], [0, 0, 90]]);
        assert_eq!(seconds(&found(&[0, 140])), [[0, 0, 0], [100, 40, 0], [60, 0, 100]]);
        assert_eq!(seconds(&found(&[50, 50])), [[50, 0, 0], [0, 0, 0], [110, 40, 100]]);
        assert_eq!(seconds(&found(&[-9, 300, 301])), [[0; 3], [160, 40, 100], [0; 3], [0; 3]]);
        // A metre of this place is 1.0008 m on the sphere.
        let dm: Vec<_> = found(&[25, 170]).iter().map(|part| part.distance_dm).collect();
        assert_eq!(dm, [2502, 10508, 3002]);
    }

    #[test]
    fn a_jump_has_no_length() {
        let path = [sample(0, 0, Class::Moving), sample(10, 9000, Class::Moving)];
        let path = Path::from_sorted(path).unwrap();
        let legs = LegFilter { max_speed_cmps: Some(5000), ..LegFilter::default() };
        let found = parts(&path, &[DeviceTime(4000)], legs);
        assert_eq!(seconds(&found), [[4, 0, 0], [6, 0, 0]]);
        assert!(found.iter().all(|part| part.distance_dm == 0));
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_path(
            steps in prop::collection::vec(
                (1_i64..9_000_000, -50_000_i32..50_000, 0..3_usize),
                1..90,
            ),
            mut cuts in prop::collection::vec(0_i64..200_000_000, 0..6),
            limit in prop::option::of(0_i32..10_000),
        ) {
            cuts.sort_unstable();
            let mut time_ms = 0;
            let path = steps.iter().map(|&(step, metres, class)| {
                time_ms += step;
                Sample { time_ms: DeviceTime(time_ms), ..sample(0, metres, Class::ALL[class]) }
            });
            let path = Path::from_sorted(path).unwrap();
            let cuts: Vec<_> = cuts.into_iter().map(DeviceTime).collect();
            let legs = LegFilter { max_speed_cmps: limit, ..LegFilter::default() };
            let found = parts(&path, &cuts, legs);
            prop_assert_eq!(found.len(), cuts.len() + 1);
            let stats = PathStats::from_path(&path, legs);
            let dm: i64 = found.iter().map(|part| part.distance_dm).sum();
            prop_assert_eq!(dm, distance_dm(stats.distance_m));
            for part in &found {
                prop_assert!(part.distance_dm >= 0 && part.class_ms.iter().all(|ms| *ms >= 0));
            }
            // Each part lasts from one cut to the next, as far as the path does.
            let (start_ms, end_ms) = (path.first().time_ms, path.last().time_ms);
            let mut ends = cuts.clone();
            ends.push(end_ms);
            let mut from_ms = start_ms;
            for (part, upto_ms) in found.iter().zip(ends) {
                let upto_ms = upto_ms.clamp(start_ms, end_ms);
                prop_assert_eq!(part.duration_ms(), upto_ms - from_ms);
                from_ms = upto_ms;
            }
            let parked_ms: i64 = found.iter().map(Part::parked_ms).sum();
            prop_assert_eq!(parked_ms, stats.parked_ms());
        }
    }
}

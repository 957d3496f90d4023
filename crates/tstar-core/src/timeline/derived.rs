//! Statistics of a path: distance, durations by class, maximum of each reading, bbox.
//!
//! Computed from the quantised samples in time order, never summed up in arrival order. The
//! mathematics library gives the same bits on every host, so the same path always gives the same
//! row.

use super::{Leg, LegFilter, Path, READINGS, Reading, ReadingKind, Sample};
use crate::model::class::Class;

/// Mean radius of the earth (IUGG), m.
const EARTH_RADIUS_M: f64 = 6_371_008.8;

/// The columns of a row that are derived from its path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathStats {
    /// Great-circle length along the path on a sphere of radius 6,371,008.8 m, without jumps and
    /// drift.
    pub distance_m: f64,
    /// Its jumps; `None` if the rules know none.
    pub jumps: Option<Jumps>,
    /// How long it is in each class, ms, in the order of [`Class::ALL`]: a sample has its class
    /// until the next one.
    class_ms: [i64; Class::ALL.len()],
    /// Largest value of each reading, in the order of [`ReadingKind::ALL`].
    pub max: [Reading; READINGS],
    /// Southernmost latitude, degrees.
    pub min_lat: f64,
    /// Westernmost longitude, degrees. A path across the antimeridian is not unwrapped.
    pub min_lon: f64,
    /// Northernmost latitude, degrees.
    pub max_lat: f64,
    /// Easternmost longitude, degrees.
    pub max_lon: f64,
}

/// The legs of a path that are faster than the limit of a [`LegFilter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jumps {
    /// Number of legs.
    pub count: usize,
    /// Their durations together, ms.
    pub duration_ms: i64,
}

impl PathStats {
    /// Computes the statistics in one pass over the path.
    #[must_use]
    pub fn from_path(path: &Path, legs: LegFilter) -> Self {
        let first = path.first();
        let (mut south, mut north) = (first.lat_e7, first.lat_e7);
        let (mut west, mut east) = (first.lon_e7, first.lon_e7);
        let mut max = [Reading::ABSENT; READINGS];
        let (mut distance_m, mut jumps) = (0.0, Jumps::default());
        let mut class_ms = [0; Class::ALL.len()];
        let (mut previous, mut before) = (TrigPoint::from_sample(first), *first);
        for sample in path.iter() {
            (south, north) = (south.min(sample.lat_e7), north.max(sample.lat_e7));
            (west, east) = (west.min(sample.lon_e7), east.max(sample.lon_e7));
            for (max, reading) in max.iter_mut().zip(sample.readings()) {
                *max = (*max).max(reading);
            }
            let point = TrigPoint::from_sample(&sample);
            let (leg_m, leg_ms) = (previous.distance_m(&point), sample.time_ms - before.time_ms);
            class_ms[before.class as usize] += leg_ms;
            match legs.judge([before.class, sample.class], leg_m, leg_ms) {
                Leg::Way => distance_m += leg_m,
                Leg::Drift => {}
                Leg::Jump => {
                    jumps.count += 1;
                    jumps.duration_ms += leg_ms;
                }
            }
            (previous, before) = (point, sample);
        }
        let degrees = |e7: i32| f64::from(e7) / 1e7;
        Self {
            distance_m,
            jumps: legs.max_speed_cmps.map(|_| jumps),
            class_ms,
            max,
            min_lat: degrees(south),
            min_lon: degrees(west),
            max_lat: degrees(north),
            max_lon: degrees(east),
        }
    }

    /// How long the device moves, ms; `None` if no sample has a speed, as nothing is slow then.
    #[must_use]
    pub fn moving_ms(&self) -> Option<i64> {
        self.by_speed(Class::Moving)
    }

    /// How long it stands and the ignition is not off, ms; `None` if no sample has a speed.
    #[must_use]
    pub fn idle_ms(&self) -> Option<i64> {
        self.by_speed(Class::Slow)
    }

    /// How long the ignition is off, ms.
    #[must_use]
    pub fn parked_ms(&self) -> i64 {
        self.class_ms[Class::Separator as usize]
    }

    /// How long it is in a class that speeds decide, ms.
    fn by_speed(&self, class: Class) -> Option<i64> {
        let has_speed = self.max[ReadingKind::Speed as usize].get().is_some();
        has_speed.then(|| self.class_ms[class as usize])
    }

    /// Largest value of a reading, in its unit; `None` if no sample has one.
    #[must_use]
    pub fn max(&self, kind: ReadingKind) -> Option<f64> {
        self.max[kind as usize].get().map(|quanta| kind.in_units(quanta))
    }
}

/// Great-circle distance of two samples, as [`PathStats::distance_m`] measures a leg, m.
#[must_use]
pub fn great_circle_m(from: &Sample, to: &Sample) -> f64 {
    TrigPoint::from_sample(from).distance_m(&TrigPoint::from_sample(to))
}

/// A position and the cosine of its latitude, computed once for its two legs.
struct TrigPoint {
    lat_e7: i32,
    lon_e7: i32,
    cos_lat: f64,
}

impl TrigPoint {
    fn from_sample(sample: &Sample) -> Self {
        let cos_lat = libm::cos(sample.lat().to_radians());
        Self { lat_e7: sample.lat_e7, lon_e7: sample.lon_e7, cos_lat }
    }

    /// Haversine distance. Differences are computed in integer quanta, so that points that are
    /// centimetres apart lose no precision.
    fn distance_m(&self, to: &Self) -> f64 {
        if (self.lat_e7, self.lon_e7) == (to.lat_e7, to.lon_e7) {
            return 0.0;
        }
        let half_sin = |from: i32, to: i32| {
            let e7 = i64::from(to) - i64::from(from);
            #[expect(clippy::cast_precision_loss, reason = "at most 3.6e9")]
            let half = (e7 as f64 / 1e7).to_radians() / 2.0;
            libm::sin(half)
        };
        let (lat, lon) = (half_sin(self.lat_e7, to.lat_e7), half_sin(self.lon_e7, to.lon_e7));
        let chord = lat * lat + self.cos_lat * to.cos_lat * lon * lon;
        2.0 * EARTH_RADIUS_M * libm::asin(libm::sqrt(chord.min(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::scalar::DeviceTime;
    use crate::timeline::{READINGS, RawSample, Reading};

    fn path(points: &[(f64, f64, Option<f64>)]) -> Path {
        let samples = points.iter().zip(0..).map(|(&(lat, lon, speed_mps), time_ms)| {
            let time_ms = DeviceTime(time_ms);
            Sample::quantised(&RawSample { time_ms, lat, lon, speed_mps, ..RawSample::default() })
                .unwrap()
        });
        Path::from_sorted(samples).unwrap()
    }

    fn all_legs(path: &Path) -> PathStats {
        PathStats::from_path(path, LegFilter::default())
    }

    /// Vincenty's formula for a sphere: an independent formula for the same distance.
    fn vincenty_m(a: (f64, f64), b: (f64, f64)) -> f64 {
        let (lat_a, lat_b) = (a.0.to_radians(), b.0.to_radians());
        let lon = (b.1 - a.1).to_radians();
        let x = lat_b.cos() * lon.sin();
        let y = lat_a.cos() * lat_b.sin() - lat_a.sin() * lat_b.cos() * lon.cos();
        let z = lat_a.sin() * lat_b.sin() + lat_a.cos() * lat_b.cos() * lon.cos();
        6_371_008.8 * x.hypot(y).atan2(z)
    }

    #[test]
    fn distance_agrees_with_another_formula() {
        for (a, b) in [
            ((52.52, 13.405), (48.8566, 2.3522)),
            ((-25.451_837, -49.234_46), (-25.451_838, -49.234_461)),
            ((0.0, 0.0), (0.0, 180.0)),
            ((89.9, 10.0), (89.9, -170.0)),
            ((0.0, 179.9), (0.0, -179.9)),
        ] {
            let found = all_legs(&path(&[(a.0, a.1, None), (b.0, b.1, None)])).distance_m;
            let expected = vincenty_m(a, b);
            assert!((found - expected).abs() <= 1e-8 * expected + 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn computes_bbox_and_maximum_speed() {
        let derived =
            all_legs(&path(&[(1.0, 7.0, Some(3.0)), (2.0, 5.0, Some(12.34)), (-1.5, 6.0, None)]));
        assert_eq!(derived.max(ReadingKind::Speed), Some(12.34));
        let bbox = (derived.min_lat, derived.min_lon, derived.max_lat, derived.max_lon);
        assert_eq!(bbox, (-1.5, 5.0, 2.0, 7.0));
        let stationary = all_legs(&path(&[(1.0, 7.0, None), (1.0, 7.0, None)]));
        assert_eq!(stationary.distance_m, 0.0);
        for kind in ReadingKind::ALL {
            assert_eq!(stationary.max(kind), None, "{kind:?}");
        }
    }

    #[test]
    fn a_leg_at_the_limit_counts_and_a_faster_one_is_a_jump() {
        // 1e-5 degrees of latitude are 1.1119510 m, so a leg of 1 ms has 1111.9510 m/s.
        let time_ms = |e7| DeviceTime(i64::from(e7) / 100);
        let north = |e7| Sample::new(time_ms(e7), (e7, 0), [Reading::ABSENT; READINGS]);
        let path = Path::from_sorted([0, 100, 200].map(north)).unwrap();
        let limit = |cmps| LegFilter { max_speed_cmps: Some(cmps), ..LegFilter::default() };
        let stats = |cmps| PathStats::from_path(&path, limit(cmps));
        let all = all_legs(&path);
        assert_eq!(all.jumps, None);
        let slow = PathStats { jumps: Some(Jumps::default()), ..all };
        assert_eq!(stats(111_196), slow);
        let jumps = Some(Jumps { count: 2, duration_ms: 2 });
        assert_eq!(stats(111_195), PathStats { jumps, distance_m: 0.0, ..all });
        // The first sample is also its own neighbour, at no distance and in no time.
        let standing =
            Path::from_sorted([0, 1].map(|ms| Sample { time_ms: DeviceTime(ms), ..north(0) }));
        let standing = PathStats::from_path(&standing.unwrap(), limit(0));
        assert_eq!(standing.jumps, Some(Jumps::default()));
    }

    #[test]
    fn drift_has_no_length_and_ends_where_the_vehicle_leaves() {
        use Class::{Moving, Separator, Slow};
        // A metre is about 90 quanta of latitude.
        let sample = |(second, metres, class): (i64, i32, Class)| Sample {
            class,
            ..Sample::new(DeviceTime(second * 1000), (metres * 90, 0), [Reading::ABSENT; READINGS])
        };
        let drive = [
            (0, 0, Moving),
            (10, 100, Slow),
            (20, 103, Slow),
            (30, 99, Separator),
            (40, 102, Separator),
            // A ferry, or both times a red light.
            (140, 1102, Slow),
            (150, 1202, Moving),
        ];
        let path = Path::from_sorted(drive.map(sample)).unwrap();
        let stats = |from: usize, to: usize| {
            let ends = [drive[from], drive[to]].map(sample);
            all_legs(&Path::from_sorted(ends).unwrap()).distance_m
        };
        let expected = stats(0, 1) + stats(4, 5) + stats(5, 6);
        assert!((all_legs(&path).distance_m - expected).abs() < 1e-9);
        assert!(expected > 1199.0, "{expected}");
    }

    /// Samples of these times, s, classes and speeds, at one place.
    fn classed(samples: &[(i64, Class, Option<i32>)]) -> PathStats {
        let sample = |&(second, class, speed_cmps): &(i64, Class, Option<i32>)| {
            let mut readings = [Reading::ABSENT; READINGS];
            readings[ReadingKind::Speed as usize] = Reading::new(speed_cmps);
            Sample { class, ..Sample::new(DeviceTime(second * 1000), (0, 0), readings) }
        };
        all_legs(&Path::from_sorted(samples.iter().map(sample)).unwrap())
    }

    #[test]
    fn a_sample_has_its_class_until_the_next_one() {
        use Class::{Moving, Separator, Slow};
        let drive = [
            (0, Slow, Some(0)),
            (7, Moving, Some(900)),
            (20, Moving, None),
            (50, Slow, Some(10)),
            (60, Slow, Some(0)),
            (90, Moving, Some(700)),
            (100, Slow, Some(3)),
        ];
        let stats = classed(&drive);
        let durations = (stats.moving_ms(), stats.idle_ms(), stats.parked_ms());
        assert_eq!(durations, (Some(53_000), Some(47_000), 0));
        let stop = classed(&[(0, Slow, Some(0)), (30, Separator, Some(0)), (600, Slow, Some(0))]);
        let durations = (stop.moving_ms(), stop.idle_ms(), stop.parked_ms());
        assert_eq!(durations, (Some(0), Some(30_000), 570_000));
        let one = classed(&[(5, Moving, Some(900))]);
        assert_eq!((one.moving_ms(), one.idle_ms(), one.parked_ms()), (Some(0), Some(0), 0));
        // Without a speed it may have stood, too.
        let silent = classed(&[(0, Moving, None), (9, Moving, None)]);
        assert_eq!((silent.moving_ms(), silent.idle_ms(), silent.parked_ms()), (None, None, 0));
        let off = classed(&[(0, Separator, None), (9, Separator, None)]);
        assert_eq!((off.moving_ms(), off.idle_ms(), off.parked_ms()), (None, None, 9000));
    }

    proptest! {
        #[test]
        fn the_durations_of_the_classes_add_up(
            steps in prop::collection::vec((1_i64..9000, 0..3_usize), 1..300),
        ) {
            let mut second = 0;
            let samples: Vec<_> = steps.iter().map(|&(step, class)| {
                second += step;
                (second, Class::ALL[class], Some(0))
            }).collect();
            let stats = classed(&samples);
            let duration_ms = (second - samples[0].0) * 1000;
            let by_speed = [stats.moving_ms(), stats.idle_ms()].map(Option::unwrap);
            let by_class = [by_speed[0], by_speed[1], stats.parked_ms()];
            prop_assert_eq!(by_class.iter().sum::<i64>(), duration_ms);
            for (class, found) in Class::ALL.iter().zip(by_class) {
                let next = samples.windows(2).filter(|pair| pair[0].1 == *class);
                let expected: i64 = next.map(|pair| pair[1].0 - pair[0].0).sum();
                prop_assert_eq!(found, expected * 1000);
            }
        }
    }
}

//! The stops of a path: where a device stayed near one place for a while.

use super::Path;
use super::derived::TrigPoint;
use crate::model::scalar::DeviceTime;

/// What counts as a stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopRule {
    /// Maximum distance of the samples of a stop from its first one, m.
    pub radius_m: f64,
    /// Minimum time from the first to the last sample of a stop, ms.
    pub min_ms: i64,
}

impl StopRule {
    /// Maximum radius that a request may choose, m.
    pub const MAX_RADIUS_M: f64 = 10_000.0;

    /// Maximum duration that a request may choose, ms: a day.
    pub const MAX_MIN_MS: i64 = 86_400_000;
}

impl Default for StopRule {
    /// Five minutes within 100 m.
    fn default() -> Self {
        Self { radius_m: 100.0, min_ms: 300_000 }
    }
}

/// A stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// Device time of its first sample, ms.
    pub start_ms: DeviceTime,
    /// Device time of its last sample, ms.
    pub end_ms: DeviceTime,
    /// Latitude of its first sample, degrees.
    pub lat: f64,
    /// Longitude of its first sample, degrees.
    pub lon: f64,
}

/// The stops of a path, in order.
///
/// The path is cut before each sample that is further than the radius from the first sample of its
/// part; the parts that last long enough are the stops. So stops never overlap, and one pass over
/// the samples finds them.
#[must_use]
pub fn stops(path: &Path, rule: StopRule) -> Vec<Stop> {
    let (mut stops, mut first, mut last_ms) = (Vec::new(), *path.first(), path.first().time_ms);
    let mut centre = TrigPoint::from_sample(&first);
    let mut close = |first: &super::Sample, end_ms: DeviceTime| {
        if end_ms - first.time_ms >= rule.min_ms {
            let (lat, lon) = (first.lat(), first.lon());
            stops.push(Stop { start_ms: first.time_ms, end_ms, lat, lon });
        }
    };
    for sample in path.iter() {
        let point = TrigPoint::from_sample(&sample);
        if centre.distance_m(&point) > rule.radius_m {
            close(&first, last_ms);
            (first, centre) = (sample, point);
        }
        last_ms = sample.time_ms;
    }
    close(&first, last_ms);
    stops
}

/// The time from the start to the end of a path without its stops, ms.
#[must_use]
pub fn moving_ms(path: &Path, stops: &[Stop]) -> i64 {
    let stopped_ms: i64 = stops.iter().map(|stop| stop.end_ms - stop.start_ms).sum();
    path.last().time_ms - path.first().time_ms - stopped_ms
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::timeline::{LegFilter, PathStats, READINGS, Reading, Sample};

    /// Samples at minutes, and metres to the north.
    fn path(samples: &[(i64, i32)]) -> Path {
        // A metre is 90 quanta of latitude.
        let sample = |&(minute, metres): &(i64, i32)| {
            let time_ms = DeviceTime(minute * 60_000);
            Sample::new(time_ms, (metres * 90, 0), [Reading::ABSENT; READINGS])
        };
        Path::from_sorted(samples.iter().map(sample)).unwrap()
    }

    fn minutes(stops: &[Stop]) -> Vec<(i64, i64)> {
        stops.iter().map(|it| (it.start_ms.ms() / 60_000, it.end_ms.ms() / 60_000)).collect()
    }

    #[test]
    fn a_stop_lasts_until_the_first_sample_outside() {
        let rule = StopRule::default();
        let drive = [(0, 0), (1, 500), (2, 510), (4, 470), (7, 599), (8, 1200), (9, 2000)];
        assert_eq!(minutes(&stops(&path(&drive), rule)), [(1, 7)]);
        // One at either end, and one that is too short.
        let parked = [(0, 0), (5, 0), (6, 900), (10, 900), (11, 2000), (30, 2099)];
        let found = stops(&path(&parked), rule);
        assert_eq!(minutes(&found), [(0, 5), (11, 30)]);
        assert_eq!(moving_ms(&path(&parked), &found), 6 * 60_000);
        assert_eq!(stops(&path(&[(3, 7)]), rule), []);
        let all = StopRule { radius_m: 5000.0, min_ms: 1 };
        assert_eq!(minutes(&stops(&path(&drive), all)), [(0, 9)]);
    }

    #[test]
    fn a_sample_at_the_radius_is_inside() {
        let path = path(&[(0, 0), (5, 100)]);
        let radius_m =
            TrigPoint::from_sample(path.first()).distance_m(&TrigPoint::from_sample(path.last()));
        let found = |radius_m| minutes(&stops(&path, StopRule { radius_m, min_ms: 300_000 }));
        assert_eq!(found(radius_m), [(0, 5)]);
        assert_eq!(found(radius_m.next_down()), []);
    }

    #[test]
    fn a_stop_is_found_across_the_antimeridian() {
        let sample = |minute: i64, lon_e7: i32| {
            let time_ms = DeviceTime(minute * 60_000);
            Sample::new(time_ms, (0, lon_e7), [Reading::ABSENT; READINGS])
        };
        let path = [sample(0, 1_799_999_990), sample(10, -1_799_999_990)];
        let found = stops(&Path::from_sorted(path).unwrap(), StopRule::default());
        assert_eq!(minutes(&found), [(0, 10)]);
    }

    proptest! {
        #[test]
        fn stops_are_whole_and_every_sample_is_in_at_most_one(
            steps in prop::collection::vec((1_i64..8, -300_i32..300), 1..60),
            radius_m in 1_u32..500,
            min_minutes in 1_i64..30,
        ) {
            let (mut at, mut drive) = ((0, 0), Vec::new());
            for (minutes, metres) in steps {
                at = (at.0 + minutes, at.1 + metres);
                drive.push(at);
            }
            let path = path(&drive);
            let rule = StopRule { radius_m: f64::from(radius_m), min_ms: min_minutes * 60_000 };
            let found = stops(&path, rule);
            prop_assert!(found.windows(2).all(|pair| pair[0].end_ms < pair[1].start_ms));
            let samples: Vec<Sample> = path.iter().collect();
            for stop in &found {
                prop_assert!(stop.end_ms - stop.start_ms >= rule.min_ms);
                let first = samples.iter().position(|it| it.time_ms == stop.start_ms).unwrap();
                let last = samples.iter().position(|it| it.time_ms == stop.end_ms).unwrap();
                // The length of a path of two samples is another way to measure.
                let is_near = |sample: &Sample| {
                    let two = Path::from_sorted([samples[first], *sample]).unwrap();
                    PathStats::from_path(&two, LegFilter::default()).distance_m <= rule.radius_m
                };
                prop_assert!(samples[first + 1..=last].iter().all(is_near));
                prop_assert!(samples.get(last + 1).is_none_or(|next| !is_near(next)));
            }
            // A device that does not move for long enough is never missed.
            let still = samples.iter().zip(samples.iter().skip(1));
            for (one, next) in still {
                let stays = (one.lat_e7, one.lon_e7) == (next.lat_e7, next.lon_e7);
                if stays && next.time_ms - one.time_ms >= rule.min_ms {
                    let (from_ms, to_ms) = (one.time_ms, next.time_ms);
                    let covers = |it: &Stop| it.start_ms <= from_ms && to_ms <= it.end_ms;
                    prop_assert!(found.iter().any(covers));
                }
            }
        }
    }
}

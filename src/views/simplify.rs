//! Simplifies paths for maps.

use crate::timeline::{Path, Sample};

/// Length of a degree of latitude, m, on the sphere that distances are computed on.
const DEGREE_M: f64 = 6_371_008.8 * std::f64::consts::PI / 180.0;

/// Omits the samples of a path that lie within `tolerance_m` of the line through the retained ones
/// before and after them. The first and the last sample are always retained. No omitted sample lies
/// further than twice the tolerance from the resulting line.
///
/// One pass: the directions from the last retained sample that pass all later samples within the
/// tolerance form an angle (the sleeve), which shrinks with each sample. When a sample lies outside
/// of it, or the path turns back, the sample before is retained (Zhao and Saalfeld, "Linear-time
/// sleeve-fitting polyline simplification algorithms", 1997).
#[must_use]
pub fn simplify(path: &Path, tolerance_m: f64) -> Path {
    simplify_between(path, tolerance_m, &[])
}

/// The same, but that the first and the last sample of each of `parts`, which ascend, are retained.
pub(super) fn simplify_between(path: &Path, tolerance_m: f64, parts: &[(usize, usize)]) -> Path {
    let first = *path.first();
    let (mut retained, mut before) = (vec![first], first);
    let mut sleeve = Sleeve::new(&first);
    let mut ends = parts.iter().flat_map(|&(first, last)| [first, last]).peekable();
    for (nth, sample) in path.iter().enumerate().skip(1) {
        if !sleeve.admit(&sample, tolerance_m) {
            retained.push(before);
            sleeve = Sleeve::new(&before);
            let is_admitted = sleeve.admit(&sample, tolerance_m);
            debug_assert!(is_admitted, "a new sleeve admits every sample");
        }
        while ends.next_if(|end| *end < nth).is_some() {}
        if ends.next_if_eq(&nth).is_some() {
            retained.push(sample);
            sleeve = Sleeve::new(&sample);
        }
        before = sample;
    }
    if retained.last().is_some_and(|last| last.time_ms < before.time_ms) {
        retained.push(before);
    }
    Path::from_sorted(retained).expect("the first sample is retained")
}

/// The directions that a line from a retained sample, the anchor, may take.
struct Sleeve {
    lat: f64,
    lon: f64,
    /// Length of a degree of longitude relative to a degree of latitude.
    shrink: f64,
    /// The first direction, and the least and greatest allowed angle from it, radians.
    allowed: Option<(f64, f64, f64)>,
    /// Greatest distance from the anchor so far, m.
    furthest_m: f64,
}

impl Sleeve {
    fn new(anchor: &Sample) -> Self {
        let (lat, lon) = (anchor.lat(), anchor.lon());
        Self { lat, lon, shrink: lat.to_radians().cos(), allowed: None, furthest_m: 0.0 }
    }

    /// Narrows the sleeve by a sample; false if a line to it misses a sample before it.
    fn admit(&mut self, sample: &Sample, tolerance_m: f64) -> bool {
        // The shorter way around the earth.
        let degrees = (sample.lon() - self.lon + 540.0).rem_euclid(360.0) - 180.0;
        let (east, north) =
            (degrees * self.shrink * DEGREE_M, (sample.lat() - self.lat) * DEGREE_M);
        let distance_m = east.hypot(north);
        if distance_m < self.furthest_m - tolerance_m {
            return false;
        }
        self.furthest_m = self.furthest_m.max(distance_m);
        if distance_m <= tolerance_m {
            return true;
        }
        let direction = north.atan2(east);
        let half = (tolerance_m / distance_m).asin();
        let Some((first, low, high)) = self.allowed else {
            self.allowed = Some((direction, -half, half));
            return true;
        };
        let turn = std::f64::consts::TAU;
        let angle = (direction - first + turn / 2.0).rem_euclid(turn) - turn / 2.0;
        if angle < low || angle > high {
            return false;
        }
        self.allowed = Some((first, low.max(angle - half), high.min(angle + half)));
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::scalar::DeviceTime;
    use crate::timeline::RawSample;

    fn path(points: &[(f64, f64)]) -> Path {
        let sample = |(nth, &(lat, lon)): (usize, &(f64, f64))| {
            let time_ms = DeviceTime(i64::try_from(nth).unwrap() * 1000);
            Sample::quantised(&RawSample { time_ms, lat, lon, ..RawSample::default() }).unwrap()
        };
        Path::from_sorted(points.iter().enumerate().map(sample)).unwrap()
    }

    /// Offset of `to` from `from` to the east and to the north, m.
    fn metres(from: &Sample, to: &Sample) -> (f64, f64) {
        let shrink = from.lat().to_radians().cos();
        ((to.lon() - from.lon()) * shrink * DEGREE_M, (to.lat() - from.lat()) * DEGREE_M)
    }

    /// Distance of a sample from the line between two others, m.
    fn distance_m(from: &Sample, to: &Sample, sample: &Sample) -> f64 {
        let ((x, y), (px, py)) = (metres(from, to), metres(from, sample));
        let length = x * x + y * y;
        let along = if length > 0.0 { ((px * x + py * y) / length).clamp(0.0, 1.0) } else { 0.0 };
        (px - along * x).hypot(py - along * y)
    }

    fn check(points: &[(f64, f64)], tolerance_m: f64) -> usize {
        let (whole, retained) = (path(points), simplify(&path(points), tolerance_m));
        let retained: Vec<_> = retained.iter().collect();
        assert_eq!(retained.first().unwrap().time_ms, whole.first().time_ms);
        assert_eq!(retained.last().unwrap().time_ms, whole.last().time_ms);
        for sample in whole.iter() {
            let off_m = retained
                .windows(2)
                .filter(|ends| (ends[0].time_ms..=ends[1].time_ms).contains(&sample.time_ms))
                .map(|ends| distance_m(&ends[0], &ends[1], &sample))
                .fold(f64::INFINITY, f64::min);
            let is_near = off_m <= 2.0 * tolerance_m + 0.1;
            assert!(retained.len() == 1 || is_near, "{off_m} m: {sample:?}");
        }
        retained.len()
    }

    #[test]
    fn ends_and_corners_are_retained() {
        let straight: Vec<_> = (0..1000).map(|n| (52.0, 13.0 + f64::from(n) / 1e4)).collect();
        assert_eq!(check(&straight, 5.0), 2);
        let corner = [(52.0, 13.0), (52.0, 13.1), (52.1, 13.1)];
        assert_eq!(check(&corner, 5.0), 3);
        assert_eq!(check(&corner[..1], 5.0), 1);
    }

    #[test]
    fn the_ends_of_parts_are_retained() {
        let straight: Vec<_> = (0..100).map(|n| (52.0, 13.0 + f64::from(n) / 1e4)).collect();
        let times = |parts: &[(usize, usize)]| {
            let retained = simplify_between(&path(&straight), 5.0, parts);
            retained.iter().map(|sample| sample.time_ms.ms() / 1000).collect::<Vec<_>>()
        };
        assert_eq!(times(&[]), [0, 99]);
        assert_eq!(times(&[(0, 1), (1, 2), (40, 41), (98, 99)]), [0, 1, 2, 40, 41, 98, 99]);
    }

    #[test]
    fn a_turning_point_is_retained() {
        let there = (0..100).map(|n| (52.0, 13.0 + f64::from(n) / 1e3));
        let back: Vec<_> = there.clone().chain(there.clone().rev()).collect();
        assert_eq!(check(&back, 5.0), 3);
    }

    proptest! {
        #[test]
        fn omitted_samples_are_near_the_line(
            steps in prop::collection::vec((-1e-3..1e-3, -1e-3..1e-3), 1..300),
            tolerance_m in 1.0..200.0,
        ) {
            let walk = steps.iter().scan((48.0, 11.0), |at, step| {
                *at = (at.0 + step.0, at.1 + step.1);
                Some(*at)
            });
            let points: Vec<(f64, f64)> = walk.collect();
            prop_assert!(check(&points, tolerance_m) <= points.len());
        }
    }
}

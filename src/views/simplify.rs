//! A path with fewer points, for maps.

use crate::timeline::{Path, Sample};

/// A degree of latitude, m, on the sphere that distances are measured on.
const DEGREE_M: f64 = 6_371_008.8 * std::f64::consts::PI / 180.0;

/// A path without the samples that lie within `tolerance_m` of the line through the kept ones
/// before and after them. First and last stay, and no sample that is left out lies further than
/// twice the tolerance from the line that is drawn instead.
///
/// One pass: from the last kept sample on, the directions in which a line passes all samples since
/// then closely enough are an angle that shrinks; where a sample lies outside of it, or the path
/// turns back, the sample before is kept (Zhao and Saalfeld, "Linear-time sleeve-fitting polyline
/// simplification algorithms", 1997).
#[must_use]
pub fn simplify(path: &Path, tolerance_m: f64) -> Path {
    let first = *path.first();
    let (mut kept, mut before) = (vec![first], first);
    let mut sleeve = Sleeve::new(&first);
    for sample in path.iter().skip(1) {
        if !sleeve.takes(&sample, tolerance_m) {
            kept.push(before);
            sleeve = Sleeve::new(&before);
            let taken = sleeve.takes(&sample, tolerance_m);
            debug_assert!(taken, "a new sleeve takes every sample");
        }
        before = sample;
    }
    if path.len() > 1 {
        kept.push(before);
    }
    Path::from_sorted(kept).expect("the first is among them")
}

/// The directions that a line from a sample on may take.
struct Sleeve {
    lat: f64,
    lon: f64,
    /// How much shorter a degree of longitude is.
    shrink: f64,
    /// The first direction, and the angles from it that are still free, radians.
    free: Option<(f64, f64, f64)>,
    /// How far the path has come, m.
    furthest_m: f64,
}

impl Sleeve {
    fn new(anchor: &Sample) -> Self {
        let (lat, lon) = (anchor.lat(), anchor.lon());
        Self { lat, lon, shrink: lat.to_radians().cos(), free: None, furthest_m: 0.0 }
    }

    /// Whether a line from the anchor to this sample passes the samples before it.
    fn takes(&mut self, sample: &Sample, tolerance_m: f64) -> bool {
        // The shorter way round the earth.
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
        let Some((first, low, high)) = self.free else {
            self.free = Some((direction, -half, half));
            return true;
        };
        let turn = std::f64::consts::TAU;
        let angle = (direction - first + turn / 2.0).rem_euclid(turn) - turn / 2.0;
        if angle < low || angle > high {
            return false;
        }
        self.free = Some((first, low.max(angle - half), high.min(angle + half)));
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::timeline::RawSample;

    fn path(points: &[(f64, f64)]) -> Path {
        let sample = |(nth, &(lat, lon)): (usize, &(f64, f64))| {
            let time_ms = i64::try_from(nth).unwrap() * 1000;
            Sample::quantised(&RawSample { time_ms, lat, lon, ..RawSample::default() }).unwrap()
        };
        Path::from_sorted(points.iter().enumerate().map(sample)).unwrap()
    }

    /// East and north of a place, m.
    fn metres(from: &Sample, to: &Sample) -> (f64, f64) {
        let shrink = from.lat().to_radians().cos();
        ((to.lon() - from.lon()) * shrink * DEGREE_M, (to.lat() - from.lat()) * DEGREE_M)
    }

    /// From a sample to the line between two others, m.
    fn off(from: &Sample, to: &Sample, sample: &Sample) -> f64 {
        let ((x, y), (px, py)) = (metres(from, to), metres(from, sample));
        let length = x * x + y * y;
        let along = if length > 0.0 { ((px * x + py * y) / length).clamp(0.0, 1.0) } else { 0.0 };
        (px - along * x).hypot(py - along * y)
    }

    fn check(points: &[(f64, f64)], tolerance_m: f64) -> usize {
        let (whole, kept) = (path(points), simplify(&path(points), tolerance_m));
        let kept: Vec<_> = kept.iter().collect();
        assert_eq!(kept.first().unwrap().time_ms, whole.first().time_ms);
        assert_eq!(kept.last().unwrap().time_ms, whole.last().time_ms);
        for sample in whole.iter() {
            let off = kept
                .windows(2)
                .filter(|ends| (ends[0].time_ms..=ends[1].time_ms).contains(&sample.time_ms))
                .map(|ends| off(&ends[0], &ends[1], &sample))
                .fold(f64::INFINITY, f64::min);
            assert!(kept.len() == 1 || off <= 2.0 * tolerance_m + 0.1, "{off} m: {sample:?}");
        }
        kept.len()
    }

    #[test]
    fn a_straight_line_keeps_its_ends_and_a_corner_stays() {
        let straight: Vec<_> = (0..1000).map(|n| (52.0, 13.0 + f64::from(n) / 1e4)).collect();
        assert_eq!(check(&straight, 5.0), 2);
        let corner = [(52.0, 13.0), (52.0, 13.1), (52.1, 13.1)];
        assert_eq!(check(&corner, 5.0), 3);
        assert_eq!(check(&corner[..1], 5.0), 1);
    }

    #[test]
    fn there_and_back_keeps_the_far_end() {
        let there = (0..100).map(|n| (52.0, 13.0 + f64::from(n) / 1e3));
        let back: Vec<_> = there.clone().chain(there.clone().rev()).collect();
        assert_eq!(check(&back, 5.0), 3);
    }

    proptest! {
        #[test]
        fn nothing_is_drawn_far_from_where_it_was(
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

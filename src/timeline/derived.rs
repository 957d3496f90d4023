//! What follows from a path alone: distance, greatest speed, corners.
//!
//! Computed from the quantised samples in order of time, never summed up in order of arrival, and
//! with a mathematics library that gives the same bits on every host: the same path gives the same
//! row wherever it is written.

use super::{Path, Sample};

/// Mean radius of the earth (IUGG), m.
const EARTH_RADIUS_M: f64 = 6_371_008.8;

/// What a row states of its path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathStats {
    /// Great-circle length along the path on a sphere of radius 6,371,008.8 m.
    pub distance_m: f64,
    /// Largest reported speed, m/s; `None` where no sample reports one.
    pub max_speed_mps: Option<f64>,
    /// Southernmost latitude, degrees.
    pub min_lat: f64,
    /// Westernmost longitude, degrees. A path across the antimeridian is not unwrapped.
    pub min_lon: f64,
    /// Northernmost latitude, degrees.
    pub max_lat: f64,
    /// Easternmost longitude, degrees.
    pub max_lon: f64,
}

impl PathStats {
    /// Walks the path once.
    #[must_use]
    pub fn from_path(path: &Path) -> Self {
        let first = path.first();
        let (mut south, mut north) = (first.lat_e7, first.lat_e7);
        let (mut west, mut east) = (first.lon_e7, first.lon_e7);
        let mut fastest = None;
        let mut distance_m = 0.0;
        let mut previous = TrigPoint::from_sample(first);
        for sample in path.iter() {
            (south, north) = (south.min(sample.lat_e7), north.max(sample.lat_e7));
            (west, east) = (west.min(sample.lon_e7), east.max(sample.lon_e7));
            fastest = fastest.max(sample.speed_cmps.get());
            let place = TrigPoint::from_sample(&sample);
            distance_m += previous.distance_m(&place);
            previous = place;
        }
        let degrees = |e7: i32| f64::from(e7) / 1e7;
        Self {
            distance_m,
            max_speed_mps: fastest.map(|cmps| f64::from(cmps) / 100.0),
            min_lat: degrees(south),
            min_lon: degrees(west),
            max_lat: degrees(north),
            max_lon: degrees(east),
        }
    }
}

/// A position with the cosine of its latitude, which each of its two legs needs.
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

    /// Haversine distance. Differences are taken in whole quanta: no digit is lost between points
    /// that are centimetres apart.
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
    use super::*;
    use crate::timeline::RawSample;

    fn path(places: &[(f64, f64, Option<f64>)]) -> Path {
        let samples = places.iter().zip(0..).map(|(&(lat, lon, speed_mps), time_ms)| {
            Sample::quantised(&RawSample { time_ms, lat, lon, speed_mps, ..RawSample::default() })
                .unwrap()
        });
        Path::from_sorted(samples).unwrap()
    }

    /// Vincenty's formula for a sphere: another way to the same distance.
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
            let found =
                PathStats::from_path(&path(&[(a.0, a.1, None), (b.0, b.1, None)])).distance_m;
            let expected = vincenty_m(a, b);
            assert!((found - expected).abs() <= 1e-8 * expected + 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn states_corners_and_greatest_speed() {
        let derived = PathStats::from_path(&path(&[
            (1.0, 7.0, Some(3.0)),
            (2.0, 5.0, Some(12.34)),
            (-1.5, 6.0, None),
        ]));
        assert_eq!(derived.max_speed_mps, Some(12.34));
        let corners = (derived.min_lat, derived.min_lon, derived.max_lat, derived.max_lon);
        assert_eq!(corners, (-1.5, 5.0, 2.0, 7.0));
        let still = PathStats::from_path(&path(&[(1.0, 7.0, None), (1.0, 7.0, None)]));
        assert_eq!((still.distance_m, still.max_speed_mps), (0.0, None));
    }
}

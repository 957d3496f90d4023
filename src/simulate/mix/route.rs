//! Position of a device at a time: a winding drive around a city, a function of the time alone.

use crate::model::scalar::DeviceTime;
use crate::simulate::random::Random;
use crate::simulate::{METRES_PER_DEGREE, START_MS};
use crate::timeline::{READINGS, Reading, Sample};

/// City centres, degrees (latitude, longitude).
const CITIES: [(f64, f64); 8] = [
    (52.52, 13.405),
    (48.8566, 2.3522),
    (40.7128, -74.006),
    (-25.4284, -49.2733),
    (35.6762, 139.6503),
    (30.2672, -97.7431),
    (-33.8688, 151.2093),
    (1.3521, 103.8198),
];

/// Motion on a circle at a constant speed.
#[derive(Clone, Copy, Debug)]
struct Circle {
    radius_m: f64,
    speed_mps: f64,
    phase: f64,
}

impl Circle {
    /// Offset (east, north) in m and velocity (east, north) in m/s at `time_s`, in seconds.
    fn at(&self, time_s: f64) -> ([f64; 2], [f64; 2]) {
        let angle = self.phase + self.speed_mps / self.radius_m * time_s;
        let (sin, cos) = (libm::sin(angle), libm::cos(angle));
        ([self.radius_m * cos, self.radius_m * sin], [-self.speed_mps * sin, self.speed_mps * cos])
    }
}

/// Route of a device: the sum of a large and a small circle, 10 to 24 m/s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drive {
    lat: f64,
    lon: f64,
    large: Circle,
    small: Circle,
}

impl Drive {
    /// The route of the device of this number, from 0.
    pub(crate) fn new(device: u32, random: &mut Random) -> Self {
        let (lat, lon) = CITIES[device as usize % CITIES.len()];
        let mut between = |min: f64, max: f64| min + (max - min) * random.unit();
        Self {
            lat: lat + between(-0.05, 0.05),
            lon: lon + between(-0.05, 0.05),
            large: Circle {
                radius_m: between(1_500.0, 5_000.0),
                speed_mps: between(14.0, 20.0),
                phase: between(0.0, std::f64::consts::TAU),
            },
            small: Circle {
                radius_m: between(80.0, 300.0),
                speed_mps: between(-4.0, 4.0),
                phase: between(0.0, std::f64::consts::TAU),
            },
        }
    }

    /// The sample at a device time. Its coordinates have at most six decimals.
    #[expect(clippy::cast_possible_truncation, reason = "metres around a city, speeds of a truck")]
    pub(crate) fn at(&self, time_ms: DeviceTime) -> Sample {
        #[expect(clippy::cast_precision_loss, reason = "ms of centuries fit 53 bits")]
        let time_s = (time_ms - START_MS) as f64 / 1e3;
        let ([east, north], [large_east_mps, large_north_mps]) = self.large.at(time_s);
        let ([small_east, small_north], [small_east_mps, small_north_mps]) = self.small.at(time_s);
        let (east_mps, north_mps) =
            (large_east_mps + small_east_mps, large_north_mps + small_north_mps);
        let lat = self.lat + (north + small_north) / METRES_PER_DEGREE;
        let metres_per_degree_east = METRES_PER_DEGREE * libm::cos(self.lat.to_radians());
        let lon = self.lon + (east + small_east) / metres_per_degree_east;
        let speed_mps = libm::sqrt(east_mps * east_mps + north_mps * north_mps);
        let heading_deg = libm::atan2(east_mps, north_mps).to_degrees();
        let heading_ddeg = libm::round(heading_deg * 10.0) as i32;
        let lat_e7 = libm::round(lat * 1e6) as i32 * 10;
        let lon_e7 = libm::round(lon * 1e6) as i32 * 10;
        Sample {
            speed_cmps: Reading::new(Some(libm::round(speed_mps * 100.0) as i32)),
            heading_ddeg: Reading::new(Some(heading_ddeg.rem_euclid(3600))),
            ..Sample::new(time_ms, (lat_e7, lon_e7), [Reading::ABSENT; READINGS])
        }
    }
}

//! Where a device is at a time: a winding drive around a city, the same whenever it is asked for.

use super::START_MS;
use super::random::Random;
use crate::timeline::{Reading, Sample};

/// Metres in a degree of latitude, on the sphere that distances are measured on.
const METRES_A_DEGREE: f64 = 111_195.08;

/// Centres of the cities driven in, degrees north and east.
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

/// A circle driven at a steady speed.
#[derive(Clone, Copy, Debug)]
struct Circle {
    radius_m: f64,
    speed_mps: f64,
    phase: f64,
}

impl Circle {
    /// Offset (east, north) in m and velocity (east, north) in m/s at a time in s.
    fn at(&self, time_s: f64) -> ([f64; 2], [f64; 2]) {
        let angle = self.phase + self.speed_mps / self.radius_m * time_s;
        let (sin, cos) = (libm::sin(angle), libm::cos(angle));
        ([self.radius_m * cos, self.radius_m * sin], [-self.speed_mps * sin, self.speed_mps * cos])
    }
}

/// A device's drive: a large circle with a small one upon it, 10 to 24 m/s together.
#[derive(Clone, Copy, Debug)]
pub struct Drive {
    lat: f64,
    lon: f64,
    large: Circle,
    small: Circle,
}

impl Drive {
    /// The drive of the nth device.
    pub fn new(device: u32, random: &mut Random) -> Self {
        let (lat, lon) = CITIES[device as usize % CITIES.len()];
        let mut from = |least: f64, most: f64| least + (most - least) * random.unit();
        Self {
            lat: lat + from(-0.05, 0.05),
            lon: lon + from(-0.05, 0.05),
            large: Circle {
                radius_m: from(1_500.0, 5_000.0),
                speed_mps: from(14.0, 20.0),
                phase: from(0.0, std::f64::consts::TAU),
            },
            small: Circle {
                radius_m: from(80.0, 300.0),
                speed_mps: from(-4.0, 4.0),
                phase: from(0.0, std::f64::consts::TAU),
            },
        }
    }

    /// The sample at a device time, in quanta of which a line needs six decimals at most.
    #[expect(clippy::cast_possible_truncation, reason = "metres around a city, speeds of a truck")]
    pub fn at(&self, time_ms: i64) -> Sample {
        #[expect(clippy::cast_precision_loss, reason = "ms of centuries fit 53 bits")]
        let time_s = (time_ms - START_MS) as f64 / 1e3;
        let ([east, north], [to_east, to_north]) = self.large.at(time_s);
        let ([more_east, more_north], [to_more_east, to_more_north]) = self.small.at(time_s);
        let (to_east, to_north) = (to_east + to_more_east, to_north + to_more_north);
        let lat = self.lat + (north + more_north) / METRES_A_DEGREE;
        let a_degree_east = METRES_A_DEGREE * libm::cos(self.lat.to_radians());
        let lon = self.lon + (east + more_east) / a_degree_east;
        let speed_mps = libm::sqrt(to_east * to_east + to_north * to_north);
        let heading_deg = libm::atan2(to_east, to_north).to_degrees();
        let heading_ddeg = libm::round(heading_deg * 10.0) as i32;
        Sample {
            time_ms,
            lat_e7: libm::round(lat * 1e6) as i32 * 10,
            lon_e7: libm::round(lon * 1e6) as i32 * 10,
            speed_cmps: Reading::new(Some(libm::round(speed_mps * 100.0) as i32)),
            heading_ddeg: Reading::new(Some(heading_ddeg.rem_euclid(3600))),
            altitude_dm: Reading::ABSENT,
            accuracy_dm: Reading::ABSENT,
        }
    }
}

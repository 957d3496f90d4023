//! A few vans in the streets of a town, for screenshots.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use fastrand::Rng;
use tstar::internals::model::time::format_time;

/// 2024-05-06, a Monday, ms since 1970.
const MONDAY_MS: i64 = 1_714_953_600_000;
const DAYS: i64 = 5;
const VANS: [&str; 8] =
    ["bus-204", "sprinter-3", "tram-12", "truck-11", "truck-17", "truck-23", "van-08", "van-15"];
/// Seconds between two samples.
const STEP: i64 = 20;

/// Position and heading of a van; streets cross at right angles, slightly rotated.
struct Van {
    lat: f64,
    lon: f64,
    heading: f64,
    speed: f64,
}

impl Van {
    fn drive(&mut self, random: &mut Rng) {
        if random.f64() < 0.12 {
            self.heading += if random.bool() { TAU / 4.0 } else { -TAU / 4.0 };
            self.speed *= 0.4;
        }
        self.speed = (self.speed + random.f64() * 3.0 - 1.0).clamp(1.5, 15.0);
        let metres = self.speed * STEP as f64;
        self.lat += self.heading.cos() * metres / 111_195.0;
        self.lon += self.heading.sin() * metres / (111_195.0 * self.lat.to_radians().cos());
    }
}

/// Their samples in arrival order: some trips in two parts, and last the samples that join them.
pub fn samples() -> String {
    let mut random = Rng::with_seed(17);
    let (mut lines, mut late) = (String::new(), String::new());
    for (nth, van) in VANS.iter().enumerate() {
        for day in 0..DAYS {
            let heading = 0.3 + f64::from(random.u8(0..4)) * TAU / 4.0;
            let (lat, lon) = (52.50 + random.f64() * 0.03, 13.36 + random.f64() * 0.06);
            let mut state = Van { lat, lon, heading, speed: 6.0 };
            let mut second = 5 * 3600 + random.i64(0..5400) + nth as i64 * 300;
            while second < 20 * 3600 {
                let long = random.i64(40..280);
                let joins = (random.f64() < 0.3).then(|| long / 2..long / 2 + 20);
                for at in 0..long {
                    state.drive(&mut random);
                    let ms = MONDAY_MS + (day * 86_400 + second + at * STEP) * 1000;
                    let is_late = joins.as_ref().is_some_and(|joins| joins.contains(&at));
                    let into = if is_late { &mut late } else { &mut lines };
                    writeln!(
                        into,
                        r#"{{"device_id":"{van}","time":"{}","lat":{:.6},"lon":{:.6},"speed":{:.2},"driver":"{}"}}"#,
                        format_time(ms),
                        state.lat,
                        state.lon,
                        state.speed,
                        ["Ana", "Chen", "Kim"][nth % 3]
                    )
                    .unwrap();
                }
                second += long * STEP + random.i64(900..7000);
            }
        }
    }
    lines + &late
}

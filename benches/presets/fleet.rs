//! The samples that all formats have.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};

use crate::encode::Point;

/// Number of devices.
pub const DEVICES: u32 = 100;

/// Number of samples that a device sends at once.
const BURST: u32 = 10;

/// 2026-11-20T00:00:00Z.
const START_MS: i64 = 1_795_132_800_000;

/// A fleet in arrival order. As a simulated one, samples have a speed, a heading and a driver.
pub fn points(samples: u32) -> Vec<Point> {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut small = |below: u32| random.next_u32() % below;
    let at = |steps: u32| f64::from(steps) / 128.0;
    let rounds = samples.div_ceil(DEVICES * BURST);
    let mut all = Vec::new();
    for round in 0..rounds {
        for device in 0..DEVICES {
            for nth in 0..BURST {
                let seconds = i64::from((round * BURST + nth) * 20 + small(20));
                all.push(Point {
                    device: format!("truck-{device}"),
                    time_ms: START_MS + seconds * 1000 + i64::from(small(1000)),
                    lat: 50.0 + at(small(512)),
                    lon: 2.0 + at(device) + at(small(512)),
                    speed: Some(u16::try_from(small(8) * 5).expect("it is below 40")),
                    heading: Some(u16::try_from(small(360)).expect("it is below 360")),
                    altitude: None,
                    accuracy: None,
                    ignition: None,
                    driver: Some(["Chen", "Ada", "Maria"][device as usize % 3].into()),
                });
            }
        }
    }
    all.truncate(samples as usize);
    all
}

//! The tracker of a vehicle: what it reports, and when that arrives.

use super::{Arrivals, Point};
use crate::model::scalar::DeviceTime;
use crate::simulate::METRES_PER_DEGREE;
use crate::simulate::random::Random;
use crate::timeline::{READINGS, Reading, Sample};

/// Centre of the town, degrees (latitude, longitude).
const CENTRE: (f64, f64) = (52.1, 12.6);

const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60_000;

/// How often a parked tracker reports, ms, but for chance.
const HEARTBEAT_MS: i64 = 300 * SECOND_MS;

/// One sample in 100 lacks the ignition.
const IGNITION_LOST: u64 = 100;

/// One parked sample in 200 has a speed.
const PARKED_SPEED: u64 = 200;

/// One sample in 150 comes hours later, and one in 200 twice.
const LATE: u64 = 150;
const TWICE: u64 = 200;

/// What a vehicle does.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub point: Point,
    pub speed_mps: f64,
    pub heading_deg: f64,
    pub ignition: bool,
}

/// A tracker.
#[derive(Debug)]
pub(super) struct Tracker {
    random: Random,
    /// How often it reports while the ignition is on, ms.
    interval_ms: i64,
    /// When it has reported last, and does next, ms since the start.
    last_ms: i64,
    next_ms: i64,
    /// The time without a network that ends next, ms since the start. What was reported meanwhile
    /// is sent after it, newest first.
    silence: (i64, i64),
}

impl Tracker {
    pub(super) fn new(mut random: Random, interval_ms: i64) -> Self {
        let next_ms = random.between(0, HEARTBEAT_MS);
        let mut tracker = Self { random, interval_ms, last_ms: -1, next_ms, silence: (0, 0) };
        tracker.lose_network(0);
        tracker
    }

    fn lose_network(&mut self, now_ms: i64) {
        let from_ms = now_ms + self.random.between(40 * MINUTE_MS, 240 * MINUTE_MS);
        self.silence = (from_ms, from_ms + self.random.between(MINUTE_MS, 14 * MINUTE_MS));
    }

    /// Reports what the vehicle does from a time until another one, which does not count.
    pub(super) fn report(
        &mut self,
        (from_ms, to_ms): (i64, i64),
        state: impl Fn(i64) -> State,
        arrivals: &mut Arrivals,
    ) {
        self.next_ms = self.next_ms.max(from_ms);
        while self.next_ms < to_ms {
            let state = state(self.next_ms);
            self.report_now(self.next_ms, state, arrivals);
            self.next_ms += match state.ignition {
                true => self.interval_ms,
                false => HEARTBEAT_MS * self.random.between(90, 110) / 100,
            };
        }
    }

    /// Reports a change of the ignition. What is due next is then counted from now.
    pub(super) fn report_switch(&mut self, now_ms: i64, state: State, arrivals: &mut Arrivals) {
        self.report_now(now_ms, state, arrivals);
        self.next_ms = now_ms + if state.ignition { self.interval_ms } else { HEARTBEAT_MS };
    }

    fn report_now(&mut self, now_ms: i64, state: State, arrivals: &mut Arrivals) {
        if self.last_ms == now_ms {
            return; // One time has one sample.
        }
        self.last_ms = now_ms;
        let time_ms = arrivals.start_ms + now_ms;
        let sample = self.sample(time_ms, state);
        let arrival_ms = self.arrival_ms(now_ms);
        arrivals.add(arrival_ms, sample);
        if self.random.below(TWICE) == 0 {
            arrivals.add(arrival_ms + self.random.between(SECOND_MS, 10 * MINUTE_MS), sample);
        }
    }

    fn arrival_ms(&mut self, now_ms: i64) -> i64 {
        if now_ms > self.silence.1 {
            self.lose_network(now_ms);
        }
        let (from_ms, to_ms) = self.silence;
        match now_ms >= from_ms {
            true => to_ms + 2 * SECOND_MS + (to_ms - now_ms) / 60,
            false if self.random.below(LATE) == 0 => {
                now_ms + self.random.between(10 * MINUTE_MS, 360 * MINUTE_MS)
            }
            false => now_ms + self.random.between(300, 4 * SECOND_MS),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "metres around a town, speeds of a truck")]
    fn sample(&mut self, time_ms: DeviceTime, state: State) -> Sample {
        let random = &mut self.random;
        let mut metres = |metre: f64| metre + (random.unit() - random.unit()) * 4.0;
        let [east, north] = state.point.map(&mut metres);
        let [lat, lon] = degrees([east, north]);
        let e7 = |degrees: f64| libm::round(degrees * 1e6) as i32 * 10;
        let speed_mps = match state.speed_mps {
            0.0 if random.below(PARKED_SPEED) == 0 => 0.3 + 1.2 * random.unit(),
            0.0 => 0.0,
            speed_mps => speed_mps + 0.4 * (random.unit() - 0.5),
        };
        let heading_ddeg = libm::round(state.heading_deg * 10.0) as i32;
        Sample {
            speed_cmps: Reading::new(Some(libm::round(speed_mps * 100.0) as i32)),
            heading_ddeg: Reading::new(Some(heading_ddeg.rem_euclid(3600))),
            ignition: (random.below(IGNITION_LOST) > 0).then_some(state.ignition),
            ..Sample::new(time_ms, (e7(lat), e7(lon)), [Reading::ABSENT; READINGS])
        }
    }
}

/// Latitude and longitude of a point, degrees.
pub(super) fn degrees([east, north]: Point) -> [f64; 2] {
    let metres_per_degree = METRES_PER_DEGREE * libm::cos(CENTRE.0.to_radians());
    [CENTRE.0 + north / METRES_PER_DEGREE, CENTRE.1 + east / metres_per_degree]
}

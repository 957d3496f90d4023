//! A vehicle: what it does all day.

use std::collections::VecDeque;

use super::Arrivals;
use super::streets::{Leg, Streets, distance_m};
use super::tracker::{State, Tracker};
use crate::simulate::line::DRIVERS;
use crate::simulate::random::Random;

const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Share of the crossings at which a vehicle waits.
const LIGHTS: u64 = 5;

/// What a vehicle is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Visits customers by day.
    Van,
    /// Drives along its line until late.
    Bus,
    /// Drives to the next town before midnight, and back after it.
    Truck,
}

impl Role {
    /// The role of the device of this number, from 1.
    pub(super) fn by_number(number: u32) -> Self {
        match number % 10 {
            5 => Self::Bus,
            7 => Self::Truck,
            _ => Self::Van,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Van => "van",
            Self::Bus => "bus",
            Self::Truck => "truck",
        }
    }
}

/// A part of a day.
#[derive(Clone, Copy, Debug)]
enum Task {
    /// Drives to a crossing.
    Drive(usize),
    /// Drives along the motorway to the next town, or back.
    Motorway { is_back: bool },
    /// Waits with the ignition on, ms.
    Wait(i64),
    /// Is parked, ms.
    Park(i64),
    /// Is parked until a time.
    ParkUntil(i64),
}

/// A vehicle.
#[derive(Debug)]
pub(super) struct Vehicle {
    pub number: u32,
    pub role: Role,
    random: Random,
    tracker: Tracker,
    /// Until when everything was reported, ms since the start.
    pub now_ms: i64,
    state: State,
    /// Where it is in the town, or was last.
    crossing: usize,
    home: usize,
    /// Number of the day that is planned next, from 0.
    day: i64,
    tasks: VecDeque<Task>,
}

impl Vehicle {
    /// The vehicle of a number, from 1.
    pub(super) fn new(number: u32, seed: u64, streets: &Streets) -> Self {
        let role = Role::by_number(number);
        let mut random = Random::new(seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let interval_ms = if role == Role::Truck { 20 } else { 10 } * SECOND_MS;
        let tracker = Tracker::new(Random::new(random.below(u64::MAX)), interval_ms);
        let home = match role {
            Role::Truck => streets.exit(),
            Role::Bus => streets.line(number as usize / 10)[0],
            Role::Van => streets.crossing(&mut random),
        };
        let point = match role {
            Role::Truck => streets.next_town(),
            Role::Van | Role::Bus => streets.point(home),
        };
        let state = State { point, speed_mps: 0.0, heading_deg: 0.0, ignition: false };
        let mut tasks = VecDeque::new();
        if role == Role::Truck {
            // Its first night has begun.
            tasks.push_back(Task::Park(random.between(5 * MINUTE_MS, 25 * MINUTE_MS)));
            tasks.push_back(Task::Motorway { is_back: true });
        }
        Self {
            number,
            role,
            random,
            tracker,
            now_ms: 0,
            state,
            crossing: home,
            home,
            day: 0,
            tasks,
        }
    }

    /// The driver; one of three vehicles names none.
    pub(super) fn driver(&self) -> Option<&'static str> {
        let shift = usize::try_from(self.day).unwrap_or_default();
        let nth = (self.number as usize + shift) % DRIVERS.len();
        (!self.number.is_multiple_of(3)).then(|| DRIVERS[nth])
    }

    /// Does what comes next.
    pub(super) fn advance(&mut self, streets: &Streets, arrivals: &mut Arrivals) {
        let Some(task) = self.tasks.pop_front() else { return self.plan_day(streets) };
        match task {
            Task::Drive(to) => {
                let legs = streets.drive(self.crossing, to);
                self.drive(&legs, arrivals);
                self.crossing = to;
            }
            Task::Motorway { is_back } => self.drive(&streets.motorway(is_back), arrivals),
            Task::Wait(duration_ms) => self.stand(duration_ms, arrivals),
            Task::Park(duration_ms) => self.park(duration_ms, arrivals),
            Task::ParkUntil(time_ms) => self.park(time_ms - self.now_ms, arrivals),
        }
    }

    fn plan_day(&mut self, streets: &Streets) {
        let start_ms = self.day * DAY_MS;
        self.day += 1;
        let random = &mut self.random;
        let tasks = &mut self.tasks;
        let mut park_until = |hours: i64, minutes: i64, tasks: &mut VecDeque<Task>| {
            let late_ms = random.between(0, minutes * MINUTE_MS);
            tasks.push_back(Task::ParkUntil(start_ms + hours * HOUR_MS + late_ms));
        };
        match self.role {
            Role::Van => {
                park_until(6, 90, tasks);
                let visits = self.random.between(14, 26);
                for visit in 0..visits {
                    tasks.push_back(Task::Drive(streets.crossing(&mut self.random)));
                    tasks.push_back(Task::Park(match visit {
                        _ if visit == visits / 2 => 35 * MINUTE_MS,
                        _ if self.random.below(4) == 0 => self.random.between(40_000, 110_000),
                        _ => self.random.between(2 * MINUTE_MS, 20 * MINUTE_MS),
                    }));
                }
                tasks.push_back(Task::Drive(self.home));
            }
            Role::Bus => {
                park_until(5, 30, tasks);
                let line = streets.line(self.number as usize / 10);
                for _ in 0..self.random.between(16, 20) {
                    for stop in line {
                        tasks.push_back(Task::Drive(*stop));
                        tasks.push_back(Task::Wait(self.random.between(12_000, 30_000)));
                    }
                    tasks.push_back(Task::Wait(self.random.between(330_000, 540_000)));
                }
                tasks.push_back(Task::Drive(self.home));
            }
            Role::Truck => {
                park_until(21, 90, tasks);
                tasks.push_back(Task::Motorway { is_back: false });
                tasks.push_back(Task::Park(self.random.between(50 * MINUTE_MS, 90 * MINUTE_MS)));
                tasks.push_back(Task::Motorway { is_back: true });
            }
        }
    }

    fn drive(&mut self, legs: &[Leg], arrivals: &mut Arrivals) {
        for leg in legs {
            let (from, to) = (self.state.point, leg.to);
            let metres = distance_m(from, to);
            let speed_mps = leg.speed_mps * (0.85 + 0.2 * self.random.unit());
            #[expect(clippy::cast_possible_truncation, reason = "ms of a part of a drive")]
            let duration_ms = (metres / speed_mps * 1e3) as i64;
            let [east, north] = [to[0] - from[0], to[1] - from[1]];
            let heading_deg = match duration_ms {
                0 => self.state.heading_deg,
                _ => libm::atan2(east, north).to_degrees(),
            };
            self.state = State { speed_mps, heading_deg, ignition: true, ..self.state };
            let (start_ms, state) = (self.now_ms, self.state);
            self.now_ms += duration_ms;
            let at = |now_ms: i64| {
                #[expect(clippy::cast_precision_loss, reason = "ms of a part of a drive")]
                let share = (now_ms - start_ms) as f64 / duration_ms as f64;
                State { point: [from[0] + east * share, from[1] + north * share], ..state }
            };
            self.tracker.report((start_ms, self.now_ms), at, arrivals);
            self.state.point = to;
            if leg.has_light && self.random.below(LIGHTS) == 0 {
                let wait_ms = self.random.between(8 * SECOND_MS, 45 * SECOND_MS);
                self.stand(wait_ms, arrivals);
            }
        }
    }

    /// Stands without a change of the ignition.
    fn stand(&mut self, duration_ms: i64, arrivals: &mut Arrivals) {
        let (start_ms, state) = (self.now_ms, State { speed_mps: 0.0, ..self.state });
        self.now_ms += duration_ms.max(0);
        self.tracker.report((start_ms, self.now_ms), |_| state, arrivals);
    }

    fn park(&mut self, duration_ms: i64, arrivals: &mut Arrivals) {
        if duration_ms <= 0 {
            return;
        }
        self.state.speed_mps = 0.0;
        for ignition in [false, true] {
            if self.state.ignition != ignition {
                self.state.ignition = ignition;
                self.tracker.report_switch(self.now_ms, self.state, arrivals);
            }
            if !ignition {
                self.stand(duration_ms, arrivals);
            }
        }
    }
}

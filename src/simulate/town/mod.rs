//! The vehicles of a town: vans that visit customers, buses, and trucks that drive over midnight.
//!
//! Their trackers report the ignition, and a heartbeat while they are parked. They lose the network
//! now and then, and send what they kept newest first: so trips merge, and a late "ignition off"
//! splits one. Some samples come hours late, some twice. A vehicle needs some tens of kilobytes of
//! memory, most of it for what it has not sent yet.

mod streets;
mod tracker;
mod vehicle;

#[cfg(test)]
mod tests;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::Street;
use super::line::{Content, Event};
use super::malformed;
use super::random::Random;
use crate::model::scalar::DeviceTime;
use crate::timeline::Sample;
use streets::Streets;
use vehicle::Vehicle;

/// A place: metres east and north of the centre of the town.
type Point = [f64; 2];

/// A sample on its way.
#[derive(Debug)]
struct Arrival {
    arrival_ms: i64,
    /// Counts the samples, so that the order is the same on every host.
    nth: u64,
    /// Index of the vehicle.
    vehicle: usize,
    driver: Option<&'static str>,
    sample: Sample,
}

impl Arrival {
    fn key(&self) -> (i64, u64) {
        (self.arrival_ms, self.nth)
    }
}

impl Ord for Arrival {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Arrival {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Arrival {}

/// The samples on their way, by arrival.
#[derive(Debug, Default)]
struct Arrivals {
    /// Device time at which the fleet starts: other times count from it.
    start_ms: DeviceTime,
    waiting: BinaryHeap<Reverse<Arrival>>,
    count: u64,
    /// The vehicle that adds samples, and its driver.
    vehicle: usize,
    driver: Option<&'static str>,
}

impl Arrivals {
    fn add(&mut self, arrival_ms: i64, sample: Sample) {
        let (vehicle, driver, nth) = (self.vehicle, self.driver, self.count);
        self.count += 1;
        self.waiting.push(Reverse(Arrival { arrival_ms, nth, vehicle, driver, sample }));
    }

    fn next_ms(&self) -> i64 {
        self.waiting.peek().map_or(i64::MAX, |Reverse(next)| next.arrival_ms)
    }
}

/// The fleet: an endless iterator over its arrivals.
#[derive(Debug)]
pub(super) struct TownFleet {
    random: Random,
    streets: Streets,
    vehicles: Vec<Vehicle>,
    /// The vehicles by the time until which everything was reported.
    by_time: BinaryHeap<Reverse<(i64, usize)>>,
    arrivals: Arrivals,
    /// When the last line arrived, ms since the start.
    arrived_ms: i64,
    /// Share of malformed lines.
    bad: f64,
}

impl TownFleet {
    pub(super) fn new(devices: u32, seed: u64, bad: f64, start_ms: DeviceTime) -> Self {
        let mut random = Random::new(seed);
        let streets = Streets::new(&mut random);
        let vehicle = |number| Vehicle::new(number, seed, &streets);
        let vehicles: Vec<_> = (1..=devices).map(vehicle).collect();
        let by_time = (0..vehicles.len()).map(|index| Reverse((0, index))).collect();
        let arrivals = Arrivals { start_ms, ..Arrivals::default() };
        Self { random, streets, vehicles, by_time, arrivals, arrived_ms: 0, bad }
    }

    /// When the last line arrived.
    pub(super) fn arrived_ms(&self) -> DeviceTime {
        self.arrivals.start_ms + self.arrived_ms
    }

    /// The streets of the town.
    pub(super) fn streets(&self) -> Vec<Street> {
        let street = |(kind, line): (_, Vec<Point>)| Street {
            kind,
            points: line.into_iter().map(tracker::degrees).collect(),
        };
        self.streets.lines().into_iter().map(street).collect()
    }

    /// The next arrival.
    pub(super) fn next(&mut self) -> Event {
        // No vehicle can report anything that arrives before it is reported.
        while let Some(Reverse((now_ms, index))) = self.by_time.peek().copied()
            && now_ms <= self.arrivals.next_ms()
        {
            self.by_time.pop();
            let vehicle = &mut self.vehicles[index];
            (self.arrivals.vehicle, self.arrivals.driver) = (index, vehicle.driver());
            vehicle.advance(&self.streets, &mut self.arrivals);
            self.by_time.push(Reverse((vehicle.now_ms, index)));
        }
        self.arrived_ms = self.arrivals.next_ms();
        let is_bad = self.bad > 0.0 && self.random.unit() < self.bad;
        if is_bad && let Some(Reverse(next)) = self.arrivals.waiting.peek() {
            let reason = malformed::REASONS[self.random.index(malformed::REASONS.len())];
            let Vehicle { role, number, .. } = self.vehicles[next.vehicle];
            let line = (reason, &next.sample);
            return Event::malformed(role.name(), number, line, &mut self.random);
        }
        let Reverse(next) = self.arrivals.waiting.pop().expect("vehicles report for ever");
        let Vehicle { role, number, .. } = self.vehicles[next.vehicle];
        let content = Content::Good { sample: next.sample, driver: next.driver };
        Event { vehicle: role.name(), device: number, content }
    }
}

//! What a vehicle does, whatever its tracker sends of it.
//!
//! A plan has no phase that no rule could know from the samples:
//! - In fleets whose trackers know nothing of the ignition, a jam is stop-and-go traffic, in which
//!   a vehicle waits for at most 2 min at a time. If it waited for 10 min, that could be a visit.
//! - A vehicle drives for at least 30 s before and after a jam, a tunnel or a red light, and its
//!   tracker sends a sample meanwhile. If it was silent for 10 min after it had waited at a light,
//!   it could have waited for as long.
//!
//! A vehicle reaches its speed at once. Below 2 m/s, in the first and the last second of a trip,
//! its samples would look like those of a parked one; the ends of a trip may differ by more.

use std::ops::RangeInclusive;

use super::cell::{Cell, Ends, Fleet};
use super::random::Random;

pub const SECOND_MS: i64 = 1000;
pub const MINUTE_MS: i64 = 60 * SECOND_MS;
pub const HOUR_MS: i64 = 60 * MINUTE_MS;
pub const DAY_MS: i64 = 24 * HOUR_MS;

/// A part of a trip at one speed.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub duration_ms: i64,
    /// 0: the vehicle waits, and its trip does not end.
    pub speed_cmps: i64,
    /// The tracker cannot send, nor know where it is.
    pub is_tunnel: bool,
}

/// A true trip. Fleets by ignition: from ignition on to ignition off. By standing: while it moves,
/// jams and red lights included.
#[derive(Clone, Debug)]
pub struct Trip {
    pub start_ms: i64,
    pub pieces: Vec<Piece>,
}

impl Trip {
    pub fn end_ms(&self) -> i64 {
        self.start_ms + self.pieces.iter().map(|piece| piece.duration_ms).sum::<i64>()
    }

    /// Its pieces, each with its start and end.
    pub fn timed(&self) -> impl Iterator<Item = (i64, i64, Piece)> {
        let mut now_ms = self.start_ms;
        self.pieces.iter().map(move |piece| {
            let start_ms = now_ms;
            now_ms += piece.duration_ms;
            (start_ms, now_ms, *piece)
        })
    }
}

/// How it drives on a kind of road.
struct Road {
    speed_cmps: RangeInclusive<i64>,
    /// For how long nothing stops it.
    stretch_ms: RangeInclusive<i64>,
    /// One hindrance in this number is a jam.
    jam_one_in: i64,
    /// One of the others in this number is a tunnel. The rest are red lights.
    tunnel_one_in: i64,
}

/// Between two doors of a parcel round.
const STREET: Road = Road {
    speed_cmps: 500..=1200,
    stretch_ms: 30 * SECOND_MS..=120 * SECOND_MS,
    jam_one_in: 50,
    tunnel_one_in: i64::MAX,
};

/// Through a town.
const TOWN: Road = Road {
    speed_cmps: 700..=2000,
    stretch_ms: 2 * MINUTE_MS..=6 * MINUTE_MS,
    jam_one_in: 20,
    tunnel_one_in: 20,
};

const MOTORWAY: Road = Road {
    speed_cmps: 1800..=2500,
    stretch_ms: 10 * MINUTE_MS..=40 * MINUTE_MS,
    jam_one_in: 6,
    tunnel_one_in: 6,
};

/// The true trips of a vehicle from midnight of day 0 on.
pub fn plan(random: &mut Random, cell: Cell, vehicle: u64, days: i64) -> Vec<Trip> {
    let mut trips = Vec::new();
    for day in 0..days {
        let first_ms = match cell.fleet {
            // Every other driver works at night.
            Fleet::LongHaul if vehicle % 2 == 1 => random.between(17 * HOUR_MS..=20 * HOUR_MS),
            Fleet::Parcel | Fleet::Service | Fleet::LongHaul => {
                random.between(5 * HOUR_MS..=8 * HOUR_MS)
            }
        };
        let mut shift = Shift { random, cell, now_ms: day * DAY_MS + first_ms, trips: Vec::new() };
        match cell.fleet {
            Fleet::Parcel => shift.deliver(),
            Fleet::Service => shift.visit(),
            Fleet::LongHaul => shift.haul(),
        }
        trips.append(&mut shift.trips);
    }
    trips
}

/// The trips of a driver until the next long rest.
struct Shift<'a> {
    random: &'a mut Random,
    cell: Cell,
    now_ms: i64,
    trips: Vec<Trip>,
}

impl Shift<'_> {
    fn deliver(&mut self) {
        let stops = self.random.between(80..=120);
        self.drive(&TOWN, 20 * MINUTE_MS..=40 * MINUTE_MS);
        for stop in 1..stops {
            self.rest(30 * SECOND_MS..=4 * MINUTE_MS);
            self.drive(&STREET, 45 * SECOND_MS..=150 * SECOND_MS);
            if stop == stops / 2 {
                self.rest(30 * MINUTE_MS..=45 * MINUTE_MS);
                self.drive(&STREET, 45 * SECOND_MS..=150 * SECOND_MS);
            }
        }
        self.rest(30 * SECOND_MS..=4 * MINUTE_MS);
        self.drive(&TOWN, 20 * MINUTE_MS..=40 * MINUTE_MS);
    }

    fn visit(&mut self) {
        for _ in 0..self.random.between(6..=12) {
            self.drive(&TOWN, 8 * MINUTE_MS..=35 * MINUTE_MS);
            self.rest(5 * MINUTE_MS..=60 * MINUTE_MS);
        }
        self.drive(&TOWN, 8 * MINUTE_MS..=35 * MINUTE_MS);
    }

    fn haul(&mut self) {
        for nth in 0..self.random.between(3..=4) {
            if nth > 0 {
                self.rest(15 * MINUTE_MS..=50 * MINUTE_MS);
            }
            self.drive(&MOTORWAY, 90 * MINUTE_MS..=180 * MINUTE_MS);
        }
    }

    fn rest(&mut self, duration_ms: RangeInclusive<i64>) {
        self.now_ms += self.random.between(duration_ms);
    }

    /// A trip that moves for a duration, to which hindrances are added.
    fn drive(&mut self, road: &Road, duration_ms: RangeInclusive<i64>) {
        let mut pieces = Vec::new();
        self.idle(&mut pieces, 3 * SECOND_MS..=40 * SECOND_MS);
        let shortest_ms = *road.stretch_ms.start();
        let mut left_ms = self.random.between(duration_ms);
        loop {
            let stretch_ms = self.random.between(road.stretch_ms.clone());
            let is_last = left_ms - stretch_ms < shortest_ms;
            let duration_ms = if is_last { left_ms } else { stretch_ms };
            let speed_cmps = self.random.between(road.speed_cmps.clone());
            pieces.push(Piece { duration_ms, speed_cmps, is_tunnel: false });
            if is_last {
                break;
            }
            left_ms -= stretch_ms;
            self.hinder(road, &mut pieces);
        }
        self.idle(&mut pieces, SECOND_MS..=30 * SECOND_MS);
        let trip = Trip { start_ms: self.now_ms, pieces };
        self.now_ms = trip.end_ms();
        self.trips.push(trip);
    }

    /// Between turning the key and moving.
    fn idle(&mut self, pieces: &mut Vec<Piece>, duration_ms: RangeInclusive<i64>) {
        if self.cell.ends == Ends::Ignition {
            pieces.push(wait(self.random.between(duration_ms)));
        }
    }

    fn hinder(&mut self, road: &Road, pieces: &mut Vec<Piece>) {
        if self.random.is_one_in(road.jam_one_in) {
            self.jam(pieces);
        } else if self.random.is_one_in(road.tunnel_one_in) {
            let duration_ms = self.random.between(6 * MINUTE_MS..=12 * MINUTE_MS);
            let speed_cmps = self.random.between(road.speed_cmps.clone());
            pieces.push(Piece { duration_ms, speed_cmps, is_tunnel: true });
        } else {
            pieces.push(wait(self.random.between(15 * SECOND_MS..=90 * SECOND_MS)));
        }
    }

    /// 10 minutes. Where the ignition says that the trip does not end, the vehicle waits for all of
    /// them in every other jam.
    fn jam(&mut self, pieces: &mut Vec<Piece>) {
        let mut left_ms = 10 * MINUTE_MS;
        if self.cell.ends == Ends::Ignition && self.random.is_one_in(2) {
            pieces.push(wait(left_ms));
            return;
        }
        while left_ms > 0 {
            // It moves for longer than a tracker's interval.
            let moves_ms = self.random.between(40 * SECOND_MS..=70 * SECOND_MS);
            let waits_ms = self.random.between(20 * SECOND_MS..=120 * SECOND_MS);
            let speed_cmps = self.random.between(250..=500);
            pieces.push(wait(waits_ms));
            pieces.push(Piece { duration_ms: moves_ms, speed_cmps, is_tunnel: false });
            left_ms -= moves_ms + waits_ms;
        }
    }
}

fn wait(duration_ms: i64) -> Piece {
    Piece { duration_ms, speed_cmps: 0, is_tunnel: false }
}

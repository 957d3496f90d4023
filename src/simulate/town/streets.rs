//! The streets of a town, drawn by chance, and a motorway to the next town.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Point;
use crate::simulate::random::Random;

/// Crossings from west to east, and from south to north.
const COLUMNS: usize = 19;
const ROWS: usize = 13;

/// Distance of neighbouring crossings, m, but for chance.
const BLOCK_M: f64 = 280.0;

/// Speeds on main streets, in others, and on the motorway, m/s.
const SPEEDS_MPS: [f64; 3] = [13.0, 8.0, 22.0];

/// Share of the small streets that the town lacks.
const MISSING: f64 = 0.25;

/// Length of the motorway, m, and of its parts.
const MOTORWAY_M: f64 = 190_000.0;
const PART_M: f64 = 900.0;

/// Number of bus lines, and of the stops of each.
const LINES: usize = 3;
const BUS_STOPS: usize = 12;

/// A straight part of a drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    pub to: Point,
    pub speed_mps: f64,
    /// Whether a traffic light may be at its end.
    pub has_light: bool,
}

/// A street from a crossing to another one.
#[derive(Debug)]
struct Street {
    to: usize,
    /// Its middle, off the straight line.
    bend: Point,
    metres: f64,
    speed_mps: f64,
}

/// The streets.
#[derive(Debug)]
pub(super) struct Streets {
    crossings: Vec<Point>,
    /// By crossing.
    streets: Vec<Vec<Street>>,
    /// The crossings that streets lead to.
    reachable: Vec<usize>,
    motorway: Vec<Point>,
    /// The stops of the bus lines, each a crossing.
    lines: Vec<Vec<usize>>,
}

impl Streets {
    pub(super) fn new(random: &mut Random) -> Self {
        let mut streets = Self {
            crossings: Vec::new(),
            streets: Vec::new(),
            reachable: Vec::new(),
            motorway: Vec::new(),
            lines: Vec::new(),
        };
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                let mut at = |nth: usize, count: usize| {
                    #[expect(clippy::cast_precision_loss, reason = "at most 19")]
                    let blocks = nth as f64 - (count - 1) as f64 / 2.0;
                    (blocks + (random.unit() - 0.5) * 0.5) * BLOCK_M
                };
                streets.crossings.push([at(column, COLUMNS), at(row, ROWS)]);
                streets.streets.push(Vec::new());
            }
        }
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                let from = row * COLUMNS + column;
                if column + 1 < COLUMNS {
                    streets.add(from, from + 1, row % 4 == 2, random);
                }
                if row + 1 < ROWS {
                    streets.add(from, from + COLUMNS, column % 5 == 2, random);
                }
            }
        }
        streets.find_reachable();
        streets.motorway = motorway(streets.crossings[streets.exit()], random);
        for _ in 0..LINES {
            let stops = (0..BUS_STOPS).map(|_| streets.crossing(random)).collect();
            streets.lines.push(stops);
        }
        streets
    }

    fn add(&mut self, from: usize, to: usize, is_main: bool, random: &mut Random) {
        if !is_main && random.unit() < MISSING {
            return;
        }
        let (start, end) = (self.crossings[from], self.crossings[to]);
        let [east, north] = [end[0] - start[0], end[1] - start[1]];
        let off = (random.unit() - 0.5) * if is_main { 0.1 } else { 0.3 };
        let bend = [
            f64::midpoint(start[0], end[0]) - north * off,
            f64::midpoint(start[1], end[1]) + east * off,
        ];
        let metres = distance_m(start, bend) + distance_m(bend, end);
        let speed_mps = SPEEDS_MPS[usize::from(!is_main)];
        for (from, to) in [(from, to), (to, from)] {
            self.streets[from].push(Street { to, bend, metres, speed_mps });
        }
    }

    fn find_reachable(&mut self) {
        let mut is_known = vec![false; self.crossings.len()];
        let mut open = vec![self.exit()];
        while let Some(crossing) = open.pop() {
            if !std::mem::replace(&mut is_known[crossing], true) {
                self.reachable.push(crossing);
                open.extend(self.streets[crossing].iter().map(|street| street.to));
            }
        }
    }

    /// The crossing, on a main street, at which the motorway begins.
    pub(super) fn exit(&self) -> usize {
        6 * COLUMNS + COLUMNS - 1
    }

    /// Any crossing that streets lead to.
    pub(super) fn crossing(&self, random: &mut Random) -> usize {
        self.reachable[random.index(self.reachable.len())]
    }

    /// The stops of a bus line.
    pub(super) fn line(&self, number: usize) -> &[usize] {
        &self.lines[number % LINES]
    }

    pub(super) fn point(&self, crossing: usize) -> Point {
        self.crossings[crossing]
    }

    /// The end of the motorway.
    pub(super) fn next_town(&self) -> Point {
        self.motorway[self.motorway.len() - 1]
    }

    /// The motorway and the streets, each with its kind.
    pub(super) fn lines(&self) -> Vec<(&'static str, Vec<Point>)> {
        let mut lines = vec![("highway", self.motorway.clone())];
        for (from, streets) in self.streets.iter().enumerate() {
            for street in streets.iter().filter(|street| from < street.to) {
                let is_main = street.speed_mps > SPEEDS_MPS[1];
                let kind = if is_main { "major_road" } else { "minor_road" };
                let line = vec![self.crossings[from], street.bend, self.crossings[street.to]];
                lines.push((kind, line));
            }
        }
        lines
    }

    /// The fastest drive from a crossing to another one.
    pub(super) fn drive(&self, from: usize, to: usize) -> Vec<Leg> {
        let mut best_ms = vec![u64::MAX; self.crossings.len()];
        let mut before = vec![None; self.crossings.len()];
        let mut open = BinaryHeap::from([Reverse((0, from))]);
        best_ms[from] = 0;
        while let Some(Reverse((ms, crossing))) = open.pop() {
            if crossing == to {
                break;
            }
            for (nth, street) in self.streets[crossing].iter().enumerate() {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ms")]
                let ms = ms + (street.metres / street.speed_mps * 1e3) as u64;
                if ms < best_ms[street.to] {
                    best_ms[street.to] = ms;
                    before[street.to] = Some((crossing, nth));
                    open.push(Reverse((ms, street.to)));
                }
            }
        }
        let (mut legs, mut crossing) = (Vec::new(), to);
        while let Some((from, nth)) = before[crossing].filter(|_| crossing != from) {
            let Street { bend, speed_mps, .. } = self.streets[from][nth];
            let end = Leg { to: self.crossings[crossing], speed_mps, has_light: true };
            legs.extend([end, Leg { to: bend, has_light: false, ..end }]);
            crossing = from;
        }
        legs.reverse();
        legs
    }

    /// The drive along the motorway, to the next town or back.
    pub(super) fn motorway(&self, is_back: bool) -> Vec<Leg> {
        let leg = |to: &Point| Leg { to: *to, speed_mps: SPEEDS_MPS[2], has_light: false };
        match is_back {
            false => self.motorway.iter().map(leg).collect(),
            true => self.motorway.iter().rev().map(leg).collect(),
        }
    }
}

/// A winding line to the east.
fn motorway(from: Point, random: &mut Random) -> Vec<Point> {
    let (mut at, mut angle, mut turn, mut metres) = (from, 0.1, 0.0, 0.0);
    let mut points = vec![at];
    while metres < MOTORWAY_M {
        turn = turn * 0.9 + (random.unit() - 0.5) * 0.06;
        angle = angle * 0.97 + turn;
        at = [at[0] + libm::cos(angle) * PART_M, at[1] + libm::sin(angle) * PART_M];
        points.push(at);
        metres += PART_M;
    }
    points
}

pub(super) fn distance_m(from: Point, to: Point) -> f64 {
    let [east, north] = [to[0] - from[0], to[1] - from[1]];
    libm::sqrt(east * east + north * north)
}

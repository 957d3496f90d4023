//! One pass over the log: the program's own decision of what each arrival does, and which trips
//! come of it.

use std::collections::HashMap;

use anyhow::{Context as _, ensure};
use tstar::timeline::{Arrival, Limits, Outcome, Timeline, Trip, day_of};

use crate::log::{Arrived, Log, place};

/// Trips that ended so long before a trip begins take no further sample of this fleet, ms.
const SETTLED_MS: i64 = 3_600_000;

/// No trip, as a place in a list of trips.
pub const NONE: u32 = u32::MAX;

/// A trip as it is at the end of the log, and how it came to be.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Whose, from 1.
    pub device: u32,
    /// Device time of its first-arrived sample, ms since 1970.
    pub t_star_ms: i64,
    /// Its span, ms since 1970; as it was when a merge retired it.
    pub start_ms: i64,
    /// See `start_ms`.
    pub end_ms: i64,
    /// Which arrival began it, from 0.
    pub born: u64,
    /// When that arrived, ms since 1970.
    pub clock_ms: i64,
    /// The trip that a merge made it part of, or [`NONE`].
    pub into: u32,
    /// Which arrival did that.
    pub retired: u64,
}

impl Seen {
    /// Whether no merge retired it.
    pub fn stands(&self) -> bool {
        self.into == NONE
    }
}

/// The trips of a pass, in the order in which they began.
#[derive(Debug, Default)]
pub struct History {
    /// All that began, those that were merged away included.
    pub trips: Vec<Seen>,
}

impl History {
    /// The trips that stand at the end.
    pub fn standing(&self) -> impl Iterator<Item = (u32, &Seen)> {
        (0..).zip(&self.trips).filter(|(_, trip)| trip.stands())
    }

    /// The trip that stands for one that began.
    pub fn root(&self, mut trip: u32) -> u32 {
        while self.trips[trip as usize].into != NONE {
            trip = self.trips[trip as usize].into;
        }
        trip
    }
}

/// What an arrival did, as a watcher is told.
pub struct Change<'a> {
    /// What arrived.
    pub arrived: &'a Arrived,
    /// What it did.
    pub arrival: Arrival,
    /// The trip that it is part of now, with its span as it was before.
    pub trip: u32,
    /// Start and end before this arrival.
    pub before: (i64, i64),
    /// The trip that it retired, or [`NONE`].
    pub retired: u32,
}

/// Looks on while the log is read.
pub trait Watcher {
    /// After each arrival that is neither a duplicate nor anything else that changes nothing.
    ///
    /// # Errors
    /// What it saw cannot be.
    fn saw(&mut self, history: &History, change: &Change<'_>) -> anyhow::Result<()>;

    /// Before a trip begins: trips of the device that end before this time grow no more.
    fn settled(&mut self, history: &History, device: u32, before_ms: i64);
}

/// Nobody looks on.
impl Watcher for () {
    fn saw(&mut self, _: &History, _: &Change<'_>) -> anyhow::Result<()> {
        Ok(())
    }

    fn settled(&mut self, _: &History, _: u32, _: i64) {}
}

/// How the log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A sample a record.
    Straight,
    /// So many samples a record, decided together.
    Batches(u64),
    /// A sample a record; once half of the trips have begun another owner goes on from their rows.
    TakenOver,
}

struct Device {
    timeline: Timeline,
    /// Trips that may still grow: `t_star` and place in the history.
    open: Vec<(i64, u32)>,
    /// Where the last trip ends that was let go.
    settled_ms: i64,
}

/// Reads the log until so many trips have begun.
///
/// # Errors
/// A trip is not what it has to be.
pub fn read(
    devices: u32,
    begun: usize,
    way: Way,
    look: &mut impl Watcher,
) -> anyhow::Result<History> {
    let (mut log, limits) = (Log::new(devices)?, Limits::default());
    let mut history = History::default();
    let mut fleet: Vec<_> = (0..devices)
        .map(|_| Device { timeline: Timeline::default(), open: Vec::new(), settled_ms: i64::MIN })
        .collect();
    let (mut nth, mut is_taken) = (0, way != Way::TakenOver);
    while history.trips.len() < begun {
        if !is_taken && history.trips.len() >= begun / 2 {
            fleet.iter_mut().for_each(|device| device.timeline = taken_over(&device.timeline));
            is_taken = true;
        }
        let arrived = log.arrival()?;
        let device = &mut fleet[place(arrived.device)];
        let record = if let Way::Batches(samples) = way { nth / samples } else { nth };
        let reach_ms = arrived.sample.time_ms - limits.max_gap_ms;
        ensure!(reach_ms > device.settled_ms, "a sample reached a trip that was let go");
        let version = 2 * record.cast_signed();
        let outcome = device.timeline.absorb(&limits, version, arrived.sample, None);
        if let Outcome::Applied(arrival) = outcome {
            if arrival == Arrival::New {
                let before_ms = arrived.sample.time_ms - SETTLED_MS;
                look.settled(&history, arrived.device, before_ms);
                device.settle(&history, before_ms);
            }
            let change = device.change(&mut history, &arrived, nth, arrival)?;
            look.saw(&history, &change)?;
        }
        nth += 1;
    }
    Ok(history)
}

impl Device {
    fn settle(&mut self, history: &History, before_ms: i64) {
        self.timeline.forget(before_ms);
        self.open.retain(|&(_, trip)| {
            let end_ms = history.trips[trip as usize].end_ms;
            let is_open = end_ms >= before_ms;
            if !is_open {
                self.settled_ms = self.settled_ms.max(end_ms);
            }
            is_open
        });
    }

    /// Brings the history up to date.
    fn change<'a>(
        &mut self,
        history: &mut History,
        arrived: &'a Arrived,
        nth: u64,
        arrival: Arrival,
    ) -> anyhow::Result<Change<'a>> {
        let time_ms = arrived.sample.time_ms;
        let now = self.timeline.covering(time_ms).context("a kept sample has a trip")?;
        let (t_star_ms, span) = (now.t_star_ms, (now.start_ms(), now.end_ms()));
        if arrival == Arrival::New {
            let trip = u32::try_from(history.trips.len())?;
            self.open.push((t_star_ms, trip));
            history.trips.push(Seen {
                device: arrived.device,
                t_star_ms,
                start_ms: span.0,
                end_ms: span.1,
                born: nth,
                clock_ms: arrived.clock_ms,
                into: NONE,
                retired: u64::MAX,
            });
            return Ok(Change { arrived, arrival, trip, before: span, retired: NONE });
        }
        let known = self.open.iter().rev().find(|&&(other, _)| other == t_star_ms);
        let &(_, trip) = known.context("a trip changed its t_star")?;
        let mut retired = NONE;
        if arrival == Arrival::Merge {
            let is_gone =
                |&(other, _): &(i64, u32)| other != t_star_ms && (span.0..=span.1).contains(&other);
            let at = self.open.iter().position(is_gone).context("a merge joins two trips")?;
            retired = self.open.remove(at).1;
            ensure!(now.absorbed.contains_key(&history.trips[retired as usize].t_star_ms));
            history.trips[retired as usize].into = trip;
            history.trips[retired as usize].retired = nth;
        }
        let seen = &mut history.trips[trip as usize];
        let before = (seen.start_ms, seen.end_ms);
        (seen.start_ms, seen.end_ms) = span;
        Ok(Change { arrived, arrival, trip, before, retired })
    }
}

/// The timeline of another owner, who has read this one's rows.
fn taken_over(timeline: &Timeline) -> Timeline {
    let rows: Vec<_> = timeline
        .trips()
        .map(|trip| {
            let path = trip.path().clone();
            Trip::loaded(
                trip.t_star_ms,
                trip.minted,
                trip.version,
                trip.absorbed.clone(),
                None,
                path,
            )
        })
        .collect();
    let mut days: Vec<_> =
        rows.iter().flat_map(|row| [day_of(row.start_ms()), day_of(row.end_ms())]).collect();
    days.sort_unstable();
    days.dedup();
    let mut taken = Timeline::default();
    taken.insert_loaded(&days, rows, i64::MAX);
    taken
}

/// The trips that stand, by device and span: what is the same trip in two passes.
pub fn by_span(history: &History) -> HashMap<(u32, i64, i64), u32> {
    history.standing().map(|(at, trip)| ((trip.device, trip.start_ms, trip.end_ms), at)).collect()
}

//! One pass over the log: tstar's timeline decides the effect of each arrival, and the history
//! records the trips.

use std::collections::HashMap;

use anyhow::{Context as _, ensure};
use tstar::internals::model::scalar::{DeviceTime, Version};
use tstar::internals::segment::{Arrival, Outcome, Outline, Segment, SegmentRules, Timeline};
use tstar::internals::timeline::Sample;

use crate::log::{Arrived, Log, slot_of};

/// When a trip starts, trips that ended at least this long before it take no further sample of this
/// fleet, ms.
const SETTLED_MS: i64 = 3_600_000;

/// Index that means no trip.
pub const NONE: u32 = u32::MAX;

/// A trip at the end of the log, and its origin.
#[derive(Clone, Copy, Debug)]
pub struct TripRecord {
    /// Number of the device, from 1.
    pub device: u32,
    /// Device time of the first-arrived sample, ms since 1970.
    pub t_star_ms: DeviceTime,
    /// Start, ms since 1970; of a retired trip, that before the merge.
    pub start_ms: DeviceTime,
    /// End, as `start_ms`.
    pub end_ms: DeviceTime,
    /// Index of the arrival that started it, from 0.
    pub born: u64,
    /// Arrival time of that sample, ms since 1970.
    pub clock_ms: i64,
    /// Index of the trip that absorbed it, or [`NONE`].
    pub into: u32,
    /// Index of the arrival that merged it.
    pub retired: u64,
}

impl TripRecord {
    /// Whether no merge has retired it.
    pub fn is_remaining(&self) -> bool {
        self.into == NONE
    }
}

/// The trips of a pass, in the order of their first arrivals.
#[derive(Debug, Default)]
pub struct History {
    /// All trips, including retired ones.
    pub trips: Vec<TripRecord>,
}

impl History {
    /// The trips that no merge has retired, with their indexes.
    pub fn remaining(&self) -> impl Iterator<Item = (u32, &TripRecord)> {
        (0..).zip(&self.trips).filter(|(_, trip)| trip.is_remaining())
    }

    /// The remaining trip that contains a trip.
    pub fn root(&self, mut trip: u32) -> u32 {
        while self.trips[trip as usize].into != NONE {
            trip = self.trips[trip as usize].into;
        }
        trip
    }
}

/// The effect of an arrival, as passed to a watcher.
pub struct Change<'a> {
    /// The arrival.
    pub arrived: &'a Arrived,
    /// Its kind.
    pub arrival: Arrival,
    /// Index of the trip that contains the sample now.
    pub trip: u32,
    /// Start and end of that trip before the arrival.
    pub before: (DeviceTime, DeviceTime),
    /// Index of the trip that it retired, or [`NONE`].
    pub retired: u32,
}

/// Receives events while the log is read.
pub trait Watcher {
    /// Called after each arrival that changed a trip.
    ///
    /// # Errors
    /// The change is inconsistent.
    fn on_change(&mut self, history: &History, change: &Change<'_>) -> anyhow::Result<()>;

    /// Called before a trip starts: trips of the device that end before `before_ms` are final.
    fn on_settled(&mut self, history: &History, device: u32, before_ms: DeviceTime);
}

/// Ignores all events.
impl Watcher for () {
    fn on_change(&mut self, _: &History, _: &Change<'_>) -> anyhow::Result<()> {
        Ok(())
    }

    fn on_settled(&mut self, _: &History, _: u32, _: DeviceTime) {}
}

/// How the log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One sample per record.
    Straight,
    /// This number of samples per record, decided together.
    Batches(u64),
    /// One sample per record; after half of the trips, another owner continues from the rows.
    TakenOver,
}

struct Device {
    timeline: Timeline,
    /// Trips that may still grow: `t_star` and index in the history.
    open: Vec<(DeviceTime, u32)>,
    /// Latest end of the trips that were evicted.
    settled_ms: DeviceTime,
}

/// Reads the log until `begun` trips have started.
///
/// # Errors
/// A trip is inconsistent.
pub fn read(
    devices: u32,
    begun: usize,
    way: Way,
    watcher: &mut impl Watcher,
) -> anyhow::Result<History> {
    let (mut log, rules) = (Log::new(devices)?, SegmentRules::default());
    let mut history = History::default();
    let mut fleet: Vec<_> = (0..devices)
        .map(|_| Device {
            timeline: Timeline::in_memory(),
            open: Vec::new(),
            settled_ms: DeviceTime::MIN,
        })
        .collect();
    let (mut nth, mut is_taken) = (0, way != Way::TakenOver);
    while history.trips.len() < begun {
        if !is_taken && history.trips.len() >= begun / 2 {
            let others = fleet.iter_mut();
            others.for_each(|device| device.timeline = taken_over(&rules, &device.timeline));
            is_taken = true;
        }
        let arrived = log.arrival()?;
        let device = &mut fleet[slot_of(arrived.device)];
        let record = if let Way::Batches(samples) = way { nth / samples } else { nth };
        let reach_ms = arrived.sample.time_ms - rules.max_gap_ms;
        ensure!(reach_ms > device.settled_ms, "a sample reached an evicted trip");
        let version = 2 * record.cast_signed();
        let outcome = device.timeline.absorb(
            &rules,
            Sample { version: Version(version), ..arrived.sample },
            None,
        );
        if let Outcome::Applied(arrival) = outcome {
            if arrival == Arrival::New {
                let before_ms = arrived.sample.time_ms - SETTLED_MS;
                watcher.on_settled(&history, arrived.device, before_ms);
                device.evict(&history, before_ms);
            }
            let change = device.change(&mut history, &arrived, nth, arrival)?;
            watcher.on_change(&history, &change)?;
        }
        nth += 1;
    }
    Ok(history)
}

impl Device {
    fn evict(&mut self, history: &History, before_ms: DeviceTime) {
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

    /// Updates the history after an arrival.
    fn change<'a>(
        &mut self,
        history: &mut History,
        arrived: &'a Arrived,
        nth: u64,
        arrival: Arrival,
    ) -> anyhow::Result<Change<'a>> {
        let time_ms = arrived.sample.time_ms;
        let now = self.timeline.covering(time_ms).context("a kept sample has a trip")?;
        let (t_star_ms, span) = (now.t_star_ms(), (now.start_ms(), now.end_ms()));
        if arrival == Arrival::New {
            let trip = u32::try_from(history.trips.len())?;
            self.open.push((t_star_ms, trip));
            history.trips.push(TripRecord {
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
        let divides = [Arrival::Split, Arrival::Turn].contains(&arrival);
        ensure!(!divides, "a sample split a trip, or made a stop of it");
        let found = self.open.iter().rev().find(|&&(other, _)| other == t_star_ms);
        let &(_, trip) = found.context("a trip changed its t_star")?;
        let mut retired = NONE;
        if arrival == Arrival::Merge {
            let is_retired = |&(other, _): &(DeviceTime, u32)| {
                other != t_star_ms && (span.0..=span.1).contains(&other)
            };
            let at = self.open.iter().position(is_retired).context("a merge joins two trips")?;
            retired = self.open.remove(at).1;
            let points = &now.outline().points;
            ensure!(points.get(history.trips[retired as usize].t_star_ms).is_some());
            history.trips[retired as usize].into = trip;
            history.trips[retired as usize].retired = nth;
        }
        let seen = &mut history.trips[trip as usize];
        let before = (seen.start_ms, seen.end_ms);
        (seen.start_ms, seen.end_ms) = span;
        Ok(Change { arrived, arrival, trip, before, retired })
    }
}

/// The timeline of another owner that has loaded the rows of this one.
fn taken_over(rules: &SegmentRules, timeline: &Timeline) -> Timeline {
    let row = |trip: &Segment| {
        let Outline { kind, points, version, .. } = trip.outline().clone();
        Segment::loaded(rules, kind, points, version, trip.path().clone())
    };
    let mut taken = Timeline::in_memory();
    taken.insert_loaded(rules, &[], timeline.segments().map(row).collect(), Version::MAX);
    taken
}

/// The remaining trips by device and span, which identify a trip across passes.
pub fn by_span(history: &History) -> HashMap<(u32, DeviceTime, DeviceTime), u32> {
    history.remaining().map(|(at, trip)| ((trip.device, trip.start_ms, trip.end_ms), at)).collect()
}

//! Part of a device's trips in memory, the rest as rows: a store in a list, and the rules by which
//! its rows join the trips in memory.

use super::{MINUTE, UNLIMITED, fix, run, sample};
use std::collections::BTreeMap;
use tstar::internals::model::scalar::{Day, DeviceTime, Version};
use tstar::internals::timeline::{Limits, Path, Sample, Timeline, Trip};

/// A trip as a store holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub t_star: DeviceTime,
    pub minted: i64,
    pub version: i64,
    pub absorbed: BTreeMap<DeviceTime, Vec<Version>>,
    pub samples: Vec<(Sample, Option<String>)>,
}

impl Row {
    pub fn from_trip(trip: &Trip) -> Self {
        let driver = |at| trip.path().driver_at(at).map(str::to_owned);
        let samples = trip.path().iter().map(|sample| (sample, driver(sample.time_ms)));
        Self {
            t_star: trip.t_star_ms,
            minted: trip.minted.get(),
            version: trip.version.get(),
            absorbed: trip.absorbed.clone(),
            samples: samples.collect(),
        }
    }

    pub fn trip(&self) -> Trip {
        let samples = self.samples.iter().map(|(sample, _)| *sample);
        let mut path = Path::from_sorted(samples).expect("they were sorted");
        for (sample, driver) in &self.samples {
            path.name_driver(sample.time_ms, driver.as_deref());
        }
        let (minted, version) = (Version(self.minted), Version(self.version));
        Trip::loaded(self.t_star, minted, version, self.absorbed.clone(), path)
    }

    pub fn start(&self) -> DeviceTime {
        self.samples[0].0.time_ms
    }

    pub fn end(&self) -> DeviceTime {
        self.samples[self.samples.len() - 1].0.time_ms
    }
}

/// The rows of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows(pub Vec<Row>);

impl Rows {
    /// Replaces what the trip overlaps, as a write does.
    pub fn write(&mut self, trip: &Trip) {
        let (start, end) = (trip.start_ms(), trip.end_ms());
        self.0.retain(|row| row.end() < start || end < row.start());
        self.0.push(Row::from_trip(trip));
        self.0.sort_unstable_by_key(Row::start);
    }

    /// One copy per day of `days` that a row touches.
    pub fn load(&self, days: &[Day]) -> Vec<Trip> {
        // Not the program's own function: a change of it must not move the days of the store.
        let day = |time: DeviceTime| time.ms().div_euclid(86_400_000);
        let of_day = |asked: i64| {
            let touches = move |row: &&Row| day(row.start()) <= asked && asked <= day(row.end());
            self.0.iter().filter(touches).map(Row::trip)
        };
        days.iter().flat_map(|&day| of_day(day.get())).collect()
    }
}

fn row(arrivals: &'static str, version: i64) -> Trip {
    let (timeline, _) = run(&UNLIMITED, arrivals);
    let mut row = Row::from_trip(timeline.trips().next().expect("one trip"));
    row.version = version;
    row.trip()
}

/// Loads rows into the trips of `arrivals`: how many overlapped, then each trip as
/// `start..end@version` and the version from which it is dirty.
fn joined(arrivals: &'static str, rows: Vec<Trip>, acknowledged: i64) -> (usize, Vec<String>) {
    let (mut timeline, _) = run(&UNLIMITED, arrivals);
    timeline.trips_mut().for_each(|trip| {
        trip.take_unflushed();
    });
    let overlaps = timeline.insert_loaded(&[Day(0)], rows, Version(acknowledged));
    timeline.check(&UNLIMITED);
    let spelled = timeline.trips().map(|trip| {
        let (start, end) = (trip.start_ms().ms() / MINUTE, trip.end_ms().ms() / MINUTE);
        format!("{start}..{end}@{} {:?}", trip.version, trip.unflushed())
    });
    (overlaps, spelled.collect())
}

#[test]
fn of_overlapping_trips_the_newest_wins_whole_and_is_written_again() {
    let (overlaps, trips) = joined("0 5", vec![row("0 5 10", 8)], 6);
    assert_eq!((overlaps, trips), (1, vec!["0..10@8 Some(6)".into()]));
    let (overlaps, trips) = joined("0 5", vec![row("3 8", 1)], 6);
    assert_eq!((overlaps, trips), (1, vec!["0..5@2 Some(6)".into()]));
    // One row over two trips in memory.
    let (overlaps, trips) = joined("0 20", vec![row("0 5 10 15 20", 8)], 6);
    assert_eq!((overlaps, trips), (1, vec!["0..20@8 Some(6)".into()]));
}

#[test]
fn a_row_that_is_ahead_is_written_again_and_a_known_one_is_not() {
    let ahead = |acknowledged| joined("0", vec![row("60 61", 6), row("60 61", 6)], acknowledged).1;
    assert_eq!(ahead(6), ["0..0@0 None", "60..61@6 Some(6)"]);
    assert_eq!(ahead(4), ["0..0@0 None", "60..61@6 Some(4)"]);
    assert_eq!(ahead(8), ["0..0@0 None", "60..61@6 None"]);
    assert_eq!(joined("0 5", vec![row("0 5", 2)], 0), (0, vec!["0..5@2 None".into()]));
}

#[test]
fn days_are_floored_and_reach_max_gap_to_both_sides() {
    let limits = Limits { max_gap_ms: 5 * MINUTE, ..UNLIMITED };
    let mut timeline = Timeline::default();
    let day = 1440 * MINUTE;
    for (time, days) in [
        (day / 2, vec![0]),
        (5 * MINUTE - 1, vec![-1, 0]),
        (5 * MINUTE, vec![0]),
        (-1, vec![-1, 0]),
        (-5 * MINUTE - 1, vec![-1]),
        (-day, vec![-2, -1]),
        (2 * day - 5 * MINUTE, vec![1, 2]),
        (2 * day - 5 * MINUTE - 1, vec![1]),
    ] {
        let days: Vec<_> = days.into_iter().map(Day).collect();
        assert_eq!(timeline.missing_days(&limits, DeviceTime(time)), days, "{time}");
    }
    timeline.insert_loaded(&[Day(0)], Vec::new(), Version(0));
    assert_eq!(timeline.missing_days(&limits, DeviceTime(0)), [Day(-1)]);
    timeline.insert_loaded(&[Day(-1)], Vec::new(), Version(0));
    assert!(timeline.missing_days(&limits, DeviceTime(0)).is_empty());
    timeline.evict();
    assert_eq!(timeline.missing_days(&limits, DeviceTime(0)), [Day(-1), Day(0)]);
}

#[test]
fn a_loaded_trip_takes_no_sample_of_a_record_that_it_has_seen() {
    let after = |version: i64, arrival: &'static str| {
        let mut timeline = Timeline::default();
        timeline.insert_loaded(&[Day(0)], vec![row("0 4", 6)], Version(8));
        let fix = fix(arrival);
        super::did(timeline.absorb(&UNLIMITED, Version(version), sample(fix), None))
    };
    use crate::model::literal::Did;
    assert_eq!(after(6, "4"), Did::Duplicate { conflicting: false });
    assert_eq!([after(6, "2"), after(8, "2")], [Did::TripFull, Did::Inside]);
    assert_eq!([after(6, "6"), after(8, "6")], [Did::New, Did::End]);
    assert_eq!([after(6, "-1"), after(8, "-1")], [Did::New, Did::Beginning]);
}

#[test]
fn only_what_was_flushed_is_evicted() {
    let (mut timeline, _) = run(&UNLIMITED, "0 10 20");
    let second = timeline.trips_mut().nth(1).unwrap();
    assert_eq!(second.take_unflushed(), Some(Version(2)));
    timeline.evict();
    let left: Vec<_> = timeline.trips().map(Trip::start_ms).collect();
    assert_eq!(left, [0, 20 * MINUTE].map(DeviceTime));
}

#[test]
fn a_check_allows_for_trips_that_are_not_in_memory() {
    // Three trips that only max_samples keeps apart. Without the middle one, the others look as if
    // they should be one.
    let limits = Limits { max_samples: 3, ..UNLIMITED };
    let (mut timeline, _) = run(&limits, "1 2 3 0 4");
    let middle = timeline.trips_mut().nth(1).unwrap();
    assert_eq!((middle.samples(), middle.take_unflushed()), (3, Some(Version(0))));
    timeline.evict();
    assert_eq!(timeline.trips().count(), 2);
    timeline.check(&limits);
}

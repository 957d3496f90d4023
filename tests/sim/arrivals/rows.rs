//! Part of a device's trips in memory, the rest as rows: a store in a list, and the rules by which
//! its rows join the trips in memory.

use super::{MINUTE, UNLIMITED, arriving, fix, run};
use tstar::internals::model::scalar::{Day, DeviceTime, Version};
use tstar::internals::segment::{
    DaysToLoad, Kind, MintPoints, Segment, SegmentRules, TakenGroup, TakenSpan, Timeline,
};
use tstar::internals::timeline::{Path, Sample};

/// A trip as a store holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub kind: Kind,
    pub version: Version,
    pub ids: MintPoints,
    pub samples: Vec<(Sample, Option<String>)>,
}

impl Row {
    pub fn from_trip(trip: &Segment) -> Self {
        let driver = |at| trip.path().driver_at(at).map(str::to_owned);
        let samples = trip.path().iter().map(|sample| (sample, driver(sample.time_ms)));
        let ids = trip.outline().points.clone();
        let (kind, version) = (trip.outline().kind, trip.version());
        Self { kind, version, ids, samples: samples.collect() }
    }

    pub fn trip(&self, rules: &SegmentRules) -> Segment {
        let samples = self.samples.iter().map(|(sample, _)| *sample);
        let mut path = Path::from_sorted(samples).expect("they were sorted");
        for (sample, driver) in &self.samples {
            path.name_driver(sample.time_ms, driver.as_deref());
        }
        Segment::loaded(rules, self.kind, self.ids.clone(), self.version, path)
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
    /// Removes what is taken away up to its version, and adds what comes instead, unless a newer
    /// row of its span is there.
    pub fn write(&mut self, taken: &[TakenSpan], rows: Vec<Row>) {
        let is_within = |row: &Row, span: &TakenSpan| {
            span.start_ms <= row.end() && row.end() <= span.end_ms && row.version <= span.version
        };
        self.0.retain(|row| !taken.iter().any(|span| is_within(row, span)));
        for row in rows {
            let mut over =
                self.0.iter().filter(|it| it.start() <= row.end() && row.start() <= it.end());
            if over.all(|it| it.version < row.version) {
                self.0.push(row);
            }
        }
        self.0.sort_unstable_by_key(Row::start);
    }

    /// One copy per day that a row touches, and of the days around rows that are ahead.
    pub fn load(
        &self,
        rules: &SegmentRules,
        load: &mut DaysToLoad,
        as_of: Version,
    ) -> Vec<Segment> {
        // Not the program's own function: a change of it must not move the days of the store.
        let day = |time: DeviceTime| time.ms().div_euclid(86_400_000);
        let (mut found, mut read) = (Vec::new(), 0);
        while let Some(asked) = load.days().get(read).map(|day| day.get()) {
            for row in &self.0 {
                if (day(row.start())..=day(row.end())).contains(&asked) {
                    if row.version >= as_of {
                        load.add_around(rules, row.start(), row.end());
                    }
                    found.push(row.trip(rules));
                }
            }
            read += 1;
        }
        found
    }
}

/// The rows of a group.
pub fn rows_of(group: &TakenGroup<'_>) -> Vec<Row> {
    group.segments.iter().map(|trip| Row::from_trip(trip)).collect()
}

/// Loads the trip of `arrivals`, whose records have the versions 0, 2, 4 and so on, as of a record:
/// each part that there was by then as `start..end#t_star@version`.
fn as_of(arrivals: &'static str, version: i64) -> String {
    let (timeline, _) = run(&UNLIMITED, arrivals);
    let rows = timeline.segments().map(|trip| Row::from_trip(trip).trip(&UNLIMITED)).collect();
    let mut loaded = Timeline::default();
    let days: Vec<Day> = (-1..=1).map(Day).collect();
    loaded.insert_loaded(&UNLIMITED, &days, rows, Version(version));
    loaded.check();
    assert_eq!(loaded.unflushed(), None, "nothing that is loaded is written");
    let spelled = loaded.segments().map(|trip| {
        let minutes = [trip.start_ms(), trip.end_ms(), trip.t_star_ms()].map(|at| at.ms() / MINUTE);
        format!("{}..{}#{}@{}", minutes[0], minutes[1], minutes[2], trip.version())
    });
    spelled.collect::<Vec<_>>().join(" ")
}

#[test]
fn of_rows_that_are_ahead_there_is_what_there_was_at_the_record() {
    let arrivals = "10 12 0 2 6 30 31";
    for (version, expected) in [
        (0, ""),
        (2, "10..10#10@0"),
        (4, "10..12#10@2"),
        (6, "0..0#0@4 10..12#10@2"),
        (8, "0..2#0@6 10..12#10@2"),
        (10, "0..12#0@8"),
        (12, "0..12#0@8 30..30#30@10"),
        (14, "0..12#0@8 30..31#30@12"),
    ] {
        assert_eq!(as_of(arrivals, version), expected, "{version}");
    }
}

#[test]
fn days_are_floored_and_reach_to_both_sides() {
    let rules = SegmentRules { max_gap_ms: 5 * MINUTE, ..UNLIMITED };
    let mut timeline = Timeline::default();
    let (day, reach) = (1440 * MINUTE, 10 * MINUTE);
    let missing = |timeline: &Timeline, time| {
        let load = timeline.days_to_load(&rules, DeviceTime(time));
        assert_eq!(load.days().is_empty(), timeline.is_loaded(&rules, DeviceTime(time)));
        load.days().iter().map(|day| day.get()).collect::<Vec<_>>()
    };
    for (time, days) in [
        (day / 2, &[0][..]),
        (reach - 1, &[-1, 0]),
        (reach, &[0]),
        (-1, &[-1, 0]),
        (-reach - 1, &[-1]),
        (-day, &[-2, -1]),
        (2 * day - reach, &[1, 2]),
        (2 * day - reach - 1, &[1]),
    ] {
        assert_eq!(missing(&timeline, time), days, "{time}");
    }
    timeline.insert_loaded(&rules, &[Day(0)], Vec::new(), Version(0));
    assert_eq!(missing(&timeline, 0), [-1]);
    timeline.insert_loaded(&rules, &[Day(-1)], Vec::new(), Version(0));
    assert_eq!(missing(&timeline, 0), [0_i64; 0]);
    timeline.evict();
    assert_eq!(missing(&timeline, 0), [-1, 0]);
}

/// Whether movement fills a day decides where it is cut.
#[test]
fn a_trip_near_a_midnight_asks_for_the_day_across_it() {
    let mut timeline = Timeline::default();
    let days = |timeline: &Timeline, minute: i64| {
        let load = timeline.days_to_load(&UNLIMITED, DeviceTime(minute * MINUTE));
        load.days().iter().map(|day| day.get()).collect::<Vec<_>>()
    };
    timeline.insert_loaded(&UNLIMITED, &[Day(0)], Vec::new(), Version(0));
    timeline.absorb(&UNLIMITED, arriving(fix("4"), 0), None);
    assert_eq!(days(&timeline, 700), [-1]);
    timeline.insert_loaded(&UNLIMITED, &[Day(-1)], Vec::new(), Version(2));
    assert_eq!(days(&timeline, 700), [0_i64; 0]);
    timeline.absorb(&UNLIMITED, arriving(fix("1436"), 4), None);
    assert_eq!(days(&timeline, 700), [1]);
}

#[test]
fn a_record_that_is_read_again_after_later_ones_changes_nothing() {
    use crate::model::literal::Did;
    let after = |version: i64, arrival: &'static str| {
        let (mut timeline, _) = run(&UNLIMITED, "0 2 4");
        super::did(timeline.absorb(&UNLIMITED, arriving(fix(arrival), version), None))
    };
    assert_eq!(after(0, "4"), Did::Duplicate { conflicting: false });
    for arrival in ["3", "6", "-1"] {
        assert_eq!(after(0, arrival), Did::TripFull, "{arrival}");
    }
    assert_eq!(
        [after(6, "3"), after(6, "6"), after(6, "-1")],
        [Did::Inside, Did::End, Did::Beginning]
    );
}

#[test]
fn only_what_was_flushed_is_evicted() {
    let (mut timeline, _) = run(&UNLIMITED, "0 10 20");
    timeline.mark_due(|trip| trip.start_ms() == DeviceTime(10 * MINUTE));
    assert_eq!(timeline.take_groups(false)[0].lowest, Version(2));
    timeline.evict();
    let left: Vec<_> = timeline.segments().map(Segment::start_ms).collect();
    assert_eq!(left, [0, 20 * MINUTE].map(DeviceTime));
}
